"""Action that opens the message to the model in the user's external editor."""

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mcphost.translation import _
from mcphost.tui.widget_messages import EditorRequested
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft, join_drafts

if TYPE_CHECKING:
    from mcphost.tui.screens.chat import ChatScreen


def edit_message(chat: "ChatScreen") -> None:
    """Open the text in the composer in the user's editor; show a warning if no editor can be used."""
    if not getattr(cast("Any", chat).app, "editor_name", ""):
        chat.notify(
            _("No editor can be opened. Set $VISUAL or $EDITOR, and start mcphost in a terminal."),
            severity="warning",
            markup=False,
            timeout=8,
        )
        return
    draft = chat.query_one(Composer).draft
    chat.post_message(EditorRequested(draft.text, partial(_apply, chat, draft), "message.md"))


def _apply(chat: "ChatScreen", before: Draft, text: str | None, error: str) -> None:
    """Put the edited *text* into the composer, or show *error* if *text* is None.

    *before* is the draft that was opened in the editor. The text is marked as inserted, not typed, so that it can
    only be sent as a message and is never run as a command.
    """
    if text is None:
        chat.notify(error, severity="warning", markup=False, timeout=8)
        return
    text = text.removesuffix("\n")  # most editors add a line break at the end
    if text == before.text.removesuffix("\n"):
        return
    composer = chat.query_one(Composer)
    composer.mark_inserted(at=(0, 0))  # so that an Enter key still held down sends nothing
    edited = Draft(text, "inserted", before.sources)
    now = composer.draft
    if now.text == before.text:
        composer.set_draft(edited)
    elif not before.text or now.text.endswith(f"\n{before.text}"):  # a message came back from the queue meanwhile
        returned = now.text.removesuffix(f"\n{before.text}") if before.text else now.text
        composer.set_draft(join_drafts(Draft(returned, "inserted", now.sources), edited))
    else:
        composer.restore_draft(edited)
        note = _("The message changed while the editor was open. The edited text was inserted before it.")
        chat.notify(note, severity="warning", markup=False, timeout=8)
    composer.composer_input.focus()
