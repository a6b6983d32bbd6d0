"""Corrections of the conversation: what happens after the user chose to edit, retry, fork or open another branch."""

from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.llm.messages import FilePart, ImagePart, ResourcePart
from mcphost.tui.widgets.composer import Composer, Draft, join_drafts

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.llm.messages import Message
    from mcphost.tui.screens.chat import ChatScreen
    from mcphost.tui.screens.rewind import RewindChoice

STILL_ANSWERING = "Still answering. Press Esc to stop, then go back."


async def correct(chat: "ChatScreen", choice: "RewindChoice") -> None:
    """Carry out the user's choice on the rewind screen; an error becomes a notice in the transcript."""
    host = chat.host
    if host.conversation.is_busy or chat.is_sending:
        chat.notify(STILL_ANSWERING, markup=False, timeout=6)
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
            # the transcript is about to be filled anew, so a notice there would vanish
            chat.notify("This is a copy. The original stays in the history (F6).", markup=False, timeout=8)
        case "edit":
            await conversation.rewind(choice.keep)
            _edit(chat, messages[choice.keep])
        case "retry":
            if host.model_selection.model is None:
                chat.explain_missing_model()
                return
            await conversation.rewind(choice.keep)
            chat.finish_turn((await conversation.retry()).outcome)


def _edit(chat: "ChatScreen", message: "Message") -> None:
    """Put a message back into the composer with its attachments, before what the user has written there."""
    composer = chat.query_one(Composer)
    composer.set_draft(join_drafts(Draft(message.text), composer.draft))
    for part in message.parts:
        if isinstance(part, ResourcePart | ImagePart | FilePart):
            chat.attachments.add(part)
    composer.composer_input.focus()
