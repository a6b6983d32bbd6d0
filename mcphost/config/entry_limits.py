"""Bounds on the arguments and references of servers' entries, so that a hostile file takes no time to read."""

from collections.abc import Mapping
from typing import Any, cast

from mcphost.config.inputs import entry_texts
from mcphost.config.schema import ServerConfig, Source
from mcphost.errors import ConfigError

_MAX_REFERENCES = 1_000
"""References of one server."""
_MAX_PROJECT_REFERENCES = 5_000
"""References of all servers of a project's file; each is looked up when the file is compared with the user's."""
_MAX_PROJECT_ARGUMENTS = 1_000
"""Arguments of all servers of a project's file; each may be a path that is resolved."""


def _count_references(entry: Any) -> int:
    """Return how many references an entry may have, without reading them."""
    texts = entry_texts(cast("Mapping[str, Any]", entry)) if isinstance(entry, dict) else ()
    return sum(text.count("${") for text in texts)


class ProjectBudget:
    """What the servers of one file may have together; only a project's file is limited."""

    def __init__(self, source: Source) -> None:
        self._is_limited = source == "project"
        self._references = self._arguments = 0

    def spend_references(self, entry: Any, location: str) -> int:
        """Count the references of an entry that is about to be read. Raises ConfigError if there are too many."""
        count = _count_references(entry)
        if count > _MAX_REFERENCES:
            raise ConfigError(f"{location} has more than {_MAX_REFERENCES:,} references.", "Remove some.")
        self._references += count
        self._check(self._references, _MAX_PROJECT_REFERENCES, "references", location)
        return count

    def spend_arguments(self, server: ServerConfig, location: str) -> None:
        """Count the arguments of a server. Raises ConfigError if it has too many, which are then not counted."""
        self._check(self._arguments + len(server.args), _MAX_PROJECT_ARGUMENTS, "arguments", location)
        self._arguments += len(server.args)

    def _check(self, count: int, limit: int, what: str, location: str) -> None:
        if self._is_limited and count > limit:
            raise ConfigError(
                f"{location}: the servers of the file have more than {limit:,} {what}.",
                "It is left out; move it into your own mcp.json.",
            )
