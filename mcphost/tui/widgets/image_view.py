"""Widget that shows an image as large as possible, or nothing if the terminal cannot show images."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, cast

from rich.segment import Segment
from textual.app import App
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from mcphost.llm.messages import ImagePart
from mcphost.sandbox.image_formats import DecodedImage, fit_size
from mcphost.translation import _
from mcphost.tui.image_cache import images_unsupported_reason
from mcphost.tui.screen_text import clean_line
from mcphost.tui.transcript.image_block import MAX_COLUMNS, MAX_ROWS, detect_image, render_half_blocks
from mcphost.tui.widget_messages import ImageDecodeRequested

MAX_IMAGES = 4
"""Maximum number of images that a question shows, one below the other."""


class ImageView(Widget):
    """Widget that shows one image, at most *rows* rows high and *columns* columns wide.

    The widget is blank until the image has been decoded.
    """

    DEFAULT_CSS = "ImageView { width: 1fr; height: auto; }"

    def __init__(
        self,
        part: ImagePart | None = None,
        *,
        rows: int = MAX_ROWS,
        columns: int = MAX_COLUMNS,
        id: str | None = None,  # noqa: A002 - Textual's own parameter name
    ) -> None:
        super().__init__(id=id)
        self._max_cells = columns, rows
        self._strips: list[Strip] = []
        self._reset_image(part)

    def show_image(self, part: ImagePart | None) -> None:
        """Show the image *part*; if it is None, show no image.

        Do nothing if the image is already shown.
        """
        if part != self.part:
            self._reset_image(part)

    def _reset_image(self, part: ImagePart | None) -> None:
        self.part, self.kind = part, detect_image(part) if part is not None else None
        self.drawing: DecodedImage | None = None
        self.failure_reason = ""
        self._requested_size = (0, 0)
        self._repaint()

    def on_mount(self) -> None:
        """Show or hide the widget, and request the decoded image once the layout is known."""
        self._repaint()

    def _repaint(self) -> None:
        self._strips = []
        if self.is_attached:
            app = cast("App[Any]", self.app)  # pyright: ignore[reportUnknownMemberType]
            self.display = self.kind is not None and not images_unsupported_reason(app)
            self.refresh(layout=True)
            self.call_after_refresh(self._request_drawing)

    def on_resize(self) -> None:
        """Request the decoded image again, scaled for the new size.

        This is not done in `render_line`, because messages posted during rendering are lost.
        """
        self._request_drawing()

    def _cell_size(self, width: int, height: int) -> tuple[int, int]:
        if self.kind is None:
            return 0, 0
        columns, rows = self._max_cells
        rows = max(1, min(rows, height))
        across, pixels = fit_size(self.kind.width, self.kind.height, max(1, min(columns, width)), rows * 2)
        return across, -(-pixels // 2)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the image's height in rows, which is known before decoding so that the layout stays stable."""
        return self._cell_size(width, container.height or self._max_cells[1])[1]

    def render_line(self, y: int) -> Strip:
        """Render one row of the image, or the reason why the image cannot be shown."""
        width = self.size.width
        style = self.visual_style.rich_style
        if self.failure_reason and y == 0:
            told = clean_line(
                _("This image cannot be drawn: {failure_reason}.").format(failure_reason=self.failure_reason), width
            )
            return Strip([Segment(told, style)]).adjust_cell_length(width, style)
        if self.drawing is not None and not self._strips:
            self._strips = render_half_blocks(self.drawing, self.background_colors[1])
        row = self._strips[y] if y < len(self._strips) else Strip.blank(0)
        return row.adjust_cell_length(width, style)

    def notify_style_update(self) -> None:
        """Discard the rendered rows, because the background color may have changed."""
        super().notify_style_update()
        self._strips = []

    def _request_drawing(self) -> None:
        part, (columns, rows) = self.part, self._cell_size(*self.size)
        sides = columns, rows * 2
        if (
            part is None
            or self.failure_reason
            or not (self.display and self.size.height and columns)
            or self._requested_size == sides
        ):
            return
        self._requested_size = sides

        def answered(answer: DecodedImage | str) -> None:
            """Show the decoded image or an error, unless another image or size has been requested since."""
            if self.part is not part or self._requested_size != sides:
                return
            if isinstance(answer, str):
                self.failure_reason = answer
            else:
                self.drawing = answer
            self._strips = []
            self.refresh()

        self.post_message(ImageDecodeRequested(part.data, *sides, answered))


def create_image_views(pictures: Iterable[str]) -> list[ImageView]:
    """Create a widget for each of the first 4 images.

    *pictures* yields the base64 data of each image.
    """
    return [ImageView(ImagePart("", data)) for data in islice(pictures, MAX_IMAGES)]
