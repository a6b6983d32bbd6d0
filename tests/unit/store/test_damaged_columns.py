"""Tests for reading tables of a damaged file, in which every column may have a value of any type."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from mcphost.config.rules import Rule
from mcphost.errors import McpHostError
from mcphost.llm.messages import Message, TextPart
from mcphost.serialization import Raw
from mcphost.store.accepted_tools import ToolFingerprint, ToolFingerprintStore
from mcphost.store.audit_reader import AuditFilter, AuditReader
from mcphost.store.audit_store import AuditRecord, AuditStore
from mcphost.store.compactions import Compaction
from mcphost.store.conversation_deletion import ConversationDeletion
from mcphost.store.conversations import ConversationStore, read_recent_ids
from mcphost.store.database import Database
from mcphost.store.grants import Grant, GrantStore, TrustedServer
from mcphost.store.manual_calls import StoredManualCall
from mcphost.store.message_search import SearchStore
from mcphost.store.page_results import PageResultStore, StoredPageCall
from mcphost.store.reusable_results import ReusableResultStore
from mcphost.store.roots import FolderAnswerStore, FolderEdit, FolderEditStore
from mcphost.store.spending import SpendingEntry, SpendingStore
from mcphost.store.tasks import StoredTask, TaskStore
from mcphost.store.tool_toggles import ToolToggleStore
from mcphost.store.unsent_texts import UnsentText, UnsentTextStore

pytestmark = pytest.mark.anyio
VALUES = (None, 7, 1e300, "x" * 300, b"\xff\x00")
TABLES = (
    "compactions", "conversations", "drafts", "eras", "folder_answers", "folders", "grants", "manual_calls", "messages",
    "page_results", "pinned_tools", "pins", "recorded_results", "search_documents", "search_pending", "spending",
    "switches", "system_prompts", "tasks", "trust", "unsent_texts",
)  # fmt: skip


async def fill(database: Database) -> None:
    """Store something in every table."""
    conversations = ConversationStore(database)
    for number, role in enumerate(("user", "assistant", "user"), 1):
        message = Message(role=role, parts=(TextPart(f"hello {number}"),), at=float(number))
        await conversations.append("c1", message, title="Hello", model="m")
    again = Message(role="user", parts=(TextPart("again"),), at=9.0)
    await conversations.append("c1", again, title="", model="m", after=1)
    await conversations.rewind("c1", 2)
    await conversations.save_draft("c1", Message(role="assistant", parts=(TextPart("draft"),), at=9.0))
    await conversations.system_prompts.add("c1", "Be brief.")
    await conversations.compactions.add("c1", Compaction(last=1, messages=1, sentences=()))
    await conversations.manual_calls.add("c1", StoredManualCall("s", "t", {}, "ok", "text", after=1))
    await ReusableResultStore(database).add("c1", "u1", "call", definition="d", permission="once", at=1.0)
    page_call = StoredPageCall("s", "d", "", "t", "x", {}, Raw(b"{}"))
    await PageResultStore(database).add("c1", "u1", page_call, 1.0)
    grants = GrantStore(database)
    await grants.add(Grant(rule=Rule(server="s", tool="t"), server_digest="d", tools={"t": "x"}))
    await grants.save_trusted(TrustedServer("s", "d", "text"))
    await grants.save_eras("d", "dual")
    await TaskStore(database).save(StoredTask("s", "d", "task", "t", "c1"), owner=1)
    await ToolFingerprintStore(database).save("s", "d", [(ToolFingerprint("t", "raw", "digest"), b"{}")])
    await FolderEditStore(database).save("", FolderEdit("/tmp"))
    await FolderAnswerStore(database).save("s", "d", ["/tmp"], is_shared=True)
    await ToolToggleStore(database).save("s", "t", enabled=False)
    await ToolToggleStore(database).save_pinned("s", "t", pinned=True)
    await SpendingStore(database).add(SpendingEntry(at=1.0, conversation="c1", turn="t", cost=0.5))
    await UnsentTextStore(database).save({"new-1": UnsentText("text"), "c1": UnsentText("text")})


def readers(database: Database) -> tuple[Callable[[], Awaitable[object]], ...]:
    """Return calls of everything that reads the tables."""
    conversations, grants, tools = ConversationStore(database), GrantStore(database), ToolFingerprintStore(database)
    spending, unsent = SpendingStore(database), UnsentTextStore(database)
    message = Message(role="user", parts=(TextPart("more"),), at=10.0)
    return (
        lambda: conversations.list_recent(pinned_first=True, with_runs=False),
        lambda: conversations.find_by_prefix("c"),
        lambda: conversations.load("c1"),
        lambda: conversations.load_around("c1", 1, 5),
        lambda: conversations.list_branches("c1"),
        lambda: conversations.list_mentions("c1", "hello"),
        lambda: conversations.list_calls("s", 10),
        lambda: conversations.find_title("c1"),
        lambda: conversations.find_last_number("c1"),
        lambda: conversations.system_prompts.load("c1"),
        lambda: conversations.compactions.load("c1"),
        lambda: conversations.manual_calls.load("c1", (1, 2)),
        lambda: ReusableResultStore(database).find("c1", "call", after=0, since=0.0),
        lambda: ReusableResultStore(database).has_later("c1", 1),
        lambda: PageResultStore(database).list("c1"),
        lambda: PageResultStore(database).load("c1", "u1"),
        grants.list_all,
        lambda: grants.find_trusted("s"),
        lambda: grants.load_eras("d"),
        lambda: grants.carry_over_tool("s", "d", "t", "x", "y"),
        TaskStore(database).list_all,
        lambda: TaskStore(database).claim("d", 2, lambda owner: False),
        lambda: tools.load_all("s", "d"),
        lambda: tools.load_definition("s", "d", "t"),
        lambda: FolderEditStore(database).list_for_place(""),
        FolderAnswerStore(database).list_all,
        ToolToggleStore(database).load,
        lambda: spending.load_totals("c1", "t", since=0.0),
        lambda: spending.list_days(since=0.0),
        spending.list_entries,
        lambda: unsent.load("c1"),
        unsent.claim_new,
        lambda: SearchStore(database).search("hello"),
        lambda: SearchStore(database).find_prompts("hello"),
        SearchStore(database).index_piece,
        lambda: conversations.append("c1", message, title="Hello", model="m"),
        lambda: conversations.change_title("c1", lambda title: title.upper()),
        lambda: conversations.fork("c1", (1, 2), new_id="c2", at=1.0),
        lambda: conversations.rename("c1", "New"),
        lambda: ConversationDeletion(database).delete("c1"),
    )


def list_columns(file: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(file)) as db:
        return [column[1] for column in db.execute(f"PRAGMA table_info({table})")]


def connect(file: Path) -> sqlite3.Connection:
    """Open a database that does not wait for the disk, which takes longer than the writes themselves."""
    db = sqlite3.connect(file)
    db.execute("PRAGMA synchronous = OFF")
    return db


def damage(file: Path, table: str, column: str, value: object, *, where: str = "1") -> bool:
    """Write *value* to a column of a table, whatever the column's type; return whether it was possible."""
    with closing(connect(file)) as db:
        triggers = db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (trigger,) in triggers:
            db.execute(f"DROP TRIGGER {trigger}")
        (schema,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        relaxed = schema.replace(" NOT NULL", "").replace("STRICT, ", "").replace("STRICT", "")
        for kind in ("TEXT", "INTEGER", "REAL", "BLOB"):
            relaxed = relaxed.replace(f" {kind}", "") if f" {kind} PRIMARY KEY" not in relaxed else relaxed
        _set_schema(db, table, relaxed)
    with closing(connect(file)) as db:
        rows = db.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}", (value,)).rowcount
        db.commit()
        _set_schema(db, table, schema)
    return rows > 0


