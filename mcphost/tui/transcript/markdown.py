"""Rendering of complete or streamed Markdown (CommonMark with tables and strikethrough).

HTML is shown as text. The Markdown renderers of Rich and Textual are not used, because they drop `<div>` and
the `<T>` in `Vec<T>`. The renderer of Rich also emits OSC 8 links.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from textual._cells import cell_len
from textual.content import Content, Span
from textual.style import Style

from mcphost.markdown_limits import fitting_length, is_too_complex
from mcphost.sanitize import escape_formula
from mcphost.translation import _
from mcphost.tui.screen_text import clean, clean_line, find_line_end
from mcphost.tui.transcript.prefixed_content import PROSE_WIDTH, PrefixedContent, justify_ends

if TYPE_CHECKING:  # imported with the first answer, not before the first frame
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_HIGHLIGHT_LIMIT = 6_000
"""Maximum characters of a code block that are highlighted; the rest stays plain."""
_OPEN_CODE_LINES = 40
_OPEN_CODE_TAIL_LINES = 8
_OPEN_LIST_ITEMS = 12
_OPEN_ROWS = 80
_OPEN_PARAGRAPH, _OPEN_PARAGRAPH_LINES = 6000, 100
_FRAGMENT_CHARACTERS = 3000
_PLAIN_LINES = 100
"""Maximum lines of a part of a text that is too complex to parse; each part is drawn as a whole."""


_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n)|[^\r\n]++")
"""A line as defined by the Markdown parser; `str.splitlines` also splits at form feeds and U+2028."""
_NUMBER = re.compile(r"[+-]?(?:\d[\d.,]*+ ?%?)?", re.ASCII)
"""Numbers, and a sign alone, which spreadsheets do not run as formulas."""


class MarkdownFragment(NamedTuple):
    """Part of Markdown source that can be rendered separately.

    If `is_joined` is true, no blank line separates this part from the previous one. If `continues_code` is true,
    this part begins with the continuation of a code block that began in the previous part.
    """

    source: str
    is_joined: bool
    continues_code: bool = False


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@cache
def _block_parser() -> "MarkdownIt":
    """Return a parser that finds only the blocks of Markdown source and ignores inline formatting."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table"]).disable("inline")


def warm_up() -> None:
    """Import the parser and the highlighter, so that the first answer is not delayed. Call this in a thread."""
    _parser().parse("a `b`\n")
    highlight_code("x = 1\n", "python")


def highlight_code(code: str, language: str) -> Content:
    """Return code with syntax highlighting, or as plain text if the language is unknown.

    Only the first 6,000 characters are highlighted.
    """
    if not language:
        return Content(code)
    from mcphost.tui.transcript.code_theme import highlight

    coloured = code if len(code) <= _HIGHLIGHT_LIMIT else code[: code.rfind("\n", 0, _HIGHLIGHT_LIMIT) + 1].rstrip("\n")
    if not coloured:
        return Content(code)
    return Content(code, spans=list(highlight(coloured, language).spans))


