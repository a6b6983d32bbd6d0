"""Measure searching, saving and loading in a large generated history of Latin and Chinese text.

uv run python -m benchmarks.history [--messages N] [--store FILE] [--rounds N]

The words have realistic frequencies. Prints the time of several searches (the best and the worst of several rounds), of
saving a message, and of opening a conversation of 100,000 messages as the chat does, which decodes the newest messages
only; of each, the best time counts against its bound. Decoding all of them is printed as well. An existing store is
reused. A million messages take some minutes to write, so that the default is a quarter of that.
"""

# pyright: basic

import argparse
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks import bounds
from mcphost.host.conversation_messages import Conversation
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import Message, TextPart, ToolReturnPart, ToolUsePart
from mcphost.serialization import encode
from mcphost.store import search_index
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.message_search import SearchStore, parse_query
from mcphost.tui.transcript.opened_conversation import NEWEST_MESSAGES

PER_CONVERSATION = 20
LONG = 100_000
SEARCH_SECONDS, SAVE_SECONDS, OPEN_SECONDS = 0.1, 0.01, 1.0
START = 1_700_000_000.0
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
WORDS = ["".join(parts) for parts in itertools.islice(itertools.product(SYLLABLES, repeat=3), 60_000)]
CHARACTERS = [chr(0x4E00 + number) for number in range(3_000)]
SEARCHES = (
    "the most common word: {0}", "a common word: {200}", "a rare word: {40000}", "three words: {3} {60} {900}",
    'a common phrase: "{0} {1}"', 'a rare phrase: "{40} {90}"', "without a word: {300} -{0}", "a prefix: {5:3}*",
    "two letters: {5:2}*", "two characters: 丅丆", "four characters: 一丁丂七", "one character: 一",
    "a tool: tool:read_file {300}", "a role: role:user {2}", "a period: after:2023-12-01 before:2023-12-08 {9}",
    "only a period: after:2023-12-01", "nothing found: {0} zzzzzz",
)  # fmt: skip


