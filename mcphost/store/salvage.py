"""Salvage of conversations from a damaged database file, which are copied to the database in use.

The damaged file is read page by page with `PageReader` and is never changed. The locations of its messages are
stored in temporary tables of the database in use, so that little memory is needed. Each conversation is then
copied in one transaction.
"""

import hashlib
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

import anyio.to_thread
from anyio.lowlevel import checkpoint

from mcphost.errors import StoreError, UsageError
from mcphost.serialization import Struct, decode_or_none
from mcphost.store import page_results, search_index
from mcphost.store.conversations import MAX_TITLE_CHARS
from mcphost.store.database import Database
from mcphost.store.manual_calls import MAX_BYTES, MAX_CALLS, StoredManualCall
from mcphost.store.sqlite_pages import PageReader, Place, StoredRow, Value

MAX_LISTED = 1_000
"""Maximum number of conversations that a report names; further ones are only counted."""
MAX_NUMBER_GAP = 10_000
"""Maximum gap in the message numbers that is counted as lost messages; a longer one is caused by a damaged number."""
_PAGES_AT_ONCE = 2_000
_MAX_ID_CHARS = 200
_MAX_MODEL_CHARS = 500
_MAX_PROMPT_CHARS = 1_000_000
_MAX_NUMBER = 2**53
_PLAIN_ID = re.compile(r"[0-9a-f]{12}")
_TABLES = (
    "CREATE TEMP TABLE salvaged_messages (conversation TEXT, number INTEGER, parent INTEGER, page INTEGER,"
    " cell INTEGER, PRIMARY KEY (conversation, number)) WITHOUT ROWID",
    # Numbers of all messages the file is known to have had, from its messages and search index.
    "CREATE TEMP TABLE salvaged_numbers (conversation TEXT, number INTEGER, PRIMARY KEY (conversation, number))"
    " WITHOUT ROWID",
    "CREATE TEMP TABLE salvaged_details (kind TEXT, conversation TEXT, number INTEGER, page INTEGER, cell INTEGER,"
    " PRIMARY KEY (kind, conversation, number)) WITHOUT ROWID",
)
_SHAPES = {
    (False, "tib"): "message", (False, "tibn"): "message", (False, "tibi"): "message", (False, "tii"): "indexed",
    (True, "nti"): "document", (True, "nttr"): "prompt", (True, "ntti"): "prompt", (True, "ntib"): "call",
    (True, "ttrb"): "page", (True, "ttib"): "page",
}  # fmt: skip
"""mcphost's tables and indexes, identified by the types of their columns; see `migrations`."""
_CONVERSATION_SHAPE = re.compile(r"ttt[ri]{2}([ni]([ni]([nri])?)?)?")
_COUNT_LOST = """
    SELECT coalesce(sum(CASE WHEN number - before - 1 BETWEEN 1 AND ?2 THEN number - before - 1 ELSE 0 END), 0)
    + sum(NOT is_found) FROM (
        SELECT number, lag(number, 1, 0) OVER (ORDER BY number) AS before,
        EXISTS (SELECT 1 FROM salvaged_messages m WHERE m.conversation = ?1 AND m.number = n.number) AS is_found
        FROM salvaged_numbers n WHERE conversation = ?1 AND number > 0
    )
"""
_NEXT_CONVERSATION = """
    SELECT min(conversation) FROM (
        SELECT min(conversation) AS conversation FROM salvaged_numbers WHERE conversation > ?1
        UNION ALL SELECT min(conversation) FROM salvaged_details WHERE kind = 'call' AND conversation > ?1
        UNION ALL SELECT min(conversation) FROM salvaged_details WHERE kind = 'conversation' AND conversation > ?1
    )
"""
# Attach a message whose parent is lost to the message before it; earlier messages would otherwise be unreachable.
_CONNECT = """
    UPDATE messages SET parent = NULL WHERE conversation = ?1 AND parent > 0
    AND (parent >= seq OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation = ?1 AND m.seq = messages.parent))
"""


class SalvagedConversation(Struct, frozen=True):
    """A conversation found in a damaged file.

    - `id`, `title`: the id and the title of the copy.
    - `messages`: the number of readable messages.
    - `lost`: the number of messages known to be missing.
    - `is_new`: False if nothing was copied, because the store already had all readable messages.
    """

    id: str
    title: str
    messages: int
    lost: int
    is_new: bool


