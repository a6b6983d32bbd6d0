"""View of a server's log that grows at its end and follows the newest line until the user scrolls."""

from collections.abc import Sequence
from functools import partial

from mcphost.host.events import ServerLog
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.screen_text import TAB_WIDTH, clean, clean_line
from mcphost.tui.widgets.long_text import HEADING_MARK, LongText

MAX_CHARACTERS = 3_000_000
"""Characters after which the view is built again from the lines that the log still stores, at most 1,000,000."""

_SOURCES = {"server": N_("server"), "stderr": N_("stderr"), "client": N_("mcphost")}
_USUAL_LEVELS = {"stderr": "info"}
"""The levels that a heading does not name, because mcphost and not the server chose them."""


def describe_source(line: ServerLog) -> str:
    """Return the source, level and logger of a line, such as "server · warning · db", for a heading."""
    level = "" if _USUAL_LEVELS.get(line.source) == line.level else line.level
    return clean_line(" · ".join(filter(None, (_(_SOURCES[line.source]), level, line.logger))), 160)


def group_lines(lines: Sequence[ServerLog]) -> list[tuple[str, list[ServerLog]]]:
    """Group successive lines with the same source, level and logger; return the groups with their headings."""
    groups: list[tuple[str, list[ServerLog]]] = []
    for line in lines:
        heading = describe_source(line)
        if not groups or groups[-1][0] != heading:
            groups.append((heading, []))
        groups[-1][1].append(line)
    return groups


def format_line(line: ServerLog) -> str:
    """Return the sanitized text of a line; mcphost's own lines are translated.

    Trailing spaces are removed: Rich pads the lines of a traceback to 80 columns, so each of them could wrap.
    """
    text = translate_sentence(line.text) if line.source == "client" else line.text
    text = clean(text.rstrip()).replace("\t", " " * TAB_WIDTH)
    return "\n".join(row.rstrip() for row in text.split("\n"))


class LogText(LongText):
    """View of a server's log, with a bar before each row and a heading where the source, level or logger changes.

    Only new lines are sanitized and wrapped; the rest is kept. The view follows the newest line while its last row is
    visible.
    """

    def __init__(self) -> None:
        super().__init__()
        self.line_count = 0
        """The number of lines that are shown."""

        self._newest: ServerLog | None = None
        self._heading = ""
        self._follows = True

    @property
    def is_following(self) -> bool:
        """Whether the newest line is shown as soon as it arrives."""
        return self._follows

    def update_lines(self, stored: Sequence[ServerLog]) -> bool:
        """Show the lines of *stored* that are not shown yet; return whether there were any.

        *stored* contains all lines that the log still has. If lines were dropped before they could be shown, a heading
        says so.
        """
        if not stored or stored[-1] is self._newest:
            return False
        start = next((at + 1 for at in range(len(stored) - 1, -1, -1) if stored[at] is self._newest), 0)
        is_gap = self._newest is not None and not start
        text, headings = self._format(stored[start:], is_gap=is_gap)
        if len(self.text) + len(text) > MAX_CHARACTERS:
            self._start_again(stored)
        else:
            self.append(text, headings)
            self.line_count += len(stored) - start
        self._newest = stored[-1]
        return True

    def _start_again(self, stored: Sequence[ServerLog]) -> None:
        rows_below = self.virtual_size.height - self.scroll_offset.y
        follows, self._heading = self._follows, ""
        self.clear_text()
        self.append(*self._format(stored, is_gap=True))
        self.line_count, self._follows = len(stored), follows
        if not follows:
            self.run_worker(partial(self._restore_position, rows_below), group="position", exclusive=True)

    async def _restore_position(self, rows_below: int) -> None:
        await self.find_row(len(self.text))
        self.scroll_to(y=max(0, self.rows - rows_below), animate=False, force=True)

    def _format(self, lines: Sequence[ServerLog], *, is_gap: bool) -> tuple[str, list[int]]:
        """Return the text of *lines* with their headings, and the offset of each heading in this text.

        The text begins with a line break unless the view is empty. If *is_gap* is true, a heading states that earlier
        lines are no longer stored.
        """
        parts: list[str] = [""] if self.text else []
        headings: list[int] = []
        length = len(parts)

        def add(text: str, *, is_heading: bool = False) -> None:
            nonlocal length
            if is_heading:
                headings.append(length)
            parts.append(text)
            length += len(text) + 1

        if is_gap:
            self._heading = ""
            add(f"{HEADING_MARK}{_('earlier lines are no longer stored')}", is_heading=True)
        for heading, members in group_lines(lines):
            if heading != self._heading:
                self._heading = heading
                add(f"{HEADING_MARK}{heading}", is_heading=True)
            for line in members:
                add(format_line(line))
        return "\n".join(parts), headings

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the newest line from now on if the user has scrolled to it."""
        super().watch_scroll_y(old_value, new_value)
        self._follows = new_value >= self.max_scroll_y

    def _count_rows(self) -> bool:
        is_complete = super()._count_rows()
        if self._follows:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True, immediate=True)
        return is_complete
