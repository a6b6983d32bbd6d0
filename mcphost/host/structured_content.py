"""Conversion of a tool result's structured content to text.

Long base64 data and everything that the content blocks already contain are left out.
"""

import json
from collections.abc import Iterable
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.host.base64_pieces import replace_pieces_in_json, unescape_base64
from mcphost.host.base64_runs import BASE64_LENGTH, replace_base64, replace_base64_in_json, replace_base64_pieces
from mcphost.protocol.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)
from mcphost.serialization import Raw, dumps, loads

PARSE_LIMIT = 256 * 1024
_SHORT_TEXT = 100
"""Strings of at most this many characters are not replaced by a note, even if they repeat a text block."""
_MAX_DEPTH = 100
_SAMPLE = 8192
_MAX_REPLACED_TEXTS = 16
"""Maximum text blocks that are looked for in JSON that is too large to be parsed: each search reads all of it."""
_TEXT = "[the text above]"
_MEDIA = "[the data above]"


class ContentIndex:
    """Index of a result's content blocks, used to detect structured content that only repeats the blocks."""

    def __init__(self, blocks: Iterable[ContentBlock]) -> None:
        self.texts: list[str] = []
        self._resource_texts: list[str] = []
        self._media = {_MEDIA}
        self._fields: set[str] = set()
        for block in blocks:
            self._add(block)
        self._block_texts = {*self.texts, *self._resource_texts, "\n".join(self.texts)} - {""}
        self._stripped_texts = {text.strip() for text in self._block_texts} - {""}

    def _add(self, block: ContentBlock) -> None:
        match block:
            case TextContent():
                self.texts.append(block.text)
            case ImageContent() | AudioContent():
                self._media |= {block.data, _unwrap(block.data)}
                self._fields |= {"image", "audio", block.mime_type}
            case EmbeddedResource(resource=resource):
                self._resource_texts.extend([resource.text] if resource.text is not None else [])
                self._media |= {resource.blob, _unwrap(resource.blob)} if resource.blob else set()
                self._fields |= {"resource", resource.uri, resource.mime_type or ""}
            case _:
                pass

    @property
    def size(self) -> int:
        """The total length of the text blocks in characters."""
        return sum(map(len, self.texts))

    @property
    def is_empty(self) -> bool:
        """Whether the blocks contain no text or media that structured content could repeat."""
        return not self._stripped_texts and len(self._media) == 1

    def contains(self, text: str) -> bool:
        """Return whether the content blocks already contain this JSON text, without parsing it.

        A JSON object with a single member also counts as contained if a block equals the member's value.
        """
        text = text.strip()
        _, _, member = text.removesuffix("}").partition(":")
        member = member.strip()
        return text in self._stripped_texts or any(
            member in (dumps(block_text), json.dumps(block_text))
            for block_text in self._block_texts | self._stripped_texts
        )

    def shorten(self, body: bytes) -> bytes:
        """Return the JSON *body* with a short placeholder for each long run of base64.

        A run may contain line breaks, or be split into several strings of a list. Most JSON that is too large to be
        parsed becomes small enough in this way. *body* must be UTF-8.
        """
        body = replace_base64_in_json(unescape_base64(body), self._describe_run)
        return replace_pieces_in_json(body, self._describe_run)

    def replace_texts(self, body: bytes) -> bytes:
        """Return the JSON *body* with a note in place of each string that equals one of the longest text blocks."""
        for text in sorted(self._block_texts, key=len, reverse=True)[:_MAX_REPLACED_TEXTS]:
            if len(text) > _SHORT_TEXT:
                for written in {dumps(text), json.dumps(text)}:
                    body = body.replace(written.encode("utf-8", "replace"), dumps(_TEXT).encode())
        return body

    def _describe_run(self, run: str) -> str:
        return _MEDIA if run in self._media else _placeholder(run)

    def _is_media(self, value: str) -> bool:
        """Return whether the value equals the data of a media block, ignoring line breaks."""
        return value in self._media or ("\n" in value and _unwrap(value) in self._media)

    def is_repeated(self, value: Any) -> bool:
        """Return whether the structured content *value* only repeats what the content blocks contain."""
        return self._equals_texts(value) or (not self.is_empty and self._is_covered(value, _MAX_DEPTH))

    def remove_repeats(self, value: Any, depth: int = _MAX_DEPTH) -> Any:
        """Return structured content with each long string that repeats a content block replaced by a note.

        Values that are nested more than *depth* levels deep are not changed.
        """
        match value:
            case str():
                if self._is_media(value):
                    return _MEDIA
                return (
                    _TEXT
                    if len(value) > _SHORT_TEXT and value.strip() in self._stripped_texts
                    else remove_base64(value)
                )
            case dict() if depth:
                members = cast("dict[str, Any]", value)
                return {key: self.remove_repeats(member, depth - 1) for key, member in members.items()}
            case list() if depth:
                items = replace_base64_pieces(cast("list[Any]", value), self._describe_run)
                return [self.remove_repeats(member, depth - 1) for member in items]
            case _:
                return value

    def _equals_texts(self, value: Any) -> bool:
        """Return whether structured content equals the text blocks of the same result.

        Some SDKs wrap the value in an object whose only member is `result`. In this case, the member is also
        compared.
        """
        parsed = [_parse(text) for text in self.texts]
        candidates = [value]
        if isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["result"]:
            candidates.append(value["result"])
        choices = [*parsed, parsed, *self.texts, "\n".join(self.texts)]
        return bool(self.texts) and any(candidate in choices for candidate in candidates)

    def _is_covered(self, value: Any, depth: int) -> bool:
        """Return whether everything in the value is also in the content blocks.

        These values are covered: a string that repeats a block, an object that contains only the data and fields of a
        media block, and a list or single-member object that contains only covered values. Values nested more than
        *depth* levels deep are not examined, and count as not covered.
        """
        match value:
            case str():
                return self._is_media(value) or value.strip() in self._stripped_texts
            case dict() if depth:
                members = cast("dict[str, Any]", value)
                rest = [
                    member for member in members.values() if not (isinstance(member, str) and self._is_media(member))
                ]
                if len(rest) < len(members):
                    return all(isinstance(member, str) and member in self._fields for member in rest)
                return len(members) == 1 and all(self._is_covered(member, depth - 1) for member in members.values())
            case list() if depth:
                items = cast("list[Any]", value)
                return bool(items) and all(self._is_covered(member, depth - 1) for member in items)
            case _:
                return False


