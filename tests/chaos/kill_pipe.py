"""Kill a real `mcphost pipe` with SIGKILL at random moments, reproducible by seed: no decision may be lost.

Use `python -m tests.chaos.kill_pipe --count 1000` for a longer run. The test sees the effects of decisions in the log
of the tool server and in the results on the pipe.
"""

import argparse
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.store.audit_reader import AuditFilter, AuditReader
from mcphost.store.audit_store import AuditRow
from tests.flows.program import MCPHOST, Program

SERVER = """
import json, os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
tool = {"name": "add", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, answer = message["method"], {}
    if method == "server/discover":
        answer = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "log", "version": "1"}, "ttlMs": 60000, "cacheScope": "private"}
    elif method == "tools/list":
        answer = {"resultType": "complete", "tools": [tool], "ttlMs": 60000, "cacheScope": "private"}
    elif method == "tools/call":
        os.write(log, (json.dumps(message["params"]["arguments"]) + "\\n").encode())
        answer = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""
MAX_KILL_DELAY = 0.6
"""Seconds within which the kill comes, after the server was ready or, in every second round, after its first result."""


class PipeRun:
    """One process of mcphost that makes tool calls until it is killed."""

    def __init__(self, program: Program, servers: str, number: int) -> None:
        self._program = program
        self._servers = servers
        self._number = number
        # Two threads send: one makes calls, the other answers.
        self._ids = itertools.count(1)
        self.called: dict[int, dict[str, Any]] = {}
        self.acknowledged: list[dict[str, Any]] = []
        self.allowed: list[dict[str, Any]] = []
        self._ready = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, wait: float, *, after_result: bool) -> None:
        """Make tool calls, and kill the process *wait* seconds after the server was ready or after the first result.

        Half of the rounds wait for a result, because on a busy machine no call may end within the shorter time.
        """
        process = subprocess.Popen(
            [*MCPHOST, "pipe", "--model", "demo", "--mcp-config", self._servers],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self._program.env,
            cwd=self._program.work,
        )  # fmt: skip
        self._process = process
        reading = threading.Thread(target=self._read)
        reading.start()
        try:
            self._send("connect", server="log")
            if not self._ready.wait(60):
                raise AssertionError("the server did not become ready")
            if after_result:
                arguments = {"round": self._number, "call": "first"}
                self.called[self._send("call", server="log", tool="add", arguments=arguments)] = arguments
                with self._changed:
                    assert self._changed.wait_for(lambda: bool(self.acknowledged), 60), "the first call did not end"
            until = time.monotonic() + wait
            while time.monotonic() < until:
                number = len(self.called)
                arguments = {"round": self._number, "call": number}
                self.called[self._send("call", server="log", tool="add", arguments=arguments)] = arguments
                if number % 10 == int(after_result):
                    self._send("send", text=f"add {self._number} and {number}")
                # Do not flood it: a full queue of the pipe is not a decision.
                self._progress(number, until)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            reading.join()
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()

    def _progress(self, number: int, until: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self.acknowledged) >= number - 8, max(0.0, until - time.monotonic()))

    _changed = threading.Condition()

    def _send(self, do: str, **more: Any) -> int:
        assert self._process is not None
        assert self._process.stdin is not None
        ident = next(self._ids)
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"id": ident, "do": do, **more}).encode() + b"\n")
            self._process.stdin.flush()
        return ident

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                return  # cut off by the kill
            event = json.loads(line)
            if event["event"] == "question" and event["kind"] == "approve_tool":
                self.allowed.append(event["arguments"])
                self._send("answer", question=event["question"], answer="once")
            elif event["event"] == "result" and event["ok"]:
                self._ready.set()
                if event["id"] in self.called:
                    with self._changed:
                        self.acknowledged.append(self.called[event["id"]])
                        self._changed.notify_all()


def find_lost_calls(ran: list[dict[str, Any]], rows: tuple[AuditRow, ...]) -> list[dict[str, Any]]:
    """Return the calls that ran although the audit log has no row about their start."""
    started = {row.arguments for row in rows if (row.kind, row.event) == ("tool", "started")}
    return [arguments for arguments in ran if arguments_digest(arguments) not in started]


def run_rounds(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Run *count* rounds that share one audit log, and count the outcomes.

    Raises AssertionError at a lost decision or a broken hash chain.
    """
    program, log = Program(folder), folder / "calls.log"
    log.touch()
    servers = program.servers(log={"command": sys.executable, "args": ["-c", SERVER, str(log)]})
    moments = random.Random(seed)
    reader = AuditReader(folder / "data" / "ledger.db", folder / "state" / "ledger.head")
    seen, asked, acknowledged = 0, 0, 0
    for number in range(count):
        run = PipeRun(program, servers, number)
        run.run(moments.uniform(0, MAX_KILL_DELAY), after_result=number % 2 == 1)
        lines = log.read_bytes().split(b"\n")[:-1]
        ran = [json.loads(line) for line in lines[seen:]]
        rows = reader.page(AuditFilter(), 10 * (len(ran) + 50))
        assert not (gone := find_lost_calls(ran, rows)), f"round {number}: these ran and are not in the ledger: {gone}"
        assert not (gone := find_lost_calls(run.acknowledged, rows)), (
            f"round {number}: acknowledged, not in the ledger: {gone}"
        )
        once = ("tool", "answered", "once")
        answered = {row.arguments for row in rows if (row.kind, row.event, row.decision) == once}
        by_model = [arguments for arguments in ran if "a" in arguments]
        assert all(arguments_digest(arguments) in answered for arguments in by_model), (
            f"round {number}: an answer is lost"
        )
        verified = reader.verify()
        assert verified.is_intact, f"round {number}: {verified.findings}"
        seen, asked, acknowledged = len(lines), asked + len(by_model), acknowledged + len(run.acknowledged)
    return {"lives": count, "ran": seen, "answered and ran": asked, "acknowledged": acknowledged,
            "rows": reader.count(AuditFilter())}  # fmt: skip


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(run_rounds(Path(folder), args.count, args.seed)) + "\n")


if __name__ == "__main__":
    main()
