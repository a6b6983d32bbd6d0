"""Log levels and logging/setLevel (specification: server/utilities/logging; deprecated since 2026-07-28)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, EmptyResult

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""In order of severity, as RFC 5424 has them."""


class SetLevel(ClientRequest[EmptyResult], frozen=True):
    """logging/setLevel (handshake era)."""

    METHOD: ClassVar[str] = "logging/setLevel"
    RESULT: ClassVar[type[Any]] = EmptyResult
    level: str


def severity(level: str) -> int:
    """Its place in LEVELS; a level nobody knows counts as info."""
    return LEVELS.index(level) if level in LEVELS else LEVELS.index("info")
