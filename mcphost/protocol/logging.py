"""Log levels and logging/setLevel (server/utilities/logging; deprecated since 2026-07-28)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, EmptyResult

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""In increasing severity, as in RFC 5424."""


class SetLevel(ClientRequest[EmptyResult], frozen=True):
    """logging/setLevel (handshake era)."""

    METHOD: ClassVar[str] = "logging/setLevel"
    RESULT: ClassVar[type[Any]] = EmptyResult
    level: str


def severity(level: str) -> int:
    """Return the index in LEVELS; an unknown level counts as info."""
    return LEVELS.index(level) if level in LEVELS else LEVELS.index("info")
