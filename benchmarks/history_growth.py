"""Measure how the costs of searching and saving grow with the history, and what loading adds to decoding.

uv run python -m benchmarks.history_growth [--rounds N]

Two generated histories, of which one has five times as many messages, are measured alternately, and the least CPU times
are compared, so that a busy machine changes the ratios little. `history` measures the times themselves.
"""

# pyright: basic

import argparse
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks import bounds, history
from mcphost.llm.messages import Message, TextPart
from mcphost.serialization import encode
from mcphost.store import search_index
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.message_search import SearchStore

SMALL, FACTOR = 4_000, 5
LOADED = 20_000
SAVED = 150


def main() -> int:
    """Print the measured ratios; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.history_growth", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = anyio.run(measure, Path(folder), options.rounds)
    return bounds.report("history_growth", found, file=options.ratios)


async def measure(folder: Path, rounds: int) -> dict[str, float]:
    databases = [Database(folder / f"{count}.db") for count in (SMALL, SMALL * FACTOR)]
    for database, count in zip(databases, (SMALL, SMALL * FACTOR), strict=True):
        await history.make(database, count)
    small, large = await search_all(databases, max(5, rounds))
    saved_small, saved_large = await save_alternately(databases)
    loaded, decoded = await load(databases[0], max(5, rounds))
    for database in databases:
        await database.close()
    print(f"all searches {small * 1e3:.1f} and {large * 1e3:.1f} ms, saving {saved_small * 1e3:.2f} and", end=" ")
    print(f"{saved_large * 1e3:.2f} ms, loading {loaded * 1e3:.0f} ms, decoding {decoded * 1e3:.0f} ms")
    return {
        "searching, CPU, five times the messages": large / small,
        "saving, CPU, five times the messages": saved_large / saved_small,
        "loading 20,000 messages, CPU, against decoding": loaded / decoded,
    }


async def search_all(databases: list[Database], rounds: int) -> list[float]:
    """Return the sum of the best times of all searches, for each history."""
    totals = [0.0, 0.0]
    for line in history.SEARCHES:
        query = history.fill_query(line)
        best = [float("inf")] * 2
        for _ in range(rounds):
            for at, database in enumerate(databases):
                began = time.process_time()
                await SearchStore(database).search(query)
                best[at] = min(best[at], time.process_time() - began)
        totals = [total + one for total, one in zip(totals, best, strict=True)]
    return totals


async def save_alternately(databases: list[Database]) -> list[float]:
    """Return the mean CPU time of the faster half of all saves, for each history."""
    times: list[list[float]] = [[], []]
    for number in range(SAVED):
        for at, database in enumerate(databases):
            began = time.process_time()
            await history.timed(ConversationStore(database), "saved", number)
            times[at].append(time.process_time() - began)
    return [sum(sorted(one)[: SAVED // 2]) / (SAVED // 2) for one in times]


async def load(database: Database, rounds: int) -> tuple[float, float]:
    """Return the best time to load a long conversation, and the best time to decode its messages."""
    body = encode(Message(role="user", parts=(TextPart("a line of text " * 8),), at=history.START))
    await database.run(lambda db: history.fill_long(db, body, LOADED))
    loaded = decoded = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        await ConversationStore(database).load("long")
        loaded = min(loaded, time.process_time() - began)
        began = time.process_time()
        for _ in range(LOADED):
            search_index.decode_message(body)
        decoded = min(decoded, time.process_time() - began)
    return loaded, decoded


if __name__ == "__main__":
    raise SystemExit(main())
