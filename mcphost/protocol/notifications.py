"""Notifications from server and client, subscriptions to notifications, and log levels.

Specification: basic/utilities, server/utilities/logging, and (in revision 2026-07-28 and later) subscriptions.
"""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, EmptyResult, Notification
from mcphost.protocol.jsonrpc import RequestId
from mcphost.serialization import Raw, WireStruct, decode_or_none


class ProgressNotification(Notification, frozen=True):
    """The notifications/progress notification; `progress` and `total` may be fractional."""

    METHOD: ClassVar[str] = "notifications/progress"
    progress_token: int | str
    progress: float = 0
    total: float | None = None
    message: str | None = None


class CancelledNotification(Notification, frozen=True):
    """The notifications/cancelled notification, which cancels one of the sender's own requests."""

    METHOD: ClassVar[str] = "notifications/cancelled"
    request_id: RequestId | None = None
    reason: str | None = None


class LoggingMessageNotification(Notification, frozen=True):
    """The notifications/message notification: a log message from the server."""

    METHOD: ClassVar[str] = "notifications/message"
    level: str = "info"
    logger: str | None = None
    data: Raw = Raw()


class ToolListChangedNotification(Notification, frozen=True):
    """The notifications/tools/list_changed notification."""

    METHOD: ClassVar[str] = "notifications/tools/list_changed"


class ResourceListChangedNotification(Notification, frozen=True):
    """The notifications/resources/list_changed notification."""

    METHOD: ClassVar[str] = "notifications/resources/list_changed"


class PromptListChangedNotification(Notification, frozen=True):
    """The notifications/prompts/list_changed notification."""

    METHOD: ClassVar[str] = "notifications/prompts/list_changed"


class ResourceUpdatedNotification(Notification, frozen=True):
    """The notifications/resources/updated notification: a subscribed resource has changed."""

    METHOD: ClassVar[str] = "notifications/resources/updated"
    uri: str = ""


class ElicitationCompleteNotification(Notification, frozen=True):
    """The notifications/elicitation/complete notification (2025-11-25): a URL elicitation is complete."""

    METHOD: ClassVar[str] = "notifications/elicitation/complete"
    elicitation_id: str = ""


class RootsListChangedNotification(Notification, frozen=True):
    """The notifications/roots/list_changed notification, which clients send before revision 2026-07-28."""

    METHOD: ClassVar[str] = "notifications/roots/list_changed"


class UnknownNotification(Notification, frozen=True):
    """A notification with an unknown method, kept for display."""

    METHOD: ClassVar[str] = ""
    method: str
    params: Raw = Raw()


_NOTIFICATION_TYPES: dict[str, type[Any]] = {
    kind.METHOD: kind
    for kind in (
        ProgressNotification,
        CancelledNotification,
        LoggingMessageNotification,
        ToolListChangedNotification,
        ResourceListChangedNotification,
        PromptListChangedNotification,
        ResourceUpdatedNotification,
        ElicitationCompleteNotification,
    )
}


def parse_notification(method: str, params: Raw) -> Notification | None:
    """Decode a notification's params according to *method*; return None if the params are invalid.

    An unknown method results in an UnknownNotification.
    """
    kind = _NOTIFICATION_TYPES.get(method)
    if kind is None:
        return UnknownNotification(method, params)
    return decode_or_none(bytes(params) or b"{}", kind)


LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels by increasing severity, as in RFC 5424."""


class SetLevel(ClientRequest[EmptyResult], frozen=True):
    """The logging/setLevel request (before protocol revision 2026-07-28)."""

    METHOD: ClassVar[str] = "logging/setLevel"
    RESULT: ClassVar[type[Any]] = EmptyResult
    level: str


def severity(level: str) -> int:
    """Return the position of a log level in LEVELS; an unknown level is treated as info."""
    return LEVELS.index(level) if level in LEVELS else LEVELS.index("info")


class SubscriptionFilter(WireStruct, frozen=True):
    """The changes that a subscription reports: changes to lists, to individual resources, and to tasks."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    """Used only with the tasks extension."""


class ListenSubscriptions(ClientRequest[EmptyResult], frozen=True):
    """The subscriptions/listen request, whose response arrives only when the subscription ends."""

    METHOD: ClassVar[str] = "subscriptions/listen"
    RESULT: ClassVar[type[Any]] = EmptyResult
    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotification(Notification, frozen=True):
    """Notification that a subscription is active; `notifications` is the part of the filter that was accepted."""

    METHOD: ClassVar[str] = "notifications/subscriptions/acknowledged"
    notifications: SubscriptionFilter | None = None
