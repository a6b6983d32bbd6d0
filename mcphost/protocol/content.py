"""Content blocks of results, prompts and sampling; an unknown kind becomes UnknownBlock, never an error."""

from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import Annotations
from mcphost.serialization import Raw, Wire, decode, decoder, field

ANNOTATIONS_LIMIT = 8 * 1024
"""Bytes of annotations beyond which they are not read."""
TEXT_LIMIT = 500
"""Characters kept of what an unknown block says of itself."""


class Annotated(Wire, frozen=True):
    """A block with hints about whom it is for; hints that cannot be read do not cost the block."""

    @property
    def annotations(self) -> Annotations | None:
        """The hints, None when there are none or they make no sense."""
        raw: Raw = getattr(self, "hints", Raw())
        if not 0 < len(bytes(raw)) <= ANNOTATIONS_LIMIT:
            return None
        try:
            return decode(raw, cast("type[Annotations]", Annotations | None), "annotations")
        except MalformedMessage:
            return None


class TextBlock(Annotated, frozen=True, tag="text"):
    """Plain text."""

    text: str
    hints: Raw = field(default=Raw(), name="annotations")


class ImageBlock(Annotated, frozen=True, tag="image"):
    """A picture; `data` is base64 and unchecked."""

    data: str
    mime_type: str
    hints: Raw = field(default=Raw(), name="annotations")


class AudioBlock(Annotated, frozen=True, tag="audio"):
    """Sound; `data` is base64 and unchecked."""

    data: str
    mime_type: str
    hints: Raw = field(default=Raw(), name="annotations")


class ResourceLink(Annotated, frozen=True, tag="resource_link"):
    """A pointer to a resource the server may or may not list."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: float | None = None
    hints: Raw = field(default=Raw(), name="annotations")


class ResourceContents(Wire, frozen=True):
    """What a resource holds: `text`, or `blob` (base64); exactly one is set in a conforming message."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(Annotated, frozen=True, tag="resource"):
    """A resource inside a result."""

    resource: ResourceContents
    hints: Raw = field(default=Raw(), name="annotations")


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


_Known = TextBlock | ImageBlock | AudioBlock | ResourceLink | EmbeddedResource
_read_known = decoder(cast("type[Block]", _Known), "content block")
_read_all_known = decoder(cast("type[tuple[Block, ...]]", tuple[_Known, ...]), "content")


class _Kind(Wire, frozen=True):
    type: str = field(default="")


def block(raw: Raw) -> Block:
    """One block; never raises for its content."""
    try:
        return _read_known(raw)  # one pass over what may be megabytes
    except MalformedMessage:
        pass  # an unknown kind, or a known one that does not fit; below it is found out which
    try:
        kind = decode(raw, _Kind, "content block").type
    except MalformedMessage as error:
        return UnknownBlock("", raw, error.message[:TEXT_LIMIT])
    struct = _KINDS.get(kind)
    if struct is None:
        return UnknownBlock(kind[:TEXT_LIMIT], raw)
    try:
        return decode(raw, struct, f"{kind[:TEXT_LIMIT]} block")
    except MalformedMessage as error:
        return UnknownBlock(kind, raw, error.message[:TEXT_LIMIT])


def blocks(raws: tuple[Raw, ...]) -> tuple[Block, ...]:
    """All blocks in order."""
    return tuple(map(block, raws))


def known_blocks(raw: bytes) -> tuple[Block, ...] | None:
    """Return the blocks of a JSON array, decoded in one pass; None when one is unknown or broken."""
    try:
        return _read_all_known(raw)
    except MalformedMessage:
        return None
