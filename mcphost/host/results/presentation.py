"""MCP content to what people see and what the model gets: bounded, unknown kinds named, bytes checked."""

import base64
import binascii
from functools import partial

import anyio
import anyio.to_thread

from mcphost.host.questions.result_review_questions import Piece
from mcphost.host.reserved_names import READ_RESULT
from mcphost.host.results.structured_content import ContentIndex, structured_text, without_base64
from mcphost.llm.messages import ImagePart
from mcphost.protocol.content import (
    AudioBlock,
    Block,
    EmbeddedResource,
    ImageBlock,
    ResourceContents,
    ResourceLink,
    TextBlock,
    blocks,
)
from mcphost.protocol.tools import ToolResult
from mcphost.sandbox.image_formats import HEAD, Picture, picture
from mcphost.sanitize import readable, whole
from mcphost.serialization import Data, replace

MODEL_TEXT_LIMIT = 256 * 1024
SHOWN_UNKNOWN = 2_000
MODEL_IMAGE_LIMIT = 5 * 1024 * 1024
APART_SIZE = 256 * 1024
"""Bytes of a result from which on a thread reads it, so that the event loop goes on meanwhile."""
FOR_USER = "[content that the server meant for the user alone]"
"""What the model is told in its place."""


class Rendered(Data, frozen=True):
    """A result in words: `text` whole, `images` that are what they claim to be; `pictures` are those for people.

    `meant_for_model` is the text without what the server marked as meant for the user alone; `note` is what mcphost
    has to say of the result.
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    meant_for_model: str = ""
    note: str = ""
    pictures: tuple[ImagePart, ...] = ()

    @property
    def for_people(self) -> str:
        """The text with the note before it."""
        return f"[mcphost: {self.note}]\n{self.text}" if self.note else self.text

    @property
    def may_be_read(self) -> str:
        """All of the text that the model may see, whatever its size."""
        return self.meant_for_model or self.text

    @property
    def is_too_big(self) -> bool:
        """Whether the model gets the beginning of it only."""
        return len(beginning(self.may_be_read)) < len(self.may_be_read)

    def for_model(self, kept: str = "") -> str:
        """The text within the model's bound; a cut says so, and by which name the rest can be asked for."""
        text = self.may_be_read
        shown = beginning(text)
        if len(shown) < len(text):
            size, told = len(whole(text).encode()), len(shown.encode())
            rest = (
                f'All of it is kept; ask for more with {READ_RESULT}: {{"result": "{kept}", "offset": {told}}}'
                if kept
                else "The rest is left out"
            )
            text = f"{shown}\n[mcphost: these were the first {told:,} of {size:,} bytes of this result. {rest}]"
        return readable(f"[mcphost: {self.note}]\n{text}" if self.note else text)


def beginning(text: str) -> str:
    """What of a text may go to the model at once: 256 KB of it as UTF-8, no character cut in two."""
    if len(text) * 4 <= MODEL_TEXT_LIMIT:
        return text
    body = whole(text[:MODEL_TEXT_LIMIT]).encode()
    if len(body) <= MODEL_TEXT_LIMIT:
        return text[:MODEL_TEXT_LIMIT]
    return body[:MODEL_TEXT_LIMIT].decode(errors="ignore")


def render(result: ToolResult, *, null_counts: bool = False, note: str = "") -> Rendered:
    """A tool's result. Structured content is shown unless a text says the same.

    `null_counts`: whether a structured null is a value (from 2026-07-28 on).
    """
    return joined(pieces(result, null_counts=null_counts, note=note))


async def read(result: ToolResult, *, null_counts: bool = False, note: str = "") -> tuple[Piece, ...]:
    """Return what `pieces` does; a large result does not stall the event loop."""
    work = partial(pieces, result, null_counts=null_counts, note=note)
    if len(bytes(result.raw_content)) + len(bytes(result.structured_content)) < APART_SIZE:
        return work()
    return await anyio.to_thread.run_sync(work)


def pieces(result: ToolResult, *, null_counts: bool = False, note: str = "") -> tuple[Piece, ...]:
    """A tool's result part by part, as `render` puts it together."""
    made = [Piece(kind="note", text=note)] if note else []
    items, rest = result.parts()
    listed = blocks(items)
    room = MODEL_IMAGE_LIMIT * 4 // 3
    for block in listed:
        one = replace(_piece(block), for_user=_for_user_alone(block))
        if one.image is not None and len(one.image.data) > room:
            most = f"the pictures of a result have {MODEL_IMAGE_LIMIT // 1_000_000} MB together"
            one = replace(one, text=f"{one.text[:-1]}, left out: {most}]", image=None)
        if one.image is not None:
            room -= len(one.image.data)
        made.append(one)
    if rest:
        made.append(Piece(kind="other", text=f"[the parts after the first {len(items):,} were left out]"))
    structure = structured_text(result.structure(null_counts=null_counts), ContentIndex(listed))
    if structure is not None:
        made.append(Piece(kind="structured", text=structure, size=len(structure)))
    return tuple(made)