class _Builder:
    """Builder that collects the rendered content of Markdown source and tracks the open lists and block quotes."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.pieces: list[PrefixedContent] = []
        self.stack: list[tuple[str, str]] = []  # containers: the prefixes of the first row and of the other rows
        self.unused_first_prefix: list[bool] = []  # whether the first-row prefix is still unused
        self.numbers: list[int] = []
        self._part_count = 0

    def prefixes(self) -> tuple[str, str]:
        """Return the prefix for the first row of the next content and the prefix for its other rows.

        The first prefix contains a list item's marker, such as a number, only for the first content of that item.
        """
        first = "".join(
            marker if fresh else rest
            for (marker, rest), fresh in zip(self.stack, self.unused_first_prefix, strict=True)
        )
        self.unused_first_prefix = [False] * len(self.unused_first_prefix)
        return first, "".join(rest for _unused, rest in self.stack)

    def add(
        self,
        content: Content,
        style: str = "",
        *,
        max_width: int = PROSE_WIDTH,
        is_decoration: bool = False,
        padding: str = "",
    ) -> None:
        """Append content; its rows start with the prefixes of the open list items and block quotes, then *padding*."""
        first, rest = self.prefixes()
        self.pieces.append(
            PrefixedContent(
                first + padding, rest + padding, content, style, "$faint", max_width=max_width,
                is_decoration=is_decoration,
            )
        )  # fmt: skip

    def next_part(self) -> int:
        """Return the number of the next code block or table, which identifies it for copying."""
        self._part_count += 1
        return self._part_count - 1

    def gap(self) -> None:
        """Append a blank row, unless a list item is open or the output is still empty."""
        if self.pieces and all(rest == "▎ " for _unused, rest in self.stack):
            rest = "".join(rest for _unused, rest in self.stack)
            self.pieces.append(PrefixedContent(rest, rest, Content(""), "", "$faint"))

    def open(self, first: str, rest: str) -> None:
        """Open a list item or block quote with the prefix *first* for its first row and *rest* for its other rows."""
        self.stack.append((first, rest))
        self.unused_first_prefix.append(True)

    def close(self) -> None:
        """Close the innermost list item or block quote."""
        self.stack.pop()
        self.unused_first_prefix.pop()


def _next_list_marker(build: _Builder, token: "Token") -> str:
    if build.numbers[-1] < 0:
        return "• "
    number = build.numbers[-1]
    build.numbers[-1] += 1
    return f"{number}{token.markup or '.'} "


def render_markdown(
    source: str, width: int, *, continues_code: bool = False, is_linear: bool = False
) -> list[PrefixedContent]:
    """Render Markdown source for *width* columns.

    Tables and code may use the full width, other text at most PROSE_WIDTH columns. Tables are laid out here; other
    content is wrapped when it is drawn. Text that is too complex to parse is returned as plain text. If
    *continues_code* is true, the text begins with the continuation of a code block, and this part of the code gets
    no heading. If *is_linear* is true, the cells of each table row are listed one below another.
    """
    build = _Builder(max(8, width))
    if is_too_complex(source):
        build.add(Content(clean(source.rstrip("\n"))))
        return build.pieces
    tokens = _parser().parse(source)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.type == "inline":
            if not (build.unused_first_prefix and build.unused_first_prefix[-1]):
                build.gap()
            _render_inline_block(build, token, tokens[index - 1])
        elif token.type == "table_open":
            build.gap()
            index = _render_table(build, tokens, index, is_linear=is_linear)
        elif token.type in _CODE_TOKENS:
            build.gap()
            _render_code(build, token, has_heading=not (continues_code and index == 0))
        elif token.type in _LEAF_RENDERERS:
            build.gap()
            build.add(_LEAF_RENDERERS[token.type](token, build.width))
        else:
            _process_container(build, token)
        index += 1
    return build.pieces


def _process_container(build: _Builder, token: "Token") -> None:
    kind = token.type
    if kind in {"bullet_list_open", "ordered_list_open"}:
        if not build.stack:
            build.gap()
        build.numbers.append(-1 if kind[0] == "b" else int(token.attrs.get("start", 1)))
    elif kind in {"bullet_list_close", "ordered_list_close"}:
        build.numbers.pop()
    elif kind == "list_item_open":
        marker = _next_list_marker(build, token)
        build.open(marker, " " * len(marker))
    elif kind == "blockquote_open":
        build.gap()
        build.open("▎ ", "▎ ")
    elif kind in {"list_item_close", "blockquote_close"}:
        build.close()


def _copy_label(part: int) -> Content:
    """Return a clickable label that copies code block or table number *part*."""
    return Content.styled(_("copy"), "$muted").stylize(Style.from_meta({"copy": part}))


def _render_code(build: _Builder, token: "Token", *, has_heading: bool) -> None:
    """Add a code block and, if *has_heading* is true, a row above it with the language and a copy label."""
    code = clean(token.content.rstrip("\n")).replace("\t", "    ")
    words = token.info.split()
    language = clean_line(words[0], 30) if words else ""
    room = build.width - sum(len(rest) for _unused, rest in build.stack)
    longest = max(map(cell_len, code.split("\n"))) + 2 * len(_CODE_PADDING)
    indent = build.width - room
    width = min(room, max(longest, PROSE_WIDTH - indent))
    part, limit = build.next_part(), indent + width
    if has_heading:
        name = Content.styled(language or _("code"), "$faint")
        heading = justify_ends(name, Content.assemble(_copy_label(part), _CODE_PADDING), width - len(_CODE_PADDING))
        build.add(heading, "on $panel", max_width=limit, is_decoration=True, padding=_CODE_PADDING)
    build.add(highlight_code(code, language), "on $surface", max_width=limit, padding=_CODE_PADDING)


def _render_html(token: "Token", width: int) -> Content:
    del width
    return Content(clean(token.content.rstrip("\n")))


def _render_rule(token: "Token", width: int) -> Content:
    del token
    return Content.styled("─" * min(40, width), "$faint")


_CODE_TOKENS = {"fence", "code_block"}
_CODE_PADDING = " "
_LEAF_RENDERERS = {"html_block": _render_html, "hr": _render_rule}
_HEADING_STYLES = {"h1": "bold $accent", "h2": "bold $accent", "h3": "bold"}


def _render_inline_block(build: _Builder, token: "Token", parent: "Token") -> None:
    content = render_inline(token)
    if parent.type != "heading_open":
        build.add(content)
        return
    build.add(content.stylize(_HEADING_STYLES.get(parent.tag, "bold $muted")))
    if parent.tag == "h1":
        room = min(build.width, PROSE_WIDTH) - sum(len(rest) for _unused, rest in build.stack)
        rule = "━" * max(1, min(content.cell_length, room))
        build.add(Content.styled(rule, "$accent"), is_decoration=True)


def _render_table(build: _Builder, tokens: "Sequence[Token]", index: int, *, is_linear: bool) -> int:
    """Add the table that begins with the token at *index*, and return the index of the token that closes it."""
    table, end = read_table(tokens, index)
    room = build.width - sum(len(rest) for _unused, rest in build.stack)
    layout = None if is_linear else layout_table(table, room)
    part = build.next_part()
    if layout is None:
        _render_table_as_list(build, table.rows)
        return end
    rule = layout.rule
    if rule.cell_length + 6 <= room:
        rule = Content.assemble(rule, "  ", _copy_label(part))
    for row in layout.head:
        build.add(row, max_width=0)
    build.add(rule, max_width=0, is_decoration=True)
    for row in layout.body:
        build.add(row, max_width=0)
    return end


def _render_table_as_list(build: _Builder, rows: list[list[Content]]) -> None:
    head = rows[0]
    for row in rows[1:]:
        for k, cell in enumerate(row):
            name = head[k] if k < len(head) else Content("")
            build.open("• " if k == 0 else "  ", "  ")
            build.add(Content.assemble(name.stylize("bold"), " ", cell))
            build.close()


class CopyablePart(NamedTuple):
    """A part of a block that can be copied separately.

    `name` describes the part. `tsv` is set only for tables.
    """

    name: str
    text: str
    tsv: str = ""


def list_parts(source: str) -> list[CopyablePart]:
    """Return the code blocks and tables in Markdown source, in order.

    The position of a part in the list is the number that identifies it for copying.
    """
    if is_too_complex(source):
        return []
    tokens = _parser().parse(source)
    parts: list[CopyablePart] = []
    for index, token in enumerate(tokens):
        if token.type in _CODE_TOKENS:
            words = token.info.split()
            name = _("the {words} code").format(words=clean_line(words[0], 30)) if words else _("the code")
            parts.append(CopyablePart(name, token.content))
        elif token.type == "table_open":
            table, _unused = read_table(tokens, index)
            parts.append(CopyablePart(_("the table"), table.to_markdown(), table.to_tsv()))
    return parts


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

    Complete parts no longer change. The remaining part is usually the last top-level block, which may still grow;
    it is None if the text has no blocks. If it is a long code block, list, table or paragraph, its beginning is
    split off as a complete part as well. Otherwise, rendering each addition would take longer as the answer grows.
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
        if start == cut or sum(map(len, lines[begun:start])) > _FRAGMENT_CHARACTERS:
            done.append(MarkdownFragment("".join(lines[begun:start]), is_joined=False))
            begun = start
    finished, rest, joined = _split_open_block(last, lines[cut:], _item_lines(tokens, cut))
    if finished:
        done.append(MarkdownFragment(finished, is_joined=False))
    return done, MarkdownFragment("".join(rest), joined, bool(finished) and last.type in _CODE_TOKENS)


def _split_lines(source: str) -> tuple[list[MarkdownFragment], MarkdownFragment]:
    parts: list[MarkdownFragment] = []
    while source.count("\n") > _PLAIN_LINES:
        at = find_line_end(source, _PLAIN_LINES)
        parts.append(MarkdownFragment(source[:at], is_joined=bool(parts)))
        source = source[at:]
    return parts, MarkdownFragment(source, is_joined=bool(parts))


def _split_open_block(last: "Token", rest: list[str], items: list[int]) -> tuple[str, list[str], bool]:
    """Split the last block of a stream, which may still grow, if the block is long.

    *rest* contains the lines of the block, and *items* the line numbers of its list items. Return three values: the
    text that cannot change any more, or "" if the block is not split; the remaining lines; and whether the
    remaining lines continue that text without a blank line.
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


