"""Full-text search of all conversations, and of the messages that the user sent earlier.

A query consists of words, "phrases", -words, prefix* and filters such as `tool:NAME` and `after:2026`. Every
text is a valid query: invalid parts are treated as words, or ignored with a note. Results are ranked by
relevance and age, with excerpts in which the matches are marked.
"""

import datetime as dt
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from mcphost import unicode_forms
from mcphost.errors import StoreError
from mcphost.llm.messages import CopiedText, Message, Role, TextPart, find_target
from mcphost.serialization import Struct, replace
from mcphost.store import search_index
from mcphost.store.conversations import IS_TITLED_AS_RUN
from mcphost.store.search_index import (
    EVERY_MESSAGE,
    NO_FULL_TEXT,
    STILL_INDEXING,
    UNSPACED,
    list_texts,
    make_label,
    normalize_text,
)
from mcphost.store.search_indexer import SearchIndexer, has_index, has_pending, is_damage
from mcphost.store.valid_rows import BLOB, INTEGER, NUMBER, TEXT, first_valid, is_id

MAX_QUERY_CHARS = 500
MAX_TERMS = 20
MIN_PREFIX_CHARS = 2
LABEL_FILTERS = ("server", "tool", "role")
ORIGINS = ("run", "chat")
"""The values of the filter `from:`; `run` means conversations of `mcphost run` that were not continued or renamed."""
ROLES = ("user", "assistant", "tool", "title")
"""The values of the filter `role:`; `title` is the title of a conversation."""
FILTERS = (*LABEL_FILTERS, "from", "before", "after")
_MAX_FILTER_CHARS = 20
_MAX_COPIES = 100
_DAY = 86_400
_TERM = re.compile(rf'(-?)(?:({"|".join(FILTERS)}):)?(?:"([^"]*)"?|(\S+))', re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_AGE = re.compile(r"(\d{1,5})([hdwmy])")
_AGE_SECONDS = {"h": 3_600, "d": _DAY, "w": 7 * _DAY, "m": 30 * _DAY, "y": 365 * _DAY}


class SearchQuery(NamedTuple):
    """A parsed search.

    - `match`: an FTS5 expression, or "" if there is nothing to search for.
    - `marks`: the words and phrases to highlight in matches.
    - `after`, `before`: limits on the time of messages, in seconds since 1970, or None for no limit.
    - `notes`: sentences for the user about invalid or ignored parts of the search text.
    - `is_ranked`: whether relevance can be computed quickly; False for single characters and excluded words (`-word`).
    - `is_run`: True to search only conversations of `mcphost run`, False to search only others, None to search all.
    - `words`: the FTS5 expressions of the searched words, or () if there is only one search term.
    """

    match: str
    marks: tuple[str, ...] = ()
    after: float | None = None
    before: float | None = None
    notes: tuple[str, ...] = ()
    is_ranked: bool = True
    is_run: bool | None = None
    words: tuple[str, ...] = ()


def parse_query(text: str, *, now: float, is_typing: bool = False) -> SearchQuery:
    """Parse the user's search text; *now* is the current time in seconds since 1970. Never raises.

    If *is_typing* is true, the last word may be incomplete.
    """
    text = normalize_text(text[:MAX_QUERY_CHARS].replace("\0", " "))
    builder = _QueryBuilder(now)
    found = list(_TERM.finditer(text))
    for number, term in enumerate(found[:MAX_TERMS]):
        is_open = is_typing and number == len(found) - 1 and not text.endswith((" ", '"'))
        builder.add(term, is_open=is_open)
    if len(found) > MAX_TERMS:
        builder.notes.append(f"Only the first {MAX_TERMS} words are searched.")
    return builder.build()


class _QueryBuilder:
    """Builder that creates an FTS5 expression from the terms of a search."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._wanted: list[str] = []
        self._unwanted: list[str] = []
        self._marks: list[str] = []
        self._words: list[str] = []
        self._after: float | None = None
        self._before: float | None = None
        self._is_run: bool | None = None
        self.notes: list[str] = []

    def add(self, term: re.Match[str], *, is_open: bool) -> None:
        """Add one term of the search text; if *is_open* is true, the last word of the term may be incomplete."""
        sign, field, phrase, word = term.groups()
        value = phrase if phrase is not None else word
        field = (field or "").lower()
        if field in LABEL_FILTERS:
            self._add_label(field, value, is_negative=bool(sign))
        elif field == "from":
            if value.lower() in ORIGINS:
                self._is_run = (value.lower() == "run") != bool(sign)
            else:
                self._add_words(f"from {value}", is_prefix=is_open, is_negative=bool(sign))
        elif field:
            self._add_time(field, value)
        else:
            if phrase is None:
                self._note_similar_filter(word)
            is_prefix = phrase is None and (word.endswith("*") or is_open)
            self._add_words(value, is_prefix=is_prefix, is_negative=bool(sign))

    def _note_similar_filter(self, word: str) -> None:
        """Add a note if *word* seems to begin with a misspelt filter; *word* itself is searched like any other word."""
        name, colon, value = word.partition(":")
        if colon and value and name.isalpha() and name.isascii() and len(name) <= _MAX_FILTER_CHARS:
            from mcphost.config.toml_files import find_similar

            if find_similar(name.lower(), FILTERS):
                self.notes.append(f"{name}: is not a filter; its words are searched. Filters: {', '.join(FILTERS)}.")

    def _add_label(self, field: str, name: str, *, is_negative: bool) -> None:
        name, is_prefix = (name[:-1], True) if name.endswith("*") else (name, False)
        if not name:
            return
        if field == "role" and not is_prefix and name.lower() not in ROLES:
            self.notes.append(f"role:{name[:40]} is not one of: {', '.join(ROLES)}.")
        label = f'labels : "{make_label(field, name)}"{" *" if is_prefix else ""}'
        (self._unwanted if is_negative else self._wanted).append(label)

    def _add_time(self, field: str, value: str) -> None:
        moment = parse_time(value, self._now)
        if moment is None:
            self.notes.append(f"{field}:{value[:40]} is not a date such as 2026-01-31, or an age such as 7d.")
        elif field == "after":
            self._after = moment
        else:
            self._before = moment

    def _add_words(self, text: str, *, is_prefix: bool, is_negative: bool) -> None:
        pieces = _split_scripts(text)
        if not pieces:
            return
        terms = [_make_term(piece, is_prefix=is_prefix and piece is pieces[-1]) for piece in pieces]
        joined = " AND ".join(terms)
        (self._unwanted if is_negative else self._wanted).append(f"({joined})")
        if not is_negative:
            self._marks.extend(pieces)
            self._words += [term for piece, term in zip(pieces, terms, strict=True) if " " not in piece]

    def build(self) -> SearchQuery:
        """Return the search built from the terms added so far."""
        has_limit = any(limit is not None for limit in (self._after, self._before, self._is_run))
        match = " AND ".join(self._wanted)
        if not match and (self._unwanted or has_limit):
            match = f"labels : {EVERY_MESSAGE}"
        for unwanted in self._unwanted:
            match = f"({match}) NOT {unwanted}"
        is_ranked = bool(self._marks) and not self._unwanted and min(map(len, self._marks)) > 1
        notes = tuple(self.notes)
        words = tuple(self._words) if len(self._wanted) > 1 else ()
        return SearchQuery(match, tuple(self._marks), self._after, self._before, notes, is_ranked, self._is_run, words)


def _split_scripts(text: str) -> list[str]:
    """Split *text* wherever the kind of script changes, and return the pieces in order.

    There are two kinds: scripts that separate words with spaces, and scripts that do not, such as Chinese.
    """
    pieces: list[str] = []
    end = 0
    for run in UNSPACED.finditer(text):
        pieces += [text[end : run.start()], run.group()]
        end = run.end()
    pieces.append(text[end:])
    return [" ".join(words) for piece in pieces if (words := _WORD.findall(piece))]


def _make_term(piece: str, *, is_prefix: bool) -> str:
    """Return an FTS5 search term for *piece*: words, or characters of a script without spaces.

    For a script without spaces, the term consists of overlapping pairs of characters. *is_prefix* means that the last
    word may be incomplete.
    """
    run = UNSPACED.search(piece)
    if run is None:
        last = piece.rsplit(" ", 1)[-1]
        return f'text : "{piece}" *' if is_prefix and len(last) >= MIN_PREFIX_CHARS else f'text : "{piece}"'
    if len(piece) == 1:
        return f'labels : "{piece}"'
    pairs = " ".join(piece[at : at + 2] for at in range(len(piece) - 1))
    return f'text : "{pairs}"'


def parse_time(text: str, now: float) -> float | None:
    """Parse a date, "today", "yesterday" or an age such as 7d; return the time in seconds since 1970.

    Dates are in the local time zone; 2026, 2026-01 and 2026-01-31 are allowed. Units of ages are h, d, w, m and y.
    *now* is the current time in seconds since 1970. Returns None for any other text.
    """
    text = text.strip().lower()
    try:
        today = dt.datetime.fromtimestamp(now).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        if text in ("today", "yesterday"):
            return (today - dt.timedelta(days=text == "yesterday")).timestamp()
        if age := _AGE.fullmatch(text):
            return max(0.0, now - int(age[1]) * _AGE_SECONDS[age[2]])
        parts = [int(part) for part in text.split("-")] if re.fullmatch(r"\d{4}(-\d{1,2}){0,2}", text) else []
        year, month, day = (*parts, 1, 1)[:3]
        return max(0.0, dt.datetime(year, month, day).astimezone().timestamp())
    except (ValueError, OverflowError, OSError):
        return None


T = TypeVar("T")
MAX_RANKED = 400
COMMON_WORD_MESSAGES = 100_000
"""A word is common if more than this number of messages contain it; counting them would take most of a search."""
MAX_CONVERSATIONS = 50
HITS_PER_CONVERSATION = 3
SEARCH_SECONDS = 5.0
REBUILDING = "The search index was damaged and is being rebuilt."
_EXCERPT_CHARS = 160
_CHARS_BEFORE = 16
_MAX_EXCERPT_BODY = 1_000_000
_AGE_OF_HALF = 30 * 86_400
_MATCHES = "FROM search_index WHERE search_index MATCH ? AND rowid BETWEEN ? AND ?"
_OF_RUN = f"""
    EXISTS (SELECT 1 FROM search_documents d JOIN conversations c ON c.id = d.conversation
    WHERE d.id = search_index.rowid AND {IS_TITLED_AS_RUN})
"""  # noqa: S608 - only constants
_DOCUMENT = "SELECT conversation, number FROM search_documents WHERE id = ?"
_INFO = "SELECT title, model, created, updated FROM conversations WHERE id = ?"
MAX_PROMPTS = 200
MAX_READ = 1_000
"""Maximum number of messages to read for MAX_PROMPTS results; some are duplicates, or were not written by the user."""
MAX_READ_BYTES = 8_000_000
_MAX_BODY = 1_000_000
_PROMPT_QUERY = """
    SELECT d.conversation, c.title, m.body FROM search_documents d
    JOIN messages m ON m.conversation = d.conversation AND m.seq = d.number
    JOIN conversations c ON c.id = d.conversation WHERE d.id = ? AND length(m.body) < ?
"""


class MarkedText(NamedTuple):
    """A piece of an excerpt; `is_match` is True if the piece is a match of the search."""

    text: str
    is_match: bool


class SearchHit(Struct, frozen=True):
    """A match found by a search: a message, or the title of a conversation.

    - `number`: the number of the message, or 0 for a title.
    - `role`: the role of the message, "title" for a title, or "" if the message cannot be read.
    - `at`: the time of the message or, for a title, of the conversation's creation, in seconds since 1970.
    - `excerpt`: the text around the match, which is not sanitized.
    """

    number: int
    role: Role | str
    at: float
    excerpt: tuple[MarkedText, ...]


class FoundConversation(Struct, frozen=True):
    """A conversation that matches a search.

    - `hits`: its best matches.
    - `count`: the number of all its matches that were ranked, including those that are not in `hits`.
    """

    id: str
    title: str
    model: str
    created: float
    updated: float
    count: int
    hits: tuple[SearchHit, ...]


class SearchResult(Struct, frozen=True):
    """The result of a search, best matches first; `notes` are sentences for the user.

    `is_complete` is False if there were too many matches to rank all of them.
    """

    conversations: tuple[FoundConversation, ...] = ()
    is_complete: bool = True
    notes: tuple[str, ...] = ()


class EarlierPrompt(Struct, frozen=True):
    """A message that the user sent.

    - `text`: the text, which is not sanitized.
    - `at`: the time of the message in seconds since 1970, to the millisecond.
    - `copies`: the parts of the text that were copied from servers.
    """

    text: str
    at: float
    conversation: str
    title: str
    copies: tuple[CopiedText, ...] = ()


class EarlierPrompts(Struct, frozen=True):
    """Messages that the user sent, newest first, without duplicates.

    `has_more` means that older messages exist that were not read. `notes` are sentences for the user.
    """

    prompts: tuple[EarlierPrompt, ...] = ()
    has_more: bool = False
    notes: tuple[str, ...] = ()


class SearchStore(SearchIndexer):
    """Full-text search in the database, including the indexing of conversations that are not indexed yet."""

    async def search(self, text: str, *, is_typing: bool = False) -> SearchResult:
        """Search all conversations; see `parse_query` for the syntax. Cancellation interrupts the search.

        If *is_typing* is true, the last word may be incomplete. If the index is damaged, a rebuild starts, and the
        result is empty except for a note. Raises StoreError.
        """
        now = time.time()
        query = parse_query(text, now=now, is_typing=is_typing)
        found = await self._read(lambda db: _search(db, query, now))
        return SearchResult(notes=(REBUILDING, *query.notes)) if found is None else found

    async def find_prompts(self, text: str) -> EarlierPrompts:
        """Return the newest messages from the user that match *text*, whose last word may be incomplete.

        See `parse_query` for the syntax. Cancellation interrupts the search. If the index is damaged, a rebuild starts,
        and the result is empty except for a note. Raises StoreError.
        """
        found = await self._read(lambda db: find_prompts(db, text, time.time()))
        return EarlierPrompts(notes=(REBUILDING,)) if found is None else found

    async def _read(self, search: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call *search* with a read-only connection and return its result.

        If the index is damaged, it is emptied and None is returned. Raises StoreError.
        """
        try:
            return await self._database.read(search, seconds=SEARCH_SECONDS)
        except StoreError as error:
            if not is_damage(error.__cause__):
                raise
        await self._database.run(search_index.rebuild)
        return None

    async def count_pending(self) -> int:
        """Return the number of conversations that are not completely indexed yet. Raises StoreError."""
        found = await self._database.run(lambda db: db.execute("SELECT count(*) FROM search_pending").fetchone())
        return found[0]


def _search(db: sqlite3.Connection, query: SearchQuery, now: float) -> SearchResult:
    if not has_index(db):
        return SearchResult(notes=(NO_FULL_TEXT,))
    if not query.match:
        return SearchResult(notes=query.notes)
    # Asked first: if the indexing ends during the search, the search may have missed the messages indexed last.
    notes = (*query.notes, STILL_INDEXING) if has_pending(db) else query.notes
    newest = _find_newest(db, query, MAX_RANKED + 1, now)
    # For very common words, relevance means little and is slow to compute.
    is_complete = len(newest) <= MAX_RANKED
    is_ranked = is_complete and query.is_ranked and not any(_is_common(db, word) for word in query.words)
    relevance = _measure_relevance(db, query) if is_ranked else dict.fromkeys(newest, 1.0)

    def rank(document: int) -> tuple[float, bool, int]:
        return -_score(relevance[document], document, now), search_index.is_in_future(document, now), -document

    ranked = sorted(relevance, key=rank)
    return SearchResult(_group(db, ranked, query.marks), is_complete, notes)


def _find_newest(db: sqlite3.Connection, query: SearchQuery, limit: int, now: float) -> list[int]:
    """Return the ids of the newest documents that match *query*, newest first, at most *limit*.

    Documents whose time is in the future (later than *now*), because the clock was wrong, come after all others.
    """
    matches, (words, first, last) = _select_matches(query)
    first_future = search_index.first_id_in_future(now)
    newest: list[int] = []
    for low, high in ((first, min(last, first_future - 1)), (max(first, first_future), last)):
        left = limit - len(newest)
        if left > 0 and low <= high:
            rows = db.execute(f"SELECT rowid {matches} ORDER BY rowid DESC LIMIT {left}", (words, low, high))
            newest += [document for (document,) in rows]
    return newest


def _is_common(db: sqlite3.Connection, word: str) -> bool:
    """Return whether more than COMMON_WORD_MESSAGES messages contain *word*, an FTS5 expression."""
    query = "SELECT 1 FROM search_index WHERE search_index MATCH ? LIMIT 1 OFFSET ?"
    return db.execute(query, (word, COMMON_WORD_MESSAGES)).fetchone() is not None


def _measure_relevance(db: sqlite3.Connection, query: SearchQuery) -> dict[int, float]:
    """Return the text relevance of each matching document, keyed by its id."""
    matches, values = _select_matches(query)
    return dict(db.execute(f"SELECT rowid, -bm25(search_index) {matches}", values).fetchall())


def _select_matches(query: SearchQuery) -> tuple[str, tuple[str, int, int]]:
    """Return the FROM and WHERE clauses that select the documents matching *query*, and their values."""
    origin = {None: "", True: f" AND {_OF_RUN}", False: f" AND NOT {_OF_RUN}"}[query.is_run]
    return f"{_MATCHES}{origin}", (query.match, *search_index.id_range(query.after, query.before))


def _score(relevance: float, document: int, now: float) -> float:
    """Return the score of a match: its text relevance, multiplied by up to 2 if the message is recent.

    *document* is the document id, which contains the time of the message, and *now* is the current time in seconds
    since 1970.
    """
    if search_index.is_in_future(document, now):
        return relevance
    age = max(0.0, now - search_index.time_of(document))
    return relevance * (1 + 1 / (1 + age / _AGE_OF_HALF))


def _group(db: sqlite3.Connection, ranked: Sequence[int], marks: Sequence[str]) -> tuple[FoundConversation, ...]:
    groups: dict[str, list[tuple[int, int]]] = {}
    for document in ranked:
        row = first_valid(db.execute(_DOCUMENT, (document,)), TEXT, INTEGER)
        if row is not None:
            groups.setdefault(row[0], []).append((document, row[1]))
    pattern = mark_pattern(marks)
    found: list[FoundConversation] = []
    for conversation_id, documents in groups.items():
        info = first_valid(db.execute(_INFO, (conversation_id,)), TEXT, TEXT, NUMBER, NUMBER)
        if info is None or not is_id(conversation_id):
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
    return SearchHit(number, message.role, at, make_excerpt(list_texts(message, is_shown=True), pattern))


def mark_pattern(marks: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that matches any of the words and phrases in *marks*.

    A word in *marks* also matches the beginning of a longer word.
    """
    alternatives = [r"[\W_]+".join(map(re.escape, _fold(mark).split())) for mark in marks]
    return re.compile("|".join(sorted(filter(None, alternatives), key=len, reverse=True)) or r"(?!)")


class _FoldedCharacters(dict[int, str]):
    """Table for `str.translate` that maps characters to lower case without accents.

    Entries are computed and cached on first use.
    """

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_character(chr(code))
        return folded


_FOLDED = _FoldedCharacters()


def _fold(text: str) -> str:
    """Return *text* in lower case and without accents, with the same number of characters."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def _fold_character(character: str) -> str:
    lower = character.lower()
    if character < "\u00c0" or len(lower) != 1:
        return lower[:1]
    return unicode_forms.normalize("NFKD", lower)[:1] or lower


def make_excerpt(texts: Sequence[str], pattern: re.Pattern[str]) -> tuple[MarkedText, ...]:
    """Return one line of text around the first match in *texts*, with all matches in the line marked.

    *pattern* is a result of `mark_pattern`. If there is no match, the line is the beginning of *texts*.
    """
    folded = (_fold(text) for text in texts)
    found = next(
        ((text, match) for text, fold in zip(texts, folded, strict=True) if (match := pattern.search(fold))), None
    )
    text, start = (found[0], max(0, found[1].start() - _CHARS_BEFORE)) if found else ("\n".join(texts), 0)
    if found and start:  # begin with a whole word
        start = text.find(" ", start, found[1].start()) + 1 or start
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


def find_prompts(db: sqlite3.Connection, text: str, now: float) -> EarlierPrompts:
    """Return the newest messages from the user that match *text*, or simply the newest if *text* is empty.

    The last word of *text* may be incomplete, and *now* is the current time in seconds since 1970. At most MAX_READ
    messages are read, regardless of the size of the store.
    """
    if not has_index(db):
        return EarlierPrompts(notes=(search_index.NO_FULL_TEXT,))
    query = parse_query(f"role:user {text}", now=now, is_typing=True)
    notes = (*query.notes, search_index.STILL_INDEXING) if has_pending(db) else query.notes  # see _search
    found: dict[str, EarlierPrompt] = {}
    size = read = 0
    for document in _find_newest(db, query, MAX_READ, now):
        read += 1
        row = first_valid(db.execute(_PROMPT_QUERY, (document, _MAX_BODY)), TEXT, TEXT, BLOB)
        if row is None:
            continue
        conversation, title, body = row
        size += len(body)
        message = search_index.decode_message(body)
        if message is None or not message.is_typed or not (sent := message.text.strip()):
            continue
        copies = tuple(_find_copies(message))
        if sent not in found:
            found[sent] = EarlierPrompt(message.text, search_index.time_of(document), conversation, title, copies)
        elif copies:
            moved = _move_copies(copies, message.text, found[sent].text)
            found[sent] = replace(found[sent], copies=(*found[sent].copies, *moved)[:_MAX_COPIES])
        if len(found) == MAX_PROMPTS or size > MAX_READ_BYTES:
            break
    has_more = read == MAX_READ or len(found) == MAX_PROMPTS or size > MAX_READ_BYTES
    return EarlierPrompts(tuple(found.values()), has_more, notes)


def _move_copies(copies: Iterable[CopiedText], text: str, other: str) -> Iterator[CopiedText]:
    """Yield the copied parts of *text* with their positions in *other*, which differs only in white space at its ends.

    A copied part is left out if it lies completely outside of *other*.
    """
    shift = (len(other) - len(other.lstrip())) - (len(text) - len(text.lstrip()))
    for copied in copies:
        moved = ((max(0, first + shift), min(len(other), end + shift)) for first, end in copied.spans)
        spans = tuple((first, end) for first, end in moved if first < end)
        if spans or not copied.spans:
            yield replace(copied, spans=spans)


def _find_copies(message: Message) -> Iterator[CopiedText]:
    """Yield the copied parts of a message; their `spans` are positions in the text of the whole message."""
    start = 0
    for part in message.parts:
        if isinstance(part, TextPart):
            for copied in part.copies:
                spans = tuple((start + first, start + end) for first, end in copied.spans)
                yield replace(copied, spans=spans, target=find_target(copied, message))
            start += len(part.text)
