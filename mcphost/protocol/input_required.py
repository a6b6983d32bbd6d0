"""Results that ask the client for input (`input_required`), and subscriptions/listen.

Both exist since protocol revision 2026-07-28.
"""

from collections.abc import Generator
from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import ClientRequest, EmptyResult, Notification, Result, is_set
from mcphost.serialization import JsonLimitExceeded, Raw, WireStruct, check_value_count, decode

COMPLETE = "complete"
INPUT_REQUIRED = "input_required"
MAX_INPUT_VALUES = 50_000
"""Maximum number of JSON values in all input requests of one result."""


class InputRequest(WireStruct, frozen=True):
    """One request for input in an `input_required` result."""

    method: str
    params: Raw = Raw()


class InputRequiredResult(Result, frozen=True):
    """A result that asks for input; the client then repeats its request with the same `request_state`."""

    input_requests: Raw = Raw()
    request_state: Raw = Raw()


def parse_input_requests(raw: Raw) -> Generator[None, None, dict[str, InputRequest]]:
    """Parse `inputRequests`, keyed by the server's names; return {} if absent or null. Raises MalformedMessage.

    Yields every few milliseconds, so that other tasks can run.
    """
    if not is_set(raw):
        return {}
    try:
        yield from check_value_count(bytes(raw), MAX_INPUT_VALUES)
    except JsonLimitExceeded as error:
        raise MalformedMessage(f"The server asked for input with more than {MAX_INPUT_VALUES:,} values.") from error
    yield
    return decode(raw, dict[str, InputRequest], "inputRequests")


class SubscriptionFilter(WireStruct, frozen=True):
    """The kinds of changes that a subscription reports."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    """Only with the tasks extension."""


class ListenSubscriptions(ClientRequest[EmptyResult], frozen=True):
    """The subscriptions/listen request, whose response arrives only when the subscription ends."""

    METHOD: ClassVar[str] = "subscriptions/listen"
    RESULT: ClassVar[type[Any]] = EmptyResult
    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotification(Notification, frozen=True):
    """Notification that a subscription is active; `notifications` is the accepted part of the filter."""

    METHOD: ClassVar[str] = "notifications/subscriptions/acknowledged"
    notifications: SubscriptionFilter | None = None
