"""Reader of other MCP hosts' configuration files; limits are checked before values are built."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from mcphost.config.json_files import check_comments, decode_text, read_bytes, strip_comments
from mcphost.config.toml_files import parse_toml
from mcphost.errors import ConfigError, MalformedMessage
from mcphost.protocol.frontmatter import MAX_SIZE as MAX_SLOW_YAML
from mcphost.protocol.jsonrpc import replace_lone_surrogates
from mcphost.serialization import (
    MAX_DEPTH,
    MAX_PLAIN_VALUES,
    JsonLimitExceeded,
    Raw,
    decode,
    loads,
    run_steps,
    select_members,
)

MAX_JSON_BYTES = 5_000_000
"""Maximum size of JSON: large, because Claude Code's file also contains its history (not decoded)."""

MAX_COMMENTED_BYTES = 1_000_000
"""Maximum size of JSON with comments or trailing commas, which are removed first."""

MAX_YAML_VALUES = 10_000
MAX_YAML_DEPTH = 32
_MAX_YAML_DIRECTIVES = 10
_MAX_SLOW_YAML_BRACKETS = 500
_MAX_NUMBER_LENGTH = 1_000
MEMBERS = ("mcpServers", "servers", "mcp", "mcp_servers", "context_servers", "extensions", "inputs", "projects")
"""Top-level members that may contain servers, in the format of any host; see `HostFormat.keys`."""

_OFFSET = re.compile(r"\(byte (\d{1,9})\)\Z")
_LIMIT_HINT = "Remove what does not belong to the servers, or name a smaller file."


def read_document(file: Path, folder: str) -> dict[str, Any]:
    """Read a JSON, TOML or YAML file, as its suffix says, and return the members that may contain servers.

    Of Claude Code's `projects`, only the one for *folder* is returned. The result is empty if the file has no object.
    Raises FileNotFoundError, or ConfigError with the file and the reason.
    """
    if file.suffix in (".toml", ".yaml", ".yml"):
        text = decode_text(read_bytes(file), str(file))
        document = parse_toml(text, str(file)) if file.suffix == ".toml" else _parse_yaml(text, str(file))
        return cast("dict[str, Any]", document) if isinstance(document, dict) else {}
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
    """Return the member for *folder* of Claude Code's `projects`, with only its servers, or {}."""
    try:
        project = select_members(projects, (folder,)).get(folder)
        servers = select_members(project, ("mcpServers",)) if project is not None else {}
    except MalformedMessage:  # it is not an object
        return {}
    return {folder: {name: loads(member) for name, member in servers.items()}} if servers else {}


def _select_json(raw: bytes, file: str) -> Mapping[str, Raw]:
    """Return the members that may contain servers; the JSON may have comments and trailing commas."""
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
    if isinstance(reason.__cause__, RecursionError):
        raise ConfigError(f"{file} is nested too deep.", "Servers are plain objects under mcpServers.") from reason
    place, hint = _find_place(raw, reason), "Correct the file there."
    if len(raw) > MAX_COMMENTED_BYTES:
        hint = f"Correct the file there; over {MAX_COMMENTED_BYTES // 1_000} kB it may have no comments."
    raise ConfigError(f"{file}{place}: not valid JSON ({_describe(reason)}).", hint) from reason


def _select_members(raw: bytes) -> Mapping[str, Raw]:
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
    """Parse YAML, refusing aliases, which can expand a small file to a huge value. Raises ConfigError."""
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
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise ConfigError(f"{file} is not valid YAML.", "Correct the file.") from error


def _check_yaml_events(events: Any, yaml: Any, file: str) -> None:
    """Raise ConfigError if the YAML has aliases, or too many values or levels for a configuration."""
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
