"""Full-text index of messages and titles, updated in the transaction that changes them.

A document id begins with the time of the message, so SQLite can find the newest matches, or those in a period, without
sorting. The index contains no copy of the indexed text, so a deletion must supply that text again.

Chinese and Japanese have no spaces between words. In these scripts and in Korean, a sequence of characters is indexed
as overlapping pairs followed by its last character: "数据库" becomes "数据 据库 库". Any two adjacent characters are
then one index term. Each single character is also indexed as a label. Without labels, a search for one character would
have to examine all pairs that begin with it, of which there can be a large number.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import NamedTuple

from mcphost import unicode_forms
from mcphost.llm.messages import (
    FilePart,
    ImagePart,
    Message,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
    format_tool_name,
)
from mcphost.serialization import dumps
from mcphost.store.message_list import decode_message
from mcphost.store.migration_steps import create_search_index
from mcphost.store.valid_rows import INTEGER, NUMBER, TEXT, first_valid

MAX_TEXT_CHARS = 20_000
MAX_RESULT_CHARS = 8_000
MAX_ARGUMENT_CHARS = 2_000
MAX_MESSAGE_CHARS = 40_000
MAX_LABELS = 200
EVERY_MESSAGE = "any"
# Han with its extensions, kana, Bopomofo and Hangul; Thai, Lao, Myanmar and Khmer are not spaced, either.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u318f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_RESULT_FILE = re.compile(r"[0-9a-f]{16}(?=\.txt$)")
_LABEL_CHARACTER = re.compile(r"[^a-z0-9]")


class DocumentText(NamedTuple):
    """The indexed text of a message or title, and its labels: the role, and the names of tools and servers."""

    text: str
    labels: str


def normalize_text(text: str) -> str:
    """Return *text* in Unicode normalization form NFKC, so that full-width characters match ordinary ones."""
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return text
    return unicode_forms.normalize("NFKC", text)


def segment(text: str) -> str:
    """Return *text* in NFKC, with spaces inserted between index terms.

    An index term is a word or, in scripts without spaces, a pair of adjacent characters.
    """
    text = normalize_text(text)
    return text if text.isascii() else UNSPACED.sub(_split_run, text)


def _split_run(match: re.Match[str]) -> str:
    run = match.group()
    pairs = (run[at : at + 2] for at in range(len(run)))
    return f" {' '.join(pairs)} "


def list_single_characters(text: str) -> Iterable[str]:
    """Return the distinct characters in *text* that belong to scripts without spaces; *text* must be in NFKC."""
    return () if text.isascii() else dict.fromkeys("".join(UNSPACED.findall(text)))


def make_label(kind: str, name: str) -> str:
    """Return the index label for a tool, server, role or result file: a single lowercase word.

    *kind* is "tool", "server", "role" or "file", and *name* is the name.
    """
    return kind + _LABEL_CHARACTER.sub(lambda found: f"{ord(found.group()):x}", name.lower()[:200])


def result_file_name(path: str) -> str:
    """Return the file name of a stored result, without its folder or suffix.

    Returns "" if *path* is not the path of a result file.
    """
    found = _RESULT_FILE.search(path)
    return found.group() if found else ""


def list_texts(message: Message, *, is_shown: bool = False) -> list[str]:
    """Return the searchable pieces of text in a message, each truncated, in display order.

    If *is_shown* is true, tools have their display names instead of the names in the index.
    """
    texts: list[str] = []
    format_name: Callable[[str], str] = format_tool_name if is_shown else str
    for part in message.parts:
        match part:
            case TextPart():
                texts.append(part.text[:MAX_TEXT_CHARS])
            case ToolUsePart():
                arguments = part.raw if part.arguments is None else dumps(part.arguments)
                texts.append(f"{format_name(part.name)} {arguments[:MAX_ARGUMENT_CHARS]}")
            case ToolReturnPart():
                texts.append(f"{format_name(part.name)} {part.text[:MAX_RESULT_CHARS]}")
            case ResourcePart() if part.use_id:
                texts.append(f"{part.source} {part.text[:MAX_RESULT_CHARS]}")
            case ResourcePart():
                texts.append(part.uri[:MAX_ARGUMENT_CHARS])
            case ImagePart() | FilePart():
                texts.append(part.name[:MAX_ARGUMENT_CHARS])
            case ThinkingPart():
                pass
    return texts


def describe_document(message: Message) -> DocumentText:
    """Return the text and labels under which *message* is indexed.

    The same message must always give the same result, because deletion from the index requires the text that was
    indexed.
    """
    labels = {make_label("role", message.role): None}
    for part in message.parts:
        if isinstance(part, ToolUsePart):
            labels[make_label("tool", part.name)] = None
        elif isinstance(part, ToolReturnPart):
            for name in filter(None, (part.name, part.tool)):
                labels[make_label("tool", name)] = None
        if isinstance(part, ToolReturnPart | ResourcePart) and (file := result_file_name(part.kept)):
            labels[make_label("file", file)] = None
        if isinstance(part, ToolReturnPart | ResourcePart | FilePart) and part.server:
            labels[make_label("server", part.server)] = None
    text = normalize_text("\n".join(list_texts(message))[:MAX_MESSAGE_CHARS])
    return DocumentText(
        segment(text), " ".join((EVERY_MESSAGE, *list(labels)[:MAX_LABELS], *list_single_characters(text)))
    )


def describe_title(title: str) -> DocumentText:
    """Return the text and labels under which a conversation's title is indexed."""
    text = normalize_text(title[:1_000])
    return DocumentText(segment(text), " ".join((make_label("role", "title"), *list_single_characters(text))))


