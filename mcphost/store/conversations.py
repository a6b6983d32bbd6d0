"""Storage of conversations; a message is on disk once `append` returns."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from mcphost.errors import MalformedMessage, StoreError
from mcphost.llm.messages import Message, ToolReturnPart
from mcphost.serialization import Struct, decode, encode
from mcphost.store.database import Database


class ConversationInfo(Struct, frozen=True):
    """An entry in the list of conversations; times are in seconds since 1970."""

    id: str
    title: str
    model: str
    messages: int
    created: float
    updated: float


class RecordedCall(Struct, frozen=True):
    """A tool call by the model that has a result, including calls that were refused.

    `at` is in seconds since 1970.
    """

    conversation: str
    title: str
    at: float
    tool: str
    arguments: dict[str, Any]


_CALLS_QUERY = """
    SELECT c.id, c.title, m.body FROM messages m JOIN conversations c ON c.id = m.conversation
    WHERE length(m.body) < ?1 AND (instr(m.body, ?2) OR instr(m.body, ?3))
    ORDER BY c.updated DESC, m.seq DESC LIMIT ?4
"""
_IDS_QUERY = "SELECT id FROM conversations ORDER BY updated DESC, id LIMIT ?"
_MAX_CALL_MESSAGE_BYTES = 256 * 1024
_MAX_CALL_MESSAGES = 1_000
_LIST_QUERY = """
    SELECT c.id, c.title, c.model, (SELECT count(*) FROM messages m WHERE m.conversation = c.id), c.created, c.updated
    FROM conversations c {where} ORDER BY c.updated DESC, c.id LIMIT ?
"""


def read_recent_ids(file: Path, limit: int) -> tuple[str, ...]:
    """Return the ids of the most recently used conversations, without creating or changing the database.

    Blocks the calling thread. Raises StoreError.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0.1)) as db:
            return tuple(found for (found,) in db.execute(_IDS_QUERY, (limit,)))
    except sqlite3.Error as error:
        raise StoreError(f"{file} cannot be read: {error}.") from error


class ConversationStore:
    """Store of conversations in the database.

    Several processes may append to the same conversation without losing messages.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, conversation_id: str, message: Message, *, title: str, model: str) -> None:
        """Add a message to a conversation, creating the conversation if it does not exist. Raises StoreError.

        An assistant message also deletes the saved draft of the conversation.
        """
        body = encode(message)

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO conversations VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, model = excluded.model",
                (conversation_id, title, model, message.at, message.at),
            )
            db.execute(
                "INSERT INTO messages SELECT ?1, coalesce(max(seq), 0) + 1, ?2 FROM messages WHERE conversation = ?1",
                (conversation_id, body),
            )
            if message.role == "assistant":
                db.execute("DELETE FROM drafts WHERE conversation = ?", (conversation_id,))

        await self._database.run(work)

    async def save_draft(self, conversation_id: str, message: Message | None) -> None:
        """Save the model's unfinished answer, so that a crash loses little of it; None deletes it."""

        def work(db: sqlite3.Connection) -> None:
            if message is None:
                db.execute("DELETE FROM drafts WHERE conversation = ?", (conversation_id,))
            else:
                db.execute(
                    "INSERT INTO drafts VALUES (?, ?) ON CONFLICT (conversation) DO UPDATE SET body = excluded.body",
                    (conversation_id, encode(message)),
                )

        await self._database.run(work)

    async def load(self, conversation_id: str) -> tuple[Message, ...] | None:
        """Return the messages of a conversation, oldest first, followed by the draft if a crash left one.

        Returns None if the id is unknown. Messages that cannot be decoded are omitted.
        """

        def work(db: sqlite3.Connection) -> list[bytes] | None:
            if db.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation_id,)).fetchone() is None:
                return None
            rows = db.execute(
                "SELECT body FROM messages WHERE conversation = ? ORDER BY seq", (conversation_id,)
            ).fetchall()
            rows += db.execute("SELECT body FROM drafts WHERE conversation = ?", (conversation_id,)).fetchall()
            return [body for (body,) in rows]

        bodies = await self._database.run(work)
        if bodies is None:
            return None
        return tuple(message for body in bodies if (message := _decode_message(body)) is not None)

    async def list_recent(self, limit: int = 100) -> tuple[ConversationInfo, ...]:
        """Return the most recently updated conversations, newest first."""
        return await self._rows("", (limit,))

    async def find_by_prefix(self, prefix: str) -> tuple[ConversationInfo, ...]:
        """Return at most 100 conversations whose id begins with *prefix*, newest first."""
        return await self._rows("WHERE substr(c.id, 1, length(?1)) = ?1", (prefix, 100))

    async def list_calls(self, server: str, limit: int) -> tuple[RecordedCall, ...]:
        """Return at most *limit* recorded calls of a server's tools, newest first.

        Messages over 256 kB are skipped.
        """
        values = (_MAX_CALL_MESSAGE_BYTES, b'"tool_use"', b'"tool_return"', _MAX_CALL_MESSAGES)

        def work(db: sqlite3.Connection) -> tuple[RecordedCall, ...]:
            calls: list[RecordedCall] = []
            tools: dict[tuple[str, str], str] = {}
            # Rows are newest first, so a result comes before its call; only the result names the server.
            for conversation_id, title, body in db.execute(_CALLS_QUERY, values):
                message = _decode_message(body)
                for part in message.parts if message else ():
                    if isinstance(part, ToolReturnPart) and part.server == server:
                        tools[conversation_id, part.use_id] = part.tool
                for use in reversed(message.tool_uses if message else ()):
                    tool = tools.get((conversation_id, use.id))
                    if message and tool is not None and use.arguments is not None:
                        calls.append(RecordedCall(conversation_id, title, message.at, tool, use.arguments))
            return tuple(sorted(calls, key=lambda call: -call.at)[:limit])

        return await self._database.run(work)

    async def _rows(self, where: str, values: tuple[object, ...]) -> tuple[ConversationInfo, ...]:
        rows = await self._database.run(lambda db: db.execute(_LIST_QUERY.format(where=where), values).fetchall())
        return tuple(ConversationInfo(*row) for row in rows)


def _decode_message(body: bytes) -> Message | None:
    # One unreadable row must not hide the rest of a conversation.
    try:
        return decode(body, Message, "stored message")
    except MalformedMessage:
        return None
