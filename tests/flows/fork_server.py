"""Start mcphost without the cost of startup: each command is forked from a process that has loaded the modules.

`ForkedProgram` replaces `subprocess.Popen([python, "-m", "mcphost", ...])`. The server is this file run as a program:
for each connection it receives a line of JSON and three file descriptors, forks, and writes the new process's pid and
later its exit status. When the server's standard input ends, it kills the programs it started and exits. All workers of
a test run use the same servers.

A program that starts commands itself, such as the conformance suite, runs `fork_launcher.py`, which asks the server to
run a script instead. The forked process ends together with its launcher.

There are four kinds of server: for mcphost, for model workers with litellm imported (which saves two to five seconds
per start), for test servers with the official SDK imported, and for the chat with the modules of the screen.
"""

import atexit
import fcntl
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn, cast

from mcphost.llm import worker_client
from tests.flows.fork_sockets import socket_folder

ROOT = Path(__file__).parents[2]
EXCLUDED_MODULES = ("mcphost.demo", "mcphost.sandbox.schema_worker", "mcphost.sandbox.image", "mcphost.llm.worker")
"""What runs in processes of its own."""
SCREEN_PACKAGE = "mcphost.tui"
"""What no command without a terminal loads."""
STARTUP_VARIABLES = ("PYTHON", "LANG", "LC_")
"""Variables that Python reads when it starts: a process that gets other values is not forked."""
LAZY_MODULES = (
    "anyio._backends._asyncio",
    "anyio._core._signals",
    "certifi",
    "encodings.idna",
    "encodings.utf_8_sig",
    "h2.connection",
    "httpcore._async.connection",
    "httpcore._async.connection_pool",
    "httpcore._async.http11",
    "joserfc",
    "keyring.backends.chainer",
    "keyring.backends.SecretService",
    "keyring.backends.Windows",
    "keyring.backends.kwallet",
    "keyring.backends.libsecret",
    "secretstorage",
)
"""What commands import with their first request or secret."""
LAUNCHER = Path(__file__).with_name("fork_launcher.py")
MCPHOST = [sys.executable, "-m", "mcphost"]


def can_fork() -> bool:
    """Return True on Linux, the only platform on which forking is considered safe."""
    return sys.platform == "linux"


