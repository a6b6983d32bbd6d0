"""Tables in Markdown: parsing, layout within a given width, and conversion to text for the clipboard."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from mcphost.sanitize import escape_formula
from mcphost.tui.transcript.markdown_inline import render_inline

if TYPE_CHECKING:
    from markdown_it.token import Token

_NUMBER = re.compile(r"[+-]?(?:\d[\d.,]*+ ?%?)?", re.ASCII)
"""Numbers, and a sign alone, which spreadsheets do not run as formulas."""

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
