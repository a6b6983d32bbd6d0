"""Run the real `mcphost` program as a subprocess with its own folders, with a client for `mcphost pipe`."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.flows.fork_server import MCPHOST, ForkedProgram, can_fork, launcher_command, model_worker_command

DEMO = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
READ_TIMEOUT = 60.0
PYTHON_ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONWARNINGS": "error"}
"""What Python reads when a program of the tests starts; whoever has the same shares a fork server."""
FAULTY_SERVER = str(Path(__file__).parents[1] / "peers" / "faulty_server.py")


def faulty_server(fault: str, *more: str) -> dict[str, Any]:
    """Return an mcp.json entry for a test server with the given fault."""
    return {"command": sys.executable, "args": [FAULTY_SERVER, fault, *more]}


def start_mcphost(
    arguments: tuple[str, ...], *, env: dict[str, str], cwd: Path, worker: tuple[str, ...] = (), **streams: Any
) -> "subprocess.Popen[bytes]":
    """Start mcphost with these arguments; it is forked if possible, which is five times as fast."""
    command = [*MCPHOST, *arguments]
    if can_fork():
        return ForkedProgram(command, env=env, cwd=cwd, worker=worker, **streams)
    return subprocess.Popen(command, env=env, cwd=cwd, **streams)


class Program:
    """A runner of mcphost commands whose configuration, data and working directory are below `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.model_worker: tuple[str, ...] = ()
        self.work = home / "work"
        self.work.mkdir()
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "SYSTEMROOT"}}
        places = {f"MCPHOST_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        self.env = {**kept, **places, "HOME": str(home), **PYTHON_ENVIRONMENT}

    def fork_model_workers(self) -> None:
        """Let later commands start their model worker by forking, if forking is safe."""
        self.model_worker = model_worker_command()

    def servers(self, **entries: Any) -> str:
        """Write servers to a new file for --mcp-config, and return its path."""
        path = self.home / f"servers-{len(list(self.home.glob('servers-*')))}.json"
        path.write_text(json.dumps({"mcpServers": entries}))
        return str(path)

    def configure(self, **entries: Any) -> Path:
        """Write these servers to the user's own mcp.json, and return its path."""
        (self.home / "config").mkdir(exist_ok=True)
        path = self.home / "config" / "mcp.json"
        path.write_text(json.dumps({"mcpServers": entries}))
        path.chmod(0o600)
        return path

    def configure_secret_store(self, place: str) -> None:
        """Write to config.toml where sign-ins are stored; with "session", a login without a keyring is possible."""
        (self.home / "config").mkdir(exist_ok=True)
        (self.home / "config" / "config.toml").write_text(f'[secrets]\nstore = "{place}"\n')

    def run(
        self, *arguments: str, stdin: str | bytes = b"", seconds: float = 60, **env: str
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command until it exits; after *seconds*, kill it and raise TimeoutExpired."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        with self._start(*arguments, **env) as process:
            try:
                out, told = process.communicate(given, seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, told)

    def _start(self, *arguments: str, **env: str) -> "subprocess.Popen[bytes]":
        return self.start(*arguments, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def start(self, *arguments: str, env: dict[str, str] | None = None, **streams: Any) -> "subprocess.Popen[bytes]":
        """Start a command; *streams* are arguments for `subprocess.Popen`."""
        env = {**self.env, **(env or {})}
        return start_mcphost(arguments, env=env, cwd=self.work, worker=self.model_worker, **streams)

    def command(self, *arguments: str) -> list[str]:
        """Return a command line that starts mcphost (as a fork if possible); the caller must set `env`."""
        return [*launcher_command(self.env), *arguments] if can_fork() else [*MCPHOST, *arguments]

    def text(self, *arguments: str, code: int = 0, **more: Any) -> str:
        """Run a command that must exit with *code*; return its standard output."""
        done = self.run(*arguments, **more)
        assert done.returncode == code, done.stderr.decode()
        if code == 0:
            assert b"Traceback" not in done.stderr
        return done.stdout.decode()

    def error(self, *arguments: str, code: int, **more: Any) -> str:
        """Run a command that must fail with *code* and print a single paragraph; return this error message."""
        done = self.run(*arguments, **more)
        told = done.stderr.decode()
        assert done.returncode == code, told + done.stdout.decode()
        assert "Traceback" not in told
        assert "\x1b" not in told
        assert told.startswith("mcphost: ")
        return told

    @contextmanager
    def pipe(self, *arguments: str, **env: str) -> Iterator["PipeClient"]:
        """Run `mcphost pipe`; kill it at the end of the block if it is still running."""
        with self._start("pipe", *arguments, **env) as process:
            try:
                yield PipeClient(process)
            finally:
                process.kill()


class PipeClient:
    """A client of `mcphost pipe` that writes commands and reads events; `events` contains all events read so far."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        """What each kind of question is answered with when it comes; the others wait for the test."""
        self._unread = b""
        self._ids = 0

    def send(self, do: str, **fields: Any) -> int:
        """Write the command *do* and return its id."""
        self._ids += 1
        self.write(json.dumps({"id": self._ids, "do": do, **fields}).encode() + b"\n")
        return self._ids

    def write(self, raw: bytes) -> None:
        """Write bytes."""
        assert self.process.stdin
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def wait(self, expected: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first event that is *expected*, which may already have been read."""
        for event in self.events:
            if expected(event):
                return event
        while event := self.read():
            if expected(event):
                return event
        raise AssertionError(f"the output ended; it was: {self.events}")

    def read(self) -> dict[str, Any]:
        """Return the next event, or {} at the end of the output; fail if nothing arrives within a minute.

        Questions of the kinds in `answers` are answered.
        """
        assert self.process.stdout
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self.process.stdout], [], [], READ_TIMEOUT)
            assert ready, f"nothing more came; it was: {self.events}"
            chunk = os.read(self.process.stdout.fileno(), 1 << 20)
            if not chunk:
                assert not self._unread, f"the last line has no end: {self._unread[:200]!r}"
                return {}
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        event = json.loads(line)
        self.events.append(event)
        if event["event"] == "question" and event["kind"] in self.answers:
            self.send("answer", question=event["question"], answer=self.answers[event["kind"]])
        return event

    def event(self, name: str, /, **fields: Any) -> dict[str, Any]:
        """Return the first event with this name and these fields."""
        return self.wait(lambda event: event["event"] == name and fields.items() <= event.items())

    def result(self, ident: int) -> dict[str, Any]:
        """Wait for the result of the command *ident*, and return it."""
        return self.event("result", id=ident)

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Write the command *do*, wait for its result, and return it."""
        return self.result(self.send(do, **fields))

    def end(self) -> list[dict[str, Any]]:
        """Close the input, wait for a successful exit, and return all events."""
        assert self.process.stdin
        self.process.stdin.close()
        while self.read():
            pass
        assert self.process.wait(60) == 0, self.process.stderr.read().decode() if self.process.stderr else ""
        return self.events


def error_of(result: dict[str, Any]) -> tuple[str, int]:
    """Return the kind of error and the exit code in the result of a command of the pipe that must have failed."""
    assert result["ok"] is False
    return result["error"]["kind"], result["exit"]


CANARY = "tweety-4711-0815"
