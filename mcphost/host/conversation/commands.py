"""The user's own commands and those of the project, whose files are approved when they are first used."""

import anyio.to_thread

from mcphost.config.project_texts import ProjectPlaces
from mcphost.config.prompt_commands import PromptCommand, read_commands
from mcphost.errors import ConsentDenied, UsageError
from mcphost.host.events import EventBus
from mcphost.host.project_approvals import USED, ProjectApprovals


class PromptCommands:
    """The commands as of the last `refresh`; problems with their files are reported once."""

    def __init__(self, places: ProjectPlaces | None, approvals: ProjectApprovals, events: EventBus) -> None:
        """Create them for the given places; without places, there are no commands."""
        self._places, self._approvals, self._events = places, approvals, events
        self._reported: set[str] = set()
        self.commands: tuple[PromptCommand, ...] = ()

    async def refresh(self) -> None:
        """Read the files again."""
        if self._places is None:
            return
        problems: list[str] = []
        self.commands = await anyio.to_thread.run_sync(read_commands, self._places, problems.append)
        for problem in problems:
            if problem not in self._reported:
                self._reported.add(problem)
                self._events.notify("warning", problem)

    async def open(self, name: str) -> PromptCommand:
        """Return the command as it is in its file now; ask about a project's command that is new or changed.

        Raises UsageError if there is none with that name, ConsentDenied if the user does not approve it, or StoreError.
        """
        await self.refresh()
        command = next((one for one in self.commands if one.name == name), None)
        if command is None:
            raise UsageError(f"There is no command /{name}.", "Look for its file below the folder commands.")
        await self._approvals.ask("command", [command.text], again=True)
        if await self._approvals.find_source(command.text) not in USED:
            raise ConsentDenied(f"The command /{name} of the project is not approved.", "Use it again to read it.")
        return command
