"""Log of the messages and HTTP exchanges with one server, for developers of servers."""

import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from mcphost.errors import MalformedMessage
from mcphost.header_mask import NO_MASK, HeaderMask
from mcphost.http_log import LONGEST_SECRET, MAX_BODY_BYTES, LoggedExchange, LoggedOAuthRequest
from mcphost.redact import redact
from mcphost.secret_members import redact_values
from mcphost.serialization import dumps, loads

MAX_MESSAGES = 500
MAX_MESSAGE_BYTES = MAX_BODY_BYTES
MAX_TOTAL_BYTES = 4 * 1024 * 1024
"""Maximum bytes of all logged messages together."""
MAX_EXCHANGES = 500
MAX_EXCHANGE_BYTES = 4 * 1024 * 1024
"""Maximum bytes of all logged HTTP exchanges together, including the logged request bodies."""

_JSON_ESCAPE = re.compile(r"\\(?:/|u(?![dD][89a-fA-F])([0-9a-fA-F]{4}))")

Direction = Literal["sent", "received"]


class LoggedMessage(NamedTuple):
    """A message as it was sent or received.

    - `number`: the number of the log entry.
    - `at`: the time in seconds since 1970.
    - `data`: the message; only its beginning if it is longer than MAX_MESSAGE_BYTES.
    - `size`: the size of the complete message in bytes.
    - `mask`: masks the values of configured headers, which a server may repeat in a message.
    """

    number: int
    at: float
    direction: Direction
    data: bytes
    size: int
    mask: HeaderMask = NO_MASK

    @property
    def cut_bytes(self) -> int:
        """The number of bytes at the end of the message that were not logged."""
        return max(0, self.size - MAX_MESSAGE_BYTES)

    def to_text(self, *, indent: int = 0) -> str:
        """Return the message with secrets redacted, as JSON indented by *indent* spaces.

        Text that is not valid JSON, or that is only the beginning of a message, is not indented. The result is not
        sanitized. May take 0.2 s for a long message.
        """
        text = self.data.decode(errors="replace")
        if not self.cut_bytes:
            try:
                return self.mask.mask_text(redact_json(loads(text), indent=indent))
            except MalformedMessage:
                pass
        # A secret may be written with escapes, such as "\\/" for a slash.
        plain = _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "/", text)
        return self.mask.mask_text(redact(plain))[:MAX_MESSAGE_BYTES]


def redact_json(value: Any, *, indent: int = 0) -> str:
    """Return *value* as JSON text with secrets redacted, indented by *indent* spaces.

    Secrets are also recognized by the name of the member that contains them, and by a preceding item such as
    `"--token"`. May take 0.5 s for a value as large as a message.
    """
    return redact(dumps(redact_values(value), indent=indent))


class MessageLog:
    """The newest messages and HTTP exchanges with a server; messages that are not valid JSON are included."""

    def __init__(self) -> None:
        self.on_message: Callable[[LoggedMessage], None] | None = None
        """Called with each message when it is logged; it must not block or raise errors."""
        self.on_exchange: Callable[[LoggedExchange], None] | None = None
        """Called when an HTTP exchange gets its response, and when it ends; it must not block or raise errors."""
        self.revision = 0
        """The number of changes so far; if it is the same as before, the log has not changed."""

        self._mask = NO_MASK
        self._messages: deque[LoggedMessage] = deque()
        self._exchanges: deque[LoggedExchange] = deque()
        self._exchange_sizes: dict[int, int] = {}
        self._size = self._exchange_size = self._count = 0

    def messages(self) -> tuple[LoggedMessage, ...]:
        """Return the logged messages, oldest first."""
        return tuple(self._messages)

    def exchanges(self) -> tuple[LoggedExchange, ...]:
        """Return the logged HTTP exchanges, oldest first; empty for a server that is reached over a pipe."""
        return tuple(self._exchanges)

    def hide_headers(self, headers: Mapping[str, str]) -> None:
        """Mask the values of configured headers in all entries that are added from now on."""
        self._mask = self._mask.extend(headers)

    def add(self, direction: Direction, data: bytes) -> None:
        """Log a message; drop the oldest messages if their number or total size exceeds a limit.

        *direction* says whether the message was sent or received.
        """
        if not data.strip():
            return
        self._count += 1
        self.revision += 1
        kept = bytes(data[: MAX_MESSAGE_BYTES + LONGEST_SECRET])
        message = LoggedMessage(self._count, time.time(), direction, kept, len(data), self._mask)
        self._messages.append(message)
        self._size += len(message.data)
        while len(self._messages) > MAX_MESSAGES or self._size > MAX_TOTAL_BYTES:
            self._size -= len(self._messages.popleft().data)
        if self.on_message is not None:
            self.on_message(message)

    def add_exchange(self, verb: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> LoggedExchange:
        """Log an HTTP request that is about to be sent; the caller later adds the response to the returned entry.

        *verb* is the HTTP method. The oldest exchanges are dropped if their number or total size exceeds a limit.
        """
        exchange = LoggedExchange(self._count + 1, verb, url, headers, body, self._on_exchange_changed, self._mask)
        self._keep_exchange(exchange)
        return exchange

    def add_oauth_request(self, verb: str, url: str, headers: Iterable[tuple[str, str]]) -> LoggedOAuthRequest:
        """Log an OAuth request that is about to be sent to sign in to the server; see `add_exchange`."""
        request = LoggedOAuthRequest(self._count + 1, verb, url, headers, self._on_exchange_changed, self._mask)
        self._keep_exchange(request)
        return request

    def _keep_exchange(self, exchange: LoggedExchange) -> None:
        self._count += 1
        self._exchanges.append(exchange)
        self._exchange_sizes[exchange.number] = 0
        self._on_exchange_changed(exchange)

    def _on_exchange_changed(self, exchange: LoggedExchange) -> None:
        self.revision += 1
        if exchange.number in self._exchange_sizes:  # otherwise, it was dropped while it was open
            size = exchange.logged_bytes
            self._exchange_size += size - self._exchange_sizes[exchange.number]
            self._exchange_sizes[exchange.number] = size
        while len(self._exchanges) > MAX_EXCHANGES or self._exchange_size > MAX_EXCHANGE_BYTES:
            self._exchange_size -= self._exchange_sizes.pop(self._exchanges.popleft().number)
        if self.on_exchange is not None and exchange.revision:
            self.on_exchange(exchange)

    def log_sent(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Return a function that logs a message and then passes it to *write*."""

        def logging_write(line: bytes) -> None:
            self.add("sent", line)
            write(line)

        return logging_write

    def log_received(self, handle: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Return a function that logs a message and then passes it to *handle*."""

        def logging_handle(line: bytes) -> None:
            self.add("received", line)
            handle(line)

        return logging_handle

    def log_received_in_steps(self, handle: Callable[[bytes], Generator[None]]) -> Callable[[bytes], Generator[None]]:
        """Return a generator function that logs a message and then yields from *handle*."""

        def logging_handle(line: bytes) -> Generator[None]:
            self.add("received", line)
            yield from handle(line)

        return logging_handle
