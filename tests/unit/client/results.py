"""Extract the text of tool results."""

from mcphost.protocol.content import TextContent
from mcphost.protocol.tools import CallToolResult


def single_text(result: CallToolResult) -> str:
    (block,) = result.parse_blocks()
    assert isinstance(block, TextContent)
    return block.text


def first_text(result: CallToolResult) -> str:
    block = result.parse_blocks()[0]
    assert isinstance(block, TextContent)
    return block.text


RELATED_TASK_KEY = "io.modelcontextprotocol/related-task"
