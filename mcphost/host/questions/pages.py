"""Questions about interactive pages of tools (MCP Apps); only the chat asks them."""

from typing import ClassVar

from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Question


class OpenPage(Question[bool], frozen=True, kw_only=True):
    """Consent prompt for opening a server's page in the browser.

    - `uri`: the page's URI on the server.
    - `size`: the page's size in bytes.
    - `connect`, `resource`, `frame`, `base_uri`: the origins that the page may use, as declared by its server.
    - `left_out`: declared origins that are ignored.
    - `tools`: how many of the server's tools the page may ask to call.
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