TITLE_NUMBER = 0
NO_FULL_TEXT = "This Python's SQLite has no full-text search (FTS5)."
STILL_INDEXING = "Still indexing older conversations; more soon."
PIECE_MESSAGES = 400
PIECE_BYTES = 4_000_000
FUTURE_SECONDS = 86_400
"""A document dated more than this many seconds ahead was dated by a wrong clock, and is not considered the newest."""
_SERIAL_BITS = 20
_MAX_MILLISECONDS = 2**42
_LAST_ID = 2**63 - 1
_DELETED_AT_ONCE = 500
_MERGED_PAGES = 500
_TAKEN_ID = "SELECT max(id) FROM search_documents WHERE id BETWEEN ? AND ?"
_ADD_DOCUMENT = "INSERT INTO search_documents (id, conversation, number) VALUES (?, ?, ?)"
_ADD_WORDS = "INSERT INTO search_index (rowid, text, labels) VALUES (?, ?, ?)"
_DELETE_WORDS = "INSERT INTO search_index (search_index, rowid, text, labels) VALUES ('delete', ?, ?, ?)"
_NEXT_PIECE = """
    SELECT m.seq, CASE WHEN typeof(m.body) = 'blob' THEN m.body ELSE x'' END FROM messages m
    WHERE m.conversation = ?1 AND m.seq > ?2 AND typeof(m.seq) = 'integer'
    AND NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.conversation = ?1 AND d.number = m.seq)
    ORDER BY m.seq LIMIT ?3
"""


class PendingConversation(NamedTuple):
    """A conversation that is not completely indexed yet; `done` is the number of the last indexed message."""

    conversation: str
    done: int


def first_id(at: float) -> int:
    """Return the smallest possible id of a document with the time *at*, in seconds since 1970."""
    return int(min(max(0.0, at * 1_000), _MAX_MILLISECONDS)) << _SERIAL_BITS  # max(0, nan) is 0


def id_range(after: float | None, before: float | None) -> tuple[int, int]:
    """Return the smallest and largest possible document ids for a period.

    *after* is the start of the period (inclusive) and *before* its end (exclusive), in seconds since 1970; None
    means no limit.
    """
    return (0 if after is None else first_id(after)), (_LAST_ID if before is None else first_id(before) - 1)


def first_id_in_future(now: float) -> int:
    """Return the smallest id of a document that is dated too far after *now*; see FUTURE_SECONDS."""
    return first_id(now + FUTURE_SECONDS)


def is_in_future(document: int, now: float) -> bool:
    """Return whether a document is dated too far after *now*; see FUTURE_SECONDS."""
    return document >= first_id_in_future(now)


def time_of(document: int) -> float:
    """Return the time encoded in a document id, in seconds since 1970, to the millisecond."""
    return (document >> _SERIAL_BITS) / 1_000


def _free_id(db: sqlite3.Connection, at: float) -> int:
    start = first_id(at)
    while True:
        end = start + (1 << _SERIAL_BITS) - 1
        taken: int | None = db.execute(_TAKEN_ID, (start, end)).fetchone()[0]
        if taken is None:
            return start
        if taken < end:
            return taken + 1
        start = end + 1


@contextmanager
def undo_failed_indexing(db: sqlite3.Connection, conversation_id: str) -> Generator[None]:
    """Return a context manager for a block that updates the index; if the block fails, its changes are undone.

    The message or title that was to be indexed stays stored, and its conversation is marked for indexing in the
    background.
    """
    db.execute("SAVEPOINT indexing")
    try:
        yield
        db.execute("SAVEPOINT flushed")  # makes SQLite write the words now: an error on commit would undo everything
    except sqlite3.DatabaseError:
        db.execute("ROLLBACK TO indexing")
        with suppress(sqlite3.DatabaseError):
            add_pending(db, conversation_id)
    db.execute("RELEASE indexing")


def add_pending(db: sqlite3.Connection, conversation_id: str) -> None:
    """Mark a conversation for indexing in the background."""
    db.execute("INSERT OR REPLACE INTO search_pending (conversation, done) VALUES (?, 0)", (conversation_id,))


def add_message(db: sqlite3.Connection, conversation_id: str, number: int, message: Message) -> None:
    """Index a message; if that fails, it is indexed later in the background."""
    with undo_failed_indexing(db, conversation_id):
        _add(db, conversation_id, number, message.at, describe_document(message))


