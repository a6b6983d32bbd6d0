"""Messages from widgets to the app: what the user did, not what it means."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.message import Message

if TYPE_CHECKING:
    from mcphost.config.rules import Rule
    from mcphost.host.consent.grants import PastCall
    from mcphost.host.consent.rule_matching import RuleMatch
    from mcphost.host.tools.schema_validation import SchemaErrors
    from mcphost.sandbox.image_formats import DecodedImage


class Section(NamedTuple):
    """A part of a page: a heading written by mcphost, and a text that cannot imitate one.

    Every row of the text, and every continuation row of the heading, is drawn behind a bar.
    """

    heading: str
    text: str


def join_sections(sections: Sequence[Section]) -> str:
    """Return headings and texts as one text to copy."""
    return "\n\n".join(f"{one.heading}\n{one.text}" for one in sections)


class ImageDecodeRequested(Message):
    """A visible image (base64) is not decoded for this width and height in pixels.

    `on_decoded` receives the image, or a phrase that says why there is none.
    """

    def __init__(self, data: str, width: int, height: int, on_decoded: "Callable[[DecodedImage | str], None]") -> None:
        super().__init__()
        self.data, self.width, self.height, self.on_decoded = data, width, height, on_decoded


class AttachRequested(Message):
    """The user typed @ and selected a resource."""

    def __init__(self, server: str, uri: str) -> None:
        super().__init__()
        self.server = server
        self.uri = uri


class ScrollRequested(Message):
    """The user scrolled the conversation by this many pages; negative is up."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self.pages = pages


class DetachRequested(Message):
    """The user removed the newest attachment."""


class PromptRequested(Message):
    """The user selected a server's prompt."""

    def __init__(self, server: str, name: str) -> None:
        super().__init__()
        self.server = server
        self.prompt = name


class ActionRequested(Message):
    """The user clicked or selected an action of the keymap."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action


class LinkClicked(Message):
    """The user clicked a link; it is shown, never opened automatically."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


class TextViewRequested(Message):
    """The user opened a whole text; `on_end_shown` is called once its end was on the screen.

    `full_text_file` is the file with the whole text if `text` is only its beginning. `sections` replace `text`.
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
    """A rule was edited; `on_compared` receives whether it matches the call, and earlier calls, None if unreadable."""

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
    """The user edited the arguments of a call; `on_checked` receives the errors against the tool's schema."""

    def __init__(
        self, server: str, tool: str, arguments: dict[str, Any], on_checked: "Callable[[SchemaErrors], None]"
    ) -> None:
        super().__init__()
        self.server = server
        self.tool = tool
        self.arguments = arguments
        self.on_checked = on_checked


class EditorRequested(Message):
    """The user opened a text in their editor; `on_edited` receives the new text, or None and the error."""

    def __init__(self, text: str, on_edited: Callable[[str | None, str], None]) -> None:
        super().__init__()
        self.text = text
        self.on_edited = on_edited


class QrCodeRequested(Message):
    """The user opened a text as a QR code."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title = title
        self.text = text


class CopyRequested(Message):
    """The user copied a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ServerSelected(Message):
    """The user selected a server in the list."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self.server = server
