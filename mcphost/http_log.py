"""HTTP exchanges of one server in its message log: status, duration, size and headers without secrets."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Literal

from mcphost.header_mask import NO_MASK, HeaderMask
from mcphost.redact import MIN_SECRET_LENGTH, PLACEHOLDER, STRONG_SECRET_LENGTH, is_secret_name, redact
from mcphost.serialization import dumps

MAX_HEADERS = 100
"""Maximum number of headers logged for a request or response; further ones are only counted."""
MAX_HEADER_LENGTH = 2_000
"""Maximum logged characters of a header's value."""
MAX_HEADER_CHARACTERS = 12_000
"""Maximum logged characters of all headers of a request or response."""
MAX_BODY_BYTES = 64 * 1024
"""Maximum logged bytes of a request's body."""
LONGEST_SECRET = 1_000
"""Number of characters beyond a limit that are kept until secrets are redacted, because no secret may be cut before."""
_MAX_NAME = 100
_MAX_URL = 4_000
_MAX_TARGET = 200
_SHOWN_OF_SESSION = 8
_MAX_PARAMETERS, _MAX_PARAMETER_NAME = 50, 64
_OAUTH_ERRORS = frozenset(
    {
        # RFC 6749, RFC 7591, RFC 8628, RFC 8707, RFC 9449
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
        "invalid_scope", "invalid_redirect_uri", "invalid_client_metadata", "invalid_software_statement",
        "unapproved_software_statement", "authorization_pending", "slow_down", "access_denied", "expired_token",
        "invalid_target", "invalid_dpop_proof", "use_dpop_nonce", "unsupported_token_type", "server_error",
        "temporarily_unavailable", "invalid_token", "insufficient_scope",
    }
)  # fmt: skip
"""Registered OAuth error codes, which are shown; any other code may be any text, because the server chooses it."""

Outcome = Literal["open", "complete", "closed", "failed"]
Headers = tuple[tuple[str, str], ...]

_CREDENTIAL_HEADERS = frozenset({"authorization", "proxy-authorization", "dpop", "cookie", "set-cookie", "set-cookie2"})
_CHALLENGE_HEADERS = frozenset({"www-authenticate", "proxy-authenticate"})
_SCHEMES = frozenset({"basic", "bearer", "digest", "dpop", "negotiate"})
_PLAIN_VALUES = frozenset({"", "true", "false", "none"})
_SESSION_PARAMETER = re.compile(r"(?i)([?&;][\w.-]{0,40}session[\w.-]{0,40}=)([^&;#\s\"'<>]{1,4000})")
# A parameter of a challenge (RFC 9110, section 11.2), or a word that is long enough to be a credential.
_CHALLENGE_PART = re.compile(
    r"(?P<name>[A-Za-z][\w-]{0,40})\s{0,3}=\s{0,3}(?P<value>\"[^\"]{0,3000}\"?|[^\s,\"=]{1,3000})|[^\s,]{16,}"
)
# mcphost itself writes the bodies: the version may be the first or the last member, and the method follows the id.
_METHOD = re.compile(rb'\{(?:"jsonrpc":"2\.0",)?(?:"id":[^,]{1,200},)?"method":"([^"\\]{1,100})"')


