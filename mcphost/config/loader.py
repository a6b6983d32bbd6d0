"""Loader that merges the configuration files; invalid parts are reported and skipped."""

import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcphost.config.json_files import decode_text, parse_json, read_bytes
from mcphost.config.mcp_json import parse_file_roots, parse_servers
from mcphost.config.profiles import apply_profile
from mcphost.config.schema import (
    ConfigWarning,
    HostConfig,
    ResultsConfig,
    RootConfig,
    ServerConfig,
    Source,
    UnreadFile,
    UnreadSettings,
    find_config_error,
    find_unread_settings,
)
from mcphost.config.server_inputs import with_input_values
from mcphost.config.server_restrictions import apply_restrictions
from mcphost.config.settings import Overrides, apply_overrides, convert_settings
from mcphost.config.toml_files import parse_toml
from mcphost.errors import ConfigError, LockFileError, McpHostError, UsageError
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, find_member, replace
from mcphost.unicode_forms import confusable_pairs

SERVERS_FILE = "mcp.json"
SETTINGS_FILE = "config.toml"
PROJECT_FILE = ".mcp.json"
LOCAL_FILE = "local.json"
"""The user's own servers for individual folders: `{"folders": {"/path": {"mcpServers": {…}}}}`."""


_UNREAD_CONFIG = HostConfig(results=ResultsConfig(megabytes=1_000_000, days=36_500))
"""The settings while config.toml cannot be read: the defaults, except that no stored result is deleted."""


class ConfigSources(NamedTuple):
    """The paths of the configuration files, and a function that loads them.

    `load` takes the name of a profile to use instead of the configured one; None means the configured one.
    """

    load: Callable[[str | None], Awaitable[HostConfig]]
    files: tuple[Path, ...]


class ProjectFile(Struct, frozen=True):
    """A project's `.mcp.json`, whose servers are used only if the user trusts the file.

    `digest` is the SHA-256 (hex) of `content`. Trust applies to this content, never to the path alone.
    """

    path: str
    digest: str
    content: bytes


class _FileContent(Struct, frozen=True):
    servers: tuple[ServerConfig, ...] = ()
    roots: tuple[RootConfig, ...] = ()


def read_project_file(directory: Path) -> ProjectFile | None:
    """Read the `.mcp.json` in a directory without parsing it; return None if the file does not exist.

    Raises ConfigError if the file is unreadable.
    """
    path = directory / PROJECT_FILE
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return None
    return make_project_file(path, content)


def make_project_file(path: Path, content: bytes) -> ProjectFile:
    """Return a ProjectFile with the given path and content; the file itself is not read."""
    return ProjectFile(str(path), hashlib.sha256(content).hexdigest(), content)


def load_config(
    directory: Path,
    *,
    files: Iterable[str] = (),
    project: ProjectFile | None = None,
    overrides: Overrides | None = None,
    environ: Mapping[str, str] | None = None,
    strict: bool = False,
    is_diagnosis: bool = False,
) -> HostConfig:
    """Load `config.toml` from *directory* and the servers, then apply the overrides from flags and *environ*.

    The servers come from *files*, the files given with `--mcp-config`, which count as approved. If there are none, the
    servers come from `local.json` (the entries for the current folder), `mcp.json` and *project*, a file that the user
    trusts. If several servers have the same name, the first is used. Invalid parts are reported in `problems`.

    Raises ConfigError if `config.toml` is unreadable, or if it is invalid and may forbid tool calls or limit costs.
    With *is_diagnosis*, the default settings are used instead, without a profile. Restrictions in the file then have no
    effect, so the caller must not call a tool or a model. With *strict*, ConfigError is also raised if one of *files*
    is invalid or missing. Raises UsageError if `--profile` or MCPHOST_PROFILE names an unknown profile.
    """
    settings = directory / SETTINGS_FILE
    named = list(files)
    problems = _find_write_problems(directory, settings, *((SERVERS_FILE, LOCAL_FILE) if not named else ()))
    config = replace(_load_settings(settings, problems, is_diagnosis=is_diagnosis), settings_file=str(settings))
    servers, roots = list[ServerConfig](), list[RootConfig]()
    if named:
        for name in named:
            try:
                content = _load_named_file(Path(os.path.expanduser(name)), problems)
            except ConfigError as error:
                if strict:
                    raise
                problems.append(UnreadFile(error))
            else:
                _add_servers(servers, content.servers, problems)
                roots += content.roots
    else:
        _add_servers(servers, _load_local_servers(directory / LOCAL_FILE, problems), problems)
        local = {server.name for server in servers}
        own = _load_user_file(directory / SERVERS_FILE, problems).servers
        _add_servers(servers, (server for server in own if server.name not in local), problems)
        if project is not None:
            content = _parse_project_file(project, problems)
            _add_servers(servers, content.servers, problems)
            roots += content.roots
    problems += _find_confusable_names(servers)
    servers = with_input_values(servers, directory, problems.append)
    problems += [] if named else _find_rule_problems(config, servers)
    restricted, never = apply_restrictions(servers, config.never_rules, config.sampling.limits)
    problems = list(dict.fromkeys(problems))
    merged = replace(
        config, servers=restricted, never_rules=never, project_roots=tuple(roots), problems=tuple(problems)
    )
    overrides, environ = overrides or Overrides(), {} if environ is None else environ
    if is_diagnosis and find_unread_settings(problems):
        return apply_overrides(merged, overrides, environ)  # the profiles are unknown
    return apply_overrides(_use_profile(merged, overrides, environ), overrides, environ)


