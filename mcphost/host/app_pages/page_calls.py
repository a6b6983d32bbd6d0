"""Calls of tools that have an interactive page, remembered so that the user can open the page later."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcphost.errors import ConsentDenied, McpHostError, RequestRefused, RequestTimeout, ServerError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import PageOffered
from mcphost.host.questions.frontend import TooManyQuestions
from mcphost.host.servers.running_calls import RunningCallCancelled
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.approval_checks import ApprovalVoid
from mcphost.protocol.tools import CallToolResult

MAX_CALLS = 50
MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of all remembered results; the oldest calls are forgotten first."""
NOT_ANSWERED = "mcphost could not answer the request."
NO_RESULT = "The call ended without a result."
ERROR_LIMIT = 1_000


@dataclass(eq=False)
class PageCall:
    """A call of a tool that has a page.

    - `result` is None while the call is running, and also if the call ended without a result.
    - `failure` is the reason why the call ended without a result, as sent to the page, otherwise "".
    """

    call: str
    offered: OfferedTool
    arguments: dict[str, Any]
    result: CallToolResult | None = None
    failure: str = ""
    has_no_review: bool = False
    """Whether the result needs no further review: the review has ended, or the user made the call."""

    listeners: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """Called when the call ends."""

    @property
    def server(self) -> str:
        """The name of the server."""
        return self.offered.connection.config.name

    @property
    def tool(self) -> str:
        """The name of the tool on the server."""
        return self.offered.definition.name

    @property
    def uri(self) -> str:
        """The ui:// URI of the page."""
        return self.offered.definition.page.resource_uri

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended, with or without a result."""
        return self.result is not None or bool(self.failure)

    @property
    def awaits_review(self) -> bool:
        """Whether the user must still review the result before it can be stored."""
        return self.offered.connection.config.review_results and not self.has_no_review

    @property
    def size(self) -> int:
        """The size of the result in bytes; 0 if there is none."""
        result = self.result
        return 0 if result is None else len(result.raw_content) + len(result.structured_content) + len(result.meta)


class PageCallRecorder:
    """The latest calls of tools that have a page, in the open conversation.

    Implements `PageCallObserver`. Calls of another conversation, which was open before, are remembered until their
    results can be stored.
    """

    def __init__(
        self,
        events: EventBus,
        keep: Callable[[PageCall], None] = lambda call: None,
        keep_passed: Callable[[PageCall], None] = lambda call: None,
    ) -> None:
        """Create a recorder, with two functions that store a call and its result.

        *keep* is called as soon as a call has a result. *keep_passed* is called when the user has reviewed the
        result and passed all of it to the model.
        """
        self._events = events
        self._keep = keep
        self._keep_passed = keep_passed
        self._calls: dict[str, PageCall] = {}
        self.hidden: frozenset[str] = frozenset()
        """The ids of calls on other branches of the conversation, which `find` does not return."""

        self._left: dict[str, PageCall] = {}  # calls of other conversations whose results may still be stored

    def start(self, call: str, offered: OfferedTool, arguments: dict[str, Any]) -> None:
        """Remember a call that is being sent, and publish a PageOffered event."""
        self._calls.pop(call, None)
        self._calls[call] = PageCall(call, offered, arguments)
        self._forget_oldest()
        self._events.publish(PageOffered(call, offered.connection.config.name, offered.definition.name))

    def finish(self, call: str, result: CallToolResult) -> None:
        """Remember the result of a call, and pass the call to the function that stores it.

        If another conversation has been opened since the call, the recorder afterwards forgets the call, unless its
        result must still be reviewed.
        """
        if (left := self._left.get(call)) is not None:
            left.result = result
            self._keep(left)
            self._end(left)
            if not left.awaits_review:
                del self._left[call]
            self._forget_oldest()
        elif (known := self._calls.get(call)) is not None:
            known.result = result
            self._keep(known)
            self._end(known)
            self._forget_oldest()

    def pass_reviewed(self, call: str) -> None:
        """Store a call whose result the user has reviewed and passed to the model in full."""
        if (known := self._left.pop(call, None) or self._calls.get(call)) is not None:
            self._keep_passed(known)

    def end_review(self, call: str) -> None:
        """Record that the user has finished reviewing the result of a call, or that it needs no review.

        If the call has ended, and another conversation has been opened since the call, the recorder forgets it.
        """
        known = self._left.get(call) or self._calls.get(call)
        if known is not None:
            known.has_no_review = True
            if known.has_ended:
                self._left.pop(call, None)

    def cancel(self, call: str, error: McpHostError | None) -> None:
        """Remember that a call ended without a result, because of *error* if it is not None.

        Do nothing if the call has a result.
        """
        known = self._left.get(call) or self._calls.get(call)
        if known is not None and known.result is None:
            known.failure = NO_RESULT if error is None else explain_to_page(error)
            self._left.pop(call, None)
            self._end(known)

    def _end(self, known: PageCall) -> None:
        listeners, known.listeners = known.listeners, []
        for listener in listeners:
            listener()

    def _forget_oldest(self) -> None:
        for calls in (self._calls, self._left):
            while len(calls) > MAX_CALLS or (len(calls) > 1 and sum(one.size for one in calls.values()) > MAX_BYTES):
                del calls[next(iter(calls))]

    def find(self, call: str = "") -> PageCall | None:
        """Return the call with this id, or the newest one if *call* is ""; None if there is none.

        Calls in `hidden`, which belong to other branches of the conversation, are not returned.
        """
        if call:
            return None if call in self.hidden else self._calls.get(call)
        return next((one for one in reversed(self._calls.values()) if one.call not in self.hidden), None)

    def restore(self, call: PageCall) -> None:
        """Add a call of an earlier run, loaded from the store; it counts as older than all calls of this run."""
        self._calls = {call.call: call, **self._calls}

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the remembered calls."""
        return frozenset(self._calls)

    @property
    def ended(self) -> frozenset[str]:
        """The ids of the remembered calls that have ended."""
        return frozenset(call.call for call in self._calls.values() if call.has_ended)

    def clear(self) -> None:
        """Forget the calls of the previous conversation, because another one was opened.

        Calls that are still running or await a review can no longer be found, but their results can still be stored.
        """
        self._left |= {call: known for call, known in self._calls.items() if not known.has_ended or known.awaits_review}
        self._calls.clear()
        self.hidden = frozenset()
        self._forget_oldest()


def explain_to_page(error: McpHostError) -> str:
    """Return the error message to send to a page: the server's own message, or a sentence that reveals no details."""
    match error:
        case RequestRefused():
            return error.server_message[:ERROR_LIMIT]
        case RequestTimeout():
            return "The server did not answer in time."
        case ServerError():
            return "The server did not answer the request."
        case TooManyQuestions():
            return error.message[:ERROR_LIMIT]
        case RunningCallCancelled():
            return "The user cancelled the call."
        case ApprovalVoid():
            return "The call was not sent, because it is no longer allowed."
        case ConsentDenied():
            return "The user's configuration does not allow it."
        case _:
            return NOT_ANSWERED
