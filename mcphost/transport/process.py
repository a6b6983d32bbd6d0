"""Server processes, each in its own process group and with only the allowed environment variables."""

import asyncio
import fcntl
import os
import shutil
import signal
import stat
import sys
import termios
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import anyio

from mcphost.child_watcher import install_pidfd_watcher
from mcphost.errors import STDERR_TAIL_LINES, StartupError, describe_stderr_tail
from mcphost.redact import PrivateKeyFilter, register_secret
from mcphost.transport.line_reader import LineReader

INHERITED_VARIABLES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""Proxy settings, which are inherited in upper and lower case."""
CERTIFICATE_FILE_VARIABLES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
    "PIP_CERT", "NPM_CONFIG_CAFILE", "npm_config_cafile", "DENO_CERT",
)  # fmt: skip
CERTIFICATE_FLAG_VARIABLES = (
    "NODE_USE_SYSTEM_CA",
    "NODE_USE_ENV_PROXY",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "DENO_TLS_CA_STORE",
)
_INHERITED_NAMES = frozenset((*INHERITED_VARIABLES, *CERTIFICATE_FILE_VARIABLES, *CERTIFICATE_FLAG_VARIABLES))
STOP_TIMEOUT = 2.0
UNREAD_INPUT_TIMEOUT = 30.0
"""Seconds after which a process is killed if it has neither read its pending input nor printed anything."""
MAX_STDERR_LINE = 8 * 1024
_SHORT_LINE_ALLOWANCE = 10_000
_BYTES_PER_LINE = 14
_OUTPUT_GRACE_SECONDS = 0.3
_PIPE_SIZE = 256 * 1024
_SMALL_READ = 64 * 1024
"""Read size for which malloc uses its heap; a larger buffer would cost three system calls and a page fault."""
# Seconds after which a silent process is presumed to have read its input, if the system cannot tell.
PRESUMED_STARTUP_SECONDS = 1.0


def build_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server process: a few harmless variables, network settings, and *extra*.

    API keys are never inherited. Relative folders in PATH and relative certificate paths are dropped, because their
    meaning would depend on the working folder. A proxy's password is included, because without it, servers could
    not install packages through the proxy; it is redacted in logs and output.
    """
    # Check the names first: reading a value decodes it, and most variables are not inherited.
    named = ((name, os.environ[name]) for name in os.environ if _is_inherited(name))
    inherited = {name: value for name, value in named if name not in CERTIFICATE_FILE_VARIABLES or os.path.isabs(value)}
    if "PATH" in inherited:
        inherited["PATH"] = os.pathsep.join(filter(os.path.isabs, inherited["PATH"].split(os.pathsep))) or os.defpath
    for name, value in inherited.items():
        if name.upper() in PROXY_VARIABLES:
            _register_password(value)
    # Values that look like shell functions are dropped, because Shellshock used them.
    return {name: value for name, value in inherited.items() if not value.startswith("()")} | dict(extra)


def _is_inherited(name: str) -> bool:
    return name in _INHERITED_NAMES or name.startswith("LC_") or name.upper() in PROXY_VARIABLES


def _register_password(proxy: str) -> None:
    """Register the password in a proxy's URL for redaction, both as written and with percent-encoding decoded."""
    userinfo, mark, _ = proxy.rpartition("@")
    password = userinfo.rpartition("/")[2].partition(":")[2]
    if mark and password:
        register_secret(password)
        register_secret(unquote(password))


def find_command(command: str, environment: Mapping[str, str], folder: str) -> str:
    """Return the path of the executable for *command*.

    PATH is taken from *environment*. Relative folders in PATH are relative to *folder*, the server's working folder.
    Raises StartupError if the executable or *folder* does not exist.
    """
    if folder and not os.path.isdir(folder):
        raise StartupError(f"The folder {folder!r} does not exist.", "Correct `cwd` in mcp.json.")
    if os.sep in command:
        path = Path(folder or ".", os.path.expanduser(command))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return str(path)
        if not os.path.isabs(os.path.expanduser(command)) and not path.exists():
            raise StartupError(
                f"{command!r} is relative, and there is no {path.absolute()}.",
                "Correct `command` or `cwd` in mcp.json.",
            )
        raise StartupError(f"{command!r} is not an executable file.", "Correct `command` in mcp.json.")
    places = environment.get("PATH", os.defpath).split(os.pathsep)
    found = shutil.which(command, path=os.pathsep.join(os.path.join(folder or os.getcwd(), one) for one in places))
    if found is None:
        raise StartupError(f"The command {command!r} was not found.", "Install it, or correct `command` in mcp.json.")
    return found


