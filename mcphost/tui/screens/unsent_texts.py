"""Class that saves and restores unsent text, and the state of an earlier message that is being edited.

Each conversation has its own unsent text.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.screen import Screen

from mcphost.llm.api_key_formats import is_api_key
from mcphost.serialization import replace
from mcphost.store.unsent_texts import UnsentText, make_new_place
from mcphost.translation import N_, _
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft, TextOrigin, join_drafts

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.llm.messages import Part
    from mcphost.tui.message_queue import MessageQueue
    from mcphost.tui.screens.attachments import Attachments

SAVE_SECONDS = 0.6
"""Seconds between checks of the composer's content; a change is stored at most this much later."""


class DraftSaver:
    """Object that saves and restores the draft, queued messages and attachments of each conversation."""

    def __init__(
        self,
        screen: Screen[None],
        host: "Host",
        queue: "MessageQueue",
        attachments: "Attachments",
        restore: "Callable[[Draft, Iterable[Part]], None]",
    ) -> None:
        """Create a saver for the chat *screen*.

        *restore* inserts a draft and attachments before the composer's content, and updates the list of queued
        messages.
        """
        self._screen, self._host = screen, host
        self._queue, self._attachments, self._restore_draft = queue, attachments, restore
        self._place = ""
        self._reserved_id = ""  # the id that the new conversation on the screen will get; "" if none is
        self._saved: UnsentText = UnsentText()

    def start(self) -> None:
        """Restore the unsent text of the open conversation, and start saving it regularly."""
        self._run(self._start)

    async def _start(self) -> None:
        unsent, conversation_id = self._host.history.unsent, self._host.conversation.id
        if conversation_id:
            self._place, text = conversation_id, await unsent.load(conversation_id)
        else:
            self._reserve_id()
            self._place, text = await unsent.claim_new()
        self._restore(text)
        self._screen.set_interval(SAVE_SECONDS, self.save_soon)

    def _reserve_id(self) -> None:
        conversation = self._host.conversation
        self._reserved_id = "" if conversation.id else conversation.reserved_id

    def _run(self, work: Callable[[], Awaitable[Any]]) -> None:
        self._screen.run_worker(work, group="drafts")

    def save_soon(self) -> None:
        """Save the draft, queued messages and attachments in the background if they have changed."""
        if self.capture():
            self._run(self._host.history.unsent.flush)

    def capture(self) -> bool:
        """Pass the draft, queued messages and attachments to the host if they have changed; return False otherwise.

        The host stores them at the latest when mcphost exits.
        """
        if not self._place or not self._screen.is_attached:
            return False
        text = self._read()
        # The host may have opened another conversation, whose event has not arrived yet.
        opened_id = self._host.conversation.id
        place = opened_id if opened_id and opened_id == self._reserved_id else self._place
        if text == self._saved and place == self._place:
            return False
        if place != self._place:
            self._host.history.unsent.keep(self._place, UnsentText())
        self._host.history.unsent.keep(place, text)
        self._place, self._saved = place, text
        return True

    def handle_opened(self, conversation_id: str) -> None:
        """Save the unsent text of the previous conversation, and restore the opened conversation's text."""
        if not self._place or conversation_id == self._place:
            return
        if not conversation_id:
            self._reserve_id()
            if self._place.startswith("new-"):
                return
        self._host.history.unsent.keep(self._place, self._read())
        self._clear()
        self._place, self._saved = conversation_id or make_new_place(), UnsentText()
        self._run(self._load_opened)

    async def _load_opened(self) -> None:
        unsent, place = self._host.history.unsent, self._place
        text = await unsent.load(place)
        await unsent.flush()
        if place == self._place:
            self._restore(text)

    def _read(self) -> UnsentText:
        """Return the draft, queued messages and attachments to store.

        If the draft is an API key, it is omitted.
        """
        draft = self._screen.query_one(Composer).draft
        queued = tuple(row.text for row in self._queue.describe())
        text = "" if is_api_key(draft.text) else draft.text
        sources = tuple(dict.fromkeys((*self._queue.sources, *draft.sources)))
        source = sources[0] if sources else ""
        attachments = (*self._queue.attachments, *self._attachments.parts)
        # A server may have been replaced since its text was inserted, or since an earlier run stored the text.
        known = {**self._host.servers.targets, **dict(self._saved.servers)}
        servers = tuple((name, known[name]) for name in sources if name in known)
        return UnsentText(text, draft.origin, source, queued, attachments, sources, servers=servers)

    def _clear(self) -> None:
        self._queue.take_all()
        self._attachments.take_all()
        self._screen.query_one(Composer).set_draft(Draft(""))
        self._restore_draft(Draft(""), ())

    def _restore(self, text: UnsentText) -> None:
        """Insert saved text before the composer's text.

        Queued messages that were saved become part of this text; they are not sent.
        """
        sources = text.sources or ((text.source,) if text.source else ())
        targets = dict.fromkeys(sources, UNKNOWN_TARGET) | dict(text.servers)
        text = replace(text, servers=tuple((name, targets[name]) for name in sources))
        self._saved = text
        if is_api_key(text.text):  # stored by an earlier version; the next save deletes it
            text = replace(text, text="")
        if not text.is_empty and self._screen.is_attached:
            compared = {copied.server for copies in (text.copies, *text.queued_copies) for copied in copies}
            for source in sources:
                if not source.startswith("/") and source not in compared:  # a slash means the user's own command
                    noted = "\n".join((*text.queued, text.text))
                    self._host.features.note_text(source, "prompt", noted, targets[source])
            drafts = (*map(Draft, text.queued), Draft(text.text, cast("TextOrigin", text.origin), sources))
            self._restore_draft(join_drafts(*drafts), text.attachments)
            self._screen.notify(_(RESTORED), markup=False, timeout=6)


UNKNOWN_TARGET = "unknown"
"""Placeholder for the target (program or URL) of a server, for drafts that were saved without it by an older mcphost.

It equals no real target, so that the draft's text is never attributed to the server that has the same name now.
"""
RESTORED = N_("Your unsent text is in the message line again.")
EDITING = N_("Editing an earlier message. Enter sends it; Esc returns to the conversation as it was.")

EDITING_FILES = N_(
    "Editing an earlier message. Its files keep the content that was sent; to send a file as it is now, remove it and "
    "attach it again. Enter sends the message; Esc returns to the conversation as it was."
)


class PendingEdit(NamedTuple):
    """An earlier message that the user is editing, with what is needed to cancel the edit.

    - `kept` is the number of messages before the edited message.
    - `branch_end` is the number, in the store, of the last message of the branch that was open before the edit;
      canceling the edit opens this branch again.
    - `before` and `after` are the composer's drafts before and after the edited message was inserted.
    - `attachments` are the edited message's attachments.
    """

    conversation_id: str
    kept: int
    branch_end: int
    before: Draft
    after: Draft
    attachments: "tuple[Part, ...]"

    @property
    def notice(self) -> str:
        """The translated notice about the edit.

        If local files are attached, the notice also states that their content is not read again.
        """
        from mcphost.llm.messages import is_local_file  # imported late: few messages are edited

        has_files = any(is_local_file(part) for part in self.attachments)
        return _(EDITING_FILES) if has_files else _(EDITING)

    def matches(self, conversation_id: str, count: int) -> bool:
        """Return whether the edit belongs to this conversation, and no message has been sent since it began.

        *count* is the current number of messages in the conversation.
        """
        return (self.conversation_id, self.kept) == (conversation_id, count)
