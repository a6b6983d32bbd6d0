"""Buffers that split streamed text into transcript blocks, of which only the last one is still growing."""

import asyncio
from collections.abc import Callable, Sequence
from time import thread_time
from typing import TYPE_CHECKING, Protocol

from mcphost.tui.screen_text import find_line_end
from mcphost.tui.transcript.blocks import MarkdownBlock, ThinkingBlock, TranscriptBlock

if TYPE_CHECKING:
    from mcphost.tui.transcript.markdown_fragments import MarkdownFragment

_SLICE_CHARACTERS, _SLICE_LINES = 4000, 200
"""Maximum characters and lines of text that are split into blocks at a time, because a block is drawn as a whole."""
STEP_SECONDS = 0.01
"""CPU time after which no further slice is split in the same turn of the event loop."""
MAX_MARKDOWN = 125_000
"""Maximum size of the text that is parsed as Markdown, in characters with the cost of its lines; the rest is shown as
plain text. An answer of 20,000 tokens stays below it."""
LINE_COST = 15
"""Number of characters that a line counts for in addition to its own, because each line takes time to parse."""
_MAX_PLAIN_CHARACTERS, _MAX_PLAIN_LINES = 1000, 50
"""Maximum characters and lines of a plain text block; the last block is drawn again each time text is added."""


def split_into_blocks(text: str) -> list[TranscriptBlock]:
    """Split complete text into blocks, each of which renders quickly."""
    growing = StreamingText()
    first = growing.start_tail(thinking=False)
    growing.pending.append(text)
    blocks = [first]
    while growing.pending:
        blocks.extend(growing.flush())
    return blocks


class TextSplitter:
    """Splitter that divides texts into blocks, within STEP_SECONDS of CPU time in total.

    The beginning of each text is always split. Once the time is up, the rest of a text remains in a stream in
    `unfinished`, to which no text will be added. The caller splits the rest in later turns of the event loop.
    """

    def __init__(self) -> None:
        self.unfinished: list[StreamingText] = []
        self._end = thread_time() + STEP_SECONDS

    def split(self, text: str) -> list[TranscriptBlock]:
        """Split *text* into blocks; if its end is left in `unfinished`, the last block is the `tail` of that stream."""
        stream = StreamingText()
        first = stream.start_tail(thinking=False)
        stream.pending.append(text)
        blocks = [first, *stream.flush(self._end)]
        if stream.has_rest:
            self.unfinished.append(stream)
        return blocks


class StreamingText:
    """Buffer for streamed text.

    `tail` is the last block, which is still growing. `pending` is text that has not been added to a block yet.
    """

    def __init__(self) -> None:
        self.tail: MarkdownBlock | ThinkingBlock | None = None
        self.pending: list[str] = []
        self.has_rest = False
        """Whether the last flush left text that can be shown, because more would have taken too long."""
        self._size = 0
        self._held = ""

    def accepts(self, *, thinking: bool) -> bool:
        """Return whether `tail` is of the right kind: reasoning if *thinking* is true, otherwise response text."""
        return isinstance(self.tail, ThinkingBlock if thinking else MarkdownBlock)

    def start_tail(self, *, thinking: bool) -> TranscriptBlock:
        """Create a new, empty `tail` block and return it; the caller appends it to the transcript.

        The block is for reasoning if *thinking* is true, and otherwise for response text.
        """
        self.tail = ThinkingBlock(is_streaming=True) if thinking else MarkdownBlock("")
        self._size = 0
        return self.tail

    def flush(self, end: float | None = None) -> list[TranscriptBlock]:
        """Add the pending text to the `tail` block, and begin a new block wherever the `tail` block is complete.

        Return the new blocks, which the caller appends to the transcript; usually there are none. The last new block
        becomes the `tail`. The method returns early once the thread's CPU time reaches *end*, by default after
        STEP_SECONDS: `has_rest` is then true, and the remaining text stays pending.
        """
        text, at = "".join(self.pending), 0
        self.pending.clear()
        out: list[TranscriptBlock] = []
        end = thread_time() + STEP_SECONDS if end is None else end
        # Long text is split in the same way as text that arrives in small pieces.
        while at < len(text):
            part = text[at : at + _SLICE_CHARACTERS]
            stop = at + min(len(part), find_line_end(part, _SLICE_LINES))
            out.extend(self._append_slice(text[at:stop]))
            at = stop
            if thread_time() >= end:
                break
        self.has_rest = at < len(text)
        if self.has_rest:
            self.pending.append(text[at:])
        if self._held:
            self.pending.append(self._held)
            self._held = ""
        return out

    def _append_slice(self, text: str) -> list[TranscriptBlock]:
        tail = self.tail
        if tail is None:
            return []
        tail.text += text
        tail.invalidate()
        if isinstance(tail, ThinkingBlock):
            return []
        from mcphost.tui.transcript.markdown_fragments import split_stream  # imported with the first answer

        self._size += len(text) + LINE_COST * text.count("\n")
        done, rest = split_stream(tail.text) if self._size <= MAX_MARKDOWN else _split_plain(tail.text)
        if not done:
            return []
        tail.text = done[0].source
        tail.is_plain |= self._size > MAX_MARKDOWN
        out: list[TranscriptBlock] = [
            MarkdownBlock(
                part.source, is_joined=part.is_joined, is_plain=tail.is_plain, continues_code=part.continues_code
            )
            for part in done[1:]
        ]
        self.tail = MarkdownBlock(
            rest.source if rest else "",
            is_joined=bool(rest and rest.is_joined),
            is_plain=tail.is_plain,
            continues_code=bool(rest and rest.continues_code),
        )
        return [*out, self.tail]

    def hold_unfinished(self) -> bool:
        """Hold back the text of the unfinished paragraph until the next flush.

        This is the pending text after the last blank line. In a long text without blank lines, it is the text after the
        last line break. Return False if nothing was held back.
        """
        text = "".join(self.pending)
        end = text.rfind("\n\n") + 2
        if end == 1 and len(text) > _SLICE_CHARACTERS:
            end = text.rfind("\n") + 1
        if end <= 1:
            self.pending = [text]
            return False
        self.pending, self._held = [text[:end]], text[end:]
        return True

    def finish(self) -> TranscriptBlock | None:
        """End the stream and discard pending text; return the last growing block, or None if there was no stream."""
        block, self.tail = self.tail, None
        self.pending.clear()
        if isinstance(block, ThinkingBlock):
            block.is_streaming = False
        return block


