"""Fixtures that share one worker process and event loop per test file, because importing litellm takes seconds.

They are not shared by the whole session: asynchronous fixtures of a wider scope share anyio's runner, and after one
test cancels it, all later tests fail.
"""

import os
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from mcphost.llm import worker_client
from mcphost.llm.worker_client import WorkerProcess
from tests.flows.fork_server import model_worker_command
from tests.peers.models.raw_provider import RawProvider
from tests.peers.node import PeersMissing, aimock_command

LOG: list[str] = []


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def worker(anyio_backend: str) -> AsyncGenerator[WorkerProcess]:
    """Run the real model worker, without the API keys of the developer's environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_client, "WORKER_COMMAND", model_worker_command())
        process = WorkerProcess(LOG.append)
        await process.ensure_ready()
        yield process
        await process.close()


@pytest.fixture(scope="session")
def aimock_url() -> Generator[str]:
    """Run aimock, an npm program that imitates model providers; yield its base URL."""
    try:
        command = aimock_command()
    except PeersMissing as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"PEER MISSING: {reason}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    fixtures = Path(__file__).with_name("fixtures.json")
    child = subprocess.Popen(
        [*command, "-p", str(port), "-h", "127.0.0.1", "-f", str(fixtures), "--log-level", "warn", "-c", "8"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_open(port, child)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.wait()


def wait_until_open(port: int, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert child.poll() is None, "aimock ended at start"
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("aimock did not open its port in 20 s")


@pytest.fixture
async def raw_provider(anyio_backend: str) -> AsyncGenerator[tuple[RawProvider, str]]:
    """Run a RawProvider; yield it and its base URL."""
    ours = RawProvider()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    faults: list[Exception] = []

    async def handle(stream: SocketStream) -> None:
        try:
            await ours.handle(stream)
        except Exception as error:  # noqa: BLE001 - would cancel the test and with it anyio's runner
            faults.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, handle)
        yield ours, f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()
    await listener.aclose()
    assert faults == []
