"""MCP content to what people see and what the model gets: bounded, unknown kinds named, bytes checked."""

import base64
import binascii
from functools import partial

import anyio
import anyio.to_thread

from mcphost.host.questions.result_review_questions import ResultPart
from mcphost.host.reserved_names import READ_RESULT
from mcphost.host.results.structured_content import ContentIndex, remove_base64, structured_text
from mcphost.llm.messages import ImagePart
from mcphost.protocol.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    parse_content_blocks,
)
from mcphost.protocol.tools import CallToolResult
from mcphost.sandbox.image_formats import HEADER_BYTES, ImageInfo, identify_image
from mcphost.sanitize import replace_surrogates, strip_hidden_text
from mcphost.serialization import Struct, replace

MODEL_TEXT_LIMIT = 256 * 1024
UNKNOWN_CONTENT_LIMIT = 2_000
MODEL_IMAGE_LIMIT = 5 * 1024 * 1024
THREAD_THRESHOLD = 256 * 1024
"""Bytes of a result from which on a thread reads it, so that the event loop goes on meanwhile."""
USER_ONLY_TEXT = "[content that the server meant for the user alone]"
"""What the model is told in its place."""


class RenderedResult(Struct, frozen=True):
    """A result in words: `text` whole, `images` that are what they claim to be; `pictures` are those for people.

    `meant_for_model` is the text without what the server marked as meant for the user alone; `note` is what mcphost
    has to say of the result.
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    assistant_text: str = ""
    note: str = ""
    user_images: tuple[ImagePart, ...] = ()

    @property
    def user_text(self) -> str:
        """The text with the note before it."""
        return f"[mcphost: {self.note}]\n{self.text}" if self.note else self.text

    @property
    def model_text(self) -> str:
        """All of the text that the model may see, whatever its size."""
        return self.assistant_text or self.text

    @property
    def is_too_big(self) -> bool:
        """Whether the model gets the beginning of it only."""
        return len(truncate_text(self.model_text)) < len(self.model_text)

    def bounded_model_text(self, stored_name: str = "") -> str:
        """The text within the model's bound; a cut says so, and by which name the rest can be asked for."""
        text = self.model_text
        shown = truncate_text(text)
        if len(shown) < len(text):
            size, told = len(replace_surrogates(text).encode()), len(shown.encode())
            rest = (
                f'All of it is kept; ask for more with {READ_RESULT}: {{"result": "{stored_name}", "offset": {told}}}'
                if stored_name
                else "The rest is left out"
            )
            text = f"{shown}\n[mcphost: these were the first {told:,} of {size:,} bytes of this result. {rest}]"
        return strip_hidden_text(f"[mcphost: {self.note}]\n{text}" if self.note else text)


def truncate_text(text: str) -> str:
    """What of a text may go to the model at once: 256 KB of it as UTF-8, no character cut in two."""
    if len(text) * 4 <= MODEL_TEXT_LIMIT:
        return text
    body = replace_surrogates(text[:MODEL_TEXT_LIMIT]).encode()
    if len(body) <= MODEL_TEXT_LIMIT:
        return text[:MODEL_TEXT_LIMIT]
    return body[:MODEL_TEXT_LIMIT].decode(errors="ignore")


def render(result: CallToolResult, *, null_counts: bool = False, note: str = "") -> RenderedResult:
    """A tool's result. Structured content is shown unless a text says the same.

    `null_counts`: whether a structured null is a value (from 2026-07-28 on).
    """
    return join_parts(make_parts(result, null_counts=null_counts, note=note))


async def make_parts_async(
    result: CallToolResult, *, null_counts: bool = False, note: str = ""
) -> tuple[ResultPart, ...]:
    """Return what `pieces` does; a large result does not stall the event loop."""
    work = partial(make_parts, result, null_counts=null_counts, note=note)
    if len(bytes(result.raw_content)) + len(bytes(result.structured_content)) < THREAD_THRESHOLD:
        return work()
    return await anyio.to_thread.run_sync(work)


def make_parts(result: CallToolResult, *, null_counts: bool = False, note: str = "") -> tuple[ResultPart, ...]:
    """A tool's result part by part, as `render` puts it together."""
    made = [ResultPart(kind="note", text=note)] if note else []
    items, rest = result.split_content()
    listed = parse_content_blocks(items)
    room = MODEL_IMAGE_LIMIT * 4 // 3
    for block in listed:
        one = replace(_make_part(block), for_user=_is_user_only(block))
        if one.image is not None and len(one.image.data) > room:
            most = f"the pictures of a result have {MODEL_IMAGE_LIMIT // 1_000_000} MB together"
            one = replace(one, text=f"{one.text[:-1]}, left out: {most}]", image=None)
        if one.image is not None:
            room -= len(one.image.data)
        made.append(one)
    if rest:
        made.append(ResultPart(kind="other", text=f"[the parts after the first {len(items):,} were left out]"))
    structure = structured_text(result.parse_structured_content(allow_null=null_counts), ContentIndex(listed))
    if structure is not None:
        made.append(ResultPart(kind="structured", text=structure, size=len(structure)))
    return tuple(made)


