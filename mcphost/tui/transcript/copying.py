"""Parts of the transcript that can be copied on their own: a code block, a table, or the result of a tool call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcphost.tui.transcript.blocks import MarkdownBlock, TranscriptBlock
from mcphost.tui.transcript.tool_card import ToolCard

if TYPE_CHECKING:
    from mcphost.tui.transcript.markdown import CopyablePart


def list_copyable_parts(blocks: Sequence[TranscriptBlock], index: int) -> "list[CopyablePart]":
    """Return the copyable parts of the block at *index*, in display order.

    A code block that continues in the blocks above or below is returned in full.
    """
    block = blocks[index]
    if isinstance(block, ToolCard):
        from mcphost.tui.transcript.markdown import CopyablePart  # imported with the first answer

        return [CopyablePart("the result", block.result)] if block.result else []
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
