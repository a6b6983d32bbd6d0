"""Content blocks of results, prompts and sampling; an unknown kind becomes UnknownBlock, never an error."""

from typing import Any, cast

from mcphost.data import Raw, Wire, convert, decode, field, loads
from mcphost.errors import MalformedMessage
from mcphost.protocol.wire import Annotations


class TextBlock(Wire, frozen=True, tag="text"):
    """Plain text."""

    text: str
    annotations: Annotations | None = None


class ImageBlock(Wire, frozen=True, tag="image"):
    """A picture; `data` is base64 and unchecked."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class AudioBlock(Wire, frozen=True, tag="audio"):
    """Sound; `data` is base64 and unchecked."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(Wire, frozen=True, tag="resource_link"):
    """A pointer to a resource the server may or may not list."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: float | None = None
    annotations: Annotations | None = None


class ResourceContents(Wire, frozen=True):
    """What a resource holds: `text`, or `blob` (base64); exactly one is set in a conforming message."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(Wire, frozen=True, tag="resource"):
    """A resource inside a result."""

    resource: ResourceContents
    annotations: Annotations | None = None


class UnknownBlock(Wire, frozen=True):
    """A kind we do not know, or a block that does not fit its kind; kept as it came."""

    kind: str
    raw: Raw
    fault: str = ""


Block = TextBlock | ImageBlock | AudioBlock | ResourceLink | EmbeddedResource | UnknownBlock
_KINDS: dict[str, type[Any]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "audio": AudioBlock,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}


_Known = cast("type[Block]", TextBlock | ImageBlock | AudioBlock | ResourceLink | EmbeddedResource)


class _Kind(Wire, frozen=True):
    type: str = field(default="")


def block(raw: Raw) -> Block:
    """One block; never raises for its content."""
    try:
        return decode(raw, _Known, "content block")  # one pass over what may be megabytes
    except MalformedMessage:
        pass  # an unknown kind, or a known one that does not fit; below it is found out which
    try:
        kind = decode(raw, _Kind, "content block").type
    except MalformedMessage as error:
        return UnknownBlock("", raw, error.message)
    struct = _KINDS.get(kind)
    if struct is None:
        return UnknownBlock(kind, raw)
    try:
        return decode(raw, struct, f"{kind} block")
    except MalformedMessage as error:
        return _without_hints(raw, struct) or UnknownBlock(kind, raw, error.message)


def _without_hints(raw: Raw, struct: type[Any]) -> Block | None:
    """The block with its annotations left out: hints that cannot be read must not cost what they are about."""
    try:
        members = loads(raw)
        members.pop("annotations")
        return convert(members, struct)
    except (MalformedMessage, KeyError):
        return None


def blocks(raws: tuple[Raw, ...]) -> tuple[Block, ...]:
    """All blocks in order."""
    return tuple(block(raw) for raw in raws)
