"""Action of the chat that opens an interactive page of a tool (MCP Apps) in the browser."""

import os
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.translation import _, current_language
from mcphost.tui.chat.page_address import forward_hint
from mcphost.tui.screen_text import clean_line
from mcphost.tui.transcript.tool_card import ToolCard

if TYPE_CHECKING:
    from mcphost.tui.screens.chat import ChatScreen


async def open_page(chat: "ChatScreen", call: str = "") -> None:
    """Open the page of the tool call with the id *call* in the browser.

    If *call* is "", open the page of the call that is selected in the transcript, or else the newest page.

    If no browser can be opened, add a notice with the address and, over SSH, the command that forwards its port.
    """
    pages = chat.host.pages
    pages.use_theme("dark" if chat.app.current_theme.dark else "light")  # pyright: ignore[reportUnknownMemberType]
    pages.locale = current_language()
    try:
        page, is_opened = await pages.open(call or _selected_call(chat))
    except McpHostError as error:
        chat.notify(str(error), severity="warning", markup=False, timeout=8)
        return
    if is_opened:
        said = _("The page of {tool} is open in your browser. /tasks lists and closes open pages.")
        chat.notify(said.format(tool=clean_line(page.tool, 60)), markup=False, timeout=6)
    else:
        text = _("Open the page of {tool} in a browser on this machine: {url}")
        chat.presenter.add_notice(
            "info", text.format(tool=clean_line(page.tool, 60), url=page.url), forward_hint(page.port, os.environ)
        )


def _selected_call(chat: "ChatScreen") -> str:
    """Return the id of the call whose card is selected in the transcript, if the call has a page; otherwise ""."""
    transcript = chat.presenter.transcript
    index = transcript.current_index
    block = transcript.blocks[index] if transcript.has_focus and 0 <= index < len(transcript.blocks) else None
    return block.call if isinstance(block, ToolCard) and block.has_page else ""
