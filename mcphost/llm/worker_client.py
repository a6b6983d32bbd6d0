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
from mcphost.llm.answer_limits import MAX_LINE_BYTES, AnswerMeter, AnswerTooLong
from mcphost.llm.litellm_errors import make_failure

# -P: a file of the current folder must never stand in for a library
WORKER_COMMAND = (sys.executable, "-P", "-m", "mcphost.llm.worker")
"""The worker's command line."""
START_TIMEOUT = 180.0
"""Seconds for importing litellm; 6 are usual, a cold disk and a busy machine are not."""
MAX_STDERR_LINE = 2_000
CLOSE_TIMEOUT = 0.6
"""Seconds between closing the worker's input and killing its group."""

INHERITED_VARIABLES = frozenset(
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
INHERITED_PREFIXES = ("LC_", "AWS_", "AZURE_", "VERTEX_", "VERTEXAI_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "XDG_")
INHERITED_SUFFIXES = ("_API_BASE", "_BASE_URL", "_API_VERSION", "_ORGANIZATION", "_API_TYPE")
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
        if upper in INHERITED_VARIABLES or upper.startswith(INHERITED_PREFIXES) or upper.endswith(INHERITED_SUFFIXES):
            kept[name] = value
    return kept


class WorkerCall:
    """One request's notes, in order. Stop it as soon as nobody wants them."""

    def __init__(self, worker: "WorkerProcess", call_id: int) -> None:
        self._worker = worker
        self.call_id = call_id
        self._events: deque[worker_protocol.WorkerEvent] = deque()
        self._meter = AnswerMeter()
        self._has_events = asyncio.Event()

    def put(self, event: worker_protocol.WorkerEvent, size: int = 0) -> None:
        """Add a note whose line had so many bytes; past the bounds of an answer the call is dropped."""
        try:
            self._meter.add_line(size)
        except AnswerTooLong as error:
            event = worker_protocol.WorkerFailed(self.call_id, make_failure(error))
            self.stop()
        self._events.append(event)
        self._has_events.set()

    async def get(self, timeout: float) -> worker_protocol.WorkerEvent | None:
        """The next note, or None when `limit` seconds passed without one."""
        if not self._events:
            self._has_events.clear()
            with anyio.move_on_after(timeout):
                await self._has_events.wait()
        return self._events.popleft() if self._events else None

    def stop(self) -> None:
        """Drop the call; the worker closes its connection to the provider at once. May be called twice."""
        self._worker.cancel_call(self.call_id)


class WorkerProcess:
    """The one worker, shared by all models. Create it in a running application; nothing starts until `ready`."""

    def __init__(self, log: Callable[[str], None], environ: Mapping[str, str] | None = None) -> None:
        self._log = log
        self._environ = environ
        self._start_lock = anyio.Lock()
        self._current_run: _WorkerRun | None = None
        self._calls: dict[int, WorkerCall] = {}
        self._last_call_id = worker_protocol.NO_CALL_ID

    @property
    def pid(self) -> int | None:
        """The process, while it lives."""
        return self._current_run.pid if self._current_run and self._current_run.exit_code is None else None

    async def ensure_ready(self) -> str:
        """Start the worker unless it runs, wait until litellm is imported and return its version.

        Raises ModelError. Cancelling leaves the worker starting, so that the next call finds it further on.
        """
        async with self._start_lock:
            if self._current_run is None or self._current_run.exit_code is not None:
                await self._start()
        life = self._current_run
        assert life is not None  # noqa: S101
        with anyio.move_on_after(START_TIMEOUT):
            await life.startup_done.wait()
        if life.version:
            return life.version
        self._current_run = None
        if life.exit_code is None:
            life.kill()
            raise ModelError("The model worker did not start in time.", "Try again; the log has its output.")
        raise life.startup_error()

    def send(self, command: worker_protocol.WorkerCommand, call_id: int) -> None:
        """Write one command. The worker must be ready."""
        life = self._current_run
        if life is None or life.exit_code is not None:
            call = self._calls.get(call_id)
            if call is not None:
                call.put(worker_died_event(call_id, life.last_stderr_line if life else ""))
            return
        life.write(worker_protocol.encode_line(command))

    def open_call(self) -> WorkerCall:
        """A fresh call; send its command with `send`, and `stop` it in the end."""
        self._last_call_id += 1
        call = self._calls[self._last_call_id] = WorkerCall(self, self._last_call_id)
        return call

    def cancel_call(self, call_id: int) -> None:
        """Forget a call and let the worker stop it."""
        if (
            self._calls.pop(call_id, None) is not None
            and self._current_run is not None
            and self._current_run.exit_code is None
        ):
            self._current_run.write(
                worker_protocol.encode_line(worker_protocol.WorkerCommand(op="stop", call_id=call_id))
            )

    async def close(self) -> None:
        """End the worker: within a second, whatever it does. It would start again with the next call."""
        life, self._current_run = self._current_run, None
        if life is None:
            return
        with anyio.CancelScope(shield=True):
            await life.close()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        environ = worker_environment(os.environ if self._environ is None else self._environ)
        install_pidfd_watcher()
        try:
            _transport, self._current_run = await loop.subprocess_exec(
                lambda: _WorkerRun(self._on_event, self._log, self._on_exit),
                *WORKER_COMMAND,
                env=environ,
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            raise ModelError("The model worker could not be started.", details=str(error)) from error

    def _on_event(self, event: worker_protocol.WorkerEvent, size: int) -> None:
        call = self._calls.get(event.call_id)
        if call is not None:
            call.put(event, size)

    def _on_exit(self, run: "_WorkerRun") -> None:
        if run.is_closing:
            return
        self._log(f"model worker ended with {run.exit_code}: {run.last_stderr_line}")
        for number, call in tuple(self._calls.items()):
            call.put(worker_died_event(number, run.last_stderr_line))


def worker_died_event(call_id: int, last_stderr_line: str) -> worker_protocol.WorkerFailed:
    """What every open call is told when the worker is gone."""
    return worker_protocol.WorkerFailed(
        call_id, worker_protocol.CallFailure(class_names=("mcphost.WorkerDied",), message=last_stderr_line)
    )


class _WorkerRun(asyncio.SubprocessProtocol):
    """One run of the worker, from start to exit."""

    def __init__(
        self,
        on_event: Callable[[worker_protocol.WorkerEvent, int], None],
        log: Callable[[str], None],
        on_exit: Callable[["_WorkerRun"], None],
    ) -> None:
        self._on_event = on_event
        self._log = log
        self._on_exit = on_exit
        self._transport: asyncio.SubprocessTransport | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._stderr_rest = b""
        self._failure: worker_protocol.CallFailure | None = None
        self._closed = asyncio.Event()
        self.startup_done = asyncio.Event()
        self.version = ""
        self.pid = 0
        self.exit_code: int | None = None
        self.is_closing = False
        self.last_stderr_line = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101
        self._transport = transport
        self.pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._handle_stderr(data)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._pieces.append(line)
            self._handle_line(b"".join(self._pieces))
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
            if self._size > MAX_LINE_BYTES:
                self.kill()

    def _handle_line(self, line: bytes) -> None:
        try:
            note = worker_protocol.decode_event(line)
        except MalformedMessage as error:
            self._log(f"model worker sent a line that is not a note: {error}")
            self.kill()
            return
        if note.call_id != worker_protocol.NO_CALL_ID:
            self._on_event(note, len(line))
        elif isinstance(note, worker_protocol.WorkerReady):
            self.version = note.version
            self.startup_done.set()
        elif isinstance(note, worker_protocol.WorkerFailed):
            self._failure = note.failure

    def _handle_stderr(self, data: bytes) -> None:
        *lines, rest = (self._stderr_rest + data).split(b"\n")
        self._stderr_rest = rest[-MAX_STDERR_LINE:]
        for line in lines:
            if text := line[:MAX_STDERR_LINE].decode(errors="replace").strip():
                self.last_stderr_line = text
                self._log(f"model worker: {text}")

    def process_exited(self) -> None:
        assert self._transport is not None  # noqa: S101
        code = self._transport.get_returncode()
        self.exit_code = 0 if code is None else code

    def connection_lost(self, exc: Exception | None) -> None:
        # comes after the exit and after the pipes are read to their end
        if self._transport is not None:
            self._transport.close()
        self.exit_code = self.exit_code or 0
        self.startup_done.set()
        self._closed.set()
        self._on_exit(self)

    def write(self, line: bytes) -> None:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if isinstance(pipe, asyncio.WriteTransport) and not pipe.is_closing():
            pipe.write(line)

    def startup_error(self) -> ModelError:
        """Why it never became ready."""
        why = self._failure.message if self._failure else self.last_stderr_line
        return ModelError(
            "The library for models (litellm) could not be loaded.",
            "Reinstall mcphost; the log has the details.",
            details=why,
        )

    def kill(self) -> None:
        """Kill the group; nothing in it holds anything worth saving."""
        if self.exit_code is not None or not self.pid:
            return
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                os.kill(self.pid, signal.SIGTERM)
            else:
                os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        self.is_closing = True
        transport = self._transport
        if transport is None:
            return
        pipe = transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport) and not pipe.is_closing():
            pipe.abort()  # not close: what is still unsent is of no use, and close would wait for it
        with anyio.move_on_after(CLOSE_TIMEOUT):
            await self._closed.wait()
        if not self._closed.is_set():
            self.kill()
            with anyio.move_on_after(CLOSE_TIMEOUT / 2):
                await self._closed.wait()
        transport.close()
