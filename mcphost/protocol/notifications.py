"""Notifications in both directions (specification: basic/utilities, server/*)."""

from typing import Any, ClassVar

from mcphost.protocol.base import Notice
from mcphost.protocol.jsonrpc import RequestId
from mcphost.serialization import Raw, decode_or_none


class Progress(Notice, frozen=True):
    """notifications/progress; numbers may be fractional, `total` may be absent."""

    METHOD: ClassVar[str] = "notifications/progress"
    progress_token: int | str
    progress: float = 0
    total: float | None = None
    message: str | None = None


class Cancelled(Notice, frozen=True):
    """notifications/cancelled."""

    METHOD: ClassVar[str] = "notifications/cancelled"
    request_id: RequestId | None = None
    reason: str | None = None


class LogMessage(Notice, frozen=True):
    """notifications/message."""

    METHOD: ClassVar[str] = "notifications/message"
    level: str = "info"
    logger: str | None = None
    data: Raw = Raw()


class ToolsListChanged(Notice, frozen=True):
    """notifications/tools/list_changed."""

    METHOD: ClassVar[str] = "notifications/tools/list_changed"


class ResourcesListChanged(Notice, frozen=True):
    """notifications/resources/list_changed."""

    METHOD: ClassVar[str] = "notifications/resources/list_changed"


class PromptsListChanged(Notice, frozen=True):
    """notifications/prompts/list_changed."""

    METHOD: ClassVar[str] = "notifications/prompts/list_changed"


class ResourceUpdated(Notice, frozen=True):
    """notifications/resources/updated."""

    METHOD: ClassVar[str] = "notifications/resources/updated"
    uri: str = ""


class ElicitationComplete(Notice, frozen=True):
    """notifications/elicitation/complete: what the user was sent to an address for is done (2025-11-25)."""

    METHOD: ClassVar[str] = "notifications/elicitation/complete"
    elicitation_id: str = ""


class RootsListChanged(Notice, frozen=True):
    """notifications/roots/list_changed; ours to the server, in the handshake era only."""

    METHOD: ClassVar[str] = "notifications/roots/list_changed"


class UnknownNotice(Notice, frozen=True):
    """A notification we do not know; kept so that it can be shown."""

    METHOD: ClassVar[str] = ""
    method: str
    params: Raw = Raw()


_KINDS: dict[str, type[Any]] = {
    kind.METHOD: kind
    for kind in (
        Progress,
        Cancelled,
        LogMessage,
        ToolsListChanged,
        ResourcesListChanged,
        PromptsListChanged,
        ResourceUpdated,
        ElicitationComplete,
    )
}


def notice(method: str, params: Raw) -> Notice | None:
    """Return the notice with that method; None when its params do not fit."""
    kind = _KINDS.get(method)
    if kind is None:
        return UnknownNotice(method, params)
    return decode_or_none(bytes(params) or b"{}", kind)
