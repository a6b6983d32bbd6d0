"""The user's and the project's custom slash commands; a project's commands must be approved before use."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio.to_thread

from mcphost.config.project_texts import ProjectPlaces, ProjectText, find_command_folders
from mcphost.errors import ConsentDenied, UsageError
from mcphost.host.event_bus import EventBus
from mcphost.host.project_file_approvals import USED, ProjectApprovals, ProjectFileStatus

if TYPE_CHECKING:
    from mcphost.config.custom_commands import CustomCommand


def _read_commands(places: ProjectPlaces, on_problem: Callable[[str], None]) -> "tuple[CustomCommand, ...]":
    if not find_command_folders(places):
        return ()
    from mcphost.config.custom_commands import read_commands  # most users have no commands of their own

    return read_commands(places, on_problem)


class CustomCommands:
    """The custom commands found by the last `refresh`; the user is notified once of each problem with a file."""

    def __init__(self, places: ProjectPlaces | None, approvals: ProjectApprovals, events: EventBus) -> None:
        """Create an empty list of commands, which `refresh` fills; if *places* is None, it stays empty.

        *places* contains the folders that are searched for command files.
        """
        self._places, self._approvals, self._events = places, approvals, events
        self._reported: set[str] = set()
        self.commands: tuple[CustomCommand, ...] = ()

    async def refresh(self) -> None:
        """Read the command files again."""
        if self._places is None:
            return
        problems: list[str] = []
        self.commands = await anyio.to_thread.run_sync(_read_commands, self._places, problems.append)
        for problem in problems:
            if problem not in self._reported:
                self._reported.add(problem)
                self._events.notify("warning", problem)

    async def list_files(self) -> tuple[ProjectFileStatus, ...]:
        """Return the project's command files that the user has approved or declined. Raises StoreError.

        This includes files that have changed since the user approved them permanently.
        """
        await self.refresh()
        files = [one.text for one in self.commands if not one.text.is_own]
        return tuple([status for text in files if (status := await self._approvals.find_status(text)) is not None])

    async def forget(self, text: ProjectText) -> None:
        """Revoke the approval of a command file; the user is asked when the command is next used. Raises StoreError."""
        await self._approvals.forget(text)

    async def open(self, name: str) -> "CustomCommand":
        """Read a command's file again and return the command; ask for approval if a project's file changed.

        Raises UsageError if no command has that name, ConsentDenied if the user does not approve it, or StoreError.
        """
        await self.refresh()
        command = next((one for one in self.commands if one.name == name), None)
        if command is None:
            raise UsageError(f"There is no command /{name}.", "Look for its file in the commands folder.")
        await self._approvals.ask("command", [command.text], again=True)
        if await self._approvals.find_source(command.text) not in USED:
            raise ConsentDenied(f"The command /{name} of the project is not approved.", "Use it again to review it.")
        return command
