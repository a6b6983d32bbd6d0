"""Syntax highlighting of code blocks in a few muted styles.

This module is not imported at startup. `markdown.warm_up` imports it in a thread; otherwise, it is imported when the
first code block is rendered.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from time import thread_time
from typing import Any

from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Token
from pygments.util import ClassNotFound
from textual.content import Content, Span

_Token = tuple[int, Any, str]
_MAX_TOKENS = 3_000
"""Maximum tokens of a code block that are highlighted by default; the rest stays plain."""
_MAX_SECONDS = 0.012
"""Maximum CPU seconds for a code block by default; some lexers need quadratic time for a run of blank lines."""
_TOKENS_PER_CHECK = 16
MAX_CHARACTERS = 20_000
"""Maximum characters that are highlighted; some lexers process the whole text before they return a token."""
MAX_LINE = 500
"""Longest line that is highlighted. A time limit cannot stop a regular expression, which blocks all other threads."""
LANGUAGES = frozenset((
    "ada", "bash", "c", "c++", "clojure", "cmake", "cpp", "cs", "csharp", "css", "dart", "diff", "docker",
    "dockerfile", "elixir", "erlang", "f#", "fsharp", "go", "golang", "graphql", "groovy", "haskell", "hcl", "hs",
    "html", "java", "javascript", "jl", "js", "json", "jsx", "julia", "kotlin", "kt", "less", "lua", "make",
    "makefile", "nginx", "nix", "objc", "objective-c", "patch", "perl", "php", "pl", "powershell",
    "properties", "proto", "protobuf", "ps1", "pwsh", "py", "python", "python3", "r", "rb", "rs", "ruby",
    "rust", "sass", "scala", "scss", "sh", "shell", "sql", "swift", "terraform", "tex", "toml",
    "ts", "tsx", "typescript", "udiff", "vim", "xml", "yaml", "yml", "zig", "zsh",
))  # fmt: skip
"""Languages that are highlighted. Lexers of other languages run nested lexers or may take seconds for one word.

A test feeds hostile text to the lexer of each language.
"""
STYLES: Mapping[Any, str] = {
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
"""Styles by token type. Comments are muted, keywords have the accent color; most other tokens are plain text."""


def highlight(code: str, language: str, *, max_tokens: int = _MAX_TOKENS, max_seconds: float = _MAX_SECONDS) -> Content:
    """Return the code with syntax highlighting, or as plain text if the language is not in LANGUAGES.

    Highlighting stops at the first line of more than 500 characters, or after 20,000 characters, *max_tokens*
    tokens or *max_seconds* of CPU time, whichever comes first. The remaining code is plain text.
    """
    beginning = _find_beginning(code) if language.lower() in LANGUAGES else ""
    if not beginning:
        return Content(code)
    end = thread_time() + max_seconds  # the first code block of a language imports its lexer, which takes time as well
    try:
        lexer = get_lexer_by_name(language.lower())
    except ClassNotFound:
        return Content(code)
    tokens = _take_until(islice(lexer.get_tokens_unprocessed(beginning), max_tokens), end)
    spans = [Span(at, at + len(text), style) for at, kind, text in tokens if (style := _style(kind))]
    return Content(code, [Span(0, len(code), "$text"), *spans])


def _find_beginning(code: str) -> str:
    """Return the lines at the beginning of *code* that are short enough to be highlighted."""
    length = 0
    for line in code[:MAX_CHARACTERS].split("\n"):
        if len(line) > MAX_LINE:
            break
        length += len(line) + 1
    return code[: min(length, MAX_CHARACTERS)]


def _take_until(tokens: Iterable[_Token], end: float) -> Iterator[_Token]:
    """Yield tokens until the CPU time of the thread (`thread_time()`) exceeds *end*, in seconds."""
    for number, token in enumerate(tokens):
        yield token
        if number % _TOKENS_PER_CHECK == 0 and thread_time() > end:
            return


@cache
def _style(kind: Any) -> str:
    """Return the style of a Pygments token type, or of its nearest ancestor that has a style.

    Return "" if there is no such ancestor.
    """
    while kind is not None:
        if kind in STYLES:
            return STYLES[kind]
        kind = kind.parent
    return ""
