"""Display of the parts of a call's arguments that were copied from other servers or from files."""

from collections.abc import Iterable, Sequence
from typing import Any

from textual.content import Content

from mcphost.host.call_origins import FILES, ArgumentOrigin
from mcphost.host.origins.argument_copies import copied_parts
from mcphost.sanitize import mark_unusual_spaces
from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean, clean_line

COPIED_STYLE = "$warning underline"
_MAX_LINES = 6
_MAX_MARKS = 200
_SHORTEST_LINE = 4
_INCOMPLETE = N_("▲ Not all texts of other servers could be compared with this call.")


def origin_lines(origins: Sequence[ArgumentOrigin], *, is_complete: bool) -> list[Content]:
    """Return a line for each copied argument with its source and number of characters, largest first."""
    shown = sorted(origins, key=lambda origin: -origin.characters)
    lines = [Content.assemble(("▲ ", "bold $warning"), *_describe(origin)) for origin in shown[:_MAX_LINES]]
    if len(shown) > _MAX_LINES:
        lines.append(
            Content.styled(
                _("▲ and {shown_count} more copied parts").format(shown_count=len(shown) - _MAX_LINES), "$warning"
            )
        )
    if not is_complete:
        lines.append(Content.styled(_(_INCOMPLETE), "$warning"))
    return lines


def _describe(origin: ArgumentOrigin) -> Iterable[tuple[str, str]]:
    count = _("{characters:,} characters").format(characters=origin.characters)
    source = _("a file") if origin.server == FILES else clean_line(mark_unusual_spaces(origin.server), 60)
    yield clean_line(mark_unusual_spaces(origin.argument), 60), "bold $warning"
    yield (
        _(": {count} from {source} · {source2}").format(
            count=count, source=source, source2=clean_line(mark_unusual_spaces(origin.source), 60)
        ),
        "$warning",
    )
    notes = [
        *([_describe_encoding(origin.encoding)] if origin.encoding else []),
        *([_("you typed it too")] if origin.is_typed else []),
        *([_("the called server said it too")] if origin.is_own else []),
    ]
    if notes:
        yield f" ({'; '.join(notes)})", "$muted"


def _describe_encoding(encoding: str) -> str:
    return (
        _("spread over these arguments")
        if encoding == "split"
        else _("written as {encoding}").format(encoding=encoding)
    )


def mark_copies(value: Content, name: str, arguments: dict[str, Any], origins: Iterable[ArgumentOrigin]) -> Content:
    """Return the displayed *value* of argument *name* with its copied parts highlighted.

    *value* is highlighted line by line, because it may display hidden characters and white space differently.
    """
    marks = 0
    for origin in origins:
        if not _is_within(origin.argument, name):
            continue
        for part in copied_parts(arguments, origin):
            at = 0
            for line in map(str.strip, part.split("\n")):
                text = clean(mark_unusual_spaces(line))
                place = value.plain.find(text, at) if len(text) >= _SHORTEST_LINE else -1
                if place >= 0 and marks < _MAX_MARKS:
                    at = place + len(text)
                    value = value.stylize(COPIED_STYLE, place, at)
                    marks += 1
    return value


def _is_within(argument: str, name: str) -> bool:
    """Return whether the argument path *argument* is *name* or lies inside it."""
    return argument == name or argument.startswith((f"{name}.", f"{name}["))
