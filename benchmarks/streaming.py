"""Compare CPU time for drawing: mcphost's transcript, Textual's MarkdownStream, and one Static per message.

uv run python -m benchmarks.streaming [--tokens 2000] [--rounds 3] [--history 5000]

Each of these runs in its own process, in alternating rounds, and the medians of all rounds are used. Only the ratios
are meaningful.
"""

# pyright: basic

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import bounds

PARAGRAPH = (
    "The server answers with a list of tools, each with a name, a description and a schema. "
    "A host shows them, asks before it runs one, and gives the result back to the model. "
)
PIECES = (
    "## A heading about the next part\n\n",
    PARAGRAPH + "\n\n",
    "- a first point with `code`\n- a second **point**\n- a third\n\n",
    PARAGRAPH + PARAGRAPH + "\n\n",
    "```python\ndef call(name: str) -> int:\n    return len(name)  # counted\n```\n\n",
    "| name | value |\n|---|---|\n| one | 1 |\n| two | 2 |\n\n",
)


def tokens(count: int) -> Iterator[str]:
    """Yield this many four-character pieces of a Markdown document."""
    made = 0
    while True:
        for text in PIECES:
            for start in range(0, len(text), 4):
                if made == count:
                    return
                made += 1
                yield text[start : start + 4]


def _app(widget: Any, feed: Any) -> dict[str, float]:
    """Run *feed* in a headless 120x40 app that contains *widget*; return the CPU and wall time in seconds."""
    from textual.app import App

    result: dict[str, float] = {}

    class Bench(App[None]):
        CSS = "VerticalScroll, Transcript { height: 1fr; }"

        def __init__(self) -> None:
            super().__init__()
            from mcphost.tui import themes

            self.register_theme(themes.load("dark")[0])
            self.theme = "dark"
            self.animation_level = "none"

        def compose(self) -> Any:
            yield from widget()

        def on_mount(self) -> None:
            self.call_after_refresh(lambda: self.run_worker(self.go()))

        async def go(self) -> None:
            cpu, wall = time.process_time(), time.perf_counter()
            await feed(self, result)
            painted = asyncio.Event()
            self.call_after_refresh(painted.set)
            await painted.wait()
            result["cpu"] = time.process_time() - result.pop("prefilled", cpu)
            result["wall"] = time.perf_counter() - wall
            self.exit()

    asyncio.run(Bench().run_async(headless=True, size=(120, 40)))
    return result


def _yardstick() -> float:
    """Return the CPU time in seconds of a fixed piece of work in Python, which takes about half a millisecond."""
    start = time.process_time()
    words: dict[str, int] = {}
    for number in range(1_500):
        word = str(number % 300)
        words[word] = words.get(word, 0) + len(word)
    return time.process_time() - start