def for_model(made: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The same without what the server meant for the user alone."""
    hidden = Piece(kind="text", text=FOR_USER)
    return tuple(replace(hidden, kind=one.kind) if one.for_user else one for one in made)


def joined(made: tuple[Piece, ...]) -> Rendered:
    """The parts as one result."""
    note = " ".join(one.text for one in made if one.kind == "note")
    seen = for_model(made)
    text, told = _text(made), _text(seen)
    images, pictures = (tuple(one.image for one in parts if one.image) for parts in (seen, made))
    return Rendered(text, images, told if told != text else "", note, pictures)


def _text(made: tuple[Piece, ...]) -> str:
    lines: list[str] = []
    for one in made:
        if one.kind == "structured" and any(other.kind == "text" for other in made):
            lines.append("structured content:")
        if one.kind != "note":
            lines.append(one.text)
    return "\n".join(lines) or "(the tool returned nothing)"


def _for_user_alone(block: Block) -> bool:
    audience = getattr(getattr(block, "annotations", None), "audience", ())
    return "user" in audience and "assistant" not in audience


def _piece(block: Block) -> Piece:
    if isinstance(block, EmbeddedResource):
        held = block.resource
        text, image = _held(held)
        size = _bytes_of(held.text) if held.text is not None else len(held.blob or "") * 3 // 4
        mime_type = image.mime_type if image else held.mime_type or ""
        return Piece(kind="resource", text=text, image=image, mime_type=mime_type, size=size)
    text, image = render_block(block)
    match block:
        case TextBlock():
            return Piece(kind="text", text=text, size=_bytes_of(text))
        case ImageBlock() | AudioBlock():
            mime_type = image.mime_type if image else block.mime_type
            kind = "image" if isinstance(block, ImageBlock) else "audio"
            return Piece(kind=kind, text=text, image=image, mime_type=mime_type, size=len(block.data) * 3 // 4)
        case ResourceLink():
            return Piece(kind="link", text=text, mime_type=block.mime_type or "")
        case _:
            return Piece(kind="other", text=text, size=len(bytes(block.raw)))


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def render_block(block: Block) -> tuple[str, ImagePart | None]:
    """One block as text, and the picture it holds when it really is one."""
    match block:
        case TextBlock():
            return without_base64(block.text), None
        case ImageBlock():
            return _image(block)
        case AudioBlock():
            return f"[audio: {block.mime_type}, {_size(block.data)}]", None
        case ResourceLink():
            kind = f", {block.mime_type}" if block.mime_type else ""
            return f"[resource: {block.title or block.name or block.uri} {block.uri}{kind}]", None
        case EmbeddedResource():
            return render_contents(block.resource), None
        case _:
            fault = f": {block.fault}" if block.fault else ""
            raw = without_base64(bytes(block.raw)[: SHOWN_UNKNOWN * 32].decode("utf-8", "replace"))
            cut = "…" if len(raw) > SHOWN_UNKNOWN else ""
            told = f"[content of kind {block.kind or 'unknown'!r} that mcphost does not know{fault}]"
            return f"{told} {raw[:SHOWN_UNKNOWN]}{cut}", None


def render_contents(contents: ResourceContents) -> str:
    """The text of a resource, or what its bytes are."""
    if contents.text is not None:
        return without_base64(contents.text)
    return f"[{contents.uri}: {contents.mime_type or 'binary'}, {_size(contents.blob or '')}]"


def _held(held: ResourceContents) -> tuple[str, ImagePart | None]:
    """What a resource inside a result holds: a picture is one like any other, named by its address as well."""
    known = None if held.text is not None else _begins_as(held.blob or "")
    if known is None:
        return render_contents(held), None
    text, image = _image(ImageBlock(held.blob or "", held.mime_type or known.mime_type))
    return f"[{held.uri}: {text.removeprefix('[image: ')}", image


def _begins_as(data: str) -> Picture | None:
    """The picture that base64 begins as."""
    try:
        return picture(base64.b64decode(data[:64], validate=True))
    except (binascii.Error, ValueError):
        return None


def _image(block: ImageBlock) -> tuple[str, ImagePart | None]:
    """A picture judged by its own bytes, never by what the server calls it; a type that is not its own is said."""
    whole = len(block.data) <= MODEL_IMAGE_LIMIT * 4 // 3 + 4
    try:
        # Of one that is too big for the model anyway, the beginning tells what it is.
        body = base64.b64decode(block.data if whole else block.data[: HEAD // 3 * 4], validate=True)
    except (binascii.Error, ValueError):
        return f"[image: {block.mime_type}, not valid base64]", None
    size, found = _bytes(len(body) if whole else len(block.data) * 3 // 4), picture(body)
    if found is None:
        return f"[image: {block.mime_type}, {size}, not shown: it is no picture mcphost knows]", None
    name = found.mime_type
    if found.width:
        name = f"{name}, {found.width:,} × {found.height:,} pixels"
    name = f"{name}, {size}"
    if block.mime_type.partition(";")[0].strip().lower() != found.mime_type:
        name = f"{name}; the server calls it {block.mime_type[:100]}"
    if found.is_too_big:
        return f"[image: {name}; left out: too many pixels]", None
    if not whole or len(body) > MODEL_IMAGE_LIMIT:
        return f"[image: {name}; left out: too big]", None
    return f"[image: {name}]", ImagePart(found.mime_type, block.data)


def _size(data: str) -> str:
    """How much it is, decoded; or that it cannot be."""
    try:
        size = len(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return "not valid base64"
    return _bytes(size)


def _bytes(size: int) -> str:
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1000:,} kB"
