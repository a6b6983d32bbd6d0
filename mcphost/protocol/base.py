"""Base types of the wire: Call[R] (a request as data), Notice, and pages."""

from typing import Any, ClassVar, Generic, TypeVar, cast

from mcphost.serialization import Raw, Wire

R_co = TypeVar("R_co", covariant=True)


class Call(Wire, Generic[R_co], frozen=True):
    """One request to a server, as data: the fields are its params, `RESULT` is what the answer decodes to."""

    METHOD: ClassVar[str]
    RESULT: ClassVar[type[Any]]


class Notice(Wire, frozen=True):
    """One notification as data."""

    METHOD: ClassVar[str]


class Result(Wire, frozen=True):
    """What every result may carry. `result_type` is empty in the handshake era, which means complete."""

    result_type: str = ""


class Cacheable(Result, frozen=True):
    """A result of the stateless era that says how long it stays fresh; milliseconds, 0 means stale at once."""

    ttl_ms: float = 0
    cache_scope: str = ""


class Page(Cacheable, frozen=True):
    """One page of a list; an absent or null cursor ends it, an empty one does not."""

    next_cursor: str | None = None


class Empty(Result, frozen=True):
    """A result with nothing in it."""


class Annotations(
    Wire, frozen=True, rename={"to": "audience", "weight": "priority", "changed": "lastModified"}, kw_only=True
):
    """Hints about who content is for; claims of the server, never trusted. What makes no sense counts as not said."""

    to: Any = None
    weight: Any = None
    changed: Any = None

    @property
    def audience(self) -> tuple[str, ...]:
        """`user`, `assistant`, both or nobody in particular."""
        said = cast("list[Any]", self.to) if isinstance(self.to, list | tuple) else []
        return tuple(one for one in said if one in ("user", "assistant"))

    @property
    def priority(self) -> float | None:
        """From 0, entirely optional, to 1, as good as required."""
        is_number = isinstance(self.weight, int | float) and not isinstance(self.weight, bool)
        return float(self.weight) if is_number and 0 <= self.weight <= 1 else None

    @property
    def last_modified(self) -> str | None:
        """A time as ISO 8601 has it, in the server's own words."""
        return self.changed if isinstance(self.changed, str) and len(self.changed) <= 64 else None


class Icon(Wire, frozen=True):
    """A picture a server names; never fetched without a rule that allows it."""

    src: str
    mime_type: str | None = None
    sizes: Raw = Raw()
    theme: str | None = None


def is_set(raw: Raw) -> bool:
    """Whether a raw member was there at all and is not null."""
    return bytes(raw) not in (b"", b"null")
