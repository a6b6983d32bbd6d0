"""Tables, Markdown and status lines for a terminal, drawn with Rich.

This module is imported only if output goes to a terminal.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from mcphost.cli.colors import STATE_STYLES, Excerpt, StateWord, uses_color
from mcphost.markdown_limits import is_long_text_too_complex
from mcphost.pluralize import format_duration
from mcphost.sanitize import sanitize
from mcphost.translation import _

if TYPE_CHECKING:
    from markdown_it.token import Token

MAX_MARKDOWN_CHARS = 50_000
"""Longer text is printed without formatting, because laying out Markdown takes superlinear time."""
MAX_MARKDOWN_ITEMS = 1_000
"""Text with more list items, quotes, headings and rules is printed without formatting: each takes up to 0.3 ms."""
_ITEM = re.compile(r"(?m)^[ \t]*+(?:(?:[-*+>]|\d{1,9}[.)])[ \t>]|#{1,6}(?:[ \t]|$)|---)")
_MAX_TAIL_CHARS = 4_000
_MIN_SHOWN_SECONDS = 2
_NARROW_WIDTH = 20
"""Columns of at most this width are never narrowed to make room for other columns."""
_THEME = Theme(
    {
        "markdown.block_quote": "dim",
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.h1": "bold",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.h5": "bold",
        "markdown.h6": "bold",
        "markdown.hr": "dim",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.link": "none",
        "markdown.link_url": "dim",
        "markdown.list": "none",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


_MAX_DATA_URL = 60
_BREAK = re.compile(r" ?<br ?/?> ?", re.IGNORECASE)


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, Any]] = dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "left")


class _PlainCodeBlock(CodeBlock):
    """Code block without syntax highlighting, because a lexer must not process untrusted text."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(Text(str(self.text).rstrip(), overflow="fold"), (0, 0, 0, 2))


class _TerminalMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainCodeBlock,
        "code_block": _PlainCodeBlock,
    }

    def __init__(self, text: str) -> None:
        """Parse *text*, then sanitize the result, because parsing decodes entities such as `&#x202E;`.

        HTML is printed as text, because Rich would omit it and print `List<int>` as "List".
        """
        super().__init__("", hyperlinks=False)
        self.markup = text
        self.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
        for token in self._flatten_tokens(self.parsed):
            token.content = sanitize(token.content, keep_newlines=token.type != "text")
            token.attrs = {key: sanitize(str(value), keep_newlines=False) for key, value in token.attrs.items()}
            if token.type == "image":
                _replace_image(token)
        _break_table_lines(self.parsed)


def _replace_image(token: "Token") -> None:
    """Replace an image with its description and its address; Rich would print only the description."""
    content, source = (sanitize(text, keep_newlines=False) for text in (token.content, str(token.attrs.get("src", ""))))
    if source.startswith("data:") and len(source) > _MAX_DATA_URL:
        source = f"{source[:_MAX_DATA_URL]}…"
    described = _("[image: {content}]").format(content=content or _("no description"))
    token.type, token.tag, token.children = "text", "", None
    token.content = f"{described} ({source})" if source else described


def _break_table_lines(tokens: "Iterable[Token]") -> None:
    """Replace `<br>` in the cells of tables with line breaks."""
    is_table = False
    for token in tokens:
        is_table = token.type == "table_open" or (is_table and token.type != "table_close")
        for child in (token.children or ()) if is_table else ():
            if child.type == "text":
                child.content = _BREAK.sub("\n", child.content)


def create_console(stream: TextIO) -> Console:
    """Return a console that never interprets markup, emoji codes or links."""
    return Console(
        file=stream, force_terminal=True, color_system="auto" if uses_color(stream) else None, theme=_THEME,
        highlight=False, markup=False, emoji=False,
    )  # fmt: skip


def draw_table(rows: Iterable[Sequence[str]], headers: Sequence[str] = (), *, wrap: bool = False) -> None:
    """Print rows as aligned columns; the last column is cut off at the terminal's edge, or wrapped if *wrap* is set."""
    _draw_rows(rows, headers, widths=(), wrap=wrap)


