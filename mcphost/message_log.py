"""Log of the messages exchanged with one server, for developers of servers."""

import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Literal, NamedTuple

MAX_MESSAGES = 500
MAX_MESSAGE_BYTES = 64 * 1024
MAX_TOTAL_BYTES = 4 * 1024 * 1024
"""Maximum bytes of all logged messages together."""

Direction = Literal["sent", "received"]


class LoggedMessage(NamedTuple):
    """A message as it was on the wire, without HTTP headers.

    `data` contains at most MAX_MESSAGE_BYTES of its `size` bytes. `at` is in seconds since 1970.
    """

    at: float
    direction: Direction
    data: bytes
    size: int


class MessageLog:
    """The newest messages exchanged with a server, oldest first; messages that are not valid JSON are included."""

    def __init__(self) -> None:
        self.on_message: Callable[[LoggedMessage], None] | None = None
        """Called with each message when it is logged; it must not block or raise errors."""

        self._messages: deque[LoggedMessage] = deque()
        self._size = 0
        self.dropped = 0
        """The number of older messages that are no longer logged."""

    def messages(self) -> tuple[LoggedMessage, ...]:
        """Return the logged messages."""
        return tuple(self._messages)

    def add(self, direction: Direction, data: bytes) -> None:
        """Log a message; drop the oldest ones if there are too many or they are too long."""
        if not data.strip():
            return
        message = LoggedMessage(time.time(), direction, bytes(data[:MAX_MESSAGE_BYTES]), len(data))
        self._messages.append(message)
        self._size += len(message.data)
        while len(self._messages) > MAX_MESSAGES or self._size > MAX_TOTAL_BYTES:
            self._size -= len(self._messages.popleft().data)
            self.dropped += 1
        if self.on_message is not None:
            self.on_message(message)

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
