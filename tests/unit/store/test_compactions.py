"""Tests for stored summaries of conversations: stored apart from the messages, undone, damaged, and on branches."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcphost.llm.messages import Message, TextPart, Usage
from mcphost.store.compactions import Compaction, SummarySentence, find_active_compaction
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database

pytestmark = pytest.mark.anyio


async def store_with_message(file: Path) -> ConversationStore:
    store = ConversationStore(Database(file))
    await store.append("c", Message(role="user", parts=(TextPart("hi"),), at=1.0), title="hi", model="m")
    return store


def compaction(last: int, text: str = "It began.") -> Compaction:
    sentences = (SummarySentence(text, (1, 2)), SummarySentence("By hand.", (), by_user=True))
    return Compaction(last=last, messages=last, sentences=sentences, model="m", at=2.0, usage=Usage(input_tokens=7))


async def test_a_summary_is_loaded_as_it_was_stored(tmp_path: Path) -> None:
    store = await store_with_message(tmp_path / "s.db")
    stored = await store.compactions.add("c", compaction(4))
    assert stored.number
    loaded = await ConversationStore(Database(tmp_path / "s.db")).compactions.load("c")
    assert loaded == (stored,)
    assert loaded[0].sentences == compaction(4).sentences


async def test_an_undone_summary_is_not_loaded(tmp_path: Path) -> None:
    store = await store_with_message(tmp_path / "s.db")
    first, second = await store.compactions.add("c", compaction(2)), await store.compactions.add("c", compaction(4))
    await store.compactions.undo(second.number)
    assert await store.compactions.load("c") == (first,)


async def test_a_damaged_summary_hides_neither_the_others_nor_the_messages(tmp_path: Path) -> None:
    store = await store_with_message(tmp_path / "s.db")
    good, bad = await store.compactions.add("c", compaction(2)), await store.compactions.add("c", compaction(4))
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("UPDATE compactions SET body = x'00' WHERE number = ?", (bad.number,))
    assert await store.compactions.load("c") == (good,)
    assert len(await store.load("c") or ()) == 1


def test_the_newest_summary_whose_last_message_is_on_the_branch_applies() -> None:
    old, new = compaction(4), compaction(8)
    assert find_active_compaction([old, new], {*range(1, 12)}) is new
    assert find_active_compaction([old, new], {*range(1, 7), 12, 13}) is old
    assert find_active_compaction([old, new], {1, 2, 3}) is None
