"""Parser for server entries that users paste from a README: bare entries, or a file of any MCP host."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mcphost.config.code_blocks import CODEX_TABLE, find_code_block
from mcphost.config.json_files import describe_type, parse_json
from mcphost.config.mcp_json import parse_servers
from mcphost.config.other_host_entries import (
    BARE_SHELL,
    BRACED,
    OWN,
    UnusableEntry,
    allowed_tools,
    contains_servers,
    convert_codex,
    convert_common,
    convert_gemini,
    convert_goose,
    convert_opencode,
    convert_zed,
    escape_own_variables,
    is_entry_disabled,
)
from mcphost.config.schema import find_config_error
from mcphost.config.server_inputs import add_input_definitions
from mcphost.config.toml_files import parse_toml
from mcphost.errors import ConfigError
from mcphost.serialization import dumps, find_member

MAX_PASTED_CHARACTERS = 100_000
_NO_BREAK_SPACE = "\u00a0"
_CODEX_KEYS = ("mcp_servers",)
_OPENCODE_KEYS = (("mcp",), ("mcp", "servers"))
_OPENCODE_REFERENCE = re.compile(r"(?<!\$)\{env:")
_WRAPPERS = (
    ("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp",), ("context_servers",), ("extensions",),
    ("amp.mcpServers",), _CODEX_KEYS,
)  # fmt: skip
"""Key paths to the servers: most hosts, VS Code and its settings.json, opencode, Zed, goose, Amp and Codex."""

_OWN_MEMBERS = ("oauth", "reviewResults", "disabledTools", "mcphost")
"""Members of mcp.json that no other host has; a converted entry keeps them."""

_LOCATION = "The pasted text"

_HINT = 'Paste what the README shows, for example {"command": "uvx", "args": ["mcp-server-time"]}.'


def parse_pasted_servers(text: str, name: str = "") -> dict[str, dict[str, Any]]:
    """Return the server entries in pasted text, keyed by name; *name* is used for an entry without a name.

    Accepts `{"mcpServers": {…}}` and the formats of other hosts, `"name": {…}` without outer braces, a single entry
    without a name, and any of these in a Markdown code block (see `find_code_block`). Entries of other hosts are
    converted to the format of mcp.json. Raises ConfigError if the text contains no server, is too long or invalid, or
    if an entry has no name and *name* is empty.
    """
    if len(text) > MAX_PASTED_CHARACTERS:
        raise ConfigError(f"The text is over {MAX_PASTED_CHARACTERS:,} characters.", _HINT)
    document = _parse(find_code_block(text).text)
    entries = _find_entries(document, name)
    if not entries:
        raise ConfigError("It contains no server.", _HINT)
    definitions = find_member(document, ("inputs",)) or find_member(document, ("mcp", "inputs"))
    return {
        entry_name: add_input_definitions(escape_own_variables(entry), definitions)
        for entry_name, entry in entries.items()
    }


def check_pasted_server(name: str, entry: dict[str, Any]) -> None:
    """Check that a server's entry in pasted text is valid.

    Raises ConfigError if it is not; the error names the pasted text as the source.
    """
    problems: list[str] = []
    if not parse_servers({"mcpServers": {name: entry}}, _LOCATION, "user", problems.append):
        raise ConfigError(find_config_error(problems) or f"{_LOCATION}: the entry of {name!r} is not valid.")


def _parse(text: str) -> dict[str, Any]:
    candidate = text.strip().rstrip(",")
    if candidate.startswith(CODEX_TABLE):
        return parse_toml(candidate, _LOCATION)
    # Part of a file: `"time": {…}`, perhaps with `"mcpServers":` before it.
    wrapped = candidate if candidate.startswith(("{", "[")) else f"{{{candidate}}}"
    try:
        document = parse_json(wrapped, _LOCATION)
    except ConfigError:
        if _NO_BREAK_SPACE not in wrapped:
            raise
        document = parse_json(wrapped.replace(_NO_BREAK_SPACE, " "), _LOCATION)  # web pages indent with them
    if not isinstance(document, dict):
        raise ConfigError("The pasted text is not an object.", _HINT)
    return cast("dict[str, Any]", document)


def _find_entries(document: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    for keys in _WRAPPERS:
        found = find_member(document, keys)
        if isinstance(found, list):
            return {one: _convert(one, entry, keys) for one, entry in _name_entries(cast("list[Any]", found))}
        if isinstance(found, dict) and contains_servers(cast("dict[str, Any]", found)):
            return {one: _convert(one, entry, keys) for one, entry in cast("dict[str, Any]", found).items()}
    if not contains_servers(document):
        ((own, entry),) = _name_entries([document], name)
        return {own: _convert(own, entry, ())}
    members = {key: value for key, value in document.items() if key != "$schema"}
    if all(isinstance(value, dict) for value in members.values()):
        return {one: _convert(one, entry, ()) for one, entry in members.items()}
    raise ConfigError("It contains no server.", _HINT)


def _name_entries(entries: list[Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the members of each entry; *name*, if given, replaces the entry's own name.

    The member `name` is removed. Raises ConfigError if an entry is not an object or has no name.
    """
    for entry in entries:
        if not isinstance(entry, dict):
            raise ConfigError("It contains no server.", _HINT)
        members = dict(cast("dict[str, Any]", entry))
        own = members.pop("name", None)
        if not name and not (isinstance(own, str) and own):
            raise ConfigError("The entry has no name.", "Give it a name: mcphost servers add NAME --json …")
        yield name or str(own), members


