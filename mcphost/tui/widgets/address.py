"""A whole address with the part that says where it leads standing out."""

from textual.content import Content

from mcphost.tui.screen_text import clean_line
from mcphost.unicode_forms import split_url


def highlight_host(url: str, style: str = "$text") -> Content:
    """The address, complete and on no line but its own; its host in bold, whatever else looks like one."""
    try:
        host = split_url(url).netloc
    except ValueError:
        host = ""
    before, found, after = url.partition(f"//{host}") if host else (url, "", "")
    if not found:
        return Content.styled(clean_line(url, len(url) * 8), style)
    most = len(url) * 8  # a mark for a hidden character is longer than the character; nothing may be cut here
    return Content.assemble(
        (clean_line(before, most) + "//", "$muted"),
        (clean_line(host, most), "bold $accent"),
        (clean_line(after, most), style),
    )
