"""Web application of `mcphost serve`: shows chats in a browser with textual-serve, to the local user only.

A page can do everything that the terminal can, such as approving tool calls, but textual-serve has no access control:
any web page open in a browser on this machine could use its WebSocket. Therefore every URL contains a random key, and
requests from other pages (checked by Origin and Sec-Fetch-Site) or for other host names (DNS rebinding) are rejected.
Other users of the machine can read the key from the browser's command line, so their connections are rejected too.
"""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import aiohttp_jinja2
import anyio.to_thread
import jinja2
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from mcphost.auth.loopback_peers import Endpoint, is_refused_connection
from mcphost.cli.chat import SERVED_DRIVER
from mcphost.errors import UsageError
from mcphost.translation import _

MAX_CHATS = 4
STOP_SECONDS = 15.0
MAX_MESSAGE_BYTES = 1024**2
_MAX_SIDE = 500
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self' {socket}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Content-Security-Policy: the page loads nothing from elsewhere, and no other page may frame it."""

_log = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _HttpLog(logging.LoggerAdapter[logging.Logger]):
    """Logger for aiohttp's server that logs a malformed request as a single line, without the request's content."""

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        """Write a log record; for a malformed request, log only the type and status of the error in `exc_info`.

        The error itself contains the content of the request.
        """
        error = options.get("exc_info")
        if isinstance(error, HttpProcessingError):
            self.logger.warning("malformed HTTP request: %s (HTTP %s)", type(error).__name__, error.code)
        else:
            super().log(level, msg, *args, **options)


