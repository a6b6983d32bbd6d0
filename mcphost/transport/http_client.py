"""HTTP client for one server, with authorization, redirects within the origin, and readable errors."""

import copy
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, ServerError, StartupError
from mcphost.protocol.jsonrpc import JsonRpcErrorResponse, parse_message
from mcphost.proxies import proxy_for
from mcphost.redact import redact
from mcphost.sign_in_types import AuthChallenge
from mcphost.transport.channel import NO_HEADERS, Authorizer, HttpStatusError, ResponseInterrupted, Unauthorized
from mcphost.transport.http1_connection import CLOSED_TEXT, HttpConnection
from mcphost.transport.http_pool import HttpConnectionPool
from mcphost.transport.line_reader import MESSAGE_LIMIT
from mcphost.transport.mcp_headers import parse_origin
from mcphost.transport.reachability import ReachabilityFn, ReachabilityMonitor, ignore_reachability
from mcphost.unicode_forms import is_loopback_host, join_url

if TYPE_CHECKING:
    from mcphost.http_log import LoggedExchange
    from mcphost.message_log import MessageLog

SHOWN_BODY_LENGTH = 200
MAX_ERROR_BODY = 64 * 1024
ERROR_BODY_TIMEOUT = 5.0
_DECOMPRESSED_CHUNK = 256 * 1024
# JSON compresses to about a tenth, so large legitimate responses pass; no message is larger than 16 MB anyway.
DECOMPRESSED_ALLOWANCE = 12 * 1024 * 1024
DECOMPRESSED_FACTOR = 4
MAY_HAVE_RUN_HINT: Final = "If a tool was running, it may have had effects."


