"""HTTP client for OAuth requests that checks addresses and limits response time, size and redirects.

httpx is imported in a thread when the first request is made. For each request, the host name is resolved
once, the addresses are checked, and the connection is made to one of them; this prevents DNS rebinding. A
proxy resolves the name itself, so only the addresses found locally, if any, are checked.
"""

import os
import ssl
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, urlencode, urlunsplit

import anyio
import anyio.to_thread

from mcphost.auth.url_policy import UnsafeUrl, UrlPolicy, check_url, url_origin
from mcphost.config.approval_digest import load_authorities
from mcphost.config.certificate_errors import STANDARD_HINT, violates_standard
from mcphost.errors import ConfigError, MalformedMessage, McpHostError, SignInRequired
from mcphost.http_limits import BodyTooLarge, ResponseLimits, TooManyChunks
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, as_object, encode, loads_or_none
from mcphost.unicode_forms import join_url, split_url

if TYPE_CHECKING:
    from mcphost.http_log import LoggedOAuthRequest
    from mcphost.message_log import MessageLog

REQUEST_TIMEOUT = 10.0
MAX_BODY_BYTES = 1024 * 1024
MAX_LOGGED_BODY = 64 * 1024
"""Maximum size in bytes of a response body whose parameters are named in the log."""
MAX_REDIRECTS = 3
_MAX_CAUSES = 10
_OWN_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "mcphost"}
RETRY_HINT = "Check that it is running and reachable from this machine, then try again."
_REDIRECT_STATUSES = frozenset({301, 302, 307, 308})


class EndpointUnreachable(SignInRequired):
    """Raised when an endpoint does not respond or sends a response that cannot be used."""


