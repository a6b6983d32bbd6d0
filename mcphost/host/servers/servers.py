"""Classes that connect to all configured servers, wait for them to start, and let the user review changed tools."""

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio

from mcphost.config.approval_digest import ONLY_MASKED, ShownValues
from mcphost.config.schema import ServerConfig
from mcphost.config.server_restrictions import target_digest
from mcphost.errors import ServerError, StoreError, UsageError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ServersAwaited
from mcphost.host.lifetime import Lifetime
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.server_views import ServerView
from mcphost.host.servers.catalog import KnownInstructions, ToolDefinition
from mcphost.host.servers.connection import ConnectionParts, ServerConnection
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.serialization import replace
from mcphost.sign_in_types import SignInProgress

if TYPE_CHECKING:
    from mcphost.host.questions.tool_changes import ToolChange
    from mcphost.host.servers.change_acceptances import ChangeAcceptances
    from mcphost.message_log import MessageLog

NEW_SERVER_FACTOR = 10
"""Factor by which a turn waits longer for a server whose program may have to be installed first."""

MAX_NAMED_TOOLS = 20
"""How many tools an error names if there is no tool of the requested name."""

_MAX_COMPARED_TOOLS = 200
_MAX_COMPARED_LENGTH = 60
"""Limits on the tools, and the length of their names, that are compared with a wrong name: at worst 0.2 s."""
_MISSPELT = 0.8
"""Similarity of two names, from 0 to 1, above which one is most likely a misspelling of the other."""


