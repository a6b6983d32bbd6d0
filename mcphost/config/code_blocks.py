"""Markdown code blocks in pasted text: which of them describes a server, and whether it is data or a command line."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mcphost.errors import ConfigError

CODEX_TABLE = "[mcp_servers."
"""Beginning of a server's table in Codex's configuration, which is TOML."""
_DATA_START = re.compile(
    r'[{"]|' + re.escape(CODEX_TABLE) + r"|\[(?![0-9A-Fa-f]{0,4}:|(?!(?:true|false|null)\b)[A-Za-z])"
)
"""The beginning of JSON, or of TOML with servers. No command line has it; a URL may begin with an IPv6 address."""
_DATA_LANGUAGES = frozenset({"json", "jsonc", "json5", "toml"})
_OBJECT_STARTS = ("{", '"', CODEX_TABLE)
_COMMAND_START = re.compile(r"(?:\$ )?[\w./@-]++ [^\s=:/#]|https?://")
"""The beginning of a command line or URL that a README labels as data. A key of TOML is followed by a sign."""
_BYTE_ORDER_MARK = "\ufeff"
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([^`\n]*+)$", re.MULTILINE)
_CODE_SPAN = re.compile(r"(`++)([^`\n]++)\1")
_QUOTED = re.compile(r"""(?:(?<=[\s=])|\A)(?:'[^']*+'|"(?:[^"\\]|\\.)*+")(?!\S)""", re.DOTALL)
"""A quoted argument of a command line, or the quoted value of an option. An apostrophe inside a word is no quote."""
_COMMENT_STARTS = ("//", "#")


class PastedText(NamedTuple):
    """Description of a server in pasted text; `is_data` is true for JSON and TOML, and false for a command or URL."""

    text: str
    is_data: bool


def is_data(text: str) -> bool:
    """Return whether *text* begins like JSON, or like TOML with servers."""
    return _DATA_START.match(text) is not None


def find_code_block(text: str) -> PastedText:
    """Return the Markdown code block in *text* that contains the server, or *text* itself if it has no code block.

    Text outside of the block is dropped. A code fence in a quoted argument of a command line does not begin a block.
    Raises ConfigError if several blocks could contain the server.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK).strip()
    blocks = [] if _is_quoting_fences(text) else list(_split_code_blocks(text))
    if not blocks:
        span = _CODE_SPAN.fullmatch(text)
        text = span[2].strip() if span is not None else text
        return PastedText(text, is_data(text))
    if len(blocks) == 1 and _FENCE.match(blocks[0].text):  # Markdown that is shown as code
        blocks = list(_split_code_blocks(blocks[0].text))
    objects = [block for block in blocks if block.text.startswith(_OBJECT_STARTS)]  # not, for example, a tool's output
    likely = objects or [block for block in blocks if block.is_data] or blocks
    if len(likely) > 1:
        raise ConfigError(f"The text has {len(likely)} code blocks.", "Paste one of them.")
    return likely[0]


def _is_quoting_fences(text: str) -> bool:
    """Return whether *text* is a command line whose first code fence is inside a quoted argument."""
    first = _FENCE.search(text)
    if first is None:
        return False
    quoted = next((one for one in _QUOTED.finditer(text) if one.end() > first.start()), None)
    before = text[: quoted.start()].replace("\\\n", " ") if quoted is not None else "\n"
    return quoted is not None and quoted.start() < first.start() and "\n" not in before


def _split_code_blocks(text: str) -> Iterator[PastedText]:
    """Yield each Markdown code block, without the comments at its beginning; the last one may lack a closing fence."""
    lines: list[str] = []
    opening: re.Match[str] | None = None
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if opening is None:
            opening = fence
        elif fence is not None and not fence[2].strip() and fence[1].startswith(opening[1]):
            yield _make_block(opening, lines)
            lines, opening = [], None
        else:
            lines.append(line)
    if opening is not None:
        yield _make_block(opening, lines)


def _make_block(opening: re.Match[str], lines: list[str]) -> PastedText:
    is_comment = [not line.strip() or line.lstrip().startswith(_COMMENT_STARTS) for line in lines]
    start = is_comment.index(False) if False in is_comment else 0
    text = "\n".join(lines[start:]).strip()
    language = opening[2].replace("{", " ").split(maxsplit=1)
    is_labeled = bool(language) and language[0].lower() in _DATA_LANGUAGES
    return PastedText(text, is_data(text) or (is_labeled and not _COMMAND_START.match(text)))
