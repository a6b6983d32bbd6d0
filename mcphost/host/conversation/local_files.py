"""Local files as parts of a message: text, images, PDF and audio files, and folder listings.

The functions block, so call them on a worker thread. Devices, pipes and sockets are never read.
"""

import base64
import codecs
import os
import re
import stat
from typing import NamedTuple, cast

from mcphost.errors import UsageError
from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart
from mcphost.llm.model import ModelFacts
from mcphost.pluralize import pluralize
from mcphost.sandbox.image_formats import identify_image
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, replace

MAX_TEXT_BYTES = 256 * 1024
"""Maximum bytes of text that are attached; a longer file is truncated."""
MAX_READ_BYTES = 32 * 1024 * 1024
"""Bytes of a text file that are read to find a range of lines, and the maximum of an image or PDF file."""
MAX_BINARY_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a file that is sent as it is."""
MAX_FOLDER_ENTRIES = 500
_LINE_RANGE = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?")
_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
         (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_AUDIO_STARTS = ((b"RIFF", "audio/wav"), (b"ID3", "audio/mp3"), (b"\xff\xfb", "audio/mp3"), (b"\xff\xf3", "audio/mp3"))
_OTHER_STARTS = (
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"SQLite format 3", "an SQLite database"),
)


class FileReference(NamedTuple):
    """A file named by the user, with a range of line numbers starting at 1; 0 and 0 mean the whole file."""

    path: str
    first: int = 0
    last: int = 0


class Attachment(Struct, frozen=True, kw_only=True):
    """Message parts made from a file reference; `note` is "" unless there is something that the user should know.

    The note says what was omitted or truncated, and where a link led.
    """

    name: str
    part: Part
    note: str = ""


def parse_reference(text: str) -> FileReference:
    """Parse `PATH`, `PATH:LINE` or `PATH:FIRST-LAST`.

    If a file with exactly this name exists, including the colon and numbers, the reference is to the whole file.
    """
    match = _LINE_RANGE.fullmatch(text)
    if match is None or os.path.lexists(os.path.expanduser(text)):
        return FileReference(text)
    first = int(match[2])
    return FileReference(match[1], first, int(match[3] or first))


def read_attachment(reference: FileReference, folder: str, facts: ModelFacts) -> Attachment:
    """Read a file or list a folder; a relative path must not lead out of *folder* through a symbolic link.

    *facts* describe the model, including the kinds of files that it accepts. If these are unknown, images are attached,
    but audio files are refused. A PDF file or an image may have to be converted for the model with an AttachmentFitter.
    Raises UsageError with the reason if the file cannot be attached.
    """
    shown = sanitize(reference.path[:500], keep_newlines=False)
    path = _resolve(reference.path, folder, shown)
    try:
        # Not blocking, because opening a pipe would wait for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}.", "Check the path.") from error
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            return _note_link(_list_folder(handle, shown), reference.path, folder, path)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{shown} is not a file.", "Attach a regular file or a folder.")
        with open(handle, "rb", closefd=False) as file:
            body = cast("bytes | None", file.read(MAX_BINARY_BYTES + 1))
            if body is None:  # such as /proc/kmsg, where reading would wait for data
                raise UsageError(f"{shown} is not a file.", "Attach a regular file or a folder.")
            limit = MAX_READ_BYTES if reference.first or identify_binary(body) else MAX_BINARY_BYTES
            body += file.read(limit + 1 - len(body)) or b""
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}.", "Check the path.") from error
    finally:
        os.close(handle)
    attachment = make_attachment(reference, shown, body[:limit], facts, size=max(status.st_size, len(body)))
    return _note_link(attachment, reference.path, folder, path)


def _note_link(attachment: Attachment, path: str, folder: str, real: str) -> Attachment:
    """Add a note if a relative path led to another file through a link, which a project may have placed."""
    base = os.path.realpath(folder)
    if os.path.isabs(os.path.expanduser(path)) or ".." in path.split("/"):
        return attachment
    if os.path.normpath(os.path.join(base, path)) == real:
        return attachment
    target = sanitize(os.path.relpath(real, base)[:500], keep_newlines=False)
    return replace(attachment, note="; ".join(filter(None, (f"a link to {target}", attachment.note))))


def _resolve(path: str, folder: str, shown: str) -> str:
    """Return the real path, with all symbolic links resolved.

    Raises UsageError if a relative path leads out of *folder* through a link.
    """
    if "\0" in path:
        raise UsageError("A path cannot contain a zero byte.", "Check the path.")
    expanded = os.path.expanduser(path)
    base = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(base, expanded))
    is_relative = not os.path.isabs(expanded) and ".." not in expanded.split("/")
    if is_relative and os.path.commonpath((base, real)) != base:
        target = sanitize(real[:500], keep_newlines=False)
        raise UsageError(f"{shown} is a link to {target}, outside of this folder.", "To attach it, use that path.")
    return real


def _list_folder(handle: int, shown: str) -> Attachment:
    names: list[str] = []
    with os.scandir(handle) as entries:
        for entry in entries:
            if len(names) >= MAX_FOLDER_ENTRIES:
                break
            names.append(f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name)
        is_cut = len(names) >= MAX_FOLDER_ENTRIES
    # A name can contain line breaks, which would look like other names or like text from mcphost.
    text = "\n".join(sanitize(name, keep_newlines=False) for name in sorted(names)) or "(empty)"
    note = f"the first {MAX_FOLDER_ENTRIES} entries" if is_cut else ""
    return Attachment(name=shown, part=ResourcePart("", shown, text, "inode/directory"), note=note)


def make_attachment(
    reference: FileReference, name: str, body: bytes, facts: ModelFacts, *, size: int = 0
) -> Attachment:
    """Return an attachment with the content of a file; *size* is the size of the whole file if *body* is truncated.

    Raises UsageError if the file is too large, or is neither text nor a kind that the model accepts.
    """
    if (binary := identify_binary(body)) and not reference.first:
        most = MAX_BINARY_BYTES if binary.startswith("audio/") else MAX_READ_BYTES
        if size > most:
            limit = most // 1024**2
            raise UsageError(f"{name} is {size / 1024**2:.1f} MB; at most {limit} MB can be attached.", "Attach less.")
        return Attachment(name=name, part=make_binary_part(name, binary, body, facts))
    return _read_text(reference, name, body, size or len(body))


def identify_binary(body: bytes) -> str:
    """Return the MIME type of an image, PDF or audio file from its first bytes, or "" for any other file."""
    if (image := identify_image(body)) is not None:
        return image.mime_type
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return "application/pdf"
    found = next((kind for start, kind in _AUDIO_STARTS if body.startswith(start)), "")
    return found if found != "audio/wav" or body[8:12] == b"WAVE" else ""


def make_binary_part(name: str, mime_type: str, body: bytes, facts: ModelFacts, server: str = "") -> Part:
    """Return an image, PDF or audio file as a message part.

    Raises UsageError if the model is known to reject images or not known to accept audio, or if an image is invalid. A
    PDF file or an image may still have to be converted with an AttachmentFitter.
    """
    data = base64.b64encode(body).decode()
    if mime_type.startswith("image/"):
        if facts.supports_images is False:
            raise UsageError(
                f"{name} is an image, which this model does not accept.", "Choose a model with vision: /model."
            )
        image = identify_image(body)
        if image is None or image.mime_type != mime_type:
            raise UsageError(f"{name} is not a PNG, JPEG, GIF or WebP image.", "Convert it to one of them.")
        return ImagePart(mime_type, data, name=name, server=server)
    if mime_type != "application/pdf" and facts.supports_audio is not True:
        raise UsageError(f"{name} is an audio file, which this model does not accept.", "Choose another model: /model.")
    return FilePart(name, mime_type, data, server)


def _read_text(reference: FileReference, name: str, body: bytes, size: int) -> Attachment:
    text, is_cut = _decode(name, body, size > len(body))
    where, note = name, ""
    if reference.first:
        lines = text.splitlines(keepends=True)
        last = min(max(reference.last, reference.first), len(lines))
        if reference.first > len(lines):
            raise UsageError(f"{name} has {pluralize(len(lines), 'line')}.", "Choose lines within the file.")
        text, is_cut = "".join(lines[reference.first - 1 : last]), False
        where = f"{name}:{reference.first}-{last}"
    if len(text.encode()) > MAX_TEXT_BYTES:
        text, is_cut = text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore"), True
    if is_cut:
        text = text[: text.rfind("\n") + 1] or text
        note = f"the first {len(text.splitlines()):,} lines, {MAX_TEXT_BYTES // 1024} KB of {size / 1024:,.0f} KB"
        text += f"{'' if text.endswith(chr(10)) else chr(10)}[Cut off here: these are {note}.]"
    return Attachment(name=where, part=ResourcePart("", where, text, "text/plain"), note=note)


def _decode(name: str, body: bytes, is_cut: bool) -> tuple[str, bool]:
    """Decode UTF-8, or UTF-16 or UTF-32 with a byte order mark; return the text and whether it was truncated."""
    encoding = next((found for bom, found in _BOMS if body.startswith(bom)), "utf-8-sig")
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    try:
        text = decoder.decode(body, final=not is_cut)
    except UnicodeDecodeError as error:
        raise _binary_error(name, body) from error
    if "\0" in text[:MAX_TEXT_BYTES]:
        raise _binary_error(name, body)
    return text, is_cut


def _binary_error(name: str, body: bytes) -> UsageError:
    kind = next((what for start, what in _OTHER_STARTS if body.startswith(start)), "")
    if kind:
        return UsageError(f"{name} is {kind}, which no model can read.", "Attach a text, image or PDF file.")
    return UsageError(f"{name} is neither UTF-8 nor UTF-16 text.", "Convert it to UTF-8, for example with iconv.")
