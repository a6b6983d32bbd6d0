"""How the arguments of a call are shown: all of them, nothing hidden, nothing that looks like something else."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from mcphost.errors import MalformedMessage
from mcphost.host.audit.audit_summary import digest
from mcphost.protocol.tools import ToolAnnotations
from mcphost.sanitize import is_literal, literal
from mcphost.serialization import dumps, loads
from mcphost.tui.messages import Section
from mcphost.tui.screen_text import clean, is_clean
from mcphost.tui.widgets.code_text import language_of, looks_like_path, signed
from mcphost.tui.widgets.tool_card import value_text

# More would hold up the screen while it is laid out: of one value, and of all of them together; `v` shows it whole.
EACH = 20_000
ALL = 200_000
_MOST_PAIRS = 1_000
_NAME = 200
_BRACKETS = {("{", "}"), ("[", "]")}
_JSON_BEGINNINGS = frozenset('"-0123456789tfn')
_MOST_PARTS = 200
_DEEPEST = 8


_WAS = 200
CHANGED = ("bold $accent", "$text")
WAS = ("$faint", "$faint")


class ShownCall(NamedTuple):
    """`pairs` to draw, how many characters of the arguments are not in them, and whether any character hides.

    `codes` has the language of each value that is text of several lines, by its place; empty for one not coloured.
    `styles` are those of the name and of the value of pairs that are about what was edited, by their place; `changes`
    says in a few words how much that is.
    """

    pairs: list[tuple[str, str]]
    left_out: int
    hidden: bool
    styles: dict[int, tuple[str, str]]
    changes: str
    codes: dict[int, str]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; true is not 1, and the order of members says nothing."""
    return one is other or (one == other and digest({"": one}) == digest({"": other}))


def shown_call(arguments: dict[str, Any], asked: dict[str, Any] | None = None) -> ShownCall:
    """Names and values, clean, and what the model asked for where that is something else.

    What is left out is said where it is missing, and counted.
    """
    asked = arguments if asked is None else asked
    pairs: list[tuple[str, str]] = []
    styles: dict[int, tuple[str, str]] = {}
    counts = {"changed": 0, "added": 0, "left out": 0}
    codes: dict[int, str] = {}
    language = _language(arguments)
    left_out, room = 0, ALL
    for number, (name, value) in enumerate(arguments.items()):
        if number < _MOST_PAIRS:
            edit = "" if name in asked and same(value, asked[name]) else "changed" if name in asked else "added"
            if edit:
                counts[edit] += 1
                styles[len(pairs)] = CHANGED
            for part, inner in parts(name, value) if len(pairs) < _MOST_PAIRS else [(name, value)]:
                text = shown_value(inner)
                kept = text[: min(EACH, room)]
                rest = len(text) - len(kept) + max(0, len(part) - _NAME)
                room -= len(kept)
                left_out += rest
                if _is_long(inner) and not rest:
                    codes[len(pairs)] = language
                more = f"\n… {rest:,} more characters: v shows all of it" if rest else ""
                pairs.append((_name(part) + _kind(inner), clean(kept) + more))
            if edit:
                styles[len(pairs)] = WAS
                pairs.append(("  asked for", _was(asked[name]) if name in asked else "left out"))
        elif number == _MOST_PAIRS:
            more = f"{len(arguments) - _MOST_PAIRS:,} more arguments: v shows them all"
            pairs.append(("…", more))
        if number >= _MOST_PAIRS:
            left_out += len(shown_value(value)) + max(0, len(name) - _NAME)
    for name in [name for name in asked if name not in arguments][:_MOST_PAIRS]:
        counts["left out"] += 1
        styles[len(pairs)] = styles[len(pairs) + 1] = WAS
        pairs += [(_name(name), "left out by you"), ("  asked for", _was(asked[name]))]
    hidden = any(hides(text) for text in _texts(arguments))
    changes = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return ShownCall(pairs, left_out, hidden, styles, changes, codes)


def hides(text: str) -> bool:
    """Whether a name or a value has a character that is not what it looks like; a tab is seen in a text of lines."""
    return not (is_clean(text.replace("\r\n", "\n")) and is_literal(text)) or ("\t" in text and "\n" not in text)