class LoggedExchange:
    """An HTTP request and the part of its response that has arrived so far.

    - `number`: the number of the log entry.
    - `at`: the time of the request in seconds since 1970.
    - `rpc_method`: the method of the JSON-RPC message in the request's body, or "" if there is none.
    - `target`: the path and the query of the URL.
    - `body`: the beginning of the request's body as sent, which may contain secrets.
    - `mask`: masks the values of configured headers.
    - `status`: 0 until the response begins.
    - `content_type`: the media type of the response.
    - `head_seconds`: the time until the response began; None before that.
    - `seconds`: the time until the exchange ended; None before that.
    - `error`: the reason if `outcome` is "failed".
    - `resent`: whether the request was sent twice, because the server had closed the reused connection.
    - `sign_in`: the purpose of an OAuth request, or "" for an MCP message.

    No text in an entry is sanitized. To display the URL or headers, use `shown_url` or `show_headers`, which redact
    secrets.
    """

    __slots__ = (
        "_on_changed",
        "_started",
        "at",
        "body",
        "content_type",
        "error",
        "head_seconds",
        "mask",
        "number",
        "omitted_headers",
        "outcome",
        "request_headers",
        "request_size",
        "resent",
        "response_headers",
        "response_size",
        "revision",
        "rpc_method",
        "seconds",
        "sign_in",
        "status",
        "target",
        "url",
        "verb",
    )

    def __init__(
        self,
        number: int,
        verb: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        on_changed: "Callable[[LoggedExchange], None]",
        mask: HeaderMask = NO_MASK,
    ) -> None:
        self.number, self.at, self._started = number, time.time(), time.monotonic()
        self.verb, self.mask = verb, mask
        self.url = shorten_sessions(mask.mask_text(url[: _MAX_URL + LONGEST_SECRET]))
        self.target = _show_target(self.url)
        self.content_type = ""
        self.omitted_headers = 0
        self.request_headers = self._limit_headers(headers)
        self.body, self.request_size = body[: MAX_BODY_BYTES + LONGEST_SECRET], len(body)
        self.sign_in = ""
        method = _METHOD.match(self.body)
        self.rpc_method = method[1].decode(errors="replace") if method else ""
        self.status, self.response_size, self.resent = 0, 0, False
        self.response_headers: Headers = ()
        self.head_seconds: float | None = None
        self.seconds: float | None = None
        self.outcome: Outcome = "open"
        self.error = ""
        self.revision = 0
        """The number of changes since the request was sent; the arrival of bytes does not count as a change."""
        self._on_changed = on_changed

    def on_response(self, status: int, headers: Iterable[tuple[str, str]], *, resent: bool) -> None:
        """Log the status and the headers of the response; *resent* means that the request was sent twice."""
        self.status, self.resent = status, resent
        self.head_seconds = time.monotonic() - self._started
        self.response_headers = self._limit_headers(headers)
        kind = next((value for name, value in self.response_headers if name == "content-type"), "")
        self.content_type = redact(kind[:_MAX_NAME].partition(";")[0].strip().lower())
        self._changed()

    def on_received(self, size: int) -> None:
        """Add *size* to the number of bytes received of the response's body."""
        self.response_size += size

    def end(self, outcome: Outcome, error: str = "") -> None:
        """Log the end of the exchange, and the reason if *outcome* is "failed"; only the first call has an effect."""
        if self.outcome == "open":
            self.outcome, self.error = outcome, _show_error(self.mask.mask_text(error))
            self.seconds = time.monotonic() - self._started
            self._changed()

    def note(self, error: str) -> None:
        """Mark the exchange as failed, with the reason why mcphost did not use the response, such as a redirect."""
        self.outcome, self.error = "failed", _show_error(self.mask.mask_text(error))
        self._changed()

    def _changed(self) -> None:
        self.revision += 1
        self._on_changed(self)

    @property
    def is_event_stream(self) -> bool:
        """Whether the response is an event stream, which may stay open for a long time."""
        return self.content_type == "text/event-stream"

    @property
    def is_problem(self) -> bool:
        """Whether the server refused the request, or the exchange failed."""
        return self.status >= 400 or self.outcome == "failed"

    @property
    def duration(self) -> float | None:
        """Seconds until the exchange ended or, for an event stream, until the response began; None until then."""
        return self.head_seconds if self.is_event_stream and self.head_seconds is not None else self.seconds

    @property
    def logged_bytes(self) -> int:
        """The approximate number of bytes that the entry takes."""
        pairs = (*self.request_headers, *self.response_headers)
        return 500 + len(self.url) + len(self.body) + sum(100 + len(name) + len(value) for name, value in pairs)

    def shown_url(self) -> str:
        """Return the URL without secrets; it is not sanitized."""
        return redact(self.url)[:_MAX_URL]

    def template_url(self) -> str:
        """Return the URL with a placeholder for each secret and session id, for a command that repeats the request."""
        return redact(_SESSION_PARAMETER.sub(rf"\1{PLACEHOLDER}", self.url))[:_MAX_URL]

    def _limit_headers(self, headers: Iterable[tuple[str, str]]) -> Headers:
        """Return the headers to log, with credentials masked and long values cut; surplus headers are only counted."""
        kept: list[tuple[str, str]] = []
        left = MAX_HEADER_CHARACTERS
        for name, value in headers:
            size = min(len(name), _MAX_NAME) + min(len(value), MAX_HEADER_LENGTH)
            if len(kept) >= MAX_HEADERS or size > left:
                self.omitted_headers += 1
                continue
            left -= size
            lower = self.mask.mask_text(name[:_MAX_NAME].lower())
            shown = value if lower in _CREDENTIAL_HEADERS else self.mask.mask_header(lower, value)
            kept.append((lower, _mask_credentials(lower, shown)))
        return tuple(kept)


