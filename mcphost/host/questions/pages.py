"""Questions about interactive pages of tools (MCP Apps); only the chat asks them."""

from typing import ClassVar

from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Question


class OpenPage(Question[bool], frozen=True, kw_only=True):
    """Consent prompt for opening a server's page in the browser.

    `uri` is the page's address on the server, and `size` its size in bytes. `connect`, `resource`, `frame` and
    `base_uri` are the origins that the page may use, as its server declares them; `left_out` are declared entries
    that are ignored. `tools` is the number of the server's tools that the page may ask to call.
    """

    KIND: ClassVar[str] = kinds.OPEN_PAGE
    tool: str
    uri: str
    size: int = 0
    connect: tuple[str, ...] = ()
    resource: tuple[str, ...] = ()
    frame: tuple[str, ...] = ()
    base_uri: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    tools: int = 0

    def refusal(self) -> bool:
        """Return False, which does not open the page."""
        return False


class PageMessage(Question[bool], frozen=True, kw_only=True):
    """Consent prompt for a message that a page proposes; if the user agrees, it becomes a draft and is not sent."""

    KIND: ClassVar[str] = kinds.PAGE_MESSAGE
    tool: str
    text: str

    def refusal(self) -> bool:
        """Return False, which ignores the message."""
        return False
