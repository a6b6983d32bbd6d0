"""Tests for the cost of model requests: totals of turns, conversations and days, across branches and processes."""

import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcphost.llm.messages import Message, TextPart, Usage
from mcphost.llm.model import TokenShare
from mcphost.serialization import replace
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.migrations import MIGRATIONS
from mcphost.store.spending import MAX_SHARES, SpendingEntry, SpendingStore, SpendingSum

NOON = 1_764_072_000.0  # 2025-11-25 12:00 UTC
HOUR = 3_600.0


def entry(
    cost: float | None, at: float = NOON, conversation: str = "c", turn: str = "t", model: str = "m"
) -> SpendingEntry:
    return SpendingEntry(
        at=at, conversation=conversation, turn=turn, model=model, input_tokens=100, output_tokens=10, cost=cost
    )


@pytest.mark.anyio
async def test_totals_are_those_of_the_turn_the_conversation_and_the_day(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    await store.add(entry(1.0, at=NOON - 30 * HOUR))
    await store.add(entry(0.25, turn="earlier"))
    await store.add(entry(0.5))
    await store.add(entry(2.0, conversation="another"))
    totals = await store.load_totals("c", "t", since=NOON - 12 * HOUR)
    assert (totals.turn.cost, totals.conversation.cost, totals.day.cost) == (1.5, 1.75, 2.75)
    assert (totals.turn.requests, totals.day.tokens) == (2, 330)


@pytest.mark.anyio
async def test_what_a_cache_saved_is_stored_and_summed(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    for saved in (0.25, -0.125, 0.0):
        await store.add(replace(entry(0.5), saved=saved))
    assert [one.saved for one in await store.list_entries()] == [0.0, -0.125, 0.25]
    assert (await store.load_totals("c", "t", since=0)).day.saved == 0.125
    assert [day.total.saved for day in await store.list_days(since=0)] == [0.125]


@pytest.mark.anyio
async def test_a_request_of_unknown_price_counts_its_tokens_and_is_reported(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    await store.add(entry(None))
    await store.add(entry(0.5))
    totals = await store.load_totals("c", "", since=0)
    assert totals.day == SpendingSum(cost=0.5, requests=2, tokens=220, unpriced_tokens=110)
    assert totals.turn == SpendingSum()


@pytest.mark.anyio
async def test_reported_figures_replace_the_estimate_made_before_sending(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    number = await store.add(entry(0.1))
    final = SpendingEntry(at=NOON, conversation="c", turn="t", cost=0.3, shares=(TokenShare("system", tokens=7),))
    await store.replace(number, final)
    unsent = await store.add(entry(9.0))
    await store.delete(unsent)
    assert await store.list_entries() == (final,)


@pytest.mark.anyio
async def test_only_the_biggest_shares_of_an_entry_are_kept(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    shares = tuple(TokenShare("results", "s", f"tool {number}", number) for number in range(MAX_SHARES * 2))
    await store.add(SpendingEntry(at=NOON, shares=shares))
    (stored,) = await store.list_entries()
    assert len(stored.shares) == MAX_SHARES
    assert min(share.tokens for share in stored.shares) == MAX_SHARES


@pytest.mark.anyio
async def test_days_are_listed_by_model_newest_first(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    for cost, at, model in ((1, NOON, "a"), (2, NOON, "b"), (4, NOON, "a"), (8, NOON - 48 * HOUR, "b")):
        await store.add(entry(cost, at=at, model=model))
    listed = await store.list_days(since=NOON - 72 * HOUR)
    assert [(row.model, row.total.cost, row.total.requests) for row in listed] == [
        ("a", 5, 2),
        ("b", 2, 1),
        ("b", 8, 1),
    ]
    assert listed[0].day == listed[1].day > listed[2].day
    assert [row.total.cost for row in await store.list_days(since=NOON - HOUR)] == [5, 2]


@pytest.mark.anyio
async def test_a_clock_that_was_ahead_neither_hides_nor_repeats_a_request(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    await store.add(entry(1.0, at=NOON + 3 * 365 * 24 * HOUR))  # made while the clock was three years ahead
    await store.add(entry(0.5, at=NOON))
    today = (await store.load_totals("c", "t", since=NOON - 12 * HOUR)).day
    tomorrow = (await store.load_totals("c", "t", since=NOON + 12 * HOUR)).day
    assert (today.cost, today.requests) == (1.5, 2)
    assert (tomorrow.cost, tomorrow.requests) == (0, 0)
    assert [row.total.requests for row in await store.list_days(since=0)] == [2]


@pytest.mark.anyio
async def test_an_hour_in_the_future_still_counts_today(tmp_path: Path) -> None:
    store = SpendingStore(Database(tmp_path / "s.db"))
    await store.add(entry(1.0, at=NOON + HOUR))
    await store.add(entry(0.5, at=NOON))
    assert (await store.load_totals("c", "t", since=NOON - 12 * HOUR)).day.cost == 1.5


def _spend(path: str, count: int) -> None:
    async def work() -> None:
        store = SpendingStore(Database(Path(path)))
        for _ in range(count):
            await store.add(entry(0.25))

    anyio.run(work)


def test_processes_that_spend_at_once_share_one_total(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_spend, args=(path, 20)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT sum(cost), count(*) FROM spending").fetchone() == (15.0, 60)


@pytest.mark.anyio
async def test_totals_use_an_index(tmp_path: Path) -> None:
    await SpendingStore(Database(tmp_path / "s.db")).list_entries()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        for where in ("at >= 1", "conversation = 'c' AND turn = 't'"):
            plan = db.execute(f"EXPLAIN QUERY PLAN SELECT sum(cost) FROM spending WHERE {where}").fetchall()
            assert "USING INDEX" in plan[0][3]


@pytest.mark.anyio
async def test_requests_stored_before_this_table_existed_are_taken_over_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    older = tuple(step for step in MIGRATIONS if step[0] not in ("012_spending", "019_cache_savings"))
    old = Database(path, migrations=older)
    conversations = ConversationStore(old)
    paid = Message(
        role="assistant",
        parts=(TextPart("hi"),),
        at=NOON,
        model="m",
        usage=Usage(input_tokens=10, output_tokens=2, cost=0.5),
    )
    unpriced = Message(
        role="assistant", parts=(TextPart('"usage":{'),), at=NOON + 1, model="m", usage=Usage(input_tokens=3)
    )
    for message in (Message(role="user", parts=(TextPart("x"),), at=NOON - 1), paid, unpriced):
        await conversations.append("one", message, title="t", model="m")
    await conversations.rewind("one", 1)  # a branch that was left was paid for, too
    await conversations.fork("one", [1, 2], new_id="two", at=NOON)  # a copy was not paid for again
    await old.run(
        lambda db: db.execute(
            "INSERT INTO messages (conversation, seq, body) VALUES ('one', 9, CAST('\"usage\":{' AS BLOB))"
        )
    )
    await old.close()
    store = SpendingStore(Database(path))
    total = (await store.load_totals("", "", since=0)).day
    assert total == SpendingSum(cost=0.5, requests=2, tokens=15, unpriced_tokens=3)