def _language(arguments: dict[str, Any]) -> str:
    """The language of the only file that the arguments name."""
    named = {language_of(value) for name, value in arguments.items()
             if isinstance(value, str) and not _is_long(value) and looks_like_path(name, value)}  # fmt: skip
    return named.pop() if len(named) == 1 else ""


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value


def parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return the argument as one part, or its leaves with their places when a text of several lines is among them."""
    if not isinstance(value, dict | list) or not any(map(_is_long, _texts(cast("Any", value)))):
        return [(name, value)]
    leaves: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any, int]] = [(name, cast("Any", value), 0)]
    while waiting:
        where, one, depth = waiting.pop()
        inner: list[tuple[str, Any]] = []
        if isinstance(one, dict):
            inner = [(f"{where}{_key(key)}", member) for key, member in cast("dict[str, Any]", one).items()]
        elif isinstance(one, list):
            inner = [(f"{where}[{number}]", member) for number, member in enumerate(cast("list[Any]", one))]
        if not inner:
            leaves.append((where, cast("Any", one)))
        elif depth == _DEEPEST or len(leaves) + len(waiting) + len(inner) > _MOST_PARTS:
            return [(name, value)]
        waiting += [(*pair, depth + 1) for pair in reversed(inner)]
    return leaves


def _key(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{dumps(key)}]"


def _name(name: str) -> str:
    return clean(literal(name[:_NAME])).replace("\n", "⏎").replace("\t", "␉")


def _was(value: Any) -> str:
    text = shown_value(value)
    return clean(text[:_WAS]) + (f"… {len(text) - _WAS:,} more characters" if len(text) > _WAS else "")


def shown_value(value: Any) -> str:
    """Text as it is and everything else as JSON; a text that could be taken for something else is in quotes.

    One of several lines is lines, with signs for tabs, blanks at the end of a line, and the end of the last line.
    Blanks that are no space have marks.
    """
    return literal(_plain_value(value))


def _plain_value(value: Any) -> str:
    if not isinstance(value, str):
        return value_text(value)
    if not value:
        return "(empty text)"
    if "\n" in value:
        return signed(value)
    if value != value.strip() or "\t" in value or value == "(empty text)":
        return dumps(value)
    return dumps(value) if _reads_as_json(value) else value


def _reads_as_json(text: str) -> bool:
    """Whether the text could be taken for a number, a list or an object; in brackets it need not be valid JSON."""
    beginning, end = text.lstrip()[:1], text.rstrip()[-1:]
    if (beginning, end) in _BRACKETS:
        return True
    if beginning not in _JSON_BEGINNINGS:
        return False
    try:
        loads(text)
    except MalformedMessage:
        return False
    return True


def _kind(value: Any) -> str:
    """What is said behind the name of a text of several lines that reads as JSON: quotes would hide its lines."""
    return " (a text)" if _is_long(value) and _reads_as_json(value) else ""


def sections(arguments: dict[str, Any]) -> tuple[Section, ...]:
    """Return every argument, whole, for a page of its own; cleaned where it is drawn."""
    count = len(arguments)
    return tuple(
        Section(f"── argument {number} of {count}: {part}{_kind(inner)}", shown_value(inner))
        for number, (name, value) in enumerate(arguments.items(), 1)
        for part, inner in parts(name, value)
    )


def first_line(arguments: dict[str, Any], limit: int) -> str:
    """The beginning of the arguments on one line; what is left out ends it with an ellipsis."""
    words: list[str] = []
    used = 0
    for name, value in arguments.items():
        if used > limit:
            break
        word = f"{name} {shown_value(value)[: limit + 1]}"
        words.append(word)
        used += len(word) + 2
    return "  ".join(words) or "no arguments"


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, names of members included."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            members = cast("dict[str, Any]", one)
            waiting += [*members.keys(), *members.values()]
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)


def claims(given: ToolAnnotations) -> str:
    """What the server claims about a tool, in words; empty when it claims nothing."""
    words: list[str] = []
    if given.read_only_hint is not None:
        words.append("only reads" if given.read_only_hint else "writes data")
    if given.destructive_hint is not None:
        words.append("destructive" if given.destructive_hint else "not destructive")
    if given.idempotent_hint:
        words.append("safe to repeat")
    if given.open_world_hint is not None:
        words.append("reaches the outside world" if given.open_world_hint else "stays in its own domain")
    return " · ".join(words)
