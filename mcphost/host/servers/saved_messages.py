"""Reader of saved message logs, which are JSON Lines written by `message_log_export`; the file is untrusted."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcphost.config.json_files import read_bytes
from mcphost.errors import MalformedMessage, UsageError
from mcphost.http_log import LoggedExchange, LoggedOAuthRequest
from mcphost.json_limits import MAX_DEPTH, MAX_PLAIN_VALUES, check_depth, check_value_count, run_steps
from mcphost.message_log import LoggedMessage
from mcphost.serialization import Raw, Struct, decode

MAX_FILE_BYTES = 64_000_000
MAX_LINE_BYTES = 1_000_000
MAX_ENTRIES = 10_000
_MAX_COUNT = 10**12
T = TypeVar("T", int, float)
_Pairs = tuple[tuple[str, str], ...]


class SavedMessage(Struct, frozen=True, tag_field="type", tag="message"):
    """A line of a saved message log that contains a message.

    The message is in `message` or, if it is cut off or not valid JSON, in `text`.
    """

    number: int
    time: datetime
    direction: Literal["sent", "received"]
    bytes: int
    message: Raw = Raw()
    text: str = ""

    def restore(self) -> LoggedMessage:
        """Return the message as a log entry; its secrets were already removed when it was saved."""
        data = bytes(self.message) or self.text.encode("utf-8", "replace")
        return LoggedMessage(_limit(self.number), self.time.timestamp(), self.direction, data, _limit(self.bytes))


class SavedExchange(Struct, frozen=True, tag_field="type", tag="http"):
    """A line of a saved message log that contains an HTTP exchange; see `LoggedExchange`."""

    number: int
    time: datetime
    method: str
    url: str
    outcome: Literal["open", "complete", "closed", "failed"]
    message_method: str | None = None
    status: int | None = None
    seconds_to_response: float | None = None
    seconds: float | None = None
    error: str | None = None
    sent_again: bool = False
    request_bytes: int = 0
    response_bytes: int = 0
    request_headers: _Pairs = ()
    response_headers: _Pairs = ()
    omitted_headers: int = 0
    sign_in: str = ""

    def restore(self) -> LoggedExchange:
        """Return the exchange as a log entry, without the body of its request, which is not saved."""
        make = LoggedOAuthRequest if self.sign_in else _make_exchange
        exchange = make(_limit(self.number), self.method[:100], self.url, self.request_headers, _ignore_change)
        exchange.on_response(_limit(self.status or 0), self.response_headers, resent=self.sent_again)
        exchange.end(self.outcome, self.error or "")
        exchange.at = self.time.timestamp()
        exchange.head_seconds = None if self.seconds_to_response is None else _limit(self.seconds_to_response)
        exchange.seconds = None if self.seconds is None else _limit(self.seconds)
        exchange.rpc_method, exchange.sign_in = (self.message_method or "")[:200], self.sign_in[:100]
        exchange.request_size, exchange.response_size = _limit(self.request_bytes), _limit(self.response_bytes)
        exchange.omitted_headers += _limit(self.omitted_headers)
        return exchange


_Entry: Any = SavedMessage | SavedExchange


def _limit(number: T) -> T:
    """Return *number*, limited to the range from 0 to _MAX_COUNT, because the file is untrusted."""
    return max(type(number)(0), min(number, type(number)(_MAX_COUNT)))


def _ignore_change(exchange: LoggedExchange) -> None:
    """Do nothing: a saved exchange has ended, so nothing has to be updated."""


def _make_exchange(
    number: int, verb: str, url: str, headers: _Pairs, on_changed: Callable[[LoggedExchange], None]
) -> LoggedExchange:
    return LoggedExchange(number, verb, url, headers, b"", on_changed)


def read_saved_messages(file: Path) -> Iterator[LoggedMessage | LoggedExchange]:
    """Yield the entries of a saved message log in the order of the file.

    Their texts are not sanitized. Raises UsageError if the file is missing, is too large, or has a line that is not an
    entry, and ConfigError if it cannot be read.
    """
    try:
        lines = read_bytes(file, MAX_FILE_BYTES).split(b"\n", MAX_ENTRIES)
    except FileNotFoundError as error:
        raise UsageError(
            f"There is no file {file}.", "The messages page of a server in the chat saves such files."
        ) from error
    if len(lines) > MAX_ENTRIES and lines.pop().strip():
        raise UsageError(f"{file} has more than {MAX_ENTRIES} lines.", "Is it a saved message log?")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            if len(line) > MAX_LINE_BYTES:
                raise MalformedMessage("The line is too long.")
            check_depth(line, MAX_DEPTH + 1)  # the entry around a message
            run_steps(check_value_count(line, MAX_PLAIN_VALUES))
            entry = decode(line, _Entry, "entry").restore()
        except (MalformedMessage, ValueError, OverflowError) as error:
            raise UsageError(
                f"{file}, line {number}: not an entry of a saved message log.",
                "The messages page of a server in the chat saves such files.",
            ) from error
        yield entry
