"""Labels of the entries in a server's message log, and the filter of the messages screen."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mcphost.errors import MalformedMessage
from mcphost.http_log import LoggedExchange, LoggedOAuthRequest
from mcphost.message_log import LoggedMessage
from mcphost.protocol.jsonrpc import (
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    RequestId,
    parse_message,
    split_batch,
)
from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean_line

_METHOD = re.compile(rb'"method"\s{0,5}:\s{0,5}"([^"\\]{1,100})"')
_RESPONSE_HEAD = re.compile(
    rb'\s{0,5}\{\s{0,5}"jsonrpc"\s{0,5}:\s{0,5}"2\.0"\s{0,5},\s{0,5}"id"\s{0,5}:\s{0,5}'
    rb'(?:(\d{1,18})|"([^"\\]{1,100})")\s{0,5},\s{0,5}"(?:result|error)"'
)
"""The beginning of a response that is too long to be parsed."""

_ERRORS = (
    N_("the address of the redirect is not valid"),
    N_("the redirect to another origin was not followed"),
    N_("the server closed the connection"),
)
"""Errors of failed exchanges that are translated; any other error is shown unchanged."""
_SIGN_IN_PURPOSES = (
    N_("authorization server metadata"),
    N_("device authorization endpoint"),
    N_("identity provider's token endpoint"),
    N_("MCP server"),
    N_("protected resource metadata"),
    N_("registration endpoint"),
    N_("revocation endpoint"),
    N_("token endpoint"),
)
"""What OAuth requests are for."""

Entry = LoggedMessage | LoggedExchange
ParsedMessage = JsonRpcMessage | int | None
"""A parsed message, the number of messages in a batch, or None if it is cut off or not a JSON-RPC message."""


class DescribedEntry(NamedTuple):
    """An entry of a message log, with its label and the values that filters compare.

    - `method` is the JSON-RPC method of a request or notification, "" if unknown. A response has the method of its
      request. An HTTP exchange has the method of the message in the request's body, "" if there is no message.
    - `seconds` is, for a response, the time since its request and, for an HTTP exchange that has ended, its duration.
      It is None for all other entries.
    """

    entry: Entry
    title: str
    is_problem: bool
    method: str = ""
    seconds: float | None = None


class EntryDescriber:
    """Formatter of the entries in one server's message log, which caches the formatted entries."""

    def __init__(self) -> None:
        self._parsed: dict[int, ParsedMessage] = {}
        self._rows: dict[tuple[int, int], DescribedEntry] = {}

    def describe(
        self, messages: tuple[LoggedMessage, ...], exchanges: tuple[LoggedExchange, ...]
    ) -> list[DescribedEntry]:
        """Return all entries with their labels, newest first."""
        known = self._parsed
        self._parsed = {one.number: known[one.number] if one.number in known else _parse(one) for one in messages}
        answered = _find_answered(messages, self._parsed)
        rows = {
            (one.number, 0): self._rows.get((one.number, 0))
            or _describe_message(one, self._parsed[one.number], answered.get(one.number))
            for one in messages
        }
        for one in exchanges:
            key = (one.number, one.revision)
            rows[key] = self._rows.get(key) or _describe_exchange(one)
        self._rows = rows
        return sorted(rows.values(), key=lambda row: row.entry.number, reverse=True)


def format_time(entry: Entry) -> str:
    """Return the local time of an entry, with milliseconds."""
    milliseconds = int(entry.at * 1_000) % 1_000
    return f"{time.strftime('%H:%M:%S', time.localtime(entry.at))}.{milliseconds:03}"


def format_duration(seconds: float) -> str:
    """Return a duration in seconds or milliseconds."""
    if seconds >= 1:
        return _("{seconds:.1f} s").format(seconds=seconds)
    return _("{count} ms").format(count=max(0, round(seconds * 1000)))


def describe_outcome(exchange: LoggedExchange) -> str:
    """Return a note on an HTTP exchange that failed, was closed by mcphost, was sent again or is still open.

    Return "" for any other exchange.
    """
    match exchange.outcome:
        case "failed":
            return _(exchange.error) if exchange.error in _ERRORS else exchange.error
        case "closed":
            return _("closed by mcphost") if exchange.status else _("cancelled")
        case "open":
            return _("still open") if exchange.status else _("no response yet")
        case _:
            return _("sent again, because the connection was closed") if exchange.resent else ""


