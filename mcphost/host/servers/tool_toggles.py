"""Tools that are turned off or pinned.

A tool that is off is not offered to the model, and the model's calls to it are refused; the user can still call it. The
definition of a pinned tool is sent with every request and never deferred. A renamed server or tool counts as new: it is
on and not pinned, and calls to it need approval again.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

import anyio

from mcphost.config.schema import ServerConfig
from mcphost.errors import StoreError, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import AnyEvent, ToolToggled
from mcphost.protocol.tools import Tool
from mcphost.sanitize import replace_surrogates
from mcphost.store.tool_toggles import ToolToggleStore

DisabledBy = Literal["", "file", "user"]
"""What turned a tool off: a configuration file or the user; "" if the tool is on."""


class ToolToggles:
    """Registry of the tools that are turned off or pinned; `load` restores those from earlier runs."""

    def __init__(
        self,
        stored_toggles: ToolToggleStore,
        audit: AuditLog,
        publish: Callable[[AnyEvent], None],
        on_store_error: Callable[[StoreError], None],
    ) -> None:
        """Create the registry; *on_store_error* is called with each error from the store.

        If a change cannot be stored, it applies only to this run.
        """
        self._stored_toggles = stored_toggles
        self._audit = audit
        self._publish = publish
        self._on_store_error = on_store_error
        self._disabled: dict[str, set[str]] = {}
        self._pinned: set[tuple[str, str]] = set()
        self._is_loaded = False
        self._lock = anyio.Lock()

    async def load(self) -> None:
        """Load the tools turned off or pinned in earlier runs. Never raises an error. Safe to cancel."""
        async with self._lock:
            if self._is_loaded:
                return
            try:
                stored = await self._stored_toggles.load()
            except StoreError as error:
                self._on_store_error(error)
            else:
                self._pinned.update(stored.pinned)
                for server, tool in stored.disabled:
                    self._disabled.setdefault(server, set()).add(tool)
            self._is_loaded = True

    def disabled_by(self, server: ServerConfig, tool: str) -> DisabledBy:
        """Return what turned the tool off: "file" (a configuration file) or "user"; "" if the tool is on."""
        if any(fnmatchcase(tool, pattern) for pattern in server.disabled_tools):
            return "file"
        return (
            "user"
            if any(replace_surrogates(tool) in self._disabled.get(name, ()) for name in _server_names(server))
            else ""
        )

    def disabled_tools(self, server: ServerConfig, tools: Iterable[Tool]) -> tuple[str, ...]:
        """Return the names of those *tools* that are turned off."""
        if not server.disabled_tools and not any(self._disabled.get(name) for name in _server_names(server)):
            return ()
        return tuple(tool.name for tool in tools if self.disabled_by(server, tool.name))

    async def set_enabled(self, server: ServerConfig, tool: str, *, enabled: bool, who: str = "person") -> None:
        """Turn a tool on or off for the model, in this and later runs.

        *who* is the source that the audit log records (see `audit_labels.SOURCE_LABELS`). Raises UsageError if the tool
        cannot be turned on here, because a configuration file turns it off, or because it was turned off for another
        name of the same server. Raises ConsentDenied if the required audit row cannot be written.
        """
        await self.load()
        if enabled and self.disabled_by(server, tool) == "file":
            raise UsageError(
                f'The tool {tool!r} is off because of "disabledTools" in {server.file}.', "Remove it there."
            )
        other_server = next(
            (name for name in server.matching_servers if replace_surrogates(tool) in self._disabled.get(name, ())), ""
        )
        if enabled and other_server:
            raise UsageError(
                f"The tool {tool!r} is off at {other_server}, which is the same server.",
                "Turn it on there.",
            )
        subject = AuditSubject(kind="tool", server=server.name, name=tool)
        await self._audit.record_event(subject, "switched on" if enabled else "switched off", who=who)
        disabled = self._disabled.setdefault(server.name, set())
        disabled.discard(replace_surrogates(tool)) if enabled else disabled.add(replace_surrogates(tool))
        self._publish(ToolToggled(server.name, tool, on=enabled))
        try:
            await self._stored_toggles.save(server.name, replace_surrogates(tool), enabled=enabled)
        except StoreError as error:
            self._on_store_error(error)

    def is_pinned(self, server: str, tool: str) -> bool:
        """Return whether the user has pinned a tool; pins from earlier runs are known only after `load`."""
        return (server, replace_surrogates(tool)) in self._pinned

    async def set_pinned(self, server: str, tool: str, *, pinned: bool) -> None:
        """Pin a tool, so that its definition is always sent to the model, or unpin it, in this and later runs."""
        await self.load()
        name = replace_surrogates(tool)
        self._pinned.add((server, name)) if pinned else self._pinned.discard((server, name))
        try:
            await self._stored_toggles.save_pinned(server, name, pinned=pinned)
        except StoreError as error:
            self._on_store_error(error)


def _server_names(server: ServerConfig) -> tuple[str, ...]:
    """Return the server's name and the other names under which the same server is configured."""
    return (server.name, *server.matching_servers)
