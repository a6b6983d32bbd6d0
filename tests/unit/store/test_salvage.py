"""Tests for the salvage of conversations from damaged database files."""

import os
import random
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcphost.errors import StoreError, UsageError
from mcphost.llm.messages import Message, TextPart
from mcphost.serialization import Raw, encode, to_builtins
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.manual_calls import ManualCallStore, StoredManualCall
from mcphost.store.message_search import SearchStore
from mcphost.store.page_results import PageResultStore, StoredPageCall
from mcphost.store.salvage import SalvageReport, salvage_conversations

pytestmark = pytest.mark.anyio
PAGE = 4096


def ident(number: int) -> str:
    return f"{number:012x}"


def make_text(conversation: int, number: int) -> str:
    """Return a text that says where it belongs; every seventh is longer than a page."""
    return f"message {number} of {conversation} " + "and more " * (2_000 if number % 7 == 6 else 10)


async def fill(path: Path, conversations: int = 12, messages: int = 30) -> None:
    database = Database(path)
    store = ConversationStore(database)
    for number in range(messages):
        for conversation in range(conversations):
            role = "user" if number % 2 == 0 else "assistant"
            message = Message(
                role=role, parts=(TextPart(make_text(conversation, number)),), at=1_700_000_000.0 + number
            )
            await store.append(ident(conversation), message, title=f"Talk {conversation}", model="m")
    if conversations > 5:
        await add_details(database)
    await database.close()


async def add_details(database: Database) -> None:
    store = ConversationStore(database)
    await store.system_prompts.add(ident(3), "Be brief.")
    await ManualCallStore(database).add(ident(4), StoredManualCall("s", "t", {"a": 1}, "ok", "42", at=5.0, after=2))
    await store.rename(ident(5), "A name of my own")
    pages = PageResultStore(database)
    await pages.add(ident(4), "use-1", make_page_call(10), 1_700_000_000.0)
    await pages.add(ident(4), "use-2", make_page_call(100_000), 1_700_000_001.5)


def make_page_call(size: int) -> StoredPageCall:
    return StoredPageCall("s", "digest", "", "show", "f", {"a": 1}, Raw(b'["' + b"x" * size + b'"]'))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "s.db"
    anyio.run(fill, path)
    return path


@pytest.fixture
async def present(tmp_path: Path) -> AsyncGenerator[Database]:
    database = Database(tmp_path / "present.db")
    yield database
    await database.close()


async def texts_of(database: Database, conversation: str) -> list[str]:
    return [message.text for message in await ConversationStore(database).load(conversation) or ()]


async def check_copies(database: Database, report: SalvageReport) -> None:
    """Check that each copy has only messages of its original, in order, and as many as the report says."""
    for one in report.listed:
        texts = await texts_of(database, one.id)
        numbers = [int(text.split()[1]) for text in texts]
        assert len(texts) == one.messages
        assert numbers == sorted(set(numbers))
        conversations = {int(text.split()[3]) for text in texts}
        assert len(conversations) <= 1
        assert texts == [make_text(conversation, number) for conversation in conversations for number in numbers]


async def test_everything_comes_back_when_only_the_header_and_the_schema_are_damaged(
    filled: Path, tmp_path: Path, present: Database
) -> None:
    damaged = tmp_path / "s.db.damaged-1"
    before = bytes(PAGE) + (await anyio.Path(filled).read_bytes())[PAGE:]
    await anyio.Path(damaged).write_bytes(before)
    report = await salvage_conversations(present, damaged, mark="salvaged")
    assert (report.conversations, report.messages, report.lost_conversations, report.lost_messages) == (12, 360, 0, 0)
    await check_copies(present, report)
    store = ConversationStore(present)
    found = {one.id: one for one in await store.list_recent()}
    assert found[ident(1)].title == "Talk 1 (salvaged)"
    assert found[ident(5)].title == "A name of my own (salvaged)"
    assert found[ident(5)].is_named
    assert (found[ident(1)].model, found[ident(1)].updated) == ("m", 1_700_000_029.0)
    assert await store.system_prompts.load(ident(3)) == ("Be brief.",)
    (call,) = await store.manual_calls.load(ident(4), range(1, 31))
    assert (call.text, call.after) == ("42", 2)
    pages = PageResultStore(present)
    assert await pages.list(ident(4)) == ("use-1", "use-2")
    assert await pages.load(ident(4), "use-1") == make_page_call(10)
    assert await pages.load(ident(4), "use-2") == make_page_call(100_000)
    search = SearchStore(present)
    while await search.index_piece():
        pass
    assert (await search.search('"message 7 of 3"')).conversations[0].id == ident(3)
    assert damaged.read_bytes() == before