def _find_confusable_names(servers: Iterable[ServerConfig]) -> list[str]:
    return [
        f'{SERVERS_FILE}: server "{other}" has a name that looks like that of "{name}". Rename one of them.'
        for name, other in confusable_pairs(server.name for server in servers)
    ]


def _find_rule_problems(config: HostConfig, servers: Iterable[ServerConfig]) -> list[ConfigWarning]:
    """Return a warning for each of the user's rules that probably matches no call, such as one with a misspelt name.

    *servers* must include all of the user's servers. Do not call this with `--mcp-config`, because its files
    replace the user's servers.
    """
    if not config.never_rules:
        return []
    from mcphost.config.rule_warnings import find_rule_warnings  # imported late, because only these rules need it

    found = find_rule_warnings(config.never_rules, {server.name for server in servers}, with_unlike=False)
    return [ConfigWarning(f"{config.settings_file}: {text}") for text in found]


def _use_profile(config: HostConfig, overrides: Overrides, environ: Mapping[str, str]) -> HostConfig:
    """Apply the profile selected by `--profile`, or else by MCPHOST_PROFILE, or else by config.toml.

    An unknown profile raises UsageError if `--profile` or MCPHOST_PROFILE selects it; in config.toml, it is only
    reported as a problem.
    """
    chosen = environ.get("MCPHOST_PROFILE", "") if overrides.profile is None else overrides.profile
    if chosen or overrides.profile is not None:
        return apply_profile(config, chosen)
    try:
        return apply_profile(config, config.profile)
    except UsageError as error:
        return replace(config, profile="", problems=(*config.problems, str(error)))


def find_server_problem(config: HostConfig, server: str) -> str:
    """Return the first configuration problem that makes the server named *server* unusable, or "" if there is none."""
    return find_config_error(config.problems, f'server "{server}"')


def add_file_name(error: McpHostError, server: ServerConfig) -> None:
    """Add the path of the file that configures *server* to the hint and the message of *error*, in place.

    In the hint, the path replaces "mcp.json". The message of a ConfigError gets the path and the server's name as a
    prefix, unless the error is a LockFileError, whose message already names the lock file. Does nothing if the
    server is not configured in a file.
    """
    if not server.file:
        return
    file = sanitize(server.file, keep_newlines=False)
    error.hint = error.hint.replace("mcp.json", file) if file not in error.hint else error.hint
    if isinstance(error, ConfigError) and not isinstance(error, LockFileError) and file not in error.message:
        error.message = f'{file}: server "{server.name}": {error.message}'


def find_file_problem(config: HostConfig) -> str:
    """Return the first problem that affects a whole mcp.json, not just one server, or "" if none does."""
    problems = (problem for problem in config.problems if 'server "' not in problem and "is not used" not in problem)
    return find_config_error(problems, SERVERS_FILE)


def find_unread_file(config: HostConfig) -> str:
    """Return the problem of the first file whose servers could not be read, or "" if there is none."""
    return next((problem for problem in config.problems if isinstance(problem, UnreadFile)), "")