class SalvageReport(Struct, frozen=True):
    """The result of a salvage; `listed` contains the first MAX_LISTED conversations.

    `lost_messages` counts only messages whose numbers are known to be missing; more may be lost.
    """

    conversations: int = 0
    messages: int = 0
    present: int = 0
    """Number of conversations that the store already had, for example from an earlier salvage of the same file."""

    lost_conversations: int = 0
    lost_messages: int = 0
    listed: tuple[SalvagedConversation, ...] = ()
    readable_rows: int = 0
    """Number of readable rows in the file; 0 if the file is not a conversation store, or is damaged completely."""


class _Details(NamedTuple):
    """The data in a conversation's row in the damaged file; default values are used if the row is lost."""

    title: str = ""
    model: str = ""
    created: float = 0.0
    updated: float = 0.0
    leaf: int | None = None
    named: int = 0
    pinned: float | None = None


async def salvage_conversations(database: Database, file: Path, *, mark: str) -> SalvageReport:
    """Add the readable conversations of a damaged database *file* to *database*; nothing is overwritten.

    The titles of the copies end with *mark* in parentheses. A copy keeps the original id unless *database* already
    has a conversation with it. Safe to cancel: the next call continues the salvage. Raises UsageError if *file*
    cannot be opened, and StoreError if *database* cannot be used.
    """
    if database.is_in_memory:
        raise StoreError("The conversations cannot be salvaged, because the conversation store is not writable.")
    try:
        reader = await anyio.to_thread.run_sync(PageReader, file, _is_wanted)
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror or error}).") from error
    with reader:
        await database.run(_create_tables)
        pages, rows = reader.list_pages(), 0
        while some := list(islice(pages, _PAGES_AT_ONCE)):
            rows += await database.run(lambda db, some=some: _list_rows(db, reader, some))
            await checkpoint()
        report, last = SalvageReport(readable_rows=rows), ""
        while found := await database.run(lambda db, after=last: _copy_next(db, reader, after, mark)):
            last, copy = found
            report = _add(report, copy)
            await checkpoint()
        await database.run(_drop_tables)
    return report


def _add(report: SalvageReport, one: SalvagedConversation) -> SalvageReport:
    is_gone = not one.id
    return SalvageReport(
        report.conversations + one.is_new,
        report.messages + (one.messages if one.is_new else 0),
        report.present + (not one.is_new and not is_gone),
        report.lost_conversations + is_gone,
        report.lost_messages + one.lost,
        report.listed if is_gone or len(report.listed) >= MAX_LISTED else (*report.listed, one),
        report.readable_rows,
    )


def _is_wanted(is_table: bool, types: str) -> bool:
    return (is_table, types) in _SHAPES or (is_table and _CONVERSATION_SHAPE.fullmatch(types) is not None)


def _create_tables(db: sqlite3.Connection) -> None:
    _drop_tables(db)
    for statement in _TABLES:
        db.execute(statement)


def _drop_tables(db: sqlite3.Connection) -> None:
    for name in ("messages", "numbers", "details"):
        db.execute(f"DROP TABLE IF EXISTS temp.salvaged_{name}")


def _list_rows(db: sqlite3.Connection, reader: PageReader, pages: list[int]) -> int:
    """Write the locations of the rows in *pages* to the temporary tables; return the number of rows."""
    return sum(_list_row(db, row) for page in pages for row in reader.read_rows(page))


def _list_row(db: sqlite3.Connection, row: StoredRow) -> bool:
    """Write the location of a row to the temporary tables.

    Returns False if the row cannot belong to a conversation store.
    """
    match row:
        case StoredRow(place, False, _, _, (str(conversation), int(number), *rest)) if _is_key(conversation, number):
            db.execute("INSERT OR IGNORE INTO salvaged_numbers VALUES (?, ?)", (conversation, number))
            if rest and search_index.decode_message(rest[0]) is not None and row.is_complete:
                parent = rest[1] if len(rest) > 1 else None
                values = (conversation, number, parent, *place)
                db.execute("INSERT OR IGNORE INTO salvaged_messages VALUES (?, ?, ?, ?, ?)", values)
        case StoredRow(_, True, _, 3, (None, str(conversation), int(number))) if _is_key(conversation, number):
            db.execute("INSERT OR IGNORE INTO salvaged_numbers VALUES (?, ?)", (conversation, number))
        case StoredRow(place, True, rowid, 4, (None, str(conversation), text, _)) if _is_key(conversation, 0):
            _list_detail(db, "prompt" if isinstance(text, str) else "call", conversation, rowid, place)
        case StoredRow(place, True, rowid, 4, (str(conversation), str(), int() | float(), bytes())) if _is_key(
            conversation, 0
        ):
            _list_detail(db, "page", conversation, rowid, place)
        case StoredRow(place, True, _, _, (str(conversation), *_)) if row.is_complete and _is_key(conversation, 0):
            _list_detail(db, "conversation", conversation, 0, place)
        case _:
            return False
    return True


