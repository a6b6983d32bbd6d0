"""Content blocks in results, prompts and sampling messages.

A block of an unknown type becomes UnknownContent.
"""

from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import Annotations
from mcphost.serialization import Raw, WireStruct, decode, decode_or_none, field, make_decoder

ANNOTATIONS_LIMIT = 8 * 1024
"""Maximum size of annotations in bytes; larger ones are ignored."""
TEXT_LIMIT = 500
"""Maximum length, in characters, of the type and the error message of an unknown block."""


class AnnotatedContent(WireStruct, frozen=True):
    """Base class for content blocks with annotations; a block with invalid annotations is still valid."""

    @property
    def annotations(self) -> Annotations | None:
        """The annotations, or None if they are absent, too large or invalid."""
        raw: Raw = getattr(self, "raw_annotations", Raw())
        if not 0 < len(bytes(raw)) <= ANNOTATIONS_LIMIT:
            return None
        return decode_or_none(raw, cast("type[Annotations]", Annotations | None))


class TextContent(AnnotatedContent, frozen=True, tag="text"):
    """A content block with plain text."""

    text: str
    raw_annotations: Raw = field(default=Raw(), name="annotations")


class ImageContent(AnnotatedContent, frozen=True, tag="image"):
    """A content block with an image; `data` is base64 text, not validated."""

    data: str
    mime_type: str
    raw_annotations: Raw = field(default=Raw(), name="annotations")


class AudioContent(AnnotatedContent, frozen=True, tag="audio"):
    """A content block with audio; `data` is base64 text, not validated."""

    data: str
    mime_type: str
    raw_annotations: Raw = field(default=Raw(), name="annotations")


class ResourceLink(AnnotatedContent, frozen=True, tag="resource_link"):
    """A link to a resource, which may be missing from the server's list of resources."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: float | None = None
    raw_annotations: Raw = field(default=Raw(), name="annotations")


class ResourceContents(WireStruct, frozen=True):
    """Contents of a resource: either `text`, or `blob` (base64) for binary data."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(AnnotatedContent, frozen=True, tag="resource"):
    """A resource embedded in a result or prompt."""

    resource: ResourceContents
    raw_annotations: Raw = field(default=Raw(), name="annotations")


class UnknownContent(WireStruct, frozen=True):
    """A content block of an unknown type, or with invalid members for its type, as raw JSON."""

    type: str
    raw: Raw
    error: str = ""


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
_CONTENT_TYPES: dict[str, type[Any]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}


_KnownContent = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
_decode_known = make_decoder(cast("type[ContentBlock]", _KnownContent), "content block")
_decode_all_known = make_decoder(cast("type[tuple[ContentBlock, ...]]", tuple[_KnownContent, ...]), "content")


class _ContentType(WireStruct, frozen=True):
    type: str = field(default="")


def parse_content_block(raw: Raw) -> ContentBlock:
    """Decode a content block; an unknown or invalid block becomes UnknownContent. Never raises."""
    try:
        return _decode_known(raw)  # in a single pass, because the content may be megabytes long
    except MalformedMessage:
        pass  # an unknown type or an invalid block, distinguished below
    try:
        kind = decode(raw, _ContentType, "content block").type
    except MalformedMessage as error:
        return UnknownContent("", raw, error.message[:TEXT_LIMIT])
    struct = _CONTENT_TYPES.get(kind)
    if struct is None:
        return UnknownContent(kind[:TEXT_LIMIT], raw)
    try:
        return decode(raw, struct, f"{kind[:TEXT_LIMIT]} block")
    except MalformedMessage as error:
        return UnknownContent(kind, raw, error.message[:TEXT_LIMIT])


def parse_content_blocks(raws: tuple[Raw, ...]) -> tuple[ContentBlock, ...]:
    """Decode content blocks, in order."""
    return tuple(map(parse_content_block, raws))


def decode_known_blocks(raw: bytes) -> tuple[ContentBlock, ...] | None:
    """Decode a JSON array of content blocks in one pass; return None if any block is unknown or invalid."""
    try:
        return _decode_all_known(raw)
    except MalformedMessage:
        return None
