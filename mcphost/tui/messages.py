"""The messages widgets send up: what the user did, never what it means."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.message import Message

if TYPE_CHECKING:
    from mcphost.config.rules import Rule
    from mcphost.host.consent.grants import PastCall
    from mcphost.host.consent.rule_matching import RuleMatch
    from mcphost.host.results.tool_schemas import SchemaErrors
    from mcphost.sandbox.image_formats import DecodedImage


class Section(NamedTuple):
    """A part of a page: a heading in words of mcphost, and a text that can fake none.

    Each row of the text stands behind a bar, and so does each row that the heading continues on.
    """

    heading: str
    text: str


def join_sections(sections: Sequence[Section]) -> str:
    """Return headings and texts as one text, for copying."""
    return "\n\n".join(f"{one.heading}\n{one.text}" for one in sections)


class ImageDecodeRequested(Message):
    """A picture (base64) is in view and not decoded for these sides in pixels.

    `answered` gets the drawing, or half a sentence that says why there is none.
    """

    def __init__(self, data: str, width: int, height: int, on_decoded: "Callable[[DecodedImage | str], None]") -> None:
        super().__init__()
        self.data, self.width, self.height, self.on_decoded = data, width, height, on_decoded


class AttachRequested(Message):
    """The user typed @ and chose a resource."""

    def __init__(self, server: str, uri: str) -> None:
        super().__init__()
        self.server = server
        self.uri = uri


class ScrollRequested(Message):
    """The user wants to read on in the conversation, by so many pages; negative is back."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self.pages = pages


class DetachRequested(Message):
    """The user removed the newest attachment."""


class PromptRequested(Message):
    """The user chose a server's prompt."""

    def __init__(self, server: str, name: str) -> None:
        super().__init__()
        self.server = server
        self.prompt = name


class ActionRequested(Message):
    """The user clicked or chose an action of the table in `keys`."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action


class LinkClicked(Message):
    """The user clicked a link; it is shown, never opened by itself."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


class TextViewRequested(Message):
    """The user wants to see a whole text; `seen` is called when its end was on the screen.

    `kept` is the file with all of it, when `text` is the beginning only. `sections` are shown in place of `text`.
    """

    def __init__(
        self,
        title: str,
        text: str,
        on_end_shown: Callable[[], None] | None = None,
        *,
        full_text_file: str = "",
        sections: Sequence[Section] = (),
    ) -> None:
        super().__init__()
        self.sections = sections
        self.full_text_file = full_text_file
        self.title = title
        self.text = text
        self.on_end_shown = on_end_shown


class RulePreviewRequested(Message):
    """A rule is being written; `compared` gets whether it covers that call, and earlier calls, None if unreadable."""

    def __init__(
        self,
        rule: "Rule",
        tool: str,
        arguments: dict[str, Any],
        on_compared: "Callable[[RuleMatch, tuple[PastCall, ...] | None], None]",
    ) -> None:
        super().__init__()
        self.rule = rule
        self.tool = tool
        self.arguments = arguments
        self.on_compared = on_compared


class ArgumentCheckRequested(Message):
    """The user edited the arguments of a call; `checked` gets what does not fit the tool's schema."""

    def __init__(
        self, server: str, tool: str, arguments: dict[str, Any], on_checked: "Callable[[SchemaErrors], None]"
    ) -> None:
        super().__init__()
        self.server = server
        self.tool = tool
        self.arguments = arguments
        self.on_checked = on_checked


class EditorRequested(Message):
    """The user wants to edit a text in their own editor; `edited` gets it, or None and what went wrong."""

    def __init__(self, text: str, on_edited: Callable[[str | None, str], None]) -> None:
        super().__init__()
        self.text = text
        self.on_edited = on_edited


class QrCodeRequested(Message):
    """The user wants a text as a QR code."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title = title
        self.text = text


class CopyRequested(Message):
    """The user wants this text in the clipboard."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ServerSelected(Message):
    """The user chose a server in the list."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self.server = server
