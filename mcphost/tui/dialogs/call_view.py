"""Rendering of a tool call's arguments for review, with marks for hidden characters."""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mcphost.errors import MalformedMessage
from mcphost.host.argument_origins import (
    argument_path,
    member_path,
)
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.call_readability import CallReadability, check_arguments, iter_texts
from mcphost.protocol.tools import ToolAnnotations
from mcphost.sanitize import mark_literal_marks, mark_unusual_spaces
from mcphost.serialization import dumps, loads
from mcphost.translation import N_, _, join_list
from mcphost.tui.file_diff import detect_language, looks_like_path, mark_literal_signs, show_whitespace
from mcphost.tui.screen_text import clean, clean_beginning, clean_line
from mcphost.tui.transcript.tool_card import format_value, quote_unusual_name
from mcphost.tui.widget_messages import Section

if TYPE_CHECKING:
    from mcphost.host.servers.description_warnings import DescriptionWarning

# Longer texts make layout slow: 10,000 rows take half a second. One limit is for each value, the others are for all
# values; the `v` key shows the rest. Characters are counted after sanitizing, because a mark may have eight.
MAX_VALUE_CHARACTERS = 20_000
MAX_TOTAL_CHARACTERS = 40_000
_MAX_LINES = 500
_MAX_PAIRS = 250
_MAX_SECTIONS = 5_000
_MAX_NAME_LENGTH = 200
_BRACKETS = {("{", "}"), ("[", "]")}
_JSON_FIRST_CHARACTERS = frozenset('"-0123456789tfn')
_MAX_QUOTED_LENGTH = 200_000
"""Longest text that is parsed to see whether it is JSON; longer text counts as JSON if it begins like JSON."""
_SPARE_CHARACTERS = 100
"""Characters rendered beyond the limit, so that a truncated text does not get the marks of a text's end."""
_MAX_PARTS = 200
_MAX_DEPTH = 8
_MAX_PATHS_LENGTH = 10_000
"""Maximum characters of all paths of a split argument: below a key of 900 kB, 150 values would have 135 MB of paths."""
_MAX_ORIGINAL_LENGTH = 200
NO_GUARANTEE = N_("Only known phrases are marked. A description without a mark may deceive too.")
CHANGED_STYLES = ("bold $accent", "$text")
ORIGINAL_STYLES = ("$faint", "$faint")


