"""Saving of what is in the composer, beside the conversation that it is for, and its return."""

from typing import TYPE_CHECKING, cast

from mcphost.store.unsent import UnsentText, make_new_place
from mcphost.tui.widgets.composer import Composer, Draft, TextOrigin, join_drafts

if TYPE_CHECKING:
    from mcphost.tui.screens.chat import ChatScreen

SAVE_SECONDS = 0.6
"""How often the composer is looked at: a text is stored at most this much later."""


class DraftSaver:
    """Saves the draft, the waiting messages and the attachments of the chat for each conversation."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._place = ""
        self._saved: UnsentText = UnsentText()

    def start(self) -> None:
        """Restore the text of the open conversation, and save it from now on."""
        self._chat.run_worker(self._start, group="drafts")

    async def _start(self) -> None:
        unsent, conversation_id = self._chat.host.history.unsent, self._chat.host.conversation.id
        if conversation_id:
            self._place, text = conversation_id, await unsent.load(conversation_id)
        else:
            self._place, text = await unsent.claim_new()
        self._restore(text)
        self._chat.set_interval(SAVE_SECONDS, self.save_soon)

    def save_soon(self) -> None:
        """Save the composer in the background if it changed."""
        if self.capture():
            self._chat.run_worker(self._chat.host.history.unsent.flush, group="drafts")

    def capture(self) -> bool:
        """Hand the present text to the host, which stores it when it ends at the latest; return whether it changed."""
        if not self._place or not self._chat.is_attached:
            return False
        text = self._read()
        place = self._chat.host.conversation.id or self._place
        if text == self._saved and place == self._place:
            return False
        if place != self._place:
            self._chat.host.history.unsent.keep(self._place, UnsentText())
        self._chat.host.history.unsent.keep(place, text)
        self._place, self._saved = place, text
        return True

    def handle_opened(self, conversation_id: str) -> None:
        """Save the text of the conversation that was left, and restore that of the one that was opened."""
        if not self._place or conversation_id == self._place:
            return
        if not conversation_id and self._place.startswith("new-"):
            return
        chat = self._chat
        chat.host.history.unsent.keep(self._place, self._read())
        self._clear()
        self._place, self._saved = conversation_id or make_new_place(), UnsentText()
        chat.run_worker(self._load_opened, group="drafts")

    async def _load_opened(self) -> None:
        unsent, place = self._chat.host.history.unsent, self._place
        text = await unsent.load(place)
        await unsent.flush()
        if place == self._place:
            self._restore(text)

    def _read(self) -> UnsentText:
        draft = self._chat.query_one(Composer).draft
        queued = tuple(text for text, _ in self._chat.queue.describe())
        return UnsentText(draft.text, draft.origin, draft.source, queued, tuple(self._chat.attachments.parts))

    def _clear(self) -> None:
        self._chat.queue.take_all()
        self._chat.attachments.take_all()
        self._chat.query_one(Composer).set_draft(Draft(""))
        self._chat.restore(Draft(""), ())

    def _restore(self, text: UnsentText) -> None:
        """Put a text before what has been written since then; waiting messages become text, and are not sent."""
        self._saved = text
        if not text.is_empty and self._chat.is_attached:
            drafts = (*map(Draft, text.queued), Draft(text.text, cast("TextOrigin", text.origin), text.source))
            self._chat.restore(join_drafts(*drafts), text.attachments)
