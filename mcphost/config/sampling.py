"""What one server may use of the user's model, when its entry in mcp.json says something else than config.toml."""

from collections.abc import Callable
from typing import Any, cast

from mcphost.config.json_files import name_of
from mcphost.config.schema import Source
from mcphost.sanitize import sanitize

KEYS = {
    "requestsPerMinute": "requests_per_minute",
    "requestsPerSession": "requests_per_session",
    "tokensPerMinute": "tokens_per_minute",
    "tokensPerSession": "tokens_per_session",
    "depth": "depth",
}
"""Keys of `mcphost.sampling` to the limits they set."""
MOST = 1_000_000_000


def sampling_of(written: Any, at: str, source: Source, problem: Callable[[str], None]) -> dict[str, int]:
    """The limits by name; whoever wrote a folder's file cannot give its own servers more of the user's model."""
    if written is None:
        return {}
    if not isinstance(written, dict):
        problem(f'{at}: "mcphost.sampling" is {name_of(written)}, not an object; it is not used.')
        return {}
    members = cast("dict[str, Any]", written)
    if members and source == "project":
        problem(f'{at}: "mcphost.sampling" counts only in your own mcp.json; the usual limits hold.')
        return {}
    limits: dict[str, int] = {}
    for key, value in members.items():
        if key not in KEYS:
            shown = sanitize(key[:60], keep_newlines=False)
            problem(f'{at}: "mcphost.sampling.{shown}" is not known. There are: {", ".join(KEYS)}.')
        elif isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
            problem(f'{at}: "mcphost.sampling.{key}" is no whole number from 0 on; the usual limit holds.')
        else:
            limits[KEYS[key]] = value
    return limits