def add_title(db: sqlite3.Connection, conversation_id: str, title: str, created: float) -> None:
    """Index the title of a new conversation; if that fails, it is indexed later in the background."""
    with undo_failed_indexing(db, conversation_id):
        _add(db, conversation_id, TITLE_NUMBER, created, describe_title(title))


def replace_title(db: sqlite3.Connection, conversation_id: str, before: str, title: str) -> None:
    """Replace a conversation's old title *before* with *title* in the full-text index."""
    with undo_failed_indexing(db, conversation_id):
        found = db.execute(
            "SELECT id FROM search_documents WHERE conversation = ? AND number = ?", (conversation_id, TITLE_NUMBER)
        ).fetchone()
        if found is not None:
            db.execute(_DELETE_WORDS, (found[0], *describe_title(before)))
            db.execute(_ADD_WORDS, (found[0], *describe_title(title)))


def _add(db: sqlite3.Connection, conversation_id: str, number: int, at: float, text: DocumentText) -> None:
    document = _free_id(db, at)
    db.execute(_ADD_DOCUMENT, (document, conversation_id, number))
    db.execute(_ADD_WORDS, (document, *text))


def next_pending(db: sqlite3.Connection) -> PendingConversation | None:
    """Return the most recent conversation that is not completely indexed, or None if there is none."""
    rows = db.execute(
        "SELECT p.conversation, p.done FROM search_pending p LEFT JOIN conversations c ON c.id = p.conversation"
        " ORDER BY c.updated DESC"
    )
    row = first_valid(rows, TEXT, INTEGER)
    return None if row is None else PendingConversation(*row)


def index_piece(db: sqlite3.Connection, pending: PendingConversation) -> None:
    """Index the next messages of a conversation: at most PIECE_MESSAGES, and about PIECE_BYTES bytes."""
    conversation_id, done = pending
    if done == 0:
        _index_title_again(db, conversation_id)
    taken, size, last = 0, 0, done
    for number, body in db.execute(_NEXT_PIECE, (conversation_id, done, PIECE_MESSAGES)).fetchall():
        message = decode_message(body)
        if message is not None:
            _add(db, conversation_id, number, message.at, describe_document(message))
        taken, size, last = taken + 1, size + len(body), number
        if size > PIECE_BYTES:
            break
    if taken < PIECE_MESSAGES and size <= PIECE_BYTES:
        db.execute("DELETE FROM search_pending WHERE conversation = ?", (conversation_id,))
    else:
        db.execute("UPDATE search_pending SET done = ? WHERE conversation = ?", (last, conversation_id))


def _index_title_again(db: sqlite3.Connection, conversation_id: str) -> None:
    found = db.execute("SELECT title, created FROM conversations WHERE id = ?", (conversation_id,))
    row = first_valid(found, TEXT, NUMBER)
    known = db.execute(
        "SELECT 1 FROM search_documents WHERE conversation = ? AND number = ?", (conversation_id, TITLE_NUMBER)
    ).fetchone()
    if row is not None and known is None:
        _add(db, conversation_id, TITLE_NUMBER, row[1], describe_title(row[0]))


def remove_piece(db: sqlite3.Connection, conversation_id: str, title: str) -> bool:
    """Remove up to 500 index entries of a conversation; return whether there may be more.

    *title* is the conversation's title, whose index entry is removed as well.
    """
    rows = db.execute(
        "SELECT d.id, d.number, m.body FROM search_documents d"
        " LEFT JOIN messages m ON m.conversation = d.conversation AND m.seq = d.number"
        " WHERE d.conversation = ? LIMIT ?",
        (conversation_id, _DELETED_AT_ONCE),
    ).fetchall()
    for document, number, body in rows:
        message = decode_message(body) if body is not None else None
        if number == TITLE_NUMBER:
            db.execute(_DELETE_WORDS, (document, *describe_title(title)))
        elif message is not None:
            db.execute(_DELETE_WORDS, (document, *describe_document(message)))
        db.execute("DELETE FROM search_documents WHERE id = ?", (document,))
    return len(rows) == _DELETED_AT_ONCE


def merge_piece(db: sqlite3.Connection, *, is_first: bool) -> bool:
    """Rewrite part of the index to remove deleted words; return whether there is more to do.

    *is_first* must be True in the first call of a series, and False in the others.
    """
    before = db.total_changes
    pages = -_MERGED_PAGES if is_first else _MERGED_PAGES
    db.execute("INSERT INTO search_index (search_index, rank) VALUES ('merge', ?)", (pages,))
    return db.total_changes - before >= 2  # SQLite: a smaller difference means that nothing was merged


def rebuild(db: sqlite3.Connection) -> None:
    """Replace a damaged index with an empty one, which is then filled in the background."""
    db.execute("DROP TABLE IF EXISTS search_index")
    create_search_index(db)
    db.execute("DELETE FROM search_documents")
    db.execute(
        "INSERT OR REPLACE INTO search_pending (conversation, done) SELECT id, 0 FROM conversations"
        " WHERE typeof(id) = 'text'"
    )
