"""Worker process that extracts the text of PDF files; the only module that imports pypdf.

Run as `python -m mcphost.sandbox.pdf_worker`. A request is a line with two numbers (the size of the file and
the maximum size of its text, in bytes), followed by the file; a response is one line of JSON. Before the
process reads the first file, it prevents itself from opening files and sockets. After SOFT_SECONDS, no further
pages are read. The parent process kills the worker if it takes too long. If the parent process has exited, an
alarm signal ends the worker.
"""

import codecs
import io
import json
import logging
import pkgutil
import signal
import sys
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import Any

from mcphost.sandbox.process_limits import apply_worker_limits, forbid_opening_files

ALARM_SECONDS = 12
"""Seconds after which the kernel ends this process if it is still busy with one file."""
SOFT_SECONDS = 6.0
"""Seconds after which no further page is read."""
MAX_PAGES = 1_000
MAX_MEMORY = 1024**3
_ENCODINGS = (
    "ascii", "latin_1", "cp1252", "mac_roman", "utf_8", "utf_16", "utf_16_be", "utf_16_le", "utf_32", "charmap", "gbk",
    "gb18030", "gb2312", "big5", "big5hkscs", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949",
)  # fmt: skip
"""Encodings of text in PDF files, loaded early because nothing can be imported after `forbid_opening_files`."""


def main() -> None:
    """Handle requests from standard input until the end of the input."""
    apply_worker_limits(MAX_MEMORY)
    import pypdf

    _preload(pypdf)
    out, source = sys.stdout.buffer, sys.stdin.buffer
    out.write(b"{}\n")
    out.flush()
    forbid_opening_files()
    while head := source.readline(64):
        size, limit = map(int, head.split())
        body = source.read(size)
        signal.alarm(ALARM_SECONDS)
        answer = _extract_text(pypdf, body, limit)
        signal.alarm(0)
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()


def _preload(library: Any) -> None:
    logging.disable(logging.CRITICAL)  # the library logs each defect of a file
    for found in pkgutil.walk_packages(library.__path__, f"{library.__name__}."):
        with suppress(ImportError):
            import_module(found.name)
    for encoding in _ENCODINGS:
        codecs.lookup(encoding)


def _extract_text(library: Any, body: bytes, limit: int) -> dict[str, Any]:
    try:
        reader = library.PdfReader(io.BytesIO(body), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return {"why": "it is protected with a password"}
        pages = len(reader.pages)
        pieces, read, unread = _read_pages(reader, pages, limit)
    except MemoryError:
        return {"why": "reading it takes too much memory"}
    except RecursionError:
        return {"why": "it is nested too deeply"}
    except Exception:  # noqa: BLE001 - a damaged file can raise almost any error inside the library
        return {"why": "it is damaged"}
    return {"text": "".join(pieces), "pages": pages, "read": read, "unread": unread}


def _read_pages(reader: Any, count: int, limit: int) -> tuple[list[str], int, int]:
    """Return the text of each page, the number of the last page read, and the number of unreadable pages.

    Each page's text begins with a heading such as "[Page 1]". *limit* is the maximum total size in bytes.
    """
    deadline = monotonic() + SOFT_SECONDS
    pieces: list[str] = []
    size = unread = 0
    for number in range(min(count, MAX_PAGES)):
        try:
            text = str(reader.pages[number].extract_text())
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - the other pages may be readable
            text, unread = "", unread + 1
        piece = f"[Page {number + 1}]\n{text.strip()}\n\n"
        data = piece.encode("utf-8", "replace")
        size += len(data)
        if size > limit:
            if not pieces:
                pieces.append(data[:limit].decode("utf-8", "ignore"))
            return pieces, max(1, number), unread
        pieces.append(piece.encode("utf-8", "replace").decode("utf-8"))
        if monotonic() > deadline:
            return pieces, number + 1, unread
    return pieces, min(count, MAX_PAGES), unread


if __name__ == "__main__":
    main()
