"""Base types of messages: ClientRequest[R] (a request as data), Notification, and pages."""

from typing import Any, ClassVar, Generic, TypeVar, cast

from mcphost.serialization import Raw, WireStruct

R_co = TypeVar("R_co", covariant=True)


class ClientRequest(WireStruct, Generic[R_co], frozen=True):
    """A request to a server; its fields are the params, and the response decodes to `RESULT`."""

    METHOD: ClassVar[str]
    RESULT: ClassVar[type[Any]]


class Notification(WireStruct, frozen=True):
    """A notification; its fields are the params."""

    METHOD: ClassVar[str]


class Result(WireStruct, frozen=True):
    """Members of every result. `result_type` is empty in the handshake era, which means complete."""

    result_type: str = ""


class CacheableResult(Result, frozen=True):
    """A result of the stateless era with its lifetime in milliseconds; 0 means immediately stale."""

    ttl_ms: float = 0
    cache_scope: str = ""


class PaginatedResult(CacheableResult, frozen=True):
    """One page of a list; an absent or null cursor ends it, an empty one does not."""

    next_cursor: str | None = None


class EmptyResult(Result, frozen=True):
    """A result without members."""


class Annotations(
    WireStruct,
    frozen=True,
    rename={"raw_audience": "audience", "raw_priority": "priority", "raw_last_modified": "lastModified"},
    kw_only=True,
):
    """Hints about the audience of content; untrusted claims of the server. Invalid values are ignored."""

    raw_audience: Any = None
    raw_priority: Any = None
    raw_last_modified: Any = None

    @property
    def audience(self) -> tuple[str, ...]:
        """`user`, `assistant`, both or none."""
        audience = cast("list[Any]", self.raw_audience) if isinstance(self.raw_audience, list | tuple) else []
        return tuple(role for role in audience if role in ("user", "assistant"))

    @property
    def priority(self) -> float | None:
        """From 0, entirely optional, to 1, effectively required."""
        is_number = isinstance(self.raw_priority, int | float) and not isinstance(self.raw_priority, bool)
        return float(self.raw_priority) if is_number and 0 <= self.raw_priority <= 1 else None

    @property
    def last_modified(self) -> str | None:
        """An ISO 8601 time, unchecked."""
        return (
            self.raw_last_modified
            if isinstance(self.raw_last_modified, str) and len(self.raw_last_modified) <= 64
            else None
        )


class Icon(WireStruct, frozen=True):
    """An icon of a server; never fetched without a rule that allows it."""

    src: str
    mime_type: str | None = None
    sizes: Raw = Raw()
    theme: str | None = None


def is_set(raw: Raw) -> bool:
    """Return whether a raw member is present and not null."""
    return bytes(raw) not in (b"", b"null")
