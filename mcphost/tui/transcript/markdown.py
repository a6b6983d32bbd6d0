"""Renderer for Markdown (CommonMark with tables and strikethrough).

HTML is shown as text. The Markdown renderers of Rich and Textual are not used, because they drop `<div>` and the `<T>`
in `Vec<T>`. The renderer of Rich also emits OSC 8 links.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from textual._cells import cell_len
from textual.content import Content
from textual.style import Style

from mcphost.markdown_limits import is_too_complex
from mcphost.translation import _
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.transcript.markdown_fragments import CODE_TOKENS
from mcphost.tui.transcript.markdown_inline import render_inline
from mcphost.tui.transcript.markdown_tables import layout_table, read_table
from mcphost.tui.transcript.prefixed_content import PROSE_WIDTH, PrefixedContent, justify_ends

if TYPE_CHECKING:  # imported with the first answer, not before the first frame
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_HIGHLIGHT_LIMIT = 6_000
"""Maximum characters of a code block that are highlighted; the rest stays plain."""


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


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
        """Append content; its rows start with the prefixes of the open list items and block quotes, then *padding*.

        *max_width* is the maximum width of the rows in cells; 0 means the full width. Content with *is_decoration*,
        such as a horizontal rule, is not part of selected text.
        """
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
    content is wrapped when it is drawn. Text that is too complex to parse is returned as plain text.

    If *continues_code* is true, the text begins inside a code block, and this part of the code gets no heading. If
    *is_linear* is true, the cells of each table row are listed on separate rows.
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
        elif token.type in CODE_TOKENS:
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
    """Add the table that begins with the token at *index*, and return the index of the token that closes it.

    If *is_linear* is true, or the table is too wide, the cells of each row are listed on separate rows.
    """
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

    - `name`: a description for the user, such as "the table".
    - `text`: the code, or the table as Markdown.
    - `tsv`: the table as tab-separated values; "" for code.
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
        if token.type in CODE_TOKENS:
            words = token.info.split()
            name = _("the {words} code").format(words=clean_line(words[0], 30)) if words else _("the code")
            parts.append(CopyablePart(name, token.content))
        elif token.type == "table_open":
            table, _unused = read_table(tokens, index)
            parts.append(CopyablePart(_("the table"), table.to_markdown(), table.to_tsv()))
    return parts
