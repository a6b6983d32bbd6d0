"""The document around a page: a heading from mcphost, the sandboxed frame, and the script that relays messages."""

from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from mcphost.apps.page_policy import SANDBOX
from mcphost.sanitize import sanitize_line
from mcphost.translation import _

_FOLDER = Path(__file__).parent
_NAME_LIMIT = 100


class PagePaths(NamedTuple):
    """URL paths that the document around a page uses: of the page, its messages, and the document's own files."""

    page: str
    messages: str
    events: str
    script: str
    style: str


@cache
def read_script() -> bytes:
    """Return the script that relays messages between the frame and mcphost."""
    return (_FOLDER / "bridge.js").read_bytes()


@cache
def read_style() -> bytes:
    """Return the style sheet of the document around a page."""
    return (_FOLDER / "page.css").read_bytes()


def build_outer_page(server: str, tool: str, paths: PagePaths) -> bytes:
    """Return the HTML document around the page of the tool *tool* of the server *server*.

    Its heading shows both names.
    """
    who, what = (escape(sanitize_line(name, _NAME_LIMIT)) for name in (server, tool))
    heading = escape(_("Page of the tool {tool}, from the server {server}")).format(tool=what, server=who)
    hint = escape(_("The server wrote what is inside the frame. mcphost asks its questions in the terminal only."))
    closed = escape(_("This page is closed. You can close this tab and return to mcphost."))
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{what} - mcphost</title>'
        f'<link rel="stylesheet" href="{paths.style}"><script src="{paths.script}" defer></script></head>'
        f'<body data-page="{paths.page}" data-messages="{paths.messages}" data-events="{paths.events}" '
        f'data-closed="{closed}"><header><p><strong>{heading}</strong></p><p class="hint">{hint}</p></header>'
        f'<main><iframe id="page" title="{what}" sandbox="{SANDBOX}" referrerpolicy="no-referrer"></iframe>'
        '<p id="notice" hidden></p></main></body></html>'
    ).encode()