def describe_sign_in(exchange: LoggedExchange) -> str:
    """Return the purpose of an HTTP exchange during a sign-in, or "" for an exchange with an MCP message."""
    purpose = exchange.sign_in
    shown = _(purpose) if purpose in _SIGN_IN_PURPOSES else clean_line(purpose, 60)
    return _("sign-in: {purpose}").format(purpose=shown) if shown else ""


def _parse(message: LoggedMessage) -> ParsedMessage:
    if message.cut_bytes:
        return None
    try:
        if message.data.lstrip().startswith(b"["):
            return sum(1 for _member in split_batch(message.data))
        return parse_message(message.data)
    except MalformedMessage:
        return None


class _Answered(NamedTuple):
    """The request that a response answers; `id` is the JSON-RPC id of both the request and the response."""

    request: LoggedMessage
    method: str
    id: RequestId


def _find_answered(messages: Iterable[LoggedMessage], parsed: Mapping[int, ParsedMessage]) -> dict[int, _Answered]:
    """Return the logged request that each response answers, keyed by the response's number in the log.

    *messages* must be ordered by time, oldest first. Only the first response to a request is included. If a response
    was truncated in the log and is no longer valid JSON, its id is read from the beginning of its text.
    """
    waiting: dict[tuple[str, RequestId], _Answered] = {}
    found: dict[int, _Answered] = {}
    for message in messages:
        answered: RequestId | None = None
        match parsed[message.number]:
            case JsonRpcRequest(id=number, method=method):
                waiting[message.direction, number] = _Answered(message, method, number)
            case JsonRpcResponse(id=number) | JsonRpcErrorResponse(id=number):
                answered = number
            case None if head := _RESPONSE_HEAD.match(message.data):
                answered = int(head[1]) if head[1] else head[2].decode(errors="replace")
            case _:
                pass
        other = "sent" if message.direction == "received" else "received"
        if answered is not None and (request := waiting.pop((other, answered), None)) is not None:
            found[message.number] = request
    return found


def _describe_message(message: LoggedMessage, parsed: ParsedMessage, answered: _Answered | None) -> DescribedEntry:
    """Return a message with its label, such as "tools/call #3" or "result of tools/call · 12 ms · #3".

    *answered* is the request that the message answers, if this is known. A message that is not valid JSON-RPC is
    marked as a problem.
    """
    is_error = isinstance(parsed, JsonRpcErrorResponse)
    if answered is not None:
        seconds = message.at - answered.request.at
        text = _("error {code} of {method} · {time} · #{id}") if is_error else _("result of {method} · {time} · #{id}")
        text = text.format(
            code=parsed.error.code if isinstance(parsed, JsonRpcErrorResponse) else "",
            method=clean_line(answered.method, 60),
            time=format_duration(seconds),
            id=answered.id,
        )
        return DescribedEntry(message, clean_line(text, 120), is_error, answered.method, seconds)
    method = ""
    match parsed:
        case None if message.cut_bytes:
            named = _METHOD.search(message.data)
            text = method = named[1].decode(errors="replace") if named else ""
            text = text or _("a long message")
        case None:
            return DescribedEntry(message, _("not a JSON-RPC message"), is_problem=True)
        case int():
            text = _("batch of {count}").format(count=parsed)
        case JsonRpcRequest():
            method, text = parsed.method, f"{parsed.method} #{parsed.id}"
        case JsonRpcNotification():
            text = method = parsed.method
        case JsonRpcErrorResponse():
            text = _("error {code} #{id}").format(code=parsed.error.code, id=parsed.id)
        case _:
            text = _("result #{id}").format(id=parsed.id)
    return DescribedEntry(message, clean_line(text, 100), is_error, method)


def _describe_exchange(exchange: LoggedExchange) -> DescribedEntry:
    target = clean_line(f"{exchange.verb} {exchange.target}", 60)
    outcome = "" if exchange.outcome == "closed" and exchange.status else describe_outcome(exchange)
    is_oauth = isinstance(exchange, LoggedOAuthRequest)
    parts = [
        describe_sign_in(exchange) if is_oauth else target,
        str(exchange.status) if exchange.status else "",
        exchange.oauth_error if is_oauth else clean_line(exchange.rpc_method, 60),
        "" if exchange.duration is None else format_duration(exchange.duration),
        clean_line(outcome, 80),
    ]
    if is_oauth:
        parts.append(target)
    title = " · ".join(filter(None, parts))
    return DescribedEntry(exchange, title, exchange.is_problem, exchange.rpc_method, exchange.duration)


