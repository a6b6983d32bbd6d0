"""Storage of calls to tools that have an interactive page, so that a later run can open the page."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from mcphost.serialization import Raw, Struct, decode_or_none, encode
from mcphost.store.database import Database
from mcphost.store.message_list import decode_message
from mcphost.store.valid_rows import BLOB, TEXT, first_valid, valid_rows

MAX_CALLS = 50
"""Maximum number of calls that are kept for a conversation, the newest ones."""
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a stored call; a larger one is not stored."""
MAX_TOTAL_BYTES = 16 * 1024 * 1024
"""Maximum size of all calls of a conversation; the oldest ones are deleted first."""
_ADD = """
    INSERT OR REPLACE INTO page_results (conversation, use_id, at, body)
    SELECT id, ?2, ?3, ?4 FROM conversations WHERE id = ?1
"""
_DELETE_OLDEST = """
    DELETE FROM page_results WHERE conversation = ?1 AND use_id IN (
        SELECT use_id FROM (
            SELECT use_id, row_number() OVER newest AS place, sum(length(body)) OVER newest AS total
            FROM page_results WHERE conversation = ?1 WINDOW newest AS (ORDER BY at DESC, use_id)
        ) WHERE place > ?2 OR total > ?3
    )
"""
_COPY = """
    INSERT INTO page_results SELECT ?2, use_id, at, body FROM page_results WHERE conversation = ?1 AND use_id = ?3
"""


class StoredPageCall(Struct, frozen=True):
    """A call to a tool that has an interactive page.

    - `server_digest`: identifies the server's configuration at the time of the call.
    - `account`: the account that was used.
    - `definition`: the fingerprint of the tool's definition.
    - `result`: the result, in the JSON format that the page receives.
    """

    server: str
    server_digest: str
    account: str
    tool: str
    definition: str
    arguments: dict[str, Any]
    result: Raw


class _CallWithPage(Struct, frozen=True):
    """Type to decode only one member of a stored manual call: the id of its StoredPageCall, or ""."""

    page: str = ""


class PageResultStore:
    """Store for calls to tools that have an interactive page; every method may raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, conversation_id: str, use_id: str, call: StoredPageCall, at: float) -> None:
        """Store a call in a conversation; do nothing if the call is too large or the conversation is not stored.

        *use_id* is the id of the tool call. *at* is the time of the result in seconds since 1970.
        """
        body = encode(call)
        await self._database.run(lambda db: add_page_result(db, conversation_id, use_id, body, at))

    async def list(self, conversation_id: str) -> tuple[str, ...]:
        """Return the ids of the stored calls of a conversation, oldest first."""
        query = "SELECT use_id FROM page_results WHERE conversation = ? ORDER BY at, use_id DESC"
        rows = await self._database.run(lambda db: list(valid_rows(db.execute(query, (conversation_id,)), TEXT)))
        return tuple(use_id for (use_id,) in rows)

    async def load(self, conversation_id: str, use_id: str) -> StoredPageCall | None:
        """Return a stored call, or None if there is none or it cannot be decoded."""
        query = "SELECT body FROM page_results WHERE conversation = ? AND use_id = ?"
        row = await self._database.run(lambda db: first_valid(db.execute(query, (conversation_id, use_id)), BLOB))
        return _decode(row[0]) if row else None


def add_page_result(db: sqlite3.Connection, conversation_id: str, use_id: str, body: bytes, at: float) -> None:
    """Store the encoded call *body*, and delete the conversation's oldest calls if a limit is exceeded.

    The limits apply to the number of calls and their total size. A single call that is too large is not stored. See
    `PageResultStore.add` for the other parameters.
    """
    if len(body) <= MAX_BYTES and db.execute(_ADD, (conversation_id, use_id, at, body)).rowcount:
        db.execute(_DELETE_OLDEST, (conversation_id, MAX_CALLS, MAX_TOTAL_BYTES))


def copy_page_results(db: sqlite3.Connection, source: str, target: str) -> None:
    """Copy the stored calls of the conversation *source* to *target*, a copy of the conversation.

    Only calls that belong to a message or a manual call in *target* are copied.
    """
    query = "SELECT use_id FROM page_results WHERE conversation = ?"
    wanted = {use_id for (use_id,) in valid_rows(db.execute(query, (source,)), TEXT)}
    if not wanted:
        return
    found = wanted & set(_find_calls(db, target))
    db.executemany(_COPY, [(source, target, use_id) for use_id in found])


def _find_calls(db: sqlite3.Connection, conversation_id: str) -> Iterator[str]:
    """Yield the ids of the model's tool calls in a conversation, and of the user's manual calls that have a page."""
    messages = "SELECT body FROM messages WHERE conversation = ? AND instr(body, ?)"
    for (body,) in valid_rows(db.execute(messages, (conversation_id, b'"tool_use"')), BLOB):
        if (message := decode_message(body)) is not None:
            yield from (use.id for use in message.tool_uses)
    calls = "SELECT body FROM manual_calls WHERE conversation = ? AND instr(body, ?)"
    for (body,) in valid_rows(db.execute(calls, (conversation_id, b'"page":"hand-')), BLOB):
        if (call := decode_or_none(body, _CallWithPage)) is not None:
            yield call.page


def is_page_call(body: bytes) -> bool:
    """Return whether *body* is a valid encoded StoredPageCall within the size limit."""
    return len(body) <= MAX_BYTES and _decode(body) is not None


def _decode(body: bytes) -> StoredPageCall | None:
    return decode_or_none(body, StoredPageCall)
