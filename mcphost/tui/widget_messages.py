"""Textual messages that widgets post to report user actions and send requests to the app."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from textual.message import Message
from textual.widget import Widget

from mcphost.translation import N_

if TYPE_CHECKING:
    from mcphost.config.rules import Rule
    from mcphost.host.consent.grants import PastCall
    from mcphost.host.consent.rule_matching import RuleMatch
    from mcphost.host.server_views import SchemaErrors
    from mcphost.sandbox.image_formats import DecodedImage


AttachmentAction = Literal["open", "remove", "refresh"]


class Section(NamedTuple):
    """One section of long text: a heading written by mcphost, and text that may come from a server.

    The viewer draws a bar before every row of the text, so that the text cannot imitate a heading. If the heading
    is too long for one row, the bar is also drawn before its continuation rows.
    """

    heading: str
    text: str


def join_sections(sections: Sequence[Section]) -> str:
    """Join the headings and texts of all sections, for the clipboard."""
    return "\n\n".join(f"{one.heading}\n{one.text}" for one in sections)


class ImageDecodeRequested(Message):
    """Posted when an image becomes visible, to have it decoded for display.

    `data` is the image in base64, and `width` and `height` are the maximum size in pixels. `on_decoded` is called
    with the decoded image, or with a phrase that states why the image cannot be shown.
    """

    def __init__(self, data: str, width: int, height: int, on_decoded: "Callable[[DecodedImage | str], None]") -> None:
        super().__init__()
        self.data, self.width, self.height, self.on_decoded = data, width, height, on_decoded


class AttachRequested(Message):
    """Posted when the user selects a resource from the "@" completions, to attach it to the message."""

    def __init__(self, server: str, uri: str) -> None:
        super().__init__()
        self.server = server
        self.uri = uri


class TemplateRequested(Message):
    """Posted when the user selects a resource template from the "@" completions, to attach one of its resources."""

    def __init__(self, server: str, uri_template: str) -> None:
        super().__init__()
        self.server = server
        self.uri_template = uri_template


class FileAttachRequested(Message):
    """Posted when the user chooses a file to attach; `path` may end with a line range such as `:10-40`.

    `on_failure` is called if the file cannot be attached.
    """

    def __init__(self, path: str, on_failure: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.path, self.on_failure = path, on_failure


class PathsPasted(Message):
    """Posted when the user pastes text that may be file paths.

    `on_found` is called with the paths if all of them exist.
    """

    def __init__(self, paths: tuple[str, ...], on_found: Callable[[tuple[str, ...]], None]) -> None:
        super().__init__()
        self.paths, self.on_found = paths, on_found


class ClipboardImageRequested(Message):
    """Posted when the user presses Ctrl+V, to attach the image in the system clipboard.

    `on_none` is called if the clipboard contains no image; it pastes the text that was last copied in this app. If no
    text was copied, `on_none` is None.
    """

    def __init__(self, on_none: Callable[[], None] | None) -> None:
        super().__init__()
        self.on_none = on_none


class ScrollRequested(Message):
    """Posted when the user scrolls the conversation while the composer has the focus.

    Negative `pages` scroll up.
    """

    def __init__(self, pages: int) -> None:
        super().__init__()
        self.pages = pages


class AttachmentRequested(Message):
    """Posted when the user opens, removes or refreshes an attachment of the message being written.

    `index` is the position of the attachment.
    """

    def __init__(self, action: AttachmentAction, index: int) -> None:
        super().__init__()
        self.action: AttachmentAction = action
        self.index = index


class PromptRequested(Message):
    """Posted when the user selects a server's prompt from the "/" completions."""

    def __init__(self, server: str, name: str) -> None:
        super().__init__()
        self.server = server
        self.prompt = name


class ActionRequested(Message):
    """Posted when the user clicks the label of a global action, or selects the action from the "/" completions.

    *argument* is passed to the action, for example a call's id, or is "" if the action takes no argument.
    """

    def __init__(self, action: str, argument: str = "") -> None:
        super().__init__()
        self.action = f"{action}({argument!r})" if argument else action