class LoggedOAuthRequest(LoggedExchange):
    """An OAuth request and its response; the parameters in their bodies are logged by name, without values.

    - `target`: the URL without its scheme; it includes the host, which is rarely that of the MCP server.
    - `oauth_error`: the error code in the response if it is a registered one, otherwise "".
    - `response_parameters`: names chosen by the server, which may contain secrets; display them with `show_names`.
    """

    __slots__ = ("oauth_error", "parameters", "response_parameters")

    def __init__(
        self,
        number: int,
        verb: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        on_changed: "Callable[[LoggedExchange], None]",
        mask: HeaderMask = NO_MASK,
    ) -> None:
        super().__init__(number, verb, url, headers, b"", on_changed, mask)
        self.target = redact(self.url).partition("://")[2][:_MAX_TARGET]
        self.parameters: tuple[str, ...] = ()
        self.response_parameters: tuple[str, ...] = ()
        self.oauth_error = ""

    def set_request(self, purpose: str, parameters: Iterable[str], size: int, *, is_form: bool) -> None:
        """Set the purpose of the request, the names of its parameters, and the size of its body in bytes.

        The logged body contains a placeholder instead of each value; it is a form if *is_form* is true, otherwise JSON.
        """
        self.sign_in, self.request_size = purpose[:_MAX_NAME], size
        self.parameters = _limit_names(parameters)
        if is_form:
            self.body = "&".join(f"{name}={PLACEHOLDER}" for name in self.parameters).encode()
        elif self.parameters:
            self.body = dumps(dict.fromkeys(self.parameters, PLACEHOLDER)).encode()

    def set_response(self, members: Mapping[str, object], size: int) -> None:
        """Log the end of the response: the names of the *members* of its JSON object, and its size in bytes."""
        self.response_parameters = _limit_names(members)
        code = members.get("error")
        self.oauth_error = code if isinstance(code, str) and code in _OAUTH_ERRORS else ""
        self.on_received(size)
        self.end("complete")


def _limit_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name if len(name) <= _MAX_PARAMETER_NAME else PLACEHOLDER for name in islice(names, _MAX_PARAMETERS))


def show_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of parameters with secrets redacted; the names are not sanitized."""
    # A secret may have become known after the response was logged.
    return tuple(map(redact, names))


def _show_target(url: str) -> str:
    """Return the beginning of a URL's path and query with secrets redacted; it is not sanitized."""
    at = url.find("/", url.find("://") + 3)
    return redact(url[at : at + _MAX_TARGET + LONGEST_SECRET])[:_MAX_TARGET] if at >= 0 else "/"


def _show_error(error: str) -> str:
    """Return the beginning of an error message with secrets redacted; it is not sanitized."""
    return redact(shorten_sessions(error[: _MAX_TARGET + LONGEST_SECRET]))[:_MAX_TARGET]


def show_headers(headers: Headers) -> Headers:
    """Return headers with secrets redacted and values cut after MAX_HEADER_LENGTH characters.

    The headers are not sanitized. May take 0.1 s for the longest headers.
    """
    return tuple(
        (name if len(name) < STRONG_SECRET_LENGTH else redact(name), _show_value(name, value))
        for name, value in headers
    )


def shorten_sessions(text: str) -> str:
    """Return *text* with the session ids in URL queries shortened."""
    return _SESSION_PARAMETER.sub(lambda found: found[1] + _shorten(found[2]), text)


def _shorten(value: str) -> str:
    """Return the beginning of a session id, which is enough to tell sessions apart."""
    if value.endswith("…") and len(value) <= _SHOWN_OF_SESSION + 1:
        return value  # an entry of a saved log
    return value[: min(_SHOWN_OF_SESSION, len(value) // 3)] + "…"


def _mask_credentials(name: str, value: str) -> str:
    """Return the value of a header to keep in the log, masked if the header's name shows that it is a credential."""
    if name in _CREDENTIAL_HEADERS:
        scheme, space, _rest = value.partition(" ")
        return f"{scheme} {PLACEHOLDER}" if space and scheme.lower() in _SCHEMES else PLACEHOLDER
    if name not in _CHALLENGE_HEADERS and value.lower() not in _PLAIN_VALUES:
        if is_secret_name(name):
            return PLACEHOLDER
        if "session" in name:
            return _shorten(value)
    return shorten_sessions(value[: MAX_HEADER_LENGTH + LONGEST_SECRET])


def _show_value(name: str, value: str) -> str:
    if name in _CREDENTIAL_HEADERS or len(value) < MIN_SECRET_LENGTH:
        return value
    shown = _show_challenge(value) if name in _CHALLENGE_HEADERS else redact(value)
    return shown if len(shown) <= MAX_HEADER_LENGTH else f"{shown[:MAX_HEADER_LENGTH]}…"


def _show_challenge(challenge: str) -> str:
    """Return a WWW-Authenticate challenge with secrets removed.

    In `name=value`, only secrets in the value are redacted. Any other word may be a token, so a placeholder replaces
    it. `redact` is not applied to the challenge as a whole: in `Bearer resource_metadata=…`, it would take the
    parameter for a token.
    """
    values = [part["value"] for part in _CHALLENGE_PART.finditer(challenge) if part["name"]]
    # All at once, because each call costs as much as the patterns, however short the value is.
    shown = redact("\n".join(values)).split("\n")
    if len(shown) != len(values):
        shown = [PLACEHOLDER] * len(values)
    following = iter(shown)
    return _CHALLENGE_PART.sub(
        lambda part: f"{part['name']}={next(following)}" if part["name"] else PLACEHOLDER, challenge
    )