class HttpResponse:
    """An HTTP response whose status and headers have been read; the caller must call `close`."""

    __slots__ = (
        "_compressed_bytes",
        "_connection",
        "_decompressed_bytes",
        "_decompressor",
        "_headers",
        "_name",
        "_pool",
        "content_type",
        "logged",
        "status",
    )

    def __init__(
        self,
        connection: HttpConnection,
        pool: HttpConnectionPool,
        name: str,
        logged: "LoggedExchange | None" = None,
    ) -> None:
        self._connection: HttpConnection | None = connection
        self._pool = pool
        self._name = name
        self._headers = connection.headers
        self._decompressor: Any = None
        self._compressed_bytes = self._decompressed_bytes = 0
        self.status = connection.status
        self.logged = logged
        self.content_type = self._headers.get("content-type", "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """Return the value of a header, or "" if it is missing."""
        return self._headers.get(name.lower(), "")

    async def read_chunk(self) -> bytes | None:
        """Return the next piece of the body, decompressed if necessary, or None at the end of the body.

        Raises ResponseInterrupted or MalformedMessage.
        """
        connection = self._connection
        if connection is None:
            return None
        if self._decompressor is not None and self._decompressor.unconsumed_tail:
            await anyio.lowlevel.checkpoint()  # a decompression bomb must not block other tasks
            return self._decompress(self._decompressor.unconsumed_tail)
        try:
            data = await connection.read_chunk()
        except ConnectionLost as error:
            if self.logged is not None:
                self.logged.end("failed", error.message)
            raise ResponseInterrupted(
                f"The response of the server {self._name!r} broke off: {error.message}.",
                MAY_HAVE_RUN_HINT,
                server=self._name,
            ) from error
        except MalformedMessage as error:
            if self.logged is not None:
                self.logged.end("failed", error.message)
            raise MalformedMessage(
                f"The response of the server {self._name!r} is invalid: {error.message}.", MAY_HAVE_RUN_HINT
            ) from error
        if self.logged is not None:
            self.logged.on_received(len(data)) if data is not None else self.logged.end("complete")
        if data is None:
            self._check_compressed_end()
            return None
        return self._decompress(data) if self._is_compressed() else data

    def _is_compressed(self) -> bool:
        encoding = self.header("content-encoding").strip().lower()
        if encoding in ("", "identity"):
            return False
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise MalformedMessage(f"The server {self._name!r} answered in the encoding {encoding[:50]!r}.")
        return True

    def _decompress(self, data: bytes) -> bytes:
        # mcphost requests identity encoding; compressed responses are accepted within memory limits.
        inflate = self._decompressor
        if inflate is None:
            inflate = self._decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)
        if inflate.eof:
            raise MalformedMessage(f"The server {self._name!r} sent data after the end of its compressed response.")
        self._compressed_bytes += len(data) - len(inflate.unconsumed_tail)
        try:
            plain = inflate.decompress(data, _DECOMPRESSED_CHUNK)
        except zlib.error as error:
            raise MalformedMessage(f"The server {self._name!r} sent broken compressed data.") from error
        if inflate.unused_data:
            raise MalformedMessage(f"The server {self._name!r} sent data after the end of its compressed response.")
        self._decompressed_bytes += len(plain)
        if self._decompressed_bytes > DECOMPRESSED_ALLOWANCE + DECOMPRESSED_FACTOR * self._compressed_bytes:
            raise MalformedMessage(
                f"The server {self._name!r} sent a response that decompresses to over "
                f"{DECOMPRESSED_ALLOWANCE // 1024**2} MB and {DECOMPRESSED_FACTOR} times its size.",
                "It must respond without content-encoding, as requested.",
            )
        return plain

    def _check_compressed_end(self) -> None:
        if self._decompressor is not None and not self._decompressor.eof:
            raise MalformedMessage(
                f"The compressed response of the server {self._name!r} is incomplete.", MAY_HAVE_RUN_HINT
            )

    async def read_body(self, limit: int = MESSAGE_LIMIT) -> bytes:
        """Return the complete body. Raises MalformedMessage if it exceeds *limit* bytes."""
        chunks: list[bytes] = []
        size = 0
        while (chunk := await self.read_chunk()) is not None:
            size += len(chunk)
            if size > limit:
                raise MalformedMessage(f"The server {self._name!r} sent a body over {limit // (1024 * 1024)} MB.")
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Return the connection to the pool; if the body was not read to its end, the connection is closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self.logged is not None:
                self.logged.end("complete" if connection.is_complete else "closed")
            self._pool.release(connection)

    async def read_error_body(self) -> bytes:
        """Return the body of an error response, truncated to MAX_ERROR_BODY bytes. Never raises an error.

        After ERROR_BODY_TIMEOUT seconds, the part received so far is returned.
        """
        chunks: list[bytes] = []
        size = 0
        # If reading fails or takes too long, the data received so far suffices.
        with suppress(ServerError), anyio.move_on_after(ERROR_BODY_TIMEOUT):
            while (chunk := await self.read_chunk()) is not None:
                chunks.append(chunk)
                size += len(chunk)
                if size >= MAX_ERROR_BODY:
                    break
        return b"".join(chunks)[:MAX_ERROR_BODY]

    async def drain(self) -> None:
        """Read and discard the body if its length is known, so that the connection can be reused.

        Never raises an error.
        """
        if self.header("content-length"):
            await self.read_error_body()

    def parse_error(self, body: bytes) -> JsonRpcErrorResponse | None:
        """Return the JSON-RPC error in the body of an error response, or None if there is none.

        The id of the error is not checked, because servers send null or a constant.
        """
        if self.content_type != "application/json":
            return None
        try:
            message = parse_message(body)
        except MalformedMessage:
            return None
        return message if isinstance(message, JsonRpcErrorResponse) else None

    def status_error(self, body: bytes, method: str) -> HttpStatusError:
        """Return the exception to raise for the error status of this response.

        The exception's message quotes the beginning of *body*. *method* names the request that failed, such as a
        JSON-RPC method.
        """
        shown = _quote_body(body)
        what = f"HTTP {self.status} ({self.content_type or 'no content type'})"
        error = HttpStatusError(
            f"The server {self._name!r} answered {method} with {what}: {shown or 'an empty body'}",
            _status_hint(self.status),
            status=self.status,
            retry_after=_parse_retry_after(self.header("retry-after")),
        )
        error.server = self._name
        return error


def _quote_body(body: bytes) -> str:
    """Return the beginning of the body of an error response, on one line and without secrets.

    Secrets are removed before the text is truncated, because a truncated token would not be recognized as a secret.
    For the same reason, the last word of an incomplete body is omitted.
    """
    words = body.decode(errors="replace").split()
    if len(body) >= MAX_ERROR_BODY:
        words = words[:-1]
    return redact(" ".join(words))[:SHOWN_BODY_LENGTH]


def _status_hint(status: int) -> str:
    if status == 503 or 400 <= status < 500:
        return ""
    return MAY_HAVE_RUN_HINT


def _parse_retry_after(after: str) -> float | None:
    """Return the delay in seconds from a Retry-After header, or None if the header is missing or invalid.

    The header contains a number of seconds or a date (RFC 9110, section 10.2.3).
    """
    if after.isascii() and after.isdigit():
        return float(after) if len(after) < 10 else None
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


MAX_REDIRECTS = 5
MAX_RECOVERIES = 2
"""Maximum number of times that a request is sent with new credentials before the user must sign in."""
# Without 303, which answers a POST with a redirect to be followed with GET; MCP does not use it.
_REDIRECT_STATUSES = frozenset({301, 302, 307, 308})
EVENT_STREAM = "text/event-stream"


class HttpClient:
    """HTTP client for one URL; references such as `${TOKEN}` in *headers* must already be expanded."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        pool: HttpConnectionPool,
        warn: Callable[[str], None],
        authorizer: Authorizer | None = None,
        on_reachability_changed: ReachabilityFn = ignore_reachability,
    ) -> None:
        self.name = name
        self.url = url
        self.warn = warn
        self._configured_headers = {name.lower(): value for name, value in headers.items()}
        self._pool = pool
        self._origin = parse_origin(url)
        self._authorizer = authorizer
        self.reachability = ReachabilityMonitor(pool.test_connection, on_reachability_changed)
        self.message_log: MessageLog | None = None
        """The log to which HTTP exchanges are added, or None if they are not logged."""

    async def request(
        self, verb: str, body: bytes, headers: Mapping[str, str], *, is_repeatable: bool = True
    ) -> HttpResponse:
        """Send an HTTP request, follow redirects within the origin, and recover from 401 and 403 if possible.

        If the connection is closed without a response, the request is sent again, unless *is_repeatable* is False
        because the server must not handle the request twice. After a redirect, 401 or 403, any request is sent again,
        with the same body and, after 401 and 403, new credentials. Raises RequestNotSent, ResponseInterrupted,
        Unauthorized, SignInRequired or MalformedMessage.
        """
        recoveries = 0
        while True:
            identity = NO_HEADERS
            if self._authorizer is not None:
                identity = await self._authorizer.headers(verb, self.url)
                # A token refresh is not interrupted: if the caller was cancelled in the meantime, do not send anything.
                await anyio.lowlevel.checkpoint_if_cancelled()
            answer = await self._follow_redirects(verb, body, {**headers, **identity}, is_repeatable=is_repeatable)
            if answer.status not in (401, 403):
                return answer
            challenge = answer.header("www-authenticate")
            if answer.status == 403 and not challenge:
                return answer  # an Origin check or a firewall; other credentials would not help
            sent = identity.get("authorization", "")
            refusal = AuthChallenge(answer.status, challenge, sent, answer.header("dpop-nonce"))
            text = await answer.read_error_body()
            answer.close()
            recoveries += 1
            if recoveries > MAX_RECOVERIES or self._authorizer is None or not await self._authorizer.recover(refusal):
                raise Unauthorized(
                    f"The server {self.name!r} requires a sign-in (HTTP {answer.status}). {_quote_body(text)}".rstrip(),
                    f"Sign in: mcphost login {quote(self.name)}"
                    if self._authorizer
                    else "Check its headers in mcp.json.",
                    server=self.name,
                    challenge=refusal,
                )

    async def request_without_recovery(self, verb: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        """Send a request like `request`, but without refreshing a token or retrying after a 401 or 403 response."""
        identity = NO_HEADERS if self._authorizer is None else self._authorizer.current_headers(verb, self.url)
        return await self._follow_redirects(verb, body, {**headers, **identity})

    def copy_with_url(self, url: str) -> "HttpClient":
        """Return a client with the same credentials for another URL, which must be on the same origin."""
        other = copy.copy(self)
        other.url = url
        return other

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def _follow_redirects(
        self, verb: str, body: bytes, headers: Mapping[str, str], *, is_repeatable: bool = True
    ) -> HttpResponse:
        full = {
            "accept": "application/json, text/event-stream" if verb == "POST" else EVENT_STREAM,
            "accept-encoding": "identity",
            "user-agent": "mcphost",
        }
        if verb == "POST":
            full["content-type"] = "application/json"
        full |= self._configured_headers
        full |= {name.lower(): value for name, value in headers.items()}
        url = self.url
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send_once(verb, url, body, full, is_repeatable)
            if answer.status not in _REDIRECT_STATUSES or not answer.header("location"):
                return answer
            answer.close()
            url = self._resolve_redirect(url, answer)
        raise MalformedMessage(f"The server {self.name!r} redirects more than {MAX_REDIRECTS} times.", server=self.name)

    def _resolve_redirect(self, url: str, answer: HttpResponse) -> str:
        location = answer.header("location")
        try:
            url = join_url(url, location)
            same = parse_origin(url) == self._origin
        except (ValueError, MalformedMessage) as error:
            if answer.logged is not None:
                answer.logged.note("the address of the redirect is not valid")
            raise MalformedMessage(
                f"The server {self.name!r} redirects to {location[:200]!r}, which is not a valid address.",
                server=self.name,
            ) from error
        if not same:
            if answer.logged is not None:
                answer.logged.note("the redirect to another origin was not followed")
            raise MalformedMessage(
                f"The server {self.name!r} redirects to another origin ({url[:200]}), which is not followed.",
                "If that is the right address, set it in mcp.json.",
                server=self.name,
            )
        return url

    async def _send_once(
        self, verb: str, url: str, body: bytes, headers: Mapping[str, str], is_repeatable: bool
    ) -> HttpResponse:
        log, logged = self.message_log, None
        try:
            if log is None:
                connection = await self._pool.request(verb, url, headers.items(), body, is_repeatable=is_repeatable)
            else:
                logged = log.add_exchange(verb, url, (*headers.items(), *self._pool.own_headers(body)), body)
                connection = await self._request_logged(logged, verb, url, body, headers, is_repeatable)
        except RequestNotSent as error:
            if self._pool.is_closed:
                raise RequestNotSent(f"The connection to {self.name!r} was closed.", server=self.name) from error
            unreachable = self._unreachable_error(url, error)
            self.reachability.on_failure(unreachable)
            raise unreachable from error
        except ConnectionLost as error:
            if self._pool.is_closed:
                text = f"The connection to {self.name!r} was closed before it responded."
                raise ResponseInterrupted(text, MAY_HAVE_RUN_HINT, server=self.name) from error
            if isinstance(error.__cause__, RequestNotSent):
                self.reachability.on_failure(self._unreachable_error(url, error.__cause__))
            cause = "" if error.message == CLOSED_TEXT else f": {error.message}"
            raise ResponseInterrupted(
                f"The server {self.name!r} at {url} closed the connection before it responded{cause}.",
                MAY_HAVE_RUN_HINT,
                server=self.name,
            ) from error
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The server {self.name!r} sent an invalid HTTP response: {error.message}.",
                MAY_HAVE_RUN_HINT,
                server=self.name,
            ) from error
        self.reachability.on_success()
        return HttpResponse(connection, self._pool, self.name, logged)

    async def _request_logged(
        self,
        logged: "LoggedExchange",
        verb: str,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        is_repeatable: bool,
    ) -> HttpConnection:
        try:
            connection = await self._pool.request(verb, url, headers.items(), body, is_repeatable=is_repeatable)
        except ServerError as error:
            logged.end("failed", error.message)
            raise
        except BaseException:
            logged.end("closed")
            raise
        logged.on_response(connection.status, connection.headers.items(), resent=connection.is_second_attempt)
        return connection

    def _unreachable_error(self, url: str, error: RequestNotSent) -> RequestNotSent:
        return RequestNotSent(
            f"The server {self.name!r} at {url} cannot be reached: {error.message}.",
            error.hint or "Check the address and that the server is running.",
            server=self.name,
        )


