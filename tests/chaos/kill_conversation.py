"""Kill a real `mcphost pipe` with SIGKILL during conversations: no acknowledged message may be lost.

Use `python -m tests.chaos.kill_conversation --count 1000` for a longer run. An event acknowledges a message:
`turn_started` for the user's, `message_finished` for the model's. Afterwards, the store must contain all acknowledged
messages in order.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from mcphost.llm.messages import Message
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from tests.flows.program import Program, start_mcphost

MAX_KILL_DELAY = 4.0
"""Seconds after the first acknowledged message within which the kill comes."""


class KilledConversation:
    """One conversation in one process of mcphost, which is killed."""

    def __init__(self, program: Program, number: int) -> None:
        self._program = program
        self._number = number
        self._sent = 0
        self._started = threading.Event()
        self.acknowledged: list[str] = []

    def run(self, wait: float) -> None:
        """Send messages, and kill the process *wait* seconds after the first message was acknowledged."""
        process = start_mcphost(
            ("pipe", "--model", "demo"), env=self._program.env, cwd=self._program.work, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        reading = threading.Thread(target=self._read, args=(process,))
        try:
            self._send_next(process)
            reading.start()
            assert self._started.wait(60), "no message was acknowledged"
            time.sleep(wait)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            reading.join()
            with suppress(BrokenPipeError):
                process.stdin.close()  # type: ignore[union-attr]
            process.stdout.close()  # type: ignore[union-attr]

    def _send_next(self, process: "subprocess.Popen[bytes]") -> None:
        self._sent += 1
        line = json.dumps({"id": self._sent, "do": "send", "text": f"message {self._number}.{self._sent}"})
        with suppress(BrokenPipeError):
            process.stdin.write(line.encode() + b"\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        for line in process.stdout or ():
            if not line.endswith(b"\n"):
                return  # cut off by the kill
            event = json.loads(line)
            if event["event"] in ("turn_started", "message_finished"):
                self.acknowledged.append("".join(part["text"] for part in event["message"]["parts"]))
                self._started.set()
            elif event["event"] == "result":
                self._send_next(process)


def find_lost(acknowledged: Sequence[str], stored: Sequence[str]) -> list[str]:
    """Return the acknowledged messages that are missing from the stored ones or out of order."""
    rest = iter(stored)
    return [text for text in acknowledged if not any(text == one for one in rest)]


async def _load_latest(folder: Path) -> tuple[Message, ...]:
    database = Database(folder / "data" / "mcphost.db")
    try:
        store = ConversationStore(database)
        (latest,) = await store.list_recent(1)
        return await store.load(latest.id) or ()
    finally:
        await database.close()


def run_rounds(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Run *count* conversations that share one store, and count the outcomes.

    Raises AssertionError at the first lost message.
    """
    program, moments = Program(folder), random.Random(seed)
    totals: dict[str, int] = {"lives": count, "acknowledged": 0}
    for number in range(count):
        life = KilledConversation(program, number)
        life.run(moments.uniform(0, MAX_KILL_DELAY))
        messages = anyio.run(_load_latest, folder)
        stored = [message.text for message in messages]
        assert not (lost := find_lost(life.acknowledged, stored)), (
            f"life {number}: acknowledged, but not stored: {lost}"
        )
        totals["acknowledged"] += len(life.acknowledged)
    return totals


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome: dict[str, Any] = run_rounds(Path(folder), args.count, args.seed)
        sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()
