"""Base types for MCP requests, notifications, results, and pages of lists."""

from typing import Any, ClassVar, Generic, TypeVar, cast

from mcphost.serialization import Raw, WireStruct

R_co = TypeVar("R_co", covariant=True)


class ClientRequest(WireStruct, Generic[R_co], frozen=True):
    """A request to a server; the fields are the params, and the result is decoded to the type `RESULT`."""

    METHOD: ClassVar[str]
    RESULT: ClassVar[type[Any]]


class Notification(WireStruct, frozen=True):
    """A notification to or from a server; the fields are the params."""

    METHOD: ClassVar[str]


class Result(WireStruct, frozen=True):
    """Base class for results, with the members that all results share.

    An empty `result_type` means that the result is complete; before revision 2026-07-28, it is always empty.
    """

    result_type: str = ""


class CacheableResult(Result, frozen=True):
    """A result that can be cached for `ttl_ms` milliseconds (revision 2026-07-28 and later); 0 forbids caching."""

    ttl_ms: float = 0
    cache_scope: str = ""


class PaginatedResult(CacheableResult, frozen=True):
    """One page of a list. There is a next page if `next_cursor` is present, even if it is empty."""

    next_cursor: str | None = None


class EmptyResult(Result, frozen=True):
    """A result without any members of its own."""


class Annotations(
    WireStruct,
    frozen=True,
    rename={"raw_audience": "audience", "raw_priority": "priority", "raw_last_modified": "lastModified"},
    kw_only=True,
):
    """A server's hints about content or a resource, such as the intended audience.

    The hints are not trusted, and invalid values are ignored.
    """

    raw_audience: Any = None
    raw_priority: Any = None
    raw_last_modified: Any = None

    @property
    def audience(self) -> tuple[str, ...]:
        """The intended audience: `user`, `assistant` or both; empty if unspecified."""
        audience = cast("list[Any]", self.raw_audience) if isinstance(self.raw_audience, list | tuple) else []
        return tuple(role for role in audience if role in ("user", "assistant"))

    @property
    def priority(self) -> float | None:
        """Importance from 0 (optional) to 1 (required), or None if unspecified."""
        is_number = isinstance(self.raw_priority, int | float) and not isinstance(self.raw_priority, bool)
        return float(self.raw_priority) if is_number and 0 <= self.raw_priority <= 1 else None

    @property
    def last_modified(self) -> str | None:
        """Time of the last change in ISO 8601 format, not validated; None if absent."""
        return (
            self.raw_last_modified
            if isinstance(self.raw_last_modified, str) and len(self.raw_last_modified) <= 64
            else None
        )


class Icon(WireStruct, frozen=True):
    """An icon of a server or one of its features; icons given as http(s) URLs are never downloaded."""

    src: str
    mime_type: str | None = None
    sizes: Raw = Raw()
    theme: str | None = None


def is_set(raw: Raw) -> bool:
    """Return whether *raw*, an optional member of a message, is present and not null."""
    return bytes(raw) not in (b"", b"null")
