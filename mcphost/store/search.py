"""Search in all conversations, ranked by relevance and age, with excerpts in which matches are marked."""

import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from mcphost.errors import StoreError
from mcphost.llm.messages import Role
from mcphost.serialization import Struct
from mcphost.store import search_index
from mcphost.store.database import Database
from mcphost.store.prompt_history import EarlierPrompts, find_prompts
from mcphost.store.search_index import NO_FULL_TEXT, STILL_INDEXING
from mcphost.store.search_query import SearchQuery, parse_query
from mcphost.store.search_text import list_texts
from mcphost.unicode_forms import normalize

T = TypeVar("T")
MAX_RANKED = 400
MAX_CONVERSATIONS = 50
HITS_PER_CONVERSATION = 3
SEARCH_SECONDS = 5.0
REBUILDING = "The search index was damaged and is being rebuilt."
_EXCERPT_CHARS = 160
_CHARS_BEFORE = 50
_MAX_EXCERPT_BODY = 1_000_000
_AGE_OF_HALF = 30 * 86_400
_NEWEST = (
    "SELECT rowid FROM search_index WHERE search_index MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?"
)
_RANKED = "SELECT rowid, -bm25(search_index) FROM search_index WHERE search_index MATCH ? AND rowid BETWEEN ? AND ?"
_INFO = "SELECT title, model, created, updated FROM conversations WHERE id = ?"


class MarkedText(NamedTuple):
    """A piece of an excerpt; `is_match` says whether it matches the search."""

    text: str
    is_match: bool


class SearchHit(Struct, frozen=True):
    """A message that matches the search; if the title matches, `number` is 0, else the message's number.

    `at` is in seconds since 1970, to the millisecond. The `excerpt` is not sanitized.
    """

    number: int
    role: Role | str
    at: float
    excerpt: tuple[MarkedText, ...]


class FoundConversation(Struct, frozen=True):
    """A conversation with matches; `hits` are the best ones, and `count` is the number of ranked matches."""

    id: str
    title: str
    model: str
    created: float
    updated: float
    count: int
    hits: tuple[SearchHit, ...]


class SearchResult(Struct, frozen=True):
    """Result of a search, best first; `is_complete` is False if there were too many matches to rank all.

    `notes` are sentences for the user.
    """

    conversations: tuple[FoundConversation, ...] = ()
    is_complete: bool = True
    notes: tuple[str, ...] = ()


class SearchStore:
    """Full-text search in the database, and indexing of conversations that are not indexed yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, text: str, *, is_typing: bool = False) -> SearchResult:
        """Search all conversations; see `search_query` for the syntax. Cancellation interrupts the search.

        With *is_typing*, the last word may be incomplete. If the index is damaged, a rebuild is started and the result
        is empty except for a note. Raises StoreError.
        """
        now = time.time()
        query = parse_query(text, now=now, is_typing=is_typing)
        found = await self._read(lambda db: _search(db, query, now))
        return SearchResult(notes=(REBUILDING, *query.notes)) if found is None else found

    async def find_prompts(self, text: str) -> EarlierPrompts:
        """Return the newest messages from the user that match *text*; its last word may be incomplete.

        See `search_query` for the syntax. Cancellation interrupts the search. If the index is damaged, a rebuild is
        started and the result is empty except for a note. Raises StoreError.
        """
        found = await self._read(lambda db: find_prompts(db, text, time.time()))
        return EarlierPrompts(notes=(REBUILDING,)) if found is None else found

    async def _read(self, search: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of *search*; reset a damaged index and return None."""
        try:
            return await self._database.read(search, seconds=SEARCH_SECONDS)
        except StoreError as error:
            if not _is_damage(error.__cause__):
                raise
        await self._database.run(search_index.rebuild)
        return None

    async def count_pending(self) -> int:
        """Return how many conversations are not completely indexed yet. Raises StoreError."""
        found = await self._database.run(lambda db: db.execute("SELECT count(*) FROM search_pending").fetchone())
        return found[0]

    async def index_piece(self) -> bool:
        """Index the next messages that are not indexed yet; return whether there may be more.

        Raises StoreError.
        """

        def work(db: sqlite3.Connection) -> bool:
            pending = search_index.next_pending(db) if search_index.has_index(db) else None
            if pending is not None:
                search_index.index_piece(db, pending)
            return pending is not None

        try:
            return await self._database.run(work)
        except StoreError as error:
            if not _is_damage(error.__cause__):
                raise
        await self._database.run(search_index.rebuild)
        return True


def _is_damage(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CONSTRAINT,  # FTS5 reports a number that is already in use
    )


