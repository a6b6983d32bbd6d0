"""The servers in the configuration files of other MCP hosts, such as Claude Desktop.

Files are only read, within limits, and no server is started. Their locations are in `host_formats`.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from mcphost.config.host_formats import HOSTS, PROJECT_FILE, HostFormat, Places, find_host
from mcphost.config.json_files import check_comments, decode_text, read_bytes, strip_comments
from mcphost.config.other_host_entries import (
    ForeignServer,
    UnusableEntry,
    allowed_tools,
    contains_servers,
    convert_sign_in,
    is_entry_disabled,
    set_folder,
    unsupported_references,
)
from mcphost.config.server_inputs import add_input_definitions
from mcphost.config.toml_files import parse_toml
from mcphost.config.windows_hosts import translate_entry
from mcphost.errors import ConfigError, MalformedMessage
from mcphost.json_limits import MAX_DEPTH, MAX_PLAIN_VALUES, JsonLimitExceeded, check_depth, run_steps
from mcphost.protocol.frontmatter import MAX_SIZE as MAX_SLOW_YAML
from mcphost.protocol.jsonrpc import replace_lone_surrogates
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Raw, as_object, decode, find_member, loads, replace, select_members

MAX_JSON_BYTES = 5_000_000
"""Maximum size of JSON: large, because Claude Code's file also contains its history (not decoded)."""

MAX_COMMENTED_BYTES = 1_000_000
"""Maximum size of JSON with comments or trailing commas, which are removed first."""

MAX_YAML_VALUES = 8_000
MAX_YAML_DEPTH = 32
_MAX_YAML_DIRECTIVES = 10
_MAX_SLOW_YAML_BRACKETS = 500
_MAX_NUMBER_LENGTH = 1_000
MEMBERS = ("mcpServers", "servers", "mcp", "mcp_servers", "context_servers", "extensions", "inputs", "projects")
"""Top-level members that may contain servers, in the format of any host; see `HostFormat.keys`."""

_DISABLED_KEY = "disabledMcpServers"
"""Names of the servers that the user of Claude Code disabled in a project."""

_OFFSET = re.compile(r"\(byte (\d{1,9})\)\Z")
_LIMIT_HINT = "Remove what does not belong to the servers, or name a smaller file."


def read_document(file: Path, folder: str) -> dict[str, Any]:
    """Read a JSON, TOML or YAML file, depending on its suffix, and return the members that may contain servers.

    In Claude Code's `projects`, only the member for *folder* is returned. The result is empty if the file contains no
    object. Raises FileNotFoundError if the file does not exist, and ConfigError, which names the file and the reason,
    if it cannot be read or parsed.
    """
    if file.suffix in (".toml", ".yaml", ".yml"):
        text = decode_text(read_bytes(file), str(file))
        document = parse_toml(text, str(file)) if file.suffix == ".toml" else _parse_yaml(text, str(file))
        return as_object(document)
    raw = read_bytes(file, MAX_JSON_BYTES)
    decode_text(raw, str(file))  # its error names the line
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    return _parse_json(raw, str(file), folder) if raw.strip() else {}


