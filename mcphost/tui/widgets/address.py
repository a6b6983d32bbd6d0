"""Complete URL with its host highlighted."""

from textual.content import Content

from mcphost.tui.screen_text import clean_line
from mcphost.unicode_forms import split_url


def highlight_host(url: str, style: str = "$text") -> Content:
    """Return the complete URL on a line of its own, its host in bold, whatever else looks like a host."""
    try:
        host = split_url(url).netloc
    except ValueError:
        host = ""
    before, found, after = url.partition(f"//{host}") if host else (url, "", "")
    if not found:
        return Content.styled(clean_line(url, len(url) * 8), style)
    most = len(url) * 8  # A mark for a hidden character is longer than the character; nothing may be truncated here.
    return Content.assemble(
        (clean_line(before, most) + "//", "$muted"),
        (clean_line(host, most), "bold $accent"),
        (clean_line(after, most), style),
    )