FILTER_WORDS = ("error", "sent", "received")
FILTER_NAMES = ("method", "status", "slow")
FILTER_HELP = N_("The search takes words and these filters: method:tools/call error slow:500 status:401 sent received")
_NAMED_FILTER = re.compile(r"([A-Za-z_-]{2,20}):(?!//)(.*)", re.DOTALL)
_MILLISECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s)?")
_MAX_SHOWN_WORD = 40


class MessageFilter(NamedTuple):
    """A filter of the messages screen; an entry passes if it matches every part.

    All `methods` must occur in the entry's JSON-RPC method, and all `words` in the entry's label or time. If `statuses`
    is not empty, only HTTP exchanges pass whose status begins with each of them. If `directions` is not empty, only
    messages pass whose direction equals each of them. If the filter could not be parsed, `problem` is an error message
    and no entry passes; otherwise, `problem` is "".
    """

    methods: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    errors_only: bool = False
    slow: float = -1.0
    """Minimum duration of a request or exchange in seconds; negative for no minimum."""
    words: tuple[str, ...] = ()
    problem: str = ""

    def passes(self, row: DescribedEntry, text: str) -> bool:
        """Return whether an entry passes; *text* is its label and time in lowercase."""
        entry = row.entry
        return (
            not self.problem
            and (not self.errors_only or row.is_problem)
            and all(method in row.method.lower() for method in self.methods)
            and all(isinstance(entry, LoggedMessage) and entry.direction == one for one in self.directions)
            and all(isinstance(entry, LoggedExchange) and str(entry.status).startswith(one) for one in self.statuses)
            and (self.slow < 0 or (row.seconds is not None and row.seconds >= self.slow))
            and all(word in text for word in self.words)
        )


def parse_filter(text: str, labels: Iterable[str] = ()) -> MessageFilter:
    """Parse the text of the search line; *labels* are the labels of the entries in lowercase.

    If a word resembles a filter and occurs in no label, the result's `problem` reports it as a misspelt filter.
    """
    methods: list[str] = []
    statuses: list[str] = []
    directions: list[str] = []
    words: list[str] = []
    errors_only, slow, problem = False, -1.0, ""
    for word in text.lower().split():
        named = _NAMED_FILTER.fullmatch(word)
        match (named[1], named[2]) if named else ("", word):
            case ("", "error" | "errors"):
                errors_only = True
            case ("", "sent" | "received"):
                directions.append(word)
            case ("method", value):
                methods.append(value)
            case ("status", value):
                statuses.append(value)
            case ("slow", value):
                number = _MILLISECONDS.fullmatch(value)
                slow = -1.0 if number is None else float(number[1]) / (1 if number[2] == "s" else 1000)
                if number is None:
                    problem = problem or _("slow: needs a number of milliseconds, such as slow:500.")
            case _:
                words.append(word)
    problem = problem or next(_find_misspelt(words, labels), "")
    return MessageFilter(tuple(methods), tuple(statuses), tuple(directions), errors_only, slow, tuple(words), problem)


def _find_misspelt(words: Iterable[str], labels: Iterable[str]) -> Iterator[str]:
    """Yield a message about each word that is probably a misspelt filter."""
    from difflib import get_close_matches

    for word in words:
        named = _NAMED_FILTER.fullmatch(word)
        known = [f"{name}:" for name in FILTER_NAMES] if named else list(FILTER_WORDS)
        near = get_close_matches(f"{named[1]}:" if named else word[:_MAX_SHOWN_WORD], known, 1, 0.7)
        if (near or named) and not any(word in label for label in labels):
            shown = clean_line(f"{named[1]}:" if named else word, _MAX_SHOWN_WORD)
            yield (
                _('There is no filter "{word}". Did you mean "{near}"?').format(word=shown, near=near[0])
                if near
                else _('There is no filter "{word}".').format(word=shown)
            )