def main() -> int:
    """Create the store if it does not exist, and print the measured times; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=str(__doc__).splitlines()[0])
    parser.add_argument("--messages", type=int, default=250_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder) / "store.db"
        found = anyio.run(measure, path, options.messages, options.rounds)
    return bounds.report("history", found, file=options.ratios)


async def measure(path: Path, count: int, rounds: int) -> dict[str, float]:
    """Return the best times, as a part of the time that each may take."""
    random.Random(14).shuffle(WORDS)
    database = Database(path)
    if await ConversationStore(database).load("c0") is None:
        began = time.perf_counter()
        await make(database, count)
        print(f"made {count:,} messages in {time.perf_counter() - began:.0f} s, {megabytes(path):.0f} MB")
    searches = [await search(database, line, rounds) for line in SEARCHES]
    saved = await save(database)
    opened = await open_long(database, rounds)
    await database.close()
    return {
        "slowest search, of 100 ms": max(searches) / SEARCH_SECONDS,
        "saving a message, median, of 10 ms": saved / SAVE_SECONDS,
        "100,000 messages opened, of 1 s": opened / OPEN_SECONDS,
    }


def megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


async def make(database: Database, count: int) -> None:
    source = random.Random(14)
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(WORDS))))
    cjk_weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(len(CHARACTERS))))
    numbers = iter(range(count))
    while batch := list(itertools.islice(numbers, 5_000)):

        def work(db: sqlite3.Connection, batch: list[int] = batch) -> None:
            for number in batch:
                message = make_message(source, number, weights, cjk_weights)
                conversation, seq = divmod(number, PER_CONVERSATION)
                if seq == 0:
                    title = message.text[:60]
                    db.execute(
                        "INSERT INTO conversations (id, title, model, created, updated) VALUES (?, ?, 'm', ?, ?)",
                        (f"c{conversation}", title, message.at, message.at),
                    )
                    search_index.add_title(db, f"c{conversation}", title, message.at)
                db.execute(
                    "INSERT INTO messages (conversation, seq, body) VALUES (?, ?, ?)",
                    (f"c{conversation}", seq + 1, encode(message)),
                )
                search_index.add_message(db, f"c{conversation}", seq + 1, message)

        await database.run(work)


def make_message(source: random.Random, number: int, weights: list[float], cjk_weights: list[float]) -> Message:
    text = " ".join(source.choices(WORDS, cum_weights=weights, k=source.randint(8, 90)))
    if number % 5 == 0:
        text += "".join(source.choices(CHARACTERS, cum_weights=cjk_weights, k=60))
    at = START + number * 60.0
    if number % 4 == 2:
        return Message(role="assistant", parts=(ToolUsePart(f"u{number}", "read_file", {"path": text[:80]}),), at=at)
    if number % 4 == 3:
        part = ToolReturnPart(f"u{number - 1}", "read_file", text, server="fs", tool="read_file")
        return Message(role="tool", parts=(part,), at=at)
    return Message(role="user" if number % 4 == 0 else "assistant", parts=(TextPart(text),), at=at)


async def search(database: Database, line: str, rounds: int) -> float:
    name, query = line.partition(": ")[0], fill_query(line)
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        result = await SearchStore(database).search(query)
        times.append(time.perf_counter() - began)
    found = sum(one.count for one in result.conversations)
    match = parse_query(query, now=time.time()).match
    print(f"{name:24} {min(times) * 1e3:7.1f} to {max(times) * 1e3:7.1f} ms  {found:5} hits  {match[:60]}")
    return min(times)


def fill_query(line: str) -> str:
    pattern = line.partition(": ")[2]
    return "".join(fill(piece) for piece in pattern.replace("{", "\0{").replace("}", "}\0").split("\0"))


def fill(piece: str) -> str:
    if not piece.startswith("{"):
        return piece
    rank, _, length = piece[1:-1].partition(":")
    return WORDS[int(rank)][: int(length) if length else None]


async def save(database: Database) -> float:
    store = ConversationStore(database)
    indexed = [await timed(store, "saved", number) for number in range(500)]
    print(report("saving a message", indexed))
    return statistics.median(indexed)


async def timed(store: ConversationStore, conversation: str, number: int) -> float:
    text = " ".join(random.Random(number).choices(WORDS, k=60))
    began = time.perf_counter()
    message = Message(role="user", parts=(TextPart(text),), at=time.time())
    await store.append(conversation, message, title="t", model="m")
    return time.perf_counter() - began


def report(name: str, times: list[float]) -> str:
    ordered = sorted(times)
    p99 = ordered[int(len(ordered) * 0.99)]
    return f"{name:24} median {statistics.median(times) * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms"


def fill_long(db: sqlite3.Connection, body: bytes, count: int) -> None:
    """Create the conversation `long` with this many equal messages, unless it exists."""
    db.execute("INSERT OR IGNORE INTO conversations (id, title, model, created, updated) VALUES ('long', '', '', 1, 1)")
    db.executemany(
        "INSERT OR IGNORE INTO messages (conversation, seq, body) VALUES ('long', ?, ?)",
        ((number, body) for number in range(1, count + 1)),
    )


async def open_long(database: Database, rounds: int) -> float:
    body = encode(Message(role="user", parts=(TextPart("a line of text " * 8),), at=START))
    await database.run(lambda db: fill_long(db, body, LONG))
    store = Lazy(lambda: ConversationStore(database))
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        opened = await Conversation.load(store, print, "long")
        newest = () if opened is None else opened.messages[-NEWEST_MESSAGES:]
        times.append(time.perf_counter() - began)
        if opened is None or len(opened.messages) != LONG or len(newest) != NEWEST_MESSAGES:
            raise RuntimeError("messages are missing")
    began = time.perf_counter()
    await ConversationStore(database).load("long")
    whole = (time.perf_counter() - began) * 1e3
    opening = f"{min(times) * 1e3:.0f} to {max(times) * 1e3:.0f} ms"
    print(f"{'opening 100,000 messages':24} {opening}, all decoded {whole:.0f} ms")
    return min(times)


if __name__ == "__main__":
    raise SystemExit(main())
