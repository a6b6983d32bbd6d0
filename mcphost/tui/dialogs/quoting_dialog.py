"""Base class for dialogs that quote text, which may be long, from a server or a model."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType

from mcphost.host.questions.frontend import Question
from mcphost.translation import _
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean_beginning
from mcphost.tui.widget_messages import Section, TextViewRequested
from mcphost.tui.widgets.key_values import QuotedPart, QuotedText

# Laying out more would block the program for too long. The limits apply to all quoted texts of a dialog together.
MAX_QUOTED_CHARACTERS = 20_000
MAX_QUOTED_LINES = 500
A = TypeVar("A")


class QuotingDialog(Dialog[A]):
    """Dialog that shows the beginning of the quoted text; the `v` key opens a viewer that shows all of it.

    If the dialog does not show all of the text, the user must read it to the end in the viewer before approving.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("v", "view", show=False)]

    def __init__(self, question: Question[A]) -> None:
        super().__init__(question)
        self._quotes: tuple[QuotedPart, ...] = ()
        self._shown: list[QuotedPart] = []
        self.omitted_characters = 0
        self.is_fully_shown = False

    def quote(self, parts: Iterable[QuotedPart]) -> QuotedText:
        """Create the widget that shows the beginning of *parts*.

        Do not sanitize the text of *parts*; the dialog and the viewer do this.
        """
        quotes = tuple(parts)
        if quotes != self._quotes:
            self._quotes, self.is_fully_shown = quotes, False
            self._shown, self.omitted_characters = show_beginning(quotes)
        return QuotedText(self._shown)

    def quote_statement(self, text: str) -> QuotedText:
        """Create a widget with a heading and, below it, the beginning of *text*, which the server wrote."""
        return self.quote([QuotedPart(_("The server says:"), "$faint", is_heading=True), QuotedPart(text)])

    def reminder(self) -> str:
        """Return a reminder to read the rest of a long text, or "" once the user has read all of it."""
        if not self.omitted_characters or self.is_fully_shown:
            return ""
        return _("{omitted_characters:,} characters are not shown here: read them with v, to the end").format(
            omitted_characters=self.omitted_characters
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the viewer while a field has the focus, or if the dialog already shows everything."""
        if action == "view" and (not self.omitted_characters or self.is_field_focused):
            return False
        return super().check_action(action, parameters)

    def action_view(self) -> None:
        """Open all quoted text in the full-screen viewer; the dialog stays open behind it."""
        viewed = self._quotes

        def seen() -> None:
            self.is_fully_shown = self.is_fully_shown or self._quotes == viewed
            self.update_remaining()

        self.post_message(TextViewRequested(self.headline(), "", seen, sections=tuple(make_sections(viewed))))


def show_beginning(parts: Iterable[QuotedPart]) -> tuple[list[QuotedPart], int]:
    """Return the beginning of *parts*, sanitized, and the number of characters that were omitted.

    If characters were omitted, the last returned part is a line that states their number.
    """
    shown: list[QuotedPart] = []
    omitted, room, lines = 0, MAX_QUOTED_CHARACTERS, MAX_QUOTED_LINES
    for part in parts:
        if omitted or lines <= 0:
            omitted += len(part.text)
            continue
        text, omitted = clean_beginning(part.text, room, lines - 1)
        shown.append(QuotedPart(text, part.style, part.is_heading))
        room, lines = room - len(text), lines - 1 - text.count("\n")
    if omitted:
        more = _("\n… {rest:,} more characters: v shows all of it").format(rest=omitted).removeprefix("\n")
        shown.append(QuotedPart(more, "$warning", is_heading=True))
    return shown, omitted


def make_sections(parts: Iterable[QuotedPart]) -> Iterator[Section]:
    """Yield *parts* as sections for the viewer, which sanitizes them.

    Each non-empty heading starts a new section.
    """
    heading, texts = "", list[str]()
    for part in parts:
        if not part.is_heading:
            texts.append(part.text)
        elif part.text:
            if heading or texts:
                yield Section(heading, "\n".join(texts))
            heading, texts = f"── {part.text}", []
    yield Section(heading, "\n".join(texts))
