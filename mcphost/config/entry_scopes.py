"""Entries for the same server name in the files of several scopes, of which mcphost uses only the first."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mcphost.config.loader import find_local_entries
from mcphost.config.mcp_json import parse_servers
from mcphost.config.schema import ServerConfig
from mcphost.config.server_files import Scope, ServerFile, has_entry, parse_file, scope_file
from mcphost.config.server_inputs import with_input_values
from mcphost.errors import ConfigError
from mcphost.serialization import Struct

SCOPES_IN_ORDER: tuple[Scope, ...] = ("local", "user", "project")
"""The scopes in the order in which mcphost looks for the entry of a name."""


class ScopedEntry(Struct, frozen=True):
    """An entry in the configuration file of one scope; its content may be invalid."""

    scope: Scope
    file: ServerFile

    @property
    def path(self) -> str:
        """The path of the file."""
        return str(self.file.path)


def find_scopes(name: str, config_dir: Path, folder: Path) -> tuple[ScopedEntry, ...]:
    """Return the entries for the server *name*, at most one per scope; mcphost uses the first.

    Files that cannot be read are left out. *folder* is the folder in which mcphost was started.
    """
    found: list[ScopedEntry] = []
    for scope in SCOPES_IN_ORDER:
        file = scope_file(scope, config_dir, folder)
        with suppress(ConfigError):
            if has_entry(file, name):
                found.append(ScopedEntry(scope, file))
    return tuple(found)


def load_scoped_server(entry: ScopedEntry, name: str, config_dir: Path, folder: Path) -> ServerConfig:
    """Return the server of *entry* as its file defines it, whether or not mcphost uses the entry.

    If the entry is invalid, the result has only the name and the file, so that the entry can be edited and removed.
    Raises ConfigError if the file cannot be read.
    """
    document = parse_file(entry.file)
    if entry.file.parents:
        document = find_local_entries(document, folder)
    servers = parse_servers(document, entry.path, entry.file.source, lambda problem: None)
    found = [server for server in servers if server.name == name]
    if not found:
        return ServerConfig(name=name, file=entry.path, source=entry.file.source)
    return with_input_values(found[:1], config_dir, lambda problem: None)[0]


def load_other_entries(server: ServerConfig, config_dir: Path, folder: Path) -> tuple[ServerConfig, ...]:
    """Return the servers with the name of *server* in the files of other scopes.

    Files that cannot be read are left out.
    """
    entries = find_scopes(server.name, config_dir, folder)
    others = (entry for entry in entries if entry.path != server.file)
    return tuple(load_scoped_server(entry, server.name, config_dir, folder) for entry in others)


def list_scopes(entries: Iterable[ScopedEntry]) -> str:
    """Return the paths of the *entries*, separated by commas, each with its `--scope` flag."""
    return ", ".join(f"{entry.path} (--scope {entry.scope})" for entry in entries)
