"""Tests that cancelling a server's start at any step ends its process and closes its pipes."""

import gc
import sys
import warnings

import anyio
import anyio.lowlevel
import pytest

from mcphost.transport.stdio import StdioConnector

PEER = (sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.buffer.read()")
"""A server that ends with its input, so that no test waits for the signals that end other servers."""


@pytest.mark.parametrize("steps", range(12))
def test_a_start_that_is_cancelled_leaves_no_process_and_no_open_pipe(steps: int) -> None:
    async def connect() -> None:
        connector = StdioConnector("peer", PEER, {}, on_stderr=lambda _: None, warn=lambda _: None)
        async with connector.connect():
            await anyio.sleep_forever()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connect)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        anyio.run(main)  # a separate loop, whose closing reveals what was left open
        gc.collect()
    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []
