"""All server connections, started concurrently: a slow or failed server never delays another."""

from collections.abc import Container, Iterator

from anyio.abc import TaskGroup

from mcphost.client.session import SessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.errors import UsageError
from mcphost.host.events import EventBus
from mcphost.host.server_requests.request_handler import ServerRequestHandlerFactory
from mcphost.host.servers.approval import ServerApprovals
from mcphost.host.servers.connection import ServerConnection
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.tool_changes import ToolChangeTrackerFactory
from mcphost.host.servers.tool_registry import OfferedTool


class Servers:
    """The configured servers in order; their tasks run in the host's task group."""

    def __init__(
        self,
        configs: tuple[ServerConfig, ...],
        *,
        opener: SessionOpener,
        approvals: ServerApprovals,
        events: EventBus,
        handler_factory: ServerRequestHandlerFactory,
        orphaned_tasks: OrphanedTasks,
        tracker_factory: ToolChangeTrackerFactory,
    ) -> None:
        self._connections = {
            config.name: ServerConnection(
                config,
                opener=opener,
                approvals=approvals,
                events=events,
                handler_factory=handler_factory,
                orphaned_tasks=orphaned_tasks,
                tracker_factory=tracker_factory,
            )
            for config in configs
        }
        self._tasks: TaskGroup | None = None

    def set_task_group(self, tasks: TaskGroup) -> None:
        """Set the task group of the connections; all connections end with it."""
        self._tasks = tasks

    def __iter__(self) -> Iterator[ServerConnection]:
        return iter(self._connections.values())

    def find(self, name: str) -> ServerConnection:
        """Return one connection. Raises UsageError for an unknown name."""
        connection = self._connections.get(name)
        if connection is None:
            known = ", ".join(self._connections) or "none"
            raise UsageError(f"There is no server named {name!r}.", f"Configured servers: {known}.")
        return connection

    def start(self, name: str) -> ServerConnection:
        """Start one connection's task unless it is started, and return it. Raises UsageError."""
        connection = self.find(name)
        if self._tasks is not None and not connection.is_started and not connection.config.disabled:
            connection.is_started = True
            self._tasks.start_soon(connection.run, name=f"server {name}")
        return connection

    def start_all(self, only: Container[str] | None = None) -> None:
        """Start every connection, or those with these names."""
        for name in self._connections:
            if only is None or name in only:
                self.start(name)

    async def get_tool(self, server: str, tool: str) -> OfferedTool:
        """Return a tool of a server, waiting until the server is ready.

        Raises ServerError, ConsentDenied or UsageError.
        """
        connection = self.start(server)
        await connection.session()
        listed = connection.tool(tool)
        if listed is None:
            names = ", ".join(sorted(connection.listing.tools)[:20]) or "none"
            raise UsageError(f"The server {server!r} has no tool named {tool!r}.", f"Its tools: {names}.")
        return OfferedTool(connection, listed, connection.account)
