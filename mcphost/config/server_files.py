"""Files that configure servers (user, project, local), and planned edits to server entries in them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from mcphost.config.entry_keys import check_whole_command_line
from mcphost.config.file_edits import FileSnapshot, read_snapshot, replace_if_unchanged
from mcphost.config.json_edits import remove_member, set_member, update_member
from mcphost.config.json_files import decode_text, parse_json
from mcphost.config.loader import LOCAL_FILE, PROJECT_FILE, SERVERS_FILE
from mcphost.config.mcp_json import entry_mark, parse_servers
from mcphost.config.schema import ServerConfig, Source, find_config_error
from mcphost.config.secrets import PlaintextSecret, replace_in_text
from mcphost.errors import ConfigError, UsageError
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, as_object, find_member

Scope = Literal["user", "project", "local"]
"""Who can use a server: the user everywhere, everybody who has the project, or the user in one folder."""

SCOPES: tuple[Scope, ...] = ("user", "project", "local")
_PROJECT_FILE_MODE = 0o644
_ENTRY_KEYS = ("mcpServers", "servers")


class ServerFile(Struct, frozen=True):
    """A file that configures servers; `parents` is the path of keys to the object that contains `mcpServers`."""

    path: Path
    source: Source
    parents: tuple[str, ...] = ()


class ServerEdit(Struct, frozen=True, kw_only=True):
    """A planned change to one server's entry; nothing is written until `apply` is called.

    `entry` and `server` describe the server after the edit; both are None if the server is removed. `warnings` are
    sentences about the entry, for example about a value that looks like a secret.
    """

    name: str
    file: ServerFile
    before: FileSnapshot | None
    content: bytes
    entry: dict[str, Any] | None = None
    server: ServerConfig | None = None
    warnings: tuple[str, ...] = ()

    def apply(self) -> None:
        """Write the file. Raises ConfigError if it cannot be written or has changed since the edit was planned."""
        path = self.file.path
        if self.file.source == "project":
            replace_if_unchanged(path, self.before, self.content, mode=None if self.before else _PROJECT_FILE_MODE)
            return
        try:
            make_private_directory(path.parent)
        except OSError as error:
            raise ConfigError(
                f"{path.parent} cannot be created: {error.strerror}.", "Check its permissions."
            ) from error
        replace_if_unchanged(path, self.before, self.content)

    def check_undo(self) -> FileSnapshot:
        """Check that the file still has the content that the edit wrote, and return a snapshot of the file.

        Raises ConfigError if the content has changed since the edit.
        """
        path = self.file.path
        current = read_snapshot(path)
        if current.content != self.content:
            raise ConfigError(f"{path} was changed by another program; nothing was undone.", "Edit the file.")
        return current

    def undo(self) -> None:
        """Restore the content that the file had before the edit.

        Raises ConfigError if the file has changed since the edit.
        """
        path = self.file.path
        current = self.check_undo()
        if self.before is not None:
            replace_if_unchanged(path, current, self.before.content)
        else:
            path.unlink()


def scope_file(scope: Scope, config_dir: Path, folder: Path) -> ServerFile:
    """Return the configuration file for a scope: "user", "project" or "local".

    *config_dir* is the configuration folder, and *folder* is the folder in which mcphost was started.
    """
    match scope:
        case "user":
            return ServerFile(config_dir / SERVERS_FILE, "user")
        case "project":
            return ServerFile(folder / PROJECT_FILE, "project")
        case "local":
            return ServerFile(config_dir / LOCAL_FILE, "user", ("folders", os.path.realpath(folder)))


def find_server_file(server: ServerConfig, config_dir: Path, folder: Path) -> ServerFile:
    """Return the file that configures a server. Raises UsageError for the demo's built-in server."""
    if server.source == "demo" or not server.file:
        raise UsageError(f"{server.name!r} is built in.", "Only servers in a file can be changed.")
    local = scope_file("local", config_dir, folder)
    if Path(server.file) == local.path:
        return local
    return ServerFile(Path(server.file), server.source)


def plan_set(
    file: ServerFile,
    name: str,
    entry: dict[str, Any],
    *,
    replace: bool = False,
    expected: Mapping[str, Any] | None = None,
) -> ServerEdit:
    """Return an edit that adds a server's entry or, if *replace* is set, replaces an existing one.

    If the user edited an existing entry, *expected* is this entry as it was before the user began to edit it. Raises
    ConfigError if the file no longer contains *expected*, or if the new entry or the file is invalid. Raises UsageError
    if a server with this name exists and *replace* is not set.
    """
    before, text = _read(file)
    path = _entry_path(text, file, name)
    if expected is not None and find_member(_parse(text, file), path) != expected:
        raise ConfigError(
            f"{file.path}: the entry of {name!r} was changed meanwhile; nothing was written.",
            "Edit it again, from what is there now.",
        )
    if not replace and find_member(_parse(text, file), path) is not None:
        raise UsageError(
            f"{file.path} already has a server named {name!r}.", "Choose another name, or replace it with --replace."
        )
    edit = _plan(file, name, before, update_member(text, str(file.path), path, entry))
    if edit.server is not None:
        check_whole_command_line(edit.server)
    return edit


