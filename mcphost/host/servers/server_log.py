"""What one server logs, bounded: a ring of lines, a limit to how many a second are told, secrets taken out."""

import time
from collections import deque
from hashlib import blake2b
from typing import Literal

from mcphost.errors import MalformedMessage
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ServerLog
from mcphost.protocol.logging import LEVELS, severity
from mcphost.protocol.notifications import LogMessage
from mcphost.redact import without_known
from mcphost.serialization import Raw, decode

MAX_LINES = 1_000
MAX_CHARS = 2_000
MAX_SIZE = 1_000_000
"""Characters of all lines together."""
REPEAT_SECONDS = 600
LINES_A_SECOND = 300
"""More than a person or the screen can follow; what is beyond is counted, not kept."""
Source = Literal["server", "client", "stderr"]


class Log:
    """The newest lines, oldest first, and the feeds that hear of each."""

    def __init__(self, server: str, feeds: Feeds) -> None:
        self.level = ""
        """What was asked for, one of LEVELS; a server that says more than that is not heard. Empty: everything."""

        self._server = server
        self._feeds = feeds
        self._lines: deque[ServerLog] = deque(maxlen=MAX_LINES)
        self._second = 0.0
        self._count = 0
        self._left_out = 0
        self._came = 0
        self._size = 0
        self._said: dict[bytes, float] = {}

    @property
    def left_out(self) -> int:
        """How many lines came and are not kept."""
        return self._came - len(self._lines)

    def lines(self) -> tuple[ServerLog, ...]:
        """What is kept."""
        return tuple(self._lines)

    def message(self, message: LogMessage, call: str = "") -> None:
        """A log message of the server; `call` when it belongs to a call of ours."""
        level = message.level if message.level in LEVELS else "info"
        if not self.level or severity(level) >= severity(self.level):
            self.add(level, _text(message.data), logger=(message.logger or "")[:100], call=call)

    def once(self, level: str, text: str, source: Source) -> None:
        """One line, unless the same words came within ten minutes: a connection is made again and again."""
        now = time.monotonic()
        # A digest: the words may be a server's, and as long as one of its messages.
        words = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        if now - self._said.get(words, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return
        if len(self._said) >= MAX_LINES:
            self._said.clear()
        self._said[words] = now
        self.add(level, text, source)

    def add(self, level: str, text: str, source: Source = "server", *, logger: str = "", call: str = "") -> None:
        """One line; returns at once and never raises."""
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._count = now, 0
            if self._left_out:
                count, self._left_out = self._left_out, 0
                self._came += 1
                self._keep(
                    ServerLog(self._server, "warning", f"{count:,} more lines came and were left out.", "client")
                )
        self._count += 1
        self._came += 1
        # Our own words are few, and say what is wrong.
        if self._count > LINES_A_SECOND and source != "client":
            self._left_out += 1
            return
        self._keep(ServerLog(self._server, level, text[:MAX_CHARS], source, logger, call))

    def _keep(self, line: ServerLog) -> None:
        line = ServerLog(line.server, line.level, without_known(line.text), line.source, line.logger, line.call)
        if len(self._lines) == MAX_LINES:
            self._size -= len(self._lines[0].text)
        self._lines.append(line)
        self._size += len(line.text)
        while self._size > MAX_SIZE:
            self._size -= len(self._lines.popleft().text)
        self._feeds.put(line)


def _text(data: Raw) -> str:
    """Text as it is; anything else as JSON, cut."""
    raw = bytes(data)
    if raw.startswith(b'"') and len(raw) <= 1_000_000:
        try:
            return decode(raw, str)
        except MalformedMessage:
            pass
    return raw[: 4 * MAX_CHARS].decode("utf-8", "replace")