def hide_user_only_parts(parts: tuple[ResultPart, ...]) -> tuple[ResultPart, ...]:
    """The same without what the server meant for the user alone."""
    hidden = ResultPart(kind="text", text=USER_ONLY_TEXT)
    return tuple(replace(hidden, kind=one.kind) if one.for_user else one for one in parts)


def join_parts(all_parts: tuple[ResultPart, ...]) -> RenderedResult:
    """The parts as one result."""
    note = " ".join(one.text for one in all_parts if one.kind == "note")
    seen = hide_user_only_parts(all_parts)
    text, told = _join_text(all_parts), _join_text(seen)
    images, pictures = (tuple(one.image for one in parts if one.image) for parts in (seen, all_parts))
    return RenderedResult(text, images, told if told != text else "", note, pictures)


def _join_text(parts: tuple[ResultPart, ...]) -> str:
    lines: list[str] = []
    for one in parts:
        if one.kind == "structured" and any(other.kind == "text" for other in parts):
            lines.append("structured content:")
        if one.kind != "note":
            lines.append(one.text)
    return "\n".join(lines) or "(the tool returned nothing)"


def _is_user_only(block: ContentBlock) -> bool:
    audience = getattr(getattr(block, "annotations", None), "audience", ())
    return "user" in audience and "assistant" not in audience


def _make_part(block: ContentBlock) -> ResultPart:
    if isinstance(block, EmbeddedResource):
        held = block.resource
        text, image = _render_embedded(held)
        size = _utf8_size(held.text) if held.text is not None else len(held.blob or "") * 3 // 4
        mime_type = image.mime_type if image else held.mime_type or ""
        return ResultPart(kind="resource", text=text, image=image, mime_type=mime_type, size=size)
    text, image = render_block(block)
    match block:
        case TextContent():
            return ResultPart(kind="text", text=text, size=_utf8_size(text))
        case ImageContent() | AudioContent():
            mime_type = image.mime_type if image else block.mime_type
            kind = "image" if isinstance(block, ImageContent) else "audio"
            return ResultPart(kind=kind, text=text, image=image, mime_type=mime_type, size=len(block.data) * 3 // 4)
        case ResourceLink():
            return ResultPart(kind="link", text=text, mime_type=block.mime_type or "")
        case _:
            return ResultPart(kind="other", text=text, size=len(bytes(block.raw)))


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def render_block(block: ContentBlock) -> tuple[str, ImagePart | None]:
    """One block as text, and the picture it holds when it really is one."""
    match block:
        case TextContent():
            return remove_base64(block.text), None
        case ImageContent():
            return _render_image(block)
        case AudioContent():
            return f"[audio: {block.mime_type}, {_base64_size(block.data)}]", None
        case ResourceLink():
            kind = f", {block.mime_type}" if block.mime_type else ""
            return f"[resource: {block.title or block.name or block.uri} {block.uri}{kind}]", None
        case EmbeddedResource():
            return render_contents(block.resource), None
        case _:
            fault = f": {block.error}" if block.error else ""
            raw = remove_base64(bytes(block.raw)[: UNKNOWN_CONTENT_LIMIT * 32].decode("utf-8", "replace"))
            cut = "…" if len(raw) > UNKNOWN_CONTENT_LIMIT else ""
            told = f"[content of kind {block.type or 'unknown'!r} that mcphost does not know{fault}]"
            return f"{told} {raw[:UNKNOWN_CONTENT_LIMIT]}{cut}", None


def render_contents(contents: ResourceContents) -> str:
    """The text of a resource, or what its bytes are."""
    if contents.text is not None:
        return remove_base64(contents.text)
    return f"[{contents.uri}: {contents.mime_type or 'binary'}, {_base64_size(contents.blob or '')}]"


def _render_embedded(resource: ResourceContents) -> tuple[str, ImagePart | None]:
    """What a resource inside a result holds: a picture is one like any other, named by its address as well."""
    known = None if resource.text is not None else _detect_image(resource.blob or "")
    if known is None:
        return render_contents(resource), None
    text, image = _render_image(ImageContent(resource.blob or "", resource.mime_type or known.mime_type))
    return f"[{resource.uri}: {text.removeprefix('[image: ')}", image


def _detect_image(data: str) -> ImageInfo | None:
    """The picture that base64 begins as."""
    try:
        return identify_image(base64.b64decode(data[:64], validate=True))
    except (binascii.Error, ValueError):
        return None


def _render_image(block: ImageContent) -> tuple[str, ImagePart | None]:
    """A picture judged by its own bytes, never by what the server calls it; a type that is not its own is said."""
    whole = len(block.data) <= MODEL_IMAGE_LIMIT * 4 // 3 + 4
    try:
        # Of one that is too big for the model anyway, the beginning tells what it is.
        body = base64.b64decode(block.data if whole else block.data[: HEADER_BYTES // 3 * 4], validate=True)
    except (binascii.Error, ValueError):
        return f"[image: {block.mime_type}, not valid base64]", None
    size, found = _format_size(len(body) if whole else len(block.data) * 3 // 4), identify_image(body)
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


def _base64_size(data: str) -> str:
    """How much it is, decoded; or that it cannot be."""
    try:
        size = len(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return "not valid base64"
    return _format_size(size)


def _format_size(size: int) -> str:
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1000:,} kB"
