"""A worker process that handles one request at a time, and is killed if it takes too long.

The process runs libraries that handle untrusted input and cannot be interrupted: they are usually fast, but
some input keeps them busy for years or crashes them. The process is started on demand and reused.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Literal

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

QUEUE_TIMEOUT = 2.0
START_TIMEOUT = 10.0
_INHERITED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SYSTEMROOT",
)

SandboxFailure = Literal["busy", "slow", "ended", "silent"]
"""Why a request failed: the queue was too long, it took too long, the process ended, or the response was invalid."""


class SandboxProcess:
    """A worker process (`python -m MODULE`) that is started by the first request.

    The module must print a line when it is ready, read requests from standard input, and respond to each with one line.
    After `close`, the next request starts a new process.

    - *timeout*: the maximum number of seconds until a response.
    - *queue_timeout*: the maximum number of seconds that a request waits for earlier ones.
    - *max_response_size*: the maximum size of a response in bytes.
    """

    def __init__(
        self, module: str, *, timeout: float, max_response_size: int, queue_timeout: float = QUEUE_TIMEOUT
    ) -> None:
        self._module, self._timeout, self._max_response_size = module, timeout, max_response_size
        self._queue_timeout = queue_timeout
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._responses: BufferedByteReceiveStream | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the worker, or None if the worker is not running."""
        return None if self._process is None else self._process.pid

    async def request(self, body: bytes) -> bytes | SandboxFailure:
        """Send a request, and return the response line or the kind of failure. Never raises an error.

        Safe to cancel; cancelling a request in progress kills the process.
        """
        with anyio.move_on_after(self._queue_timeout) as queue:
            await self._lock.acquire()
        if queue.cancelled_caught:
            return "busy"
        try:
            return await self._exchange(body)
        finally:
            self._lock.release()

    async def close(self) -> None:
        """Kill the process, abandoning any request in progress. Idempotent."""
        _send_kill(self._process)
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._kill()

    async def _exchange(self, body: bytes) -> bytes | SandboxFailure:
        done = False
        try:
            process, answers = await self._ensure_started()
            line = b""
            with anyio.move_on_after(self._timeout) as limit:
                assert process.stdin is not None  # noqa: S101
                await process.stdin.send(body)
                line = await answers.receive_until(b"\n", self._max_response_size)
            done = not limit.cancelled_caught
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            return "ended"
        except (anyio.IncompleteRead, anyio.DelimiterNotFound):
            return "silent"
        finally:
            # After an incomplete or cancelled exchange, the state of the process is unknown.
            if not done:
                with anyio.CancelScope(shield=True):
                    await self._kill()
        return line if done else "slow"

    async def _ensure_started(self) -> tuple[Process, BufferedByteReceiveStream]:
        if self._process is not None and self._responses is not None and self._process.returncode is None:
            return self._process, self._responses
        await self._kill()
        # -P: a file in the current folder must never be imported instead of a library.
        self._process = process = await anyio.open_process(
            (sys.executable, "-P", "-m", self._module),
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101
        self._responses = answers = BufferedByteReceiveStream(process.stdout)
        with anyio.move_on_after(START_TIMEOUT) as limit:
            await answers.receive_until(b"\n", 64)
        if limit.cancelled_caught:
            raise anyio.EndOfStream
        return process, answers

    async def _kill(self) -> None:
        process, self._process, self._responses = self._process, None, None
        if process is None:
            return
        _send_kill(process)
        await process.wait()
        await process.aclose()


def _send_kill(process: Process | None) -> None:
    """Send SIGKILL to the process, if it is running.

    The `kill` method of the process object is not used, because it would reap the process, and the event loop would
    miss its exit.
    """
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
