"""Text of several lines as it is sent: real lines, visible whitespace where it matters, syntax highlighting."""

import re
from pathlib import PurePath

from textual.content import Content

_LANGUAGES_BY_SUFFIX = {
    ".bash": "bash", ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".css": "css", ".diff": "diff",
    ".go": "go", ".h": "c", ".hpp": "cpp", ".htm": "html", ".html": "html", ".ini": "ini", ".java": "java",
    ".js": "javascript", ".json": "json", ".jsx": "javascript", ".kt": "kotlin", ".lua": "lua", ".md": "markdown",
    ".mjs": "javascript", ".patch": "diff", ".php": "php", ".py": "python", ".rb": "ruby", ".rs": "rust",
    ".scss": "scss",
    ".sh": "bash", ".sql": "sql", ".svg": "xml", ".swift": "swift", ".toml": "toml", ".ts": "typescript",
    ".tsx": "typescript", ".xml": "xml", ".yaml": "yaml", ".yml": "yaml", ".zsh": "bash",
}  # fmt: skip
_LANGUAGES_BY_NAME = {"dockerfile": "docker", "makefile": "make"}
TAB_SIGN, TRAILING_SPACE_SIGN, FINAL_NEWLINE_SIGN, CARRIAGE_RETURN_SIGN = "→   ", "·", "⏎", "␍"
# Each run is examined from its first character only; otherwise a long one costs the square of its length.
_SIGNS = re.compile(
    f"{TAB_SIGN}|(?<!{TRAILING_SPACE_SIGN}){TRAILING_SPACE_SIGN}++(?=\\n|$)|{FINAL_NEWLINE_SIGN}$|{CARRIAGE_RETURN_SIGN}(?=\\n|$)"
)
_TRAILING_BLANKS = re.compile(r"(?<![ \t])[ \t]++(?=\r?$)", re.MULTILINE)
_PATH_WORDS = re.compile(r"(?i)path|file|dir|folder|cwd")
_LINE_LIMIT = 2_000
"""Longer lines are not code written by people; highlighting them may be slow."""


def looks_like_path(name: str, value: str) -> bool:
    """Return whether the text is a path, judged by how it begins or by the argument's name."""
    return value.startswith(("/", "./", "../", "~/")) or bool(value and _PATH_WORDS.search(name))


def detect_language(path: str) -> str:
    """Return the language of a file with this name, or "" if it is not highlighted."""
    name = PurePath(path[-300:]).name.casefold()
    return _LANGUAGES_BY_NAME.get(name) or _LANGUAGES_BY_SUFFIX.get(PurePath(name).suffix, "")


def show_whitespace(text: str) -> str:
    """Return the text with symbols for tabs, trailing spaces, CR and the end of the last line."""
    ended = text.endswith("\n")
    text = _TRAILING_BLANKS.sub(lambda match: match[0].replace(" ", TRAILING_SPACE_SIGN), text[:-1] if ended else text)
    return text.replace("\t", TAB_SIGN).replace("\r\n", f"{CARRIAGE_RETURN_SIGN}\n") + (
        FINAL_NEWLINE_SIGN if ended else ""
    )


def render_code(text: str, language: str) -> Content:
    """Return the text that `show_whitespace` returned, highlighted if the language is known; keep every character."""
    from mcphost.tui.transcript.markdown import highlight_code

    plain = _SIGNS.sub(lambda match: " " * len(match[0]), text)
    short = max(map(len, plain.splitlines()), default=0) <= _LINE_LIMIT
    content = highlight_code(plain, language) if short else Content(plain)
    out = Content(text, spans=list(content.spans)).stylize_before("$text")
    for match in _SIGNS.finditer(text):
        out = out.stylize("$faint", match.start(), match.end())
    return out
