"""Deletion of a stored conversation, with its search index entries and result files."""

import sqlite3

from mcphost.llm.messages import ResourcePart, ToolReturnPart
from mcphost.store import search_index
from mcphost.store.database import Database
from mcphost.store.search_index import make_label, result_file_name
from mcphost.store.search_indexer import has_index

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


class ConversationDeletion:
    """Deletion of stored conversations and everything that belongs to them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def delete(self, conversation_id: str) -> tuple[str, ...]:
        """Delete a conversation with its branches, drafts, summaries and search index entries.

        Returns the names of result files that no other conversation uses, which the caller must delete. Deleted data is
        overwritten in the database file. A large conversation is deleted in steps: newest messages first, and the
        conversation itself last. An interrupted deletion can therefore be continued. Raises StoreError.
        """
        files: set[str] = set()
        while await self._database.run(lambda db: _delete_piece(db, conversation_id, files)):
            pass
        return tuple(sorted(files))

    async def merge_index(self) -> None:
        """Rewrite the search index in steps, so that the database file no longer contains deleted words.

        Raises StoreError.
        """
        is_first = True
        while await self._database.run(lambda db, first=is_first: _merge(db, is_first=first)):
            is_first = False
        await self._database.checkpoint()


def _delete_piece(db: sqlite3.Connection, conversation_id: str, files: set[str]) -> bool:
    """Delete part of a conversation, and return whether more remains to be deleted.

    The names of result files that no other conversation uses are added to *files*.
    """
    title = "CASE WHEN typeof(title) = 'text' THEN title ELSE '' END"
    row = db.execute(f"SELECT {title} FROM conversations WHERE id = ?", (conversation_id,)).fetchone()  # noqa: S608
    if row is None:
        return False
    if has_index(db) and _remove_words(db, conversation_id, row[0]):
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
    """Remove some of a conversation's entries from the search index; return whether there are more.

    *title* is the conversation's title, which must be removed as well. If the index is damaged, it is emptied,
    and then rebuilt in the background.
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
    is_indexed = has_index(db)
    label = f'labels : "{make_label("file", name)}"'
    if is_indexed and db.execute(_WITH_FILE, (label, conversation_id)).fetchone():
        return True
    values = (conversation_id, name.encode(), not is_indexed)
    return db.execute(_NOT_INDEXED_WITH_FILE, values).fetchone() is not None


def _merge(db: sqlite3.Connection, *, is_first: bool) -> bool:
    return has_index(db) and search_index.merge_piece(db, is_first=is_first)
