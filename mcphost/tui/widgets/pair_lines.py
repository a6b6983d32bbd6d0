"""Text areas that hide values which look like secrets.

They contain lines such as `NAME=VALUE`, or a server's configuration entry.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from mcphost.config.typed_pairs import PairSeparator, split_pair_line
from mcphost.config.variable_references import Reference, find_references
from mcphost.llm.api_key_formats import has_api_key_prefix
from mcphost.redact import PLACEHOLDER, find_key_spans, is_probable_secret, is_secret_name, is_strong, redact_patterns
from mcphost.tui.widgets.text_inputs import OrderedTextArea

_MASK = "•"
_WIDE_MASK = "・"
_HARMLESS = ("", "basic", "bearer", "dpop", "token")
"""What a value may contain beside a reference without being masked: nothing, or an authorization scheme."""
_WORD = re.compile(r"[\w.-]{1,200}")
_RANDOM_WORD = re.compile(r"[A-Za-z0-9+/]{20,}")
_URL_SAFE_KEY = re.compile(r"(?:[\w-]{4}){5,}(?:[\w-]{2}==|[\w-]{3}=)", re.ASCII)
_BOT_TOKEN = re.compile(r"\d{8,10}:\S*")
"""Matches a Telegram token as soon as its colon is typed; no header has a number as its name."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_STRING = r"(?:[^\"\\]|\\.)"
_NAMED_VALUES = (
    re.compile(rf'"(?P<name>{_STRING}{{1,200}})"\s*:\s*"(?P<value>{_STRING}*)'),  # a member of a JSON object
    re.compile(rf'"--?(?P<name>[\w-]{{1,200}})"\s*,\s*"(?P<value>{_STRING}*)'),  # an option among JSON arguments
    re.compile(r"(?<!\w)(?P<name>[A-Za-z_][\w.-]{0,200})=(?P<value>[^\s\"']+)"),
    re.compile(r"(?<!\w)(?P<name>[A-Za-z_][\w.-]{0,200}):\s+(?P<value>[^\"']+)"),  # a header in quotes
)


class PairTextArea(OrderedTextArea):
    """Text area with a name and a value on each line; it masks values that look like secrets.

    Most secrets are recognized by their names, and are therefore masked from the first character on. A line that looks
    like a key or token without a name is masked completely. A value is not masked if it consists only of references
    such as `${env:NAME}`, optionally after an authorization scheme such as "Bearer".
    """

    def __init__(self, separator: PairSeparator, widget_id: str, placeholder: str) -> None:
        super().__init__(id=widget_id, tab_behavior="focus", compact=True, placeholder=placeholder)
        self._separator: PairSeparator = separator

    def get_line(self, line_index: int) -> Text:
        """Return a line for display, with a secret replaced by as many dots as it has characters."""
        line = super().get_line(line_index)
        name, found, value = split_pair_line(line.plain, self._separator)
        lead = line.plain[: len(line.plain) - len(value)] if found else line.plain
        if _is_key(line.plain, lead, name if found else ""):
            line.plain = "".join(map(_mask, line.plain))
        elif _is_secret(name, value.strip()):
            line.plain = f"{lead}{''.join(map(_mask, value))}"
        return line


class EntryTextArea(OrderedTextArea):
    """Text area for a server's command line, URL or JSON; it masks values that look like secrets.

    A value is masked if it looks like a key or token, or if the name before it suggests a secret. The name may be on
    the same line or at the end of the line above.
    """

    def get_line(self, line_index: int) -> Text:
        """Return a line for display, with each secret replaced by as many dots as it has characters."""
        line = super().get_line(line_index)
        above = self.document.get_line(line_index - 1).rstrip() if line_index else ""
        above = above if above.endswith((",", ":")) else ""
        shown, start = list(line.plain), len(above)
        for first, end in _find_secrets(above + line.plain):
            begin = max(0, first - start)
            shown[begin : max(0, end - start)] = map(_mask, line.plain[begin : max(0, end - start)])
        line.plain = "".join(shown)
        return line


def _find_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each value in *text* that must be masked."""
    yield from find_key_spans(text)
    for pattern in _NAMED_VALUES:
        for match in pattern.finditer(text):
            if _is_secret(match["name"], match["value"].strip()):
                yield match.span("value")
    before, *others = redact_patterns(text).split(PLACEHOLDER)
    at = len(before)
    for number, after in enumerate(others):  # the texts after each secret
        is_last = number == len(others) - 1
        end = len(text) - len(after) if is_last else text.find(after, at + 1) if after else at
        if end < at:
            yield at, len(text)
            return
        if not _is_reference(text[at:end]):
            yield at, end
        at = end + len(after)


def _is_key(line: str, lead: str, name: str) -> bool:
    """Return whether *line* is a key or token without a name, or the beginning of one.

    *lead* is the text before the value, and *name* the text before the separator "=" or ":", or "" if there is no
    separator. Because base64 may end with "=", and some tokens contain ":", *name* may itself be a part of the key.
    """
    if any(start < len(lead) for start, _end in find_key_spans(line)):
        return True
    word = line.strip().removeprefix("export").lstrip()
    if _BOT_TOKEN.fullmatch(word) or (_URL_SAFE_KEY.fullmatch(word) and _is_mixed(word)):
        return True
    if name:
        return has_api_key_prefix(name) or _is_random_word(name)
    for reference in find_references(line):
        line = line.replace(reference.text, "")
    return redact_patterns(line) != line or any(
        has_api_key_prefix(word) or _is_random_word(word) or (is_strong(word) and not _VARIABLE.fullmatch(word))
        for word in line.split()
    )


def _is_random_word(text: str) -> bool:
    """Return whether *text* looks random: at least 20 base64 or hexadecimal characters, including a digit.

    Names of variables or headers do not look like this.
    """
    return _RANDOM_WORD.fullmatch(text) is not None and any(char.isdigit() for char in text)


def _is_mixed(text: str) -> bool:
    """Return whether *text* contains lowercase letters, uppercase letters and digits.

    Keys and tokens often contain all three; names of variables rarely do.
    """
    return all(any(map(kind, text)) for kind in (str.islower, str.isupper, str.isdigit))


def _mask(char: str) -> str:
    """Return a dot as wide as *char*, so that the text keeps its width; whitespace is returned unchanged."""
    return char if char.isspace() else _WIDE_MASK if cell_len(char) > 1 else _MASK


def _is_secret(name: str, value: str) -> bool:
    """Return whether *value* must be masked.

    *name* is the text before the separator. If it contains several words, and is therefore invalid as a name, each
    word is checked separately.
    """
    if _is_reference(value):
        return False
    for reference in _find_known_references(value):
        value = value.replace(reference.text, "")
    return any(is_secret_name(word) or is_probable_secret(word, value) for word in (name, *_WORD.findall(name)))


def _is_reference(value: str) -> bool:
    """Return whether *value* consists only of references, optionally preceded by an authorization scheme.

    An authorization scheme is, for example, "Bearer".
    """
    references = _find_known_references(value)
    for reference in references:
        value = value.replace(reference.text, "")
    return bool(references) and value.strip().lower() in _HARMLESS


def _find_known_references(value: str) -> list[Reference]:
    return [one for one in find_references(value) if one.kind != "unknown" and one.default is None]


class LabeledPairs(Horizontal):
    """Text area for name-value pairs, with a label on its left; see `PairTextArea`."""

    DEFAULT_CSS: ClassVar[str] = """
    LabeledPairs { height: auto; }
    LabeledPairs Static { width: 16; color: $muted; }
    LabeledPairs TextArea { width: 1fr; height: 3; border: none; background: $surface; padding: 0 1; }
    LabeledPairs .text-area--placeholder { color: $muted; }
    """

    def __init__(self, label: str, separator: PairSeparator, widget_id: str, *, placeholder: str) -> None:
        super().__init__()
        self._label = Content(label)
        self._area = PairTextArea(separator, widget_id, placeholder)

    def compose(self) -> ComposeResult:
        """Create the label and the text area."""
        yield Static(self._label, markup=False)
        yield self._area
