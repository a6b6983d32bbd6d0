"""The tools of servers that changed and are held back: how they changed, asked about again, kept."""

from collections.abc import Sequence

from mcphost.host.questions.questions import ToolChange
from mcphost.host.servers.servers import Servers


class Quarantine:
    """What a user may do about them, beside answering the question that comes by itself."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def list_changes(self, server: str) -> tuple[ToolChange, ...]:
        """What is held back of it, waiting for it to be ready. Raises ServerError, Declined, UsageError."""
        connection = self._servers.start(server)
        await connection.session()
        return await connection.tool_changes.list_changes()

    def ask_again(self, server: str) -> bool:
        """Ask about them once more; False when none is held back. Raises UsageError."""
        return self._servers.find(server).tool_changes.ask_again()

    async def accept(self, server: str, changes: Sequence[ToolChange]) -> tuple[str, ...]:
        """Let them be what was shown; the names of those that still were that. Raises UsageError."""
        return await self._servers.find(server).tool_changes.accept({one.tool: one.digest for one in changes})
