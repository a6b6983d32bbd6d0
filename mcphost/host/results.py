"""MCP content to what people see and what the model gets: bounded, unknown kinds named, bytes checked."""

import base64
import binascii
from typing import Any, cast

from mcphost.clean import readable
from mcphost.data import Data, Raw, dumps, loads
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

MODEL_TEXT_LIMIT = 256 * 1024
SHOWN_UNKNOWN = 2_000
MODEL_IMAGE_LIMIT = 5 * 1024 * 1024
_IMAGE_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


_COMPARED = 1024 * 1024


class Rendered(Data, frozen=True):
    """A result in words: `text` whole, `images` that are what they claim to be.

    `meant_for_model` is the text without what the server marked as meant for the user alone; `note` is what mcphost
    has to say of the result.
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    meant_for_model: str = ""
    note: str = ""

    @property
    def for_people(self) -> str:
        """The text with the note before it."""
        return f"[mcphost: {self.note}]\n{self.text}" if self.note else self.text

    @property
    def for_model(self) -> str:
        """The text within the model's bound; a cut says so and how much is missing."""
        text = self.meant_for_model or self.text
        left = len(text) - MODEL_TEXT_LIMIT
        if left > 0:
            text = f"{text[:MODEL_TEXT_LIMIT]}\n[mcphost left out {left:,} more characters of this result]"
        return readable(f"[mcphost: {self.note}]\n{text}" if self.note else text)


def render(result: ToolResult, *, null_counts: bool = False, note: str = "") -> Rendered:
    """A tool's result. Structured content is shown unless a text says the same.

    `null_counts`: whether a structured null is a value (from 2026-07-28 on).
    """
    lines: list[str] = []
    kept: list[str] = []
    images: list[ImagePart] = []
    texts: list[str] = []
    room = MODEL_IMAGE_LIMIT * 4 // 3
    for block in result.blocks():
        text, image = render_block(block)
        if image is not None and len(image.data) > room:
            text = f"{text[:-1]}, left out: the pictures of a result have {MODEL_IMAGE_LIMIT // 1_000_000} MB together]"
            image = None
        if isinstance(block, TextBlock):
            texts.append(block.text)
        lines.append(text)
        if _for_user_alone(block):
            kept.append("[content that the server meant for the user alone]")
        else:
            kept.append(text)
            if image is not None:
                images.append(image)
                room -= len(image.data)
    structure = _structure(result.structure(null_counts=null_counts), texts)
    whole = "\n".join([*lines, *structure]) or "(the tool returned nothing)"
    seen = "\n".join([*kept, *structure]) or whole
    return Rendered(whole, tuple(images), seen if seen != whole else "", note)


def _for_user_alone(block: Block) -> bool:
    audience = getattr(getattr(block, "annotations", None), "audience", ())
    return "user" in audience and "assistant" not in audience


def _structure(raw: Raw | None, texts: list[str]) -> list[str]:
    """What is to be said of the structured content beside the texts: nothing when they repeat it."""
    if raw is None:
        return []
    if len(bytes(raw)) + sum(map(len, texts)) > _COMPARED:
        # Too much to be read and written again while the screen waits: as it came, or as the texts say it.
        return [] if texts else [bytes(raw).decode("utf-8", "replace")]
    try:
        value = loads(raw)
    except MalformedMessage:
        return ["[structured content that is not valid JSON]"]
    if not texts:
        return [dumps(value, indent=2)]
    return [] if _repeated(value, texts) else ["structured content:", dumps(value, indent=2)]


def _repeated(value: Any, texts: list[str]) -> bool:
    """Whether the texts say what the value says; some SDKs wrap anything that is no object as `result`."""
    said = [_read(text) for text in texts]
    ways = [value]
    if isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["result"]:
        ways.append(value["result"])
    return any(one in said or one == said or one in texts or one == "\n".join(texts) for one in ways)


def _read(text: str) -> Any:
    try:
        return loads(text)
    except MalformedMessage:
        return text


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
            kind = f", {block.mime_type}" if block.mime_type else ""
            return f"[resource: {block.title or block.name or block.uri} {block.uri}{kind}]", None
        case EmbeddedResource():
            return render_contents(block.resource), None
        case _:
            fault = f": {block.fault}" if block.fault else ""
            raw = bytes(block.raw)[:SHOWN_UNKNOWN].decode("utf-8", "replace")
            cut = "…" if len(bytes(block.raw)) > SHOWN_UNKNOWN else ""
            return f"[content of kind {block.kind or 'unknown'!r} that mcphost does not know{fault}] {raw}{cut}", None


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
    """How much it is, decoded; or that it cannot be."""
    try:
        size = len(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return "not valid base64"
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1000:,} kB"
