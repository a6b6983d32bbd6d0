"""Insertion of a server's prompt: as text in the composer, or as messages after a preview."""

from functools import partial
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.pluralize import translate_count
from mcphost.translation import _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.composer import Composer

if TYPE_CHECKING:
    from mcphost.protocol.prompts import Prompt
    from mcphost.tui.screens.chat import ChatScreen
    from mcphost.tui.screens.prompt_preview import PromptDecision
    from mcphost.tui.screens.prompts import FilledPrompt


def fill_prompt(chat: "ChatScreen", server: str, prompt: "Prompt") -> None:
    """Open a form for the arguments of a prompt, then insert the filled prompt.

    A single user text is inserted into the composer, where it can be edited. Anything else is previewed, and then added
    to the conversation as messages.
    """
    from mcphost.host.conversation.prompt_messages import is_plain_text
    from mcphost.tui.screens.prompt_preview import PromptPreview
    from mcphost.tui.screens.prompts import PromptArgumentsForm

    composer = chat.query_one(Composer)

    def filled(result: "FilledPrompt | None") -> None:
        """Insert or preview the filled prompt; None means that the user left the form."""
        if result is None:
            composer.composer_input.focus()
        elif is_plain_text(result.messages):
            composer.insert_prompt_text(server, result.text)
            composer.composer_input.focus()
        else:
            chat.app.push_screen(PromptPreview(chat.host, result), partial(decided, result))  # pyright: ignore[reportUnknownMemberType]

    def decided(result: "FilledPrompt", decision: "PromptDecision | None") -> None:
        choice, messages = decision or ("", ())
        if choice == "edit":
            composer.insert_prompt_text(server, result.text)
        elif choice:
            shown = result._replace(messages=messages)
            chat.run_worker(partial(_insert, chat, shown, asks=choice == "answer"), group="turn")
        composer.composer_input.focus()

    chat.app.push_screen(PromptArgumentsForm(chat.host, server, prompt), filled)  # pyright: ignore[reportUnknownMemberType]


async def _insert(chat: "ChatScreen", prompt: "FilledPrompt", *, asks: bool) -> None:
    try:
        await chat.host.conversation.insert(prompt.messages)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
        return
    name = clean_line(f"{prompt.server} · {prompt.name}", 80)
    back = keys_in_use(chat).fill(_("{undo_insert} undoes it."))
    chat.notify(
        _("{messages} of {name} inserted. {back}").format(
            messages=translate_count(len(prompt.messages), "message"), name=name, back=back
        ),
        markup=False,
        timeout=8,
    )
    if asks:
        chat.call_later(chat.continue_turn)


async def undo_insert(chat: "ChatScreen") -> None:
    """Remove the prompt messages that were inserted last, or explain why this is not possible."""
    try:
        count = await chat.host.conversation.undo_insert()
    except McpHostError as error:
        chat.notify(f"{error.message} {error.hint}", severity="warning", markup=False, timeout=6)
        return
    chat.notify(_("{messages} removed.").format(messages=translate_count(count, "message")), markup=False, timeout=4)
