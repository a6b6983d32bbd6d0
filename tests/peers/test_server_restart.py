"""Tests for an HTTP server that is killed and restarted during a session, which the new process does not know."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.protocol.tools import CallTool
from tests.peers import node
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text

pytestmark = [pytest.mark.peer, pytest.mark.anyio, pytest.mark.usefixtures("npm_peers")]


@contextmanager
def run_everything(port: int) -> Iterator[None]:
    environment = {**os.environ, "PORT": str(port)}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        node.everything_command("streamableHttp"), env=environment, stdout=quiet, stderr=quiet
    ) as server:
        try:
            until = time.monotonic() + 20
            while time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", port), 0.2).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield
        finally:
            server.kill()


@pytest.mark.req("http.session.404-reinit", "http.session.400")
async def test_a_call_after_a_restart_succeeds_in_a_new_session() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    observer = RecordingObserver()
    with ExitStack() as first:
        first.enter_context(run_everything(port))
        config = ServerConfig(name="everything", url=f"http://127.0.0.1:{port}/mcp")
        async with ClientSessionOpener().open(config, FakeRequestHandler(), observer) as session:
            assert single_text(await session.request(CallTool("echo", {"message": "a"}))) == "Echo: a"
            first.close()
            with run_everything(port):
                assert single_text(await session.request(CallTool("echo", {"message": "b"}))) == "Echo: b"
    assert [text for text in observer.warnings if "no longer knows the session" in text]