def draw_row(cells: Sequence[str], widths: Sequence[int], *, is_header: bool = False) -> None:
    """Print one table row with the given column widths; the last column uses the remaining width.

    If *is_header* is true, the row is printed in the style of headers.
    """
    if is_header:
        _draw_rows((), cells, widths=widths, wrap=True)
    else:
        _draw_rows((cells,), (), widths=widths, wrap=True)


def _draw_rows(rows: Iterable[Sequence[str]], headers: Sequence[str], *, widths: Sequence[int], wrap: bool) -> None:
    shown = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=bool(headers))
    count = len(headers) or len(shown[0])
    for index in range(count):
        width = widths[index] if index < len(widths) else None
        cells = (_cell_text(row[index]).cell_len for row in shown)
        is_narrow = index < count - 1 and max(cells, default=0) <= _NARROW_WIDTH
        table.add_column(Text(headers[index]) if headers else "", width=width, overflow="fold", no_wrap=is_narrow)
    for cells in shown:
        table.add_row(*(_cell_text(cell) for cell in cells[:-1]), _cell_text(cells[-1], is_cut=not wrap))
    create_console(sys.stdout).print(table)


def _cell_text(cell: str, *, is_cut: bool = False) -> Text:
    is_cut = is_cut or isinstance(cell, Excerpt)
    style = STATE_STYLES.get(cell, "dim") if isinstance(cell, StateWord) else ""
    text = sanitize(_(cell) if isinstance(cell, StateWord) else cell, keep_newlines=False)
    return Text(text, style=style, no_wrap=is_cut or None, overflow="ellipsis" if is_cut else "fold")


def draw_markdown(text: str) -> None:
    """Print Markdown with control characters replaced and link URLs shown."""
    create_console(sys.stdout).print(render_markdown(text))


def render_markdown(text: str) -> Markdown | Text:
    """Return *text* as rendered Markdown, or as plain text if it is too long or too complex to lay out."""
    clean = sanitize(text)
    if len(clean) > MAX_MARKDOWN_CHARS or sum(1 for _item in _ITEM.finditer(clean)) > MAX_MARKDOWN_ITEMS:
        return Text(clean)
    return Text(clean) if is_long_text_too_complex(clean) else _TerminalMarkdown(clean)


def draw_dim(text: str) -> None:
    """Print *text* dimmed, because it is less important than the output that follows."""
    create_console(sys.stdout).print(Text(sanitize(text), style="dim"))


