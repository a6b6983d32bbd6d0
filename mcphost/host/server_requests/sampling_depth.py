"""How deep a sampling is nested: one that comes while the tool calls of an earlier one of the same call are open.

Tools in a sampling are run by the server that sent them. Before it gives their results to the model it may ask the
model for something else, in whose answer there are tool calls again, and so on without end. Where calls run side by
side and nothing ties a sampling to one of them, it counts as belonging to each of them: assumed too deep, never too
shallow.
"""

from collections.abc import Callable
from time import monotonic

from mcphost.client.session import ServerRequestContext
from mcphost.serialization import Struct

MAX_OPEN = 200
"""Open samplings that are remembered of one server."""
OPEN_SECONDS = 600.0
"""How long one that belongs to no call for certain is open at most, when the server never brings its results."""
NO_CALL = 0


class _OpenSampling(Struct, frozen=True):
    depth: int
    tool_use_ids: frozenset[str]
    calls: frozenset[int]
    opened_at: float


class SamplingNesting:
    """The open tool calls of one server's samplings, by the calls that they may belong to."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._open: tuple[_OpenSampling, ...] = ()

    def depth(self, context: ServerRequestContext, answered_ids: frozenset[str]) -> int:
        """How deep a sampling is that brings the results of those tool calls; 1 is not nested.

        One that brings results goes on with the sampling that made the calls, which then are not open any more.
        """
        calls = _possible_calls(context)
        before = [one for one in self._open if self._is_related(one, calls)]
        ended = [one for one in before if one.tool_use_ids & answered_ids]
        self._open = tuple(one for one in self._open if one not in ended)
        if ended:
            return max(one.depth for one in ended)
        return 1 + max((one.depth for one in before), default=0)

    def record_tool_uses(self, context: ServerRequestContext, depth: int, tool_use_ids: frozenset[str]) -> None:
        """The answer to a sampling of that depth is about to leave, with those tool calls in it."""
        if tool_use_ids:
            self._open = (*self._open, _OpenSampling(depth, tool_use_ids, _possible_calls(context), self._clock()))[
                -MAX_OPEN:
            ]

    def _is_related(self, one: _OpenSampling, calls: frozenset[int]) -> bool:
        both = one.calls & calls
        return both > {NO_CALL} or (
            bool(both) and (NO_CALL not in both or self._clock() - one.opened_at < OPEN_SECONDS)
        )


def _possible_calls(context: ServerRequestContext) -> frozenset[int]:
    """The calls that it may belong to; UNTIED among them when that is not known for certain."""
    return frozenset((context.call_number,)) if context.call_number else frozenset((NO_CALL, *context.candidate_calls))
