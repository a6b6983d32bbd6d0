"""Text of a message for the search index, limited in size and split into words for SQLite's tokenizer.

Chinese, Japanese and Korean have no spaces between words, so a run of their characters is indexed as overlapping pairs
followed by its last character: "数据库" becomes "数据 据库 库". Any two characters are then one index term.
Each single character is a label, because a common one is the prefix of very many pairs.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from mcphost import unicode_forms
from mcphost.llm.messages import (
    FilePart,
    ImagePart,
    Message,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.serialization import dumps

MAX_TEXT_CHARS = 20_000
MAX_RESULT_CHARS = 8_000
MAX_ARGUMENT_CHARS = 2_000
MAX_MESSAGE_CHARS = 40_000
MAX_LABELS = 200
EVERY_MESSAGE = "any"
# Han with its extensions, kana, Bopomofo, Hangul, and Thai, Lao, Myanmar and Khmer, which have no spaces either.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u318f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_RESULT_FILE = re.compile(r"[0-9a-f]{16}(?=\.txt$)")
_LABEL_CHARACTER = re.compile(r"[^a-z0-9]")


class DocumentText(NamedTuple):
    """Indexed text of a message or title, and labels for its role and the names of tools and servers."""

    text: str
    labels: str


def normalize(text: str) -> str:
    """Return *text* in the Unicode form NFKC, so that full-width and ordinary characters match."""
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return text
    return unicode_forms.normalize("NFKC", text)


def segment(text: str) -> str:
    """Return *text* with spaces between the words, as they are indexed."""
    text = normalize(text)
    return text if text.isascii() else UNSPACED.sub(_split_run, text)


def _split_run(match: re.Match[str]) -> str:
    run = match.group()
    pairs = (run[at : at + 2] for at in range(len(run)))
    return f" {' '.join(pairs)} "


def list_single_characters(text: str) -> Iterable[str]:
    """Return the distinct characters of *text*, in NFKC, of scripts without spaces between words."""
    return () if text.isascii() else dict.fromkeys("".join(UNSPACED.findall(text)))


def make_label(kind: str, name: str) -> str:
    """Return an index label, for example for the tool *name*: a single word that ignores case."""
    return kind + _LABEL_CHARACTER.sub(lambda found: f"{ord(found.group()):x}", name.lower()[:200])


def result_file_name(path: str) -> str:
    """Return the name of a result file without its folder or suffix; "" if *path* is not a result file."""
    found = _RESULT_FILE.search(path)
    return found.group() if found else ""


def list_texts(message: Message) -> list[str]:
    """Return the searchable texts of a message, each truncated, in display order."""
    texts: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                texts.append(part.text[:MAX_TEXT_CHARS])
            case ToolUsePart():
                arguments = part.raw if part.arguments is None else dumps(part.arguments)
                texts.append(f"{part.name} {arguments[:MAX_ARGUMENT_CHARS]}")
            case ToolReturnPart():
                texts.append(f"{part.name} {part.text[:MAX_RESULT_CHARS]}")
            case ResourcePart() if part.use_id:
                texts.append(f"{part.source} {part.text[:MAX_RESULT_CHARS]}")
            case ResourcePart():
                texts.append(part.uri[:MAX_ARGUMENT_CHARS])
            case ImagePart() | FilePart():
                texts.append(part.name[:MAX_ARGUMENT_CHARS])
            case ThinkingPart():
                pass
    return texts


def describe_document(message: Message) -> DocumentText:
    """Return the indexed text of *message*.

    The result must never vary, because deletion from the index needs the same text.
    """
    labels = {make_label("role", message.role): None}
    for part in message.parts:
        if isinstance(part, ToolUsePart):
            labels[make_label("tool", part.name)] = None
        elif isinstance(part, ToolReturnPart):
            for name in filter(None, (part.name, part.tool)):
                labels[make_label("tool", name)] = None
        if isinstance(part, ToolReturnPart | ResourcePart) and (file := result_file_name(part.kept)):
            labels[make_label("file", file)] = None
        if isinstance(part, ToolReturnPart | ResourcePart | FilePart) and part.server:
            labels[make_label("server", part.server)] = None
    text = normalize("\n".join(list_texts(message))[:MAX_MESSAGE_CHARS])
    return DocumentText(
        segment(text), " ".join((EVERY_MESSAGE, *list(labels)[:MAX_LABELS], *list_single_characters(text)))
    )


def describe_title(title: str) -> DocumentText:
    """Return the indexed text of a conversation's title."""
    text = normalize(title[:1_000])
    return DocumentText(segment(text), " ".join((make_label("role", "title"), *list_single_characters(text))))