def _convert(entry_name: str, entry: object, keys: tuple[str, ...]) -> dict[str, Any]:
    """Convert *entry* to the format of mcp.json if it has another host's format.

    *keys* is the path of the section that contains the entry in the pasted text, such as ("mcp",), or () if there is
    none. Raises ConfigError, which names the server *entry_name*, if the entry cannot be converted.
    """
    if not isinstance(entry, dict):
        raise ConfigError(f"{entry_name!r} is {describe_type(entry)}, not an object.", _HINT)
    members = cast("dict[str, Any]", entry)
    try:
        converted = _convert_format(members, keys)
    except UnusableEntry as error:
        raise ConfigError(f"{entry_name!r}: {error}", _HINT) from error
    if converted is None:
        return {key: value for key, value in members.items() if (key, value) != ("type", "local")}
    if only := allowed_tools(members):
        raise ConfigError(
            f"{entry_name!r} allows only some tools ({', '.join(only)}), and mcphost has no such list.",
            "Remove the list, and then switch tools off on the page of the servers.",
        )
    converted |= {key: members[key] for key in _OWN_MEMBERS if key in members}
    return {**converted, "disabled": True} if is_entry_disabled(members) else converted


def _is_remote_of_opencode(entry: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    """Return whether an entry describes a remote server in the format of opencode.

    *keys* is the path of the section that contains the entry, such as ("mcp",). If this is not a section of opencode,
    the result is False. If there is no section (*keys* is empty), the result is True only if the entry contains a
    reference in opencode's syntax: `{env:NAME}` instead of `${env:NAME}`.
    """
    if entry.get("type") != "remote":
        return False
    return keys in _OPENCODE_KEYS or (not keys and _OPENCODE_REFERENCE.search(dumps(entry)) is not None)


def _convert_format(entry: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return an entry converted to the format of mcp.json, or None if it needs no conversion.

    The format of the entry is recognized by its members and by *keys*, the path of the section that contains the
    entry.
    """
    command = entry.get("command")
    if keys == _CODEX_KEYS:
        return convert_codex(entry, OWN)
    if isinstance(command, list) or _is_remote_of_opencode(entry, keys):
        return convert_opencode(entry, BRACED._replace(is_complete=False))
    if isinstance(command, dict):
        return convert_zed(entry, OWN)
    if "cmd" in entry or "uri" in entry:
        return convert_goose(entry, OWN)
    if "httpUrl" in entry:
        return convert_gemini(entry, BARE_SHELL._replace(is_complete=False))
    if entry.get("type") == "remote":
        return convert_common({key: value for key, value in entry.items() if key != "type"}, OWN)
    return convert_common(entry, OWN) if "serverUrl" in entry else None
