"""All server connections, started concurrently; the startup wait of a turn; quarantined tools."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import anyio
from anyio.abc import TaskGroup

from mcphost.client.session import SessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.errors import UsageError
from mcphost.host.events import EventBus
from mcphost.host.questions.questions import ToolChange
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


class ServerStartup:
    """Startup wait: a turn begins without slow servers, and their tools join a later round."""

    def __init__(
        self, servers: Iterable[ServerConnection], seconds: float, notify: Callable[[str, str, str], None]
    ) -> None:
        """*seconds* is the longest wait for one server from its start; *notify* is Host.notify."""
        self._servers = servers
        self._seconds = seconds
        self._notify = notify
        self._late_servers: set[str] = set()

    async def wait(self) -> None:
        """Wait for starting servers and notify which ones the turn begins without. May be cancelled."""
        async with anyio.create_task_group() as tasks:
            for connection in self._servers:
                tasks.start_soon(connection.wait_for_start, self._seconds)
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        newly_late = sorted(starting - self._late_servers)
        self._late_servers |= starting
        if newly_late:
            self._notify(
                "info",
                f"Starting without {_join_names(newly_late)}, which is not ready.",
                "Its tools join a later round.",
            )

    def announce_joined(self) -> None:
        """Notify which late servers became ready; called before each round."""
        ready = {connection.config.name for connection in self._servers if connection.is_ready}
        joined = sorted(self._late_servers & ready)
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        self._late_servers &= starting - ready
        if joined:
            self._notify("info", f"{_join_names(joined).capitalize()} joined; its tools are now available.", "")


def _join_names(names: list[str]) -> str:
    noun = "the server" if len(names) == 1 else "the servers"
    return f"{noun} {', '.join(map(repr, names))}"
