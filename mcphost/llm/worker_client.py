"""Client for the worker process, which is started on first use and can be ended within a second.

There is no background task: the event loop calls back when the pipe has data, and each event is passed to the
WorkerCall to which it belongs. `AnswerMeter` limits the number of unread events.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from weakref import WeakSet

import anyio

from mcphost.child_watcher import install_pidfd_watcher
from mcphost.errors import MalformedMessage, ModelError
from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import MAX_LINE_BYTES, AnswerMeter, AnswerTooLong
from mcphost.llm.worker_protocol import make_failure

# -P: a file in the current folder must not shadow a library.
WORKER_COMMAND = (sys.executable, "-P", "-m", "mcphost.llm.worker")
"""Command line of the worker."""
START_TIMEOUT = 180.0
"""Time limit in seconds for importing litellm, which usually takes 6 s, but much longer on a busy machine."""
MAX_STDERR_LINE = 2_000
CLOSE_TIMEOUT = 0.6
"""Seconds between closing the worker's input and killing its process group."""

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
        # Windows needs SYSTEMROOT to open a socket, and the other variables to find the home folder.
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
"""Provider settings without secrets that client libraries read from the environment, such as regional addresses."""

_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"})
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that the worker process inherits.

    The libraries for Bedrock, Azure and Vertex read credentials from AWS_*, AZURE_* and GOOGLE_* variables or from
    files in the home folder, so those variables are included. API keys are not included, because each request contains
    the key that it needs. Requests to this machine use no proxy.
    """
    inherited: dict[str, str] = {}
    for name, value in environ.items():
        upper = name.upper()
        if upper.endswith("_API_KEY"):
            continue
        if upper in INHERITED_VARIABLES or upper.startswith(INHERITED_PREFIXES) or upper.endswith(INHERITED_SUFFIXES):
            inherited[name] = value
    if not any(name.upper() in _PROXIES for name in inherited):
        return inherited
    bypassed = inherited.get("no_proxy", inherited.get("NO_PROXY", "")).strip()
    if bypassed != "*":  # which means every host, but only if it stands alone
        bypassed = ",".join(filter(None, (bypassed, *_LOOPBACK_NAMES)))
    return inherited | {"no_proxy": bypassed, "NO_PROXY": bypassed}


class WorkerCall:
    """A command that runs in the worker process, and the queue of its events; call `stop` after the last use."""

    def __init__(self, worker: "WorkerProcess", call_id: int) -> None:
        self._worker = worker
        self.call_id = call_id
        self._events: deque[worker_protocol.WorkerEvent] = deque()
        self._meter = AnswerMeter()
        self._has_events = asyncio.Event()

    def put(self, event: worker_protocol.WorkerEvent, size: int = 0) -> None:
        """Queue an event of *size* bytes; if the answer exceeds a limit, queue a failure instead and stop."""
        try:
            self._meter.add_line(size)
        except AnswerTooLong as error:
            event = worker_protocol.WorkerFailed(self.call_id, make_failure(error))
            self.stop()
        self._events.append(event)
        self._has_events.set()

    async def get(self, timeout: float) -> worker_protocol.WorkerEvent | None:
        """Return the next event, or None if none arrives within *timeout* seconds."""
        if not self._events:
            self._has_events.clear()
            with anyio.move_on_after(timeout):
                await self._has_events.wait()
        return self._events.popleft() if self._events else None

    def stop(self) -> None:
        """Cancel the command, so that the worker closes its connection to the provider. Idempotent."""
        self._worker.cancel_call(self.call_id)


class WorkerProcess:
    """Handle to the worker process that all models share; `ensure_ready` starts the process."""

    def __init__(self, log: Callable[[str], None], environ: Mapping[str, str] | None = None) -> None:
        self._log = log
        self._environ = environ
        self._start_lock = anyio.Lock()
        self._current_run: _WorkerRun | None = None
        self._calls: dict[int, WorkerCall] = {}
        self._users: WeakSet[object] = WeakSet()
        self._last_call_id = worker_protocol.NO_CALL_ID

    @property
    def pid(self) -> int | None:
        """Process id of the worker, or None if it is not running."""
        return self._current_run.pid if self._current_run and self._current_run.exit_code is None else None

    def add_user(self, user: object) -> None:
        """Record that *user*, such as a model, needs the process; pass the same object to `release` afterwards."""
        self._users.add(user)

    async def release(self, user: object) -> None:
        """End the process if no other user is left and no call is open; `ensure_ready` can start it again."""
        self._users.discard(user)
        if not self._users and not self._calls:
            await self.close()

    async def ensure_ready(self) -> str:
        """Start the worker if needed, wait until it has imported litellm, and return litellm's version.

        Raises ModelError if the worker exits, or is not ready within START_TIMEOUT seconds. If the caller is cancelled,
        the worker continues to start and can be used later.
        """
        async with self._start_lock:
            if self._current_run is None or self._current_run.exit_code is not None:
                await self._start()
        run = self._current_run
        assert run is not None  # noqa: S101
        with anyio.move_on_after(START_TIMEOUT):
            await run.startup_done.wait()
        if run.version:
            return run.version
        self._current_run = None
        if run.exit_code is None:
            run.kill()
            raise ModelError("The model worker did not start in time.", "Try again; the log has its output.")
        raise run.startup_error()

    def send(self, command: worker_protocol.WorkerCommand, call_id: int) -> None:
        """Send a command to the worker; if the worker has ended, queue a failure in the WorkerCall with *call_id*."""
        run = self._current_run
        if run is None or run.exit_code is not None:
            call = self._calls.get(call_id)
            if call is not None:
                call.put(worker_died_event(call_id, run.last_stderr_line if run else ""))
            return
        run.write(worker_protocol.encode_line(command))

    def open_call(self) -> WorkerCall:
        """Create a WorkerCall. The caller then passes a command to `send`, and finally calls `WorkerCall.stop`."""
        self._last_call_id += 1
        call = self._calls[self._last_call_id] = WorkerCall(self, self._last_call_id)
        return call

    def cancel_call(self, call_id: int) -> None:
        """Remove the WorkerCall with this id, and tell the worker to stop the corresponding command."""
        run = self._current_run
        if self._calls.pop(call_id, None) is not None and run is not None and run.exit_code is None:
            run.write(worker_protocol.encode_line(worker_protocol.WorkerCommand(op="stop", call_id=call_id)))

    async def close(self) -> None:
        """End the worker process within a second; `ensure_ready` can start it again."""
        run, self._current_run = self._current_run, None
        if run is None:
            return
        with anyio.CancelScope(shield=True):
            await run.close()

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
    """Return the event that reports to a WorkerCall that the worker process has ended.

    *last_stderr_line* is the last line of the worker's error output.
    """
    return worker_protocol.WorkerFailed(
        call_id, worker_protocol.CallFailure(class_names=("mcphost.WorkerDied",), message=last_stderr_line)
    )


class _WorkerRun(asyncio.SubprocessProtocol):
    """One run of the worker process, from its start to its exit."""

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
            event = worker_protocol.decode_event(line)
        except MalformedMessage as error:
            self._log(f"model worker sent an invalid line: {error}")
            self.kill()
            return
        if event.call_id != worker_protocol.NO_CALL_ID:
            self._on_event(event, len(line))
        elif isinstance(event, worker_protocol.WorkerReady):
            self.version = event.version
            self.startup_done.set()
        elif isinstance(event, worker_protocol.WorkerFailed):
            self._failure = event.failure

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
        # Called after the exit, once the pipes have been read to their end.
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
        """Return the error for a worker process that exited before it was ready."""
        return ModelError(
            "The library for models (litellm) could not be loaded.",
            "Reinstall mcphost; the log has the details.",
            details=self._failure.message if self._failure else self.last_stderr_line,
        )

    def kill(self) -> None:
        """Kill the worker's process group; nothing is lost, because the worker has no state to save."""
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
            pipe.abort()  # `close` would wait until all unsent data is written
        with anyio.move_on_after(CLOSE_TIMEOUT):
            await self._closed.wait()
        if not self._closed.is_set():
            self.kill()
            with anyio.move_on_after(CLOSE_TIMEOUT / 2):
                await self._closed.wait()
        transport.close()