def _parse_json(raw: bytes, file: str, folder: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, member in _select_json(raw, file).items():
        try:
            document[name] = _read_project(member, folder) if name == "projects" else loads(member)
        except MalformedMessage as error:
            if not isinstance(error.__cause__, JsonLimitExceeded):
                raise ConfigError(f"{file} is not valid JSON.", "Correct the file.") from error
            raise ConfigError(
                f'{file}: "{name}" has over {MAX_PLAIN_VALUES:,} values or {MAX_DEPTH} levels.', _LIMIT_HINT
            ) from error
    return document


def _read_project(projects: Raw, folder: str) -> dict[str, Any]:
    """Return the member for *folder* in Claude Code's `projects`, reduced to its servers, or {} if it has none."""
    try:
        project = select_members(projects, (folder,)).get(folder)
        servers = select_members(project, ("mcpServers", _DISABLED_KEY)) if project is not None else {}
    except MalformedMessage:  # it is not an object
        return {}
    return {folder: {name: loads(member) for name, member in servers.items()}} if servers else {}


def _select_json(raw: bytes, file: str) -> Mapping[str, Raw]:
    """Return the members of a JSON file that may contain servers; comments and trailing commas are allowed."""
    try:
        return _select_members(raw)
    except MalformedMessage as error:
        reason = error
    if len(raw) <= MAX_COMMENTED_BYTES:
        text = decode_text(raw, file)
        check_comments(text, file)
        raw = strip_comments(text).encode()
        try:
            return _select_members(raw)
        except MalformedMessage as error:
            reason = error
    if isinstance(reason, JsonLimitExceeded):
        raise ConfigError(f"{file} is nested too deep.", "Servers are plain objects under mcpServers.") from reason
    place, hint = _find_place(raw, reason), "Correct the file there."
    if len(raw) > MAX_COMMENTED_BYTES:
        hint = f"Correct the file there; over {MAX_COMMENTED_BYTES // 1_000} kB it may have no comments."
    raise ConfigError(f"{file}{place}: not valid JSON ({_describe(reason)}).", hint) from reason


def _select_members(raw: bytes) -> Mapping[str, Raw]:
    check_depth(raw)
    if not raw.lstrip().startswith(b"{"):
        decode(raw, Raw)  # checks the syntax
        return {}
    try:
        return select_members(raw, MEMBERS)
    except MalformedMessage as error:
        mended = run_steps(replace_lone_surrogates(raw))  # from a host that truncates text inside an emoji
        if mended is None:
            raise
        try:
            return select_members(mended, MEMBERS)
        except MalformedMessage:
            raise error from error.__cause__


def _describe(reason: MalformedMessage) -> str:
    text = str(reason.__cause__ or reason.message).removeprefix("JSON is malformed: ")[:200]
    return _OFFSET.sub("", text).rstrip()


def _find_place(raw: bytes, reason: MalformedMessage) -> str:
    match = _OFFSET.search(str(reason.__cause__))
    if match is None:
        return ""
    *lines, line = raw[: int(match[1])].split(b"\n")
    return f", line {len(lines) + 1}, column {len(line.decode(errors='replace')) + 1}"


def _parse_yaml(text: str, file: str) -> Any:
    """Parse YAML. Raises ConfigError if it is invalid, too large or has aliases, which can expand to a huge value."""
    import yaml  # imported only for hosts that use YAML, because it takes 0.8 MB

    module = cast("Any", yaml)
    loader: Any = module.CSafeLoader if module.__with_libyaml__ else module.SafeLoader
    if text.count("%TAG") > _MAX_YAML_DIRECTIVES:
        raise ConfigError(f"{file}: more than {_MAX_YAML_DIRECTIVES} directives.", "Is it the right file?")
    brackets = text.count("[") + text.count("{")
    if not module.__with_libyaml__ and (len(text) > MAX_SLOW_YAML or brackets > _MAX_SLOW_YAML_BRACKETS):
        raise ConfigError(f"{file} is too large for PyYAML without libyaml.", "Install a PyYAML that has it.")
    try:
        _check_yaml_events(module.parse(text, loader), yaml, file)
        return module.load(text, loader)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError, LookupError, AttributeError) as error:
        # The last two for values such as `!!bool maybe`, `!!int ""` and `!!timestamp x`.
        raise ConfigError(f"{file} is not valid YAML.", "Correct the file.") from error


