"""An HTTP server on loopback that responds with prepared JSON for each path and records the requests."""

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class RecordedRequest(tuple[str, str, Any, dict[str, str]]):
    """A recorded request: method, path, JSON body (None if there was none), and headers with lower-case names."""

    __slots__ = ()


class JsonServer(ThreadingHTTPServer):
    """A server with a prepared response for each `METHOD /path`: JSON data, raw bytes, or a status without a body.

    A tuple of a status and a URL is a redirect. A function is called with the JSON body of the request, and returns one
    of these values.
    """

    daemon_threads = True

    def __init__(self, answers: Mapping[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = dict(answers)
        self.requests: list[RecordedRequest] = []

    @property
    def url(self) -> str:
        """The base URL of the server, without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def paths(self) -> list[str]:
        """The recorded requests in the form `METHOD /path`."""
        return [f"{request[0]} {request[1]}" for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    server: JsonServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(RecordedRequest((self.command, self.path, body, headers)))
        answer = self.server.answers.get(f"{self.command} {self.path}", 404)
        if callable(answer):
            answer = answer(body)
        status, location = answer if isinstance(answer, tuple) else (answer if isinstance(answer, int) else 200, "")
        content = (
            answer
            if isinstance(answer, bytes)
            else b""
            if isinstance(answer, int | tuple)
            else json.dumps(answer).encode()
        )
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Do not print requests to standard error."""


@contextmanager
def json_server(answers: Mapping[str, Any]) -> Generator[JsonServer]:
    """Run a server with these responses until the block ends."""
    server = JsonServer(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
