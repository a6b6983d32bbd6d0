"""Tests for stored conversations, grants and trusted servers: several connections, damaged files, newer versions."""

import asyncio
import multiprocessing
import os
import re
import sqlite3
import stat
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcphost.errors import StoreError
from mcphost.llm.messages import Message, TextPart, ToolReturnPart, ToolUsePart
from mcphost.store import conversations, message_list, migration_steps
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore, TrustedServer
from mcphost.store.message_list import DAMAGED_TEXT
from mcphost.store.migrations import MIGRATIONS

pytestmark = pytest.mark.anyio


def stored_user_message(text: str, at: float = 1.0) -> Message:
    return Message(role="user", parts=(TextPart(text),), at=at)


async def test_a_conversation_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    messages = (
        stored_user_message("hé ✓ 漢"),
        Message(
            role="assistant", parts=(ToolUsePart("u1", "s__t", {"a": [1, {"b": None}]}, "", "prov"),), at=2.0, model="m"
        ),
        Message(role="tool", parts=(ToolReturnPart("u1", "s__t", "42", False, "s", "t"),), at=3.0),
    )
    database = Database(tmp_path / "deep" / "store.db")
    for message in messages:
        await ConversationStore(database).append("c1", message, title="hé", model="m")
    await database.close()
    assert await ConversationStore(Database(tmp_path / "deep" / "store.db")).load("c1") == messages


async def test_new_folders_are_private_to_their_owner_whatever_the_umask_is(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        await ConversationStore(Database(tmp_path / "share" / "mcphost" / "s.db")).list_recent()
    finally:
        os.umask(umask)
    folders = tmp_path / "share", tmp_path / "share" / "mcphost"
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]


async def test_a_damaged_title_does_not_hide_the_other_conversations(tmp_path: Path) -> None:
    store = ConversationStore(Database(tmp_path / "s.db"))
    for ident in ("c1", "c2"):
        await store.append(ident, stored_user_message("hi"), title=ident, model="m")
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("UPDATE conversations SET title = CAST(x'ff41' AS TEXT) WHERE id = 'c1'")
    assert {info.title for info in await store.list_recent()} == {"\ufffdA", "c2"}


async def test_the_file_is_private_to_its_owner(tmp_path: Path) -> None:
    await ConversationStore(Database(tmp_path / "s.db")).list_recent()
    assert {(await path.stat()).st_mode & 0o077 async for path in anyio.Path(tmp_path).iterdir()} == {0}


async def test_an_unknown_conversation_is_none(tmp_path: Path) -> None:
    assert await ConversationStore(Database(tmp_path / "s.db")).load("nope") is None


async def test_conversations_are_listed_newest_first(tmp_path: Path) -> None:
    saved = ConversationStore(Database(tmp_path / "s.db"))
    await saved.append("old", stored_user_message("a", 1.0), title="A", model="m")
    await saved.append("new", stored_user_message("b", 2.0), title="B", model="m")
    await saved.append("old", stored_user_message("c", 3.0), title="ignored later", model="m2")
    rows = await saved.list_recent(10)
    told = [(row.id, row.title, row.model, row.messages) for row in rows]
    assert told == [("old", "A", "m2", 2), ("new", "B", "m", 1)]
    assert [row.id for row in await saved.find_by_prefix("ne")] == ["new"]


async def test_a_draft_left_by_a_crash_is_restored_as_the_last_message(tmp_path: Path) -> None:
    saved = ConversationStore(Database(tmp_path / "s.db"))
    await saved.append("c", stored_user_message("hi"), title="hi", model="m")
    await saved.save_draft("c", Message(role="assistant", parts=(TextPart("half an ans"),), at=2.0, cut=True))
    loaded = await ConversationStore(Database(tmp_path / "s.db")).load("c")
    assert loaded is not None
    assert loaded[-1].text == "half an ans"
    assert loaded[-1].cut


async def test_the_finished_answer_replaces_its_draft(tmp_path: Path) -> None:
    saved = ConversationStore(Database(tmp_path / "s.db"))
    await saved.append("c", stored_user_message("hi"), title="hi", model="m")
    await saved.save_draft("c", Message(role="assistant", parts=(TextPart("half"),), at=2.0, cut=True))
    whole = Message(role="assistant", parts=(TextPart("half and whole"),), at=2.0)
    await saved.append("c", whole, title="hi", model="m")
    loaded = await saved.load("c")
    assert [message.text for message in loaded or ()] == ["hi", "half and whole"]


def append_many(path: str, name: str, count: int) -> None:
    async def work() -> None:
        database = Database(Path(path))
        for number in range(count):
            await ConversationStore(database).append(
                "shared", stored_user_message(f"{name}{number}"), title="t", model="m"
            )
        await database.close()

    anyio.run(work)


