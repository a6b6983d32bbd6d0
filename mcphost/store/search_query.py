"""Syntax of searches: words, "phrases", -words, prefix* and filters like `tool:NAME`, `after:2026`.

Every text is a valid search. Parts that are not valid syntax are searched as words, or ignored with a note.
"""

import datetime as dt
import re
from typing import NamedTuple

from mcphost.store.search_text import EVERY_MESSAGE, UNSPACED, make_label, normalize

MAX_QUERY_CHARS = 500
MAX_TERMS = 20
MIN_PREFIX_CHARS = 2
LABEL_FILTERS = ("server", "tool", "role")
_DAY = 86_400
_TERM = re.compile(r'(-?)(?:(server|tool|role|before|after):)?(?:"([^"]*)"?|(\S+))', re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_AGE = re.compile(r"(\d{1,5})([hdwmy])")
_AGE_SECONDS = {"h": 3_600, "d": _DAY, "w": 7 * _DAY, "m": 30 * _DAY, "y": 365 * _DAY}


class SearchQuery(NamedTuple):
    """A parsed search: an FTS5 expression, "" if there is nothing to search, and limits on message times.

    `marks` are the words and phrases to mark in matches, and `notes` are sentences about ignored parts. `is_ranked`
    says whether relevance can be computed quickly; it is False for single characters and -words.
    """

    match: str
    marks: tuple[str, ...] = ()
    after: float | None = None
    before: float | None = None
    notes: tuple[str, ...] = ()
    is_ranked: bool = True


def parse_query(text: str, *, now: float, is_typing: bool = False) -> SearchQuery:
    """Parse the user's search text; *now* is the current time in seconds since 1970. Never raises.

    With *is_typing*, the last word may be incomplete.
    """
    text = normalize(text[:MAX_QUERY_CHARS].replace("\0", " "))
    builder = _QueryBuilder(now)
    found = list(_TERM.finditer(text))
    for number, term in enumerate(found[:MAX_TERMS]):
        is_open = is_typing and number == len(found) - 1 and not text.endswith((" ", '"'))
        builder.add(term, is_open=is_open)
    if len(found) > MAX_TERMS:
        builder.notes.append(f"Only the first {MAX_TERMS} words are searched.")
    return builder.build()


class _QueryBuilder:
    """Builder of an FTS5 expression from the terms of a search."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._wanted: list[str] = []
        self._unwanted: list[str] = []
        self._marks: list[str] = []
        self._after: float | None = None
        self._before: float | None = None
        self.notes: list[str] = []

    def add(self, term: re.Match[str], *, is_open: bool) -> None:
        """Add one term of the search text; *is_open* means that its last word may be incomplete."""
        sign, field, phrase, word = term.groups()
        value = phrase if phrase is not None else word
        field = (field or "").lower()
        if field in LABEL_FILTERS:
            self._add_label(field, value, is_negative=bool(sign))
        elif field:
            self._add_time(field, value)
        else:
            is_prefix = phrase is None and (word.endswith("*") or is_open)
            self._add_words(value, is_prefix=is_prefix, is_negative=bool(sign))

    def _add_label(self, field: str, name: str, *, is_negative: bool) -> None:
        name, is_prefix = (name[:-1], True) if name.endswith("*") else (name, False)
        if not name:
            return
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

    def build(self) -> SearchQuery:
        """Return the parsed search."""
        has_time = self._after is not None or self._before is not None
        match = " AND ".join(self._wanted)
        if not match and (self._unwanted or has_time):
            match = f"labels : {EVERY_MESSAGE}"
        for unwanted in self._unwanted:
            match = f"({match}) NOT {unwanted}"
        is_ranked = bool(self._marks) and not self._unwanted and min(map(len, self._marks)) > 1
        return SearchQuery(match, tuple(self._marks), self._after, self._before, tuple(self.notes), is_ranked)


def _split_scripts(text: str) -> list[str]:
    """Split *text* into runs of scripts with spaces between words and runs of scripts without, in order."""
    pieces: list[str] = []
    end = 0
    for run in UNSPACED.finditer(text):
        pieces += [text[end : run.start()], run.group()]
        end = run.end()
    pieces.append(text[end:])
    return [" ".join(words) for piece in pieces if (words := _WORD.findall(piece))]


def _make_term(piece: str, *, is_prefix: bool) -> str:
    """Return an FTS5 term for words, or for the overlapping character pairs of text without spaces."""
    run = UNSPACED.search(piece)
    if run is None:
        last = piece.rsplit(" ", 1)[-1]
        return f'text : "{piece}" *' if is_prefix and len(last) >= MIN_PREFIX_CHARS else f'text : "{piece}"'
    if len(piece) == 1:
        return f'labels : "{piece}"'
    pairs = " ".join(piece[at : at + 2] for at in range(len(piece) - 1))
    return f'text : "{pairs}"'


def parse_time(text: str, now: float) -> float | None:
    """Return the time of a date such as 2026-01, of "today" or "yesterday", or of an age such as 7d.

    Dates are in the local time zone; 2026, 2026-01 and 2026-01-31 are allowed. Units of ages are h, d, w, m and y.
    Returns seconds since 1970, or None for any other text.
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
