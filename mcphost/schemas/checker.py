"""Checker: whether a value fits a schema, found out within a second whatever the schema does.

The library is fast and cannot be interrupted, and a schema of forty lines can keep it busy for years. So it runs in a
child that is started when first needed, kept, and killed when a check takes too long.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256
from typing import Any, Literal

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from mcphost.data import Data, Raw, decode, encode
from mcphost.errors import MalformedMessage
from mcphost.schemas.bounds import fault

CHECK_SECONDS = 1.0
QUEUE_SECONDS = 2.0
START_SECONDS = 10.0
PATIENCE = 2
VALUE_SIZE = 2 * 1024 * 1024
_ANSWER_SIZE = 64 * 1024
_KEPT_NAMES = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT")
_MOST_SLOW = 1_000


class Fault(Data, frozen=True):
    """One thing that does not fit: where (a JSON pointer, empty for the whole value) and what."""

    path: str
    text: str


class Verdict(Data, frozen=True):
    """What a check found. `why` says, in half a sentence, what kept it from finding out."""

    outcome: Literal["fits", "misfit", "unchecked"]
    faults: tuple[Fault, ...] = ()
    why: str = ""

    @property
    def sentence(self) -> str:
        """All of it in one line; empty when the value fits."""
        if self.outcome == "unchecked":
            return self.why
        return "; ".join(f"{fault.path or 'the value'}: {fault.text}" for fault in self.faults)


class _Answer(Data, frozen=True):
    faults: tuple[tuple[str, str], ...] = ()
    why: str = ""


class Checker:
    """Owns the child. One check runs at a time; `close` ends the child, the next check would start another.

    `seconds` is what one check may take, at most the two seconds after which the child ends itself.
    """

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._seconds = seconds
        self._turn = anyio.Lock()
        self._process: Process | None = None
        self._answers: BufferedByteReceiveStream | None = None
        self._slow: dict[bytes, int] = {}

    @property
    def pid(self) -> int | None:
        """The child's process id while it lives."""
        return None if self._process is None else self._process.pid

    async def check(self, schema: Raw | bytes, value: Any) -> Verdict:
        """Whether `value` (plain data, or JSON as Raw) fits `schema`. Raises nothing but cancellation.

        Takes a second at most, two more when others wait before it, and what starting the child takes. A schema that
        took too long twice is not tried again.
        """
        problem = fault(schema)
        if problem:
            return _unchecked(f"its schema cannot be used: {problem}")
        schema, body = bytes(schema), bytes(value) if isinstance(value, Raw) else encode(value)
        if len(body) > VALUE_SIZE:
            return _unchecked(f"it is over {VALUE_SIZE // 1024**2} MB")
        mark = sha256(schema).digest()
        if self._slow.get(mark, 0) >= PATIENCE:
            return _unchecked("checking against its schema took too long before")
        with anyio.move_on_after(QUEUE_SECONDS) as queue:
            await self._turn.acquire()
        if queue.cancelled_caught:
            return _unchecked("too many checks wait")
        try:
            return await self._check(mark, schema, body)
        finally:
            self._turn.release()

    async def close(self) -> None:
        """End the child; a check that runs ends with it. Idempotent."""
        _end(self._process)
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await self._kill()

    async def _check(self, mark: bytes, schema: bytes, body: bytes) -> Verdict:
        done = False
        try:
            process, answers = await self._started()
            line = b""
            with anyio.move_on_after(self._seconds) as limit:
                assert process.stdin is not None  # noqa: S101
                await process.stdin.send(b"%d %d\n" % (len(schema), len(body)) + schema + body)
                line = await answers.receive_until(b"\n", _ANSWER_SIZE)
            if limit.cancelled_caught:
                if len(self._slow) < _MOST_SLOW:
                    self._slow[mark] = self._slow.get(mark, 0) + 1
                return _unchecked(f"checking it took over {self._seconds:g} s")
            answer = decode(line, _Answer, "answer of the schema checker")
            done = True
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            return _unchecked("the schema checker ended")
        except (anyio.IncompleteRead, anyio.DelimiterNotFound, MalformedMessage):
            return _unchecked("the schema checker gave no answer")
        finally:
            # Half an exchange, also one that was cancelled, leaves the child in a state that nobody knows.
            if not done:
                with anyio.CancelScope(shield=True):
                    await self._kill()
        if answer.why:
            return _unchecked(answer.why)
        faults = tuple(Fault(path, text) for path, text in answer.faults)
        return Verdict("misfit" if faults else "fits", faults)

    async def _started(self) -> tuple[Process, BufferedByteReceiveStream]:
        if self._process is not None and self._answers is not None and self._process.returncode is None:
            return self._process, self._answers
        await self._kill()
        # -P: a file of the current folder must never stand in for a library.
        self._process = process = await anyio.open_process(
            (sys.executable, "-P", "-m", "mcphost.schemas.worker"),
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT_NAMES if name in os.environ},
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101
        self._answers = answers = BufferedByteReceiveStream(process.stdout)
        with anyio.move_on_after(START_SECONDS) as limit:
            await answers.receive_until(b"\n", 64)
        if limit.cancelled_caught:
            raise anyio.EndOfStream
        return process, answers

    async def _kill(self) -> None:
        process, self._process, self._answers = self._process, None, None
        if process is None:
            return
        _end(process)
        await process.wait()
        await process.aclose()


def _end(process: Process | None) -> None:
    """Kill it. Not by its own method: that looks first whether it is gone, and takes the news from the event loop."""
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _unchecked(why: str) -> Verdict:
    return Verdict("unchecked", why=why)
