"""The record of one server in a project's lock file (`mcphost.lock`).

Without a lock file, a tool that mcphost has never seen before is accepted without asking the user. If the lock file
records the server's tools, only these are accepted. If the lock file exists but cannot be used, the server is not
started.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from mcphost.config.schema import ServerConfig
from mcphost.errors import LockFileError
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.redact import PLACEHOLDER
from mcphost.serialization import encode, replace

if TYPE_CHECKING:
    from mcphost.client.session import ServerFacts
    from mcphost.config.lock_file import LockedServer, LockedTool


class ProjectLock:
    """The record of one server in the lock file; empty if the server is not from a project's `.mcp.json`."""

    def __init__(self, server: ServerConfig) -> None:
        self._server = server
        self.locked: LockedServer | None = None
        self.problem = ""
        """A sentence that says that an existing lock file has no record of this server; "" if it has one."""
        self._is_read = not self._is_expected

    @property
    def _is_expected(self) -> bool:
        """Whether the server comes from a project's `.mcp.json`, so that there may be a lock file next to it."""
        return self._server.source == "project" and bool(self._server.file)

    async def load(self) -> None:
        """Read the lock file if the server comes from a project; call this before the server is started.

        Raises LockFileError if the file exists but cannot be used. The server must then not be started, because it is
        unknown which of its tools were reviewed.
        """
        if self._is_expected:
            await anyio.to_thread.run_sync(self._read)

    def _read(self) -> None:
        from mcphost.config.lock_file import LOCK_FILE, read_lock

        path = Path(self._server.file).with_name(LOCK_FILE)
        self._is_read, self.locked, self.problem = False, None, ""
        try:
            self.locked = read_lock(path)[0].servers.get(self._server.name)
            self.problem = "" if self.locked is not None else f"{path} does not have this server."
        except FileNotFoundError:
            pass
        except LockFileError as error:
            raise LockFileError(
                f"Not started, because the project's lock file cannot be used: {error.message}", error.hint
            ) from error
        self._is_read = True

    @property
    def has_tools(self) -> bool:
        """Whether the lock file records this server's tools, so that `allows` accepts no others."""
        return self.locked is not None and self.locked.identity is not None

    def allows(self, listed: ToolDefinition, digest: str) -> bool:
        """Return whether the lock file accepts *listed*, a tool that mcphost has never seen before.

        If the file records this server's tools, *listed* must be one of them, with the same definition. If it records
        none, or there is no lock file, every tool is accepted. No tool is accepted before `load` has succeeded.
        *digest* is the SHA-256 of the canonical JSON of *listed*, in hexadecimal.
        """
        if not self._is_read or not self.has_tools:
            return self._is_read
        tool = self._find(listed.name)
        if tool is None or tool.digest == f"sha256:{digest}":
            return tool is not None
        # The file contains the digest of the definition with secrets hidden.
        return PLACEHOLDER.encode() in encode(tool.definition) and tool.digest == _lock_tool(listed).digest

    def locked_definition(self, name: str) -> bytes:
        """Return a tool's definition as recorded in the lock file, as JSON; empty if it is not recorded."""
        tool = self._find(name)
        return encode(tool.definition) if tool is not None and tool.definition else b""

    def shown_definition(self, listed: ToolDefinition) -> bytes:
        """Return a tool's current definition in the form in which a lock file records it, as JSON."""
        return encode(_lock_tool(listed).definition)

    def _find(self, name: str) -> "LockedTool | None":
        return self.locked.tools.get(name) if self.locked is not None else None

    def read_server(self, facts: "ServerFacts", tools: Mapping[str, ToolDefinition]) -> "LockedServer":
        """Return a lock file record of the connected server's current state. Slow if there are many tools."""
        from mcphost.host.servers.locked_entries import lock_connected, lock_entry

        locked = self.locked
        # The entry as written is unknown here; folder, origin and paths were approved together with it.
        entry = lock_entry(self._server, {})
        if locked is not None:
            ca_file = locked.ca_file if entry.ca_file and locked.ca_file else entry.ca_file
            # Restrictions of the user's own entry for the same server are added to those of the project.
            are_disabled = set(locked.disabled_tools) <= set(entry.disabled_tools)
            entry = replace(
                entry,
                cwd=locked.cwd,
                registry=locked.registry,
                ca_file=ca_file,
                disabled_tools=locked.disabled_tools if are_disabled else entry.disabled_tools,
                review_results=locked.review_results and entry.review_results,
                sampling=locked.sampling,
            )
        return lock_connected(entry, facts, tools.values()) if self.has_tools else entry


def _lock_tool(listed: ToolDefinition) -> "LockedTool":
    from mcphost.host.servers.locked_entries import lock_tool

    return lock_tool(listed)
