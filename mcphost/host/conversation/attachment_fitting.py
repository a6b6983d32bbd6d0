"""Conversion of attachments for the model, in worker processes: PDF files to text, and large images to smaller ones."""

import base64
import binascii
from collections.abc import Iterable

import anyio.to_thread

from mcphost.errors import UsageError
from mcphost.host.conversation.local_files import MAX_BINARY_BYTES, MAX_TEXT_BYTES, Attachment
from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart
from mcphost.llm.model import ModelFacts
from mcphost.pluralize import pluralize
from mcphost.sandbox.image_formats import HEADER_BYTES, identify_image
from mcphost.sandbox.images import ImageScaler, is_installed
from mcphost.sandbox.pdf_reader import PdfReader, PdfText
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import replace

MAX_IMAGE_BYTES = 3_750_000
"""Maximum size of an image: Anthropic takes 5 MB of base64, Amazon Bedrock 3.75 MB before base64; others take more."""
MAX_IMAGE_SIDE = 8_000
"""Maximum width and height in pixels; Anthropic refuses an image that exceeds it."""
SCALED_SIDE = 2_048
"""Width or height in pixels to which larger images are scaled down; OpenAI and Anthropic scale them to no more."""
MAX_SENT_PIXELS = 40_000_000
_PIECE_LENGTH = 4 * 1024 * 1024
_INSTALL_SCALER = "Scale it down, or install mcphost with its extra: uv tool install 'mcphost[images]'"


class AttachmentFitter:
    """Converter for attachments that a model or its provider does not accept unchanged.

    A PDF file is converted to text unless the model is known to accept PDF files. An image larger than providers
    accept is scaled down. All other attachments are returned unchanged.
    """

    def __init__(self) -> None:
        self._pdf_reader = PdfReader()
        self._image_scaler = ImageScaler()

    async def close(self) -> None:
        """End the worker processes. May be called more than once."""
        await self._pdf_reader.close()
        await self._image_scaler.close()

    async def fit(self, attachment: Attachment, facts: ModelFacts) -> Attachment:
        """Return an attachment in a form that the model accepts; the attachment's note describes what was changed.

        *facts* describe the model. Raises UsageError if the attachment cannot be converted.
        """
        match attachment.part:
            case FilePart() if attachment.part.mime_type == "application/pdf":
                return await self._fit_pdf(attachment, attachment.part, facts)
            case ImagePart():
                return await self._fit_image(attachment, attachment.part)
            case _:
                return attachment

    async def fit_resources(self, attachments: Iterable[Attachment], facts: ModelFacts) -> tuple[Attachment, ...]:
        """Return attachments from servers, such as the parts of a resource, in a form that the model accepts.

        An attachment that cannot be converted is replaced with a note. *facts* describe the model.
        """
        return tuple([await self._fit_resource(one, facts) for one in attachments])

    async def fit_parts(self, parts: Iterable[Part], facts: ModelFacts) -> tuple[Part, ...]:
        """Return the parts of a message in a form that the model accepts.

        A part that cannot be converted is replaced with a note. *facts* describe the model.
        """
        attachments = (Attachment(name=getattr(part, "name", ""), part=part) for part in parts)
        return tuple(one.part for one in await self.fit_resources(attachments, facts))

    async def _fit_resource(self, attachment: Attachment, facts: ModelFacts) -> Attachment:
        part = attachment.part
        try:
            return await self.fit(attachment, facts)
        except UsageError as error:
            if not isinstance(part, FilePart | ImagePart):
                raise
            reason = error.message.rstrip(".").removeprefix(f"{attachment.name} is ").removeprefix(attachment.name)
            text = f"[{part.mime_type}, not attached: {reason.strip()}]"
            note = ResourcePart(part.server, part.name, text, part.mime_type)
            return Attachment(name=attachment.name, part=note, note=reason.strip())

    async def _fit_pdf(self, attachment: Attachment, part: FilePart, facts: ModelFacts) -> Attachment:
        body = await anyio.to_thread.run_sync(_decode_base64, part.data)
        is_small = len(body) <= MAX_BINARY_BYTES
        if facts.supports_pdf and is_small:
            return attachment
        found = await self._pdf_reader.read(body, MAX_TEXT_BYTES)
        if isinstance(found, str):
            problem = f"{attachment.name} cannot be read as a PDF file: {found}"
        elif not _has_words(found.text):
            problem = f"{attachment.name} has no text in its {pluralize(found.pages, 'page')}, which may be pictures"
        else:
            text = strip_hidden_text(found.text)
            note = "; ".join(_describe_reading(found))
            shown = ResourcePart(part.server, part.name, f"{text}[{note}]", "application/pdf")
            return replace(attachment, part=shown, note="; ".join(filter(None, (attachment.note, note))))
        if facts.supports_pdf is None and is_small:
            return attachment  # it is unknown how the provider treats the file
        raise UsageError(f"{problem}.", "Attach its text, or choose a model that takes PDF files: /model.")

    async def _fit_image(self, attachment: Attachment, part: ImagePart) -> Attachment:
        try:
            size = len(part.data) * 3 // 4
            image = identify_image(binascii.a2b_base64(part.data[: HEADER_BYTES // 3 * 4]))
        except (binascii.Error, ValueError):
            return attachment
        width, height = (image.width, image.height) if image else (0, 0)
        too_big = max(width, height) > MAX_IMAGE_SIDE or width * height > MAX_SENT_PIXELS
        if size <= MAX_IMAGE_BYTES and not too_big:
            return attachment
        before = f"{width:,} x {height:,} pixels, {size / 1_000_000:.1f} MB"
        if not is_installed():
            raise UsageError(f"{attachment.name} is larger than providers accept: {before}.", _INSTALL_SCALER)
        scaled = await self._image_scaler.scale(part.data, SCALED_SIDE, MAX_IMAGE_BYTES)
        if isinstance(scaled, str):
            raise UsageError(f"{attachment.name} is too large ({before}), and {scaled}.", "Scale it down.")
        note = f"scaled down to {scaled.width:,} x {scaled.height:,} from {before}"
        small = replace(part, mime_type=scaled.mime_type, data=scaled.data)
        return replace(attachment, part=small, note="; ".join(filter(None, (attachment.note, note))))


def _decode_base64(data: str) -> bytes:
    """Decode base64 in pieces, because decoding 32 MB at once would block all other threads for 50 ms."""
    pieces = (data[start : start + _PIECE_LENGTH] for start in range(0, len(data), _PIECE_LENGTH))
    return b"".join(map(base64.b64decode, pieces))


def _has_words(text: str) -> bool:
    return any(line.strip() and not line.startswith("[Page ") for line in text.splitlines())


def _describe_reading(found: PdfText) -> list[str]:
    """Return phrases that state how much of a PDF file was converted to text, for the attachment's note."""
    out = ["only the text of the PDF file is attached, without its pictures and layout"]
    if found.read < found.pages:
        out.append(f"only the first {found.read:,} of {found.pages:,} pages")
    if found.unread:
        out.append(f"{pluralize(found.unread, 'page')} could not be read")
    return out
