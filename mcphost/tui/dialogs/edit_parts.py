"""The texts of a result to edit, one part at a time: a selection is taken out wherever it stands, a part left out."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from mcphost.host.questions.result_review_questions import Piece
from mcphost.pluralize import counted
from mcphost.tui.dialogs.result_view import label
from mcphost.tui.screen_text import clean
from mcphost.tui.widgets.ordered_input import TextBlock

REDACTED = "[redacted]"
EDITABLE = 50_000
"""Characters of a text that can be edited here; what is longer is trimmed first, or left out."""
ALIKE = 4
"""A selection of so many characters is taken out of every other place, too: a key is rarely there once."""


class EditParts(Vertical):
    """What is edited counts only once somebody takes it over."""

    DEFAULT_CSS = """
    EditParts { height: auto; }
    EditParts #part { height: auto; color: $muted; }
    EditParts TextArea { background: $surface; border: none; }
    EditParts #told { height: auto; color: $warning; }
    """

    class Told(Message):
        """What is said below the text changed."""

    def __init__(self, parts: Sequence[Piece], texts: Sequence[str | None], rows: int) -> None:
        super().__init__()
        self._parts = parts
        self._texts = list(texts)
        self._shown = [_shown(text) for text in texts]
        self._rows = rows
        self._at = 0

    def compose(self) -> ComposeResult:
        yield Static("", id="part", markup=False)
        yield TextBlock(id="text", compact=True, soft_wrap=True, show_line_numbers=False)
        yield Static("", id="told", markup=False)

    def on_mount(self) -> None:
        """Begin with the first part."""
        self.query_one(TextArea).styles.height = self._rows
        self._open()

    @property
    def texts(self) -> list[str | None]:
        """All texts as edited so far; one that was not touched is what it was, hidden characters included."""
        self._hold()
        return self._texts

    @property
    def _is_long(self) -> bool:
        return len(self._texts[self._at] or "") > EDITABLE

    def _open(self) -> None:
        part, text, area = self._parts[self._at], self._texts[self._at], self.query_one(TextArea)
        count = len(self._parts)
        place = f"part {self._at + 1} of {count} · " if count > 1 else ""
        self.query_one("#part", Static).update(Content(place + label(part)))
        area.read_only = text is None or self._is_long
        area.text = "" if area.read_only else self._shown[self._at] or ""
        area.move_cursor((0, 0))
        self.screen.set_focus(area)
        if text is None:
            self.tell("It is left out; ctrl+o puts it back.")
        elif self._is_long:
            self.tell(
                f"{len(text):,} characters are too long to edit here: trim them (esc, t), or leave it out (ctrl+o)."
            )
        else:
            self.tell("")

    def _hold(self) -> None:
        """Keep what the text on the screen has become."""
        area = self.query_one(TextArea)
        if not area.read_only and area.text != self._shown[self._at]:
            self._texts[self._at] = self._shown[self._at] = area.text

    def step(self, by: int) -> None:
        """To another part."""
        self._hold()
        self._at = (self._at + by) % len(self._parts)
        self._open()

    def leave_out(self) -> None:
        """Leave this part out, or put it back as it came."""
        self._hold()
        at = self._at
        self._texts[at] = self._parts[at].text if self._texts[at] is None else None
        self._shown[at] = _shown(self._texts[at])
        self._open()

    def redact(self) -> None:
        """Take the selection out, and everything that is the same, in every part."""
        area = self.query_one(TextArea)
        chosen = area.selected_text
        if not chosen.strip():
            self.tell("Select what is to be taken out (shift and the arrows), then ctrl+r.")
            return
        area.replace(REDACTED, *area.selection)
        self._hold()
        places = 1
        if len(chosen) >= ALIKE:
            for at, text in enumerate(self._shown):
                if text is not None and (found := text.count(chosen)):
                    places += found
                    self._texts[at] = self._shown[at] = text.replace(chosen, REDACTED)
            if area.text != self._shown[self._at] and not area.read_only:
                area.text = self._shown[self._at] or ""
        self.tell(f"Taken out in {counted(places, 'place')}.")

    def tell(self, text: str) -> None:
        """Say something below the text."""
        told = self.query_one("#told", Static)
        told.display = bool(text)
        told.update(Content(clean(text[:1_000])))
        self.post_message(self.Told())


def _shown(text: str | None) -> str | None:
    """As it can be edited; what is too long for that is not drawn, and cleaning it would hold up the screen."""
    return text if text is None or len(text) > EDITABLE else clean(text)