_BREAK = re.compile(r" ?<br ?/?> ?", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s<>\"'`|\\^{}⟨⟩]+")


def _add_link_spans(text: str, spans: list[Span], start: int) -> None:
    for match in _URL.finditer(text):
        url = match.group().rstrip(".,;:!?)")
        spans.append(Span(start + match.start(), start + match.start() + len(url), _link_style(url)))


def _link_style(url: str) -> Style:
    return Style.from_meta({"href": clean_line(url, 2000)}) + Style(underline=True)


_INLINE_STYLES = {"em_open": "italic", "strong_open": "bold", "s_open": "strike"}


def render_inline(token: "Token", *, has_breaks: bool = False) -> Content:
    """Render an "inline" token, such as the text of a paragraph, with its formatting.

    If *has_breaks* is true, `<br>` becomes a line break, as is usual in tables.
    """
    text: list[str] = []
    spans: list[Span] = []
    opened: list[tuple[int, Token]] = []
    position = 0
    for child in token.children or ():
        if child.type.endswith("_open"):
            opened.append((position, child))
        elif child.type.endswith("_close"):
            if opened and (style := _inline_style(opened[-1][1])):
                spans.append(Span(opened[-1][0], position, style))
            del opened[-1:]
        else:
            added, style = _render_leaf(child)
            if has_breaks and child.type == "text" and "<" in added:
                added = _BREAK.sub("\n", added)
            if style:
                spans.append(Span(position, position + len(added), style))
            elif "://" in added and not any(one.type == "link_open" for _unused, one in opened):
                _add_link_spans(added, spans, position)
            text.append(added)
            position += len(added)
    return Content("".join(text), spans)


