"""Rendering of the inline formatting of Markdown: emphasis, code, links and images."""

import re
from typing import TYPE_CHECKING

from textual.content import Content, Span
from textual.style import Style

from mcphost.translation import _
from mcphost.tui.screen_text import clean, clean_line

if TYPE_CHECKING:
    from markdown_it.token import Token

_BREAK = re.compile(r" ?<br ?/?> ?", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s<>\"'`|\\^{}⟨⟩]+")


def _add_link_spans(text: str, spans: list[Span], start: int) -> None:
    for match in _URL.finditer(text):
        url = match.group().rstrip(".,;:!?)")
        spans.append(Span(start + match.start(), start + match.start() + len(url), _link_style(url)))


def _link_style(url: str) -> Style:
    return Style.from_meta({"href": clean_line(url, 2000)}) + Style(underline=True)


_INLINE_STYLES = {"em_open": "italic", "strong_open": "bold", "s_open": "strike"}


def render_inline(token: "Token", *, has_breaks: bool = False) -> Content:
    """Render an "inline" token, such as the text of a paragraph, with its formatting.

    If *has_breaks* is true, `<br>` becomes a line break, as is usual in tables.
    """
    text: list[str] = []
    spans: list[Span] = []
    opened: list[tuple[int, Token]] = []
    position = 0
    for child in token.children or ():
        if child.type.endswith("_open"):
            opened.append((position, child))
        elif child.type.endswith("_close"):
            if opened and (style := _inline_style(opened[-1][1])):
                spans.append(Span(opened[-1][0], position, style))
            del opened[-1:]
        else:
            added, style = _render_leaf(child)
            if has_breaks and child.type == "text" and "<" in added:
                added = _BREAK.sub("\n", added)
            if style:
                spans.append(Span(position, position + len(added), style))
            elif "://" in added and not any(one.type == "link_open" for _unused, one in opened):
                _add_link_spans(added, spans, position)
            text.append(added)
            position += len(added)
    return Content("".join(text), spans)


def _render_leaf(token: "Token") -> tuple[str, Style | str]:
    """Return the text and the style of an inline token that has no children."""
    match token.type:
        case "text" | "html_inline" | "text_special":
            return clean(token.content), ""
        case "softbreak":
            return " ", ""
        case "hardbreak":
            return "\n", ""
        case "code_inline":
            return clean(token.content), "on $panel"
        case "image":
            said = _("[image: {content}]").format(content=clean(token.content) or _("no description"))
            return said, Style(italic=True) + _link_style(str(token.attrs.get("src", "")))
        case _:
            return "", ""


def _inline_style(opener: "Token") -> Style | str:
    """Return the style of the text between an opening inline token and the matching closing token."""
    if opener.type == "link_open":
        return _link_style(str(opener.attrs.get("href", "")))
    return _INLINE_STYLES.get(opener.type, "")