class ServedChat(AppService):
    """A chat process whose terminal UI is shown in one browser page."""

    argv: Sequence[str] = ()

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        return {**super()._build_environment(width, height), "TEXTUAL_DRIVER": SERVED_DRIVER}

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # textual-serve would start a shell.
        process = await create_subprocess_exec(
            *self.argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=self._build_environment(width, height)
        )
        self._process, self._stdin = process, process.stdin
        return process

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Tell the chat process the size of the page, within the same limits as when the chat starts."""
        await super().set_terminal_size(_bounded_side(str(width)), _bounded_side(str(height)))

    async def stop(self) -> None:
        """Let the chat save its state and exit; kill it after STOP_SECONDS."""
        process, reader = self._process, self._task
        if process is None or reader is None:
            return
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.send_meta({"type": "quit"})
                # Not textual-serve's own `stop`: it waits for the reader, which ignores the cancellation by the time
                # limit. The reader goes on meanwhile, because a chat that cannot write cannot exit.
                await process.wait()
        except TimeoutError:
            if process.returncode is None:
                process.kill()
                await process.wait()
        finally:
            self._task = None
            reader.cancel()  # a process that the chat started may keep the pipe open
            await asyncio.wait([reader])


class ChatServer(Server):
    """Web server on 127.0.0.1 that serves the chat pages and their WebSockets."""

    def __init__(
        self, argv: Sequence[str], port: int, is_refused: Callable[[Endpoint, Endpoint], bool] = is_refused_connection
    ) -> None:
        """Create a server for *port*; each chat runs the command *argv*.

        *is_refused* is called in a thread with the server's and the client's endpoint of a new connection, and
        returns whether to reject the connection.
        """
        super().__init__("mcphost", "127.0.0.1", port)  # pyright: ignore[reportUnknownMemberType]
        self._argv = argv
        self._port = port
        self._is_refused = is_refused
        self._place = f"127.0.0.1:{port}"
        self._path = f"/{secrets.token_urlsafe(24)}"
        self._open_chats = 0

    @property
    def address(self) -> str:
        """The URL that the user opens; it contains the random key."""
        return f"{self.public_url}{self._path}/"

    def make_app(self) -> web.Application:
        """Return the web application, which serves only paths that begin with the address's secret key."""
        app = web.Application(middlewares=[self._guard], client_max_size=MAX_MESSAGE_BYTES)
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(self.templates_path))
        app.add_routes([
            web.get(f"{self._path}/", self.handle_index, name="index"),
            web.get(f"{self._path}/ws", self.handle_websocket, name="websocket"),
            web.static(f"{self._path}/static", self.statics_path, name="static"),
        ])  # fmt: skip
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests from other users and web pages, and add headers that restrict what the chat page may load."""
        peer = request.transport.get_extra_info("peername") if request.transport is not None else None
        if not isinstance(peer, tuple):
            return web.Response(status=403, text="The connection was closed.\n")
        client: Endpoint = cast("tuple[Any, ...]", peer)[:2]
        if await anyio.to_thread.run_sync(self._is_refused, ("127.0.0.1", self._port), client):
            return web.Response(status=403, text="Another user of this machine made this connection.\n")
        hosts, origins, sites = (request.headers.getall(name, []) for name in ("Host", "Origin", "Sec-Fetch-Site"))
        # aiohttp is more tolerant about the value of "Upgrade", so only its presence counts.
        is_ours = origins == [self.public_url] or (not origins and "Upgrade" not in request.headers)
        is_same_site = sites in ([], ["same-origin"], ["none"])
        if hosts != [self._place] or not is_ours or not is_same_site:
            return web.Response(status=403, text="This address is only for the page that mcphost printed.\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update({
                "Cache-Control": "no-store",
                "Content-Security-Policy": _POLICY.format(socket=f"ws://{self._place}"),
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
            })  # fmt: skip
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Start a chat and connect it to the page until either of them ends.

        Responds with 503 if MAX_CHATS chats are already open.
        """
        if self._open_chats >= MAX_CHATS:
            raise web.HTTPServiceUnavailable(text=f"{MAX_CHATS} chats are open; close one.\n")
        self._open_chats += 1
        try:
            return await self._connect_chat(request)
        finally:
            self._open_chats -= 1

    async def _connect_chat(self, request: web.Request) -> web.WebSocketResponse:
        page = web.WebSocketResponse(heartbeat=15, max_msg_size=MAX_MESSAGE_BYTES)
        width, height = (_bounded_side(request.query.get(name, "")) for name in ("width", "height"))
        await page.prepare(request)

        async def close_page() -> None:
            await page.close()

        chat = ServedChat(
            "mcphost", write_bytes=page.send_bytes, write_str=page.send_str, close=close_page,
            download_manager=self.download_manager,
        )  # fmt: skip
        chat.argv = self._argv
        try:
            await chat.start(width, height)
            # Only a page that is not mcphost's sends anything but textual-serve's messages; its chat ends.
            with suppress(ValueError, AssertionError, LookupError, TypeError, AttributeError):
                await self._process_messages(page, chat)
        finally:
            await chat.stop()
            await page.close()
        return page


def serve_chats(argv: Sequence[str], port: int) -> int:
    """Serve chats until SIGINT, SIGTERM or SIGHUP is received; return the exit code. Blocks.

    Each chat is started with the command line *argv*. *port* 0 means any free port. Raises UsageError if the port is in
    use.
    """
    return asyncio.run(_serve(argv, port))


async def _serve(argv: Sequence[str], port: int) -> int:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise UsageError(f"Port {port} cannot be used: {reason}.", "Choose another --port.") from error
        server = ChatServer(argv, listener.getsockname()[1])
        runner = web.AppRunner(
            server.make_app(), access_log=None, logger=_HttpLog(_log), shutdown_timeout=STOP_SECONDS + 1
        )
        await runner.setup()
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        try:
            await web.SockSite(runner, listener).start()
            sys.stderr.write(
                _("Open this page. Anyone who has its address can do what you can. Ctrl+C ends all chats.\n")
            )
            sys.stdout.write(f"{server.address}\n")
            sys.stdout.flush()
            await stopped.wait()
        finally:
            await runner.cleanup()
    return 0


def _bounded_side(text: str) -> int:
    return max(1, min(_MAX_SIDE, to_int(text[:9], 80)))
