"""Run the official reference server, server-everything, over HTTP."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.peers import node


@contextmanager
def serve_everything(transport: str) -> Iterator[str]:
    """Run server-everything on a free port with this transport; yield its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    process = subprocess.Popen(
        node.everything_command(transport), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 20
        while time.monotonic() < until and process.poll() is None:
            with socket.socket() as caller:
                if caller.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
