"""Rendering of MCP content as text and images, for the user and for the model, within size limits."""

import base64
import binascii
from collections.abc import Sequence
from functools import partial

import anyio
import anyio.to_thread

from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.builtin_tool_names import READ_RESULT
from mcphost.host.questions.questions import ResultPart
from mcphost.host.structured_content import ContentIndex, remove_base64, structured_text
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
from mcphost.sanitize import replace_surrogates, short_mime_type, strip_hidden_text
from mcphost.serialization import Struct, replace

MODEL_TEXT_LIMIT = 256 * 1024
UNKNOWN_CONTENT_LIMIT = 2_000
MODEL_IMAGE_LIMIT = 5 * 1024 * 1024
THREAD_THRESHOLD = 256 * 1024
_MAX_WORD = 40
"""A truncated text without line breaks ends with a word, unless its last word has more characters."""
"""Results of at least this many bytes are rendered in a thread."""
USER_ONLY_TEXT = "[content that the server intended only for the user]"
"""Text that the model receives in place of content intended only for the user."""


class RenderedResult(Struct, frozen=True):
    """A tool result rendered as text and images.

    - `text` is the full text, for the user.
    - `assistant_text` is the text for the model if it differs from `text`, because some parts are meant only for
      the user; otherwise "".
    - `images` are the valid images for the model, and `user_images` those for the user.
    - `note` is a comment by mcphost on the result.
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    assistant_text: str = ""
    note: str = ""
    user_images: tuple[ImagePart, ...] = ()

    @property
    def user_text(self) -> str:
        """The text for the user, preceded by mcphost's note, if any."""
        return f"[mcphost: {self.note}]\n{self.text}" if self.note else self.text

    @property
    def model_text(self) -> str:
        """The full text for the model, before truncation."""
        return self.assistant_text or self.text

    @property
    def is_too_big(self) -> bool:
        """Whether the text is too long for the model and must be truncated."""
        return len(truncate_text(self.model_text)) < len(self.model_text)

    def bounded_model_text(self, stored_name: str = "") -> str:
        """Return the text for the model, truncated to 256 KB.

        After truncated text, a note tells the model how to read the rest of the result with `read_result`.
        *stored_name* is the name of the stored result. It is "" if the result was not stored; the note then says
        that the rest is not available.
        """
        text = self.model_text
        shown = truncate_at_line(text)
        if len(shown) < len(text):
            size, end = len(replace_surrogates(text).encode()), len(shown.encode())
            shown = shown.removesuffix("\n")
            rest = (
                f'To read more, call {READ_RESULT}: {{"result": "{stored_name}", "offset": {end}}}'
                if stored_name
                else "The rest is not available"
            )
            text = f"{shown}\n[mcphost: the text above is the first {end:,} of {size:,} bytes of this result. {rest}]"
        return strip_hidden_text(f"[mcphost: {self.note}]\n{text}" if self.note else text)


def truncate_text(text: str, limit: int = MODEL_TEXT_LIMIT) -> str:
    """Return the first *limit* bytes of the text as UTF-8, without splitting a character."""
    if len(text) * 4 <= limit:
        return text
    body = replace_surrogates(text[:limit]).encode()
    if len(body) <= limit:
        return text[:limit]
    return body[:limit].decode(errors="ignore")


