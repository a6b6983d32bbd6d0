"""How deep a sampling is nested: one that comes while the tool calls of an earlier one of the same call are open.

Tools in a sampling are run by the server that sent them. Before it gives their results to the model it may ask the
model for something else, in whose answer there are tool calls again, and so on without end. Where calls run side by
side and nothing ties a sampling to one of them, it counts as belonging to each of them: assumed too deep, never too
shallow.
"""

from collections.abc import Callable
from time import monotonic

from mcphost.client.session import AskContext
from mcphost.serialization import Data

MOST = 200
"""Open samplings that are remembered of one server."""
OPEN_SECONDS = 600.0
"""How long one that belongs to no call for certain is open at most, when the server never brings its results."""
UNTIED = 0


class _Open(Data, frozen=True):
    depth: int
    uses: frozenset[str]
    calls: frozenset[int]
    since: float


class Nesting:
    """The open tool calls of one server's samplings, by the calls that they may belong to."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._open: tuple[_Open, ...] = ()

    def depth(self, context: AskContext, answered: frozenset[str]) -> int:
        """How deep a sampling is that brings the results of those tool calls; 1 is not nested.

        One that brings results goes on with the sampling that made the calls, which then are not open any more.
        """
        calls = _calls(context)
        before = [one for one in self._open if self._holds(one, calls)]
        ended = [one for one in before if one.uses & answered]
        self._open = tuple(one for one in self._open if one not in ended)
        if ended:
            return max(one.depth for one in ended)
        return 1 + max((one.depth for one in before), default=0)

    def called(self, context: AskContext, depth: int, uses: frozenset[str]) -> None:
        """The answer to a sampling of that depth is about to leave, with those tool calls in it."""
        if uses:
            self._open = (*self._open, _Open(depth, uses, _calls(context), self._clock()))[-MOST:]

    def _holds(self, one: _Open, calls: frozenset[int]) -> bool:
        both = one.calls & calls
        return both > {UNTIED} or (bool(both) and (UNTIED not in both or self._clock() - one.since < OPEN_SECONDS))


def _calls(context: AskContext) -> frozenset[int]:
    """The calls that it may belong to; UNTIED among them when that is not known for certain."""
    return frozenset((context.number,)) if context.number else frozenset((UNTIED, *context.running))
