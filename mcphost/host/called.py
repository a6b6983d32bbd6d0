"""What a call that the model proposed came to, and the part of the conversation that says so."""

from mcphost.clean import readable
from mcphost.data import Data
from mcphost.llm.parts import ToolReturnPart, ToolUsePart


class Called(Data, frozen=True):
    """What one proposed call came to."""

    part: ToolReturnPart
    declined: bool = False
    bad: bool = False


def part(use: ToolUsePart, server: str, tool: str, text: str, *, is_error: bool) -> ToolReturnPart:
    """The return of a call that is text alone; an error's words may be the server's, so nothing is hidden in them."""
    return ToolReturnPart(use.id, use.name, readable(text), is_error, server, tool)
