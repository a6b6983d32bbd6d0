"""The tools of servers that changed and are held back: how they changed, asked about again, kept."""

from collections.abc import Sequence

from mcphost.host.questions.questions import ToolChange
from mcphost.host.servers.servers import Servers


class Held:
    """What a user may do about them, beside answering the question that comes by itself."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def changes(self, server: str) -> tuple[ToolChange, ...]:
        """What is held back of it, waiting for it to be ready. Raises ServerError, Declined, UsageError."""
        connection = self._servers.start(server)
        await connection.session()
        return await connection.drift.changes()

    def ask_again(self, server: str) -> bool:
        """Ask about them once more; False when none is held back. Raises UsageError."""
        return self._servers.find(server).drift.again()

    async def keep(self, server: str, changes: Sequence[ToolChange]) -> tuple[str, ...]:
        """Let them be what was shown; the names of those that still were that. Raises UsageError."""
        return await self._servers.find(server).drift.keep({one.tool: one.digest for one in changes})