class BlockView(Protocol):
    """Interface of the transcript that UnfinishedStreams uses to show the remaining text of ended streams."""

    def insert(self, after: TranscriptBlock, blocks: Sequence[TranscriptBlock]) -> None:
        """Insert blocks below *after*; do nothing if *after* is not shown."""
        ...

    def update_block(self, block: TranscriptBlock) -> None:
        """Draw a block again because it has changed; do nothing if it is not shown."""
        ...


class UnfinishedStreams:
    """Ended streams whose remaining text is still being split into blocks, one step in each frame.

    *schedule* calls a function in the next frame.
    """

    def __init__(self, view: BlockView, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._view, self._schedule = view, schedule
        self._streams: list[StreamingText] = []
        self._is_scheduled = False

    def add(self, stream: StreamingText) -> None:
        """Add an ended stream; its remaining text appears above blocks that are added to the transcript later."""
        self._streams.append(stream)
        self._schedule_step()

    def clear(self) -> None:
        """Discard all streams, because the transcript shows another conversation."""
        self._streams.clear()

    def finish(self) -> None:
        """Show all remaining text; block the event loop until this is done."""
        while self._streams:
            self._show_part()

    async def wait(self) -> None:
        """Show all remaining text; other tasks run between the steps."""
        while self._streams:
            self._show_part()
            await asyncio.sleep(0)

    def _schedule_step(self) -> None:
        if self._streams and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._show_step)

    def _show_step(self) -> None:
        self._is_scheduled = False
        if self._streams:
            self._show_part()
        self._schedule_step()

    def _show_part(self) -> None:
        stream = self._streams[0]
        tail = stream.tail
        if tail is None:
            self._streams.pop(0)
            return
        more = stream.flush()
        self._view.insert(tail, more)
        if not stream.has_rest:
            stream.finish()  # the row of a reasoning looks different from then on
            self._streams.pop(0)
        self._view.update_block(tail)


def _split_plain(source: str) -> "tuple[list[MarkdownFragment], MarkdownFragment | None]":
    """Split plain text that is still being streamed into complete parts and the remaining part, which is never None.

    This function does for plain text what `split_stream` does for Markdown.
    """
    from mcphost.tui.transcript.markdown_fragments import MarkdownFragment, find_cut

    parts: list[MarkdownFragment] = []
    while len(source) > _MAX_PLAIN_CHARACTERS or source.count("\n") > _MAX_PLAIN_LINES:
        at = min(find_cut(source, _MAX_PLAIN_CHARACTERS), find_line_end(source, _MAX_PLAIN_LINES))
        parts.append(MarkdownFragment(source[:at], is_joined=bool(parts)))
        source = source[at:]
    return parts, MarkdownFragment(source, is_joined=bool(parts))
