"""What a person is shown before a server asks a model: who may answer, and how much of each limit is used."""

from mcphost.serialization import Struct


class ModelCandidate(Struct, frozen=True, kw_only=True):
    """A model that may answer. Prices are US dollars for one token, `speed` tokens a second as measured in this run;
    None and 0 mean unknown. `ceiling` is what this request can cost there in US dollars, about; `rank` is its place
    among the user's own models, the most capable first."""

    name: str
    label: str
    input_price: float | None = None
    output_price: float | None = None
    context_window: int = 0
    speed: float | None = None
    rank: int | None = None
    ceiling: float | None = None


class LimitUsage(Struct, frozen=True):
    """How much of one limit is used: "requests this minute", 3 of 10."""

    what: str
    used: int
    most: int
