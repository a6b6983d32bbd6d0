"""Listening socket on 127.0.0.1, to which a browser on this machine connects."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

LOOPBACK_HOST = "127.0.0.1"


class LoopbackListener:
    """A listening socket on a port of 127.0.0.1; enter `serve` exactly once, because it also closes the socket."""

    def __init__(self, listener: "anyio.abc.Listener[SocketStream]", port: int) -> None:
        self._listener = listener
        self.port = port

    @asynccontextmanager
    async def serve(self, handle: Callable[[SocketStream], Awaitable[object]]) -> AsyncGenerator[None]:
        """Call *handle* for each connection, in a task of its own, until the `async with` block ends.

        At the end of the block, the tasks are cancelled. An exception raised in the block is passed on unchanged, not
        in an exception group.
        """
        failed: Exception | None = None
        async with self._listener, anyio.create_task_group() as tasks:
            tasks.start_soon(self._listener.serve, handle)
            try:
                yield
            except Exception as error:  # noqa: BLE001 - the task group would wrap it
                failed = error
            tasks.cancel_scope.cancel()
        if failed is not None:
            raise failed


async def listen_on_loopback(port: int = 0) -> LoopbackListener:
    """Listen on a port of 127.0.0.1; 0 selects a free one. Raises OSError if the port is not available."""
    listener = await anyio.create_tcp_listener(local_host=LOOPBACK_HOST, local_port=port)
    return LoopbackListener(listener, int(listener.extra(SocketAttribute.local_port)))  # noqa: S610 - no Django here