def replace_secret_in_text(text: str, file: ServerFile, server: str, secret: PlaintextSecret, name: str) -> str:
    """Return the text of a configuration file with one secret replaced by `${keyring:NAME}`.

    Unlike `replace_in_text`, this also supports secrets in arguments. Raises ConfigError if the file no longer
    contains the secret.
    """
    entry = _entry_path(text, file, server)
    if secret.keys[0] != "args":
        return replace_in_text(text, str(file.path), entry, secret, name)
    args = find_member(_parse(text, file), (*entry, "args"))
    at = int(secret.keys[1])
    items = cast("list[Any]", args) if isinstance(args, list) else []
    if at >= len(items) or items[at] != secret.value:
        raise ConfigError(f"{file.path} was changed by another program; nothing was written.", "Try again.")
    return set_member(text, str(file.path), (*entry, *secret.keys), secret.with_reference(secret.value, name))


def plan_remove(file: ServerFile, name: str) -> ServerEdit:
    """Return a plan to remove a server's entry. Raises ConfigError if the file is invalid or has no such entry."""
    before, text = _read(file)
    edited = remove_member(text, str(file.path), _entry_path(text, file, name))
    return ServerEdit(name=name, file=file, before=before, content=edited.encode())


def plan_set_disabled(file: ServerFile, name: str, *, disabled: bool) -> ServerEdit:
    """Return a plan to disable or enable a server.

    Raises ConfigError if the file is invalid or has no valid entry for the server.
    """
    before, text = _read(file)
    path = _entry_path(text, file, name)
    if not isinstance(find_member(_parse(text, file), path), dict):
        raise _missing_server(file, name)
    if disabled:
        return _plan(file, name, before, set_member(text, str(file.path), (*path, "disabled"), value=True))
    for keys in ((*path, "disabled"), (*path, "mcphost", "disabled")):
        if find_member(_parse(text, file), keys) is not None:
            text = remove_member(text, str(file.path), keys)
    return _plan(file, name, before, text)


def read_entry(file: ServerFile, name: str) -> dict[str, Any]:
    """Return a copy of a server's entry as written in the file.

    Raises ConfigError if the file is invalid or has no such entry, or if the entry is not an object.
    """
    entry = find_entry(file, name)
    if entry is None:
        if has_entry(file, name):
            raise ConfigError(
                f"{file.path}: the entry of {name!r} is not an object.", "Correct it there, or remove the server."
            )
        raise _missing_server(file, name)
    return entry


def has_entry(file: ServerFile, name: str) -> bool:
    """Return whether a file has an entry of this name, even one that is not an object.

    Raises ConfigError if the file is invalid.
    """
    _, text = _read(file)
    *parents, key = _entry_path(text, file, name)
    members = find_member(_parse(text, file), tuple(parents))
    return isinstance(members, dict) and key in members


def find_entry(file: ServerFile, name: str) -> dict[str, Any] | None:
    """Return a copy of a server's entry, or None if there is none. Raises ConfigError if the file is invalid."""
    _, text = _read(file)
    entry = find_member(_parse(text, file), _entry_path(text, file, name))
    return dict(cast("dict[str, Any]", entry)) if isinstance(entry, dict) else None


def parse_file(file: ServerFile) -> Any:
    """Return the whole parsed file, or {} if it is empty or does not exist. Raises ConfigError if it is invalid."""
    return _parse(_read(file)[1], file)


def _missing_server(file: ServerFile, name: str) -> ConfigError:
    return ConfigError(f"{file.path} has no server named {name!r}.", "Was the file changed?")


def _read(file: ServerFile) -> tuple[FileSnapshot | None, str]:
    try:
        before = read_snapshot(file.path)
    except FileNotFoundError:
        return None, ""
    mark = "\ufeff" if before.content.startswith(b"\xef\xbb\xbf") else ""
    return before, mark + decode_text(before.content, str(file.path))


def _parse(text: str, file: ServerFile) -> Any:
    bare = text.removeprefix("\ufeff")
    return parse_json(bare, str(file.path)) if bare.strip() else {}


def _entry_path(text: str, file: ServerFile, name: str) -> tuple[str, ...]:
    """Return the path of keys to a server's entry.

    The path includes `mcpServers` or `servers`, depending on which of them the file uses.
    """
    parent = find_member(_parse(text, file), file.parents)
    members = as_object(parent)
    key = next((key for key in _ENTRY_KEYS if key in members), _ENTRY_KEYS[0])
    return (*file.parents, key, name)


def _plan(file: ServerFile, name: str, before: FileSnapshot | None, edited: str) -> ServerEdit:
    """Return the edit that replaces the content of a file with the text *edited*.

    *before* is a snapshot of the file before the edit, or None if the file does not exist. Raises ConfigError if
    the text does not contain a valid entry for the server *name*.
    """
    problems: list[str] = []
    document = _parse(edited, file)
    servers = parse_servers(find_member(document, file.parents), str(file.path), file.source, problems.append)
    warnings = tuple(problem for problem in problems if entry_mark(name) in problem)
    server = next((server for server in servers if server.name == name), None)
    if server is None:
        raise ConfigError(
            find_config_error(warnings) or f"{file.path}: the entry of {name!r} is not valid. Correct it."
        )
    entry = find_member(document, _entry_path(edited, file, name))
    return ServerEdit(
        name=name, file=file, before=before, content=edited.encode(), entry=entry, server=server, warnings=warnings
    )