async def test_a_present_conversation_is_never_overwritten_and_a_second_salvage_adds_nothing(
    filled: Path, present: Database
) -> None:
    store = ConversationStore(present)
    mine = Message(role="user", parts=(TextPart("mine"),), at=1.0)
    await store.append(ident(2), mine, title="Mine", model="m")
    first = await salvage_conversations(present, filled, mark="salvaged")
    assert await texts_of(present, ident(2)) == ["mine"]
    (copy,) = (one for one in first.listed if one.title == "Talk 2 (salvaged)")
    assert copy.id != ident(2)
    assert len(await texts_of(present, copy.id)) == 30
    await store.append(ident(1), mine, title="", model="m")
    second = await salvage_conversations(present, filled, mark="salvaged")
    assert (second.conversations, second.messages, second.present) == (0, 0, 12)
    assert len(await store.list_recent()) == 13


async def test_messages_in_the_write_ahead_log_come_back_though_a_part_of_it_is_damaged(
    tmp_path: Path, present: Database
) -> None:
    writer = Database(tmp_path / "w.db")
    store = ConversationStore(writer)
    for number in range(20):
        message = Message(role="user", parts=(TextPart(make_text(0, number)),), at=1.0)
        await store.append(ident(0), message, title="T", model="m")
    for ending in ("", "-wal"):
        (tmp_path / f"d.db{ending}").write_bytes((tmp_path / f"w.db{ending}").read_bytes())
    await writer.close()
    assert (tmp_path / "d.db-wal").stat().st_size > 100_000
    copy = anyio.Path(tmp_path / "d.db-wal")
    content = bytearray(await copy.read_bytes())
    content[60_000:60_100] = bytes(100)
    await copy.write_bytes(content)
    report = await salvage_conversations(present, tmp_path / "d.db", mark="salvaged")
    assert (report.conversations, report.messages) == (1, 20)
    await check_copies(present, report)


async def test_a_lost_message_is_counted_and_does_not_cut_off_the_branch(tmp_path: Path, present: Database) -> None:
    path = tmp_path / "s.db"
    await fill(path, conversations=1, messages=10)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE messages SET body = x'00' WHERE seq = 4")
        db.execute("UPDATE messages SET parent = 4 WHERE seq = 5")
        db.execute("DELETE FROM messages WHERE seq = 7")
    report = await salvage_conversations(present, path, mark="salvaged")
    assert (report.messages, report.lost_messages, report.lost_conversations) == (8, 2, 0)
    texts = await texts_of(present, ident(0))
    assert texts == [make_text(0, number) for number in (0, 1, 2, 4, 5, 7, 8, 9)]


async def test_a_conversation_without_its_own_row_is_named_after_its_first_message(
    tmp_path: Path, present: Database
) -> None:
    path = tmp_path / "s.db"
    await fill(path, conversations=2, messages=2)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("DELETE FROM conversations WHERE id = ?", (ident(0),))
        db.execute("DELETE FROM messages WHERE conversation = ?", (ident(1),))
    report = await salvage_conversations(present, path, mark="salvaged")
    assert next(one.title for one in report.listed).startswith("message 0 of 0 and more")
    assert (report.conversations, report.lost_conversations, report.lost_messages) == (1, 1, 2)


async def test_an_error_of_a_damaged_page_names_the_way_to_salvage_the_rest(tmp_path: Path, present: Database) -> None:
    path, aside = tmp_path / "s.db", tmp_path / "renamed.db"
    await fill(path, conversations=2, messages=200)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
    content = bytearray(await anyio.Path(path).read_bytes())
    content[(root - 1) * PAGE : root * PAGE] = b"\xff" * PAGE
    await anyio.Path(path).write_bytes(content)
    database = Database(path)
    with pytest.raises(StoreError, match="malformed") as failure:
        await ConversationStore(database).load(ident(1))
    await database.close()
    assert "mcphost sessions salvage" in failure.value.hint
    assert "mcphost.db-wal, if it exists, to NAME-wal" in failure.value.hint
    await anyio.Path(path).rename(aside)
    report = await salvage_conversations(present, aside, mark="salvaged")
    assert report.messages >= 380
    assert report.messages + report.lost_messages == 400
    await check_copies(present, report)


def truncate(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def overwrite(content: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 10, 300))):
        content[chance.randrange(len(content))] = chance.randrange(256)


def blank(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.choice((16, 512, PAGE, 20_000)))
    content[start:end] = chance.randbytes(end - start) if chance.random() < 0.5 else bytes(end - start)


