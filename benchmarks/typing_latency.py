"""Measure the latency from key press to screen while an answer streams, in mcphost and with Textual's MarkdownStream.

uv run python -m benchmarks.typing_latency [--seconds 8] [--rounds 3]

Both run in a 120x40 pseudo-terminal. After 8,000 tokens, 200 tokens arrive per second and a key is typed every 50 ms:
in mcphost into the composer of the real chat, in the Textual app into an Input below the Markdown widget.
"""

# pyright: basic

import argparse
import asyncio
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import bounds
from benchmarks.startup import Watched
from benchmarks.streaming import tokens

PREFILL = 8_000
RATE = 200
KEYS = [chr(code) for code in range(0x2460, 0x2500)]  # each once, because a row with earlier ones is drawn again
READY, DONE = "PREFILLED", "STREAMED"
LIMIT = 0.05  # seconds at p99


async def stream(write: Any, seconds: float) -> None:
    """Call *write* with the tokens after the first 8,000, each at its scheduled time, for this many seconds."""
    begin = time.perf_counter()
    count = round(seconds * RATE)
    for number, token in enumerate(list(tokens(PREFILL + count))[PREFILL:]):
        await asyncio.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
        result = write(token)
        if result is not None:
            await result


def run_ours(seconds: float) -> None:
    """Show the chat without a Host, and stream tokens into its transcript."""
    from mcphost.tui.app import McpHostApp
    from mcphost.tui.transcript.transcript import Transcript

    app = McpHostApp()

    async def feed() -> None:
        from mcphost.tui.transcript.markdown import warm_up

        await app.first_frame_drawn.wait()
        warm_up()
        view = app.chat.query_one(Transcript)
        for token in tokens(PREFILL):
            view.stream(token)
        view.flush_stream()
        await asyncio.sleep(0.5)
        app.chat.notify(READY)
        await stream(view.stream, seconds)
        app.chat.notify(DONE)

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(feed())
            await app.run_async()

    asyncio.run(run())


def run_textual(seconds: float) -> None:
    """Show Textual's Markdown widget above an Input, and stream tokens into the Markdown widget."""
    from textual.app import App
    from textual.containers import VerticalScroll
    from textual.widgets import Input, Markdown

    class Bench(App[None]):
        CSS = "VerticalScroll { height: 1fr; }"

        def compose(self) -> Any:
            with VerticalScroll():
                yield Markdown("")
            yield Input()

        def on_mount(self) -> None:
            self.query_one(Input).focus()
            self.call_after_refresh(lambda: self.run_worker(self.feed()))

        async def feed(self) -> None:
            self.query_one(VerticalScroll).anchor()
            await self.query_one(Markdown).update("".join(tokens(PREFILL)))
            await asyncio.sleep(0.5)
            self.notify(READY)
            writer = Markdown.get_stream(self.query_one(Markdown))
            await stream(writer.write, seconds)
            await writer.stop()
            self.notify(DONE)

    Bench().run()


CONTENDERS = {"ours": run_ours, "textual": run_textual}


def measured(name: str, seconds: float) -> list[float]:
    """Return, for each typed key, the seconds until the key appeared on the screen."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "benchmarks.typing_latency", "--one", name, "--seconds", str(seconds)]
    os.chdir(Path(__file__).resolve().parents[1])
    program = Watched(command, environment)
    found: list[float] = []
    try:
        program.until(READY)
        program.drain_for(0.2)
        end = time.perf_counter() + seconds - 0.5
        for key in KEYS:
            if time.perf_counter() > end:
                break
            typed = time.perf_counter()
            program.type(key)
            program.until_new(key)
            found.append(time.perf_counter() - typed)
            program.drain_for(max(0.02, 0.05 - found[-1]))
        return found
    finally:
        program.end()


def main() -> int:
    """Measure both apps in alternating rounds and print the results; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=CONTENDERS)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    args = parser.parse_args()
    if args.one:
        CONTENDERS[args.one](args.seconds)
        return 0
    worst: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(args.rounds):
        for name in CONTENDERS:
            times = sorted(measured(name, args.seconds))
            worst[name].append(times[int(len(times) * 0.99)])
            median = statistics.median(times) * 1e3
            print(f"{name}: {len(times)} keys, median {median:.0f} ms, p99 {worst[name][-1] * 1e3:.0f} ms", flush=True)
    ours, theirs = min(worst["ours"]), min(worst["textual"])  # load only adds
    found = {"typed key, p99": theirs / ours, "typed key, p99, of 50 ms": ours / LIMIT}
    return bounds.report("typing_latency", found, file=args.ratios)


if __name__ == "__main__":
    sys.exit(main())