class _StdoutProtocol(asyncio.Protocol):
    """Protocol for a process's standard output that delivers bytes as soon as they are read.

    asyncio's own pipe protocol, which this one replaces, delivers each piece in the next iteration of the event loop;
    this delay is a fifth of the duration of a request. asyncio's protocol is still notified of the end of the pipe,
    which asyncio waits for.
    """

    def __init__(self, pipe: asyncio.BaseTransport, take: Callable[[bytes], None]) -> None:
        self._pipe: Any = pipe
        self._original_protocol = pipe.get_protocol()
        self._on_data = take
        self.received_bytes = 0
        self._pipe.max_size = _SMALL_READ  # as much as asyncio's transport reads at a time
        pipe.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        size = len(data)
        self.received_bytes += size
        if size >= _SMALL_READ:
            self._pipe.max_size = _PIPE_SIZE
        elif self._pipe.max_size != _SMALL_READ:
            self._pipe.max_size = _SMALL_READ
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._original_protocol.connection_lost(exc)


class _StdinProtocol(asyncio.BaseProtocol):
    """Protocol for a process's standard input.

    *before_close* is called just before the pipe is closed, which is the last opportunity to find out how much of the
    input the process has read.
    """

    def __init__(self, pipe: asyncio.BaseTransport, before_close: Callable[[], None]) -> None:
        self._original_protocol: Any = pipe.get_protocol()
        self._before_close = before_close
        pipe.set_protocol(self)

    def pause_writing(self) -> None:
        self._original_protocol.pause_writing()

    def resume_writing(self) -> None:
        self._original_protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._before_close()
        self._original_protocol.connection_lost(exc)


