"""Log of one server, limited in size and in lines per second, with secrets redacted."""

import asyncio
import logging
import re
import time
from collections import deque
from contextlib import suppress
from hashlib import blake2b
from typing import Literal

from mcphost.errors import STDERR_TAIL_LINES, MalformedMessage, describe_stderr_tail
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ServerLog
from mcphost.protocol.notifications import LEVELS, LoggingMessageNotification, severity
from mcphost.redact import PrivateKeyFilter, redact, redact_registered
from mcphost.serialization import Raw, decode

_log = logging.getLogger(__name__)
MAX_LINES = 1_000
MAX_CHARS = 2_000
MAX_TOTAL_CHARS = 1_000_000
"""Maximum characters of all stored lines together."""
REPEAT_SECONDS = 600
MAX_LINES_PER_SECOND = 300
"""Maximum lines stored per second, besides MAX_NEWEST; the rest are only counted. A screen cannot show more."""
MAX_CHARS_PER_SECOND = 100_000
"""Maximum characters stored per second. Redacting them takes about 0.1 s, in which the screen does not react."""
MAX_NEWEST = 20
"""Number of lines that are stored beyond these limits: the last ones of each second, which may contain an error."""
_MAX_EARLY_STORES = 5
"""Number of mcphost's own lines in one second before which the last lines of the server are stored."""
HOLD_SECONDS = 1.0
"""Time after which the last lines of a flood are stored although no line follows."""
FILE_LINES = 40
FILE_LINE_LENGTH = 400
FILE_SIZE = 7_000
"""Maximum characters of a failed server's stderr in the log file; the two limits above count lines and line length."""
Source = Literal["server", "client", "stderr"]
_LONGEST_SECRET = 1_000
"""Characters beyond the limit that are redacted, too, so that a secret is not cut before it is recognized."""
_URL = re.compile(r"(https?://[^\s\"'<>]{1,4000})")
_QUERY_PARAMETER = re.compile(r"([?&#][^=&#]{1,100}=)")
_MAX_ADDRESSES = 2
_MAX_PARAMETERS = 16
_SIGN_IN_PARAMETERS = frozenset({"client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge"})
"""Parameters of a sign-in's address that may look like secrets (RFC 6749, RFC 7636, OpenID Connect Core 1.0)."""


