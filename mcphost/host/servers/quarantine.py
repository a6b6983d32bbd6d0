"""Changed tools in quarantine: list, ask again and accept."""

from collections.abc import Sequence

from mcphost.host.questions.questions import ToolChange
from mcphost.host.servers.servers import Servers


class Quarantine:
    """The user's actions on quarantined tools, besides answering the automatic question."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def list_changes(self, server: str) -> tuple[ToolChange, ...]:
        """Return the quarantined tools of a server, waiting until it is ready.

        Raises ServerError, ConsentDenied or UsageError.
        """
        connection = self._servers.start(server)
        await connection.session()
        return await connection.tool_changes.list_changes()

    def ask_again(self, server: str) -> bool:
        """Ask again about the tools; return False if none is in quarantine. Raises UsageError."""
        return self._servers.find(server).tool_changes.ask_again()

    async def accept(self, server: str, changes: Sequence[ToolChange]) -> tuple[str, ...]:
        """Accept the changes that were shown; return the names of the tools that still match them.

        Raises UsageError.
        """
        return await self._servers.find(server).tool_changes.accept({change.tool: change.digest for change in changes})
