"""Conversion of message log entries to JSON Lines, and to curl and mcphost commands, without secrets."""

import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from mcphost.errors import MalformedMessage, UsageError
from mcphost.header_mask import NO_MASK, HeaderMask
from mcphost.http_log import Headers, LoggedExchange, LoggedOAuthRequest, show_headers, show_names
from mcphost.message_log import LoggedMessage, redact_json
from mcphost.redact import PLACEHOLDER
from mcphost.sanitize import escape_unsafe_json, is_sanitized, strip_unsafe
from mcphost.serialization import dumps, loads

_URL_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))
_CURL_SETS = frozenset({"host", "content-length", "proxy-authorization"})
"""Headers that curl adds itself."""


def export_json_lines(entries: Iterable[LoggedMessage | LoggedExchange]) -> str:
    """Return the entries as JSON Lines (one object per line), in order and without secrets.

    Hidden characters are written as escapes. Call this in a thread, because it may take a second for a full log.
    """
    return "".join(f"{escape_unsafe_json(dumps(_entry_json(entry)))}\n" for entry in entries)


def _entry_json(entry: LoggedMessage | LoggedExchange) -> dict[str, Any]:
    at = datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(entry, LoggedExchange):
        record: dict[str, Any] = {
            "type": "http",
            "number": entry.number,
            "time": at,
            "method": entry.verb,
            "url": entry.shown_url(),
            "message_method": entry.rpc_method or None,
            "status": entry.status or None,
            "seconds_to_response": _round(entry.head_seconds),
            "seconds": _round(entry.seconds),
            "outcome": entry.outcome,
            "error": entry.error or None,
            "sent_again": entry.resent,
            "request_bytes": entry.request_size,
            "response_bytes": entry.response_size,
            "request_headers": [list(pair) for pair in show_headers(entry.request_headers)],
            "response_headers": [list(pair) for pair in show_headers(entry.response_headers)],
            "omitted_headers": entry.omitted_headers,
        }
        if isinstance(entry, LoggedOAuthRequest):
            record["sign_in"] = entry.sign_in
            record["request_parameters"] = list(show_names(entry.parameters))
            record["response_parameters"] = list(show_names(entry.response_parameters))
            record["oauth_error"] = entry.oauth_error or None
        return record
    text = entry.to_text()
    record = {
        "type": "message",
        "number": entry.number,
        "time": at,
        "direction": entry.direction,
        "bytes": entry.size,
        "cut_bytes": entry.cut_bytes,
    }
    try:
        return {**record, "message": loads(text)}
    except MalformedMessage:
        return {**record, "text": text}


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def make_curl_command(exchange: LoggedExchange) -> tuple[str, tuple[str, ...]]:
    """Return a curl command that repeats an HTTP request, and the names of the shell variables that it needs.

    Each secret is replaced by a shell variable. Raises UsageError if only the beginning of the request's body was
    logged.
    """
    body = LoggedMessage(exchange.number, exchange.at, "sent", exchange.body, exchange.request_size, exchange.mask)
    if body.cut_bytes:
        raise UsageError("Only the beginning of this request was logged.")
    url = quote(exchange.template_url(), safe=_URL_CHARACTERS)
    command = _Command(["curl", "-sS", "-N"])
    if any(character in "[]{}" for character in url.replace(PLACEHOLDER, "")):
        command.words.append("--globoff")
    if exchange.verb != ("POST" if exchange.body else "GET"):
        command.words += ["-X", shlex.quote(exchange.verb)]
    command.add(url, "URL_SECRET")
    for name, value in _template_headers(exchange.request_headers):
        if name not in _CURL_SETS:
            header = strip_unsafe(f"{name}: {value}" if value else f"{name};")
            command.words.append("-H")
            command.add(header, _variable_for(name))
    if exchange.body:
        command.words.append("--data-raw")
        command.add(escape_unsafe_json(body.to_text()), "SECRET")
    return command.render(), tuple(dict.fromkeys(command.variables))


def make_call_command(
    server: str, tool: str, arguments: Mapping[str, Any], mask: HeaderMask = NO_MASK
) -> tuple[str, tuple[str, ...]]:
    """Return the `mcphost call` command for a tool call, and the names of the shell variables that it needs.

    Shell variables replace the secrets in the arguments, including the header values that *mask* hides. Raises
    UsageError if *server* or *tool* contains hidden characters. May take 0.5 s for long arguments.
    """
    if not is_sanitized(f"{server}{tool}"):
        raise UsageError("The name of the tool contains hidden characters, so there is no command for it.")
    names = [shlex.quote(server), shlex.quote(tool)]
    is_option = server.startswith("-") or tool.startswith("-")
    command = _Command(["mcphost", "call", *([] if is_option else names)])
    if arguments:
        command.words.append("--args")
        command.add(escape_unsafe_json(mask.mask_text(redact_json(dict(arguments)))), "SECRET")
    if is_option:
        command.words += ["--", *names]
    return command.render(), tuple(dict.fromkeys(command.variables))


class _Command:
    """Words of a shell command, quoted for POSIX shells, and the names of the shell variables in them."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.variables: list[str] = []

    def add(self, text: str, variable: str) -> None:
        """Append *text* as a word, with a shell variable in place of each masked secret.

        The first variable is called *variable*; the names of further variables end with a number, as in TOKEN_2.
        """
        first, *rest = text.split(PLACEHOLDER)
        word = shlex.quote(first) if first or not rest else ""
        for number, part in enumerate(rest, 1):
            name = variable if number == 1 else f"{variable}_{number}"
            self.variables.append(name)
            word += f'"${name}"' + (shlex.quote(part) if part else "")
        self.words.append(word)

    def render(self) -> str:
        """Return the shell command as a single line."""
        return " ".join(self.words)


def _template_headers(headers: Headers) -> Headers:
    """Return headers with their secrets masked, and with a placeholder instead of each session id."""
    return tuple((name, PLACEHOLDER if "session" in name else value) for name, value in show_headers(headers))


def _variable_for(header: str) -> str:
    if header == "authorization":
        return "TOKEN"
    return "".join(character if character.isascii() and character.isalnum() else "_" for character in header.upper())
