"""Nesting depth of sampling: a request during the open tool calls of an earlier one is deeper.

The server runs its own tools in sampling. Before it returns their results to the model, it may sample again, whose
answer may have tool calls again, without end. If calls run concurrently and a sampling request names none of them, it
counts for each: the depth may be overestimated, never underestimated.
"""

from collections.abc import Callable
from time import monotonic

from mcphost.client.session import ServerRequestContext
from mcphost.serialization import Struct

MAX_OPEN = 200
"""Remembered open sampling requests of one server."""
OPEN_SECONDS = 600.0
"""Seconds that one without a certain call stays open if the server never sends the results."""
NO_CALL = 0


class _OpenSampling(Struct, frozen=True):
    depth: int
    tool_use_ids: frozenset[str]
    calls: frozenset[int]
    opened_at: float


class SamplingNesting:
    """The open tool calls in one server's sampling, by the calls they may belong to."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._open: tuple[_OpenSampling, ...] = ()

    def depth(self, context: ServerRequestContext, answered_ids: frozenset[str]) -> int:
        """Return the depth of a sampling request with the results of these tool calls; 1 is not nested.

        A request with results continues the sampling that made the calls, and closes them.
        """
        calls = _possible_calls(context)
        related = [item for item in self._open if self._is_related(item, calls)]
        continued = [item for item in related if item.tool_use_ids & answered_ids]
        self._open = tuple(item for item in self._open if item not in continued)
        if continued:
            return max(item.depth for item in continued)
        return 1 + max((item.depth for item in related), default=0)

    def record_tool_uses(self, context: ServerRequestContext, depth: int, tool_use_ids: frozenset[str]) -> None:
        """Record the tool calls in an answer of this depth, before it is sent."""
        if tool_use_ids:
            self._open = (*self._open, _OpenSampling(depth, tool_use_ids, _possible_calls(context), self._clock()))[
                -MAX_OPEN:
            ]

    def _is_related(self, item: _OpenSampling, calls: frozenset[int]) -> bool:
        common = item.calls & calls
        return common > {NO_CALL} or (
            bool(common) and (NO_CALL not in common or self._clock() - item.opened_at < OPEN_SECONDS)
        )


def _possible_calls(context: ServerRequestContext) -> frozenset[int]:
    """Return the calls it may belong to, with NO_CALL if that is not certain."""
    return frozenset((context.call_number,)) if context.call_number else frozenset((NO_CALL, *context.candidate_calls))