def structured_text(raw: Raw | None, index: ContentIndex) -> str | None:
    """Return structured content as indented JSON, omitting what the content blocks already contain.

    Returns None if there is no structured content, or if it only repeats the blocks. If it is too large to be
    parsed, the result is the raw JSON or a note; for invalid JSON, it is a note.
    """
    if raw is None:
        return None
    body = bytes(raw)
    is_comparable = True
    if len(body) + index.size > PARSE_LIMIT:
        body = index.shorten(body)
    if len(body) + index.size > PARSE_LIMIT:
        # Parsing and formatting this much would block the screen.
        if index.contains(body.decode("utf-8", "replace")):
            return None
        body = index.replace_texts(body)
        if len(body) > PARSE_LIMIT:
            size = len(bytes(raw))
            too_large = f"[structured content of {size:,} bytes is too large: left out]"
            return too_large if index.texts else body.decode("utf-8", "replace")
        is_comparable = False
    try:
        value = loads(body)
    except MalformedMessage:
        return "[structured content that is nested too deeply or is not JSON: left out]"
    return None if is_comparable and index.is_repeated(value) else dumps(index.remove_repeats(value), indent=2)


def remove_base64(text: str) -> str:
    """Replace each run of base64 with a note that gives its size.

    A run has at least 1,024 characters, or 64 lines of equal width.
    """
    return text if len(text) < BASE64_LENGTH else replace_base64(text, _placeholder)


def _unwrap(text: str) -> str:
    """Return base64 without line breaks."""
    return text.replace("\r", "").replace("\n", "")


def _placeholder(run: str) -> str:
    """Return a placeholder for a run of base64, or the run itself if it is probably hexadecimal or other text."""
    sample = set(run[:_SAMPLE])
    kinds = (any(map(str.isupper, sample)), any(map(str.islower, sample)), any(map(str.isdigit, sample)))
    return f"[base64 left out: {len(run.rstrip('=')) * 3 // 4:,} bytes]" if all(kinds) else run


def _parse(text: str) -> Any:
    try:
        return loads(text)
    except MalformedMessage:
        return text
