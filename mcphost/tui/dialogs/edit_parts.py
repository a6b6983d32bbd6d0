"""Editor for the texts of a result, one part at a time, with redaction and omission of parts."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from mcphost.host.questions.questions import ResultPart
from mcphost.pluralize import pluralize
from mcphost.tui.dialogs.result_view import describe_part
from mcphost.tui.screen_text import clean
from mcphost.tui.widgets.ordered_input import OrderedTextArea

REDACTED = "[redacted]"
MAX_EDITABLE_CHARACTERS = 50_000
"""Maximum characters of an editable text; a longer one must be trimmed or omitted."""
MIN_REPLACE_ALL_LENGTH = 4
"""Minimum length of a selection that is redacted everywhere: a secret often appears more than once."""


class ResultPartsEditor(Vertical):
    """Editor widget; the caller reads `texts` to apply the edits."""

    DEFAULT_CSS = """
    ResultPartsEditor { height: auto; }
    ResultPartsEditor #part { height: auto; color: $muted; }
    ResultPartsEditor TextArea { background: $surface; border: none; }
    ResultPartsEditor #status { height: auto; color: $warning; }
    """

    class StatusChanged(Message):
        """The status line below the text changed."""

    def __init__(self, parts: Sequence[ResultPart], texts: Sequence[str | None], rows: int) -> None:
        super().__init__()
        self._parts = parts
        self._texts = list(texts)
        self._editable_texts = [_editable_text(text) for text in texts]
        self._rows = rows
        self._index = 0

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield Static("", id="part", markup=False)
        yield OrderedTextArea(id="text", compact=True, soft_wrap=True, show_line_numbers=False)
        yield Static("", id="status", markup=False)

    def on_mount(self) -> None:
        """Show the first part."""
        self.query_one(TextArea).styles.height = self._rows
        self._show_part()

    @property
    def texts(self) -> list[str | None]:
        """All texts with their edits; an untouched one is unchanged, including hidden characters."""
        self._save_edits()
        return self._texts

    @property
    def _is_long(self) -> bool:
        return len(self._texts[self._index] or "") > MAX_EDITABLE_CHARACTERS

    def _show_part(self) -> None:
        part, text, area = self._parts[self._index], self._texts[self._index], self.query_one(TextArea)
        count = len(self._parts)
        place = f"part {self._index + 1} of {count} · " if count > 1 else ""
        self.query_one("#part", Static).update(Content(place + describe_part(part)))
        area.read_only = text is None or self._is_long
        area.text = "" if area.read_only else self._editable_texts[self._index] or ""
        area.move_cursor((0, 0))
        self.screen.set_focus(area)
        if text is None:
            self.show_status("Not sent; ctrl+o restores it.")
        elif self._is_long:
            self.show_status(
                f"{len(text):,} characters are too many to edit here: trim them (esc, t) or omit the part (ctrl+o)."
            )
        else:
            self.show_status("")

    def _save_edits(self) -> None:
        """Store the edits of the text on the screen."""
        area = self.query_one(TextArea)
        if not area.read_only and area.text != self._editable_texts[self._index]:
            self._texts[self._index] = self._editable_texts[self._index] = area.text

    def step(self, by: int) -> None:
        """Show another part."""
        self._save_edits()
        self._index = (self._index + by) % len(self._parts)
        self._show_part()

    def toggle_omitted(self) -> None:
        """Omit this part, or restore its original text."""
        self._save_edits()
        at = self._index
        self._texts[at] = self._parts[at].text if self._texts[at] is None else None
        self._editable_texts[at] = _editable_text(self._texts[at])
        self._show_part()

    def redact(self) -> None:
        """Replace the selection by REDACTED; a long one in every place of every part."""
        area = self.query_one(TextArea)
        chosen = area.selected_text
        if not chosen.strip():
            self.show_status("Select text with shift and the arrows, then press ctrl+r.")
            return
        area.replace(REDACTED, *area.selection)
        self._save_edits()
        places = 1
        if len(chosen) >= MIN_REPLACE_ALL_LENGTH:
            for at, text in enumerate(self._editable_texts):
                if text is not None and (count := text.count(chosen)):
                    places += count
                    self._texts[at] = self._editable_texts[at] = text.replace(chosen, REDACTED)
            if area.text != self._editable_texts[self._index] and not area.read_only:
                area.text = self._editable_texts[self._index] or ""
        self.show_status(f"Redacted in {pluralize(places, 'place')}.")

    def show_status(self, text: str) -> None:
        """Show a message below the text."""
        status = self.query_one("#status", Static)
        status.display = bool(text)
        status.update(Content(clean(text[:1_000])))
        self.post_message(self.StatusChanged())


def _editable_text(text: str | None) -> str | None:
    """Return the text sanitized for editing; one too long to edit is not drawn, and sanitizing it is slow."""
    return text if text is None or len(text) > MAX_EDITABLE_CHARACTERS else clean(text)