class StatusLine:
    """Line with a spinner on standard error; the line disappears when it is stopped."""

    def __init__(self, text: str) -> None:
        self._console = create_console(sys.stderr)
        self._text = text
        self._since = monotonic()
        self._spinner = Spinner("dots", self, style="dim")
        self._live: Live | None = None

    def __rich__(self) -> Text:
        """Return the text of the line, with the elapsed time added after two seconds."""
        seconds = int(monotonic() - self._since)
        elapsed = f" · {format_duration(seconds)}" if seconds >= _MIN_SHOWN_SECONDS else ""
        label = Text(sanitize(self._text, keep_newlines=False), style="dim")
        label.truncate(max(1, self._console.width - 4 - len(elapsed)), overflow="ellipsis")
        return label.append(elapsed)

    def start(self) -> None:
        """Show the status line."""
        self._live = Live(
            self._spinner, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start(refresh=True)

    def update(self, text: str, *, at_once: bool = False, keep_time: bool = False) -> None:
        """Change the text; it is drawn with the next frame of the spinner, or immediately if *at_once* is set.

        The displayed elapsed time restarts unless *keep_time* is set.
        """
        self._text = text
        if not keep_time:
            self._since = monotonic()
        if at_once and self._live is not None:
            self._live.refresh()

    def stop(self) -> None:
        """Remove the status line; `start` shows it again."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()


class _UnwrappedText:
    """Sanitized text that the terminal wraps, because wrapping 50,000 lines here would block the event loop for 2 s."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(f"{self._text}\n")


class MarkdownStream:
    """Printer for streamed Markdown: prints complete blocks, and redraws the last block as it grows."""

    def __init__(self) -> None:
        self._console = create_console(sys.stdout)
        self._blocks = MarkdownBlocks(_MAX_TAIL_CHARS)
        self._has_printed = False
        self._live: Live | None = None

    def write(self, text: str) -> None:
        """Add text and print any blocks that are now complete."""
        if blocks := self._blocks.add(text):
            self._print_block(blocks)
        if self._live is None:
            self._live = Live(
                console=self._console, get_renderable=self._render_tail, transient=True, redirect_stdout=False,
                redirect_stderr=False,
            )  # fmt: skip
            self._live.start()

    def end_line(self) -> None:
        """Print the unfinished block so that other output can follow."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        rest = self._blocks.take_rest()
        if rest.strip():
            self._print_block(rest)

    def _print_block(self, block: str) -> None:
        if self._has_printed:
            self._console.print()
        shown = render_markdown(block.strip("\n"))
        if isinstance(shown, Text):
            self._console.print(_UnwrappedText(shown.plain), crop=False)
        else:
            self._console.print(shown)
        self._has_printed = True

    def _render_tail(self) -> Text:
        """Return the last lines of the unfinished block that fit on the screen; called by Rich's refresh thread."""
        tail = Text(sanitize(self._blocks.tail.lstrip("\n")), overflow="fold")
        lines = tail.wrap(self._console, self._console.width)
        return Text("\n").join(lines[-max(1, self._console.height - 2) :])


_HEAD_LENGTH = 1_000
"""Number of characters at the start of a line that are examined to find out what kind of line it is."""


class MarkdownBlocks:
    """Buffer for streamed Markdown that releases each block as soon as it is complete.

    A block ends at a blank line outside fenced code. The block is complete once unindented text follows the blank line,
    because indented text could still belong to the block. Each character is examined only once, so the total time is
    proportional to the length of the text.
    """

    def __init__(self, tail_length: int) -> None:
        """Create an empty buffer; *tail_length* is the maximum length of `tail`."""
        self._tail_length = tail_length
        self._clear()

    def _clear(self) -> None:
        self._finished: list[str] = []
        self._open: list[str] = []
        self._open_length = 0
        self._recent = ""
        self._head = ""
        self._line_length = 0
        self._fence = ""
        self._is_after_blank = False

    @property
    def tail(self) -> str:
        """The text of the unfinished block, which has not been released yet; if it is too long, only its end.

        The maximum length was passed to the constructor.
        """
        return self._recent[-self._open_length :] if self._open_length else ""

    def add(self, text: str) -> str:
        """Add text and return the blocks that are now complete, or "" if there are none."""
        self._recent = (self._recent + text)[-self._tail_length :]
        for number, part in enumerate(text.split("\n")):
            if number:
                self._end_line()
            if part:
                self._head += part[: _HEAD_LENGTH - len(self._head)]
                self._append(part)
                self._line_length += len(part)
                self._release_before_line()
        blocks, self._finished = "".join(self._finished), []
        return blocks

    def take_rest(self) -> str:
        """Return the text that has not been released yet, and empty the buffer."""
        rest = "".join(self._open)
        self._clear()
        return rest

    def _append(self, part: str) -> None:
        self._open.append(part)
        self._open_length += len(part)

    def _release_before_line(self) -> None:
        """Release the text before the current line if the current line begins a new block."""
        if self._is_after_blank and self._head.strip():
            self._is_after_blank = False
            if not self._head[0].isspace():
                whole = "".join(self._open)
                at = len(whole) - self._line_length
                self._finished.append(whole[:at])
                self._open, self._open_length = [whole[at:]], self._line_length

    def _end_line(self) -> None:
        stripped = self._head.strip()
        if self._fence:
            if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
                self._fence = ""
        elif stripped.startswith(("```", "~~~")):
            self._fence = stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
        self._is_after_blank = not stripped and not self._fence
        self._append("\n")
        self._head, self._line_length = "", 0