def _list_detail(db: sqlite3.Connection, kind: str, conversation: str, number: int, place: Place) -> None:
    values = (kind, conversation, number, *place)
    db.execute("INSERT OR IGNORE INTO salvaged_details VALUES (?, ?, ?, ?, ?)", values)


def _is_key(conversation: str, number: int) -> bool:
    return 0 < len(conversation) <= _MAX_ID_CHARS and 0 <= number < _MAX_NUMBER


def _copy_next(
    db: sqlite3.Connection, reader: PageReader, after: str, mark: str
) -> tuple[str, SalvagedConversation] | None:
    """Copy the first conversation whose id sorts after *after*; return its id and a description of the copy.

    Returns None if there are no more conversations. *mark* is added to the title of the copy in parentheses. If nothing
    of the conversation can be read, nothing is copied. The description then has no id, and its `lost` is at least 1,
    because every stored conversation has at least one message.
    """
    reader.reset_reads()
    (conversation,) = db.execute(_NEXT_CONVERSATION, (after,)).fetchone()
    if conversation is None:
        return None
    lost = db.execute(_COUNT_LOST, (conversation, MAX_NUMBER_GAP)).fetchone()[0] or 0
    count = db.execute("SELECT count(*) FROM salvaged_messages WHERE conversation = ?", (conversation,)).fetchone()[0]
    calls = _read_details(db, reader, "call", conversation, MAX_CALLS)
    if not count and not calls:
        return conversation, SalvagedConversation("", "", 0, max(1, lost), is_new=False)
    target, is_new = _choose_id(db, reader, conversation)
    details = _read_conversation(db, reader, conversation)
    if is_new:
        title = _copy_rows(db, reader, conversation, target, details, mark)
        _copy_calls(db, calls, target)
        _copy_pages(db, _iter_details(db, reader, "page", conversation, page_results.MAX_CALLS), target)
    else:
        (title,) = db.execute("SELECT title FROM conversations WHERE id = ?", (target,)).fetchone()
    return conversation, SalvagedConversation(target, title, count, lost, is_new)


def _iter_messages(
    db: sqlite3.Connection, reader: PageReader, conversation: str
) -> Iterator[tuple[int, bytes, int | None]]:
    """Yield the number, body and parent number of each readable message of a conversation, in order.

    The parent number is None if the parent is the message that was stored just before.
    """
    query = "SELECT number, parent, page, cell FROM salvaged_messages WHERE conversation = ? ORDER BY number"
    for number, parent, page, cell in db.execute(query, (conversation,)):
        row = reader.read_row(Place(page, cell))
        if row is not None and row.is_complete and row.values[:2] == (conversation, number):
            yield number, cast("bytes", row.values[2]), parent


def _choose_id(db: sqlite3.Connection, reader: PageReader, conversation: str) -> tuple[str, bool]:
    """Return the id for the copy of a conversation, and whether the copy must be made.

    No copy is needed if a conversation with that id already has all readable messages.
    """
    if _PLAIN_ID.fullmatch(conversation) and not _exists(db, conversation):
        return conversation, True
    digest = hashlib.sha256(conversation.encode(errors="replace"))
    is_present = _exists(db, conversation)
    for number, body, _ in _iter_messages(db, reader, conversation):
        digest.update(b"%d %d " % (number, len(body)) + body)
        is_present = is_present and _has_message(db, conversation, number, body)
    if is_present:
        return conversation, False
    derived = digest.hexdigest()[:12]
    if not _exists(db, derived):
        return derived, True
    messages = _iter_messages(db, reader, conversation)
    if all(_has_message(db, derived, number, body) for number, body, _ in messages):
        return derived, False
    return secrets.token_hex(6), True


def _exists(db: sqlite3.Connection, conversation: str) -> bool:
    return db.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation,)).fetchone() is not None


def _has_message(db: sqlite3.Connection, conversation: str, number: int, body: bytes) -> bool:
    query = "SELECT body = ? FROM messages WHERE conversation = ? AND seq = ?"
    return db.execute(query, (body, conversation, number)).fetchone() == (1,)


def _read_details(
    db: sqlite3.Connection, reader: PageReader, kind: str, conversation: str, limit: int
) -> list[tuple[Value, ...]]:
    """Return all rows that `_iter_details` yields."""
    return list(_iter_details(db, reader, kind, conversation, limit))


