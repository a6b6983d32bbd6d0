"""Tests for renaming, pinning and deleting stored conversations."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from mcphost.errors import UsageError
from mcphost.host.conversation.background_results import make_result_message
from mcphost.llm.messages import Message, Part, TextPart, ToolReturnPart
from mcphost.store.conversation_deletion import ConversationDeletion
from mcphost.store.conversations import ConversationStore, read_recent_ids
from mcphost.store.database import Database
from mcphost.store.message_search import SearchStore

pytestmark = pytest.mark.anyio
FILES = ("00000000000000aa", "00000000000000bb")


async def store_message(database: Database, conversation_id: str, *parts: Part, at: float = 1.0) -> None:
    message = Message(role="user", parts=parts, at=at)
    await ConversationStore(database).append(conversation_id, message, title="First words", model="m")


def make_result(name: str) -> ToolReturnPart:
    return ToolReturnPart("u", "t", "shortened", kept=f"/somewhere/results/{name}.txt")


async def test_a_name_of_the_user_replaces_the_title_made_from_the_first_message(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_message(database, "c", TextPart("x"))
    conversations = ConversationStore(database)
    (info,) = await ConversationStore(database).list_recent()
    assert (info.title, info.is_named) == ("First words", False)
    await conversations.rename("c", "  By\nthe user ")
    (info,) = await ConversationStore(database).list_recent()
    assert (info.title, info.is_named) == ("By the user", True)
    found = await SearchStore(database).search("first")
    assert found.conversations == ()
    with pytest.raises(UsageError):
        await conversations.rename("c", " \n ")


async def test_pinned_conversations_come_first(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    for number in range(3):
        await store_message(database, str(number), TextPart("x"), at=number)
    conversations = ConversationStore(database)
    await conversations.set_pinned("0", is_pinned=True)
    assert [row.id for row in await conversations.list_recent(pinned_first=True)] == ["0", "2", "1"]
    await conversations.set_pinned("0", is_pinned=False)
    assert [row.id for row in await conversations.list_recent(pinned_first=True)] == ["2", "1", "0"]


async def test_a_conversation_from_the_future_is_not_the_newest_until_it_gets_a_message(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    now = time.time()
    for name, at in (("old", now - 1_000), ("clock-jump", 2_208_988_800.0), ("new", now - 10), ("skewed", now + 60)):
        await store_message(database, name, TextPart("x"), at=at)
    conversations = ConversationStore(database)
    assert [row.id for row in await conversations.list_recent()] == ["skewed", "new", "old", "clock-jump"]
    assert [row.id for row in await conversations.list_recent(1)] == ["skewed"]
    await store_message(database, "clock-jump", TextPart("y"), at=now)
    assert [row.id for row in await conversations.list_recent()] == ["skewed", "clock-jump", "new", "old"]
    await database.close()
    assert read_recent_ids(tmp_path / "s.db", 2) == ("skewed", "clock-jump")


@pytest.mark.parametrize("body", [7, 2.5, "text", None])
async def test_a_row_of_another_table_does_not_hide_the_messages_beside_it(tmp_path: Path, body: object) -> None:
    database = Database(tmp_path / "s.db")
    await store_message(database, "c", TextPart("first"))
    await database.close()
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as db:
        db.executescript(
            "CREATE TABLE other AS SELECT * FROM messages; DROP TABLE messages; ALTER TABLE other RENAME TO messages;"
        )
        db.executemany("INSERT INTO messages VALUES ('c', ?, ?, ?)", [(2, body, "x"), ("a", b"b", 1), (None, b"c", 1)])
        db.execute("INSERT INTO messages SELECT conversation, 3, body, 1 FROM messages WHERE seq = 1")
    conversations = ConversationStore(database)
    assert [number for number, _ in await conversations.load_branch("c") or ()] == [1, 3]
    assert [number for number, _ in await conversations.load_around("c", 0, 9)] == [1, 3]
    assert await conversations.list_branches("c") != ()


async def test_a_branch_that_ends_with_a_background_result_has_the_text_of_the_users_message(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    conversations = ConversationStore(database)
    await store_message(database, "c", TextPart("count slowly"))
    late = make_result_message(ToolReturnPart("u", "notes__slow", "done", server="notes", tool="slow", outcome="ok"))
    await conversations.append("c", late, title="", model="m")
    await conversations.rewind("c", 0)
    assert [branch.text for branch in await conversations.list_branches("c")] == ["count slowly"]


async def test_deleting_names_only_files_that_no_other_conversation_uses(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_message(database, "a", make_result(FILES[0]), make_result(FILES[1]))
    await store_message(database, "b", make_result(FILES[1]))
    assert await ConversationDeletion(database).delete("a") == (FILES[0],)
    assert await ConversationDeletion(database).delete("b") == (FILES[1],)
    assert await ConversationStore(database).list_recent() == ()


async def test_a_fork_that_is_not_indexed_yet_keeps_its_files(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_message(database, "a", make_result(FILES[0]))
    await ConversationStore(database).fork("a", [1], new_id="b", at=2.0)
    assert await ConversationDeletion(database).delete("a") == ()


async def test_a_large_conversation_is_deleted_in_pieces(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    for number in range(1_200):
        await store_message(database, "a", TextPart(f"word{number}"), at=number)
    await ConversationDeletion(database).delete("a")
    tables = ("messages", "conversations", "search_documents", "search_pending")
    for table in tables:
        query = f"SELECT count(*) FROM {table}"
        assert await database.run(lambda db, query=query: db.execute(query).fetchone()) == (0,), table
    assert (await SearchStore(database).search("word7")).conversations == ()


async def test_messages_around_a_hit_are_loaded_without_the_others(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    for number in range(1, 101):
        await store_message(database, "a", TextPart(str(number)), at=number)
    conversations = ConversationStore(database)
    assert [one.message.text for one in await conversations.load_around("a", 50, 4)] == ["48", "49", "50", "51"]
    assert [one.number for one in await conversations.load_around("a", 1, 4)] == [1, 2, 3, 4]
    assert [one.number for one in await conversations.load_around("a", 0, 4)] == [97, 98, 99, 100]
    await conversations.rewind("a", 10)
    assert [one.number for one in await conversations.load_around("a", 0, 3)] == [8, 9, 10]
    assert [one.number for one in await conversations.load_around("a", 90, 3)] == [88, 89, 90]  # on the other branch
    assert await conversations.load_around("unknown", 0, 3) == ()
