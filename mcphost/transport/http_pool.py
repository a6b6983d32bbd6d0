"""Pool of reusable HTTP connections to one origin, direct or through a proxy, with TLS verification."""

import asyncio
import base64
import functools
import os
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread

from mcphost.config.approval_digest import load_authorities
from mcphost.config.certificate_errors import STANDARD_HINT, violates_standard
from mcphost.errors import ConfigError, ConnectionLost, MalformedMessage, RequestNotSent
from mcphost.transport.http1_connection import HttpConnection, StaleConnection
from mcphost.transport.mcp_headers import parse_origin
from mcphost.unicode_forms import split_url

CONNECT_TIMEOUT = 10.0
IDLE_TIMEOUT = 30.0
MAX_IDLE_CONNECTIONS = 20
STALE_WINDOW = 0.5
MAX_IDLE_FOR_CALLS = 4.0
"""Seconds after which a kept connection is closed instead of used for a request that must not run twice, because many
servers close connections that were idle for five seconds."""
_UNQUOTED_CHARACTERS = "%/:=&?~+!$,;'@()*[]"
# A peer that has vanished (a suspended laptop, a lost network) is detected after about two minutes of silence.
_KEEPALIVE_OPTIONS = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


class HttpConnectionPool:
    """Pool of connections to one origin (scheme, host and port); ignores redirects and stores no cookies."""

    def __init__(
        self, url: str, *, proxy: str = "", ca_file: str = "", ca_digest: str = "", addresses: Sequence[str] = ()
    ) -> None:
        """Create a pool; *proxy* is the URL of a proxy, or "" for none.

        - *ca_file*: a file of certificate authorities to trust in addition to the system's.
        - *ca_digest*: the SHA-256 in hex that *ca_file* must have, or "" for any. If it differs, no connection is
          opened.
        - *addresses*: IP addresses of the host that the caller has checked. Direct connections are then made only to
          these, without another lookup of the host name. TLS still verifies the host name.

        Raises MalformedMessage for an invalid URL.
        """
        self._scheme, self._host, self._port = parse_origin(url)
        self._authority = _authority(self._scheme, self._host, self._port)
        self._proxy = parse_origin(proxy) if proxy else None
        self._proxy_authorization = _proxy_credentials(proxy)
        self._ca_file = ca_file
        self._ca_digest = ca_digest
        self._addresses = tuple(addresses)
        self._idle: list[HttpConnection] = []
        self._busy: set[HttpConnection] = set()
        self._ssl_context: ssl.SSLContext | None = None
        self._closed = False

    async def request(
        self, verb: str, url: str, headers: Iterable[tuple[str, str]], body: bytes, *, is_repeatable: bool = True
    ) -> HttpConnection:
        """Send a request, and wait for the status and headers of the response.

        The caller must pass the returned connection to `release` afterwards.

        If a reused connection is closed within STALE_WINDOW seconds, before any byte of the response arrives, it was
        probably idle for too long. The request is then sent once more on a new connection, unless the pool has been
        closed, or *is_repeatable* is False because the server must not handle the request twice.

        Raises RequestNotSent if the request was not sent, ConnectionLost if the server may have received it but did not
        respond, and MalformedMessage if the response is invalid.
        """
        data = self._build_request(verb, url, headers, body)
        connection = self._take_idle(IDLE_TIMEOUT if is_repeatable else MAX_IDLE_FOR_CALLS)
        if connection is not None:
            sent = time.monotonic()
            try:
                return await self._send_request(connection, data)
            except StaleConnection as error:
                if self._closed or not is_repeatable or time.monotonic() - sent > STALE_WINDOW:
                    raise
                return await self._send_again(data, error)
        return await self._send_request(await self._connect(), data)

    async def _send_again(self, data: bytes, first: StaleConnection) -> HttpConnection:
        """Send a request again, on a new connection.

        *first* is the error that occurred on the first connection.
        """
        try:
            connection = await self._send_request(await self._connect(), data)
        except RequestNotSent as error:
            # The first connection may have delivered the request.
            raise ConnectionLost(f"{first.message}, and no new one could be opened: {error.message}") from error
        connection.is_second_attempt = True
        return connection

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called. A closed pool sends no more requests."""
        return self._closed

    async def test_connection(self) -> None:
        """Open a connection to the server and close it again. Raises RequestNotSent."""
        (await self._connect()).abort()

    async def _send_request(self, connection: HttpConnection, data: bytes) -> HttpConnection:
        if self._closed:
            connection.abort()
            raise RequestNotSent("the connection was closed")
        self._busy.add(connection)
        try:
            connection.send_request(data)
            await connection.read_head()
        except BaseException:
            self._busy.discard(connection)
            connection.abort()
            raise
        return connection

    def release(self, connection: HttpConnection) -> None:
        """Keep a connection for later requests if the response was read to its end; otherwise, close it."""
        self._busy.discard(connection)
        if (
            connection.is_complete
            and connection.is_usable
            and not self._closed
            and len(self._idle) < MAX_IDLE_CONNECTIONS
        ):
            connection.is_reused = True
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.abort()

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()
        self._busy.clear()
        # asyncio closes sockets in the next iteration of its loop.
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()

    def _take_idle(self, seconds: float) -> HttpConnection | None:
        """Return a usable connection that was idle for less than *seconds*, or None.

        Connections that are not usable or were idle for longer are closed, so that they do not fill the pool.
        """
        oldest = time.monotonic() - seconds
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    # -- connecting
    async def _connect(self) -> HttpConnection:
        try:
            with anyio.fail_after(CONNECT_TIMEOUT):
                if self._scheme == "https" or (self._proxy and self._proxy[0] == "https"):
                    await self._load_certificates()
                return await (self._connect_directly() if self._proxy is None else self._connect_by_proxy(self._proxy))
        except TimeoutError as error:
            raise RequestNotSent(f"no connection within {CONNECT_TIMEOUT:.0f} s") from error
        except ssl.SSLCertVerificationError as error:
            raise RequestNotSent(
                f"its certificate cannot be trusted ({error.verify_message or error.reason})",
                STANDARD_HINT
                if violates_standard(error)
                else 'If the certificate is from your own authority, set "mcphost": {"caFile": "PATH"} in mcp.json.',
            ) from error
        except ssl.SSLError as error:
            raise RequestNotSent(f"the TLS handshake failed ({error.reason or error})") from error
        except (OSError, ValueError) as error:  # ValueError: an invalid host name
            raise RequestNotSent(_describe_failure(error)) from error

    async def _connect_directly(self) -> HttpConnection:
        context = self._ssl_context if self._scheme == "https" else None
        for address in self._addresses[:-1]:
            with suppress(OSError):
                return await _open_connection(address, self._port, context, self._host)
        address = self._addresses[-1] if self._addresses else self._host
        return await _open_connection(address, self._port, context, self._host)

    async def _connect_by_proxy(self, proxy: tuple[str, str, int]) -> HttpConnection:
        scheme, host, port = proxy
        try:
            connection = await _open_connection(host, port, self._ssl_context if scheme == "https" else None, host)
        except OSError as error:
            raise RequestNotSent(f"through the proxy at {_authority(*proxy)}: {_describe_failure(error)}") from error
        if self._scheme != "https":
            return connection
        try:
            target = f"[{self._host}]" if ":" in self._host else self._host
            lines = [f"CONNECT {target}:{self._port} HTTP/1.1", f"host: {target}:{self._port}"]
            if self._proxy_authorization:
                lines.append(f"proxy-authorization: {self._proxy_authorization}")
            connection.send_request("\r\n".join([*lines, "\r\n"]).encode(), tunnel=True)
            await connection.read_head()
            if not 200 <= connection.status < 300:
                raise RequestNotSent(f"the proxy at {_authority(*proxy)} refused with HTTP {connection.status}")
            if self._ssl_context is None or connection.transport is None:
                raise RequestNotSent(f"the proxy at {_authority(*proxy)} closed the connection")
            secured = await asyncio.get_running_loop().start_tls(
                connection.transport, connection, self._ssl_context, server_hostname=self._host
            )
            connection.set_tls_transport(secured)
        except (ConnectionLost, MalformedMessage) as error:
            connection.abort()
            if isinstance(error, RequestNotSent):
                raise
            raise RequestNotSent(f"through the proxy at {_authority(*proxy)}: {error.message}") from error
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _load_certificates(self) -> None:
        """Load the certificate authorities of the system and the configuration, in a thread because this is slow."""
        if self._ssl_context is not None:
            return
        context = await anyio.to_thread.run_sync(functools.partial(ssl.create_default_context))
        if self._ca_file:
            try:
                await anyio.to_thread.run_sync(load_authorities, context, self._ca_file, self._ca_digest)
            except ConfigError as error:
                raise RequestNotSent(
                    f"the file of certificates {self._ca_file!r} cannot be used ({error.message.rstrip('.')})",
                    error.hint,
                ) from error
            except (ssl.SSLError, ValueError) as error:
                raise RequestNotSent(
                    f"the file of certificates {self._ca_file!r} cannot be used ({error})",
                    'It must contain certificates in PEM form; correct "caFile" in mcp.json.',
                ) from error
        self._ssl_context = context

    def own_headers(self, body: bytes) -> tuple[tuple[str, str], ...]:
        """Return the headers that `request` adds to the caller's headers, so that the added headers can be logged.

        They may contain credentials, such as the password of a proxy.
        """
        own = [("host", self._authority)]
        if self._proxy is not None and self._scheme == "http" and self._proxy_authorization:
            own.append(("proxy-authorization", self._proxy_authorization))
        return (*own, ("content-length", str(len(body)))) if body else tuple(own)

    def _build_request(self, verb: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
        target = _request_target(url)
        if self._proxy is not None and self._scheme == "http":
            target = f"http://{self._authority}{target}"
            if self._proxy_authorization:
                headers = (*headers, ("proxy-authorization", self._proxy_authorization))
        lines = [f"{verb} {target} HTTP/1.1\r\nhost: {self._authority}"]
        for name, value in headers:
            line = f"{name}: {value}"
            if "\r" in line or "\n" in line or "\0" in line:
                raise MalformedMessage(f"The header {name[:100]!r} contains a line break.")
            lines.append(line)
        if body:
            lines.append(f"content-length: {len(body)}")
        lines.append("\r\n")
        return "\r\n".join(lines).encode(errors="replace") + body


@functools.lru_cache(maxsize=8)
def _request_target(url: str) -> str:
    parts = split_url(url)
    return quote(parts.path or "/", safe=_UNQUOTED_CHARACTERS) + (
        f"?{quote(parts.query, safe=_UNQUOTED_CHARACTERS)}" if parts.query else ""
    )


async def _open_connection(address: str, port: int, context: ssl.SSLContext | None, host: str) -> HttpConnection:
    """Connect to a host name or IP address; with TLS, the certificate must be valid for *host*. Raises OSError."""
    # No happy_eyeballs_delay: it leaks an open socket if it is cancelled at the wrong moment (Python 3.11).
    transport, connection = await asyncio.get_running_loop().create_connection(
        HttpConnection, address, port, ssl=context, server_hostname=host if context else None
    )
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE_OPTIONS:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


def _authority(scheme: str, host: str, port: int) -> str:
    host = f"[{host}]" if ":" in host else host
    return host if port == {"http": 80, "https": 443}[scheme] else f"{host}:{port}"


def _proxy_credentials(proxy: str) -> str:
    parts = split_url(proxy)
    if not parts.username:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _describe_failure(error: OSError | ValueError) -> str:
    """Return the reason why a connection failed, without the error number and address that asyncio adds."""
    number = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
    if number:
        return os.strerror(number)
    return getattr(error, "strerror", "") or str(error) or type(error).__name__
