"""Scrollable view of blocks, which renders only the visible ones and caches their rows.

While text is streamed, only the last block is parsed again, at most 30 times per second. The heights of blocks that
have not been visible yet are estimates. They are corrected when the blocks scroll into view, without moving the visible
text.
"""

from collections.abc import Iterable, Sequence
from time import thread_time
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual import events
from textual.geometry import Offset, Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from mcphost.tui.immediate_scroll import ImmediateScrollView
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screen_text import render_with_blank_rows
from mcphost.tui.transcript.blocks import BlockLoader, SpeakerHeading, ThinkingBlock, TranscriptBlock
from mcphost.tui.transcript.image_block import ImageCard
from mcphost.tui.transcript.layout import (
    LINES_PER_BLOCK,
    BlockLayout,
    BlockRenderer,
    FoundText,
    UnseenBlocks,
    find_current_row,
    is_selected_from,
    select_text,
)
from mcphost.tui.transcript.streaming import StreamingText, UnfinishedStreams
from mcphost.tui.transcript.tool_card import CallSpinner, ToolCard
from mcphost.tui.widget_messages import CursorMoved, ImageDecodeRequested

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage
    from mcphost.tui.transcript.find import FindMatch, FindQuery

_FRAME_SECONDS = 1 / 30


class BlockScrollView(ImmediateScrollView):
    """Scrollable view of blocks, the last of which may still be growing.

    The view stays scrolled to the end until the user scrolls up. `current_index`, which subclasses change, is the index
    of the current block, on which keys act. A bar marks the current block while the view has the focus.
    """

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    BlockScrollView {
        background: $background; color: $text; padding: 0 0 0 1; overflow-x: hidden; overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self.is_following = True
        self.current_index = -1
        self._block_layout = BlockLayout(lambda one, at: self._render_block(one, at, None), lambda: self.text_width)
        self._streaming = StreamingText()
        self._unfinished = UnfinishedStreams(self, lambda show: self.set_timer(_FRAME_SECONDS, show))
        self._flush_timer: Timer | None = None
        self.spinner = CallSpinner(self, lambda: self.blocks, self._redraw_first_row)
        self.earlier: BlockLoader | None = None
        """The loader of an opened conversation's earlier messages, or None if all were shown immediately."""
        self._draw_seconds, self._is_own_scroll = 0.0, False
        self._found: FoundText | None = None
        self._found_block: TranscriptBlock | None = None
        self._unseen = UnseenBlocks()
        self._selection_cache: tuple[Any, dict[int, list[Strip]]] = (None, {})

    # -- blocks

    @property
    def blocks(self) -> list[TranscriptBlock]:
        """All blocks in order. Do not modify the list; call the transcript's methods instead."""
        return self._block_layout.blocks

    @property
    def text_width(self) -> int:
        """The width available to a block in columns, without the padding, the cursor bar and the scrollbar."""
        return max(20, self.size.width - 3)

    def add(self, block: TranscriptBlock) -> None:
        """End the current stream, if any, and append a block."""
        self.add_all((block,))

    def add_all(self, blocks: Sequence[TranscriptBlock], unfinished: Sequence[StreamingText] = ()) -> None:
        """End the current stream, if any, and append blocks, redrawing the view only once.

        *blocks* may contain only the beginning of long texts. In this case, *unfinished* contains the streams with the
        rest of these texts, which is added in later turns of the event loop.
        """
        self.close_tail()
        for block in blocks:
            self._append(block)
        self._update_view()
        self._show_rest(unfinished)
        if any(isinstance(block, ToolCard) for block in blocks):
            self.spinner.start()

    def _show_rest(self, unfinished: Sequence[StreamingText]) -> None:
        for stream in reversed(unfinished):  # the end of the conversation is visible
            self._unfinished.add(stream)

    def insert(self, after: TranscriptBlock, blocks: Sequence[TranscriptBlock]) -> None:
        """Insert blocks below *after* without moving the visible text; do nothing if *after* is not present."""
        if not blocks or after not in self.blocks:
            return
        index = self.blocks.index(after) + 1
        first = self._block_layout.find_index(self.scroll_offset.y)
        self._block_layout.insert(index, blocks)
        if self.current_index >= index:
            self.current_index += len(blocks)
        self._forget_positions(index)
        if index <= first and not self.is_following:
            self._unseen.shift(len(blocks))
            self._update_virtual_size()
            self._scroll_to_row(self.scroll_offset.y + sum(block.height for block in blocks))
        self._update_view()

    def remove_block(self, block: TranscriptBlock) -> None:
        """Remove a block; do nothing if it is not in the transcript."""
        if block not in self.blocks:
            return
        index = self.blocks.index(block)
        self._block_layout.remove(index)
        if self.current_index >= index:
            self.current_index -= 1
            self._block_layout.clear_strips(max(0, self.current_index))  # it may have become the current block
        self._forget_positions(index)
        self._update_view()

    def estimate_heights(self, blocks: Sequence[TranscriptBlock]) -> None:
        """Set the estimated heights of blocks that will be passed to `prepend`."""
        self._block_layout.estimate(blocks)

    def prepend(self, blocks: list[TranscriptBlock]) -> None:
        """Insert blocks with estimated heights above all others without moving the visible text."""
        before = self._block_layout.total
        self._block_layout.prepend(blocks)
        if self.current_index >= 0:
            self.current_index += len(blocks)
        self._unseen.shift(len(blocks))
        self._forget_positions(0)
        self._update_virtual_size()
        if not self.is_following:
            self._scroll_to_row(self.scroll_offset.y + self._block_layout.total - before)
        self._update_view()

    def finish_streams(self) -> None:
        """Show the remaining text of ended streams; block the event loop until this is done."""
        self._unfinished.finish()

    def finish_loading(self) -> None:
        """Add the earlier messages of an opened conversation; block the event loop until this is done."""
        if self.earlier is not None:
            self.earlier.finish()

    async def wait_loaded(self) -> None:
        """Wait until the earlier messages of an opened conversation, and the rest of ended streams, are shown."""
        if self.earlier is not None:
            await self.earlier.wait()
        await self._unfinished.wait()

    def _forget_positions(self, start: int) -> None:
        """Discard cached rows and selections of blocks from index *start* on, because their indexes have changed."""
        self._block_layout.clear_strips(start)
        self._selection_cache = (None, {})
        if self.text_selection is not None and is_selected_from(self.text_selection, start):
            self.screen.clear_selection()

    def clear(self) -> None:
        """Remove all blocks."""
        self.load(())

    def load(self, blocks: Iterable[TranscriptBlock], unfinished: Sequence[StreamingText] = ()) -> None:
        """Replace all blocks and scroll to the end; only the visible blocks are rendered.

        *unfinished* contains the rest of texts of which *blocks* contains only the beginning; see `add_all`.
        """
        self.close_tail()
        self._unfinished.clear()
        loader, self.earlier = self.earlier, None
        self.current_index = -1
        self.is_following = True
        self._block_layout.load(blocks)
        if loader is not None:
            loader.cancel()
        self._update_view()
        self._show_rest(unfinished)

    def update_block(self, block: TranscriptBlock) -> None:
        """Render a block again because it has changed; do nothing if the block is not in the transcript."""
        block.strips = None
        if block in self.blocks:
            self._update_view(changed=block)
            self.spinner.start()

    # -- streamed text

    def stream(self, text: str, *, thinking: bool = False) -> None:
        """Append streamed text, which becomes visible in the next frame.

        The text is reasoning if *thinking* is True, otherwise part of the answer.
        """
        if not self._streaming.accepts(thinking=thinking):
            self.close_tail()
            self._append(self._streaming.start_tail(thinking=thinking))
        self._streaming.pending.append(text)
        if is_reader(self):
            if "\n" in text and not thinking:
                self._show_pending()
        elif self._flush_timer is None:
            self._start_flush_timer()

    def close_tail(self) -> None:
        """Show the pending text of the current stream, and end the stream; do nothing if there is no stream."""
        if self._streaming.tail is None:
            return
        self.flush_stream()
        if self._streaming.has_rest:
            self._unfinished.add(self._streaming)
            self._streaming = StreamingText()
        block = self._streaming.finish()
        if isinstance(block, ThinkingBlock):
            self.update_block(block)

    def flush_stream(self) -> None:
        """Show the streamed text that has arrived since the last frame."""
        if self._flush_timer is not None:
            self._flush_timer.stop()
            self._flush_timer = None
        tail = self._streaming.tail
        if tail is None or not self._streaming.pending:
            return
        begun = thread_time()
        more = self._streaming.flush()
        if more:
            self._block_layout.estimate_last_height()
            for block in more:
                self._append(block)
        self._update_view(changed=self._streaming.tail)
        self._draw_seconds = thread_time() - begun

    def _show_pending(self) -> None:
        if is_reader(self) and not self._streaming.hold_unfinished():
            return  # a growing row would be read aloud repeatedly
        self.flush_stream()
        if self._streaming.has_rest:
            self._start_flush_timer()

    def _start_flush_timer(self) -> None:
        # A tail that takes long to draw is drawn less often, so that drawing takes at most a third of the time.
        self._flush_timer = self.set_timer(max(_FRAME_SECONDS, 2 * self._draw_seconds), self._show_pending)

    def _append(self, block: TranscriptBlock) -> None:
        if self.blocks and isinstance(self.blocks[-1], SpeakerHeading):
            block.gap = 0
        self._block_layout.append(block)

    # -- scrolling

    def _update_view(self, changed: TranscriptBlock | None = None) -> None:
        """Render the visible blocks, update the scrollable height, and redraw.

        The view stays at the end of the conversation or, if the user has scrolled up, at the same text. The block
        *changed* is rendered even if it is not visible.
        """
        height = self.size.height
        if not height or not self.is_attached:
            return
        if changed is not None:
            index = len(self.blocks) - 1 if changed is self._streaming.tail else self.blocks.index(changed)
            first = self._block_layout.find_index(self.scroll_offset.y)
            shift = self._block_layout.measure(index)
            if index < first and not self.is_following:
                self._scroll_to_row(self.scroll_offset.y + shift)
        if self.blocks:
            if self.is_following:
                self._block_layout.measure_end(height)
            else:
                self._measure_view(height)
        self._update_virtual_size()
        if self.is_following:
            self._scroll_to_row(self.max_scroll_y)
        bottom = self._block_layout.find_index(self.scroll_offset.y + height - 1)
        self._unseen.update(len(self.blocks), bottom, is_at_end=self.scroll_offset.y >= self.max_scroll_y)
        self.refresh()
        if self.has_focus:
            self.post_message(CursorMoved(self))

    def _update_virtual_size(self) -> None:
        size = Size(self.size.width, self._block_layout.total)
        if size != self.virtual_size:
            # This avoids a layout of the whole screen; only the scrollbar depends on the size.
            self.set_reactive(Widget.virtual_size, size)  # pyright: ignore[reportArgumentType]
            self._scroll_update(size)

    def _measure_view(self, height: int) -> None:
        y = self.scroll_offset.y
        index = self._block_layout.find_index(y)
        if not self.blocks[index].is_measured:
            # The block comes into view from below: keep its lower end in place.
            y = max(0, y + self._block_layout.measure(index))
            self._scroll_to_row(y)
        self._block_layout.measure_rows(y, height)

    def _scroll_to_row(self, y: float) -> None:
        if round(y) == round(self.scroll_y):
            return
        if y > self.max_scroll_y:
            self._update_virtual_size()  # a block above has grown
        self._is_own_scroll = True
        try:
            self.scroll_to(y=y, animate=False, force=True)
        finally:
            self._is_own_scroll = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following the end when the user scrolls up; follow it again once the end is visible."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_own_scroll and round(old_value) != round(new_value):
            self.is_following = round(new_value) >= self.max_scroll_y
            self._update_view()

    def on_resize(self, _event: events.Resize) -> None:
        """Compute the heights for the new width, and keep the topmost visible block in view."""
        if self.blocks and self._block_layout.layout_width != self.text_width:
            index = self._block_layout.find_index(self.scroll_offset.y)
            self._block_layout.estimate_heights()
            if not self.is_following:
                self._update_virtual_size()
                self._scroll_to_row(self._block_layout.top(index))
        self._update_view()

    # -- drawing

    def notify_style_update(self) -> None:
        """Render all blocks again after a change of theme, because the cached rows contain colors."""
        super().notify_style_update()
        self._block_layout.clear_strips()
        self._selection_cache = (None, {})

    def _render_block(self, block: TranscriptBlock, index: int, selection: Selection | None) -> list[Strip]:
        edge = self._get_style("on $surface") if self._has_cursor(index) else Style()
        chosen = Style.from_styles(self.screen.get_component_styles("screen--selection")) if selection else None
        found = self._found
        if found is not None and block is not self._found_block:
            found = found._replace(place=-1)
        pen = BlockRenderer(self.text_width, self.visual_style, self._get_style, edge, chosen, found)
        pen.is_reader, block.keys, block.has_keys = is_reader(self), keys_in_use(self), self.has_focus
        block.has_cursor = self._has_cursor(index)
        if isinstance(block, ImageCard):
            self._request_image(block)
        return pen.render(block, index * LINES_PER_BLOCK, selection)

    def _request_image(self, block: ImageCard) -> None:
        """Request that an image be decoded for its current size, unless this has already been requested."""
        width = self.text_width
        sides = block.request_size(width)
        if sides is None:
            return

        def answered(answer: "DecodedImage | str") -> None:
            if block.set_drawing(sides, width, answer):
                self.update_block(block)

        self.post_message(ImageDecodeRequested(block.part.data, *sides, answered))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows of the visible region; all blank rows below the last block share one Strip object."""
        filled = self._block_layout.total - self.scroll_offset.y if self.blocks else 0
        return render_with_blank_rows(super().render_lines, crop, filled)

    def render_line(self, y: int) -> Strip:
        """Return one row of the visible region; the lowest row may show the number of new blocks below it."""
        strip = self._render_row(y + self.scroll_offset.y)
        if y != self.size.height - 1 or not self._unseen.count:
            return strip
        label = self._unseen.render(self.visual_style + self._get_style("bold $accent on $panel"))
        return Strip.join((strip.crop(0, self.text_width + 1 - label.cell_length), label))

    def _render_row(self, y: int) -> Strip:
        """Return row *y* of the conversation; the rows of the current block start with the cursor bar."""
        style = self.visual_style.rich_style
        if not self.blocks or y >= self._block_layout.total:
            return Strip.blank(self.size.width, style)
        index = self._block_layout.find_index(y)
        selection = self.text_selection
        lines = self._block_layout.get_strips(index) if selection is None else self._selected_lines(index, selection)
        row = y - self._block_layout.top(index)
        line = lines[row] if row < len(lines) else Strip.blank(self.size.width, style)
        marked = row >= self.blocks[index].gap and self._has_cursor(index) and not is_reader(self)
        bar_style = (self.visual_style + self._get_style("$accent")).rich_style if marked else style
        bar = Segment("▌" if marked else " ", bar_style)
        return Strip.join((Strip((bar,), 1), line))

    def _redraw_first_row(self, index: int) -> None:
        """Redraw the first row of the block at *index*, whose content has changed, if the row is visible."""
        row = self._block_layout.first_row(index)
        if self.scroll_offset.y <= row < self.scroll_offset.y + self.size.height:
            self.blocks[index].strips = None
            self.refresh_line(row)

    def _has_cursor(self, index: int) -> bool:
        return index == self.current_index and self.has_focus

    @property
    def cursor_screen_offset(self) -> Offset:
        """The position on the screen of the current block's first cell, or of the nearest visible row."""
        row = self._block_layout.first_row(self.current_index) if self.current_index >= 0 else 0
        return self.content_region.offset + Offset(1, min(max(0, row - self.scroll_offset.y), self.size.height - 1))

    @property
    def hidden_cursor_line(self) -> str:
        """The first line of the current block if it is scrolled out of view, otherwise ""."""
        is_visible = self.current_index < 0 or self._block_layout.first_row(self.current_index) >= self.scroll_offset.y
        return "" if is_visible else self._block_layout.first_line(self.current_index)

    def first_visible_index(self) -> int:
        """Return the index of the topmost visible block."""
        return self._block_layout.find_index(self.scroll_offset.y) if self.blocks else 0

    def show_find(self, query: "FindQuery | None", match: "FindMatch | None" = None) -> None:
        """Highlight all matches of *query*, or remove the highlights if it is None.

        If *match* is given, make the block that contains it current, unfold the block, and scroll to the match.
        """
        self._found = FoundText(query.pattern, match.place if match else -1) if query else None
        self._found_block = match.block if match else None
        self._block_layout.clear_strips()
        if query is None or match is None or match.block not in self.blocks:
            self._update_view()
            return
        index = self.current_index = self.blocks.index(match.block)
        match.block.reveal(query.pattern, match.place)
        self.is_following = False
        self._update_view(changed=match.block)
        row = self._block_layout.top(index) + find_current_row(self._block_layout.get_strips(index))
        if not self.scroll_offset.y <= row < self.scroll_offset.y + self.size.height - 1:
            self._scroll_to_row(min(max(0, row - self.size.height // 3), self.max_scroll_y))
        self._update_view()

    # -- selected text

    def _selected_lines(self, index: int, selection: Selection) -> list[Strip]:
        start = selection.start.y // LINES_PER_BLOCK if selection.start else 0
        end = selection.end.y // LINES_PER_BLOCK if selection.end else len(self.blocks)
        if not start <= index <= end:
            return self._block_layout.get_strips(index)
        key = (selection, self.text_width, len(self.blocks))
        if self._selection_cache[0] != key:
            self._selection_cache = (key, {})
        kept = self._selection_cache[1]
        if index not in kept or self.blocks[index] is self._streaming.tail:
            kept[index] = self._render_block(self.blocks[index], index, selection)
        return kept[index]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, and the line feed that Textual appends to it; None if there are no blocks.

        The text does not contain the line breaks added by wrapping.
        """
        if selection.start is None:
            self.finish_loading()
            self.finish_streams()
        if not self.blocks:
            return None
        return select_text(self.blocks, selection, self.text_width), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Redraw the transcript because the selection has changed."""
        del selection
        self._selection_cache = (None, {})
        self.refresh()
