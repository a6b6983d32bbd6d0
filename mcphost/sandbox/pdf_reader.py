"""Text extraction from untrusted PDF files in a worker process, with limits on size and time."""

from mcphost.errors import MalformedMessage
from mcphost.sandbox.process import SandboxProcess
from mcphost.serialization import Struct, decode

READ_TIMEOUT = 10.0
"""Maximum seconds for one file; less than the twelve seconds after which the worker ends itself."""
PDF_QUEUE_TIMEOUT = 40.0
MAX_PDF_BYTES = 32 * 1024 * 1024
_MAX_RESPONSE_SIZE = 4 * 1024 * 1024


class PdfText(Struct, frozen=True):
    """Text of a PDF file.

    - `pages`: the number of pages in the file.
    - `read`: the number of the last page that was read.
    - `unread`: the number of unreadable pages.
    - `why`: the reason why the file could not be read, or "" if it was read.
    """

    text: str = ""
    pages: int = 0
    read: int = 0
    unread: int = 0
    why: str = ""


class PdfReader(SandboxProcess):
    """PDF reader that runs in its own worker process and reads one file at a time."""

    def __init__(self, timeout: float = READ_TIMEOUT) -> None:
        super().__init__(
            "mcphost.sandbox.pdf_worker",
            timeout=timeout,
            max_response_size=_MAX_RESPONSE_SIZE,
            queue_timeout=PDF_QUEUE_TIMEOUT,
        )

    async def read(self, body: bytes, max_bytes: int) -> PdfText | str:
        """Return the text of a PDF file, at most *max_bytes* of UTF-8, or an error message such as "it is damaged".

        Never raises an error; safe to cancel.
        """
        if len(body) > MAX_PDF_BYTES:
            return f"it is over {MAX_PDF_BYTES // 1024**2} MB"
        line = await self.request(b"%d %d\n" % (len(body), max_bytes) + body)
        if isinstance(line, str):
            return {
                "busy": "too many files are waiting",
                "slow": f"reading it took over {self._timeout:g} s",
                "ended": "it crashed the reader",
                "silent": "the reader did not respond",
            }[line]
        try:
            answer = decode(line, PdfText, "answer of the PDF reader")
        except MalformedMessage:
            await self.close()  # a worker with an invalid response cannot be trusted
            return "the reader did not respond"
        if answer.why:
            return answer.why[:200]
        return answer
