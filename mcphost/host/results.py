"""MCP content to what people see and what the model gets: bounded, unknown kinds named, pictures checked."""

import base64
import binascii

from mcphost.data import Data, dumps, loads
from mcphost.errors import MalformedMessage
from mcphost.llm.parts import ImagePart
from mcphost.protocol.content import (
    AudioBlock,
    Block,
    EmbeddedResource,
    ImageBlock,
    ResourceContents,
    ResourceLink,
    TextBlock,
)
from mcphost.protocol.tools import ToolResult
from mcphost.protocol.wire import is_set

MODEL_TEXT_LIMIT = 256 * 1024
MODEL_IMAGE_LIMIT = 5 * 1024 * 1024
_IMAGE_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class Rendered(Data, frozen=True):
    """A result in words: `text` whole, `images` that are what they claim to be."""

    text: str
    images: tuple[ImagePart, ...] = ()

    @property
    def for_model(self) -> str:
        """The text within the model's bound; a cut says so and how much is missing."""
        if len(self.text) <= MODEL_TEXT_LIMIT:
            return self.text
        left = len(self.text) - MODEL_TEXT_LIMIT
        return f"{self.text[:MODEL_TEXT_LIMIT]}\n[mcphost left out {left:,} more characters of this result]"


def render(result: ToolResult) -> Rendered:
    """A tool's result. Structured content is shown when no text says the same."""
    lines: list[str] = []
    images: list[ImagePart] = []
    room = MODEL_IMAGE_LIMIT * 4 // 3
    for block in result.blocks():
        text, image = render_block(block)
        if image is not None and len(image.data) > room:
            text = f"{text[:-1]}, left out: the pictures of a result have {MODEL_IMAGE_LIMIT // 1_000_000} MB together]"
        elif image is not None:
            images.append(image)
            room -= len(image.data)
        lines.append(text)
    if is_set(result.structured_content) and not any(isinstance(block, TextBlock) for block in result.blocks()):
        try:
            lines.append(dumps(loads(result.structured_content), indent=2))
        except MalformedMessage:
            lines.append("[structured content that is not valid JSON]")
    return Rendered("\n".join(lines) or "(the tool returned nothing)", tuple(images))


def render_block(block: Block) -> tuple[str, ImagePart | None]:
    """One block as text, and the picture it holds when it really is one."""
    match block:
        case TextBlock():
            return block.text, None
        case ImageBlock():
            image = checked_image(block.data)
            name = image.mime_type if image else f"{block.mime_type}, not shown: it is no picture mcphost knows"
            return f"[image: {name}, {_size(block.data)}]", image
        case AudioBlock():
            return f"[audio: {block.mime_type}, {_size(block.data)}]", None
        case ResourceLink():
            return f"[resource: {block.title or block.name or block.uri} {block.uri}]", None
        case EmbeddedResource():
            return render_contents(block.resource), None
        case _:
            fault = f": {block.fault}" if block.fault else ""
            return f"[content of kind {block.kind or 'unknown'!r} that mcphost does not show{fault}]", None


def render_contents(contents: ResourceContents) -> str:
    """The text of a resource, or what its bytes are."""
    if contents.text is not None:
        return contents.text
    return f"[{contents.uri}: {contents.mime_type or 'binary'}, {_size(contents.blob or '')}]"


def checked_image(data: str) -> ImagePart | None:
    """A picture judged by its first bytes, never by what the server calls it; None when it is none or too big."""
    if len(data) > MODEL_IMAGE_LIMIT * 4 // 3:
        return None
    try:
        head = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ImagePart("image/webp", data)
    kind = next((mime for magic, mime in _IMAGE_MAGIC.items() if head.startswith(magic)), None)
    return ImagePart(kind, data) if kind else None


def _size(data: str) -> str:
    size = len(data) * 3 // 4
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1000:,} kB"