def create_client(
    name: str,
    url: str,
    headers: Mapping[str, str],
    *,
    warn: Callable[[str], None],
    authorizer: Authorizer | None = None,
    ca_file: str = "",
    ca_digest: str = "",
    on_reachability_changed: ReachabilityFn = ignore_reachability,
) -> HttpClient:
    """Create a client for *url* that uses the proxy set in the environment, if any. Raises StartupError.

    - *name*: the server's name.
    - *warn*: called with warnings about the server.
    - *authorizer*: supplies credentials, or None if only *headers* contain any.
    - *ca_file*: a file of certificate authorities to trust in addition to the system's.
    - *ca_digest*: the required SHA-256 of that file in hex, or "" for any.
    - *on_reachability_changed*: called when the server becomes unreachable, and when it is reachable again.
    """
    try:
        scheme, host, _ = parse_origin(url)  # report an invalid URL before anything starts
        for header, value in headers.items():
            if any(character in header + value for character in "\r\n\0"):
                raise MalformedMessage(f"The header {header!r} contains a line break.")
        pool = HttpConnectionPool(url, proxy=proxy_for(url), ca_file=ca_file, ca_digest=ca_digest)
    except MalformedMessage as error:
        raise StartupError(
            f"The server {name!r} cannot be reached. {error.message}",
            error.hint or "Correct it in mcp.json.",
            server=name,
        ) from error
    if scheme == "http" and not is_loopback_host(host):
        warn(
            f"The server {name!r} is reached without encryption: anyone on the network path can read and change the "
            "messages."
        )
    return HttpClient(
        name,
        url,
        headers,
        pool=pool,
        warn=warn,
        authorizer=authorizer,
        on_reachability_changed=on_reachability_changed,
    )
