"""Which tools the user switched off: the model is not told of them, and what it calls by their name is not called.

The user may still call them by hand. Whoever renames a server or a tool has another one: it is on, and asked about.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

import anyio

from mcphost.config.schema import ServerConfig
from mcphost.errors import StoreError, UsageError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.events import HostEvent, ToolSwitched
from mcphost.protocol.tools import Tool
from mcphost.sanitize import whole
from mcphost.store.tool_toggles import StoredSwitches

By = Literal["", "file", "user"]
"""Who switched it off: a configuration file, or the user here; nobody when it is on."""


class Switches:
    """One for the host. What the store keeps counts as soon as `known` was awaited."""

    def __init__(
        self,
        stored: StoredSwitches,
        journal: Journal,
        put: Callable[[HostEvent], None],
        tell: Callable[[StoreError], None],
    ) -> None:
        """`tell` hears of a store that fails: then what is switched lasts for this run."""
        self._stored = stored
        self._journal = journal
        self._put = put
        self._tell = tell
        self._off: dict[str, set[str]] = {}
        self._read = False
        self._one_at_a_time = anyio.Lock()

    async def known(self) -> None:
        """Wait until it is known what was switched off in earlier runs. Raises nothing but cancellation."""
        async with self._one_at_a_time:
            if self._read:
                return
            try:
                kept = await self._stored.all()
            except StoreError as error:
                self._tell(error)
                kept = ()
            for server, tool in kept:
                self._off.setdefault(server, set()).add(tool)
            self._read = True

    def off(self, server: ServerConfig, tool: str) -> By:
        """Who switched it off."""
        if any(fnmatchcase(tool, pattern) for pattern in server.disabled_tools):
            return "file"
        return "user" if any(whole(tool) in self._off.get(name, ()) for name in _names(server)) else ""

    def among(self, server: ServerConfig, tools: Iterable[Tool]) -> tuple[str, ...]:
        """The names of those that are off."""
        if not server.disabled_tools and not any(self._off.get(name) for name in _names(server)):
            return ()
        return tuple(tool.name for tool in tools if self.off(server, tool.name))

    async def switch(self, server: ServerConfig, tool: str, *, on: bool) -> None:
        """The user's own act; from now on, and in later runs. Raises UsageError for what a file switched off, Declined
        when it must be recorded and cannot be."""
        await self.known()
        if on and self.off(server, tool) == "file":
            raise UsageError(
                f'The tool {tool!r} is switched off by "disabledTools" in {server.file}.', "Take it out there."
            )
        other = next((name for name in server.same_as if whole(tool) in self._off.get(name, ())), "")
        if on and other:
            raise UsageError(
                f"The tool {tool!r} is switched off at {other}, which leads to the same server.", "Switch it on there."
            )
        act = Act(kind="tool", server=server.name, subject=tool)
        await self._journal.noted(act, "switched on" if on else "switched off", who="person")
        off = self._off.setdefault(server.name, set())
        off.discard(whole(tool)) if on else off.add(whole(tool))
        self._put(ToolSwitched(server.name, tool, on=on))
        try:
            await self._stored.keep(server.name, whole(tool), on=on)
        except StoreError as error:
            self._tell(error)


def _names(server: ServerConfig) -> tuple[str, ...]:
    """Under which names a tool of it may be switched off: its own, and those of the user's for the same server."""
    return (server.name, *server.same_as)
