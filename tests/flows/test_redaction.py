"""Tests that secrets repeated by servers and providers never reach the terminal, the pipe, the log or the store."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.flows.program import CANARY, Program

TELLTALE = """
import os, sys
print("my token is", os.environ["THE_TOKEN"], "and all of it:", dict(os.environ), file=sys.stderr, flush=True)
sys.exit("died with " + os.environ["THE_TOKEN"])
"""


class _Echo(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = f"you sent {self.headers}".encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *args: object) -> None:
        """Do not print requests to standard error."""


@pytest.mark.req("stdio.env-config")
@pytest.mark.parametrize("name", ["telltale", "echo"])
def test_a_secret_echoed_by_a_server_is_never_shown(tmp_path: Path, name: str) -> None:
    program = Program(tmp_path)
    echo = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    Thread(target=echo.serve_forever, daemon=True).start()
    file = program.servers(
        telltale={"command": sys.executable, "args": ["-c", TELLTALE], "env": {"THE_TOKEN": "${env:FROM_HERE}"}},
        echo={"url": f"http://127.0.0.1:{echo.server_address[1]}/mcp", "headers": {"X-Any": "a ${env:FROM_HERE}"}},
    )
    secret = {"FROM_HERE": CANARY, "OPENAI_API_KEY": f"not-for-servers-{CANARY}"}
    error_text = program.error("--mcp-config", file, "--log-level", "debug", "call", name, "t", code=4, **secret)
    assert "[secret]" in error_text
    with program.pipe("--mcp-config", file, **secret) as pipe:
        assert not pipe.ask("connect", server=name)["ok"]
        events = json.dumps(pipe.end())
    echo.shutdown()
    echo.server_close()
    files = [path for folder in ("state", "data") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    stored = b"".join(path.read_bytes() for path in files)
    assert CANARY not in error_text + events
    assert CANARY.encode() not in stored
    assert (b"stderr of the server 'telltale': my token is [secret]" in stored) == (name == "telltale")