class ForkServer:
    """The client of a fork server of one kind (a key of LOADERS) and environment; use `for_environment` to get it."""

    _servers: ClassVar[dict[str, "ForkServer"]] = {}

    def __init__(self, environment: dict[str, str], kind: str, name: str) -> None:
        self.address = str(socket_folder() / name)
        with Path(f"{self.address}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not Path(self.address).exists():
                self._start_server(environment, kind)

    def _start_server(self, environment: dict[str, str], kind: str) -> None:
        with socket.socket(socket.AF_UNIX) as listener, (socket_folder() / "alive").open() as alive:
            listener.bind(self.address)
            listener.listen(128)
            os.set_inheritable(listener.fileno(), True)
            os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", "tests.flows.fork_server", str(listener.fileno()), kind],
                {**environment, "PYTHONPATH": str(ROOT)},
                file_actions=[(os.POSIX_SPAWN_DUP2, alive.fileno(), 0)],
            )

    @classmethod
    def for_environment(cls, environment: dict[str, str], kind: str = "mcphost") -> "ForkServer":
        """Return the fork server for programs with this environment, which is started on first use."""
        own = dict(sorted((name, value) for name, value in environment.items() if name.startswith(STARTUP_VARIABLES)))
        name = hashlib.sha256(json.dumps([kind, own]).encode()).hexdigest()[:16]
        if name not in cls._servers:
            cls._servers[name] = cls({"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **own}, kind, name)
        return cls._servers[name]

    def start(self, request: dict[str, Any], streams: tuple[int, ...]) -> tuple[int, socket.socket]:
        """Start a program; return its pid and a socket that delivers its exit status."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address)
        line = json.dumps(request).encode() + b"\n"
        connection.sendall(line[socket.send_fds(connection, [line], streams) :])
        return int(_read_line(connection)), connection


def model_worker_command() -> tuple[str, ...]:
    """Return the command that forks a model worker, or the ordinary command where forking is not safe."""
    return launcher_command({}, "model worker") if can_fork() else worker_client.WORKER_COMMAND


def sdk_server_command(script: str | Path, *arguments: str) -> list[str]:
    """Return the command that runs a server written with the official SDK, forked if possible to import it faster."""
    return [*(launcher_command({}, "SDK") if can_fork() else (sys.executable,)), str(script), *arguments]


def chat_command(environment: dict[str, str]) -> tuple[str, ...]:
    """Return the command that runs the chat, forked if possible; a fork does not get signals from the terminal."""
    return launcher_command(environment, "screen") if can_fork() else tuple(MCPHOST)


def launcher_command(environment: dict[str, str], kind: str = "mcphost") -> tuple[str, ...]:
    """Return a command that runs mcphost or a script as a fork; the caller appends the arguments."""
    return (sys.executable, "-I", "-S", str(LAUNCHER), ForkServer.for_environment(environment, kind).address)


class ForkedProgram(subprocess.Popen[bytes]):
    """A process running mcphost that a fork server started; `worker` is the command of its model worker."""

    def __init__(
        self, arguments: list[str], *, env: dict[str, str], cwd: Path, worker: tuple[str, ...] = (), **streams: Any
    ) -> None:
        self._status: socket.socket
        self._worker = worker
        super().__init__(arguments, env=env, cwd=cwd, **streams)

    def _execute_child(self, args: list[str], *rest: Any, **_: Any) -> None:  # type: ignore[override]
        _executable, _preexec, _close, _pass, cwd, env, _info, _flags, _shell, *pipes = rest
        stdin, told_in, told_out, stdout, told_err, stderr = pipes[:6]
        request = {"arguments": args[len(MCPHOST) :], "env": env, "cwd": str(cwd), "worker": self._worker}
        streams = tuple(own if own != -1 else fixed for own, fixed in ((stdin, 0), (stdout, 1), (stderr, 2)))
        self.pid, self._status = ForkServer.for_environment(env).start(request, streams)
        self._child_created = True
        for theirs, ours in ((stdin, told_in), (stdout, told_out), (stderr, told_err)):
            if theirs != -1 and ours != -1:
                os.close(theirs)

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:  # type: ignore[override]
        if self.returncode is None and self._has_exited(0):
            self._read_exit_status()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:  # type: ignore[override]
        if self.returncode is None:
            if not self._has_exited(timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._read_exit_status()
        return self.returncode

    def _has_exited(self, timeout: float | None) -> bool:
        with selectors.DefaultSelector() as ready:
            ready.register(self._status, selectors.EVENT_READ)
            return bool(ready.select(timeout))

    def _read_exit_status(self) -> None:
        self.returncode = int(_read_line(self._status))
        self._status.close()


def _read_line(source: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        more = source.recv(1)
        assert more, "the fork server ended"
        line += more
    return line


# -- the server


class ForkingServer:
    """A running fork server with its open file descriptors, which each forked process closes."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._running: dict[int, socket.socket] = {}
        self._ready = selectors.DefaultSelector()
        for source in (listener, self._wake, sys.stdin):
            self._ready.register(source, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Start requested programs until standard input ends, and return None; a forked process returns its request."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            sources = [key.fileobj for key, _ in self._ready.select()]
            if sys.stdin in sources:
                signal.set_wakeup_fd(-1)
                for pid in self._running:
                    os.kill(pid, signal.SIGKILL)
                self._close()
                return None
            for pid, connection in self._running.items():
                if connection in sources:  # it sends nothing more: its end
                    self._ready.unregister(connection)
                    os.kill(pid, signal.SIGKILL)
            if self._wake in sources:
                self._wake.recv(4096)
                self._report_exits()
            if self._listener in sources and (request := self._fork()):
                return request

    def _fork(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        raw, files, _, _ = socket.recv_fds(connection, 65536, 3)
        request = json.loads(raw if raw.endswith(b"\n") else raw + _read_line(connection))
        pid = os.fork()
        self._running[pid] = connection
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._close()
            adopt_request(request, files)
            return request
        for file in files:
            os.close(file)
        if request.get("launched"):
            self._ready.register(connection, selectors.EVENT_READ)
        with suppress(BrokenPipeError):
            connection.sendall(b"%d\n" % pid)
        return None

    def _close(self) -> None:
        self._ready.close()
        for item in (self._listener, self._wake, self._waker, *self._running.values()):
            item.close()

    def _report_exits(self) -> None:
        for pid in list(self._running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with self._running.pop(pid) as told, suppress(BrokenPipeError):
                    if told in self._ready.get_map():
                        self._ready.unregister(told)
                    told.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def load_mcphost(*, screen: bool = False) -> None:
    """Import the modules that mcphost's commands use, and with *screen* also those of the chat."""
    gc.disable()
    package = importlib.import_module("mcphost")
    for module in pkgutil.walk_packages(package.__path__, "mcphost."):
        if not module.name.startswith(EXCLUDED_MODULES if screen else (*EXCLUDED_MODULES, SCREEN_PACKAGE)):
            importlib.import_module(module.name)
    importlib.import_module("mcphost.auth.oauth_http").load_httpx()
    for name in LAZY_MODULES:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()


def load_model_worker() -> None:
    """Import litellm in a thread, because the worker's import lowers the priority of the thread it runs in."""
    from mcphost.llm import worker

    os.environ.update(worker.LITELLM_ENVIRONMENT)
    imported: list[Any] = []
    thread = threading.Thread(target=worker.import_litellm, args=(imported,))
    thread.start()
    thread.join()
    worker.import_litellm = lambda result: result.extend(imported)
    gc.freeze()


def load_sdk() -> None:
    """Import the modules that servers written with the official SDK use."""
    for name in ("mcp.server", "mcp.server.mcpserver", "mcp.types", "uvicorn", "anyio._backends._asyncio"):
        importlib.import_module(name)
    gc.freeze()


LOADERS = {
    "mcphost": load_mcphost,
    "screen": partial(load_mcphost, screen=True),
    "model worker": load_model_worker,
    "SDK": load_sdk,
}


def adopt_request(request: dict[str, Any], files: list[int]) -> None:
    """Give this process the streams *files*, and the working directory and environment of the request."""
    for number, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), files, strict=True)):
        os.dup2(file, number)
        os.close(file)
        old = getattr(sys, f"__{name}__")
        mode, buffering = ("r", -1) if name == "stdin" else ("w", 1 if name == "stderr" else -1)
        new = open(  # noqa: SIM115 - a standard stream
            number, mode, buffering, encoding=old.encoding, errors=old.errors, closefd=False
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()


def run_request(request: dict[str, Any], kind: str) -> None:
    """Run the model worker, mcphost, or the script that the request names."""
    if kind == "model worker":
        from mcphost.llm import worker

        os.setsid()
        worker.main()
        return
    script = request["arguments"].pop(0) if kind == "SDK" else request.get("script", "")
    sys.argv = [script or str(ROOT / "mcphost" / "__main__.py"), *request["arguments"]]
    sys.path[0] = str(Path(script).parent) if script else request["cwd"]
    if script:
        runpy.run_path(script, run_name="__main__")
    else:
        from mcphost.__main__ import main

        worker_client.WORKER_COMMAND = tuple(request.get("worker", ())) or worker_client.WORKER_COMMAND
        main()


def exit_process(code: Any) -> NoReturn:
    """Exit like the interpreter, but without freeing modules, which would copy the memory shared with the server."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    cast("Any", threading)._shutdown()  # wait for threads that are no daemons
    cast("Any", atexit)._run_exitfuncs()
    gc.collect()  # warn about open resources
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120  # as the interpreter does
    os._exit(code or 0)


if __name__ == "__main__":
    LOADERS[sys.argv[2]]()
    asked = ForkingServer(socket.socket(fileno=int(sys.argv[1]))).serve()
    if asked:
        try:
            run_request(asked, sys.argv[2])
        except SystemExit as end:
            exit_process(end.code)
        exit_process(0)