class ServerProcess(asyncio.SubprocessProtocol):
    """A running server process; its callbacks run on the event loop and must not block.

    *on_stderr* is called with each line of error output. *on_end* is called once, with a description of how the process
    ended, within a second after the process has exited or closed its standard input or output. It is also called if the
    process does not read its input: `is_input_unread` is then True, and the process is killed.
    """

    def __init__(
        self,
        name: str,
        on_stderr: Callable[[str], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._name = name
        self.on_output: Callable[[bytes], None] = lambda _data: None
        """Callback for the bytes of standard output, to be set before `start`."""
        self._on_stderr = on_stderr
        self._on_end = on_end
        self._stderr_reader = LineReader(
            self._handle_stderr_line,
            lambda: self._set_reading(2, False),
            lambda: self._set_reading(2, True),
            limit=MAX_STDERR_LINE * 8,
            filter_lines=self._limit_stderr_lines,
            on_malformed=lambda _: self._handle_stderr_line(b"(a line of error output was too long)"),
        )
        self._key_filter = PrivateKeyFilter()
        self._stderr_lines_left = _SHORT_LINE_ALLOWANCE
        self._open_pipes = {1, 2}
        self._paused_pipes: set[int] = set()
        self._exited = anyio.Event()
        self._is_end_reported = False
        self._is_stopping = False
        self._unsent_lines: list[bytes] = []
        self._writable: asyncio.Future[None] | None = None
        self._stderr_tail: deque[str] = deque(maxlen=STDERR_TAIL_LINES)
        self._written_bytes = 0
        self._piped_bytes = 0
        self._stdout: _StdoutProtocol | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._is_pipe_examined = False
        self._has_taken_input = False
        self.is_input_unread = False

    @classmethod
    async def start(
        cls, argv: Sequence[str], environment: Mapping[str, str], folder: str, child: "ServerProcess"
    ) -> "ServerProcess":
        """Start the command *argv* in *folder* with exactly the variables in *environment*.

        *child* becomes the asyncio protocol of the process and is returned. Raises StartupError.
        """
        program = find_command(argv[0], environment, folder)
        loop = asyncio.get_running_loop()
        install_pidfd_watcher()
        try:
            # This takes milliseconds. If it were cancelled midway, asyncio would leave the pipes open (CPython 3.11).
            with anyio.CancelScope(shield=True):
                await loop.subprocess_exec(
                    lambda: child,
                    program,
                    *argv[1:],
                    env=dict(environment),
                    cwd=folder or None,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    close_fds=True,
                )
        except (OSError, ValueError) as error:
            raise StartupError(f"{argv[0]!r} could not be started: {error}.", "Correct it in mcp.json.") from error
        return child

    # -- asyncio.SubprocessProtocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the new process and set up its pipes; called by asyncio."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._pid = self._transport.get_pid()
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._enlarge_stdout_pipe()
        stdin = self._transport.get_pipe_transport(0)
        if stdin is not None:
            _StdinProtocol(stdin, self._examine_pipe)
        output = self._transport.get_pipe_transport(1)
        if output is not None:
            self._stdout = _StdoutProtocol(output, self.on_output)

    def _enlarge_stdout_pipe(self) -> None:
        """Enlarge the buffer of the output pipe, so that reading 1 MB takes four wakeups instead of sixteen."""
        pipe = self._transport.get_pipe_transport(1)
        stream = None if pipe is None else pipe.get_extra_info("pipe")
        size = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux only
        if stream is None or size is None:
            return
        try:
            fcntl.fcntl(stream.fileno(), size, _PIPE_SIZE)
        except (OSError, ValueError):
            return  # the user's limit is reached (a small pipe works, too), or the process has ended

    @property
    def _received_bytes(self) -> int:
        """Number of bytes received from standard output and standard error so far."""
        return self._piped_bytes + (0 if self._stdout is None else self._stdout.received_bytes)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Process bytes from standard output or standard error; called by asyncio."""
        self._piped_bytes += len(data)
        if fd == 1:  # data that arrived before the _StdoutProtocol was set
            self.on_output(data)
        else:
            self._stderr_reader.feed(data)

    def _limit_stderr_lines(self, lines: list[bytes]) -> list[bytes]:
        """Drop the oldest *lines* of error output that exceed the limit; add a line with the number of dropped lines.

        The limit is 10,000 lines, plus one for every 14 bytes that the server has written.
        """
        size = sum(map(len, lines)) + len(lines)  # each line with its end
        self._stderr_lines_left = min(_SHORT_LINE_ALLOWANCE, self._stderr_lines_left + 8 + size // _BYTES_PER_LINE)
        left_out = len(lines) - self._stderr_lines_left
        if left_out > 0:
            lines = [b"(%d short lines of error output were left out)" % left_out, *lines[left_out:]]
        self._stderr_lines_left = max(0, self._stderr_lines_left - len(lines))
        return lines

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Record that the process has closed a pipe; called by asyncio."""
        self._open_pipes.discard(fd)
        if fd == 2:
            self._stderr_reader.finish()
        if fd == 0:
            self._wake_writers()
        if self._exited.is_set() and not self._open_pipes:
            self._report_end()
        elif fd in (0, 1) and not (self._exited.is_set() or self._is_stopping):
            # Without standard input, it receives no requests; without standard output, it sends no responses.
            self._loop.call_later(_OUTPUT_GRACE_SECONDS, self._report_end)

    def process_exited(self) -> None:
        """Record that the process has exited, and kill the other processes in its group; called by asyncio."""
        self._exited.set()
        # Other processes in the group would keep the pipes open and outlive mcphost.
        self._signal_group(signal.SIGKILL)
        if not self._open_pipes:
            self._report_end()
        else:
            self._loop.call_later(_OUTPUT_GRACE_SECONDS, self._report_end)

    def pause_writing(self) -> None:
        """Record that the input pipe of the process is full; called by asyncio."""
        if self._writable is None:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Record that the input pipe of the process has room again; called by asyncio."""
        self._wake_writers()
        self._writable = None

    def _wake_writers(self) -> None:
        """Wake the tasks that are waiting for room in the input pipe."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # -- input and output
    @property
    def pid(self) -> int:
        """Id of the process, which is also the id of its process group."""
        return self._pid

    def write(self, line: bytes) -> None:
        """Queue a line; all lines that are queued in one iteration of the event loop are written together."""
        if self._flush_timer is None:
            # Unlike a canceled handle of `call_soon`, a canceled timer does not keep the loop from waiting for input.
            self._flush_timer = self._loop.call_at(0.0, self._flush)
        self._unsent_lines.append(line)

    def write_now(self, line: bytes) -> None:
        """Write the queued lines and *line* without waiting for the next iteration of the event loop.

        The wait would take a fifth of the duration of a request.
        """
        self._unsent_lines.append(line)
        self._flush()

    def wait_writable(self) -> Awaitable[None] | None:
        """Return an awaitable that completes when the input pipe has room, or None if it has room now."""
        return None if self._writable is None else asyncio.shield(self._writable)

    def is_drained(self) -> bool:
        """Return whether the process has read everything that was written to it.

        If the operating system cannot report this, return whether the process has printed anything or has been running
        for PRESUMED_STARTUP_SECONDS.
        """
        pipe = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing():
            return True
        if self._unsent_lines or pipe.get_write_buffer_size():
            return False
        unread = _unread_bytes(pipe.get_extra_info("pipe"))
        if unread is None:
            return self._received_bytes > 0 or self._loop.time() - self._started > PRESUMED_STARTUP_SECONDS
        return unread == 0

    def has_taken_input(self) -> bool:
        """Return whether the process may have read some of what was written to it."""
        if not self._is_pipe_examined:
            self._examine_pipe()
        return self._has_taken_input

    def _examine_pipe(self) -> None:
        pipe = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        self._has_taken_input = pipe is not None and self._count_taken_bytes(pipe) > 0
        self._is_pipe_examined = pipe is None or pipe.is_closing()

    def _count_taken_bytes(self, pipe: asyncio.WriteTransport) -> int:
        """Return how many bytes the process has read from its input *pipe*.

        If the operating system cannot report how many bytes in the pipe are unread, all of them count as read.
        """
        unread = _unread_bytes(pipe.get_extra_info("pipe")) or 0
        return self._written_bytes - pipe.get_write_buffer_size() - unread

    def pause_output(self) -> None:
        """Stop reading the output of the process, which then blocks as soon as its output pipe is full."""
        self._set_reading(1, False)

    def resume_output(self) -> None:
        """Continue reading the output of the process."""
        self._set_reading(1, True)

    def _set_reading(self, fd: int, on: bool) -> None:
        pipe = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(fd))
        # Pipes of Python 3.11.2, which Debian 12 has, do not implement `is_reading`.
        if pipe is None or pipe.is_closing() or on == (fd not in self._paused_pipes):
            return
        if on:
            self._paused_pipes.remove(fd)
            pipe.resume_reading()
        else:
            self._paused_pipes.add(fd)
            pipe.pause_reading()

    async def stop(self) -> None:
        """Close the standard input of the process; if it does not exit, end its process group.

        The group is sent SIGTERM, and later SIGKILL. Takes about 4 s at most.
        """
        self._is_stopping = True
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        with anyio.CancelScope(shield=True):
            self._flush()
            pipe = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
            if pipe is not None and self._writable is not None and not pipe.is_closing():
                pipe.abort()  # `close` would wait until the other end of the pipe has been read
            if not self._exited.is_set():
                if pipe is not None:
                    pipe.close()
                if not await self._wait_for_exit():
                    self._signal_group(signal.SIGTERM)
                    if not await self._wait_for_exit():
                        self.kill()
                        await self._wait_for_exit()
            self._transport.close()
            # asyncio closes the pipes in callbacks of the next iterations.
            await anyio.lowlevel.checkpoint()

    def kill(self) -> None:
        """Send SIGKILL to the process group."""
        self._signal_group(signal.SIGKILL)

    @property
    def has_error_output(self) -> bool:
        """Whether the process has printed anything except blank lines to its error output."""
        return bool(self._stderr_tail)

    def describe_end(self) -> str:
        """Describe how the process ended, such as "exited with status 1".

        The last lines of its error output are quoted.
        """
        code = self._transport.get_returncode()
        if self.is_input_unread:
            how = f"does not read its input (nothing for {UNREAD_INPUT_TIMEOUT:g} s, while requests wait)"
        elif code is None:
            how = "closed its output" if 1 not in self._open_pipes else "closed its input"
        elif code < 0:
            try:
                how = f"was ended by {signal.Signals(-code).name}"
            except ValueError:
                how = f"was ended by signal {-code}"
        else:
            how = f"exited with status {code}"
        return f"{how}{describe_stderr_tail(self._stderr_tail)}"

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if not self._unsent_lines:
            return
        lines, self._unsent_lines = self._unsent_lines, []
        pipe = self._transport.get_pipe_transport(0)
        if pipe is None or pipe.is_closing() or self._exited.is_set():
            return
        lines.append(b"")
        data = b"\n".join(lines)
        self._written_bytes += len(data)
        writer = cast("asyncio.WriteTransport", pipe)
        writer.write(data)
        if writer.is_closing():  # the process had closed its input
            self._written_bytes -= len(data)
        if self._unread_timer is None and writer.get_write_buffer_size():
            self._start_unread_timer(writer)

    def _start_unread_timer(self, pipe: asyncio.WriteTransport) -> None:
        """Start a timer that detects a process that does not read its input.

        After UNREAD_INPUT_TIMEOUT seconds, its callback checks whether the process has read any input or printed
        anything since this call.
        """
        taken = self._count_taken_bytes(pipe)
        self._unread_timer = self._loop.call_later(
            UNREAD_INPUT_TIMEOUT, self._check_unread_input, pipe, (taken, self._received_bytes)
        )

    def _check_unread_input(self, pipe: asyncio.WriteTransport, before: tuple[int, int]) -> None:
        self._unread_timer = None
        if self._is_stopping or self._is_end_reported or pipe.is_closing() or not pipe.get_write_buffer_size():
            return
        taken = self._count_taken_bytes(pipe)
        # While its output is not being read, the process may be unable to continue reading its input.
        if (taken, self._received_bytes) != before or 1 in self._paused_pipes:
            self._start_unread_timer(pipe)
            return
        self.is_input_unread = True
        self._report_end()
        self.kill()

    def _handle_stderr_line(self, line: bytes) -> None:
        text = line[:MAX_STDERR_LINE].decode(errors="replace").rstrip("\r")
        shown = self._key_filter.apply(text)
        if shown.strip():
            self._stderr_tail.append(shown)
        self._on_stderr(text)

    def _report_end(self) -> None:
        if not self._is_end_reported:
            self._is_end_reported = True
            self._wake_writers()  # even if another process keeps the full pipe open
            # Its last output may still be in the backlog.
            self._stderr_reader.call_when_empty(lambda: self._on_end(self.describe_end()))

    async def _wait_for_exit(self) -> bool:
        with anyio.move_on_after(STOP_TIMEOUT):
            await self._exited.wait()
        return self._exited.is_set()

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):
            return  # no process is left; macOS reports EPERM for a group of zombies


def _unread_bytes(pipe: Any) -> int | None:
    """Return how many bytes in a pipe or socket pair have not been read yet, or None if unknown."""
    if sys.platform != "linux":
        return None  # on other systems, the writing end only reports its own buffer, which is empty
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(pipe.fileno()).st_mode)
        answer = fcntl.ioctl(pipe.fileno(), termios.FIONREAD if is_pipe else termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):
        return None
    return int.from_bytes(answer, sys.byteorder)