def _write_problem(path: Path) -> str:
    """Return a warning if other users can change the file or folder at *path*, otherwise "".

    By changing `config.toml`, other users could allow tool calls and add hooks, which are programs that run
    without confirmation. In `mcp.json` and `local.json`, they could change what the approval of a server does not
    cover: whether its tools and its annotations are trusted, and whether its results are reviewed.
    """
    try:
        status = path.stat()
    except OSError:
        return ""
    writers = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != os.getegid() else 0)
    if not status.st_mode & writers:
        return ""
    mode = stat.S_IMODE(status.st_mode)
    return (
        f"Other users of this machine can change {path} (mode {mode:04o}), and with it what mcphost runs and allows. "
        "Take that right from them with chmod go-w."
    )


def _find_write_problems(directory: Path, *names: Path | str) -> list[str]:
    paths = (directory, *(directory / name for name in names))
    return [ConfigWarning(text) for path in paths if (text := _write_problem(path))]


def _load_settings(path: Path, problems: list[str], *, is_diagnosis: bool) -> HostConfig:
    raw: bytes | None = None
    try:
        raw = read_bytes(path)
        text = decode_text(raw, str(path))
        document = parse_toml(text, str(path))
    except FileNotFoundError:
        return HostConfig()
    except ConfigError as error:
        if not is_diagnosis and (raw is None or _may_restrict(raw)):
            # Continuing without the file would allow tool calls, or costs, that the user meant to forbid.
            raise
        problems.append(UnreadSettings(error))
        return _UNREAD_CONFIG
    try:
        return convert_settings(document, text, str(path), problems.append)
    except ConfigError as error:
        if not is_diagnosis:
            raise
        problems.append(UnreadSettings(error))
        return _UNREAD_CONFIG


def _may_restrict(raw: bytes) -> bool:
    """Return whether an invalid config.toml may contain settings that forbid tool calls or limit costs.

    The keys of such settings are searched for in the bytes of the file, because it cannot be parsed; it may even be
    in UTF-16.
    """
    text = raw.replace(b"\0", b"")
    return any(word in text for word in (b"hooks", b"never", b"budget", b"origins"))


def _load_user_file(path: Path, problems: list[str]) -> _FileContent:
    try:
        return _parse_file(read_bytes(path), str(path), "user", problems)
    except FileNotFoundError:
        return _FileContent()
    except ConfigError as error:
        problems.append(UnreadFile(error))
        return _FileContent()


def _load_local_servers(path: Path, problems: list[str]) -> tuple[ServerConfig, ...]:
    """Return the servers in local.json for the current folder; they take precedence over those in mcp.json."""
    try:
        document = parse_json(decode_text(read_bytes(path), str(path)), str(path))
        entries = find_local_entries(document, Path.cwd())
        return parse_servers(entries, str(path), "user", problems.append)
    except FileNotFoundError:
        return ()
    except ConfigError as error:
        problems.append(UnreadFile(error))
        return ()


def find_local_entries(document: Any, folder: Path) -> Any:
    """Return the value stored for *folder* in a parsed local.json, or {} if no value is stored."""
    found = find_member(document, ("folders", os.path.realpath(folder)))
    return {} if found is None else found


def _load_named_file(path: Path, problems: list[str]) -> _FileContent:
    try:
        return _parse_file(read_bytes(path), str(path), "flag", problems)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist.", "Check the name given with --mcp-config.") from error


def _parse_project_file(project: ProjectFile, problems: list[str]) -> _FileContent:
    try:
        return _parse_file(project.content, project.path, "project", problems)
    except ConfigError as error:
        problems.append(UnreadFile(error))
        return _FileContent()


def _parse_file(raw: bytes, file: str, source: Source, problems: list[str]) -> _FileContent:
    text = decode_text(raw, file)
    if not text.strip():
        return _FileContent()
    document = parse_json(text, file)
    servers = parse_servers(document, file, source, problems.append)
    return _FileContent(servers, parse_file_roots(document, file, source, problems.append))


def _add_servers(servers: list[ServerConfig], more: Iterable[ServerConfig], problems: list[str]) -> None:
    """Append the servers in *more* whose names are not in use yet; report the others in *problems*.

    This prevents a project from replacing one of the user's own servers.
    """
    taken = {server.name: server for server in servers}
    for server in more:
        other = taken.get(server.name)
        if other is None:
            servers.append(server)
        else:
            problems.append(
                f'{server.file}: server "{server.name}" is not used: {other.file} has one of that name. Rename one.'
            )