class Servers:
    """Connections to all servers, in configuration order; their tasks run in the host's task group.

    Methods that wait for a server raise ServerError if it failed, ConsentDenied if it is not approved, and UsageError
    if it is unknown or disabled.
    """

    def __init__(
        self,
        configs: tuple[ServerConfig, ...],
        connection_parts: ConnectionParts,
        tool_toggles: ToolToggles,
        lifetime: Lifetime,
    ) -> None:
        self._parts = connection_parts
        self._approvals = connection_parts.approvals
        self._tool_toggles = tool_toggles
        self._lifetime = lifetime
        self._retry_unreachable = False
        self.removed_with_review: set[str] = set()
        """The names of removed servers whose results had to be reviewed."""

        self.targets: dict[str, str] = {}
        """Digests of the programs or URLs of the servers that were started, keyed by name; see `target_digest`."""

        self._connections = {config.name: ServerConnection(config, connection_parts) for config in configs}

    @property
    def change_acceptances(self) -> "ChangeAcceptances":
        """The user's decisions to accept all changes of a server's tools for this session."""
        return self._parts.tracker_factory.acceptances

    def __iter__(self) -> Iterator[ServerConnection]:
        return iter(self._connections.values())

    def update_instructions(self) -> KnownInstructions:
        """Remember the current instructions of all servers; return all instructions remembered in this run."""
        for connection in self:
            connection.remember_instructions()
        return self._parts.instructions

    def find(self, name: str) -> ServerConnection:
        """Return the connection to a server. Raises UsageError for an unknown name."""
        connection = self._connections.get(name)
        if connection is None:
            known = ", ".join(self._connections) or "none"
            raise UsageError(f"There is no server named {name!r}.", f"Configured servers: {known}.")
        return connection

    def add(self, config: ServerConfig, shown: ShownValues = ONLY_MASKED) -> None:
        """Add a server and start it; see ServerApprovals.show_values for *shown*.

        Raises UsageError if the name is taken.
        """
        if config.name in self._connections:
            raise UsageError(f"There is already a server named {config.name!r}.", "Choose another name.")
        if shown:
            self._approvals.show_values(config, shown)
        self._connections[config.name] = connection = ServerConnection(config, self._parts)
        connection.was_added = True
        self.start(config.name)

    def remove(self, name: str) -> None:
        """Remove a server and close its connection in the background. Raises UsageError for an unknown name."""
        connection = self.find(name)
        del self._connections[name]
        (self.removed_with_review.add if connection.config.review_results else self.removed_with_review.discard)(name)
        connection.withdraw(ServerError(f"{name} was removed."))

    def update(self, config: ServerConfig, shown: ShownValues = ONLY_MASKED) -> None:
        """Replace a server's configuration, keep its position in the list, and connect again.

        See ServerApprovals.show_values for *shown*. Raises UsageError for an unknown name.
        """
        if shown:
            self._approvals.show_values(config, shown)
        earlier = self.find(config.name)
        earlier.withdraw(
            ServerError(f"You disabled {config.name}.", "Enable it: F3, then d.")
            if config.disabled
            else ServerError(f"The configuration of {config.name} was changed.", "Call it again.")
        )
        self._connections[config.name] = connection = ServerConnection(config, self._parts)
        connection.message_log = earlier.message_log
        if config.disabled or earlier.config.disabled:
            # The log of a server that failed is needed most when it is disabled. After a quick change back, an earlier
            # process may still be stopping, and its last lines must not explain an error of the new one.
            connection.log_buffer = earlier.log_buffer if config.disabled else earlier.log_buffer.copy()
            connection.log_buffer.level = config.log_level
        self.start(config.name)

    def start(self, name: str) -> ServerConnection:
        """Start a connection's task, unless it was started before or the server is disabled, and return the connection.

        Raises UsageError for an unknown name.
        """
        connection = self.find(name)
        if self._lifetime.is_open and not connection.is_started and not connection.config.disabled:
            connection.is_started = True
            self.targets[name] = connection.target = target_digest(connection.config)
            run = partial(connection.run, retry_unreachable=self._retry_unreachable)
            self._lifetime.start_soon(run, name=f"server {name}")
        return connection

    def start_all(self, only: Container[str] | None = None, *, retry_unreachable: bool = False) -> None:
        """Start all connections, or only those whose names are in *only*.

        If *retry_unreachable* is true, unreachable HTTP servers are retried until they can be reached, including
        servers that are added later. From this call on, the user is notified of never-rules (rules that forbid tool
        calls) for tools that no server has.
        """
        self._retry_unreachable = retry_unreachable
        self._parts.rule_notices.start()
        for name in self._connections:
            if only is None or name in only:
                self.start(name)

    def views(self) -> tuple[ServerView, ...]:
        """Return snapshots of all configured servers, in configuration order."""
        return tuple(self._view(connection) for connection in self)

    def view(self, name: str) -> ServerView:
        """Return a snapshot of one server. Raises UsageError for an unknown name."""
        return self._view(self.find(name))

    def _view(self, connection: ServerConnection) -> ServerView:
        view = connection.view()
        disabled = self._tool_toggles.disabled_tools(view.config, view.catalog.tools)
        return replace(view, disabled_tools=disabled) if disabled else view

    async def ensure_ready(self, name: str) -> ServerView:
        """Start the server if necessary and wait until it is ready.

        Raises ServerError, ConsentDenied or UsageError.
        """
        connection = self.start(name)
        await connection.session()
        await self._tool_toggles.load()
        return self._view(connection)

    async def list_definitions(self, name: str) -> tuple[ToolDefinition, ...]:
        """Wait until a server is ready and return its tool definitions, including those of quarantined tools.

        Raises ServerError, ConsentDenied or UsageError.
        """
        connection = self.start(name)
        await connection.session()
        return tuple(connection.listing.tools.values())

    def restart(self, name: str) -> None:
        """Close a server's connection and open it again, even after a failure.

        If the user was asked for the passphrase of the encrypted token file but left the file locked, the user is asked
        again. Raises UsageError for an unknown name.
        """
        self._parts.opener.account_manager.ask_passphrase_again()
        self.start(name).restart()

    def message_log(self, name: str) -> "MessageLog | None":
        """Return the log of the messages exchanged with a server, or None if they are not logged.

        Raises UsageError for an unknown name.
        """
        return self.find(name).message_log

    def log_messages(self, name: str) -> "MessageLog":
        """Start logging the messages exchanged with a server when it next starts; return the log.

        Raises UsageError for an unknown name.
        """
        return self.find(name).log_messages()

    def stop(self, name: str) -> None:
        """Close a server's connection until it is restarted; for a local server, also end its process.

        Its configuration is unchanged. A disabled server stays disabled. Raises UsageError for an unknown name.
        """
        connection = self.find(name)
        if not connection.config.disabled:
            connection.stop()

    def update_sign_in(self, event: SignInProgress) -> None:
        """Show the progress of a sign-in in the status of the server that *event* names.

        Raises UsageError if that server is unknown.
        """
        self.find(event.server).update_sign_in(event)

    async def is_approved(self, name: str) -> bool:
        """Return whether the user has approved the server with its current configuration.

        Raises UsageError for an unknown name, and StoreError.
        """
        return await self._approvals.is_approved(self.find(name).config)

    async def set_tool_enabled(self, name: str, tool: str, *, enabled: bool, who: str = "person") -> None:
        """Turn a tool on or off for the model, in this and later runs.

        *who* is the source that the audit log records (see `audit_labels.SOURCE_LABELS`). Raises UsageError if the
        server is unknown or the tool cannot be turned on, and ConsentDenied if the required audit row cannot be
        written.
        """
        await self._tool_toggles.set_enabled(self.find(name).config, tool, enabled=enabled, who=who)

    async def get_tool(self, server: str, tool: str) -> OfferedTool:
        """Wait until a server is ready and return one of its tools.

        Raises UsageError if the server has no such tool, and ServerError, ConsentDenied or UsageError as `ensure_ready`
        does.
        """
        connection = self.start(server)
        await connection.session()
        listed = connection.tool(tool)
        if listed is None:
            raise unknown_tool_error(server, tool, connection.listing.tools)
        return OfferedTool(connection, listed, connection.account)


