"""Display of the text in a tool call that was copied from other servers or from files.

The copied text is highlighted, and described in a line that names its source.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from textual.content import Content

from mcphost.config.rules import FILES
from mcphost.host.argument_origins import EARLIER_PREFIX, ArgumentOrigin, MediaKind, MediaOrigin, shorten
from mcphost.host.origins.argument_copies import ArgumentTexts
from mcphost.sanitize import mark_unusual_spaces
from mcphost.serialization import dumps
from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean, clean_line

COPIED_STYLE = "$warning underline"
_MAX_ORIGIN_LINES = 6
_MAX_MARKS = 200
_MAX_SEARCHED_LINES = 4_000
"""Maximum lines of copied text that are searched for in all displayed arguments; more would delay the dialog."""
_SHORTEST_LINE = 4
_MAX_NAME_LENGTH = 60
_PLAIN_SERVER = re.compile(r"[\w./@+~-]+")
_PLAIN_SOURCE = re.compile(r"[\w./:@+~%?=&#-]+(?: [\w./:@+~%?=&#-]+){0,2}")
_PATH_PART = r'(?:[\w.\[\]-]|"[\w .\[\]-]*+")++'
_PLAIN_PATH = re.compile(rf"{_PATH_PART}(?: \+ {_PATH_PART})*+(?: \+ …)?")
"""Names that cannot be mistaken for words of mcphost in a line about copied text; all others are quoted."""
_INCOMPLETE = N_("▲ Some text from other servers could not be compared with this call.")
_MEDIA: dict[MediaKind, str] = {
    "image": N_("▲ An image from {server} cannot be compared with this call."),
    "pdf": N_("▲ A PDF file from {server} cannot be compared with this call."),
    "audio": N_("▲ Audio from {server} cannot be compared with this call."),
}
_ATTACHED_MEDIA: dict[MediaKind, str] = {
    "image": N_("▲ An image that you attached cannot be compared with this call."),
    "pdf": N_("▲ A PDF file that you attached cannot be compared with this call."),
    "audio": N_("▲ Audio that you attached cannot be compared with this call."),
}


def render_origins(
    origins: Sequence[ArgumentOrigin], *, is_complete: bool, omitted: int = 0, media: Sequence[MediaOrigin] = ()
) -> list[Content]:
    """Return a line for each piece of text in a tool call that was copied from a server or a file.

    Each line gives the argument, the source and the length; the longest pieces come first. If there are many pieces,
    only some are listed, at least one for each server, and another line gives the number of unlisted pieces. This
    number includes *omitted*, the number of pieces that *origins* does not contain.

    A line is added for each item of *media*, such as images from a server, because their contents cannot be compared
    with the call. If *is_complete* is false, a last line warns that not all text from other servers could be compared
    with the call.
    """
    shown = shorten(sorted(origins, key=lambda origin: -origin.characters), _MAX_ORIGIN_LINES)
    lines = [Content.assemble(("▲ ", "bold $warning"), *_describe(origin)) for origin in shown]
    if more := len(origins) - len(shown) + omitted:
        lines.append(Content.styled(_("▲ and {shown_count} more copied parts").format(shown_count=more), "$warning"))
    lines += [Content.styled(_describe_media(one), "$warning") for one in media]
    if not is_complete:
        lines.append(Content.styled(_(_INCOMPLETE), "$warning"))
    return lines


def _describe_media(media: MediaOrigin) -> str:
    if media.server == FILES:
        return _(_ATTACHED_MEDIA[media.kind])
    return _(_MEDIA[media.kind]).format(server=_name_server(media.server))


def _name_server(server: str) -> str:
    name = _quote_name(server.removeprefix(EARLIER_PREFIX), _PLAIN_SERVER)
    return _("an earlier server {server}").format(server=name) if server.startswith(EARLIER_PREFIX) else name


def _quote_name(name: str, plain: re.Pattern[str]) -> str:
    """Return a name from a server or a model, sanitized, and in quotes unless *plain* matches it."""
    shown = clean_line(mark_unusual_spaces(name), _MAX_NAME_LENGTH)
    return shown if plain.fullmatch(name) else dumps(shown)


def _describe(origin: ArgumentOrigin) -> Iterable[tuple[str, str]]:
    count = _("{characters:,} characters").format(characters=origin.characters)
    source = _("a file") if origin.server == FILES else _name_server(origin.server)
    yield _quote_name(origin.argument, _PLAIN_PATH), "bold $warning"
    source2 = _quote_name(origin.source, _PLAIN_SOURCE)
    yield _(": {count} from {source} · {source2}").format(count=count, source=source, source2=source2), "$warning"
    notes = [
        *([_describe_encoding(origin.encoding)] if origin.encoding else []),
        *([_("you typed it too")] if origin.is_typed else []),
        *([_("the called server sent it too")] if origin.is_own else []),
    ]
    if notes:
        yield f" ({'; '.join(notes)})", "$muted"


def _describe_encoding(encoding: str) -> str:
    return (
        _("split across these arguments")
        if encoding == "split"
        else _("encoded as {encoding}").format(encoding=encoding)
    )


class CopyMarker:
    """Highlighter of text in a tool call that was copied from other servers or from files.

    It highlights the text in the displayed arguments. At most 4,000 lines of copied text are searched for, and at most
    200 are highlighted in each value. If a limit is reached, `is_incomplete` is set, because copied text may then be
    shown without a highlight.
    """

    def __init__(self, arguments: dict[str, Any], origins: Iterable[ArgumentOrigin]) -> None:
        texts = ArgumentTexts(arguments)
        self._parts = [(origin.argument, list(texts.copied_parts(origin))) for origin in origins]
        self._lines_left = _MAX_SEARCHED_LINES
        self.is_incomplete = False

    def mark(self, value: Content, name: str) -> Content:
        """Highlight the copied text in *value*, the displayed value of the argument *name*.

        Each line of the copied text is searched for separately, because hidden characters and whitespace may look
        different in *value*.
        """
        marks = 0
        # The rest of a truncated value is not shown. A displayed line may be a carriage return shorter.
        longest = 2 * len(value.plain)
        for part in (part for argument, parts in self._parts if _is_within(argument, name) for part in parts):
            at = 0
            for line in map(str.strip, part[:longest].split("\n")):
                if self._lines_left <= 0:
                    self.is_incomplete = True
                    return value
                self._lines_left -= 1
                text = clean(mark_unusual_spaces(line))
                place = value.plain.find(text, at) if len(text) >= _SHORTEST_LINE else -1
                if place < 0:
                    continue
                if marks == _MAX_MARKS:
                    self.is_incomplete = True
                    return value
                at = place + len(text)
                value = value.stylize(COPIED_STYLE, place, at)
                marks += 1
        return value


def _is_within(argument: str, name: str) -> bool:
    """Return whether the path *argument* is *name* or a path below it.

    For example, the paths "a.b" and "a[0]" are below "a".
    """
    return argument == name or argument.startswith((f"{name}.", f"{name}["))
