"""Base types of the wire: Call[R] (a request as data), Notice, and pages."""

from typing import Any, ClassVar, Generic, TypeVar, cast

from mcphost.serialization import Raw, WireStruct

R_co = TypeVar("R_co", covariant=True)


class ClientRequest(WireStruct, Generic[R_co], frozen=True):
    """One request to a server, as data: the fields are its params, `RESULT` is what the answer decodes to."""

    METHOD: ClassVar[str]
    RESULT: ClassVar[type[Any]]


class Notification(WireStruct, frozen=True):
    """One notification as data."""

    METHOD: ClassVar[str]


class Result(WireStruct, frozen=True):
    """What every result may carry. `result_type` is empty in the handshake era, which means complete."""

    result_type: str = ""


class CacheableResult(Result, frozen=True):
    """A result of the stateless era that says how long it stays fresh; milliseconds, 0 means stale at once."""

    ttl_ms: float = 0
    cache_scope: str = ""


class PaginatedResult(CacheableResult, frozen=True):
    """One page of a list; an absent or null cursor ends it, an empty one does not."""

    next_cursor: str | None = None


class EmptyResult(Result, frozen=True):
    """A result with nothing in it."""


class Annotations(
    WireStruct,
    frozen=True,
    rename={"raw_audience": "audience", "raw_priority": "priority", "raw_last_modified": "lastModified"},
    kw_only=True,
):
    """Hints about who content is for; claims of the server, never trusted. What makes no sense counts as not said."""

    raw_audience: Any = None
    raw_priority: Any = None
    raw_last_modified: Any = None

    @property
    def audience(self) -> tuple[str, ...]:
        """`user`, `assistant`, both or nobody in particular."""
        said = cast("list[Any]", self.raw_audience) if isinstance(self.raw_audience, list | tuple) else []
        return tuple(one for one in said if one in ("user", "assistant"))

    @property
    def priority(self) -> float | None:
        """From 0, entirely optional, to 1, as good as required."""
        is_number = isinstance(self.raw_priority, int | float) and not isinstance(self.raw_priority, bool)
        return float(self.raw_priority) if is_number and 0 <= self.raw_priority <= 1 else None

    @property
    def last_modified(self) -> str | None:
        """A time as ISO 8601 has it, in the server's own words."""
        return (
            self.raw_last_modified
            if isinstance(self.raw_last_modified, str) and len(self.raw_last_modified) <= 64
            else None
        )


class Icon(WireStruct, frozen=True):
    """A picture a server names; never fetched without a rule that allows it."""

    src: str
    mime_type: str | None = None
    sizes: Raw = Raw()
    theme: str | None = None


def is_set(raw: Raw) -> bool:
    """Whether a raw member was there at all and is not null."""
    return bytes(raw) not in (b"", b"null")
