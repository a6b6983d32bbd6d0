"""Calm colours for code: Textual's highlighter with few styles, none of them underlined; loaded with the first code."""

from pygments.token import Token
from textual.content import Content
from textual.highlight import HighlightTheme
from textual.highlight import highlight as textual_highlight


class Calm(HighlightTheme):
    """Comments step back, words of the language carry the accent, literals differ; the rest is text."""

    STYLES = {  # noqa: RUF012 - Textual's own declaration
        Token.Comment: "italic $faint",
        Token.Keyword: "$accent",
        Token.Operator.Word: "$accent",
        Token.Name.Builtin: "$accent",
        Token.Name.Decorator: "$accent",
        Token.Name.Tag: "$accent",
        Token.Name.Function: "bold",
        Token.Name.Class: "bold",
        Token.Name.Attribute: "$warning",
        Token.Literal.Number: "$warning",
        Token.Literal.String: "$success",
        Token.Literal.String.Doc: "italic $faint",
        Token.Generic.Deleted: "$error",
        Token.Generic.Inserted: "$success",
        Token.Generic.Heading: "bold",
        Token.Generic.Strong: "bold",
        Token.Generic.Emph: "italic",
    }


def highlight(code: str, language: str) -> Content:
    """Highlighted code; plain for a language nobody knows."""
    return textual_highlight(code, language=language, theme=Calm, tab_size=4)