class Eighths:
    """The CPU time of each eighth of a stream, in units of a fixed piece of work that is measured beside it.

    A processor whose speed changes within the seconds of a run makes one eighth up to twice as expensive as another,
    for the same work. The fixed piece of work changes with it.
    """

    def __init__(self, count: int) -> None:
        """Measure a stream of *count* tokens."""
        self._count = count
        self._spent = [0.0] * 8
        self._fixed = [0.0] * 8
        self._since = time.process_time()

    def add(self, done: int) -> None:
        """Count what was spent since the last call; call it after every 50 tokens, with the number so far."""
        eighth = min(7, (done - 1) * 8 // self._count)
        self._spent[eighth] += time.process_time() - self._since
        self._fixed[eighth] += _yardstick()
        self._since = time.process_time()

    def growth(self) -> float:
        """Return the cost of the last eighth relative to the first."""
        costs = [spent / fixed for spent, fixed in zip(self._spent, self._fixed, strict=True)]
        return costs[7] / costs[0]


def frames_ours(count: int) -> dict[str, float]:
    """Stream into mcphost's transcript, drawing one frame per eight tokens, as at 240 tokens per second."""
    return stream_ours(count, every=8)


def growth_ours(count: int) -> dict[str, float]:
    """Do the same as frames_ours and measure the eighths of the stream; the result has "growth"."""
    return stream_ours(count, every=8, eighths=True)


def stream_ours(count: int, every: int = 0, eighths: bool = False) -> dict[str, float]:
    """Stream into mcphost's transcript; unless *every* is 0, draw a frame after that many tokens."""
    from mcphost.tui.transcript.markdown import warm_up
    from mcphost.tui.transcript.transcript import Transcript

    warm_up()

    async def feed(app: Any, result: dict[str, float]) -> None:
        view = app.query_one(Transcript)
        measure = Eighths(count) if eighths else None
        for done, token in enumerate(tokens(count), 1):
            view.stream(token)
            if done % 16 == 0:
                await asyncio.sleep(0)
            if every and done % every == 0:
                view.flush_stream()
                await asyncio.sleep(0)
            if measure is not None and done % 50 == 0:
                measure.add(done)
        if measure is not None:
            result["growth"] = measure.growth()
        view.close_tail()

    return _app(lambda: iter([Transcript()]), feed)


def stream_textual(count: int) -> dict[str, float]:
    """Stream into Textual's Markdown widget through MarkdownStream, with the view anchored to the end."""
    from textual.containers import VerticalScroll
    from textual.widgets import Markdown

    def widget() -> Any:
        with VerticalScroll():
            yield Markdown("")

    async def feed(app: Any, result: dict[str, float]) -> None:
        app.query_one(VerticalScroll).anchor()
        stream = Markdown.get_stream(app.query_one(Markdown))
        for token in tokens(count):
            await stream.write(token)
        await stream.stop()

    return _app(widget, feed)


PREFILL, LATER = 8_000, 1_000


def later_ours(count: int) -> dict[str, float]:
    """Stream *count* tokens into mcphost's transcript, which already shows 8,000; only the new ones are measured."""
    from mcphost.tui.transcript.markdown import warm_up
    from mcphost.tui.transcript.transcript import Transcript

    warm_up()

    async def feed(app: Any, result: dict[str, float]) -> None:
        view = app.query_one(Transcript)
        every = list(tokens(PREFILL + count))
        for token in every[:PREFILL]:
            view.stream(token)
        view.flush_stream()
        await _drawn(app, result)
        for done, token in enumerate(every[PREFILL:], 1):
            view.stream(token)
            if done % 16 == 0:
                await asyncio.sleep(0)
        view.close_tail()

    return _app(lambda: iter([Transcript()]), feed)


def later_textual(count: int) -> dict[str, float]:
    """Stream *count* tokens into Textual's Markdown, which already shows 8,000; only the new ones are measured."""
    from textual.containers import VerticalScroll
    from textual.widgets import Markdown

    def widget() -> Any:
        with VerticalScroll():
            yield Markdown("")

    async def feed(app: Any, result: dict[str, float]) -> None:
        app.query_one(VerticalScroll).anchor()
        every = list(tokens(PREFILL + count))
        await app.query_one(Markdown).update("".join(every[:PREFILL]))
        await _drawn(app, result)
        stream = Markdown.get_stream(app.query_one(Markdown))
        for token in every[PREFILL:]:
            await stream.write(token)
        await stream.stop()

    return _app(widget, feed)


async def _drawn(app: Any, result: dict[str, float]) -> None:
    """Wait until the first 8,000 tokens are on the screen; CPU time is measured from then on."""
    painted = asyncio.Event()
    app.call_after_refresh(painted.set)
    await painted.wait()
    await asyncio.sleep(0.5)
    result["prefilled"] = time.process_time()


def history_ours(count: int) -> dict[str, float]:
    """Show a stored conversation of *count* messages in mcphost's transcript."""
    from mcphost.tui.transcript.blocks import MarkdownBlock, TranscriptBlock, UserMessage
    from mcphost.tui.transcript.markdown import warm_up
    from mcphost.tui.transcript.transcript import Transcript

    warm_up()

    async def feed(app: Any, result: dict[str, float]) -> None:
        blocks: list[TranscriptBlock] = [
            UserMessage(f"Question {n}") if n % 2 else MarkdownBlock(f"Answer **{n}**: {PARAGRAPH}")
            for n in range(count)
        ]
        app.query_one(Transcript).load(blocks)

    return _app(lambda: iter([Transcript()]), feed)


def history_static(count: int) -> dict[str, float]:
    """Show a conversation with one Static per message, which is cheaper than one Markdown widget per message."""
    from textual.containers import VerticalScroll
    from textual.widgets import Static

    async def feed(app: Any, result: dict[str, float]) -> None:
        await app.query_one(VerticalScroll).mount_all(
            [Static(f"Question {n}" if n % 2 else f"Answer {n}: {PARAGRAPH}", markup=False) for n in range(count)]
        )
        app.query_one(VerticalScroll).scroll_end(animate=False)

    return _app(lambda: iter([VerticalScroll()]), feed)


def big_ours(count: int) -> dict[str, float]:
    """Show a text of *count* megabytes in mcphost's viewer for long texts."""
    from mcphost.tui.widgets.long_text import LongText

    text = (PARAGRAPH + "\n") * (count * 1_000_000 // (len(PARAGRAPH) + 1))

    async def feed(app: Any, result: dict[str, float]) -> None:
        app.query_one(LongText).show(text)

    return _app(lambda: iter([LongText()]), feed)


def big_log(count: int) -> dict[str, float]:
    """Show a text of *count* megabytes in Log, the fastest text widget of Textual."""
    from textual.widgets import Log

    text = (PARAGRAPH + "\n") * (count * 1_000_000 // (len(PARAGRAPH) + 1))

    async def feed(app: Any, result: dict[str, float]) -> None:
        app.query_one(Log).write(text)

    return _app(lambda: iter([Log()]), feed)


CONTENDERS = {
    "stream-ours": stream_ours,
    "frames-ours": frames_ours,
    "growth-ours": growth_ours,
    "stream-textual": stream_textual,
    "later-ours": later_ours,
    "later-textual": later_textual,
    "history-ours": history_ours,
    "history-static": history_static,
    "big-ours": big_ours,
    "big-log": big_log,
}


def measured(name: str, count: int) -> dict[str, float]:
    """Measure one of the CONTENDERS in a separate process; return the times in seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.streaming", "--one", name, "--count", str(count)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd=Path(__file__).resolve().parents[1],
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare(title: str, ours: str, theirs: str, count: int, rounds: int) -> float:
    """Measure *ours* and *theirs* in alternating rounds; print the medians and return the ratio of CPU time."""
    taken: dict[str, list[dict[str, float]]] = {ours: [], theirs: []}
    for _ in range(rounds):
        for name in (ours, theirs):
            taken[name].append(measured(name, count))
    cpu = {name: statistics.median(row["cpu"] for row in rows) for name, rows in taken.items()}
    ratio = cpu[theirs] / cpu[ours]
    print(f"{title}: CPU {cpu[ours]:.3f} s against {cpu[theirs]:.3f} s: {ratio:.1f}x less", flush=True)
    return ratio


def growth(count: int, rounds: int) -> float:
    """Return the cost of the last eighth of the tokens relative to the first eighth (median of the rounds)."""
    ratio = statistics.median(measured("growth-ours", count)["growth"] for _ in range(rounds))
    print(f"growth: the last eighth of {count} tokens costs {ratio:.2f}x the first", flush=True)
    return ratio


def main() -> int:
    """Compare the widgets and print the results; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--history", type=int, default=5000)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=CONTENDERS)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(CONTENDERS[args.one](args.count)))
        return 0
    found: dict[str, float] = {}
    found["2,000 tokens, CPU"] = compare(
        f"{args.tokens} tokens, MarkdownStream", "stream-ours", "stream-textual", args.tokens, args.rounds
    )
    # Ours is made to draw 250 frames, theirs draws when it finds time: a worst case, so without a bound.
    title = "the same, ours made to draw a frame every 8 tokens"
    compare(title, "frames-ours", "stream-textual", args.tokens, args.rounds)
    title = f"{LATER} tokens after 8,000, MarkdownStream"
    found["beyond 8,000 tokens, CPU"] = compare(title, "later-ours", "later-textual", LATER, args.rounds)
    found["growth per token"] = growth(max(20_000, args.tokens), args.rounds)
    found["5,000 messages, CPU"] = compare(
        f"{args.history} messages, a Static each", "history-ours", "history-static", args.history, 1
    )
    found["10 MB of text, CPU"] = compare(
        f"{args.megabytes} MB of text, Log", "big-ours", "big-log", args.megabytes, args.rounds
    )
    return bounds.report("streaming", found, file=args.ratios)


if __name__ == "__main__":
    sys.exit(main())
