"""Choice between entries of the same server name in several files, for `servers` actions that change an entry."""

from typing import TYPE_CHECKING

from mcphost.cli.printing import print_note
from mcphost.errors import ConfigError, UsageError
from mcphost.translation import _

if TYPE_CHECKING:
    from pathlib import Path

    from mcphost.config.entry_scopes import ScopedEntry
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.config.server_files import Scope


def choose_entry(
    config: "HostConfig", folders: "tuple[Path, Path]", name: str, scope: "Scope | None", *, must_choose: bool = False
) -> "ServerConfig":
    """Return the server whose entry is to be changed; print a note if another file also has an entry *name*.

    The entry is taken from the file for *scope* or, if *scope* is None, from the file whose entry mcphost uses.
    *folders* are the configuration folder and the folder in which mcphost was started. If the chosen entry is invalid,
    only the name and the file of the returned server are set.

    Raises ConfigError if the entry's file cannot be read, and UsageError if there is no such entry. Also raises
    UsageError if *must_choose* is set, *scope* is None, and several files have an entry *name*.
    """
    from mcphost.cli.command_runner import require_server
    from mcphost.config.entry_scopes import find_scopes, load_scoped_server

    used = config.find_server(name)
    entries = find_scopes(name, *folders)
    if scope is not None:
        chosen = next((entry for entry in entries if entry.scope == scope), None)
        if chosen is None:
            raise _no_entry(name, scope, entries, folders)
    elif must_choose and len(entries) > 1:
        raise _several_entries(name, entries)
    else:
        chosen = next((one for one in entries if used is None or one.path == used.file), None)
    if chosen is None:
        return require_server(config, name)
    others = [entry for entry in entries if entry is not chosen]
    if others:
        _print_others(name, chosen, others, used)
    if used is not None and used.file == chosen.path:
        return used
    return load_scoped_server(chosen, name, *folders)


def print_left_entries(name: str, folders: "tuple[Path, Path]") -> None:
    """Print a note about each file that still has an entry named *name* after one was removed.

    *folders* are the configuration folder and the folder in which mcphost was started.
    """
    from mcphost.config.entry_scopes import find_scopes

    for entry in find_scopes(name, *folders):
        print_note(_("{file} still has an entry named {name}.").format(file=entry.path, name=name))


def require_valid(config: "HostConfig", server: "ServerConfig") -> None:
    """Raise ConfigError if the entry of *server* is invalid; *server* must be a result of `choose_entry`."""
    from mcphost.config.loader import find_server_problem

    if server.command or server.url:
        return
    problem = find_server_problem(config, server.name)
    raise ConfigError(
        problem or f"{server.file}: the entry of {server.name!r} is not valid. Correct it.",
    )


def _print_others(name: str, chosen: "ScopedEntry", others: "list[ScopedEntry]", used: "ServerConfig | None") -> None:
    from mcphost.config.entry_scopes import list_scopes

    if used is None or used.file == chosen.path:
        text = _("This is about {name} in {file}. The name is also in: {others}.")
    else:
        text = _("This is about {name} in {file}, which is not used here. The name is also in: {others}.")
    print_note(text.format(name=name, file=chosen.path, others=list_scopes(others)))


def _no_entry(
    name: str, scope: "Scope", entries: "tuple[ScopedEntry, ...]", folders: "tuple[Path, Path]"
) -> UsageError:
    from mcphost.config.entry_scopes import list_scopes
    from mcphost.config.server_files import parse_file, scope_file

    file = scope_file(scope, *folders)
    parse_file(file)  # raises ConfigError if it cannot be read
    return UsageError(
        f"{file.path} has no server named {name!r} for the scope {scope}.",
        f"The name is in: {list_scopes(entries)}." if entries else "Names: mcphost servers list",
    )


def _several_entries(name: str, entries: "tuple[ScopedEntry, ...]") -> UsageError:
    from mcphost.config.entry_scopes import list_scopes

    return UsageError(
        f"Several files have a server named {name!r}: {list_scopes(entries)}. Nothing was removed.",
        "Say which one with --scope.",
    )
