"""A question that waits beside what the person is writing: what it is about, and how to enter it."""

from typing import ClassVar

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from mcphost.tui.messages import ActionWanted

HOW = "F8 or a click enters it · what you type stays in your message"
_SHORT_HOW = "F8 or a click enters it"
_FRAME_CELLS = 8
_TITLE_ROWS = 2


class QuestionCard(Widget):
    """Takes no focus and no key."""

    can_focus = False
    DEFAULT_CSS: ClassVar[str] = """
    QuestionCard {
        height: auto; margin: 0 1; padding: 0 1; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; border-subtitle-color: $muted;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: tuple[str, tuple[str, ...], str] = ("", (), "")

    def tell(self, title: str, lines: tuple[str, ...], waiting: str) -> None:
        """`title` says who wants what, `lines` what it is about, `waiting` how many questions wait; all of it clean."""
        if (title, lines, waiting) != self._told:
            self._told = (title, lines, waiting)
            self.border_title = Content(f"◆ {title}")
            self.border_subtitle = Content(waiting) if waiting else None
            self.refresh(layout=True)

    def _rows(self, width: int) -> list[Content]:
        title, lines, _ = self._told
        rows = [Content.styled(line, "$text").truncate(width, ellipsis=True) for line in lines if line]
        if len(title) + _FRAME_CELLS > width:  # the frame has no room for all of it
            rows = [*Content.styled(title, "bold $warning").wrap(width)[:_TITLE_ROWS], *rows]
        return [*rows, Content.styled(HOW if len(HOW) <= width else _SHORT_HOW, "$accent")]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as there are."""
        del container, viewport
        return len(self._rows(max(1, width)))

    def render(self) -> Content:
        """What it is about, and the key."""
        return Content("\n").join(self._rows(max(1, self.content_size.width)))

    def on_click(self, event: events.Click) -> None:
        """Enter the question."""
        event.stop()
        self.post_message(ActionWanted("answer"))
