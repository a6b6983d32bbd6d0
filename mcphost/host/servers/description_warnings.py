"""Warnings about tool definitions that contain known phrases of prompt injection.

They help the user to read a long description. A definition without a warning can be deceptive, too.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, cast

from mcphost.errors import McpHostError
from mcphost.sanitize import is_sanitized, strip_hidden_text
from mcphost.serialization import Raw, Struct, loads
from mcphost.translation import N_
from mcphost.unicode_forms import normalize

MAX_EXAMINED_CHARACTERS = 30_000
"""Maximum number of characters of a definition that are examined, which takes at most 50 ms."""

MAX_DECODED_BYTES = 256 * 1024
"""Maximum size of a schema that is decoded; the beginning of a larger one is examined as it was sent."""

_MAX_VALUES = 10_000
_NORMALIZED_CHARACTERS = 2_000
"""Number of characters that are normalized in one step, because each one can become 18 characters."""

_MAX_QUOTE_LENGTH = 80
_MARKDOWN = str.maketrans({"*": "", "`": "", "’": "'", "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": ""})
_WORDS = r"(?:[\w',-]{1,30}\s)"

# Every repetition is bounded, so that a search takes linear time.
_OVERRIDE = re.compile(
    rf"\b(?:ignore|disregard|forget|override)\s{_WORDS}{{0,3}}?"
    rf"(?:previous|prior|above|earlier|preceding|system|your)\s{_WORDS}{{0,2}}?"
    r"(?:instructions?|prompts?|guidelines|directives)\b"
    r"|(?:忽略|无视|忘记)[^。，；\s]{0,6}(?:之前|以上|先前|系统)[^。，；\s]{0,6}(?:指令|指示|提示|规则)"
)
_SECRECY = re.compile(
    rf"\b(?:do not|don't|never|must not|should not|without)\s{_WORDS}{{0,2}}?"
    r"(?:tell|mention|inform|notify|alert|reveal|disclose|show)(?:ing)?\s"
    rf"{_WORDS}{{0,5}}?(?:to\s)?(?:the\s)?user\b(?!')"
    rf"|\b(?:hide|conceal|keep)\s{_WORDS}{{0,4}}?from\s(?:the\s)?user\b(?!')"
    r"|(?:不要|不得|请勿|切勿)(?:告诉|告知|通知|向)[^。，；\s]{0,4}用户"
)
_MARKUP = re.compile(r"</?(?:important|system|instructions?|secret|hidden)>|<\|im_(?:start|end)\|>|\[/?inst\]|<<sys>>")
_CREDENTIALS = re.compile(
    r"~/\.(?:ssh|aws|gnupg|kube)\b[\w./-]{0,40}|~/\.netrc\b|\bid_(?:rsa|ed25519|ecdsa)\b|/etc/shadow\b"
    r"|~/\.(?:cursor|claude|vscode|codex)[\w./-]{0,40}"
)
_KINDS = (
    (_OVERRIDE, N_("tells the model to ignore its instructions")),
    (_SECRECY, N_("tells the model to keep something from you")),
    (_MARKUP, N_("imitates markup of instructions to the model")),
    (_CREDENTIALS, N_("mentions stored credentials")),
)
_HIDDEN = N_("contains hidden characters")
_LONG = N_("is so long that only its beginning was examined")


class DescriptionWarning(Struct, frozen=True):
    """A warning about a tool's definition, as a phrase that follows "Its description".

    `quote` contains the suspicious words in lower case, not sanitized; it is "" if there is nothing to quote.
    """

    text: str
    quote: str = ""


def find_description_warnings(texts: Iterable[str]) -> tuple[DescriptionWarning, ...]:
    """Return a warning for each kind of suspicious phrase that occurs in *texts*, with its first occurrence.

    Hidden characters, and texts that are too long to be examined completely, also cause a warning.
    """
    whole = _join_beginning(texts)
    text = whole[:MAX_EXAMINED_CHARACTERS]
    plain = strip_hidden_text(text.replace("\t", " ").replace("\r", "")).translate(_MARKDOWN)
    normal = _normalize_beginning(plain)
    words = " ".join(normal[:MAX_EXAMINED_CHARACTERS].lower().split())
    found = [
        DescriptionWarning(kind, match.group()[:_MAX_QUOTE_LENGTH])
        for pattern, kind in _KINDS
        if (match := pattern.search(words))
    ]
    if not is_sanitized(text.replace("\r\n", "\n")):
        found.append(DescriptionWarning(_HIDDEN))
    if max(len(whole), len(normal)) > MAX_EXAMINED_CHARACTERS:
        found.append(DescriptionWarning(_LONG))
    return tuple(found)


def _join_beginning(texts: Iterable[str]) -> str:
    """Join *texts* with line breaks, and stop after MAX_EXAMINED_CHARACTERS.

    If some of *texts* was omitted, the result is longer than this limit, so that the caller can detect the omission.
    """
    pieces: list[str] = []
    length = 0
    for text in texts:
        pieces.append(text[: MAX_EXAMINED_CHARACTERS + 1])
        length += len(pieces[-1]) + 1
        if length > MAX_EXAMINED_CHARACTERS + 1:
            break
    return "\n".join(pieces)


def _normalize_beginning(text: str) -> str:
    """Return *text* in Unicode form NFKC, and stop after MAX_EXAMINED_CHARACTERS.

    If part of *text* was omitted, the result is longer than this limit, so that the caller can detect the omission.
    """
    if text.isascii():
        return text
    pieces: list[str] = []
    length = 0
    for start in range(0, len(text), _NORMALIZED_CHARACTERS):
        pieces.append(normalize("NFKC", text[start : start + _NORMALIZED_CHARACTERS]))
        length += len(pieces[-1])
        if length > MAX_EXAMINED_CHARACTERS:
            break
    return "".join(pieces)


def warn_about_definition(description: str | None, schema: Raw) -> tuple[DescriptionWarning, ...]:
    """Return the warnings about a tool's description and the texts in its input schema.

    A schema that cannot be read, or has too many values, is examined as far as it can be.
    """
    texts = [description or ""]
    if len(schema_view := memoryview(schema)) > MAX_DECODED_BYTES:
        beginning = bytes(schema_view[: 4 * MAX_EXAMINED_CHARACTERS + 1]).decode(errors="replace")
        texts.append(beginning.replace("\\n", " ").replace('\\"', '"'))
    else:
        with suppress(McpHostError):  # a tool with such a schema is not offered to the model
            texts += _iter_texts(loads(bytes(schema)))
    return find_description_warnings(texts)


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield the strings and member names in a JSON value, beginning with those nested least deeply.

    At most _MAX_VALUES values and names are examined.
    """
    waiting: deque[Any] = deque([value])
    for _number in range(_MAX_VALUES):
        if not waiting:
            return
        one = waiting.popleft()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            members = cast("dict[str, Any]", one)
            waiting += [*members.keys(), *members.values()]
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