class CallView(NamedTuple):
    """Arguments of a tool call, rendered for display.

    - `pairs` are the names and values to show. mcphost adds pairs of its own, for example below an edited argument a
      pair with its original value.
    - `omitted_characters` is the number of characters that are not shown.
    - `readability` states whether the arguments contain hidden characters, which are marked, and unusual names, which
      are quoted.
    - `changes` summarizes the user's edits, such as "1 changed".

    The other fields are keyed by an index into `pairs`:

    - `styles` contains the styles of the name and of the value, for pairs about an edited argument.
    - `languages` contains the language for highlighting a multiline value, or "" for plain text.
    - `paths` contains the path of the argument; pairs that mcphost has added have no path.
    """

    pairs: list[tuple[str, str]]
    omitted_characters: int
    readability: CallReadability
    styles: dict[int, tuple[str, str]]
    changes: str
    languages: dict[int, str]
    paths: dict[int, str]


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON values; unlike in Python, `true` and 1 are different."""
    return one is other or (one == other and arguments_digest({"": one}) == arguments_digest({"": other}))


def render_call(arguments: dict[str, Any], original: dict[str, Any] | None = None) -> CallView:
    """Render the arguments of a tool call as sanitized names and values, truncated to fit the dialog.

    *arguments* include the user's edits. *original* contains the arguments that the model sent, or is None if there are
    no edits. Below each edited argument, its original value is shown. Truncated text is marked in place and counted in
    `omitted_characters`.
    """
    original = arguments if original is None else original
    pairs: list[tuple[str, str]] = []
    styles: dict[int, tuple[str, str]] = {}
    counts = {N_("changed"): 0, N_("added"): 0, N_("removed"): 0}
    codes: dict[int, str] = {}
    paths: dict[int, str] = {}
    language = _detect_file_language(arguments)
    left_out, room, lines = 0, MAX_TOTAL_CHARACTERS, _MAX_LINES
    for number, (name, value) in enumerate(islice(arguments.items(), _MAX_PAIRS + 1)):
        if number < _MAX_PAIRS:
            edit = _describe_edit(name, value, original)
            if edit:
                counts[edit] += 1
                styles[len(pairs)] = CHANGED_STYLES
            has_room = len(pairs) < _MAX_PAIRS
            for part, inner in split_argument(name, value) if has_room else [(argument_path(name), value)]:
                limit = min(MAX_VALUE_CHARACTERS, room)
                text, unrendered = render_beginning(inner, limit)
                kept, rest = clean_beginning(text, limit, lines)
                lines -= kept.count("\n")
                rest += unrendered + max(0, len(part) - _MAX_NAME_LENGTH)
                room -= len(kept)
                left_out += rest
                if _is_multiline(inner) and not rest:
                    codes[len(pairs)] = language
                more = _("\n… {rest:,} more characters: v shows all of it").format(rest=rest) if rest else ""
                paths[len(pairs)] = part
                pairs.append((_clean_path(name, part) + _kind_suffix(inner), kept + more))
            if edit:
                styles[len(pairs)] = ORIGINAL_STYLES
                pairs.append((_("  asked for"), _render_original(original[name]) if name in original else _("not set")))
        else:
            more = _("{arguments_count:,} more arguments: v shows them all").format(
                arguments_count=len(arguments) - _MAX_PAIRS
            )
            pairs.append(("…", more))
            left_out += len(dumps(dict(islice(arguments.items(), _MAX_PAIRS, None))))
    removed = () if original is arguments else (name for name in original if name not in arguments)
    for name in islice(removed, _MAX_PAIRS):
        counts["removed"] += 1
        styles[len(pairs)] = styles[len(pairs) + 1] = ORIGINAL_STYLES
        pairs += [
            (_clean_path(name, argument_path(name)), _("removed by you")),
            (_("  asked for"), _render_original(original[name])),
        ]
    changes = join_list(f"{count} {_(word)}" for word, count in counts.items() if count)
    return CallView(pairs, left_out, check_arguments(arguments, original), styles, changes, codes, paths)


def _describe_edit(name: str, value: Any, original: dict[str, Any]) -> str:
    """Return "changed" or "added" if the user edited or added the argument, or "" otherwise."""
    if name not in original:
        return "added"
    return "" if is_same_json(value, original[name]) else "changed"


def _detect_file_language(arguments: dict[str, Any]) -> str:
    """Return the programming language of the files named in the arguments.

    Return "" if the language is unknown, or if the files are in different languages.
    """
    named = {detect_language(value) for name, value in islice(arguments.items(), _MAX_PAIRS)
             if isinstance(value, str) and not _is_multiline(value) and looks_like_path(name, value)}  # fmt: skip
    return named.pop() if len(named) == 1 else ""


def _is_multiline(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value


def split_argument(name: str, value: Any) -> list[tuple[str, Any]]:
    """Split an argument into (path, value) pairs, one for each innermost value.

    Only an object or list that contains multiline strings is split. Return a single pair for any other argument, and
    for an object or list that is too large or too deeply nested, or whose paths are too long.
    """
    start = argument_path(name)
    if not isinstance(value, dict | list):
        return [(start, value)]
    texts = list(iter_texts(cast("Any", value), _MAX_PARTS * (_MAX_DEPTH + 2)))
    if None in texts or not any(map(_is_multiline, texts)):
        return [(start, value)]
    leaves: list[tuple[str, Any]] = []
    room = _MAX_PATHS_LENGTH
    waiting: list[tuple[str, Any, int]] = [(start, cast("Any", value), 0)]
    while waiting:
        where, one, depth = waiting.pop()
        inner: list[tuple[str, Any]] = []
        room -= _measure_paths(where, one)
        if room < 0:
            return [(start, value)]
        if isinstance(one, dict):
            inner = [(member_path(where, key), member) for key, member in cast("dict[str, Any]", one).items()]
        elif isinstance(one, list):
            inner = [(f"{where}[{number}]", member) for number, member in enumerate(cast("list[Any]", one))]
        if not inner:
            leaves.append((where, cast("Any", one)))
        elif depth == _MAX_DEPTH or len(leaves) + len(waiting) + len(inner) > _MAX_PARTS:
            return [(start, value)]
        waiting += [(*pair, depth + 1) for pair in reversed(inner)]
    return leaves


def _measure_paths(where: str, value: Any) -> int:
    """Return the approximate total length, in characters, of the paths of a value's direct members.

    *where* is the path of the value itself. The result is 0 if the value is neither an object nor a list.
    """
    if isinstance(value, dict):
        return sum(len(where) + len(key) + 1 for key in cast("dict[str, Any]", value))
    return (len(where) + 2) * len(cast("list[Any]", value)) if isinstance(value, list) else 0


def _clean_path(name: str, path: str) -> str:
    """Return the path of a value in the argument *name* for display; an unusual name is quoted."""
    shown = _quote_name(name[:_MAX_NAME_LENGTH]) + path[len(argument_path(name)) :][:_MAX_NAME_LENGTH]
    return clean(mark_unusual_spaces(mark_literal_marks(shown)))


def _quote_name(name: str) -> str:
    """Return the name of an argument, as a JSON string if it is unusual or could be mistaken for a path."""
    path = argument_path(name)
    return quote_unusual_name(name) if path == name else path


def _render_original(value: Any) -> str:
    text, unrendered = render_beginning(value, _MAX_ORIGINAL_LENGTH)
    rest = len(text) + unrendered - _MAX_ORIGINAL_LENGTH
    return clean(text[:_MAX_ORIGINAL_LENGTH]) + (
        _("… {text_count:,} more characters").format(text_count=rest) if rest > 0 else ""
    )


def render_value(value: Any) -> str:
    """Render a value for display: a string as plain text, and any other value as JSON.

    A single-line string is quoted if it looks like JSON, contains a tab, or starts or ends with whitespace. A
    multiline string keeps its lines, with marks for tabs, trailing spaces and a final line break. Unusual
    spaces are always marked.
    """
    return mark_unusual_spaces(_render_plain_value(value, None))


def render_beginning(value: Any, limit: int) -> tuple[str, int]:
    """Return the beginning of the rendered value, and the number of characters that were not rendered.

    The beginning has at least *limit* characters if the value is that long. Use this instead of `render_value` if only
    the beginning is shown: rendering a long string takes a quarter of a second per megabyte.
    """
    limit += _SPARE_CHARACTERS
    text = _render_plain_value(value, limit)
    if not isinstance(value, str):
        return mark_unusual_spaces(text[:limit]), max(0, len(text) - limit)
    return mark_unusual_spaces(text), max(0, len(value) - limit)


def _render_plain_value(value: Any, limit: int | None) -> str:
    if not isinstance(value, str):
        return mark_literal_marks(format_value(value))
    if not value:
        return _("(empty text)")
    if "\n" in value:
        return show_whitespace(mark_literal_signs(value[:limit]))
    is_quoted = value != value.strip() or "\t" in value or value == _("(empty text)") or _looks_like_json(value)
    return mark_literal_marks(dumps(value[:limit]) if is_quoted else value[:limit])


def _looks_like_json(text: str) -> bool:
    """Return whether *text* looks like JSON, because it is valid JSON or is enclosed in brackets.

    If *text* is too long to parse, only its first character is checked.
    """
    beginning, end = text.lstrip()[:1], text.rstrip()[-1:]
    if (beginning, end) in _BRACKETS:
        return True
    if beginning not in _JSON_FIRST_CHARACTERS or len(text) > _MAX_QUOTED_LENGTH:
        return beginning in _JSON_FIRST_CHARACTERS
    try:
        loads(text)
    except MalformedMessage:
        return False
    return True


def _kind_suffix(value: Any) -> str:
    """Return " (text)" for a multiline string that looks like JSON, otherwise "".

    The label distinguishes the string from real JSON. Quotes would do the same, but put all its lines on one line.
    """
    return _(" (text)") if _is_multiline(value) and _looks_like_json(value) else ""


def argument_sections(arguments: dict[str, Any]) -> tuple[Section, ...]:
    """Return all arguments, untruncated, as sections for the full-screen viewer, which sanitizes them.

    If there are very many arguments, the last section contains all remaining ones as JSON.
    """
    count = len(arguments)
    sections = [
        Section(
            _("── argument {number} of {count}: {part}{kind_suffix}").format(
                number=number,
                count=count,
                part=_quote_name(name) + part[len(argument_path(name)) :],
                kind_suffix=_kind_suffix(inner),
            ),
            render_value(inner),
        )
        for number, (name, value) in enumerate(islice(arguments.items(), _MAX_SECTIONS), 1)
        for part, inner in split_argument(name, value)
    ]
    if count > _MAX_SECTIONS:
        title = _("── arguments {number} to {count}").format(number=_MAX_SECTIONS + 1, count=count)
        sections.append(Section(title, render_value(dict(islice(arguments.items(), _MAX_SECTIONS, None)))))
    return tuple(sections)


async def prepare_argument_sections(arguments: dict[str, Any]) -> tuple[Section, ...]:
    """Return the sections from `argument_sections`, rendered in a worker thread.

    Rendering a megabyte of text takes more than a second.
    """
    return await asyncio.to_thread(argument_sections, arguments)


def summarize_arguments(arguments: dict[str, Any], limit: int) -> str:
    """Return the names and values of the arguments, separated by spaces.

    The result is not much longer than *limit* characters. The caller must sanitize it and truncate it to one line.
    """
    words: list[str] = []
    used = 0
    for name, value in arguments.items():
        if used > limit:
            break
        word = f"{_quote_name(name[: limit + 1])} {render_beginning(value, limit + 1)[0][: limit + 1]}"
        words.append(word)
        used += len(word) + 2
    return "  ".join(words) or _("no arguments")


def describe_annotations(annotations: ToolAnnotations) -> str:
    """Describe a tool's annotations, such as "only reads"; return "" if there are none."""
    words: list[str] = []
    if annotations.read_only_hint is not None:
        words.append(_("only reads") if annotations.read_only_hint else _("writes data"))
    if annotations.destructive_hint is not None:
        words.append(_("destructive") if annotations.destructive_hint else _("not destructive"))
    if annotations.idempotent_hint:
        words.append(_("safe to repeat"))
    if annotations.open_world_hint is not None:
        words.append(_("outside access") if annotations.open_world_hint else _("no outside access"))
    return " · ".join(words)


def describe_warnings(warnings: Iterable["DescriptionWarning"]) -> list[str]:
    """Return a sanitized line for each warning about a tool's definition, with the server's words in quotes."""
    lines: list[str] = []
    for warning in warnings:
        line = _("▲ Its description {warning}").format(warning=_(warning.text))
        quote = f'"{clean_line(warning.quote, 100)}"'
        lines.append(_("{place}: {message}").format(place=line, message=quote) if warning.quote else line)
    return lines
