"""Results of the stateless era that ask for input (`input_required`), and subscriptions/listen."""

from collections.abc import Generator
from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import ClientRequest, EmptyResult, Notification, Result, is_set
from mcphost.serialization import JsonLimitExceeded, Raw, WireStruct, check_value_count, decode

COMPLETE = "complete"
INPUT_REQUIRED = "input_required"
MAX_INPUT_VALUES = 50_000
"""Maximum number of JSON values in all input requests of one round."""


class InputRequest(WireStruct, frozen=True):
    """One request for input in an `input_required` result."""

    method: str
    params: Raw = Raw()


class InputRequiredResult(Result, frozen=True):
    """A result that asks for input; the client returns `request_state` unchanged if it is present."""

    input_requests: Raw = Raw()
    request_state: Raw = Raw()


def parse_input_requests(raw: Raw) -> Generator[None, None, dict[str, InputRequest]]:
    """Parse `inputRequests`, yielding every few milliseconds; absent or null means none.

    Raises MalformedMessage.
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
    """Tasks extension only."""


class ListenSubscriptions(ClientRequest[EmptyResult], frozen=True):
    """subscriptions/listen. Its response arrives when the subscription ends."""

    METHOD: ClassVar[str] = "subscriptions/listen"
    RESULT: ClassVar[type[Any]] = EmptyResult
    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotification(Notification, frozen=True):
    """notifications/subscriptions/acknowledged, with the part of the filter that the server accepts.

    None if absent.
    """

    METHOD: ClassVar[str] = "notifications/subscriptions/acknowledged"
    notifications: SubscriptionFilter | None = None