def _iter_details(
    db: sqlite3.Connection, reader: PageReader, kind: str, conversation: str, limit: int
) -> Iterator[tuple[Value, ...]]:
    """Yield the newest *limit* rows of a conversation that are of the given kind, newest first.

    *kind* is "conversation", "prompt", "call" or "page". Rows that cannot be read completely are left out.
    """
    query = "SELECT page, cell FROM salvaged_details WHERE kind = ? AND conversation = ? ORDER BY number DESC LIMIT ?"
    places = db.execute(query, (kind, conversation, limit)).fetchall()
    rows = (reader.read_row(Place(*place)) for place in places)
    return (row.values for row in rows if row is not None and row.is_complete)


def _read_conversation(db: sqlite3.Connection, reader: PageReader, conversation: str) -> _Details:
    for values in _read_details(db, reader, "conversation", conversation, 1):
        row = (*values, *([None] * 8))
        match row[:8]:
            case (_, str(title), str(model), int() | float() as created, int() | float() as updated, *rest):
                leaf, named, pinned = rest
                return _Details(
                    title, model[:_MAX_MODEL_CHARS], _check_time(created), _check_time(updated),
                    leaf if isinstance(leaf, int) else None, 2 if named == 2 else 0,
                    _check_time(pinned) if isinstance(pinned, int | float) else None,
                )  # fmt: skip
            case _:
                pass
    return _Details()


def _check_time(value: float) -> float:
    """Return *value*, or 0 if it is not a plausible time in seconds since 1970."""
    return float(value) if 0 < value < time.time() + 86_400 else 0.0


def _copy_rows(
    db: sqlite3.Connection, reader: PageReader, conversation: str, target: str, details: _Details, mark: str
) -> str:
    """Copy a conversation without its manual calls, and return the title of the copy.

    *target* is the id of the copy, *details* is the data in the conversation's row, and *mark* is added to the
    title in parentheses.
    """
    now = time.time()
    db.execute(
        "INSERT INTO conversations (id, title, model, created, updated, named, pinned) VALUES (?, '', ?, ?, ?, ?, ?)",
        (target, details.model, details.created or now, details.updated or now, details.named, details.pinned),
    )
    title = details.title
    for number, body, parent in _iter_messages(db, reader, conversation):
        row = (target, number, body, parent)
        db.execute("INSERT INTO messages (conversation, seq, body, parent) VALUES (?, ?, ?, ?)", row)
        if not title and (message := search_index.decode_message(body)) is not None and message.role == "user":
            title = " ".join(message.text.split())
    db.execute(_CONNECT, (target,))
    if details.leaf is not None:
        known = "SELECT 1 FROM messages WHERE conversation = ? AND seq = ?"
        if details.leaf == 0 or db.execute(known, (target, details.leaf)).fetchone():
            db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (details.leaf, target))
    ending = f" ({mark})"
    title = f"{title[: MAX_TITLE_CHARS - len(ending)].removesuffix(ending)}{ending}"
    db.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, target))
    for values in _read_details(db, reader, "prompt", conversation, 1):
        text = cast("str", values[2])[:_MAX_PROMPT_CHARS]
        db.execute("INSERT INTO system_prompts (conversation, text, at) VALUES (?, ?, ?)", (target, text, now))
    search_index.add_pending(db, target)
    return title


def _copy_calls(db: sqlite3.Connection, calls: list[tuple[Value, ...]], target: str) -> None:
    """Copy the user's manual calls to the conversation *target*.

    In the copy, each call follows the last copied message that preceded the call.
    """
    add = (
        "INSERT INTO manual_calls (conversation, after, body) SELECT ?1, coalesce(max(seq), 0), ?3 FROM messages"
        " WHERE conversation = ?1 AND seq <= ?2"
    )
    for _, _, after, body in reversed(calls):
        if isinstance(after, int) and isinstance(body, bytes) and len(body) <= MAX_BYTES and _is_call(body):
            db.execute(add, (target, after, body))


def _copy_pages(db: sqlite3.Connection, pages: Iterator[tuple[Value, ...]], target: str) -> None:
    """Copy the calls to tools with an interactive page to the conversation *target*; *pages* yields newest first."""
    total = 0
    for values in pages:
        match values:
            case (str(), str(use_id), int() | float() as at, bytes(body)) if page_results.is_page_call(body):
                total += len(body)
                if total > page_results.MAX_TOTAL_BYTES:
                    return
                row = (target, use_id[:_MAX_ID_CHARS], _check_time(at), body)
                db.execute(
                    "INSERT OR IGNORE INTO page_results (conversation, use_id, at, body) VALUES (?, ?, ?, ?)", row
                )
            case _:
                pass


def _is_call(body: bytes) -> bool:
    return decode_or_none(body, StoredManualCall) is not None