def _check_yaml_events(events: Any, yaml: Any, file: str) -> None:
    """Raise ConfigError if a YAML file has aliases, or too many values or levels for a configuration file.

    *events* are the events of PyYAML's parser for the file.
    """
    depth = 0
    for count, event in enumerate(events, 1):
        if isinstance(event, yaml.ScalarEvent):
            value: str = event.value
            # PyYAML reads 1:30 as a number in base 60, in quadratic time.
            if len(value) > _MAX_NUMBER_LENGTH and value[0] in "+-.0123456789" and ":" in value:
                raise ConfigError(f"{file}: a number of over {_MAX_NUMBER_LENGTH:,} digits.", "Is it the right file?")
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{file} has YAML aliases, which are not supported.", "Write their values out.")
        if count > MAX_YAML_VALUES or depth > MAX_YAML_DEPTH:
            raise ConfigError(
                f"{file} has over {MAX_YAML_VALUES:,} values or {MAX_YAML_DEPTH} levels.", "Is it the right file?"
            )


MAX_SERVERS_OF_FILE = 200
_MAX_NAME_LENGTH = 128


def find_foreign_servers(
    places: Places, hosts: Iterable[HostFormat] = HOSTS, *, with_folder: bool = False
) -> tuple[ForeignServer, ...]:
    """Return the servers in the files of other hosts, including unusable ones, in the order of *hosts*.

    Files in the folder in which mcphost was started may have been written by others, and are read only if *with_folder*
    is set. A file that cannot be read becomes one ForeignServer with a `problem` and without a name. No server is
    started.
    """
    return tuple(
        server
        for host in hosts
        for form, files in (
            (host, host.find_files(places, with_folder=with_folder)),
            (host.on_windows(), host.find_windows_files(places)),
        )
        for file in files
        for server in read_host_file(form, file, places)
    )


def find_project_files(places: Places) -> tuple[tuple[HostFormat, Path], ...]:
    """Return the configuration files of other hosts in the current folder, each with its host.

    These files are read only when the user imports the servers of that host.
    """
    own = {file for host in HOSTS for file in host.find_files(places, with_folder=False)}
    return tuple(
        (host, file)
        for host in HOSTS
        for file in host.find_files(places)
        if file not in own and file.is_relative_to(places.folder) and os.path.isfile(file)
    )


def read_host_file(host: HostFormat, file: Path, places: Places) -> Iterator[ForeignServer]:
    """Yield the servers in one file of *host*, or nothing if the file does not exist.

    If the file cannot be read, yield one ForeignServer with a `problem` and without a name.
    """
    try:
        document = read_document(file, places.folder)
    except FileNotFoundError:
        return
    except ConfigError as error:
        yield ForeignServer(name="", host=host.title, file=str(file), problem=str(error))
        return
    yield from _convert_document(host, file, document, places)


def _convert_document(
    host: HostFormat, file: Path, document: Mapping[str, Any], places: Places
) -> Iterator[ForeignServer]:
    section: dict[str, Any] = {}
    if host.id == "claude-code":
        project = find_member(document, ("projects", places.folder, "mcpServers"))
        section |= as_object(project)
    found = [find_member(document, keys) for keys in host.keys]
    candidates = [cast("dict[str, Any]", one) for one in found if isinstance(one, dict)]
    common = next(filter(contains_servers, candidates), candidates[0] if candidates else section)
    entries = {**common, **section}
    inputs = find_member(document, ("inputs",)) or find_member(document, ("mcp", "inputs"))
    own_files = host.find_files(places, with_folder=False)
    is_own = os.path.realpath(file) in map(os.path.realpath, own_files)
    project_folder = host.find_project_folder(file, places)
    for name, entry in list(entries.items())[:MAX_SERVERS_OF_FILE]:
        folder = places.folder if name in section else project_folder
        converted = _convert(host, str(file), str(name), entry, inputs, folder)  # in YAML, a name may be a number
        is_disabled = converted.is_disabled or _is_disabled_by_name(host, name, document, places, name in section)
        yield replace(converted, is_own=is_own, is_disabled=is_disabled)


