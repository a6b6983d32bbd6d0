"""What one server may use of the user's model, when its entry in mcp.json says something else than config.toml."""

from collections.abc import Callable
from typing import Any, cast

from mcphost.config.json_files import describe_type
from mcphost.config.schema import Source
from mcphost.sanitize import sanitize

LIMIT_BY_KEY = {
    "requestsPerMinute": "requests_per_minute",
    "requestsPerSession": "requests_per_session",
    "tokensPerMinute": "tokens_per_minute",
    "tokensPerSession": "tokens_per_session",
    "depth": "depth",
}
"""Keys of `mcphost.sampling` to the limits they set."""
MAX_LIMIT = 1_000_000_000


def parse_sampling(written: Any, location: str, source: Source, on_problem: Callable[[str], None]) -> dict[str, int]:
    """The limits by name; whoever wrote a folder's file cannot give its own servers more of the user's model."""
    if written is None:
        return {}
    if not isinstance(written, dict):
        on_problem(f'{location}: "mcphost.sampling" is {describe_type(written)}, not an object; it is not used.')
        return {}
    members = cast("dict[str, Any]", written)
    if members and source == "project":
        on_problem(f'{location}: "mcphost.sampling" counts only in your own mcp.json; the usual limits hold.')
        return {}
    limits: dict[str, int] = {}
    for key, value in members.items():
        if key not in LIMIT_BY_KEY:
            shown = sanitize(key[:60], keep_newlines=False)
            on_problem(f'{location}: "mcphost.sampling.{shown}" is not known. There are: {", ".join(LIMIT_BY_KEY)}.')
        elif isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_LIMIT:
            on_problem(f'{location}: "mcphost.sampling.{key}" is no whole number from 0 on; the usual limit holds.')
        else:
            limits[LIMIT_BY_KEY[key]] = value
    return limits
