"""Runner for the slash commands of the chat, both built-in and custom.

It also explains why an unknown command cannot be run.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mcphost.translation import _
from mcphost.tui.command_names import ALIASES, ParsedCommand, find_slash_command, parse_slash_command
from mcphost.tui.commands import SEND_HINT, explain_unexpected_value, explain_unknown_command
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import ActionRequested
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.host.host import Host
    from mcphost.tui.widgets.completion_popup import CompletionItem

_HINT_SECONDS = 10


class CommandValueSource(Protocol):
    """Interface for completing and running slash commands that are followed by a value."""

    def complete(self, action: str) -> "list[CompletionItem]":
        """Return a completion for each value of the command that runs *action*."""
        ...

    def apply(self, action: str, value: str, restore: Callable[[], None]) -> str:
        """Run the command of *action* with *value*; return an error message, or "" if there is no error.

        If the command fails later, a notification shows the reason, and *restore* is called to put the command line
        back into the composer.
        """
        ...

    async def use_model(self, name: str) -> None:
        """Switch to the model *name*, which a custom command requires; do nothing if it is already in use."""
        ...


class SlashCommandRunner:
    """Runner of the slash commands that the user enters in the composer."""

    def __init__(
        self,
        screen: "Screen[None]",
        host: "Host",
        run_custom: Callable[[str], bool],
        values: Callable[[], CommandValueSource],
    ) -> None:
        """Create a runner.

        *run_custom* runs a line as a custom command; it returns False if the line is not a custom command. *values*
        returns the object that completes and applies the values of commands; its module is imported on first use.
        """
        self._screen, self._host, self._run_custom, self._values = screen, host, run_custom, values

    def complete_value(self, command: str) -> "list[CompletionItem]":
        """Return completions for the value of a command such as "/theme".

        Return [] if the command takes no value.
        """
        parsed = parse_slash_command(command)
        if parsed is None or parsed.action is None or not parsed.action.takes_value:
            return []
        return self._values().complete(parsed.action.name)

    def run(self, draft: Draft, names: Callable[[], Iterable[str]]) -> bool:
        """Run the draft as a command, or explain why that is not possible; return False if it is a message.

        *names* returns all known commands, with their slashes. If the draft cannot be run, it stays in the composer.
        """
        text = draft.text
        parsed = parse_slash_command(text)
        if parsed is not None and find_slash_command(parsed.word) is not None:
            return self._run(parsed, draft)
        if self._run_custom(text):
            return True
        if parsed is not None:
            return self._run(parsed, draft)
        known = [*names(), *(f"/{name}" for name in ALIASES)]
        if said := explain_unknown_command(text.strip(), known):
            self._notify(said)
        return bool(said)

    def _run(self, parsed: ParsedCommand, draft: Draft) -> bool:
        action, composer = parsed.action, self._screen.query_one(Composer)
        if action is None:
            self._show_hint(parsed)
        elif not parsed.value:
            composer.mark_sent()
            self._screen.post_message(ActionRequested(action.name))
        elif not action.takes_value:
            self._notify(explain_unexpected_value(f"/{parsed.word}"))
        elif error := self._values().apply(action.name, parsed.value, partial(self._restore, draft)):
            self._notify(_(SEND_HINT).format(error=error))
        else:
            composer.mark_sent()
        return True

    def _show_hint(self, parsed: ParsedCommand) -> None:
        hint = keys_in_use(self._screen).fill(_(ALIASES[parsed.word].hint))
        hint = hint.replace("{settings_file}", clean_line(self._host.config.settings_file or "config.toml", 200))
        said = _("mcphost has no command {typed}. {hint}").format(typed=f"/{parsed.word}", hint=hint)
        if parsed.value:
            said = _(SEND_HINT).format(error=said)
        else:
            self._screen.query_one(Composer).mark_sent()
        self._notify(said)

    def _restore(self, draft: Draft) -> None:
        """Put the draft back into the composer, unless the user has begun to write something else.

        The draft is selected, so that the user can replace it by typing.
        """
        composer = self._screen.query_one(Composer)
        if not composer.draft.text:
            composer.set_draft(draft)
            composer.composer_input.select_all()

    def _notify(self, said: str) -> None:
        self._screen.notify(said, markup=False, timeout=_HINT_SECONDS)
