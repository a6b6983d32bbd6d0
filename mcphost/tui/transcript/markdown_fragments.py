"""Functions that split streamed Markdown into complete parts, which no longer change, and a last part that may grow."""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from mcphost.markdown_limits import fitting_length, is_too_complex
from mcphost.tui.screen_text import find_line_end

if TYPE_CHECKING:  # imported with the first answer, not before the first frame
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

CODE_TOKENS = frozenset({"fence", "code_block"})
"""The types of the parser's tokens for code blocks."""

# The last block of a stream is split once it is longer than this, because it is parsed and drawn again in each frame.
_OPEN_CODE_LINES = 40
_OPEN_CODE_TAIL_LINES = 8  # of a split code block, which stay in the last part
_OPEN_LIST_ITEMS = 12
_OPEN_ROWS = 80
_OPEN_PARAGRAPH, _OPEN_PARAGRAPH_LINES = 6000, 100  # in characters and in lines

_FRAGMENT_CHARACTERS, _FRAGMENT_LINES = 3000, 50
"""Number of characters or lines beyond which finished blocks become a separate part."""
_PLAIN_LINES = 100
"""Maximum lines of a part of a text that is too complex to parse; each part is drawn as a whole."""
_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n)|[^\r\n]++")
"""A line as defined by the Markdown parser; `str.splitlines` also splits at form feeds and U+2028."""


class MarkdownFragment(NamedTuple):
    """Part of Markdown source that can be rendered separately.

    - `is_joined`: whether this part follows the previous one without a blank line.
    - `continues_code`: whether this part begins inside a code block that began in the previous part.
    """

    source: str
    is_joined: bool
    continues_code: bool = False


@cache
def _block_parser() -> "MarkdownIt":
    """Return a parser that finds only the blocks of Markdown source and ignores inline formatting."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table"]).disable("inline")


def find_cut(source: str, size: int) -> int:
    """Return the index at which to split *source* so that the first part has at most *size* characters.

    The split is after the last line break between *size* / 2 and *size* or, if there is none, after the last space in
    that range. If there is no space either, the index is *size*.
    """
    for mark in ("\n", " "):
        at = source.rfind(mark, size // 2, size)
        if at >= 0:
            return at + 1
    return size


def split_stream(source: str) -> tuple[list[MarkdownFragment], MarkdownFragment | None]:
    """Split Markdown that is still being streamed into complete parts and the remaining part.

    Complete parts no longer change. The remaining part is the last top-level block, which may still grow, or None if
    there are no blocks yet. The beginning of a long code block, list, table or paragraph becomes a complete part as
    well. The time to render new text therefore does not depend on the length of the block.
    """
    parts: list[MarkdownFragment] = []
    while (size := fitting_length(source)) < len(source):
        at = find_cut(source, size)
        parts.append(MarkdownFragment(source[:at], is_joined=bool(parts)))
        source = source[at:]
    if parts:
        return parts, MarkdownFragment(source, is_joined=True)
    if is_too_complex(source):
        return _split_lines(source)
    tokens = _block_parser().parse(source)
    tops = [token for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
    if not tops:
        return [], None
    lines = _LINE.findall(source)
    done: list[MarkdownFragment] = []
    last = tops[-1]
    cut = last.map[0] if last.map else 0
    begun = 0
    for token in tops[1:]:
        # Finished blocks stay together until they are long: each part is parsed and drawn as a whole.
        start = token.map[0] if token.map else begun
        is_long = start - begun > _FRAGMENT_LINES or sum(map(len, lines[begun:start])) > _FRAGMENT_CHARACTERS
        if start == cut or is_long:
            done.append(MarkdownFragment("".join(lines[begun:start]), is_joined=False))
            begun = start
    finished, rest, joined = _split_open_block(last, lines[cut:], _item_lines(tokens, cut))
    if finished:
        done.append(MarkdownFragment(finished, is_joined=False))
    return done, MarkdownFragment("".join(rest), joined, bool(finished) and last.type in CODE_TOKENS)


def _split_lines(source: str) -> tuple[list[MarkdownFragment], MarkdownFragment]:
    parts: list[MarkdownFragment] = []
    while source.count("\n") > _PLAIN_LINES:
        at = find_line_end(source, _PLAIN_LINES)
        parts.append(MarkdownFragment(source[:at], is_joined=bool(parts)))
        source = source[at:]
    return parts, MarkdownFragment(source, is_joined=bool(parts))


def _split_open_block(last: "Token", rest: list[str], items: list[int]) -> tuple[str, list[str], bool]:
    """Split the last block of a stream, which may still grow, if the block is long.

    *rest* contains the lines of the block, and *items* the line numbers of its list items. Returns three values:

    - the beginning of the block, which no longer changes, or "" if the block is not split;
    - the lines of the remaining part;
    - whether the remaining part follows without a blank line.
    """
    match last.type:
        case "fence" if len(rest) - 1 > _OPEN_CODE_LINES and not _is_fence_closed(rest, last.markup):
            head, body = rest[0], rest[1:-_OPEN_CODE_TAIL_LINES]
            return f"{head}{''.join(body)}{last.markup}\n", [head, *rest[-_OPEN_CODE_TAIL_LINES:]], True
        case "code_block" if len(rest) > _OPEN_CODE_LINES:
            return "".join(rest[:-_OPEN_CODE_TAIL_LINES]), rest[-_OPEN_CODE_TAIL_LINES:], True
        case "bullet_list_open" | "ordered_list_open" if len(items) > _OPEN_LIST_ITEMS:
            return "".join(rest[: items[-1]]), rest[items[-1] :], True
        case "table_open" if len(rest) > _OPEN_ROWS:
            # The table head is repeated above the rows that follow.
            return "".join(rest[:-1]), [*rest[:2], rest[-1]], False
        case "paragraph_open" if (size := sum(map(len, rest))) > _OPEN_PARAGRAPH or len(rest) > _OPEN_PARAGRAPH_LINES:
            text = "".join(rest)
            at = max(text.rfind(" ", 0, size - 200), text.rfind("\n", 0, size - 200)) + 1 or size - 200
            return text[:at], [text[at:]], True
        case _:
            return "", rest, False


def _is_fence_closed(lines: list[str], markup: str) -> bool:
    return lines[-1].strip().startswith(markup)


def _item_lines(tokens: "Sequence[Token]", since: int) -> list[int]:
    """Return the line numbers of the items of the top-level list that begins at line *since*.

    The line numbers are relative to *since*.
    """
    return [
        token.map[0] - since
        for token in tokens
        if token.type == "list_item_open" and token.level == 1 and token.map and token.map[0] >= since
    ]
