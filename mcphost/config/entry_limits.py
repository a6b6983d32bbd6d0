"""Limits on server entries: how many references and arguments they may have, and which headers they may set."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from mcphost.config.schema import ServerConfig, Source
from mcphost.config.server_inputs import entry_texts
from mcphost.errors import ConfigError

_TRANSPORT_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "proxy-authorization"}
)
"""Headers that decide where a message goes or ends; a second value could send it, or its token, elsewhere."""
_MAX_REFERENCES = 1_000
"""Maximum number of references, such as `${env:NAME}`, in one server's entry."""
_MAX_PROJECT_REFERENCES = 5_000
"""Maximum number of references in a project's file, which are all expanded to compare its servers with the user's."""
_MAX_PROJECT_ARGUMENTS = 1_000
"""Maximum number of arguments in a project's file, because each may be a path that must be resolved."""


def without_transport_headers(
    headers: dict[str, str], location: str, on_problem: Callable[[str], None]
) -> dict[str, str]:
    """Return *headers* without those that mcphost itself sets for each connection.

    If any were removed, *on_problem* receives a message that names them and begins with *location*.
    """
    kept = {name: value for name, value in headers.items() if name.lower() not in _TRANSPORT_HEADERS}
    if names := ", ".join(name for name in headers if name not in kept):
        on_problem(f"{location}: mcphost sets {names} itself; the configured value is not sent.")
    return kept


def _count_references(entry: Any) -> int:
    """Return an upper bound on the number of `${…}` references in a server's entry, without parsing them."""
    texts = entry_texts(cast("Mapping[str, Any]", entry)) if isinstance(entry, dict) else ()
    return sum(text.count("${") for text in texts)


class ProjectBudget:
    """Counter for the `${…}` references and the arguments of all servers in a file.

    In a project's file, both totals are limited.
    """

    def __init__(self, source: Source) -> None:
        self._is_limited = source == "project"
        self._references = self._arguments = 0

    def count_references(self, entry: Any, location: str) -> int:
        """Add the `${…}` references in an entry to the total, and return their number in this entry.

        Call this before the entry is parsed; *location* names the file and the server. Raises ConfigError if this
        entry, or all entries of a project's file together, have too many references.
        """
        count = _count_references(entry)
        if count > _MAX_REFERENCES:
            raise ConfigError(f"{location} has more than {_MAX_REFERENCES:,} references.", "Remove some.")
        self._references += count
        self._check(self._references, _MAX_PROJECT_REFERENCES, "references", location)
        return count

    def count_arguments(self, server: ServerConfig, location: str) -> None:
        """Add a server's arguments to the total. Raises ConfigError, without adding, if this exceeds the limit."""
        self._check(self._arguments + len(server.args), _MAX_PROJECT_ARGUMENTS, "arguments", location)
        self._arguments += len(server.args)

    def _check(self, count: int, limit: int, what: str, location: str) -> None:
        if self._is_limited and count > limit:
            raise ConfigError(
                f"{location}: the servers of the file have more than {limit:,} {what}.",
                "It is left out; move it into your own mcp.json.",
            )