def _render_leaf(token: "Token") -> tuple[str, Style | str]:
    """Return the text and the style of an inline token that has no children."""
    match token.type:
        case "text" | "html_inline" | "text_special":
            return clean(token.content), ""
        case "softbreak":
            return " ", ""
        case "hardbreak":
            return "\n", ""
        case "code_inline":
            return clean(token.content), "on $panel"
        case "image":
            said = _("[image: {content}]").format(content=clean(token.content) or _("no description"))
            return said, Style(italic=True) + _link_style(str(token.attrs.get("src", "")))
        case _:
            return "", ""


def _inline_style(opener: "Token") -> Style | str:
    """Return the style of the text between an opening inline token and the matching closing token."""
    if opener.type == "link_open":
        return _link_style(str(opener.attrs.get("href", "")))
    return _INLINE_STYLES.get(opener.type, "")


_GAP = "  "
_MIN_COLUMN = 6
"""Minimum width of a column in cells; a narrower table is shown as a list."""
_RULES = {"left": ":---", "center": ":---:", "right": "---:", "": "---"}


class Table(NamedTuple):
    """A table whose first row is the header; `alignments` has "left", "center", "right" or "" for each column."""

    rows: list[list[Content]]
    sources: list[list[str]]
    alignments: tuple[str, ...]

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        count = len(self.alignments)
        lines = [[cell.replace("|", "\\|") for cell in row] + [""] * (count - len(row)) for row in self.sources]
        lines.insert(1, [_RULES.get(alignment, "---") for alignment in self.alignments])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def to_tsv(self) -> str:
        """Return the table as tab-separated text, with formulas escaped so that no spreadsheet runs them."""
        rows = ((" ".join(cell.plain.split()) for cell in row) for row in self.rows)
        return "".join(
            "\t".join(cell if _NUMBER.fullmatch(cell) else escape_formula(cell) for cell in row) + "\n" for row in rows
        )


