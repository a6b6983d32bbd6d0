"""Card of a question that waits while the user writes: its subject and the key that opens it."""

from typing import ClassVar

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from mcphost.tui.messages import ActionRequested

ENTER_HINT = "Press F8 or click to open · your typing stays in the message"
_SHORT_ENTER_HINT = "Press F8 or click to open"
_FRAME_CELLS = 8
_TITLE_ROWS = 2


class QuestionCard(Widget):
    """Card that takes neither focus nor keys."""

    can_focus = False
    DEFAULT_CSS: ClassVar[str] = """
    QuestionCard {
        height: auto; margin: 0 1; padding: 0 1; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; border-subtitle-color: $muted;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: tuple[str, tuple[str, ...], str] = ("", (), "")

    def set_texts(self, title: str, lines: tuple[str, ...], queue_position: str) -> None:
        """Set the texts, all sanitized.

        *title* says who wants what, *lines* are the subject, *waiting* is the number of questions.
        """
        if (title, lines, queue_position) != self._texts:
            self._texts = (title, lines, queue_position)
            self.border_title = Content(f"◆ {title}")
            self.border_subtitle = Content(queue_position) if queue_position else None
            self.refresh(layout=True)

    def _rows(self, width: int) -> list[Content]:
        title, lines, _ = self._texts
        rows = [Content.styled(line, "$text").truncate(width, ellipsis=True) for line in lines if line]
        if len(title) + _FRAME_CELLS > width:  # the frame has no space for all of it
            rows = [*Content.styled(title, "bold $warning").wrap(width)[:_TITLE_ROWS], *rows]
        return [*rows, Content.styled(ENTER_HINT if len(ENTER_HINT) <= width else _SHORT_ENTER_HINT, "$accent")]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows."""
        del container, viewport
        return len(self._rows(max(1, width)))

    def render(self) -> Content:
        """Return the subject and the key."""
        return Content("\n").join(self._rows(max(1, self.content_size.width)))

    def on_click(self, event: events.Click) -> None:
        """Open the question."""
        event.stop()
        self.post_message(ActionRequested("answer"))