class OAuthResponse(Struct, frozen=True):
    """A complete HTTP response. The repr omits the body, which may contain secrets."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"OAuthResponse({self.url.partition('?')[0]!r}, {self.status})"

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def is_busy(self) -> bool:
        """Whether the server is overloaded or failing; the same request may succeed later."""
        return self.status >= 500 or self.status == 429

    @property
    def is_json(self) -> bool:
        """Whether the content type is JSON."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == "application/json" or kind.endswith("+json")

    @property
    def status_text(self) -> str:
        """The HTTP status for error messages; includes the content type if a successful response is not JSON."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip()[:60]
        kind = sanitize(kind, keep_newlines=False) or "no type"
        return f"HTTP {self.status}" + (f" with {kind} instead of JSON" if self.is_success and not self.is_json else "")

    def is_json_object(self) -> bool:
        """Return whether the body is a JSON object."""
        return isinstance(loads_or_none(self.body), dict)

    def json_members(self) -> dict[str, Any]:
        """Return the members of the JSON object in the body, except those that are null.

        The result is empty if the body is not a JSON object.
        """
        members = as_object(loads_or_none(self.body))
        return {name: member for name, member in members.items() if member is not None}


class OAuthHttpClient:
    """HTTP client for all discovery, registration and token requests for one MCP server.

    In every method, *what* describes the URL in error messages.
    """

    def __init__(
        self,
        url_policy: UrlPolicy,
        *,
        proxy_for: Callable[[str], str] = lambda url: "",
        ca_file: str = "",
        find_log: "Callable[[], MessageLog | None]" = lambda: None,
    ) -> None:
        """Create a client that connects only to hosts that *url_policy* allows.

        - *proxy_for*: returns the proxy for a URL, or "" for none.
        - *ca_file*: the path of a file with additional certificate authorities, or "" for none.
        - *find_log*: returns the server's message log, or None if requests are not logged.
        """
        self._find_log = find_log
        self._url_policy = url_policy
        self._ca_file = ca_file
        self._ca_digest = ""
        self._proxy_for = proxy_for
        self._tls_context: ssl.SSLContext | None = None

    def pin_ca_digest(self, digest: str) -> None:
        """Require the certificate authority file to have the SHA-256 *digest* (hex) in all later requests."""
        if digest != self._ca_digest:
            self._ca_digest = digest
            self._tls_context = None

    async def check_url(self, url: str, what: str) -> list[str]:
        """Check a URL and return the addresses of its host, or no addresses if a proxy is used.

        *what* describes the URL in error messages. Raises UnsafeUrl or EndpointUnreachable.
        """
        check_url(url, what)
        try:
            proxied = self._find_proxy(url)
        except MalformedMessage as error:
            raise EndpointUnreachable(f"The {what} cannot be reached: {error.message}") from error
        if proxied:
            await self._url_policy.check_proxied(url, what)
            return []
        return list(await self._url_policy.resolve_addresses(url, what))

    def _find_proxy(self, url: str) -> str:
        """Return the proxy for a URL that `check_url` accepts, or "" for none.

        No proxy is used for http URLs, because `check_url` accepts them only for this machine. Proxy settings do not
        always recognize such a URL as local, for example one with the host `localhost.`.
        """
        return "" if split_url(url).scheme == "http" else self._proxy_for(url)

    async def get(self, url: str, what: str, headers: Mapping[str, str] | None = None) -> OAuthResponse:
        """Send a GET request and follow redirects within the same origin.

        *what* describes the URL in error messages. Raises UnsafeUrl or EndpointUnreachable.
        """
        start = url
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._send("GET", url, what, b"", headers or {})
            target = reply.headers.get("location", "")
            if reply.status not in _REDIRECT_STATUSES or not target:
                return reply
            try:
                url = join_url(url, target)
            except ValueError as error:
                raise UnsafeUrl(
                    f"The {what} {start[:200]!r} redirects to {target[:200]!r}, which is not a valid address.",
                    "The redirect was not followed. Its operator must publish the final address.",
                ) from error
            if url_origin(url) != url_origin(start):
                raise UnsafeUrl(
                    f"The {what} {start[:200]!r} redirects to another origin: {url[:200]!r}.",
                    "The redirect was not followed. Its operator must publish the final address.",
                )
        raise EndpointUnreachable(f"The {what} {start[:200]!r} redirects more than {MAX_REDIRECTS} times.", RETRY_HINT)

    async def post_form(
        self, url: str, form: Mapping[str, str], what: str, headers: Mapping[str, str] | None = None
    ) -> OAuthResponse:
        """Send a POST request with a URL-encoded form; redirects are not followed.

        *what* describes the URL in error messages. Raises UnsafeUrl or EndpointUnreachable.
        """
        all_headers = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        return await self._send("POST", url, what, urlencode(form).encode(), all_headers, form)

    async def post_json(
        self, url: str, value: Any, what: str, headers: Mapping[str, str] | None = None
    ) -> OAuthResponse:
        """Send a POST request with JSON; redirects are not followed.

        *what* describes the URL in error messages. Raises UnsafeUrl or EndpointUnreachable.
        """
        all_headers = {"content-type": "application/json", **(headers or {})}
        return await self._send("POST", url, what, encode(value), all_headers, value)

    async def _send(
        self, method: str, url: str, what: str, body: bytes, headers: Mapping[str, str], parameters: Any = None
    ) -> OAuthResponse:
        """Send a request; if requests are logged, add it to the log with the names of its *parameters*."""
        if (log := self._find_log()) is None:
            return await self._send_unlogged(method, url, what, body, headers)
        logged = log.add_oauth_request(method, url, {**_OWN_HEADERS, **headers}.items())
        names = cast("Mapping[str, object]", parameters) if isinstance(parameters, Mapping) else ()
        logged.set_request(what, names, len(body), is_form="urlencoded" in headers.get("content-type", ""))
        try:
            response = await self._send_unlogged(method, url, what, body, headers)
        except McpHostError as error:
            logged.end("failed", error.message)
            raise
        except BaseException:
            logged.end("closed")
            raise
        _log_response(logged, response)
        return response

    async def _send_unlogged(
        self, method: str, url: str, what: str, body: bytes, headers: Mapping[str, str]
    ) -> OAuthResponse:
        try:
            with anyio.fail_after(REQUEST_TIMEOUT):
                addresses = await self.check_url(url, what)
                proxy = self._find_proxy(url)
                await anyio.to_thread.run_sync(load_httpx)
                if self._tls_context is None and split_url(url).scheme != "http":
                    self._tls_context = await anyio.to_thread.run_sync(self._make_tls_context)
                return await self._send_to_addresses(
                    method, url, what, body, headers, [""] if proxy else addresses, proxy
                )
        except TimeoutError as error:
            raise EndpointUnreachable(
                f"The {what} {url[:200]!r} did not answer within {REQUEST_TIMEOUT:g} s.", RETRY_HINT
            ) from error

    def _make_tls_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._ca_file:
            try:
                load_authorities(context, self._ca_file, self._ca_digest)
            except (ConfigError, ssl.SSLError, ValueError) as error:
                raise EndpointUnreachable(
                    f"The file of certificates {self._ca_file!r} cannot be used: {error}",
                    'Correct "caFile" in mcp.json.',
                ) from error
        return context

    async def _send_to_addresses(
        self,
        method: str,
        url: str,
        what: str,
        body: bytes,
        headers: Mapping[str, str],
        addresses: list[str],
        proxy: str,
    ) -> OAuthResponse:
        import httpx

        parts = split_url(url)
        full = {"host": parts.netloc, **_OWN_HEADERS, **headers}
        timeout = {
            "connect": REQUEST_TIMEOUT / 2,
            "read": REQUEST_TIMEOUT,
            "write": REQUEST_TIMEOUT,
            "pool": REQUEST_TIMEOUT,
        }
        limits = ResponseLimits()
        extensions: dict[str, Any] = {
            "timeout": timeout,
            "sni_hostname": parts.hostname or "",
            "trace": limits.trace,
        }
        # False disables all certificate checks, so it is used only without TLS.
        verify = self._tls_context or parts.scheme != "http"
        transport = httpx.AsyncHTTPTransport(verify=verify, proxy=proxy or None, trust_env=False)
        async with transport:
            for number, address in enumerate(addresses, 1):
                try:
                    target = _url_at_address(parts, address) if address else url
                    request = httpx.Request(method, target, headers=full, content=body, extensions=extensions)
                    response = await transport.handle_async_request(request)
                    return await read_response(response, limits, url, what)
                except httpx.ConnectError as error:
                    if number == len(addresses):
                        raise _make_unreachable(what, url, error) from error
                except MalformedMessage as error:
                    raise EndpointUnreachable(f"The {what} {url[:200]!r} answered with {error.message}.") from error
                except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                    raise _make_unreachable(what, url, error) from error
        raise EndpointUnreachable(f"The {what} {url[:200]!r} cannot be reached.", RETRY_HINT)


def _log_response(logged: "LoggedOAuthRequest", response: OAuthResponse) -> None:
    logged.on_response(response.status, response.headers.items(), resent=False)
    is_short = len(response.body) <= MAX_LOGGED_BODY
    logged.set_response(response.json_members() if is_short else {}, len(response.body))


def load_httpx() -> None:
    """Import httpx without its command-line module, whose imports (click and rich) take most of the import time."""
    sys.modules.setdefault("httpx._main", cast("Any", None))  # its import then raises ImportError, which httpx handles
    import_module("httpx")


def _url_at_address(parts: SplitResult, address: str) -> str:
    """Replace the host name in a URL with a checked address; the Host header and TLS still use the host name."""
    host = f"[{address.partition('%')[0]}]" if ":" in address else address
    return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, parts.query, ""))


async def read_response(response: Any, limits: ResponseLimits, url: str, what: str) -> OAuthResponse:
    """Read a response of at most MAX_BODY_BYTES.

    *limits* are enforced while the body is read. Raises EndpointUnreachable, with *what* in its message.
    """
    headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
    try:
        body = await limits.read_body(response.aiter_raw(), MAX_BODY_BYTES)
    except TooManyChunks as error:
        raise EndpointUnreachable(f"The {what} {url[:200]!r} answered in too many small chunks.") from error
    except BodyTooLarge as error:
        raise EndpointUnreachable(f"The {what} {url[:200]!r} answered with more than 1 MB.") from error
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        body = decompress_body(body, url, what)
    return OAuthResponse(url, int(response.status_code), headers, body)


def decompress_body(body: bytes, url: str, what: str) -> bytes:
    """Return the decompressed body, of at most MAX_BODY_BYTES.

    Raises EndpointUnreachable, with *what* in its message.
    """
    # mcphost requests identity encoding; compressed responses are accepted within memory limits.
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = inflate.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise EndpointUnreachable(f"The {what} {url[:200]!r} answered in an unsupported encoding.") from error
    if len(plain) > MAX_BODY_BYTES:
        raise EndpointUnreachable(f"The {what} {url[:200]!r} answered with more than 1 MB.")
    if body and (not inflate.eof or inflate.unused_data):
        raise EndpointUnreachable(f"The {what} {url[:200]!r} sent incomplete compressed data, or data after its end.")
    return plain


def _make_unreachable(what: str, url: str, error: Exception) -> EndpointUnreachable:
    """Create an EndpointUnreachable error that states the innermost cause of *error*.

    The message of httpx itself is only "All connection attempts failed". *what* describes the URL in the error
    message.
    """
    reason, hint = f"{str(error)[:200] or type(error).__name__}.", RETRY_HINT
    for cause in _iter_causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"its certificate is not accepted: {cause.verify_message or cause.reason}."
            hint = (
                STANDARD_HINT
                if violates_standard(cause)
                else (
                    'If you use your own certificate authority, set "mcphost": {"caFile": "PATH"} for this server '
                    "in mcp.json."
                )
            )
            break
        if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
            reason = f"{os.strerror(cause.errno)}."
    return EndpointUnreachable(f"The {what} {url[:200]!r} cannot be reached: {reason}", hint)


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, including members of exception groups, down to a limited depth."""
    level: list[BaseException] = [error]
    for _ in range(_MAX_CAUSES):
        yield from level
        deeper = [cause for item in level for cause in (item.__cause__, item.__context__) if cause is not None]
        members = [
            member for item in level for member in cast("Sequence[BaseException]", getattr(item, "exceptions", ()))
        ]
        level = [*deeper, *members][:_MAX_CAUSES]
