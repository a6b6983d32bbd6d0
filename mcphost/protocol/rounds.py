"""Input rounds of the stateless era: what `input_required` carries, and subscriptions/listen."""

from typing import Any, ClassVar

from mcphost.data import Raw, Wire
from mcphost.protocol.wire import Call, Empty, Notice, Result

COMPLETE = "complete"
INPUT_REQUIRED = "input_required"


class InputRequest(Wire, frozen=True):
    """One thing the server wants before it goes on."""

    method: str
    params: Raw = Raw()


class InputRequired(Result, frozen=True):
    """The answer that is a question; `request_state` goes back byte for byte, if and only if it was there."""

    input_requests: dict[str, InputRequest] | None = None
    request_state: Raw = Raw()


class Filter(Wire, frozen=True):
    """Which changes a subscription is about."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    """Only with the tasks extension."""


class Listen(Call[Empty], frozen=True):
    """subscriptions/listen; answered when the subscription ends."""

    METHOD: ClassVar[str] = "subscriptions/listen"
    RESULT: ClassVar[type[Any]] = Empty
    notifications: Filter


class Acknowledged(Notice, frozen=True):
    """notifications/subscriptions/acknowledged: the part of the filter that the server honours; None: not said."""

    METHOD: ClassVar[str] = "notifications/subscriptions/acknowledged"
    notifications: Filter | None = None
