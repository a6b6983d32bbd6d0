"""Pasted or dropped text in the composer: folding of long pastes, file paths, and protection from pasted commands."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from mcphost.translation import N_, _, join_list, ngettext
from mcphost.tui.command_names import parse_slash_command
from mcphost.tui.screen_text import clean_line

if TYPE_CHECKING:
    from textual.widgets.text_area import Edit

    from mcphost.tui.widgets.attachment_list import AttachmentRow

FOLDED_LINES = 30
"""Number of lines from which a paste is folded."""
FOLDED_LENGTH = 4_000
"""Number of characters from which a paste is folded."""
MAX_PATHS = 20
MAX_PATH_TEXT = 8_000
UNSURE_CALL = N_(
    "Not run and not sent: it arrived as fast as a paste. Press Enter again to send it as a message, or clear it and "
    "type it again to run it."
)
AFTER_RESTORED_TEXT = N_(
    "Not run and not sent: “{command}” follows restored text. Press Enter again to send both as a message, or remove "
    "the text before it to run it."
)
_CALL = re.compile(r"![\w.-]+/[\w./-]+(?:\s|\Z)")
# A placeholder has brackets in every language.
_BRACKETED = re.compile(r"\[[^\[\]]*\]")


class WrittenText(Protocol):
    """Interface of the composer's `Draft`: unsent text, and how it was entered."""

    @property
    def text(self) -> str:
        """The text."""
        ...

    @property
    def origin(self) -> str:
        """How the text was entered; one of the values of `TextOrigin`."""
        ...

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the servers whose prompts the text contains."""
        ...

    @property
    def is_call(self) -> bool:
        """Whether the text looks like a manual tool call."""
        ...

    @property
    def is_command(self) -> bool:
        """Whether the text is a known slash command."""
        ...


def describe_origin(draft: WrittenText, lines: int, *, is_unsure: bool = False) -> str:
    """Return a hint about what Enter does with text that was not typed, or "" if no hint is needed.

    *lines* is the number of lines in the composer; *draft* may contain only the beginning of the text. *is_unsure* is
    true if the text counts as inserted only because its keys arrived as fast as a paste, so that the user may have
    typed it.
    """
    if draft.origin == "typed":
        return ""
    what = _("call") if draft.is_call else _("command") if draft.is_command else ""
    if what and is_unsure:
        return _("Perhaps pasted, so not run. Enter twice sends it as a message.")
    if what and draft.origin == "mixed":
        return _("Partly not typed: type the {what} to run it, or start with a space.").format(what=what)
    if draft.sources:
        count = _(", {lines:,} lines").format(lines=lines) if lines > 1 else ""
        return _("Text from {source}{count}: enter sends it as a message.").format(
            source=clean_line(join_list(draft.sources), 24), count=count
        )
    if what:
        return _("Not typed: enter sends it as a message. Type the {what} to run it.").format(what=what)
    return ""


class SendConfirmation:
    """Check whether the user must press Enter twice to send text that looks like a command or tool call.

    Only typed text is run as a command; pasted text is sent. A second Enter is required if it is unclear whether the
    text was typed or pasted. It is also required if the command was typed after text that mcphost had put back into the
    composer, because the user may not have noticed that text.
    """

    def __init__(self) -> None:
        self.is_unsure = False
        """Whether the text counts as inserted only because its keys arrived as fast as a paste."""

        self.restored = ""
        """The restored text at the beginning of the draft, or "" if there is none."""

        self._asked = ""

    def reset(self) -> None:
        """Discard the recorded state, because the text was replaced or removed."""
        self.is_unsure, self.restored, self._asked = False, "", ""

    def ask(self, draft: WrittenText) -> str:
        """Return the reason why a second Enter is needed, or "" if the draft can be sent.

        If the last call returned a reason and the text has not changed since, return "".
        """
        if draft.text == self._asked:
            return ""
        question = ""
        if draft.origin != "typed" and self.is_unsure and (draft.is_call or draft.is_command):
            question = _(UNSURE_CALL)
        elif self.restored and draft.text.startswith(self.restored):
            added = draft.text[len(self.restored) :].strip()
            command = parse_slash_command(added)
            if (command is not None and command.is_complete) or _CALL.match(added):
                question = _(AFTER_RESTORED_TEXT).format(command=clean_line(added, 30))
        self._asked = draft.text if question else ""
        return question


class FoldedPastes:
    """Long pastes, each represented in the composer by a placeholder such as `[pasted 40 lines]`.

    A placeholder can only be edited as a whole, so that no part of a paste is lost by typing into its placeholder.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._rows: dict[str, AttachmentRow] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no folded pastes."""
        return not self._texts

    def list_used(self, text: str) -> tuple[str, ...]:
        """Return the placeholders that are still in *text*, without duplicates, in order of occurrence."""
        if not self._texts:
            return ()
        return tuple(dict.fromkeys(match[0] for match in self._matches(text)))

    def build_row(self, placeholder: str) -> "AttachmentRow":
        """Return the row for the paste with this placeholder in the list of attachments.

        The paste's tokens are estimated only once.
        """
        if placeholder not in self._rows:
            from mcphost.tui.widgets.attachment_rows import build_paste_row

            self._rows[placeholder] = build_paste_row(placeholder, self._texts[placeholder])
        return self._rows[placeholder]

    def fold(self, text: str) -> str | None:
        """Store a long paste and return its placeholder; return None if *text* is too short to be folded."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines < FOLDED_LINES and len(text) < FOLDED_LENGTH:
            return None
        size = (
            _("{lines:,} lines").format(lines=lines)
            if lines > 1
            else _("{text_count:,} characters").format(text_count=len(text))
        )
        placeholder, number = f"[{_('pasted {size}').format(size=size)}]", 1
        while placeholder in self._texts:
            number += 1
            placeholder = f"[{_('pasted {size} #{number}').format(size=size, number=number)}]"
        self._texts[placeholder] = text
        return placeholder

    def expand(self, text: str) -> str:
        """Return the text with each placeholder replaced by its paste.

        Only the first occurrence of a placeholder is replaced; further occurrences were typed by the user.
        """
        if not self._texts:
            return text
        used: set[str] = set()

        def restore(match: re.Match[str]) -> str:
            if match[0] in used:
                return match[0]  # text written by the user
            used.add(match[0])
            return self._texts.get(match[0], match[0])

        return _BRACKETED.sub(restore, text)

    def clear(self) -> None:
        """Remove all pastes."""
        self._texts.clear()
        self._rows.clear()

    def find_before(self, line: str, column: int) -> tuple[str, int] | None:
        """Return the placeholder that ends at *column* of *line*, and the column at which it begins.

        Return None if no placeholder ends at *column*.
        """
        found = next((match for match in self._matches(line) if match.end() == column), None)
        return None if found is None else (found[0], found.start())

    def extend_edit(self, edit: "Edit", lines: Sequence[str]) -> None:
        """Extend an edit so that it replaces whole placeholders.

        *lines* are the lines of the text before the edit.
        """
        if not self._texts:
            return
        start, end = sorted((edit.from_location, edit.to_location))
        is_insertion = start == end
        edit.from_location = self._move_out(start, lines, to_end=is_insertion)
        edit.to_location = edit.from_location if is_insertion else self._move_out(end, lines, to_end=True)

    def _move_out(self, location: tuple[int, int], lines: Sequence[str], *, to_end: bool) -> tuple[int, int]:
        row, column = location
        for match in self._matches(lines[row]) if row < len(lines) else ():
            if match.start() < column < match.end():
                return row, match.end() if to_end else match.start()
        return location

    def _matches(self, line: str) -> list[re.Match[str]]:
        return [match for match in _BRACKETED.finditer(line) if match[0] in self._texts] if self._texts else []


