"""The whole conversation as one virtual ScrollView: blocks become strips when they come into view, and are kept.

Only the open tail of a stream is parsed again, at most 30 times a second. Heights of blocks that were never in view
are estimates, corrected as they come into view without moving what the user reads.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from time import thread_time
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from mcphost.tui.messages import CopyWanted, LinkClicked, PictureWanted, TextWanted
from mcphost.tui.widgets.blank_rows import with_blank_end
from mcphost.tui.widgets.block_layout import Column
from mcphost.tui.widgets.block_renderer import STRIDE, Pen, plain_lines
from mcphost.tui.widgets.blocks import Block, Speaker, Thinking
from mcphost.tui.widgets.picture import PictureBlock
from mcphost.tui.widgets.streaming_block import Growing
from mcphost.tui.widgets.tool_card import ToolCard

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import Drawing

_FRAME = 1 / 30
_TURN_SECONDS = 0.25
_LIVELY_SECONDS = 10.0
_SLOW_TURN_SECONDS = 1.0
"""How often the spinner of a running tool turns: in its first seconds, and then only as often as its seconds change."""
_WATCHED = 50
"""The newest blocks that may hold running tools."""


class Transcript(ScrollView, can_focus=True):
    """The conversation. It follows its end until the user scrolls up."""

    ALLOW_SELECT = True
    # Who selects with the mouse goes on typing: the message keeps the keys.
    FOCUS_ON_CLICK = False
    DEFAULT_CSS = """
    Transcript {
        background: $background; color: $text; padding: 0 0 0 1; overflow-x: hidden; overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "step(-1)", "previous", show=False),
        Binding("right_square_bracket", "step(1)", "next", show=False),
        Binding("enter,space", "enter", "open", show=False),
        Binding("c", "copy", "copy", show=False),
        Binding("home", "go(False)", show=False),
        Binding("end", "go(True)", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self.follow = True
        self.current = -1
        self._column = Column(lambda block, index: self._draw(block, index, None), lambda: self.text_width)
        self._growing = Growing()
        self._flusher: Timer | None = None
        self._spinner: Timer | None = None
        self._spinning = 0
        self._cost, self._own_scroll = 0.0, False
        self._selected: tuple[Any, dict[int, list[Strip]]] = (None, {})

    # -- what is in it

    @property
    def blocks(self) -> list[Block]:
        """All of it, in order; to be changed by the methods below only."""
        return self._column.blocks

    @property
    def text_width(self) -> int:
        """The cells a block may use: not those of the cursor bar, of the scrollbar and of the gap before it."""
        return max(20, self.size.width - 3)

    def add(self, block: Block) -> None:
        """Put a block at the end; the open tail, if any, is finished."""
        self.close_tail()
        self._append(block)
        self._settle()
        if isinstance(block, ToolCard):
            self._watch_running()

    def insert(self, after: Block, blocks: Sequence[Block]) -> None:
        """Put blocks right below one that is shown; what is being read stays where it is."""
        if not blocks or after not in self.blocks:
            return
        index = self.blocks.index(after) + 1
        first = self._column.at(self.scroll_offset.y)
        self._column.insert(index, blocks)
        if self.current >= index:
            self.current += len(blocks)
        self._selected = (None, {})
        if index <= first and not self.follow:
            self._tell_size()
            self._move(self.scroll_offset.y + sum(block.height for block in blocks))
        self._settle()

    def remove_block(self, block: Block) -> None:
        """Take a block away; one that is not shown any more is none."""
        if block not in self.blocks:
            return
        index = self.blocks.index(block)
        self._column.remove(index)
        if self.current >= index:
            self.current -= 1
        self._selected = (None, {})
        self._settle()

    def clear(self) -> None:
        """Forget everything."""
        self.load(())

    def load(self, blocks: Iterable[Block]) -> None:
        """Show these blocks instead, at their end; costs little however many there are."""
        self.close_tail()
        shown = list(blocks)
        for before, block in pairwise(shown):
            if isinstance(before, Speaker):
                block.gap = 0
        self.current = -1
        self.follow = True
        self._column.load(shown)
        self._settle()

    def changed(self, block: Block) -> None:
        """A block was changed by its owner: draw it again, if it is still shown."""
        block.strips = None
        if block in self.blocks:
            self._settle(changed=block)
            self._watch_running()

    def stream(self, text: str, *, thinking: bool = False) -> None:
        """More text of the answer or of its reasoning; drawn with the next frame."""
        if not self._growing.takes(thinking=thinking):
            self.close_tail()
            self._append(self._growing.begin(thinking=thinking))
        self._growing.pending.append(text)
        if self._flusher is None:
            # A tail that is dear to draw is drawn less often: drawing takes at most a third of the time.
            self._flusher = self.set_timer(max(_FRAME, 2 * self._cost), self.draw_now)

    def close_tail(self) -> None:
        """The stream ended or something else follows."""
        if self._growing.tail is None:
            return
        self.draw_now()
        block = self._growing.end()
        if isinstance(block, Thinking):
            self.changed(block)

    def draw_now(self) -> None:
        """Draw what came in since the last frame."""
        if self._flusher is not None:
            self._flusher.stop()
            self._flusher = None
        tail = self._growing.tail
        if tail is None or not self._growing.pending:
            return
        begun = thread_time()
        more = self._growing.grow()
        if more:
            self._column.guess_last()
            for block in more:
                self._append(block)
        self._settle(changed=self._growing.tail)
        self._cost = thread_time() - begun

    # -- heights

    def _append(self, block: Block) -> None:
        if self.blocks and isinstance(self.blocks[-1], Speaker):
            block.gap = 0
        self._column.append(block)

    def _settle(self, changed: Block | None = None) -> None:
        """Measure what is in view, keep the place (the end, or the line being read), tell Textual the new size."""
        height = self.size.height
        if not height or not self.is_attached:
            return
        if changed is not None:
            index = len(self.blocks) - 1 if changed is self._growing.tail else self.blocks.index(changed)
            first = self._column.at(self.scroll_offset.y)
            shift = self._column.measure(index)
            if index < first and not self.follow:
                self._move(self.scroll_offset.y + shift)
        if self.blocks:
            if self.follow:
                self._column.measure_end(height)
            else:
                self._measure_view(height)
        self._tell_size()
        if self.follow:
            self._move(self.max_scroll_y)
        self.refresh()

    def _tell_size(self) -> None:
        size = Size(self.size.width, self._column.total)
        if size != self.virtual_size:
            # Without a layout of the whole screen: only the scrollbar depends on it.
            self.set_reactive(Widget.virtual_size, size)  # pyright: ignore[reportArgumentType]
            self._scroll_update(size)

    def _measure_view(self, height: int) -> None:
        y = self.scroll_offset.y
        index = self._column.at(y)
        if not self.blocks[index].measured:
            # It comes into view from below: keep its lower end where it is.
            y = max(0, y + self._column.measure(index))
            self._move(y)
        self._column.measure_rows(y, height)

    def _move(self, y: float) -> None:
        if round(y) == round(self.scroll_y):
            return
        self._own_scroll = True
        try:
            self.scroll_to(y=y, animate=False, force=True)
        finally:
            self._own_scroll = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end only while the user stays there."""
        super().watch_scroll_y(old_value, new_value)
        if not self._own_scroll and round(old_value) != round(new_value):
            self.follow = round(new_value) >= self.max_scroll_y
            self._settle()

    def on_resize(self, event: events.Resize) -> None:
        """A new width changes every height; the block being read stays in view."""
        del event
        if self.blocks and self._column.guessed_for != self.text_width:
            index = self._column.at(self.scroll_offset.y)
            self._column.guess()
            if not self.follow:
                self._tell_size()
                self._move(self._column.top(index))
        self._settle()

    def notify_style_update(self) -> None:
        """The theme changed: colours are part of the kept strips."""
        super().notify_style_update()
        self._column.forget_strips()
        self._selected = (None, {})

    # -- drawing

    def _draw(self, block: Block, index: int, selection: Selection | None) -> list[Strip]:
        edge = self._get_style("on $surface") if self._has_cursor(index) else Style()
        chosen = Style.from_styles(self.screen.get_component_styles("screen--selection")) if selection else None
        pen = Pen(self.text_width, self.visual_style, self._get_style, edge, chosen)
        if isinstance(block, PictureBlock):
            self._want(block)
        return pen.draw(block, index * STRIDE, selection)

    def _want(self, block: PictureBlock) -> None:
        """It is in view: have it decoded, once for each width."""
        width = self.text_width
        sides = block.wanted(width)
        if sides is None:
            return

        def answered(answer: "Drawing | str") -> None:
            if block.take(sides, width, answer):
                self.changed(block)

        self.post_message(PictureWanted(block.part.data, *sides, answered))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Rows of the view; those below the last block share one strip, because each has seven caches."""
        filled = self._column.total - self.scroll_offset.y if self.blocks else 0
        return with_blank_end(super().render_lines, crop, filled)

    def render_line(self, y: int) -> Strip:
        """One row of the view."""
        y += self.scroll_offset.y
        style = self.visual_style.rich_style
        if not self.blocks or y >= self._column.total:
            return Strip.blank(self.size.width, style)
        index = self._column.at(y)
        selection = self.text_selection
        lines = self._column.strips(index) if selection is None else self._selected_lines(index, selection)
        row = y - self._column.top(index)
        line = lines[row] if row < len(lines) else Strip.blank(self.size.width, style)
        marked = row >= self.blocks[index].gap and self._has_cursor(index)
        bar = (
            Segment("▌", (self.visual_style + self._get_style("$accent")).rich_style) if marked else Segment(" ", style)
        )
        return Strip.join((Strip((bar,), 1), line))

    def _has_cursor(self, index: int) -> bool:
        return index == self.current and self.has_focus

    # -- selection

    def _selected_lines(self, index: int, selection: Selection) -> list[Strip]:
        start = selection.start.y // STRIDE if selection.start else 0
        end = selection.end.y // STRIDE if selection.end else len(self.blocks)
        if not start <= index <= end:
            return self._column.strips(index)
        key = (selection, self.text_width, len(self.blocks))
        if self._selected[0] != key:
            self._selected = (key, {})
        kept = self._selected[1]
        if index not in kept or self.blocks[index] is self._growing.tail:
            kept[index] = self._draw(self.blocks[index], index, selection)
        return kept[index]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, unwrapped: line ends are those of the text, not of the screen."""
        if not self.blocks:
            return None
        start = selection.start.y // STRIDE if selection.start else 0
        end = min(selection.end.y // STRIDE if selection.end else len(self.blocks) - 1, len(self.blocks) - 1)
        out: list[str] = []
        for index in range(start, end + 1):
            for number, line in enumerate(plain_lines(self.blocks[index], self.text_width)):
                span = selection.get_span(index * STRIDE + number)
                if span is not None:
                    out.append(line[max(0, span[0]) : None if span[1] == -1 else span[1]].rstrip())
            if index < end and self.blocks[index + 1].gap:
                out.append("")
        return "\n".join(out), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        del selection
        self._selected = (None, {})
        self.refresh()

    # -- keys and mouse

    def on_click(self, event: events.Click) -> None:
        """Links are shown, folded things unfold, long results open."""
        meta = event.style.meta
        if href := meta.get("href"):
            self.post_message(LinkClicked(str(href)))
        elif meta.get("act") == "enter" and self.blocks:
            self._enter(self._column.at(event.get_content_offset_capture(self).y + self.scroll_offset.y))

    def _enter(self, index: int) -> None:
        opened = self.blocks[index].enter()
        if opened is not None:
            block = self.blocks[index]
            self.post_message(TextWanted(*opened, kept=block.kept, sections=block.sections()))
        else:
            self.follow = self.follow and index == len(self.blocks) - 1
            self.changed(self.blocks[index])

    def action_step(self, by: int) -> None:
        """Make the next or previous block the current one and bring it into view."""
        if not self.blocks:
            return
        index = self.current if self.current >= 0 else len(self.blocks)
        index += by
        while 0 <= index < len(self.blocks) and not self.blocks[index].can_step:
            index += by
        if not 0 <= index < len(self.blocks):
            return
        old, self.current = self.current, index
        for number in (max(0, old), index):
            self.blocks[number].strips = None
        top = self._column.top(index)
        if not self.scroll_offset.y <= top < self.scroll_offset.y + self.size.height - 2:
            self.follow = False
            self._move(max(0, top - 1))
        self._settle()

    def action_enter(self) -> None:
        """Open or fold the current block."""
        if self.current < 0:
            self.current = self._last_in_view()
        if 0 <= self.current < len(self.blocks):
            self._enter(self.current)

    def action_copy(self) -> None:
        """Copy the selection, or the current block."""
        text = self.screen.get_selected_text()
        if not text and 0 <= self.current < len(self.blocks):
            text = self.blocks[self.current].source()
        if text:
            self.post_message(CopyWanted(text))

    def action_go(self, end: bool) -> None:
        """To the newest line, and follow it; or to the first."""
        self.follow = end
        if not end:
            self._move(0)
        self._settle()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Mark the current block while the keys go to it; the last one in view when there was none."""
        super().watch_has_focus(_has_focus)
        if _has_focus and not 0 <= self.current < len(self.blocks):
            self.current = self._last_in_view()
        if 0 <= self.current < len(self.blocks):
            self.blocks[self.current].strips = None
            self.refresh()

    def _last_in_view(self) -> int:
        """Return the index of the lowest block in view that the cursor can stand on; -1 when there is none."""
        if not self.blocks:
            return -1
        first = self._column.at(self.scroll_offset.y)
        last = self._column.at(min(self._column.total - 1, self.scroll_offset.y + self.size.height - 1))
        return next((index for index in range(last, first - 1, -1) if self.blocks[index].can_step), -1)

    # -- spinner and elapsed time of running tools

    def _watch_running(self) -> None:
        if self._spinner is None and any(block.is_running for block in self.blocks[-_WATCHED:]):
            self._spinning = 0
            self._spinner = self.set_timer(_TURN_SECONDS, self._turn)

    def _turn(self) -> None:
        """Draw the first row of each running tool that is in view, and nothing else: a call may wait for hours."""
        self._spinner = None
        first = max(0, len(self.blocks) - _WATCHED)
        running = [index for index in range(first, len(self.blocks)) if self.blocks[index].is_running]
        if not running:
            return
        self._spinning += 1
        often = self._spinning * _TURN_SECONDS < _LIVELY_SECONDS
        self._spinner = self.set_timer(_TURN_SECONDS if often else _SLOW_TURN_SECONDS, self._turn)
        if not self.screen.is_current and not self.app.screen.is_modal:  # pyright: ignore[reportUnknownMemberType]
            return
        top, end = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        for index in running:
            block = self.blocks[index]
            row = self._column.top(index) + block.gap
            if top <= row < end:
                block.strips = None
                self.refresh_line(row)
