"""All connections: start side by side, find, restart; one slow or dead server never delays another."""

from collections.abc import Container, Iterator

from anyio.abc import TaskGroup

from mcphost.client.session import Opener
from mcphost.config.schema import ServerConfig
from mcphost.errors import UsageError
from mcphost.host.event_queue import Feeds
from mcphost.host.server_requests.request_handler import Desks
from mcphost.host.servers.approval import Trusting
from mcphost.host.servers.connection import Connection
from mcphost.host.servers.orphaned_tasks import LeftTasks
from mcphost.host.servers.tool_changes import Drifts
from mcphost.host.servers.tool_registry import Offered


class Servers:
    """The configured servers in order; their tasks live in the host's task group."""

    def __init__(
        self,
        configs: tuple[ServerConfig, ...],
        *,
        opener: Opener,
        trusting: Trusting,
        feeds: Feeds,
        desks: Desks,
        left: LeftTasks,
        drifts: Drifts,
    ) -> None:
        self._connections = {
            config.name: Connection(
                config, opener=opener, trusting=trusting, feeds=feeds, desks=desks, left=left, drifts=drifts
            )
            for config in configs
        }
        self._tasks: TaskGroup | None = None

    def own(self, tasks: TaskGroup) -> None:
        """The group whose end is the end of every connection."""
        self._tasks = tasks

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections.values())

    def find(self, name: str) -> Connection:
        """One connection. Raises UsageError for an unknown name."""
        connection = self._connections.get(name)
        if connection is None:
            known = ", ".join(self._connections) or "none"
            raise UsageError(f"There is no server named {name!r}.", f"Configured servers: {known}.")
        return connection

    def start(self, name: str) -> Connection:
        """Start one connection's task, once. Raises UsageError."""
        connection = self.find(name)
        if self._tasks is not None and not connection.started and not connection.config.disabled:
            connection.started = True
            self._tasks.start_soon(connection.run, name=f"server {name}")
        return connection

    def start_all(self, only: Container[str] | None = None) -> None:
        """Start every connection, or those with these names."""
        for name in self._connections:
            if only is None or name in only:
                self.start(name)

    async def tool(self, server: str, tool: str) -> Offered:
        """A tool of a ready server; waits for the server. Raises ServerError, Declined, UsageError."""
        connection = self.start(server)
        await connection.session()
        listed = connection.tool(tool)
        if listed is None:
            names = ", ".join(sorted(connection.offers.tools)[:20]) or "none"
            raise UsageError(f"The server {server!r} has no tool named {tool!r}.", f"Its tools: {names}.")
        return Offered(connection, listed, connection.account)
