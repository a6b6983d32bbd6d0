"""Local files as parts of a message: text, images, PDF and audio files, and folder listings.

All functions are blocking; call them on a worker thread. Devices, pipes and sockets are never read.
"""

import base64
import codecs
import os
import re
import stat
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import BinaryIO, NamedTuple, cast

from mcphost.errors import UsageError
from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart
from mcphost.llm.model import ModelFacts
from mcphost.pluralize import pluralize
from mcphost.sandbox.image_formats import identify_image
from mcphost.sanitize import is_sanitized, sanitize, sanitize_line
from mcphost.serialization import Struct, replace

MAX_TEXT_BYTES = 256 * 1024
"""Maximum bytes of text that are attached; a longer file is truncated."""
MAX_READ_BYTES = 32 * 1024 * 1024
"""Maximum bytes read from a text file to find a range of lines, and maximum size of an image or PDF file."""
MAX_BINARY_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a file that is attached without being converted."""
MAX_FOLDER_ENTRIES = 500
_CHUNK_BYTES = 32 * 1024
"""Bytes of a text that are decoded and split into lines at once; other threads can run between two chunks."""
_LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The characters at which `str.splitlines` splits; CR LF is one line break."""
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
_PNG_END_BYTES = 64 * 1024
"""The end of a PNG image in which its last chunk is looked for; some programs append data of their own."""
_ACCEPTED_FILES = "Attach text, a PNG, JPEG, GIF or WebP image, a PDF file, or audio if the model takes it."


class FileReference(NamedTuple):
    """A file named by the user, with a range of line numbers starting at 1; 0 and 0 mean the whole file."""

    path: str
    first: int = 0
    last: int = 0