class ServerLogBuffer:
    """The newest log lines of one server, oldest first; each line is published as an event when added."""

    def __init__(self, server: str, events: EventBus) -> None:
        self.level = ""
        """The requested level, one of LEVELS; messages below it are dropped. "" accepts all messages."""

        self._server = server
        self._events = events
        self._lines: deque[ServerLog] = deque(maxlen=MAX_LINES)
        self._second_started_at = 0.0
        self._count_in_second = 0
        self._chars_in_second = 0
        self._dropped_in_second = 0
        self._newest: deque[ServerLog] = deque()
        """The last lines of the current second beyond the limits; they are not redacted yet."""

        self._early_stores = 0
        self._hold_timer: asyncio.TimerHandle | None = None
        self._received = 0
        self._size = 0
        self._last_added: dict[bytes, float] = {}
        self._stderr_tail: deque[str] = deque(maxlen=STDERR_TAIL_LINES)
        self._key_filters = {"server": PrivateKeyFilter(), "stderr": PrivateKeyFilter()}

    def copy(self) -> "ServerLogBuffer":
        """Return a buffer with the same lines for another connection; later lines are not shared."""
        self._store_newest()
        copy = ServerLogBuffer(self._server, self._events)
        copy._lines.extend(self._lines)
        copy._received, copy._size = self._received, self._size
        copy._last_added.update(self._last_added)
        return copy

    @property
    def dropped(self) -> int:
        """The number of received lines that were never stored or are no longer stored."""
        return self._received - len(self._lines)

    def lines(self) -> tuple[ServerLog, ...]:
        """Return the stored lines, oldest first."""
        if time.monotonic() - self._second_started_at >= 1:
            self._store_newest()
        return tuple(self._lines)

    def add_message(self, message: LoggingMessageNotification, call: str = "") -> None:
        """Add a log message sent by the server; *call* is the id of the tool call it belongs to, "" for none."""
        level = message.level if message.level in LEVELS else "info"
        if not self.level or severity(level) >= severity(self.level):
            text = self._key_filters["server"].apply(_to_text(message.data))
            self.add(level, text, logger=(message.logger or "")[:100], call=call)

    def add_stderr(self, line: str) -> None:
        """Add a line that a local server wrote to stderr."""
        line = self._key_filters["stderr"].apply(line)
        self.add("info", line, "stderr")
        if line.strip():
            self._stderr_tail.append(line)

    def begin_attempt(self) -> None:
        """Begin a connection attempt: `describe_stderr` returns only stderr lines from now on; the log keeps all."""
        self._store_newest()
        self._stderr_tail.clear()
        self._key_filters = {"server": PrivateKeyFilter(), "stderr": PrivateKeyFilter()}

    def end_attempt(self) -> None:
        """Store the lines that are still held back, because the connection has ended; see `add`."""
        self._store_newest()

    def describe_stderr(self) -> str:
        """Return the last stderr lines of the current process, ready to be appended to an error message.

        Return "" if there are none.
        """
        return describe_stderr_tail(self._stderr_tail)

    def write_stderr_to_file(self) -> None:
        """Write the server's last stderr lines to mcphost's log file, so that they are kept after exit."""
        self._store_newest()
        lines = [line.text[:FILE_LINE_LENGTH] for line in self._lines if line.source == "stderr"][-FILE_LINES:]
        if lines:
            _log.error("the server %r failed; its error output:\n%s", self._server, "\n".join(lines)[-FILE_SIZE:])

    def warn_once(self, text: str) -> None:
        """Add a warning from mcphost, unless the same text was added in the last ten minutes.

        A warning that recurs with every reconnect is therefore not repeated each time.
        """
        now = time.monotonic()
        # A digest, because text from a server may be very long.
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        if now - self._last_added.get(digest, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return
        if len(self._last_added) >= MAX_LINES:
            self._last_added.clear()
        self._last_added[digest] = now
        self.add("warning", text, "client")

    def add(self, level: str, text: str, source: Source = "server", *, logger: str = "", call: str = "") -> None:
        """Add a line; never block and never raise.

        If a server writes too many lines in one second, only the first ones and the last MAX_NEWEST are stored. The
        last ones are held back, and stored with a short delay. See `ServerLog` for *source*, *logger* and *call*.
        """
        now = time.monotonic()
        if now - self._second_started_at >= 1:
            self._second_started_at, self._count_in_second, self._chars_in_second = now, 0, 0
            self._early_stores = 0
            self._store_newest()
        self._count_in_second += 1
        self._received += 1
        text = text[: MAX_CHARS + _LONGEST_SECRET]
        # mcphost's own lines are always stored, because there are few and they report problems.
        if source == "client":
            if self._early_stores < _MAX_EARLY_STORES:
                self._early_stores += 1
                self._store_newest()
        else:
            self._chars_in_second += len(text)
            if self._count_in_second > MAX_LINES_PER_SECOND or self._chars_in_second > MAX_CHARS_PER_SECOND:
                if len(self._newest) == MAX_NEWEST:
                    self._newest.popleft()
                    self._dropped_in_second += 1
                self._newest.append(ServerLog(self._server, level, text, source, logger, call))
                self._start_hold_timer()
                return
        self._append(ServerLog(self._server, level, text, source, logger, call))

    def _start_hold_timer(self) -> None:
        if self._hold_timer is None:
            with suppress(RuntimeError):  # without an event loop, nobody waits for the lines
                self._hold_timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._store_newest)

    def _store_newest(self) -> None:
        """Store the lines that `add` held back, preceded by a line that states how many others were dropped."""
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        count, newest = self._dropped_in_second, tuple(self._newest)
        self._dropped_in_second = 0
        self._newest.clear()
        if count:
            self._received += 1
            self._append(ServerLog(self._server, "warning", f"{count:,} more log lines were dropped.", "client"))
        for line in newest:
            self._append(line)

    def _append(self, line: ServerLog) -> None:
        text = _redact_line(line.text)[:MAX_CHARS]
        line = ServerLog(line.server, line.level, text, line.source, redact(line.logger), line.call)
        if len(self._lines) == MAX_LINES:
            self._size -= len(self._lines[0].text)
        self._lines.append(line)
        self._size += len(line.text)
        while self._size > MAX_TOTAL_CHARS:
            self._size -= len(self._lines.popleft().text)
        if line.source == "stderr":
            _log.debug("stderr of the server %r: %s", self._server, text)
        self._events.publish(line)


def _redact_line(text: str) -> str:
    """Return a line of a server's output with secrets replaced.

    Some servers print a sign-in URL that the user must open. Its parameters are not secret (RFC 6749, section 4.1.1),
    so they are kept, unless they contain a secret that mcphost knows.
    """
    if "response_type=" not in text:
        return redact(text)
    parts = _URL.split(text, maxsplit=_MAX_ADDRESSES)
    return "".join(
        _redact_address(part) if number % 2 and "response_type=" in part else redact(part)
        for number, part in enumerate(parts)
    )


def _redact_address(url: str) -> str:
    # The last part has all further parameters: redacting each of many in turn would take long.
    address, *parameters = _QUERY_PARAMETER.split(url, maxsplit=_MAX_PARAMETERS)
    parts = [redact(address)]
    for start, value in zip(parameters[::2], parameters[1::2], strict=True):
        is_own = start[1:-1] in _SIGN_IN_PARAMETERS and not _QUERY_PARAMETER.search(value)
        hide = redact_registered if is_own else redact
        parts.append(hide(f"{start}{value}"))
    return "".join(parts)


def _to_text(data: Raw) -> str:
    """Return the text of a JSON string; for other values and very long strings, the truncated JSON."""
    raw = bytes(data)
    if raw.startswith(b'"') and len(raw) <= 1_000_000:
        try:
            return decode(raw, str)
        except MalformedMessage:
            pass
    return raw[: 4 * MAX_CHARS].decode("utf-8", "replace")