class TableLayout(NamedTuple):
    """The rows of a table as shown on the screen: the header, a horizontal rule, and the body."""

    head: list[Content]
    rule: Content
    body: list[Content]


def read_table(tokens: "Sequence[Token]", index: int) -> tuple[Table, int]:
    """Return the table that begins with the token at *index*, and the index of its "table_close" token."""
    rows: list[list[Content]] = []
    sources: list[list[str]] = []
    alignments: list[str] = []
    while tokens[index].type != "table_close":
        token = tokens[index]
        if token.type == "tr_open":
            rows.append([])
            sources.append([])
        elif token.type == "th_open":
            alignments.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
        elif token.type == "inline":
            rows[-1].append(render_inline(token, has_breaks=True))
            sources[-1].append(token.content)
        index += 1
    return Table(rows, sources, tuple(alignments)), index


def layout_table(table: Table, room: int) -> TableLayout | None:
    """Lay out a table within *room* cells; return None if its columns would be too narrow."""
    count = max(len(row) for row in table.rows)
    widths = [max((_measure(row[k]) for row in table.rows if k < len(row)), default=1) or 1 for k in range(count)]
    room -= len(_GAP) * (count - 1)
    if room < _MIN_COLUMN * count:
        return None
    while (excess := sum(widths) - room) > 0:
        widest = max(widths)
        columns = [k for k, width in enumerate(widths) if width == widest]
        step = widest - max((width for width in widths if width < widest), default=0)
        each, rest = divmod(excess, len(columns))
        for number, k in enumerate(columns):
            widths[k] -= min(step, each + (number < rest))
    rows = [_layout_row(row, widths, table.alignments) for row in table.rows]
    rule = Content.styled(_GAP.join("─" * width for width in widths), "$faint")
    return TableLayout([line.stylize("bold") for line in rows[0]], rule, [line for lines in rows[1:] for line in lines])


def _measure(cell: Content) -> int:
    return (
        max(line.cell_length for line in cell.split("\n", allow_blank=True))
        if "\n" in cell.plain
        else (cell.cell_length)
    )


def _layout_row(row: list[Content], widths: list[int], alignments: Sequence[str]) -> list[Content]:
    cells = [row[k].wrap(width) if k < len(row) else [] for k, width in enumerate(widths)]
    out: list[Content] = []
    for line in range(max(map(len, cells), default=1) or 1):
        parts = [
            _align(cell[line] if line < len(cell) else Content(""), width, alignments[k] if k < len(alignments) else "")
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        out.append(Content(_GAP).join(parts))
    return out


def _align(part: Content, width: int, alignment: str) -> Content:
    part = part.rstrip()
    left = {"right": 1.0, "center": 0.5}.get(alignment, 0.0)
    room = max(0, width - part.cell_length)
    before = int(room * left)
    return part.pad_left(before).pad_right(room - before)