class Attachment(Struct, frozen=True, kw_only=True):
    """A message part made from a file, and a note for the user.

    `note` describes what was omitted or truncated, and the target of a symbolic link that was followed; it is "" if
    there is nothing to report.
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


def find_mentioned(names: Mapping[str, str]) -> dict[str, FileReference]:
    """Return a file reference for each value of *names* that is the relative path of a regular file.

    The keys of the result are those of *names*. A value may end with a line range, such as `:10-20`. A path with `..`
    is ignored, so that only files in the working folder are found; `read_attachment` refuses symbolic links that lead
    out of it.
    """
    found: dict[str, FileReference] = {}
    for key, name in names.items():
        reference = parse_reference(name)
        path = reference.path
        is_inside = path and "\0" not in path and not os.path.isabs(path) and ".." not in path.split("/")
        if is_inside and path[0] != "~" and is_sanitized(path) and path.isprintable() and os.path.isfile(path):
            found[key] = reference
    return found


def read_attachment(reference: FileReference, folder: str, facts: ModelFacts) -> Attachment:
    """Read a file or list a folder; a relative path must not lead out of *folder* through a symbolic link.

    *facts* describe the model, including the kinds of files that it accepts. If these are unknown, images are attached,
    but audio files are refused. A PDF file or an image may have to be converted for the model with an AttachmentFitter.
    Raises UsageError with the reason if the file cannot be attached.
    """
    shown = sanitize_line(_make_relative(reference.path, folder), 500)
    path = _resolve(reference.path, folder, shown)
    try:
        handle = _open(path, os.path.realpath(folder) if _is_confined(reference.path) else "")
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}.", "Check the path.") from error
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            return _note_link(_list_folder(handle, shown), reference.path, folder, path)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{shown} is not a file.", "Attach a regular file or a folder.")
        with open(handle, "rb", closefd=False) as file:
            if reference.first:
                attachment = _read_lines(reference, shown, file, status.st_size)
                return _note_link(attachment, reference.path, folder, path)
            body = _read_bytes(file, MAX_BINARY_BYTES + 1, shown)
            limit = MAX_READ_BYTES if identify_binary(body) else MAX_BINARY_BYTES
            body += file.read(limit + 1 - len(body)) or b""
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}.", "Check the path.") from error
    finally:
        os.close(handle)
    attachment = make_attachment(shown, body[:limit], facts, size=max(status.st_size, len(body)))
    return _note_link(attachment, reference.path, folder, path)


def _note_link(attachment: Attachment, path: str, folder: str, real: str) -> Attachment:
    """Return the attachment, with a note added if the relative path *path* contains a symbolic link.

    The note names *real*, the path with all links resolved, because a project may contain links that the user does
    not know. No note is added if *path* is absolute or contains `..`.
    """
    base = os.path.realpath(folder)
    if not _is_confined(path):
        return attachment
    if os.path.normpath(os.path.join(base, path)) == real:
        return attachment
    target = sanitize_line(os.path.relpath(real, base), 500)
    return replace(attachment, note="; ".join(filter(None, (f"a link to {target}", attachment.note))))


def _make_relative(path: str, folder: str) -> str:
    """Return an absolute path within *folder* relative to it, as the user would type it.

    All other paths are returned unchanged, including a path that leads out of *folder* through a symbolic link.
    """
    base, expanded = f"{os.path.realpath(folder).rstrip('/')}/", os.path.normpath(os.path.expanduser(path))
    is_inside = "\0" not in path and expanded.startswith(base) and os.path.realpath(expanded).startswith(base)
    return expanded.removeprefix(base) if is_inside else path


def _resolve(path: str, folder: str, shown: str) -> str:
    """Return the real path, with all symbolic links resolved.

    Raises UsageError if a relative path leads out of *folder* through a link; *shown* is the path in the error
    message.
    """
    if "\0" in path:
        raise UsageError("A path cannot contain a zero byte.", "Check the path.")
    expanded = os.path.expanduser(path)
    base = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(base, expanded))
    if _is_confined(path) and os.path.commonpath((base, real)) != base:
        target = sanitize_line(real, 500)
        raise UsageError(f"{shown} is a link to {target}, outside of this folder.", "To attach it, use that path.")
    return real


def _is_confined(path: str) -> bool:
    """Return whether a path must not lead out of the working folder, because it is relative and contains no `..`."""
    expanded = os.path.expanduser(path)
    return not os.path.isabs(expanded) and ".." not in expanded.split("/")


def _open(real: str, base: str) -> int:
    """Open the file or folder *real*, and return its descriptor. Raises OSError.

    *real* and *base* are paths with all links resolved. If *base* is not "", the folders between *base* and *real* are
    opened one after the other without following links, because one of them may have been replaced with a link since the
    path was checked.
    """
    # Not blocking, because opening a pipe would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    if not base:
        return os.open(real, flags)
    enter = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    *folders, name = os.path.relpath(real, base).split("/")
    at = os.open(base, enter)
    try:
        for folder in folders:
            outer, at = at, os.open(folder, enter, dir_fd=at)
            os.close(outer)
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


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
    note = f"only the first {MAX_FOLDER_ENTRIES} entries are listed" if is_cut else ""
    return Attachment(name=shown, part=ResourcePart("", shown, text, "inode/directory"), note=note)


def make_attachment(name: str, body: bytes, facts: ModelFacts, *, size: int = 0) -> Attachment:
    """Return an attachment with the content of a file; *size* is the size of the whole file if *body* is truncated.

    Raises UsageError if the file is too large, or is neither text nor a kind that the model accepts.
    """
    if binary := identify_binary(body):
        most = MAX_BINARY_BYTES if binary.startswith("audio/") else MAX_READ_BYTES
        if size > most:
            limit = most // 1024**2
            raise UsageError(
                f"{name} is {size / 1024**2:.1f} MB; at most {limit} MB can be attached.", "Attach a smaller file."
            )
        note = "the image is probably damaged, and the model may refuse it" if _is_damaged(binary, body) else ""
        return Attachment(name=name, part=make_binary_part(name, binary, body, facts), note=note)
    return _read_text(name, body, size or len(body))


def identify_binary(body: bytes) -> str:
    """Return the MIME type of an image, PDF or audio file from its first bytes, or "" for any other file."""
    if (image := identify_image(body)) is not None:
        return image.mime_type
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return "application/pdf"
    found = next((kind for start, kind in _AUDIO_STARTS if body.startswith(start)), "")
    return found if found != "audio/wav" or body[8:12] == b"WAVE" else ""


def _is_damaged(mime_type: str, body: bytes) -> bool:
    """Return whether an image has a width or height of 0, or is a PNG file that is cut off before its last chunk."""
    image = identify_image(body)
    if image is None:
        return False
    return not image.width * image.height or (mime_type == "image/png" and b"IEND" not in body[-_PNG_END_BYTES:])


def make_binary_part(name: str, mime_type: str, body: bytes, facts: ModelFacts, server: str = "") -> Part:
    """Return an image, PDF or audio file as a message part.

    Raises UsageError for an image if it is invalid or the model is known to reject images, and for an audio file
    unless the model is known to accept audio. A PDF file or an image may still have to be converted with an
    AttachmentFitter.
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


def _read_bytes(file: BinaryIO, count: int, shown: str) -> bytes:
    """Read at most *count* bytes. Raises UsageError if reading would wait for data, as from /proc/kmsg.

    *shown* is the path in the error message.
    """
    body = cast("bytes | None", file.read(count))
    if body is None:
        raise UsageError(f"{shown} is not a file.", "Attach a regular file or a folder.")
    return body


