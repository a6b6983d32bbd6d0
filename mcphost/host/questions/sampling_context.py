"""Models and limits shown in the review of a sampling request."""

from mcphost.serialization import Struct


class ModelCandidate(Struct, frozen=True, kw_only=True):
    """A model that may answer; None and 0 mean unknown.

    Prices are US dollars per token, `speed` is in tokens per second as measured in this run. `ceiling` is the
    approximate maximum cost of this request in US dollars; `rank` is the place among the user's models, the most
    capable first.
    """

    name: str
    label: str
    input_price: float | None = None
    output_price: float | None = None
    context_window: int = 0
    speed: float | None = None
    rank: int | None = None
    ceiling: float | None = None


class LimitUsage(Struct, frozen=True):
    """Usage of one limit, such as 3 of 10 "requests this minute"."""

    what: str
    used: int
    most: int
