"""Changes to a whole stored conversation: rename, pin and delete."""

import sqlite3
import time
from enum import IntEnum

from mcphost.errors import UsageError
from mcphost.llm.messages import ResourcePart, ToolReturnPart
from mcphost.store import search_index
from mcphost.store.database import Database
from mcphost.store.search_index import make_label, result_file_name

MAX_TITLE_CHARS = 200
_DELETED_AT_ONCE = 2_000
_RESULT_MARK = b'"kept":"'
_WITH_FILE = """
    SELECT 1 FROM search_index s JOIN search_documents d ON d.id = s.rowid
    WHERE s.search_index MATCH ? AND d.conversation != ? LIMIT 1
"""
_NOT_INDEXED_WITH_FILE = """
    SELECT 1 FROM messages WHERE conversation != ?1 AND instr(body, ?2)
    AND (?3 OR conversation IN (SELECT conversation FROM search_pending)) LIMIT 1
"""


class NamedBy(IntEnum):
    """The author of a conversation's title; an author with a lower value never replaces the title of a higher one."""

    FIRST_MESSAGE = 0
    MODEL = 1
    USER = 2


class ConversationEdits:
    """Changes to whole stored conversations and everything that belongs to them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rename(self, conversation_id: str, title: str, by: NamedBy) -> bool:
        """Set the title of a conversation.

        Returns False, without changing the title, if its author has a higher NamedBy value. Raises UsageError for an
        empty title or an unknown conversation, and StoreError.
        """
        title = " ".join(title.split())[:MAX_TITLE_CHARS]
        if not title:
            raise UsageError("A title needs at least one character.")

        def work(db: sqlite3.Connection) -> bool:
            row = db.execute("SELECT title, named FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
            if row is None:
                raise UsageError(f"There is no conversation {conversation_id!r}.", "List them with: mcphost sessions")
            if row[1] > by:
                return False
            db.execute("UPDATE conversations SET title = ?, named = ? WHERE id = ?", (title, int(by), conversation_id))
            search_index.replace_title(db, conversation_id, row[0], title)
            return True

        return await self._database.run(work)

    async def set_pinned(self, conversation_id: str, *, is_pinned: bool) -> None:
        """Pin a conversation to the top of the list, or unpin it. Raises StoreError."""
        pinned = time.time() if is_pinned else None

        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE conversations SET pinned = ? WHERE id = ?", (pinned, conversation_id))

        await self._database.run(work)

    async def delete(self, conversation_id: str) -> tuple[str, ...]:
        """Delete a conversation with its branches, drafts, summaries and search index entries.

        Returns the names of result files that no other conversation uses, which the caller must delete. Deleted data is
        overwritten in the database file. A large conversation is deleted in steps, newest messages first and the
        conversation itself last, so that an interrupted deletion can be continued. Raises StoreError.
        """
        files: set[str] = set()
        while await self._database.run(lambda db: _delete_piece(db, conversation_id, files)):
            pass
        return tuple(sorted(files))

    async def merge_index(self) -> None:
        """Rewrite the search index in steps, so that it no longer contains deleted words. Raises StoreError."""
        is_first = True
        while await self._database.run(lambda db, first=is_first: _merge(db, is_first=first)):
            is_first = False
        await self._database.checkpoint()


def _delete_piece(db: sqlite3.Connection, conversation_id: str, files: set[str]) -> bool:
    """Delete part of a conversation, and return whether there is more to delete.

    The names of result files that no other conversation uses are added to *files*.
    """
    row = db.execute("SELECT title FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    if row is None:
        return False
    if search_index.has_index(db) and _remove_words(db, conversation_id, row[0]):
        return True
    rows = db.execute(
        "SELECT seq, CASE WHEN instr(body, ?) THEN body END FROM messages WHERE conversation = ?"
        " ORDER BY seq DESC LIMIT ?",
        (_RESULT_MARK, conversation_id, _DELETED_AT_ONCE),
    ).fetchall()
    for _, body in rows:
        files.update(_find_files(db, conversation_id, body) if body else ())
    if rows:
        db.execute("DELETE FROM messages WHERE conversation = ? AND seq >= ?", (conversation_id, rows[-1][0]))
    if len(rows) == _DELETED_AT_ONCE:
        return True
    db.execute("DELETE FROM search_pending WHERE conversation = ?", (conversation_id,))
    db.execute("DELETE FROM unsent_texts WHERE place = ?", (conversation_id,))
    db.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))
    return False


def _remove_words(db: sqlite3.Connection, conversation_id: str, title: str) -> bool:
    """Remove some entries of a conversation from the search index, and return whether there are more.

    A damaged index is emptied; it is then rebuilt in the background.
    """
    try:
        return search_index.remove_piece(db, conversation_id, title)
    except sqlite3.DatabaseError:
        search_index.rebuild(db)
        db.execute("DELETE FROM search_pending WHERE conversation = ?", (conversation_id,))
        return False


def _find_files(db: sqlite3.Connection, conversation_id: str, body: bytes) -> set[str]:
    message = search_index.decode_message(body)
    parts = [part for part in message.parts if isinstance(part, ToolReturnPart | ResourcePart)] if message else []
    names = {name for part in parts if (name := result_file_name(part.kept))}
    return {name for name in names if not _is_used_elsewhere(db, conversation_id, name)}


def _is_used_elsewhere(db: sqlite3.Connection, conversation_id: str, name: str) -> bool:
    has_index = search_index.has_index(db)
    label = f'labels : "{make_label("file", name)}"'
    if has_index and db.execute(_WITH_FILE, (label, conversation_id)).fetchone():
        return True
    values = (conversation_id, name.encode(), not has_index)
    return db.execute(_NOT_INDEXED_WITH_FILE, values).fetchone() is not None


def _merge(db: sqlite3.Connection, *, is_first: bool) -> bool:
    return search_index.has_index(db) and search_index.merge_piece(db, is_first=is_first)