def parse_pasted_paths(text: str) -> tuple[str, ...]:
    """Return the file paths in a paste, or () if the paste contains anything other than paths.

    Paths may be plain, quoted, escaped or `file://` URLs, as terminals paste them when the user drags files into
    the window. Only absolute paths and paths that begin with `~/` are accepted. If there are more than 20 paths,
    return ().
    """
    text = text.strip()
    if not text or len(text) > MAX_PATH_TEXT or not text.startswith(("/", "~/", "'", '"', "file://")):
        return ()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    plain = [_parse_path(line) for line in lines]
    if all(plain) and (len(lines) > 1 or "\\" not in text) and " /" not in text and " file://" not in text:
        words = plain
    else:
        import shlex  # needed only for quoted paths

        try:
            words = [_parse_path(word) for word in shlex.split(text)]
        except ValueError:
            return ()
    return tuple(words) if len(words) <= MAX_PATHS and all(words) else ()


def describe_path_offer(paths: Sequence[str]) -> str:
    """Return a hint that Tab attaches the files at the pasted *paths*."""
    files = _("{paths_count} files").format(paths_count=len(paths))
    what = clean_line(paths[0], 50) if len(paths) == 1 else files
    offer = ngettext(
        "Tab attaches {what} in place of the path.", "Tab attaches {what} in place of the paths.", len(paths)
    )
    return offer.format(what=what)


def _parse_path(word: str) -> str:
    """Return the path in a word, or "" if it is not an accepted path."""
    if word.startswith("file://"):
        from mcphost.unicode_forms import split_url

        try:
            parts = split_url(word)
            word = unquote(parts.path, errors="strict") if parts.netloc in ("", "localhost") else ""
        except ValueError:  # UnicodeDecodeError is a ValueError
            return ""
    is_path = word.startswith(("/", "~/")) and len(word) > 1 and word.isprintable()
    return word if is_path else ""
