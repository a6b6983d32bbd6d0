"""Rendering of the parts of a result: sanitized, with omitted characters counted."""

from collections.abc import Sequence
from typing import NamedTuple

from mcphost.host.questions.questions import ResultPart
from mcphost.tui.messages import Section
from mcphost.tui.screen_text import clean, clean_line

MAX_TEXT_CHARACTERS = 20_000
MAX_TOTAL_CHARACTERS = 60_000
_MAX_PARTS = 500
_KIND_LABELS = {
    "structured": "JSON", "link": "link", "other": "unknown kind", "error": "error", "note": "mcphost note",
}  # fmt: skip


class ResultView(NamedTuple):
    """Names and texts to draw, and the number of characters not in them."""

    pairs: list[tuple[str, str]]
    omitted_characters: int


def _kind_label(part: ResultPart) -> str:
    return _KIND_LABELS.get(part.kind, clean_line(part.kind, 20))


def describe_part(part: ResultPart) -> str:
    """Return the kind and size of a part."""
    of_its_own = part.kind in ("image", "audio") and part.mime_type
    name = clean_line(part.mime_type, 60) if of_its_own else _kind_label(part)
    return f"{name}, {part.size:,} bytes" if part.size and part.kind != "note" else name


def render_result(parts: Sequence[ResultPart], texts: Sequence[str | None]) -> ResultView:
    """Return clean labels and texts; an omitted part is marked."""
    pairs: list[tuple[str, str]] = []
    left_out, room = 0, MAX_TOTAL_CHARACTERS
    for number, (part, text) in enumerate(zip(parts, texts, strict=True), 1):
        if number > _MAX_PARTS:
            left_out += len(text or "") + 1
            continue
        name = f"{number} {_kind_label(part)}"
        if text is None:
            pairs.append((name, f"(not sent: {describe_part(part)})"))
            continue
        kept = text[: min(MAX_TEXT_CHARACTERS, room)]
        rest = len(text) - len(kept)
        room -= len(kept)
        left_out += rest
        more = f"\n… {rest:,} more characters: v shows all of it" if rest else ""
        pairs.append((name, (clean(kept) or "(empty text)") + more))
    if len(parts) > _MAX_PARTS:
        pairs.append(("…", f"{len(parts) - _MAX_PARTS:,} more parts: v shows them all"))
    return ResultView(pairs, left_out)


def result_sections(parts: Sequence[ResultPart], texts: Sequence[str | None]) -> tuple[Section, ...]:
    """Return every part whole, for a page of its own; the page sanitizes them."""
    return tuple(
        Section(
            f"── part {number} of {len(parts)}: {describe_part(part)}{', left out by you' if text is None else ''}",
            text or "",
        )
        for number, (part, text) in enumerate(zip(parts, texts, strict=True), 1)
    )


def trim_texts(parts: Sequence[ResultPart], texts: Sequence[str | None], first: int, last: int) -> list[str | None]:
    """Return the texts cut to their first and last characters; JSON stays whole, as cutting breaks it."""
    made: list[str | None] = []
    for part, text in zip(parts, texts, strict=True):
        gone = len(text or "") - first - last
        if text is None or gone <= 0 or part.kind == "structured" or part.image is not None:
            made.append(text)
            continue
        mark = f"[… {gone:,} characters left out by the user …]"
        made.append("\n".join(filter(None, (text[:first], mark, text[len(text) - last :] if last else ""))))
    return made