def _set_schema(db: sqlite3.Connection, table: str, schema: str) -> None:
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (schema, table))
    db.commit()
    db.execute("PRAGMA writable_schema = RESET")


@pytest.mark.parametrize("table", TABLES)
async def test_a_value_of_the_wrong_type_in_any_column_is_left_out_or_reported(tmp_path: Path, table: str) -> None:
    original = tmp_path / "original.db"
    database = Database(original)
    await fill(database)
    await database.close()
    content = original.read_bytes()
    failures: list[str] = []
    for number, (column, value) in enumerate(product(list_columns(original, table), VALUES)):
        file = tmp_path / f"{number}.db"
        file.write_bytes(content)
        try:
            if not damage(file, table, column, value):
                continue
        except sqlite3.Error:
            continue
        damaged = Database(file)
        for place, read in enumerate(readers(damaged)):
            try:
                await read()
            except McpHostError:
                pass
            except Exception as error:  # noqa: BLE001
                failures.append(f"{table}.{column} = {value!r:.20}, reader {place}: {error!r}")
        await damaged.close()
        file.unlink()
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("ident", [None, "", "x" * 300, b"c2"])
async def test_conversations_without_a_proper_id_are_listed_nowhere_and_the_user_is_told(
    tmp_path: Path, ident: object
) -> None:
    file = tmp_path / "s.db"
    database = Database(file)
    for name in ("c1", "c2"):
        message = Message(role="user", parts=(TextPart("hello"),), at=1.0)
        await ConversationStore(database).append(name, message, title=name, model="m")
    await database.close()
    damage(file, "search_documents", "conversation", ident, where="conversation = 'c2'")
    damage(file, "conversations", "id", ident, where="id = 'c2'")
    warnings: list[str] = []
    database = Database(file, lambda text, hint: warnings.append(f"{text} {hint}"))
    listed = await ConversationStore(database).list_recent()
    found = await SearchStore(database).search("hello")
    prompts = await SearchStore(database).find_prompts("")
    assert [one.id for one in listed] == ["c1"]
    assert [one.id for one in found.conversations] == ["c1"]
    assert [one.conversation for one in prompts.prompts] == ["c1"]
    assert read_recent_ids(file, 10) == ("c1",)
    assert len(warnings) == 1
    assert "is damaged: rows that cannot be read were left out." in warnings[0]
    assert "mcphost sessions salvage" in warnings[0]


@pytest.mark.parametrize("value", [None, 7.5, "x", b"\xff\x00"])
@pytest.mark.parametrize("column", ["at", "kind", "prev", "hash", "size", "detail"])
async def test_audit_rows_with_values_of_the_wrong_type_are_shown_as_damaged(
    tmp_path: Path, column: str, value: object
) -> None:
    file = tmp_path / "audit.db"
    store = AuditStore(file)
    for _ in range(3):
        await store.append(lambda: AuditRecord(at=1, kind="call", event="started"))
    await store.close()
    damage(file, "ledger", column, value, where="seq = 2")
    reader = AuditReader(file)
    assert {row.seq for row in reader.page(AuditFilter(), 10)} == {1, 2, 3, 4}
    row = reader.row(2)
    assert row is not None
    assert isinstance(getattr(row, column), int if column in ("at", "size") else str)
    assert {finding.row for finding in reader.verify().findings} >= {2}
    assert reader.check_row(2)
    store = AuditStore(file)
    await store.append(lambda: AuditRecord(at=1, kind="call", event="started"))
    await store.close()
