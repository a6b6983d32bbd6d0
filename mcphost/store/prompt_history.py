"""The user's earlier messages in all conversations, newest first, found with the full-text index."""

import sqlite3

from mcphost.serialization import Struct
from mcphost.store import search_index
from mcphost.store.search_query import parse_query

MAX_PROMPTS = 200
MAX_READ = 1_000
"""How many messages are read at most; some have the same text, or were not written by the user."""
MAX_READ_BYTES = 8_000_000
_MAX_BODY = 1_000_000
_NEWEST = (
    "SELECT rowid FROM search_index WHERE search_index MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?"
)
_MESSAGE = (
    "SELECT d.conversation, c.title, m.body FROM search_documents d"
    " JOIN messages m ON m.conversation = d.conversation AND m.seq = d.number"
    " JOIN conversations c ON c.id = d.conversation WHERE d.id = ? AND length(m.body) < ?"
)


class EarlierPrompt(Struct, frozen=True):
    """A message that the user sent; its text is not sanitized.

    `at` is in seconds since 1970, to the millisecond.
    """

    text: str
    at: float
    conversation: str
    title: str


class EarlierPrompts(Struct, frozen=True):
    """Distinct messages from the user, newest first; `has_more` means that older messages were not read.

    `notes` are sentences for the user.
    """

    prompts: tuple[EarlierPrompt, ...] = ()
    has_more: bool = False
    notes: tuple[str, ...] = ()


def find_prompts(db: sqlite3.Connection, text: str, now: float) -> EarlierPrompts:
    """Return the newest messages from the user that match *text*, or the newest of all if it is empty.

    The last word of *text* may be incomplete. At most MAX_READ messages are read, whatever the size of the store.
    """
    if not search_index.has_index(db):
        return EarlierPrompts(notes=(search_index.NO_FULL_TEXT,))
    query = parse_query(f"role:user {text}", now=now, is_typing=True)
    limits = search_index.id_range(query.after, query.before)
    found: dict[str, EarlierPrompt] = {}
    size = read = 0
    for (document,) in db.execute(_NEWEST, (query.match, *limits, MAX_READ)):
        read += 1
        row = db.execute(_MESSAGE, (document, _MAX_BODY)).fetchone()
        if row is None:
            continue
        conversation, title, body = row
        size += len(body)
        message = search_index.decode_message(body)
        if message is not None and message.is_typed and (sent := message.text.strip()) and sent not in found:
            found[sent] = EarlierPrompt(message.text, search_index.time_of(document), conversation, title)
        if len(found) == MAX_PROMPTS or size > MAX_READ_BYTES:
            break
    has_more = read == MAX_READ or len(found) == MAX_PROMPTS or size > MAX_READ_BYTES
    notes = (*query.notes, search_index.STILL_INDEXING) if search_index.has_pending(db) else query.notes
    return EarlierPrompts(tuple(found.values()), has_more, notes)