def _search(db: sqlite3.Connection, query: SearchQuery, now: float) -> SearchResult:
    if not search_index.has_index(db):
        return SearchResult(notes=(NO_FULL_TEXT,))
    if not query.match:
        return SearchResult(notes=query.notes)
    limits = (query.match, *search_index.id_range(query.after, query.before))
    newest = [document for (document,) in db.execute(_NEWEST, (*limits, MAX_RANKED + 1))]
    # For very common words, relevance says little and is slow to compute.
    is_complete = len(newest) <= MAX_RANKED
    is_ranked = is_complete and query.is_ranked
    relevance = dict(db.execute(_RANKED, limits).fetchall()) if is_ranked else dict.fromkeys(newest, 1.0)
    ranked = sorted(relevance, key=lambda document: (-_score(relevance[document], document, now), -document))
    notes = query.notes
    if search_index.has_pending(db):
        notes = (*notes, STILL_INDEXING)
    return SearchResult(_group(db, ranked, query.marks), is_complete, notes)


def _score(relevance: float, document: int, now: float) -> float:
    """Return the score of a match: its text relevance, up to doubled for a recent message."""
    age = max(0.0, now - search_index.time_of(document))
    return relevance * (1 + 1 / (1 + age / _AGE_OF_HALF))


def _group(db: sqlite3.Connection, ranked: Sequence[int], marks: Sequence[str]) -> tuple[FoundConversation, ...]:
    groups: dict[str, list[tuple[int, int]]] = {}
    for document in ranked:
        row = db.execute("SELECT conversation, number FROM search_documents WHERE id = ?", (document,)).fetchone()
        if row is not None:
            groups.setdefault(row[0], []).append((document, row[1]))
    pattern = mark_pattern(marks)
    found: list[FoundConversation] = []
    for conversation_id, documents in groups.items():
        info = db.execute(_INFO, (conversation_id,)).fetchone()
        if info is None:
            continue
        hits = tuple(
            _read_hit(db, conversation_id, document, number, info[0], pattern)
            for document, number in documents[:HITS_PER_CONVERSATION]
        )
        title, model, created, updated = info
        found.append(FoundConversation(conversation_id, title, model, created, updated, len(documents), hits))
        if len(found) == MAX_CONVERSATIONS:
            break
    return tuple(found)


def _read_hit(
    db: sqlite3.Connection, conversation_id: str, document: int, number: int, title: str, pattern: re.Pattern[str]
) -> SearchHit:
    at = search_index.time_of(document)
    if number == search_index.TITLE_NUMBER:
        return SearchHit(number, "title", at, make_excerpt([title], pattern))
    row = db.execute(
        "SELECT body FROM messages WHERE conversation = ? AND seq = ? AND length(body) < ?",
        (conversation_id, number, _MAX_EXCERPT_BODY),
    ).fetchone()
    message = None if row is None else search_index.decode_message(row[0])
    if message is None:
        return SearchHit(number, "", at, ())
    return SearchHit(number, message.role, at, make_excerpt(list_texts(message), pattern))


def mark_pattern(marks: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that matches the given words and phrases, or words that begin like them."""
    alternatives = [r"[\W_]+".join(map(re.escape, _fold(mark).split())) for mark in marks]
    return re.compile("|".join(sorted(filter(None, alternatives), key=len, reverse=True)) or r"(?!)")


class _FoldedCharacters(dict[int, str]):
    """Table for `str.translate` that maps characters to forms without case or accents, on first use."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_character(chr(code))
        return folded


_FOLDED = _FoldedCharacters()


def _fold(text: str) -> str:
    """Return *text* in lower case and without accents; its length in characters does not change."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def _fold_character(character: str) -> str:
    lower = character.lower()
    if character < "\u00c0" or len(lower) != 1:
        return lower[:1]
    return normalize("NFKD", lower)[:1] or lower


def make_excerpt(texts: Sequence[str], pattern: re.Pattern[str]) -> tuple[MarkedText, ...]:
    """Return one line around the first match in *texts*, with matches marked.

    Without a match, return the beginning of the texts.
    """
    folded = (_fold(text) for text in texts)
    found = next(
        ((text, match) for text, fold in zip(texts, folded, strict=True) if (match := pattern.search(fold))), None
    )
    text, start = (found[0], max(0, found[1].start() - _CHARS_BEFORE)) if found else ("\n".join(texts), 0)
    line = " ".join(text[start : start + 2 * _EXCERPT_CHARS].split())[:_EXCERPT_CHARS]
    pieces: list[MarkedText] = [MarkedText("…", is_match=False)] if start else []
    end = 0
    for match in pattern.finditer(_fold(line)):
        pieces += [
            MarkedText(line[end : match.start()], is_match=False),
            MarkedText(match.group() and line[match.start() : match.end()], is_match=True),
        ]
        end = match.end()
    pieces.append(MarkedText(line[end:] + ("…" if start + len(line) < len(text) else ""), is_match=False))
    return tuple(piece for piece in pieces if piece.text)
