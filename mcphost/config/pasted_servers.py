"""Parser for server entries that users paste from a README: bare entries, or a complete mcp.json."""

from typing import Any, cast

from mcphost.config.json_files import describe_type, parse_json
from mcphost.config.mcp_json import parse_servers
from mcphost.config.schema import find_config_error
from mcphost.config.server_inputs import add_input_definitions
from mcphost.errors import ConfigError

MAX_PASTED_CHARACTERS = 100_000
_WRAPPERS = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",))
"""Key paths to the servers in the formats of most hosts, VS Code, VS Code's settings.json and Zed."""

_LOCATION = "The pasted text"

_HINT = 'Paste what the README shows, for example {"command": "uvx", "args": ["mcp-server-time"]}.'


def parse_pasted_servers(text: str, name: str = "") -> dict[str, dict[str, Any]]:
    """Return the server entries in pasted text, keyed by name; *name* is used for an entry without a name.

    Accepts `{"mcpServers": {…}}` and the formats of other hosts, `"name": {…}` without outer braces, a single entry
    without a name, and any of these in a Markdown code fence. Raises ConfigError if the text contains no server, is too
    long or invalid, or if an entry has no name and *name* is empty.
    """
    if len(text) > MAX_PASTED_CHARACTERS:
        raise ConfigError(f"The text is over {MAX_PASTED_CHARACTERS:,} characters.", _HINT)
    document = _parse(_strip_code_fence(text))
    entries = _find_entries(document, name)
    for entry_name, entry in entries.items():
        if not isinstance(entry, dict):
            raise ConfigError(f"{entry_name!r} is {describe_type(entry)}, not an object.", _HINT)
    if not entries:
        raise ConfigError("It contains no server.", _HINT)
    definitions = _get(document, ("inputs",)) or _get(document, ("mcp", "inputs"))
    return {entry_name: add_input_definitions(entry, definitions) for entry_name, entry in entries.items()}


def check_pasted_server(name: str, entry: dict[str, Any]) -> None:
    """Raise ConfigError, which names the pasted text, if a server's entry in it is not valid."""
    problems: list[str] = []
    if not parse_servers({"mcpServers": {name: entry}}, _LOCATION, "user", problems.append):
        raise ConfigError(find_config_error(problems) or f"{_LOCATION}: the entry of {name!r} is not valid.")


def _strip_code_fence(text: str) -> str:
    """Remove the opening and closing lines of a Markdown code fence, if there is one."""
    lines = text.strip().split("\n")
    if not lines[0].startswith("```"):
        return text
    return "\n".join(lines[1:-1] if lines[-1].strip() == "```" else lines[1:])


def _parse(text: str) -> dict[str, Any]:
    candidate = text.strip().rstrip(",")
    # Part of a file: `"time": {…}`, perhaps with `"mcpServers":` before it.
    wrapped = candidate if candidate.startswith(("{", "[")) else f"{{{candidate}}}"
    document = parse_json(wrapped, _LOCATION)
    if not isinstance(document, dict):
        raise ConfigError("The pasted text is not an object.", _HINT)
    return cast("dict[str, Any]", document)


def _get(document: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        document = cast("dict[str, Any]", document).get(key) if isinstance(document, dict) else None
    return document


def _find_entries(document: dict[str, Any], name: str) -> dict[str, Any]:
    for keys in _WRAPPERS:
        found = _get(document, keys)
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    if isinstance(document.get("command") or document.get("url"), str):
        if not name:
            raise ConfigError("The entry has no name.", "Give it a name: mcphost servers add NAME --json …")
        return {name: document}
    if all(isinstance(value, dict) for value in document.values()):
        return document
    raise ConfigError("It contains no server.", _HINT)
