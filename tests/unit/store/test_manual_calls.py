"""Tests for stored manual calls: kept with their conversation, on its branches, within bounds, and deleted with it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcphost.llm.messages import ImagePart, Message, TextPart
from mcphost.store import manual_calls
from mcphost.store.conversation_deletion import ConversationDeletion
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.manual_calls import StoredManualCall
from mcphost.store.migrations import MIGRATIONS

pytestmark = pytest.mark.anyio


def make_call(text: str = "42", after: int = 0, at: float = 1.0) -> StoredManualCall:
    return StoredManualCall("demo", "add", {"a": 1}, "ok", text, 0.5, at, after=after)


async def store_with_messages(file: Path, count: int = 2) -> ConversationStore:
    store = ConversationStore(Database(file))
    for at in range(count):
        message = Message(role="user", parts=(TextPart(f"hi {at}"),), at=at + 1.0)
        await store.append("c", message, title="hi", model="m")
    return store


async def test_a_manual_call_is_loaded_as_it_was_stored(tmp_path: Path) -> None:
    store = await store_with_messages(tmp_path / "s.db")
    call = make_call(after=2)
    await store.manual_calls.add("c", call)
    loaded = await ConversationStore(Database(tmp_path / "s.db")).manual_calls.load("c", (1, 2))
    assert loaded == (call,)


async def test_a_manual_call_of_another_branch_is_not_loaded(tmp_path: Path) -> None:
    store = await store_with_messages(tmp_path / "s.db")
    await store.manual_calls.add("c", make_call("first", after=0))
    await store.manual_calls.add("c", make_call("left", after=2))
    assert [call.text for call in await store.manual_calls.load("c", (1, 3))] == ["first"]


async def test_a_copy_of_a_conversation_has_the_calls_after_its_messages(tmp_path: Path) -> None:
    store = await store_with_messages(tmp_path / "s.db", 3)
    for after in (0, 2, 3):
        await store.manual_calls.add("c", make_call(str(after), after=after))
    await store.fork("c", [2], new_id="d", at=9.0)
    assert [(call.text, call.after) for call in await store.manual_calls.load("d", (1,))] == [("0", 0), ("2", 1)]


async def test_a_deleted_conversation_takes_its_manual_calls_along_and_gets_no_new_ones(tmp_path: Path) -> None:
    store = await store_with_messages(tmp_path / "s.db")
    await store.manual_calls.add("c", make_call("secret words"))
    await ConversationDeletion(Database(tmp_path / "s.db")).delete("c")
    await store.manual_calls.add("c", make_call("secret words"))
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        assert db.execute("SELECT count(*) FROM manual_calls").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM conversations").fetchone() == (0,)


async def test_a_conversation_that_begins_with_a_manual_call_is_titled_by_its_first_message(tmp_path: Path) -> None:
    store = ConversationStore(Database(tmp_path / "s.db"))
    await store.manual_calls.add("c", make_call(), title="demo/add")
    assert await store.find_title("c") == "demo/add"
    await store.append("c", Message(role="user", parts=(TextPart("hi"),), at=2.0), title="hi", model="m")
    assert await store.find_title("c") == "hi"


async def test_a_title_that_the_user_gave_before_the_first_message_is_kept(tmp_path: Path) -> None:
    store = ConversationStore(Database(tmp_path / "s.db"))
    await store.manual_calls.add("c", make_call(), title="demo/add")
    await store.rename("c", "Sums")
    await store.append("c", Message(role="user", parts=(TextPart("hi"),), at=2.0), title="hi", model="m")
    assert await store.find_title("c") == "Sums"


async def test_long_results_and_large_images_are_stored_within_bounds(tmp_path: Path) -> None:
    store = await store_with_messages(tmp_path / "s.db")
    call = StoredManualCall(
        "demo", "add", {}, "ok", "x" * 3_000_000 + "end", images=(ImagePart("image/png", "A" * 9_000_000),)
    )
    await store.manual_calls.add("c", call)
    (kept,) = await store.manual_calls.load("c", (1, 2))
    assert len(kept.text) < manual_calls.MAX_TEXT_CHARS + 100
    assert "[… 2,000,003 characters …]" in kept.text
    assert kept.text.endswith("end")
    assert kept.images == ()


async def test_the_texts_for_the_user_and_the_model_are_bounded_together(tmp_path: Path) -> None:
    store = await store_with_messages(tmp_path / "s.db")
    long = "x" * 3_000_000
    await store.manual_calls.add("c", StoredManualCall("demo", "add", {}, "ok", long, model_text=f"{long}end"))
    (kept,) = await store.manual_calls.load("c", (1, 2))
    assert kept.model_text is not None
    assert kept.model_text.endswith("end")
    assert len(kept.text) + len(kept.model_text) < manual_calls.MAX_TEXT_CHARS + 100


async def test_the_oldest_manual_calls_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual_calls, "MAX_CALLS", 3)
    store = await store_with_messages(tmp_path / "s.db")
    for number in range(5):
        await store.manual_calls.add("c", make_call(str(number)))
    assert [call.text for call in await store.manual_calls.load("c", ())] == ["2", "3", "4"]
    monkeypatch.setattr(manual_calls, "MAX_TOTAL_BYTES", 1_000)
    await store.manual_calls.add("c", make_call("y" * 800))
    assert [len(call.text) for call in await store.manual_calls.load("c", ())] == [800]


async def test_a_store_of_an_earlier_version_gets_the_table(tmp_path: Path) -> None:
    earlier = tuple(step for step in MIGRATIONS if step[0] < "019")
    old = ConversationStore(Database(tmp_path / "s.db", migrations=earlier))
    assert await old.find_title("c") == ""
    store = await store_with_messages(tmp_path / "s.db")
    await store.manual_calls.add("c", make_call())
    assert len(await store.manual_calls.load("c", ())) == 1


async def test_a_damaged_manual_call_hides_no_others(tmp_path: Path) -> None:
    store = await store_with_messages(tmp_path / "s.db")
    for text in ("good", "bad"):
        await store.manual_calls.add("c", make_call(text))
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("UPDATE manual_calls SET body = x'00' WHERE number = 2")
    assert [call.text for call in await store.manual_calls.load("c", ())] == ["good"]
