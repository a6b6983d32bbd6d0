"""Custom slash commands in the chat: completion and execution."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.translation import _
from mcphost.tui.command_names import find_slash_command
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.completion_popup import CompletionItem
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.config.custom_commands import CustomCommand
    from mcphost.host.host import Host


class CustomCommandRunner:
    """Runner of custom slash commands, which insert a prompt into the composer or send it.

    If a command specifies a model, its prompt is never sent to a different model.
    """

    def __init__(
        self,
        screen: "Screen[None]",
        host: "Host",
        use_model: Callable[[str], Awaitable[None]],
        send: Callable[[Draft], None],
    ) -> None:
        """Create a runner.

        *use_model* switches to the model with the given name, and *send* sends a draft as a message.
        """
        self._screen, self._host, self._use_model, self._send = screen, host, use_model, send

    def completions(self) -> list[CompletionItem]:
        """Return completions for the known custom commands; reread the command files in the background."""
        self._screen.run_worker(self._host.commands.refresh, group="commands", exclusive=True)
        return [
            CompletionItem("text", f"/{one.name}", "", f"/{one.name}", _describe(one))
            for one in self._host.commands.commands
            if find_slash_command(one.name) is None
        ]

    def run_line(self, text: str) -> bool:
        """Run a line such as `/name arguments` in the background; return False if it is not a custom command."""
        name, _unused, typed = text[1:].partition(" ") if "\n" not in text.partition(" ")[0] else ("", "", "")
        known = name in {one.name for one in self._host.commands.commands}
        if not text.startswith("/") or not known or find_slash_command(name) is not None:
            return False
        self._screen.query_one(Composer).mark_sent()
        self._screen.run_worker(partial(self._open, name, typed.strip()), group="commands-run")
        return True

    async def _open(self, name: str, typed: str) -> None:
        from mcphost.config.custom_commands import missing_arguments, split_arguments

        try:
            command = await self._host.commands.open(name)
            given = split_arguments(command, typed)
        except McpHostError as error:
            self._screen.notify(str(error), severity="warning", markup=False, timeout=8)
            return
        if missing_arguments(command, given):

            def filled(values: dict[str, str] | None) -> None:
                if values is not None:
                    everything = typed or " ".join(values.values())
                    self._screen.run_worker(partial(self._fill, command, everything, values), group="commands-run")

            from mcphost.tui.screens.command_form import CommandArgumentsForm

            self._screen.app.push_screen(CommandArgumentsForm(command, given), filled)  # pyright: ignore[reportUnknownMemberType]
        else:
            await self._fill(command, typed, given)

    async def _fill(self, command: "CustomCommand", typed: str, given: Mapping[str, str]) -> None:
        from mcphost.config.custom_commands import fill_template

        try:
            text = fill_template(command, typed, given)
        except McpHostError as error:
            self._screen.notify(str(error), severity="warning", markup=False, timeout=8)
            return
        if command.model:
            await self._use_model(command.model)
        is_ready = command.model in ("", self._host.model_selection.config.name)
        if not is_ready:
            said = _("The text of {command} was not sent, because the model {model} is not in use.")
            said = said.format(command=f"/{command.name}", model=clean_line(command.model, 60))
            self._screen.notify(said, severity="warning", markup=False, timeout=8)
        if command.is_sent and is_ready:
            self._send(Draft(text, "inserted", (f"/{command.name}",)))
        else:
            self._screen.query_one(Composer).insert_prompt_text(f"/{command.name}", text)
            self._screen.query_one(Composer).composer_input.focus()


def _describe(command: "CustomCommand") -> str:
    origin = "" if command.text.is_own else _("project · ")
    return origin + " · ".join(filter(None, (command.description, command.usage))) or _("your command")