def _read_text(name: str, body: bytes, size: int) -> Attachment:
    kept = _TextHead()
    for text in _decode_in_chunks(name, BytesIO(body), len(body), is_cut=size > len(body)):
        kept.add(text)
    return _make_text_part(name, kept, size, is_cut=size > len(body))


def _read_lines(reference: FileReference, name: str, file: BinaryIO, size: int) -> Attachment:
    """Return a range of lines as an attachment; *size* is the size of the file in bytes.

    Lines are split as by `str.splitlines`. Only the text in the range is kept, and no more than can be attached.
    The rest of the file is read only as far as needed to find the lines and to recognize a binary file.
    """
    first, last = reference.first, max(reference.last, reference.first)
    kept = _TextHead()
    number = 1  # of the line that the next character belongs to
    is_open = False  # whether this line has characters already
    for text in _decode_in_chunks(name, file, MAX_READ_BYTES, is_cut=size > MAX_READ_BYTES):
        breaks = _count_line_breaks(text)
        if number <= last and number + breaks >= first:
            for line in text.splitlines(keepends=True)[max(0, first - number) : last + 1 - number]:
                kept.add(line)
        is_open = _count_line_breaks(text[-1:]) == 0 if text else is_open
        number += breaks
        if number > last and file.tell() >= MAX_TEXT_BYTES:
            break
    count = number if is_open else number - 1
    if first > count:
        raise UsageError(f"{name} has only {pluralize(count, 'line')}.", "Choose lines within the file.")
    return _make_text_part(f"{name}:{first}-{min(last, count)}", kept, max(size, file.tell()))


class _TextHead:
    """The beginning of a text that is being read, up to slightly more than the maximum size of an attachment.

    The text must be truncated if `encode` returns more than this maximum.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, text: str) -> None:
        """Append *text*, unless the text collected so far has reached the limit."""
        if text and self._length <= MAX_TEXT_BYTES:
            self._pieces.append(text)
            self._length += len(text)

    def encode(self) -> bytes:
        """Return the text in UTF-8; it has more than MAX_TEXT_BYTES bytes if it must be truncated."""
        return "".join(self._pieces).encode()


def _make_text_part(name: str, head: _TextHead, size: int, *, is_cut: bool = False) -> Attachment:
    body, note = head.encode(), ""
    text = body[:MAX_TEXT_BYTES].decode(errors="ignore")
    if is_cut or len(body) > MAX_TEXT_BYTES:
        text = text[: text.rfind("\n") + 1] or text
        lines, kept = len(text.splitlines()), MAX_TEXT_BYTES // 1024
        note = f"only the first {lines:,} lines are attached, {kept} KB of {size / 1024:,.0f} KB"
        text += f"{'' if text.endswith(chr(10)) else chr(10)}[Cut off here: {note}.]"
    return Attachment(name=name, part=ResourcePart("", name, text, "text/plain"), note=note)


def _count_line_breaks(text: str) -> int:
    """Count the line breaks that `str.splitlines` recognizes, without creating an object for each line."""
    return sum(map(text.count, _LINE_BREAKS)) - text.count("\r\n")


def _decode_in_chunks(name: str, file: BinaryIO, limit: int, *, is_cut: bool) -> Iterator[str]:
    """Yield the text of the next *limit* bytes in short pieces.

    A CR LF pair is never split between two pieces. Decodes UTF-8, or UTF-16 or UTF-32 with a byte order mark.
    *is_cut* means that the file continues after these bytes, so the last character may be incomplete. Raises
    UsageError if the file is not text.
    """
    start = chunk = _read_bytes(file, min(_CHUNK_BYTES, limit), name)
    encoding = next((found for bom, found in _BOMS if start.startswith(bom)), "utf-8-sig")
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    pending = ""
    count, length = len(chunk), 0
    while True:
        try:
            text = pending + decoder.decode(chunk, final=not chunk and not is_cut)
        except UnicodeDecodeError as error:
            raise _binary_error(name, start) from error
        pending = "\r" if chunk and text.endswith("\r") else ""
        text = text.removesuffix(pending)
        if "\0" in text[: max(0, MAX_TEXT_BYTES - length)]:
            raise _binary_error(name, start)
        length += len(text)
        yield text
        if not chunk:
            return
        chunk = file.read(min(_CHUNK_BYTES, limit - count))
        count += len(chunk)


def _binary_error(name: str, body: bytes) -> UsageError:
    kind = next((what for start, what in _OTHER_STARTS if body.startswith(start)), "")
    if kind:
        return UsageError(f"{name} is {kind}, which no model can read.", _ACCEPTED_FILES)
    if 0 in body:
        return UsageError(f"{name} is a binary file, which no model can read.", _ACCEPTED_FILES)
    return UsageError(f"{name} is neither UTF-8 nor UTF-16 text.", "Convert it to UTF-8, for example with iconv.")