class LinkClicked(Message):
    """Posted when the user clicks a link.

    The app only displays the URL and never opens it.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


class TextViewRequested(Message):
    """Posted when the user opens long text in the viewer.

    - `full_text_file`: if `text` is only the beginning, the name of the file that contains the full text.
    - `sections`: if given, they are shown instead of `text`.
    - `on_end_shown`: called once the end of the text has been visible.
    - `language`: the programming language of the text, for syntax highlighting, or "".
    """

    def __init__(
        self,
        title: str,
        text: str,
        on_end_shown: Callable[[], None] | None = None,
        *,
        full_text_file: str = "",
        sections: Sequence[Section] = (),
        language: str = "",
    ) -> None:
        super().__init__()
        self.sections, self.language = sections, language
        self.full_text_file = full_text_file
        self.title = title
        self.text = text
        self.on_end_shown = on_end_shown


class RulePreviewRequested(Message):
    """Posted when the user edits a permission rule, to show which tool calls the rule would match.

    `on_compared` is called with two values. The first is whether the rule matches the tool call given by `tool` and
    `arguments`. The second lists earlier tool calls in stored conversations, each with whether the rule matches it, or
    is None if the stored conversations cannot be read.
    """

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
    """Posted when the user edits the arguments of a tool call, to have them validated.

    `on_checked` is called with SchemaErrors that contain the violations of the tool's input schema. The object is falsy
    if there are none.
    """

    def __init__(
        self, server: str, tool: str, arguments: dict[str, Any], on_checked: "Callable[[SchemaErrors], None]"
    ) -> None:
        super().__init__()
        self.server = server
        self.tool = tool
        self.arguments = arguments
        self.on_checked = on_checked


class EditorRequested(Message):
    """Posted when the user asks to edit text in an external editor.

    `name` is the name of the file that the editor opens. `on_edited` is called with two values: the edited text and "",
    or None and an error message if editing failed.
    """

    def __init__(self, text: str, on_edited: Callable[[str | None, str], None], name: str = "arguments.json") -> None:
        super().__init__()
        self.text = text
        self.on_edited = on_edited
        self.name = name


class QrCodeRequested(Message):
    """Posted when the user wants to see text, such as a URL, as a QR code."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title = title
        self.text = text


class EditRequested(Message):
    """Posted when the user wants to edit a message.

    `index` is the position of the message among the user's messages, starting at 0.
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index


class BackgroundRequested(Message):
    """Posted when the user wants the turn to continue without waiting for a running tool call.

    `call` is the id of the call.
    """

    def __init__(self, call: str) -> None:
        super().__init__()
        self.call = call


class QueueRow(NamedTuple):
    """A message in the list of queued messages.

    If `is_steering` is true, the message has been passed to the running turn and reaches the model after the next tool
    call. Any other message is sent after the current answer.
    """

    text: str
    is_steering: bool = False
    has_attachments: bool = False


class QueueRecallRequested(Message):
    """Posted when the user wants to move a queued message back to the composer, or to remove it.

    The message is removed if `is_removal` is true. `place` is the position and the text of the message, or None for
    the newest message.
    """

    def __init__(self, place: tuple[int, str] | None = None, *, is_removal: bool = False) -> None:
        super().__init__()
        self.place = place
        self.is_removal = is_removal


class SteerRequested(Message):
    """Posted when the user wants a queued message to be sent with the next tool results of the running answer."""


class CopyRequested(Message):
    """Posted when the user copies text to the clipboard.

    `confirmation` is the notification to show once the text is copied.
    """

    def __init__(self, text: str, confirmation: str = N_("Copied.")) -> None:
        super().__init__()
        self.text, self.confirmation = text, confirmation


class CursorMoved(Message):
    """Posted when the current item of the focused widget has changed or moved.

    The app then moves the terminal's cursor to the item for screen readers. The property `cursor_screen_offset` of
    `widget` is the position of the item on the screen.
    """

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget


class ServerSelected(Message):
    """Posted when the user clicks a server in the sidebar."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self.server = server
