"""Preview of an attachment before it is sent: its text, its image, or its kind and size."""

from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart
from mcphost.translation import _
from mcphost.tui.file_diff import detect_language
from mcphost.tui.image_cache import images_unsupported_reason
from mcphost.tui.screen_text import clean_line
from mcphost.tui.transcript.image_block import detect_image
from mcphost.tui.widget_messages import TextViewRequested
from mcphost.tui.widgets.attachment_rows import build_row
from mcphost.tui.widgets.image_view import ImageView
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.status_bars import KeyBar

if TYPE_CHECKING:
    from textual.app import App

MAX_PICTURE_ROWS = 60


def open_preview(app: "App[Any]", part: Part) -> None:
    """Open a preview of an attachment.

    Text is shown in the text viewer, with syntax highlighting; anything else is shown in an AttachmentPreview.
    """
    if isinstance(part, ResourcePart):
        row = build_row(part)
        app.post_message(TextViewRequested(f"{_(row.kind)}  {row.name}", part.text, language=choose_language(part)))
    elif isinstance(part, ImagePart | FilePart):
        app.push_screen(AttachmentPreview(part))


def choose_language(part: ResourcePart) -> str:
    """Guess the language for highlighting attached text from its name or media type; return "" if unknown.

    If the text is only a diff against an earlier version of a resource, return "diff".
    """
    from mcphost.tui.transcript.code_theme import LANGUAGES

    if part.whole:
        return "diff"
    path = part.uri.split("?")[0].rsplit(":", 1)[0] if part.uri[-1:].isdigit() and not part.server else part.uri
    subtype = part.mime_type.split(";")[0].rsplit("/", 1)[-1].removeprefix("x-")
    found = detect_language(path.split("?")[0].split("#")[0]) or (subtype if subtype in LANGUAGES else "")
    return found if found in LANGUAGES else ""


class AttachmentPreview(ScreenLifecycle, Screen[None]):
    """Preview of an image, or of a file that cannot be shown as text."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "leave", show=False)]
    DEFAULT_CSS = """
    AttachmentPreview #head { height: 1; background: $surface; padding: 0 2; text-overflow: ellipsis; }
    AttachmentPreview #facts { margin: 1 2; height: auto; color: $muted; }
    AttachmentPreview #space { height: 1fr; padding: 0 2; margin: 0 0 1 0; }
    AttachmentPreview KeyBar { dock: bottom; }
    """

    def __init__(self, part: ImagePart | FilePart) -> None:
        super().__init__()
        self.part = part

    def compose(self) -> ComposeResult:
        """Create the title, the details, the image (if the attachment is one) and the key bar."""
        row = build_row(self.part)
        name = clean_line(row.name, 120)
        yield Static(Content.assemble((f"{_(row.kind)}  ", "$faint"), (name, "bold $accent")), id="head", markup=False)
        facts = _("{mime_type} · {size} · about {tokens:,} tokens").format(
            mime_type=clean_line(self.part.mime_type, 60), size=row.size, tokens=row.tokens
        )
        yield Static(Content(f"{facts}{self._describe()}"), id="facts", markup=False)
        if isinstance(self.part, ImagePart):
            with Vertical(id="space"):
                yield ImageView(self.part, rows=MAX_PICTURE_ROWS, id="picture")
        yield KeyBar((("esc", _("back"), "screen.leave"),))

    def _describe(self) -> str:
        """Return the details of the attachment as text.

        For an image, these are its size in pixels and, if the image cannot be drawn, the reason. For any other file,
        the text states that the content cannot be shown.
        """
        if isinstance(self.part, FilePart):
            return _("\nThe content is sent as is and cannot be shown here.")
        kind = detect_image(self.part)
        if kind is None:
            return _("\nThis image cannot be shown.")
        reason = images_unsupported_reason(self.app)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        size = _(" · {width:,} × {height:,} pixels").format(width=kind.width, height=kind.height)
        return _("{size}\nIt cannot be drawn here. {reason}").format(size=size, reason=reason) if reason else size

    def action_leave(self) -> None:
        """Close the preview."""
        self.dismiss(None)
