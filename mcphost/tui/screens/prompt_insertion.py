"""Insertion of a server's prompt into the composer, after the user has entered its arguments."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.host.host import Host
    from mcphost.protocol.prompts import Prompt
    from mcphost.tui.widgets.composer import Composer


def fill_prompt(screen: "Screen[None]", host: "Host", composer: "Composer", server: str, prompt: "Prompt") -> None:
    """Open a form for the arguments of an MCP prompt, and insert the resulting text into the composer."""
    from mcphost.tui.screens.prompts import PromptArgumentsForm

    def filled(text: str | None) -> None:
        """Insert the prompt's text; None means that the user left the form."""
        if text:
            composer.insert_prompt_text(server, text)
        composer.composer_input.focus()

    screen.app.push_screen(PromptArgumentsForm(host, server, prompt), filled)  # pyright: ignore[reportUnknownMemberType]