def swap_pages(content: bytearray, chance: random.Random) -> None:
    first, second = (chance.randrange(len(content) // PAGE) * PAGE for _ in range(2))
    content[first : first + PAGE], content[second : second + PAGE] = (
        content[second : second + PAGE],
        content[first : first + PAGE],
    )


@pytest.mark.parametrize("damage", [truncate, overwrite, blank, swap_pages])
async def test_a_file_damaged_at_random_gives_what_is_left_and_never_an_error(
    filled: Path, tmp_path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    chance, whole = random.Random(11), await anyio.Path(filled).read_bytes()
    returned = 0
    for number in range(6):
        content = bytearray(whole)
        damage(content, chance)
        damaged = tmp_path / f"damaged-{number}"
        damaged.write_bytes(content)
        database = Database(tmp_path / f"present-{number}.db")
        report = await salvage_conversations(database, damaged, mark="salvaged")
        if damage in (truncate, swap_pages):  # after the others, a letter of a text may be wrong without a trace
            await check_copies(database, report)
        await database.close()
        returned += report.messages
        if damage is not truncate:
            assert report.messages + report.lost_messages >= 340, (number, to_builtins(report))
            assert report.messages >= 200
    assert returned > (500 if damage is truncate else 1_750)


async def test_a_file_that_is_no_database_gives_nothing_and_no_error(tmp_path: Path, present: Database) -> None:
    chance = random.Random(3)
    hostile = (
        b"", b"x", bytes(3 * PAGE), chance.randbytes(50 * PAGE), b"SQLite format 3\0" + b"\xff" * 9_000,
        # Every page has the most rows that it can have, and all point to the same place.
        (b"\x0d" + b"\0\0\x07\xfc" + bytes(3) + b"\x0f\xf0" * 2_044) * 60,
        (b"\x0a" + b"\0\0\x07\xfc" + bytes(3) + b"\x00\x08" * 2_044) * 60,
    )  # fmt: skip
    for number, content in enumerate(hostile):
        file = tmp_path / f"hostile-{number}"
        file.write_bytes(content)
        assert await salvage_conversations(present, file, mark="salvaged") == SalvageReport()
    assert await ConversationStore(present).list_recent() == ()


async def test_rows_that_share_one_long_chain_of_pages_are_not_read_for_ever(tmp_path: Path, present: Database) -> None:
    size = 3_000 * PAGE
    # 1,000 rows in each of 20 pages, all with a payload that is said to fill the file, in a chain that is a circle.
    types = b"\x07\x0f\x01\x85\xf7\x80\x0c"  # the size of the header, a text of one character, an integer, a blob
    payload_size = bytes((0x80 | size >> 21, 0x80 | size >> 14 & 0x7F, 0x80 | size >> 7 & 0x7F, size & 0x7F))
    row = payload_size + types + b"a\x01{"
    page = bytearray(b"\x0a\0\0\x03\xe8\0\0\0" + b"\x0c\x00" * 1_000).ljust(PAGE, b"\0")
    page[0x0C00 : 0x0C00 + len(row)] = row
    chain = (50).to_bytes(4) + b"x" * (PAGE - 4)
    file = tmp_path / "circle"
    file.write_bytes(bytes(page) * 20 + chain * 2_980)
    report = await salvage_conversations(present, file, mark="salvaged")
    assert (report.conversations, report.lost_messages) == (0, 1)


async def test_a_row_that_all_pointers_of_a_page_lead_to_is_read_once(tmp_path: Path, present: Database) -> None:
    size = 65_536
    body = encode(Message(role="user", parts=tuple(TextPart("x") for _ in range(500)), at=1.0))
    length = 12 + 2 * len(body)
    types = b"\x06\x0f\x01" + bytes((0x80 | length >> 14, 0x80 | length >> 7 & 0x7F, length & 0x7F))
    payload = types + b"a\x01" + body
    cell = bytes((0x80 | len(payload) >> 7, len(payload) & 0x7F)) + payload
    at = size - len(cell)
    count = (at - 8) // 2
    page = (b"\x0a\0\0" + count.to_bytes(2) + b"\0\0\0" + at.to_bytes(2) * count).ljust(at, b"\0") + cell
    file = tmp_path / "pointers"
    file.write_bytes((b"SQLite format 3\0\0\x01").ljust(size, b"\0") + page)
    report = await salvage_conversations(present, file, mark="salvaged")
    assert (report.conversations, report.messages) == (1, 1)
    assert report.readable_rows < 10


async def test_a_device_a_pipe_and_a_missing_file_are_refused(tmp_path: Path, present: Database) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(UsageError, match="cannot be read"):
            await salvage_conversations(present, file, mark="salvaged")


async def test_nothing_is_salvaged_into_memory(filled: Path) -> None:
    with pytest.raises(StoreError, match="cannot be salvaged"):
        await salvage_conversations(Database(None), filled, mark="salvaged")
