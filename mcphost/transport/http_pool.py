"""Connections to one origin, straight or through a proxy: made within 10 s, kept for a while, TLS always checked."""

import asyncio
import base64
import functools
import socket
import ssl
import time
from collections.abc import Iterable
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread

from mcphost.config.certificates import add_authorities
from mcphost.errors import ConfigError, ConnectionLost, MalformedMessage, NotSent
from mcphost.transport.http1 import Connection, Stale
from mcphost.transport.mcp_headers import origin
from mcphost.unicode_forms import split_url

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0
IDLE_CONNECTIONS = 20
STALE_SECONDS = 0.5
_SAFE = "%/:=&?~+!$,;'@()*[]"
# A peer that vanished (a suspended laptop, a lost network) is noticed after about two minutes of silence.
_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


class Origin:
    """Connections to one scheme, host and port; no redirects, no cookies."""

    def __init__(self, url: str, *, proxy: str = "", ca_file: str = "", ca_digest: str = "") -> None:
        """`proxy` is the address of one; `ca_file` names certificate authorities besides the system's.

        With a `ca_digest` (SHA-256, hex) that file counts only with this content.

        Raises MalformedMessage for an address that is none.
        """
        self._scheme, self._host, self._port = origin(url)
        self._authority = _authority(self._scheme, self._host, self._port)
        self._proxy = origin(proxy) if proxy else None
        self._credentials = _credentials(proxy)
        self._ca_file = ca_file
        self._ca_digest = ca_digest
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._context: ssl.SSLContext | None = None
        self._closed = False

    async def request(self, verb: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> Connection:
        """Send a request and wait for the head of its answer; `release` what comes back.

        A kept connection that proves closed at once, before any byte of an answer, is replaced, once: the server had
        closed it while it was idle. One that closes later may have read the request. Raises NotSent, ConnectionLost,
        MalformedMessage.
        """
        data = self._head(verb, url, headers, body)
        connection = self._kept()
        if connection is not None:
            sent = time.monotonic()
            try:
                return await self._ask(connection, data)
            except Stale:
                if time.monotonic() - sent > STALE_SECONDS:
                    raise
        return await self._ask(await self._connect(), data)

    async def _ask(self, connection: Connection, data: bytes) -> Connection:
        self._busy.add(connection)
        try:
            connection.start(data)
            await connection.head()
        except BaseException:
            self._busy.discard(connection)
            connection.abort()
            raise
        return connection

    def release(self, connection: Connection) -> None:
        """Take a connection back: kept when its body was read to the end, dropped otherwise."""
        self._busy.discard(connection)
        if connection.complete and connection.usable and not self._closed and len(self._idle) < IDLE_CONNECTIONS:
            connection.used = True
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.abort()

    async def close(self) -> None:
        """Drop everything."""
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()
        self._busy.clear()
        # asyncio closes sockets in the next turn of its loop.
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()

    def _kept(self) -> Connection | None:
        oldest = time.monotonic() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    # -- making one
    async def _connect(self) -> Connection:
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                if self._scheme == "https" or (self._proxy and self._proxy[0] == "https"):
                    await self._prepare()
                return await (self._direct() if self._proxy is None else self._proxied(self._proxy))
        except TimeoutError as error:
            raise NotSent(f"no connection within {CONNECT_SECONDS:.0f} s") from error
        except ssl.SSLCertVerificationError as error:
            raise NotSent(
                f"its certificate cannot be trusted ({error.verify_message or error.reason})",
                'A certificate of your own authority is checked with "mcphost": {"caFile": "PATH"} in mcp.json.',
            ) from error
        except ssl.SSLError as error:
            raise NotSent(f"it does not speak TLS as it should ({error.reason or error})") from error
        except (OSError, ValueError) as error:  # ValueError: a host name that cannot be one
            raise NotSent(str(error) or type(error).__name__) from error

    async def _direct(self) -> Connection:
        context = self._context if self._scheme == "https" else None
        return await _open(self._host, self._port, context)

    async def _proxied(self, proxy: tuple[str, str, int]) -> Connection:
        scheme, host, port = proxy
        try:
            connection = await _open(host, port, self._context if scheme == "https" else None)
        except OSError as error:
            raise NotSent(f"through the proxy at {_authority(*proxy)}: {error}") from error
        if self._scheme != "https":
            return connection
        try:
            target = f"[{self._host}]" if ":" in self._host else self._host
            lines = [f"CONNECT {target}:{self._port} HTTP/1.1", f"host: {target}:{self._port}"]
            if self._credentials:
                lines.append(f"proxy-authorization: {self._credentials}")
            connection.start("\r\n".join([*lines, "\r\n"]).encode(), tunnel=True)
            await connection.head()
            if not 200 <= connection.status < 300:
                raise NotSent(f"the proxy at {_authority(*proxy)} refused with HTTP {connection.status}")
            if self._context is None or connection.transport is None:
                raise NotSent(f"the proxy at {_authority(*proxy)} closed the connection")
            secured = await asyncio.get_running_loop().start_tls(
                connection.transport, connection, self._context, server_hostname=self._host
            )
            connection.secured(secured)
        except (ConnectionLost, MalformedMessage) as error:
            connection.abort()
            if isinstance(error, NotSent):
                raise
            raise NotSent(f"through the proxy at {_authority(*proxy)}: {error.message}") from error
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _prepare(self) -> None:
        """The system's authorities and the configured ones; reading them takes long enough for a thread."""
        if self._context is not None:
            return
        context = await anyio.to_thread.run_sync(functools.partial(ssl.create_default_context))
        if self._ca_file:
            try:
                await anyio.to_thread.run_sync(add_authorities, context, self._ca_file, self._ca_digest)
            except ConfigError as error:
                raise NotSent(
                    f"the file of certificates {self._ca_file!r} cannot be used ({error.message.rstrip('.')})",
                    error.hint,
                ) from error
            except (ssl.SSLError, ValueError) as error:
                raise NotSent(
                    f"the file of certificates {self._ca_file!r} cannot be used ({error})",
                    'It holds certificates in PEM form; correct "caFile" in mcp.json.',
                ) from error
        self._context = context

    def _head(self, verb: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
        target = _target(url)
        if self._proxy is not None and self._scheme == "http":
            target = f"http://{self._authority}{target}"
            if self._credentials:
                headers = (*headers, ("proxy-authorization", self._credentials))
        lines = [f"{verb} {target} HTTP/1.1\r\nhost: {self._authority}"]
        for name, value in headers:
            line = f"{name}: {value}"
            if "\r" in line or "\n" in line or "\0" in line:
                raise MalformedMessage(f"The header {name[:100]!r} holds a line break.")
            lines.append(line)
        if body:
            lines.append(f"content-length: {len(body)}")
        lines.append("\r\n")
        return "\r\n".join(lines).encode(errors="replace") + body


@functools.lru_cache(maxsize=8)
def _target(url: str) -> str:
    parts = split_url(url)
    return quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")


async def _open(host: str, port: int, context: ssl.SSLContext | None) -> Connection:
    # Without happy_eyeballs_delay: cancelled at the wrong moment, that loses an open socket (Python 3.11).
    transport, connection = await asyncio.get_running_loop().create_connection(
        Connection, host, port, ssl=context, server_hostname=host if context else None
    )
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


def _authority(scheme: str, host: str, port: int) -> str:
    host = f"[{host}]" if ":" in host else host
    return host if port == {"http": 80, "https": 443}[scheme] else f"{host}:{port}"


def _credentials(proxy: str) -> str:
    parts = split_url(proxy)
    if not parts.username:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
