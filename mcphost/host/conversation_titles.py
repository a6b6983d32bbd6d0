"""Titles of conversations, made from the text of their first message."""

import re
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

if TYPE_CHECKING:
    from mcphost.store.manual_calls import StoredManualCall

TITLE_COLUMNS = 60
"""Maximum width of an automatic title; Chinese, Japanese and Korean characters take two columns."""

_MAX_TITLE_TEXT = 20_000
_GREETING = re.compile(
    r"(?:(?:hi|hello|hey|dear|good (?:morning|afternoon|evening))(?: (?:there|all|again|everyone|team))?|你好|您好)"
    r"(?:[,.!，。！][\s,.!，。！]{0,9}|$)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.?!](?= )|[。？！]")
_MIN_SENTENCE_CHARS = 12


def make_title(text: str) -> str:
    """Return a title for a conversation: the first line of a message, without a greeting.

    A line that is too long is cut after a sentence or a word. Code fences are skipped; the title of an
    empty text is "Untitled".
    """
    first = title = ""
    for row in text[:_MAX_TITLE_TEXT].splitlines():
        line = row.strip()
        first = first or line
        greeting = _GREETING.match(line)
        title = "" if line.startswith(("```", "~~~")) else line[greeting.end() :] if greeting else line
        if title:
            break
    title = title or first or "Untitled"
    width = kept = 0
    for character in title[: TITLE_COLUMNS + 1]:
        width += 2 if east_asian_width(character) in "WF" else 1
        kept += width < TITLE_COLUMNS
    if width <= TITLE_COLUMNS:
        return title
    ends = [end.end() for end in _SENTENCE_END.finditer(title, _MIN_SENTENCE_CHARS, kept + 1)]
    if ends:
        return title[: ends[-1]]
    blank = title.rfind(" ", kept // 2, kept + 1)
    return f"{title[: blank if blank > 0 else kept].rstrip()}…"


def title_call(call: "StoredManualCall") -> str:
    """Return a title for a conversation that begins with a tool call made by the user."""
    return f"{call.server}/{call.tool}"[:TITLE_COLUMNS]
