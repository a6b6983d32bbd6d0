"""HTTP listener on 127.0.0.1 that receives the authorization response of one sign-in."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from html import escape
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream

from mcphost.auth.loopback_listener import LOOPBACK_HOST, listen_on_loopback
from mcphost.auth.loopback_peers import is_refused_connection
from mcphost.auth.loopback_requests import RequestRejected, read_request
from mcphost.serialization import Struct

MAX_REQUEST_BYTES = 16 * 1024
MAX_CONCURRENT_REQUESTS = 8
MAX_CONNECTIONS = 64
"""Maximum number of open connections; additional ones are closed immediately."""
CONNECTION_TIMEOUT = 5.0
_REJECTIONS = {
    400: ("Invalid request", "The request was not valid."),
    411: ("Length required", "The response of a sign-in has no body."),
    413: ("Request too large", "The response of a sign-in has no body."),
    431: ("Request too large", "The request was too large."),
}
_OTHER_USER_TEXT = (
    "Another user of this machine made this connection, so it is not used. If it was you, paste the address of this "
    "page into mcphost."
)


class AuthorizationResponse(Struct, frozen=True):
    """The query parameters of an authorization response.

    `params` is empty if the query is invalid or repeats a parameter.
    """

    params: dict[str, str]

    def get(self, name: str) -> str:
        """Return the value of a parameter, or "" if it is missing."""
        return self.params.get(name, "")

    def __repr__(self) -> str:
        return f"AuthorizationResponse({sorted(self.params)})"


def parse_authorization_response(url: str) -> AuthorizationResponse:
    """Parse the parameters of a redirect URL, or of its query string alone.

    The values are not registered for redaction here: any web page can send a response, and could otherwise make
    mcphost redact arbitrary text in all output. `auth.interactive_sign_in` registers the code of the accepted response.
    """
    text = url.strip()[:MAX_REQUEST_BYTES]
    query = text.partition("#")[0].rpartition("?")[2]
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return AuthorizationResponse({})
    params = dict(pairs)
    if len(params) != len(pairs):
        return AuthorizationResponse({})
    return AuthorizationResponse(params)


class CallbackServer:
    """HTTP server at the redirect URI of a sign-in, which accepts a single authorization response.

    `expect` sets the condition for accepting a response, and all other responses are rejected. `wait` returns the
    accepted response.
    """

    def __init__(self, port: int, path: str) -> None:
        self.port = port
        self.path = path
        self.redirect_uri = f"http://{LOOPBACK_HOST}:{port}{path}"
        self._done = anyio.Event()
        self._response: AuthorizationResponse | None = None
        self._is_expected: Callable[[AuthorizationResponse], bool] = lambda response: False
        self._slots = anyio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._connection_count = 0

    def expect(self, is_expected: Callable[[AuthorizationResponse], bool]) -> None:
        """Accept the first response for which *is_expected* returns True.

        All responses are rejected until this method is called.
        """
        self._is_expected = is_expected

    async def wait(self) -> AuthorizationResponse:
        """Wait for the accepted response and return it."""
        await self._done.wait()
        if self._response is None:
            raise AssertionError("done without a response")
        return self._response

    async def serve(self, stream: SocketStream) -> None:
        """Handle one connection; close it without a response if 64 other connections are open.

        Connections from other users of this machine are rejected: another user may have read the sign-in URL from the
        browser's command line, and could otherwise sign mcphost in to their own account.
        """
        if self._connection_count >= MAX_CONNECTIONS:
            await stream.aclose()
            return
        self._connection_count += 1
        try:
            # The time to wait for a slot counts, so that silent connections do not keep the browser out for long.
            async with stream:
                with anyio.move_on_after(CONNECTION_TIMEOUT):
                    async with self._slots:
                        if await self._is_foreign(stream):
                            await stream.send(_make_page(403, "Another user", _OTHER_USER_TEXT))
                        else:
                            await self._handle_request(stream)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the peer disconnected
        finally:
            self._connection_count -= 1

    async def _is_foreign(self, stream: SocketStream) -> bool:
        client = stream.extra(SocketAttribute.remote_address)  # noqa: S610 - no Django here
        if not isinstance(client, tuple):
            return False
        return await anyio.to_thread.run_sync(is_refused_connection, (LOOPBACK_HOST, self.port), client[:2])

    async def _handle_request(self, stream: SocketStream) -> None:
        try:
            request = await read_request(stream, body_limit=0)
        except RequestRejected as error:
            await stream.send(_make_page(error.status, *_REJECTIONS[error.status]))
            return
        # Any other Host header is a sign of DNS rebinding: a web page sent the request.
        if request.headers.get("host") != f"{LOOPBACK_HOST}:{self.port}":
            await stream.send(_make_page(421, "Wrong host", "This address only receives the response of a sign-in."))
        elif request.path != self.path or self._response is not None:
            await stream.send(_make_page(404, "Not found", "This address only receives the response of a sign-in."))
        elif request.method != "GET":
            await stream.send(_make_page(405, "Method not allowed", "The response of a sign-in is a GET request."))
        else:
            await self._handle_response(stream, parse_authorization_response(f"?{request.query}"))

    async def _handle_response(self, stream: SocketStream, response: AuthorizationResponse) -> None:
        if not self._is_expected(response):
            await stream.send(_make_page(400, "Unknown response", "This is not the response that mcphost waits for."))
            return
        self._response = response
        is_success = bool(response.get("code"))
        text = "You can close this window and return to mcphost." if is_success else "mcphost shows what went wrong."
        try:
            await stream.send(_make_page(200, "Response received" if is_success else "Not signed in", text))
        finally:
            self._done.set()


@asynccontextmanager
async def run_callback_server(port: int = 0, path: str = "/callback") -> AsyncGenerator[CallbackServer]:
    """Run a callback server on 127.0.0.1 until the `async with` block ends; port 0 selects a free port.

    Raises OSError if the port is not available.
    """
    listener = await listen_on_loopback(port)
    callback = CallbackServer(listener.port, path)
    async with listener.serve(callback.serve):
        yield callback


def _make_page(status: int, title: str, text: str) -> bytes:
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)} - mcphost</title>'
        "<style>body{font:1.1rem system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;color:#222;"
        "background:#fafafa}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}</style>"
        f"<h1>{escape(title)}</h1><p>{escape(text)}</p></html>"
    ).encode()
    head = (
        f"HTTP/1.1 {status} {title}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
        "content-security-policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n"
    )
    return head.encode("ascii") + body
