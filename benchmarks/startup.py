"""Compare the startup of `mcphost chat` with that of a minimal Textual app: first frame, typed key, CPU time, memory.

uv run python -m benchmarks.startup [--rounds N] [--servers N] [--json]

Both run alternately in a 120x40 pseudo-terminal. mcphost has ten stdio servers and a litellm model configured. Figures:

- frame: time from exec until the placeholder of the composer is written
- key: time from exec until a typed character is echoed (after the frame, one is typed every 10 ms)
- CPU: CPU time of the program's own process until the frame
- RSS: memory of the same process, one second after the key

A ratio is the median of the ratios of all rounds. Within a round, both programs run at nearly the same speed; between
rounds, the speed of a shared processor differs by half, so that the best rounds may come from different speeds.
"""

# pyright: basic

import argparse
import contextlib
import json
import os
import pty
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import psutil

from benchmarks import bounds

ROOT = Path(__file__).resolve().parents[1]
PLACEHOLDER = "ype a message"  # the cursor may stand on the first letter
KEY = "§"  # on no first screen
GIVE_UP = 60.0
ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-B]|[=>78c])")
MIN_ROUNDS = 12
"""For one program, the median of 12 rounds' ratios was 1.14 to 1.20, and the ratio of the best rounds 1.20 to 1.44."""
FIGURES = {"frame": "first frame s", "key": "typed key s", "cpu": "CPU s to frame", "rss": "RSS MB"}
NAMES = {"frame": "first frame", "key": "typed key", "cpu": "CPU to the first frame", "rss": "memory"}


class Watched:
    """A program that runs in a pseudo-terminal, with the output that it has written so far."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        self.begin = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self._raw = bytearray()
        self._typed = 0

    def until(self, text: str, typing: str = "") -> float:
        """Return the seconds from exec until *text* has been written; meanwhile, type *typing* repeatedly if given."""
        last = 0.0
        while text not in self.text():
            now = time.perf_counter()
            if now - self.begin > GIVE_UP or self.process.poll() is not None:
                raise SystemExit(f"{text!r} never came; the screen got: {self.text()[-1500:]}")
            if typing and now - last > 0.01:
                os.write(self.master, typing.encode())
                last = now
            self.drain(0.005)
        return time.perf_counter() - self.begin

    def type(self, text: str) -> None:
        """Type *text*; a following call of `until_new` then waits for text that is written after this."""
        self._typed = len(self._raw)
        os.write(self.master, text.encode())

    def until_new(self, text: str) -> None:
        """Wait until *text* has been written since the last call of `type`."""
        begin = time.perf_counter()
        while self._raw.find(text.encode(), self._typed) < 0:
            if time.perf_counter() - begin > GIVE_UP or self.process.poll() is not None:
                raise SystemExit(f"{text!r} never came; the screen got: {self.text()[-1500:]}")
            self.drain(0.005)

    def drain(self, seconds: float) -> None:
        """Wait up to *seconds* seconds for output of the program, and read what is available."""
        if select.select([self.master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self._raw += os.read(self.master, 1 << 16)

    def drain_for(self, seconds: float) -> None:
        """Read the output of the program for this many seconds."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.drain(0.05)

    def text(self) -> str:
        """Return the text written so far, without escape sequences."""
        return ESCAPES.sub("", self._raw.decode(errors="replace"))

    def end(self) -> None:
        """Send SIGTERM to the program; if it is still running after five seconds, kill its process group."""
        children = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.send_signal(signal.SIGTERM)
        end = time.perf_counter() + 5
        while self.process.poll() is None and time.perf_counter() < end:
            self.drain(0.05)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)
        for process in psutil.wait_procs(children, timeout=5)[1]:
            process.kill()


def process_cpu(pid: int) -> float:
    """Return the CPU time of a process in seconds, more precisely than `/proc/PID/stat` gives it.

    One tick of the clock in that file is 6 % of a startup. The clock ID is computed in the same way as by
    clock_getcpuclockid(3) on Linux.
    """
    return time.clock_gettime((~pid << 3) | 2)


def measure(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Measure one start of a program, from exec to one second after the first key is echoed."""
    program = Watched(command, environment)
    try:
        own = psutil.Process(program.process.pid)
        frame = program.until(PLACEHOLDER)
        cpu = process_cpu(own.pid)
        key = program.until(KEY, typing=KEY)
        program.drain_for(1.0)
        return {"frame": frame, "key": key, "cpu": cpu, "rss": own.memory_info().rss / 1e6}
    finally:
        program.end()


def contenders(folder: Path, servers: int) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the command lines of mcphost and the minimal app with their environments, keyed by name."""
    server = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {f"server{number}": server for number in range(servers)}}))
    homes = {f"MCPHOST_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "HOME": str(folder)}
    environment = {"PATH": os.environ["PATH"], **terminal, **homes, "OPENAI_API_KEY": "none"}
    mcphost = [str(Path(sys.executable).with_name("mcphost")), "chat", "--mcp-config", str(config)]
    model = ["--model", "openai/x", "--api-base", "http://127.0.0.1:9/v1"]
    return {
        "minimal Textual": ([sys.executable, str(ROOT / "benchmarks/minimal_textual.py")], environment),
        "mcphost": ([*mcphost, *model], environment),
    }


def main() -> int:
    """Measure, and print the figures and ratios; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--servers", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="every figure of every round")
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    options.rounds = max(options.rounds, MIN_ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        both = contenders(Path(folder), options.servers)
        figures: dict[str, list[dict[str, float]]] = {name: [] for name in both}
        for number in range(options.rounds + 1):
            for name, (command, environment) in both.items():
                figure = measure(command, environment)
                if number:  # the first round compiles and fills caches
                    figures[name].append(figure)
    if options.json:
        print(json.dumps(figures))
        return 0
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in FIGURES} for name, runs in figures.items()
    }
    pairs = list(zip(figures["mcphost"], figures["minimal Textual"], strict=True))
    ratios = {key: statistics.median(ours[key] / theirs[key] for ours, theirs in pairs) for key in FIGURES}
    print(f"{options.rounds} rounds, {options.servers} stdio servers, load {os.getloadavg()[0]:.1f}")
    print(f"{'':18}" + "".join(f"{title:>18}" for title in FIGURES.values()))
    for name, row in medians.items():
        print(f"{name:18}" + "".join(f"{row[key]:18.2f}" for key in FIGURES))
    print(f"{'ratio':18}" + "".join(f"{ratios[key]:17.2f}x" for key in FIGURES))
    return bounds.report("startup", {NAMES[key]: ratio for key, ratio in ratios.items()}, file=options.ratios)


if __name__ == "__main__":
    sys.exit(main())