def _is_disabled_by_name(
    host: HostFormat, name: str, document: Mapping[str, Any], places: Places, is_in_section: bool
) -> bool:
    """Return whether the host's file disables a server by its name, in a list outside of the server's entry.

    Gemini CLI has the lists `mcp.allowed` and `mcp.excluded`. Claude Code has a list for each project, which
    applies only to servers in the project's section of the file (*is_in_section*).
    """
    if host.id == "gemini-cli":
        allowed, excluded = (find_member(document, ("mcp", key)) for key in ("allowed", "excluded"))
        return (isinstance(allowed, list) and name not in allowed) or (isinstance(excluded, list) and name in excluded)
    disabled = find_member(document, ("projects", places.folder, _DISABLED_KEY)) if is_in_section else None
    return isinstance(disabled, list) and name in disabled


_HOST_BY_FOLDER = {".cursor": "cursor", ".vscode": "vscode", ".gemini": "gemini-cli"}


def guess_host(file: Path, document: Any) -> HostFormat:
    """Guess which host a file belongs to from its name, folder and keys; the fallback is Claude Desktop."""
    names = {
        "config.toml": "codex",
        "config.yaml": "goose",
        "opencode.json": "opencode",
        "opencode.jsonc": "opencode",
        PROJECT_FILE: "claude-code",
    }
    by_name = find_host(names.get(file.name, ""))
    fitting = [host for host in HOSTS if any(isinstance(find_member(document, keys), dict) for keys in host.keys)]
    if by_name is not None and by_name in fitting:
        return by_name
    parent = file.parent.name
    by_folder = find_host(_HOST_BY_FOLDER.get(parent, ""))
    return by_folder or (fitting[0] if fitting else HOSTS[0])


def read_named_file(file: Path, places: Places) -> tuple[ForeignServer, ...]:
    """Return the servers in *file*, a configuration file of another host that the user selected by its path.

    Raises ConfigError if the file is missing, unreadable or contains no servers.
    """
    try:
        document = read_document(file, places.folder)
    except FileNotFoundError as error:
        raise ConfigError(f"{file} does not exist.", "Check the name.") from error
    host = guess_host(file, document)
    if file.absolute() in host.find_windows_files(places):
        host = host.on_windows()
    servers = tuple(_convert_document(host, file, document, places))
    if not servers:
        raise ConfigError(f"{file} has no servers.", "Is it the right file?")
    return servers


def _convert(host: HostFormat, file: str, name: str, entry: Any, inputs: Any, folder: str) -> ForeignServer:
    """Convert one entry to a ForeignServer.

    *inputs* is the file's list of definitions for `${input:ID}`. *folder* is the project folder in which the other host
    starts the server, or "" for a server that does not belong to a project.
    """
    shown = sanitize_line(name, _MAX_NAME_LENGTH)
    try:
        if not isinstance(entry, dict):
            raise UnusableEntry("Its entry is not an object.")
        members = cast("dict[str, Any]", entry)
        converted = set_folder(host.convert(members, host.syntax), folder)
        converted, sign_in_notes = convert_sign_in(members, converted, host.title, host.syntax)
        converted = add_input_definitions(converted, inputs)
    except UnusableEntry as reason:
        return ForeignServer(name=shown, host=host.title, file=file, problem=str(reason))
    notes: list[str] = [*sign_in_notes]
    if host.is_windows:
        converted, windows_notes = translate_entry(converted)
        notes += windows_notes
    notes += [f"mcphost does not fill in {reference}." for reference in unsupported_references(converted)]
    if only := allowed_tools(members):
        notes.append(f"{host.title} gives the model only {', '.join(only)}; mcphost gives it every tool of the server.")
    if members.get("envFile") and "envFile" not in converted:
        notes.append("Its envFile was left out: the path is relative, or the server is not a program.")
    return ForeignServer(
        name=shown, host=host.title, file=file, entry=converted, notes=tuple(notes),
        is_disabled=is_entry_disabled(members),
    )  # fmt: skip
