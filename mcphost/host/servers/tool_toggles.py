"""Which tools the user switched off: the model is not told of them, and what it calls by their name is not called.

The user may still call them by hand. Whoever renames a server or a tool has another one: it is on, and asked about.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

import anyio

from mcphost.config.schema import ServerConfig
from mcphost.errors import StoreError, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import HostEvent, ToolToggled
from mcphost.protocol.tools import Tool
from mcphost.sanitize import replace_surrogates
from mcphost.store.tool_toggles import StoredSwitches

DisabledBy = Literal["", "file", "user"]
"""Who switched it off: a configuration file, or the user here; nobody when it is on."""


class ToolToggles:
    """One for the host. What the store keeps counts as soon as `known` was awaited."""

    def __init__(
        self,
        stored_toggles: StoredSwitches,
        audit: AuditLog,
        publish: Callable[[HostEvent], None],
        on_store_error: Callable[[StoreError], None],
    ) -> None:
        """`tell` hears of a store that fails: then what is switched lasts for this run."""
        self._stored_toggles = stored_toggles
        self._audit = audit
        self._publish = publish
        self._on_store_error = on_store_error
        self._disabled: dict[str, set[str]] = {}
        self._is_loaded = False
        self._lock = anyio.Lock()

    async def load(self) -> None:
        """Wait until it is known what was switched off in earlier runs. Raises nothing but cancellation."""
        async with self._lock:
            if self._is_loaded:
                return
            try:
                kept = await self._stored_toggles.all()
            except StoreError as error:
                self._on_store_error(error)
                kept = ()
            for server, tool in kept:
                self._disabled.setdefault(server, set()).add(tool)
            self._is_loaded = True

    def disabled_by(self, server: ServerConfig, tool: str) -> DisabledBy:
        """Who switched it off."""
        if any(fnmatchcase(tool, pattern) for pattern in server.disabled_tools):
            return "file"
        return (
            "user"
            if any(replace_surrogates(tool) in self._disabled.get(name, ()) for name in _server_names(server))
            else ""
        )

    def disabled_tools(self, server: ServerConfig, tools: Iterable[Tool]) -> tuple[str, ...]:
        """The names of those that are off."""
        if not server.disabled_tools and not any(self._disabled.get(name) for name in _server_names(server)):
            return ()
        return tuple(tool.name for tool in tools if self.disabled_by(server, tool.name))

    async def set_enabled(self, server: ServerConfig, tool: str, *, enabled: bool) -> None:
        """The user's own act; from now on, and in later runs. Raises UsageError for what a file switched off, Declined
        when it must be recorded and cannot be."""
        await self.load()
        if enabled and self.disabled_by(server, tool) == "file":
            raise UsageError(
                f'The tool {tool!r} is switched off by "disabledTools" in {server.file}.', "Take it out there."
            )
        other = next((name for name in server.same_as if replace_surrogates(tool) in self._disabled.get(name, ())), "")
        if enabled and other:
            raise UsageError(
                f"The tool {tool!r} is switched off at {other}, which leads to the same server.", "Switch it on there."
            )
        act = AuditSubject(kind="tool", server=server.name, name=tool)
        await self._audit.record_event(act, "switched on" if enabled else "switched off", who="person")
        off = self._disabled.setdefault(server.name, set())
        off.discard(replace_surrogates(tool)) if enabled else off.add(replace_surrogates(tool))
        self._publish(ToolToggled(server.name, tool, on=enabled))
        try:
            await self._stored_toggles.keep(server.name, replace_surrogates(tool), on=enabled)
        except StoreError as error:
            self._on_store_error(error)


def _server_names(server: ServerConfig) -> tuple[str, ...]:
    """Under which names a tool of it may be switched off: its own, and those of the user's for the same server."""
    return (server.name, *server.same_as)