async def test_two_processes_append_to_one_conversation_without_loss(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=append_many, args=(path, name, 60)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(40)
    assert [process.exitcode for process in processes] == [0, 0]
    loaded = await ConversationStore(Database(Path(path))).load("shared")
    texts = [message.text for message in loaded or ()]
    assert len(texts) == 120
    assert [text for text in texts if text[0] == "a"] == [f"a{n}" for n in range(60)]
    assert [text for text in texts if text[0] == "b"] == [f"b{n}" for n in range(60)]


def damaged_copies(folder: Path) -> list[Path]:
    return list(folder.glob("s.db.damaged-*"))


async def test_a_file_that_another_process_is_just_making_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two processes that switch a new file to WAL at once: SQLite reports "locked" to one without its busy timeout
    # (3 of 40 tries with four processes). Here the real error comes from a real lock, at the first two tries.
    path = tmp_path / "s.db"
    tries = 0
    connect = sqlite3.connect

    def connect_locked(name: str, **options: Any) -> sqlite3.Connection:
        nonlocal tries
        tries += 1
        if tries > 2:
            return connect(name, **options)
        with closing(connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with closing(connect(path, timeout=0)) as refused:
                refused.execute("BEGIN IMMEDIATE")
        raise AssertionError("the lock did not hold")

    monkeypatch.setattr(sqlite3, "connect", connect_locked)
    messages: list[str] = []
    await ConversationStore(Database(path, lambda text, hint: messages.append(text))).append(
        "c", stored_user_message("hi"), title="hi", model="m"
    )
    assert (tries, messages) == (3, [])
    loaded = await ConversationStore(Database(path)).load("c")
    assert [message.text for message in loaded or ()] == ["hi"]


async def test_opening_a_file_twice_leaves_the_locks_of_the_first_connection(tmp_path: Path) -> None:
    """Otherwise, another process that closes the file deletes the log to which this one goes on writing."""
    path = tmp_path / "data.db"
    first, second = Database(path), Database(path)
    await first.run(lambda db: db.execute("CREATE TABLE kept (value INTEGER)"))
    await second.run(lambda db: None)
    read = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\nprint(*db.execute('SELECT value FROM kept'))\n"
    read += "db.close()\n"
    await anyio.run_process([sys.executable, "-c", read, str(path)])
    await first.run(lambda db: db.execute("INSERT INTO kept VALUES (7)"))
    seen = await anyio.run_process([sys.executable, "-c", read, str(path)])
    assert seen.stdout == b"(7,)\n"
    await first.close()
    await second.close()


@pytest.mark.parametrize("limit", ["MIN_THREAD_MESSAGES", "MIN_THREAD_BYTES"])
async def test_a_long_conversation_is_decoded_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    threads, decode_message = set[int](), message_list.decode_message

    def decode(body: bytes) -> Message | None:
        threads.add(threading.get_ident())
        return decode_message(body)

    monkeypatch.setattr(message_list, "decode_message", decode)
    monkeypatch.setattr(conversations, limit, 3)
    database = Database(tmp_path / "s.db")
    store = ConversationStore(database)
    for number in range(3):
        await store.append("c", stored_user_message(str(number)), title="c", model="m")
    assert [one.message.text for one in await store.load_branch("c") or ()] == ["0", "1", "2"]
    await database.close()
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("state", ["missing", "empty", "of another program"])
async def test_a_database_that_lost_everything_is_reported(tmp_path: Path, state: str) -> None:
    path, companion, messages = tmp_path / "s.db", tmp_path / "ledger.db", list[tuple[str, str]]()

    async def open_it() -> None:
        database = Database(path, lambda text, hint: messages.append((text, hint)), companion=companion)
        await database.run(lambda db: None)
        await database.close()

    await open_it()
    assert messages == []
    companion.touch()
    await open_it()
    assert messages == []
    path.unlink()
    if state == "empty":
        path.touch()
    elif state == "of another program":
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE recipes (name TEXT)")
    await open_it()
    assert "has none of the data stored before" in messages[0][0]
    assert len(messages) == 1


@pytest.mark.parametrize("companion", [None, "ledger.db"])
async def test_a_damaged_file_is_moved_aside_and_reported(tmp_path: Path, companion: str | None) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is no database, but it is long enough to be read as one" * 100)
    (tmp_path / "ledger.db").touch()
    messages: list[tuple[str, str]] = []
    other = tmp_path / companion if companion else None
    saved = ConversationStore(Database(path, lambda text, hint: messages.append((text, hint)), companion=other))
    await saved.append("c", stored_user_message("hi"), title="hi", model="m")
    assert [row.id for row in await saved.list_recent()] == ["c"]
    asides = damaged_copies(tmp_path)
    assert len(asides) == 1
    assert asides[0].read_bytes().startswith(b"this is no database")
    assert len(messages) == 1
    assert "damaged" in messages[0][0]
    assert str(asides[0]) in messages[0][1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_step_belongs_to_exactly_one_migration_in_ascending_order() -> None:
    steps = {name.removeprefix("m") for name in vars(migration_steps) if re.fullmatch(r"m\d{3}_\w+", name)}
    names = [name for name, _ in MIGRATIONS]
    assert names == sorted(steps)


@pytest.mark.parametrize("name", [7, 1.5, None, b"001", "a message of a conversation"])
async def test_a_file_whose_migrations_are_the_rows_of_another_table_is_damaged(tmp_path: Path, name: Any) -> None:
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE migrations (name, at)")
        db.execute("INSERT INTO migrations VALUES (?, 0)", (name,))
    messages: list[tuple[str, str]] = []
    saved = ConversationStore(Database(path, lambda text, hint: messages.append((text, hint))))
    await saved.append("c", stored_user_message("hi"), title="hi", model="m")
    assert [row.id for row in await saved.list_recent()] == ["c"]
    assert len(damaged_copies(tmp_path)) == 1
    assert "damaged" in messages[0][0]


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await ConversationStore(Database(path)).append("c", stored_user_message("hi"), title="hi", model="m")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO migrations VALUES ('999_from_the_future', 0)")
    with pytest.raises(StoreError, match="newer mcphost"):
        await ConversationStore(Database(path)).list_recent()


async def test_a_file_that_cannot_be_written_is_read_into_memory_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    database = Database(path)
    await ConversationStore(database).append("c", stored_user_message("hi"), title="hi", model="m")
    await database.close()
    before, told = path.read_bytes(), list[str]()
    monkeypatch.setattr(os, "access", lambda *_: False)  # for root, every file can be written
    database = Database(path, lambda text, _: told.append(text))
    assert [row.id for row in await ConversationStore(database).list_recent()] == ["c"]
    await database.close()
    assert "Nothing will be saved" in told[0]
    assert "Permission denied" in told[0]
    assert path.read_bytes() == before


async def test_an_unwritable_folder_means_memory_and_is_reported(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")
    messages: list[tuple[str, str]] = []
    saved = ConversationStore(Database(blocked / "s.db", lambda text, hint: messages.append((text, hint))))
    await saved.append("c", stored_user_message("hi"), title="hi", model="m")
    assert [row.id for row in await saved.list_recent()] == ["c"]
    assert "Nothing will be saved" in messages[0][0]
    assert len(messages) == 1


async def test_one_unreadable_row_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    saved = ConversationStore(Database(path))
    await saved.append("c", stored_user_message("one"), title="t", model="m")
    await saved.append("c", stored_user_message("two"), title="t", model="m")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE messages SET body = x'7b' WHERE seq = 1")
    assert [message.text for message in await saved.load("c") or ()] == [DAMAGED_TEXT, "two"]


async def test_trust_and_eras_are_kept_by_digest(tmp_path: Path) -> None:
    grants = GrantStore(Database(tmp_path / "s.db"))
    await grants.save_trusted(TrustedServer("s", "d1", "npx thing"))
    await grants.save_eras("d1", "stateless")
    again = GrantStore(Database(tmp_path / "s.db"))
    assert await again.find_trusted("s") == TrustedServer("s", "d1", "npx thing")
    assert await again.load_eras("d1") == "stateless"
    assert await again.load_eras("d2") is None


async def test_work_that_waits_together_changes_threads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(None)
    changes: list[object] = []
    run_sync = anyio.to_thread.run_sync

    async def counted(function: Any, *arguments: Any, **options: Any) -> Any:
        changes.append(function)
        return await run_sync(function, *arguments, **options)

    monkeypatch.setattr(anyio.to_thread, "run_sync", counted)
    answers: list[object] = []

    async def ask(number: int) -> None:
        try:
            answers.append(await database.run(lambda db: db.execute("SELECT 10 / ?", (number,)).fetchone()[0]))
        except StoreError as error:
            answers.append(error)

    async def fail() -> None:
        with pytest.raises(StoreError):
            await database.run(lambda db: db.execute("SELECT nothing FROM nowhere"))

    async with anyio.create_task_group() as tasks:
        for number in (1, 2, 5):
            tasks.start_soon(ask, number)
        tasks.start_soon(fail)
        tasks.start_soon(ask, 10)
    assert sorted(map(str, answers)) == ["1", "10", "2", "5"]
    assert len(changes) <= 2
    await database.close()


async def test_a_task_that_is_cancelled_during_its_work_disturbs_no_other(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await database.run(lambda db: db.execute("CREATE TABLE done (name TEXT)"))
    began, go_on = threading.Event(), threading.Event()

    def slow(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO done VALUES ('slow')")
        began.set()
        assert go_on.wait(10)

    async def insert(name: str) -> None:
        await database.run(lambda db: db.execute("INSERT INTO done VALUES (?)", (name,)))

    workers: list[asyncio.Task[Any] | None] = []

    async def be_cancelled() -> None:
        workers.append(asyncio.current_task())
        with pytest.raises(asyncio.CancelledError):
            await database.run(slow)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(be_cancelled)
        await anyio.to_thread.run_sync(began.wait)
        tasks.start_soon(insert, "one")
        tasks.start_soon(insert, "two")
        await anyio.wait_all_tasks_blocked()
        (worker,) = workers
        assert worker is not None
        worker.cancel()  # as Textual cancels a worker, past anyio's cancel scopes
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(insert, "three")
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    names = await database.run(lambda db: [name for (name,) in db.execute("SELECT name FROM done ORDER BY name")])
    assert names == ["one", "slow", "three", "two"]
    await database.close()
