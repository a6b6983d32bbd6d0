"""WorkerProcess: owns the model worker; starts it when first needed, carries calls, ends it within a second.

No task runs in the background: the event loop's own pipe callbacks sort the notes into the calls they belong to. What
a call leaves unread is bounded by the limit on its size in `remote`.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio

from mcphost.child_watcher import install_pidfd_watcher
from mcphost.errors import MalformedMessage, ModelError
from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import MAX_LINE, AnswerMeter, AnswerTooLong
from mcphost.llm.litellm_errors import flatten

# -P: a file of the current folder must never stand in for a library
COMMAND = (sys.executable, "-P", "-m", "mcphost.llm.worker")
"""The worker's command line."""
START_LIMIT = 180.0
"""Seconds for importing litellm; 6 are usual, a cold disk and a busy machine are not."""
MAX_STDERR_LINE = 2_000
CLOSE_LIMIT = 0.6
"""Seconds between closing the worker's input and killing its group."""

KEPT_NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "TEMP",
        "TMP",
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        # Windows cannot open a socket without SYSTEMROOT and finds the home folder by the others
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "WINDIR",
        "COMSPEC",
        "PATHEXT",
        "USERPROFILE",
        "APPDATA",
        "LOCALAPPDATA",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "AWS_CA_BUNDLE",
    }
)
KEPT_PREFIXES = ("LC_", "AWS_", "AZURE_", "VERTEX_", "VERTEXAI_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "XDG_")
KEPT_SUFFIXES = ("_API_BASE", "_BASE_URL", "_API_VERSION", "_ORGANIZATION", "_API_TYPE")
"""Provider settings that are no secrets and that the roads read by themselves (a proxy, a region's address)."""


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the worker gets of our environment.

    Bedrock, Azure and Vertex sign requests with credentials that their libraries read from AWS_*, AZURE_* and GOOGLE_*
    variables or from files in the home folder, so those pass. API keys do not, wherever they stand: they travel with
    each call.
    """
    kept: dict[str, str] = {}
    for name, value in environ.items():
        upper = name.upper()
        if upper.endswith("_API_KEY"):
            continue
        if upper in KEPT_NAMES or upper.startswith(KEPT_PREFIXES) or upper.endswith(KEPT_SUFFIXES):
            kept[name] = value
    return kept


class Call:
    """One request's notes, in order. Stop it as soon as nobody wants them."""

    def __init__(self, worker: "WorkerProcess", number: int) -> None:
        self._worker = worker
        self.number = number
        self._notes: deque[worker_protocol.Note] = deque()
        self._meter = AnswerMeter()
        self._news = asyncio.Event()

    def put(self, note: worker_protocol.Note, size: int = 0) -> None:
        """Add a note whose line had so many bytes; past the bounds of an answer the call is dropped."""
        try:
            self._meter.add(size)
        except AnswerTooLong as error:
            note = worker_protocol.Failed(self.number, flatten(error))
            self.stop()
        self._notes.append(note)
        self._news.set()

    async def get(self, limit: float) -> worker_protocol.Note | None:
        """The next note, or None when `limit` seconds passed without one."""
        if not self._notes:
            self._news.clear()
            with anyio.move_on_after(limit):
                await self._news.wait()
        return self._notes.popleft() if self._notes else None

    def stop(self) -> None:
        """Drop the call; the worker closes its connection to the provider at once. May be called twice."""
        self._worker.drop(self.number)


class WorkerProcess:
    """The one worker, shared by all models. Create it in a running application; nothing starts until `ready`."""

    def __init__(self, log: Callable[[str], None], environ: Mapping[str, str] | None = None) -> None:
        self._log = log
        self._environ = environ
        self._starting = anyio.Lock()
        self._life: _Life | None = None
        self._calls: dict[int, Call] = {}
        self._last = worker_protocol.READY_ID

    @property
    def pid(self) -> int | None:
        """The process, while it lives."""
        return self._life.pid if self._life and self._life.ended is None else None

    async def ready(self) -> str:
        """Start the worker unless it runs, wait until litellm is imported and return its version.

        Raises ModelError. Cancelling leaves the worker starting, so that the next call finds it further on.
        """
        async with self._starting:
            if self._life is None or self._life.ended is not None:
                await self._start()
        life = self._life
        assert life is not None  # noqa: S101
        with anyio.move_on_after(START_LIMIT):
            await life.settled.wait()
        if life.version:
            return life.version
        self._life = None
        if life.ended is None:
            life.kill()
            raise ModelError("The model worker did not start in time.", "Try again; the log has its output.")
        raise life.broken()

    def send(self, command: worker_protocol.Command, number: int) -> None:
        """Write one command. The worker must be ready."""
        life = self._life
        if life is None or life.ended is not None:
            call = self._calls.get(number)
            if call is not None:
                call.put(worker_died(number, life.last_words if life else ""))
            return
        life.write(worker_protocol.line_of(command))

    def begin(self) -> Call:
        """A fresh call; send its command with `send`, and `stop` it in the end."""
        self._last += 1
        call = self._calls[self._last] = Call(self, self._last)
        return call

    def drop(self, number: int) -> None:
        """Forget a call and let the worker stop it."""
        if self._calls.pop(number, None) is not None and self._life is not None and self._life.ended is None:
            self._life.write(worker_protocol.line_of(worker_protocol.Command(op="stop", id=number)))

    async def close(self) -> None:
        """End the worker: within a second, whatever it does. It would start again with the next call."""
        life, self._life = self._life, None
        if life is None:
            return
        with anyio.CancelScope(shield=True):
            await life.close()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        environ = worker_environment(os.environ if self._environ is None else self._environ)
        install_pidfd_watcher()
        try:
            _transport, self._life = await loop.subprocess_exec(
                lambda: _Life(self._note, self._log, self._end),
                *COMMAND,
                env=environ,
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            raise ModelError("The model worker could not be started.", details=str(error)) from error

    def _note(self, note: worker_protocol.Note, size: int) -> None:
        call = self._calls.get(note.id)
        if call is not None:
            call.put(note, size)

    def _end(self, life: "_Life") -> None:
        if life.closing:
            return
        self._log(f"model worker ended with {life.ended}: {life.last_words}")
        for number, call in tuple(self._calls.items()):
            call.put(worker_died(number, life.last_words))


def worker_died(number: int, last_words: str) -> worker_protocol.Failed:
    """What every open call is told when the worker is gone."""
    return worker_protocol.Failed(number, worker_protocol.Failure(classes=("mcphost.WorkerDied",), message=last_words))


class _Life(asyncio.SubprocessProtocol):
    """One run of the worker, from start to exit."""

    def __init__(
        self,
        note: Callable[[worker_protocol.Note, int], None],
        log: Callable[[str], None],
        end: Callable[["_Life"], None],
    ) -> None:
        self._note = note
        self._log = log
        self._end = end
        self._transport: asyncio.SubprocessTransport | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._errors = b""
        self._why: worker_protocol.Failure | None = None
        self._gone = asyncio.Event()
        self.settled = asyncio.Event()
        self.version = ""
        self.pid = 0
        self.ended: int | None = None
        self.closing = False
        self.last_words = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101
        self._transport = transport
        self.pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._take_errors(data)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._pieces.append(line)
            self._take_line(b"".join(self._pieces))
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
            if self._size > MAX_LINE:
                self.kill()

    def _take_line(self, line: bytes) -> None:
        try:
            note = worker_protocol.read_note(line)
        except MalformedMessage as error:
            self._log(f"model worker sent a line that is not a note: {error}")
            self.kill()
            return
        if note.id != worker_protocol.READY_ID:
            self._note(note, len(line))
        elif isinstance(note, worker_protocol.Ready):
            self.version = note.version
            self.settled.set()
        elif isinstance(note, worker_protocol.Failed):
            self._why = note.failure

    def _take_errors(self, data: bytes) -> None:
        *lines, rest = (self._errors + data).split(b"\n")
        self._errors = rest[-MAX_STDERR_LINE:]
        for line in lines:
            if text := line[:MAX_STDERR_LINE].decode(errors="replace").strip():
                self.last_words = text
                self._log(f"model worker: {text}")

    def process_exited(self) -> None:
        assert self._transport is not None  # noqa: S101
        code = self._transport.get_returncode()
        self.ended = 0 if code is None else code

    def connection_lost(self, exc: Exception | None) -> None:
        # comes after the exit and after the pipes are read to their end
        if self._transport is not None:
            self._transport.close()
        self.ended = self.ended or 0
        self.settled.set()
        self._gone.set()
        self._end(self)

    def write(self, line: bytes) -> None:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if isinstance(pipe, asyncio.WriteTransport) and not pipe.is_closing():
            pipe.write(line)

    def broken(self) -> ModelError:
        """Why it never became ready."""
        why = self._why.message if self._why else self.last_words
        return ModelError(
            "The library for models (litellm) could not be loaded.",
            "Reinstall mcphost; the log has the details.",
            details=why,
        )

    def kill(self) -> None:
        """Kill the group; nothing in it holds anything worth saving."""
        if self.ended is not None or not self.pid:
            return
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                os.kill(self.pid, signal.SIGTERM)
            else:
                os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        self.closing = True
        transport = self._transport
        if transport is None:
            return
        pipe = transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport) and not pipe.is_closing():
            pipe.abort()  # not close: what is still unsent is of no use, and close would wait for it
        with anyio.move_on_after(CLOSE_LIMIT):
            await self._gone.wait()
        if not self._gone.is_set():
            self.kill()
            with anyio.move_on_after(CLOSE_LIMIT / 2):
                await self._gone.wait()
        transport.close()