def truncate_at_line(text: str, limit: int = MODEL_TEXT_LIMIT) -> str:
    """Return at most the first *limit* bytes of the text, cut after a line or, if necessary, after a word.

    The text is cut after the last line break in its last quarter. If there is none, it is cut after the last space
    near its end or, as a last resort, at the limit. Cutting between digits is avoided, because the rest of a number
    would look like another number.
    """
    shown = truncate_text(text, limit)
    if len(shown) == len(text):
        return text
    end = shown.rfind("\n", len(shown) * 3 // 4) + 1 or shown.rfind(" ", max(0, len(shown) - _MAX_WORD)) + 1
    return shown[:end] if end else shown


def render(result: CallToolResult, *, null_counts: bool = False, note: str = "") -> RenderedResult:
    """Render a tool result, omitting structured content that only repeats the content blocks.

    *null_counts* decides whether structured content that is `null` counts as a value, as in protocol version
    2026-07-28 and later, or as missing. *note* is a comment by mcphost that is added to the result.
    """
    return join_parts(make_parts(result, null_counts=null_counts, note=note))


async def make_parts_async(
    result: CallToolResult, *, null_counts: bool = False, note: str = ""
) -> tuple[ResultPart, ...]:
    """Return the result of `make_parts`, which runs on a worker thread if the input is large."""
    work = partial(make_parts, result, null_counts=null_counts, note=note)
    if len(bytes(result.raw_content)) + len(bytes(result.structured_content)) < THREAD_THRESHOLD:
        return work()
    return await anyio.to_thread.run_sync(work)


def make_parts(result: CallToolResult, *, null_counts: bool = False, note: str = "") -> tuple[ResultPart, ...]:
    """Render each content block of a tool result, and its structured content, as a separate part.

    See `render` for the parameters.
    """
    parts = [ResultPart(kind="note", text=note)] if note else []
    items, rest = result.split_content()
    blocks = parse_content_blocks(items)
    images_left = MODEL_IMAGE_LIMIT * 4 // 3
    for block in blocks:
        part = replace(_make_part(block), for_user=_is_user_only(block))
        if part.image is not None and len(part.image.data) > images_left:
            limit = f"the images of a result may have {MODEL_IMAGE_LIMIT // 1_000_000} MB in total"
            part = replace(part, text=f"{part.text[:-1]}, left out: {limit}]", image=None)
        if part.image is not None:
            images_left -= len(part.image.data)
        parts.append(part)
    if rest:
        parts.append(ResultPart(kind="other", text=f"[the parts after the first {len(items):,} were left out]"))
    structure = structured_text(result.parse_structured_content(allow_null=null_counts), ContentIndex(blocks))
    if structure is not None:
        parts.append(ResultPart(kind="structured", text=structure, size=len(structure)))
    return tuple(parts)


def hide_user_only_parts(parts: tuple[ResultPart, ...]) -> tuple[ResultPart, ...]:
    """Replace each part that is meant only for the user with a placeholder."""
    hidden = ResultPart(kind="text", text=USER_ONLY_TEXT)
    return tuple(replace(hidden, kind=part.kind) if part.for_user else part for part in parts)


def join_parts(all_parts: tuple[ResultPart, ...]) -> RenderedResult:
    """Join the rendered parts of a tool result to the text and images for the user, and those for the model."""
    note = " ".join(part.text for part in all_parts if part.kind == "note")
    model_parts = hide_user_only_parts(all_parts)
    text, model_text = _join_text(all_parts), _join_text(model_parts)
    images, pictures = (tuple(part.image for part in parts if part.image) for parts in (model_parts, all_parts))
    return RenderedResult(text, images, model_text if model_text != text else "", note, pictures)


def _join_text(parts: tuple[ResultPart, ...]) -> str:
    lines: list[str] = []
    for part in parts:
        if part.kind == "structured" and any(other.kind == "text" for other in parts):
            lines.append("structured content:")
        if part.kind != "note":
            lines.append(part.text)
    return "\n".join(lines) or "(the tool returned nothing)"


def _is_user_only(block: ContentBlock) -> bool:
    audience = getattr(getattr(block, "annotations", None), "audience", ())
    return "user" in audience and "assistant" not in audience


def _make_part(block: ContentBlock) -> ResultPart:
    if isinstance(block, EmbeddedResource):
        resource = block.resource
        text, image = _render_embedded(resource)
        size = _utf8_size(resource.text) if resource.text is not None else len(resource.blob or "") * 3 // 4
        mime_type = image.mime_type if image else resource.mime_type or ""
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
    """Return a pair: the content block as text, and its image (None if it has no valid image)."""
    match block:
        case TextContent():
            return remove_base64(block.text), None
        case ImageContent():
            return _render_image(block)
        case AudioContent():
            return f"[audio: {short_mime_type(block.mime_type)}, {_base64_size(block.data)}]", None
        case ResourceLink():
            kind = f", {short_mime_type(block.mime_type)}" if block.mime_type else ""
            return f"[resource: {block.title or block.name or block.uri} {block.uri}{kind}]", None
        case EmbeddedResource():
            return render_contents(block.resource), None
        case _:
            fault = f": {block.error}" if block.error else ""
            raw = remove_base64(bytes(block.raw)[: UNKNOWN_CONTENT_LIMIT * 32].decode("utf-8", "replace"))
            cut = "…" if len(raw) > UNKNOWN_CONTENT_LIMIT else ""
            label = f"[content of the unsupported type {block.type or 'unknown'!r}{fault}]"
            return f"{label} {raw[:UNKNOWN_CONTENT_LIMIT]}{cut}", None


def render_contents(contents: ResourceContents) -> str:
    """Return the text of a resource, or a description of its type and size if it is binary."""
    if contents.text is not None:
        return remove_base64(contents.text)
    kind = short_mime_type(contents.mime_type) if contents.mime_type else "binary"
    return f"[{contents.uri}: {kind}, {_base64_size(contents.blob or '')}]"


def _render_embedded(resource: ResourceContents) -> tuple[str, ImagePart | None]:
    """Return a pair: the embedded resource as text, and its image (None if it has no valid image)."""
    known = None if resource.text is not None else _detect_image(resource.blob or "")
    if known is None:
        return render_contents(resource), None
    text, image = _render_image(ImageContent(resource.blob or "", resource.mime_type or known.mime_type))
    return f"[{resource.uri}: {text.removeprefix('[image: ')}", image


def decode_content(part: ResourceContents) -> bytes:
    """Return the bytes of one part of a resource, as they are written to a file.

    Raises MalformedMessage if a binary part is not valid base64.
    """
    if part.text is not None:
        return part.text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(part.blob or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedMessage("The resource is not valid base64.", "Report it to the server's author.") from error


def decode_contents(contents: Sequence[ResourceContents]) -> bytes:
    """Return the bytes of a resource with exactly one part; raise UsageError if it has none or several.

    Raises MalformedMessage if it is not valid base64.
    """
    if len(contents) != 1:
        raise UsageError(
            f"The resource has {len(contents)} parts; a file holds one.",
            "Get them all with: mcphost read SERVER URI --json",
        )
    return decode_content(contents[0])


def _detect_image(data: str) -> ImageInfo | None:
    """Detect the image format from the first bytes of base64 data; return None if the format is not supported."""
    try:
        return identify_image(base64.b64decode(data[:64], validate=True))
    except (binascii.Error, ValueError):
        return None


def _render_image(block: ImageContent) -> tuple[str, ImagePart | None]:
    """Return a pair: a description of the image, and the image itself (None if it is invalid or too large).

    The type is detected from the bytes. If the declared type differs, the description mentions it.
    """
    declared = short_mime_type(block.mime_type)
    is_small = len(block.data) <= MODEL_IMAGE_LIMIT * 4 // 3 + 4
    try:
        # The first bytes suffice to identify an image that is too big for the model.
        body = base64.b64decode(block.data if is_small else block.data[: HEADER_BYTES // 3 * 4], validate=True)
    except (binascii.Error, ValueError):
        return f"[image: {declared}, not valid base64]", None
    size, info = _format_size(len(body) if is_small else len(block.data) * 3 // 4), identify_image(body)
    if info is None:
        return f"[image: {declared}, {size}, not shown: unsupported image format]", None
    name = info.mime_type
    if info.width:
        name = f"{name}, {info.width:,} × {info.height:,} pixels"
    name = f"{name}, {size}"
    if declared.lower() != info.mime_type:
        name = f"{name}; declared as {declared}"
    if info.is_too_big:
        return f"[image: {name}; left out: too many pixels]", None
    if not is_small or len(body) > MODEL_IMAGE_LIMIT:
        return f"[image: {name}; left out: too big]", None
    return f"[image: {name}]", ImagePart(info.mime_type, block.data)


def _base64_size(data: str) -> str:
    """Return the size of the decoded base64 as text, such as "1,024 bytes", or "not valid base64"."""
    try:
        size = len(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return "not valid base64"
    return _format_size(size)


def _format_size(size: int) -> str:
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1000:,} kB"
