"""Parts of the transcript that can be copied separately: code blocks, tables, and tool results."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from mcphost.translation import _
from mcphost.tui.transcript.blocks import MarkdownBlock, TranscriptBlock
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.widget_messages import CopyRequested

if TYPE_CHECKING:
    from mcphost.tui.transcript.markdown import CopyablePart


class PartCopier:
    """Copier for the transcript's code blocks, tables and tool results, which are copied one part at a time."""

    def __init__(
        self, widget: Widget, get_blocks: Callable[[], Sequence[TranscriptBlock]], complete: Callable[[], None]
    ) -> None:
        """Create a copier that posts its messages to *widget*; *get_blocks* returns the transcript's blocks.

        *complete* is called before a part is copied; it immediately adds all text that is still being added to the
        transcript in steps.
        """
        self._widget = widget
        self._get_blocks, self._complete = get_blocks, complete
        self._last = (-1, -1)

    def copy_next(self, index: int, *, as_tsv: bool) -> None:
        """Copy the first part of the block at *index*, or the next part if the last copy was from the same block.

        Tables are copied as tab-separated values if *as_tsv* is true, otherwise as Markdown.
        """
        last_index, last_part = self._last
        self.copy(index, last_part + 1 if last_index == index else 0, as_tsv=as_tsv)

    def copy(self, index: int, number: int, *, as_tsv: bool = False) -> None:
        """Copy one code block, table or tool result of the block at *index*.

        *number* counts these parts from 0; numbers after the last part wrap around. Tables are copied as tab-separated
        values if *as_tsv* is true, otherwise as Markdown.
        """
        block = self._get_blocks()[index]
        self._complete()
        index = self._get_blocks().index(block)
        parts = list_copyable_parts(self._get_blocks(), index)
        if not parts:
            text = _("No code, table or result here. c copies the whole text.")
            self._widget.notify(text, markup=False, timeout=3)
            return
        number %= len(parts)
        self._last = (index, number)
        part = parts[number]
        place = (
            _(" ({number} of {parts_count})").format(number=number + 1, parts_count=len(parts))
            if len(parts) > 1
            else ""
        )
        text = part.tsv if as_tsv and part.tsv else part.text
        self._widget.post_message(CopyRequested(text, _("Copied {name}{place}.").format(name=part.name, place=place)))

    def forget(self) -> None:
        """Make the next call of `copy_next` start with the first part.

        Call this method after the indexes of the blocks have changed.
        """
        self._last = (-1, -1)


def list_copyable_parts(blocks: Sequence[TranscriptBlock], index: int) -> "list[CopyablePart]":
    """Return the copyable parts of the block at *index*, in display order.

    A code block that continues in the blocks above or below is returned in full.
    """
    block = blocks[index]
    if isinstance(block, ToolCard):
        from mcphost.tui.transcript.markdown import CopyablePart  # imported with the first answer

        return [CopyablePart(_("the result"), block.result)] if block.result else []
    if not isinstance(block, MarkdownBlock) or block.is_plain:
        return []
    parts = _list_parts(block)
    if parts and block.continues_code:
        while index > 0 and _continues_code(blocks[index]):
            index -= 1
            above = _list_parts(blocks[index])
            parts[0] = parts[0]._replace(text=(above[-1].text if above else "") + parts[0].text)
        index = blocks.index(block)
    for below in blocks[index + 1 :]:
        if not parts or not _continues_code(below):
            break
        more = _list_parts(below)
        parts[-1] = parts[-1]._replace(text=parts[-1].text + (more[0].text if more else ""))
    return parts


def _continues_code(block: TranscriptBlock) -> bool:
    return isinstance(block, MarkdownBlock) and block.continues_code


def _list_parts(block: TranscriptBlock) -> "list[CopyablePart]":
    from mcphost.tui.transcript.markdown import list_parts  # imported with the first answer

    return list_parts(block.text) if isinstance(block, MarkdownBlock) else []