def unknown_tool_error(server: str, tool: str, known: Iterable[str], note: str = "") -> UsageError:
    """Return the error for a tool name that a server does not have.

    The hint names up to MAX_NAMED_TOOLS of the *known* tools, similar names first, and how many more there are. If
    *tool* is probably a misspelling, the hint suggests the correct name; otherwise, it ends with *note*.
    """
    from difflib import get_close_matches

    names = sorted(known)
    by_key = {name[:_MAX_COMPARED_LENGTH].lower(): name for name in reversed(names[:_MAX_COMPARED_TOOLS])}
    near = [by_key[key] for key in get_close_matches(tool[:_MAX_COMPARED_LENGTH].lower(), by_key, 5, 0.5)]
    shown = ", ".join([*near, *(name for name in names if name not in near)][:MAX_NAMED_TOOLS]) or "none"
    more = len(names) - MAX_NAMED_TOOLS
    hint = f"Its tools: {shown}, and {more} more." if more > 0 else f"Its tools: {shown}."
    message = f"The server {server!r} has no tool named {tool!r}."
    if near and get_close_matches(near[0].lower(), [tool.lower()], 1, _MISSPELT):
        return UsageError(message, f"Did you mean {near[0]!r}? {hint}")
    return UsageError(message, f"{hint} {note}".strip())


class Quarantine:
    """Review of quarantined (changed) tools at the user's request.

    When a tool changes, ToolChangeTracker asks the user about it without being requested to.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def list_changes(self, server: str) -> "tuple[ToolChange, ...]":
        """Wait until a server is ready and return its quarantined tools, each with a diff of its definition.

        Raises ServerError, ConsentDenied or UsageError, as `Servers.ensure_ready` does.
        """
        connection = self._servers.start(server)
        await connection.session()
        return await connection.tool_changes.list_changes()

    def ask_again(self, server: str) -> bool:
        """Ask the user again about a server's quarantined tools; return False if there are none.

        Raises UsageError for an unknown server.
        """
        return self._servers.find(server).tool_changes.ask_again()

    async def accept(self, server: str, changes: "Sequence[ToolChange]") -> tuple[str, ...]:
        """Accept quarantined tools as shown in *changes*; return the names of the accepted ones.

        A tool that has changed since it was shown stays in quarantine. Raises UsageError for an unknown server.
        """
        return await self._servers.find(server).tool_changes.accept({change.tool: change.digest for change in changes})


class ServerStartup:
    """Time-limited wait for servers that are still starting when a turn begins.

    The tools of slower servers become available later.
    """

    def __init__(self, servers: Iterable[ServerConnection], settings: RuntimeSettings, events: EventBus) -> None:
        """Create an object that waits for *servers*, for each until `limits.server_wait` seconds after its start.

        If a server's program may have to be installed first, this time is multiplied by NEW_SERVER_FACTOR.
        """
        self._servers = servers
        self._settings = settings
        self._events = events
        self._late_servers: set[str] = set()

    async def wait(self, prepare_model: Callable[[], Awaitable[None]]) -> None:
        """Wait for starting servers, then notify the user of those that are still not ready. Safe to cancel.

        If servers are still starting after the time limit, *prepare_model* is awaited before the user is notified.
        Servers that become ready meanwhile are not reported: their tools can still be part of the first model request,
        which also needs *prepare_model*. Errors raised by *prepare_model* are passed on.
        """
        if names := tuple(connection.config.name for connection in self._servers if connection.is_starting):
            self._events.publish(ServersAwaited(names))
        async with anyio.create_task_group() as tasks:
            for connection in self._servers:
                if connection.is_starting:
                    tasks.start_soon(self._wait_for_one, connection)
        if any(connection.is_starting for connection in self._servers):
            await prepare_model()
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        newly_late = sorted(starting - self._late_servers)
        self._late_servers |= starting
        if newly_late:
            names = ", ".join(map(repr, newly_late))
            message, hint = (
                (
                    f"Starting without the server {names}, which is not ready.",
                    "Its tools become available when it is ready.",
                )
                if len(newly_late) == 1
                else (
                    f"Starting without the servers {names}, which are not ready.",
                    "Their tools become available when they are ready.",
                )
            )
            self._events.notify("info", message, hint)

    async def _wait_for_one(self, connection: ServerConnection) -> None:
        factor = 1
        with suppress(StoreError):
            factor = NEW_SERVER_FACTOR if await connection.is_first_start() else 1
        await connection.wait_for_start(self._settings.limits.server_wait * factor)

    def announce_joined(self) -> None:
        """Notify the user of servers that became ready after `wait`; call before each model request of a turn."""
        ready = {connection.config.name for connection in self._servers if connection.is_ready}
        joined = sorted(self._late_servers & ready)
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        self._late_servers &= starting - ready
        if joined:
            names = ", ".join(map(repr, joined))
            self._events.notify(
                "info",
                f"The server {names} is ready; its tools are now available."
                if len(joined) == 1
                else f"The servers {names} are ready; their tools are now available.",
            )
