"""Corrections of the conversation: carries out the choice to edit, retry, fork or switch branch."""

from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.llm.messages import FilePart, ImagePart, ResourcePart
from mcphost.translation import N_, _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screens.pending_edit import PendingEdit
from mcphost.tui.widgets.composer import Composer, Draft, join_drafts

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.llm.messages import Message
    from mcphost.tui.screens.chat import ChatScreen
    from mcphost.tui.screens.rewind import RewindChoice

STILL_ANSWERING = N_("Still answering. Press Esc to stop, then go back.")


COPY_NOTE = N_("This is a copy. The original stays in the history ({history}).")


async def correct(chat: "ChatScreen", choice: "RewindChoice") -> None:
    """Carry out a choice made on the rewind screen; an error becomes a notice in the transcript."""
    host = chat.host
    if host.conversation.is_busy or chat.is_sending:
        chat.notify(_(STILL_ANSWERING), markup=False, timeout=6)
        return
    try:
        await _apply(chat, host, choice)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
    chat.refresh_status()


async def _apply(chat: "ChatScreen", host: "Host", choice: "RewindChoice") -> None:
    conversation = host.conversation
    messages = conversation.messages
    match choice.action:
        case "branch":
            await conversation.switch_branch(choice.number)
        case "fork":
            await conversation.fork(choice.keep)
            # the transcript is about to be replaced, so a notice in it would vanish
            chat.notify(keys_in_use(chat).fill(_(COPY_NOTE)), markup=False, timeout=8)
        case "edit":
            await _edit(chat, messages[choice.keep], choice.keep)
        case "retry" | "call_again":
            if host.model_selection.model is None:
                chat.explain_missing_model()
                return
            await conversation.rewind(choice.keep)
            chat.finish_turn((await conversation.retry(can_reuse=choice.action == "retry")).outcome)


async def _edit(chat: "ChatScreen", message: "Message", kept: int) -> None:
    """Go back to before *message*, and put its text into the composer, before any existing text."""
    conversation, composer = chat.host.conversation, chat.query_one(Composer)
    before = composer.draft
    after = join_drafts(Draft(message.text), before)
    parts = tuple(part for part in message.parts if isinstance(part, ResourcePart | ImagePart | FilePart))
    chat.pending_edit = PendingEdit(conversation.id, kept, conversation.numbers[-1], before, after, parts)
    try:
        await conversation.rewind(kept)
    except McpHostError:
        chat.pending_edit = None
        raise
    composer.set_draft(after)
    chat.attachments.add(*parts)
    composer.composer_input.focus()


def _is_editing(chat: "ChatScreen") -> bool:
    """Return whether an earlier message is being edited, so that Esc cancels the edit."""
    pending, conversation = chat.pending_edit, chat.host.conversation
    if pending is None or conversation.is_busy or chat.is_sending:
        return False
    return pending.fits(conversation.id, len(conversation.messages))


async def leave_edit(chat: "ChatScreen") -> None:
    """If an earlier message is being edited, cancel the edit and return to the previous branch.

    The composer's earlier text is restored, unless the user has changed the text in the meantime.
    """
    pending = chat.pending_edit
    if pending is None or not _is_editing(chat):
        return
    chat.pending_edit = None
    try:
        await chat.host.conversation.switch_branch(pending.branch_end)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
        return
    composer = chat.query_one(Composer)
    if composer.draft.text == pending.after.text:
        composer.set_draft(pending.before)
    chat.attachments.remove(*pending.attachments)
    chat.refresh_status()
