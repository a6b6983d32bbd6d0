"""Basic blocks of the transcript: speaker headings, messages, Markdown, reasoning and notices."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from textual.content import Content
from textual.strip import Strip
from textual.style import Style

from mcphost.pluralize import format_dollars, translate_count
from mcphost.sanitize import is_shown_within
from mcphost.translation import N_, _, ngettext
from mcphost.tui.key_table import DEFAULT_KEYS
from mcphost.tui.screen_text import clean, clean_beginning, clean_line
from mcphost.tui.transcript.prefixed_content import PROSE_WIDTH, PrefixedContent, justify_ends
from mcphost.tui.widget_messages import Section

if TYPE_CHECKING:
    from mcphost.llm.messages import ResourcePart

_MAX_INLINE_THINKING = 20_000
"""Maximum characters of reasoning that unfold in place; longer reasoning opens in the viewer."""
_MAX_NOTICE_LENGTH = 4_000
_MAX_INLINE_MESSAGE = 10_000
_MAX_INLINE_LINES = 300
"""Maximum lines of reasoning that unfold in place, and of a message; all rows of a block are drawn at once."""
_MIN_FOLDED_LINES = 40
_FOLDED_LINES = 12
"""Lines of a long message that are shown until the user unfolds it."""
_MAX_SHOWN_ATTACHMENTS = 50
ACTIVATE_STYLE = Style.from_meta({"act": "enter"})


class TranscriptBlock:
    """Base class of the transcript's blocks.

    - `gap`: the number of blank rows before the block.
    - `height`: the number of rows including the gap. It is an estimate until `is_measured` is true.
    - `can_step`: whether the user can select the block with the keyboard.
    - `strips`: the rendered rows, or None if the block must be rendered.
    """

    gap = 1
    can_step = False
    full_text_file = ""
    """Path of the file with the full text, if the block contains only its beginning."""
    keys = DEFAULT_KEYS
    """The keys in use, which the transcript sets before it renders the block."""
    has_keys = False
    """Whether the transcript has the focus, so that its keys act on the block; set like `keys`."""

    has_cursor = False
    """Whether the transcript has the focus and this block is current, so that keys open it; set like `keys`."""

    def __init__(self) -> None:
        self.height = 1
        self.is_measured = False
        self.strips: list[Strip] | None = None

    @property
    def open_key(self) -> str:
        """The key that opens or unfolds the block, for use in hints, or "a click" if no key can open it now."""
        return (self.has_cursor and self.keys.short("conversation-open")) or _("a click")

    @property
    def is_running(self) -> bool:
        """Whether the block shows an operation that is still running, so that it must be redrawn periodically."""
        return False

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the content of the block for *width* columns; all text in it is sanitized."""
        raise NotImplementedError

    def estimate_height(self, width: int) -> int:
        """Estimate the height in rows, including the gap, without rendering the block."""
        del width
        return self.gap + 1

    def invalidate(self) -> None:
        """Discard the cached rows, so that the block is rendered again.

        Call this method after changing the block.
        """
        self.strips = None

    def activate(self) -> tuple[str, str] | None:
        """Handle Enter or a click by folding or unfolding the block, and return None.

        If the text is too long to unfold, return a title and the text instead; the caller opens them in the text
        viewer.
        """
        return None

    def sections(self) -> Sequence[Section]:
        """Return titled sections for the text viewer, which shows them instead of the text from `activate`.

        By default, return (); the viewer then shows the text.
        """
        return ()

    def copy_text(self) -> str:
        """Return the text to copy to the clipboard, or "" if there is none."""
        return ""

    def search_text(self) -> str:
        """Return the text to search, including folded text."""
        return self.copy_text()

    def reveal(self, pattern: re.Pattern[str], place: int) -> None:
        """Unfold the block as far as needed to show one match of *pattern*; by default, do nothing.

        *place* is the number of the match among all matches in `search_text`, counting from 0.
        """


def _estimate_rows(text: str, width: int) -> int:
    return text.count("\n") + len(text) // max(20, width) + 1


def label_model(name: str) -> str:
    """Return the display name for the model name in a stored message.

    The demo model's name is replaced by a label which states that it is not an AI.
    """
    if name != "demo":
        return name
    from mcphost.llm.demo_model import LABEL

    return LABEL


class SpeakerHeading(TranscriptBlock):
    """Heading above an answer: the speaker's name, a detail such as the model name, the cost, and the time.

    `cost` is in US dollars; a cost of 0 is not shown.
    """

    cost = 0.0
    _DEMO_LABEL = N_("demo (not an AI)")

    def __init__(self, name: str, detail: str = "", time: str = "", *, style: str = "bold") -> None:
        super().__init__()
        detail = _(detail) if detail == self._DEMO_LABEL else clean_line(detail, 80)
        self.name, self.detail, self.time, self.style = clean_line(name, 60), detail, time, style

    def render(self, width: int) -> list[PrefixedContent]:
        """Return one row with the speaker and the detail on the left, and the cost and the time on the right."""
        left = Content.assemble((self.name, self.style), ("  " + self.detail if self.detail else "", "$faint"))
        cost = format_dollars(self.cost) if self.cost else ""
        right = Content.styled("  ".join(filter(None, (cost, self.time))), "$faint")
        return [PrefixedContent("", "", justify_ends(left, right, min(width, PROSE_WIDTH)))]


def remove_heading_gaps(blocks: Sequence[TranscriptBlock]) -> None:
    """Remove the gap between each heading and the block below it."""
    for before, block in pairwise(blocks):
        if isinstance(before, SpeakerHeading):
            block.gap = 0


class UserMessage(TranscriptBlock):
    """Message from the user, shown as plain text with the names of its attachments.

    - `source`: a description of the MCP prompt from which the message was inserted, or "" if there is none.
    - `is_automatic`: whether mcphost wrote the message instead of the user.
    - `resources`: for each attachment, its server and URI, or None if it is not a resource.
    - `outdated`: the (server, URI) pairs of the attached resources that have changed since the message was sent.
    """

    gap = 1
    can_step = True

    def __init__(
        self,
        text: str,
        attachment_names: tuple[str, ...] = (),
        time: str = "",
        source: str = "",
        resources: tuple[tuple[str, str] | None, ...] = (),
        *,
        is_automatic: bool = False,
    ) -> None:
        super().__init__()
        self.is_automatic = is_automatic
        self.text, self.attachment_names, self.time, self.source = text, attachment_names, time, source
        self.resources = resources
        self.outdated: frozenset[tuple[str, str]] = frozenset()
        self.is_expanded = False

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the message, folded or truncated if it is long, and one row per attachment."""
        width = min(width, PROSE_WIDTH)
        right = Content.styled(self.time + " ", "$faint")
        shown = self._shown_text
        contents = [
            justify_ends(self._format_speaker(), right, width - 2),
            *([Content(clean(shown).rstrip("\n"))] if shown or not self.attachment_names else []),
        ]
        if self._can_fold:
            more = len(self.text.splitlines()) - _FOLDED_LINES
            note = _("▴ {key} folds")
            if not self.is_expanded:
                note = ngettext("… {more:,} more line · {key} unfolds", "… {more:,} more lines · {key} unfolds", more)
            contents.append(
                Content.styled(note.format(more=more, key=self.open_key), "$accent").stylize(ACTIVATE_STYLE)
            )
        elif len(shown) < len(self.text):
            note = _("… {text_count:,} more characters · {key} opens all").format(
                text_count=len(self.text) - len(shown), key=self.open_key
            )
            contents.append(Content.styled(note, "$accent").stylize(ACTIVATE_STYLE))
        names = self.attachment_names[:_MAX_SHOWN_ATTACHMENTS]
        contents += [self._render_attachment(number, name) for number, name in enumerate(names)]
        if hidden := len(self.attachment_names) - len(names):
            note = _("… {count:,} more attachments · {key} opens all").format(count=hidden, key=self.open_key)
            contents.append(Content.styled(note, "$accent").stylize(ACTIVATE_STYLE))
        return [
            PrefixedContent("▌ ", "▌ ", content, "on $panel", "$accent", max_width=PROSE_WIDTH) for content in contents
        ]

    def show_outdated(self, keys: frozenset[tuple[str, str]]) -> bool:
        """Mark the attached resources in *keys* as changed, and unmark all others.

        *keys* are (server, URI) pairs. Return whether any mark changed.
        """
        outdated = keys.intersection(filter(None, self.resources))
        is_changed = outdated != self.outdated
        self.outdated = outdated
        return is_changed

    def _render_attachment(self, number: int, name: str) -> Content:
        key = self.resources[number] if number < len(self.resources) else None
        changed = (_("  changed since"), "$warning") if key is not None and key in self.outdated else ("", "")
        return Content.assemble((f"@ {clean_line(name, 300)}", "$muted"), changed)

    def _format_speaker(self) -> Content:
        if self.is_automatic:
            return Content.assemble(("mcphost", "bold $accent"), (f"  {_('to continue the answer')}", "$muted"))
        if self.source:
            return Content.assemble((_("User"), "bold $accent"), (f"  {clean_line(self.source, 120)}", "$muted"))
        return Content.styled(_("You"), "bold $accent")

    def estimate_height(self, width: int) -> int:
        """Estimate the height in rows from the length of the text."""
        rows = _estimate_rows(self._shown_text, min(width, PROSE_WIDTH) - 2)
        return self.gap + 1 + rows + min(len(self.attachment_names), _MAX_SHOWN_ATTACHMENTS + 1)

    def activate(self) -> tuple[str, str] | None:
        """Fold or unfold a long message and return None; return a title and the text if it is too long to unfold."""
        if self._can_fold:
            self.is_expanded = not self.is_expanded
            self.invalidate()
            return None
        if len(self.attachment_names) > _MAX_SHOWN_ATTACHMENTS:
            return _("You"), "\n".join((self.text, "", *(f"@ {name}" for name in self.attachment_names)))
        return (_("You"), self.text) if len(self._shown_text) < len(self.text) else None

    def reveal(self, pattern: re.Pattern[str], place: int) -> None:
        """Unfold the message."""
        del pattern, place
        if self._can_fold and not self.is_expanded:
            self.is_expanded = True
            self.invalidate()

    @property
    def _can_fold(self) -> bool:
        is_short = is_shown_within(self.text, _MAX_INLINE_MESSAGE)
        is_inline = is_short and len(self.attachment_names) <= _MAX_SHOWN_ATTACHMENTS
        return is_inline and _MIN_FOLDED_LINES < len(self.text.splitlines()) <= _MAX_INLINE_LINES

    @property
    def _shown_text(self) -> str:
        beginning = self.text[:_MAX_INLINE_MESSAGE]
        if not is_shown_within(beginning, _MAX_INLINE_MESSAGE):
            rest = clean_beginning(beginning, _MAX_INLINE_MESSAGE, _MAX_INLINE_MESSAGE)[1]
            beginning = beginning[: len(beginning) - rest]
        lines = beginning.splitlines(keepends=True)
        is_long = len(lines) > _MIN_FOLDED_LINES and not self.is_expanded
        return "".join(lines[: _FOLDED_LINES if is_long else _MAX_INLINE_LINES])

    def copy_text(self) -> str:
        """Return the text of the message."""
        return self.text

    def search_text(self) -> str:
        """Return the text of the message and the names of its attachments."""
        return "\n".join((self.text, *self.attachment_names))


class BackgroundResult(TranscriptBlock):
    """Block that marks where the result of a background tool call was added to the chat.

    Enter opens the result.
    """

    gap = 1
    can_step = True

    def __init__(self, part: "ResourcePart", time: str = "", image_count: int = 0) -> None:
        super().__init__()
        from mcphost.host.conversation.background_results import find_failure  # only for such results

        self.server, self.tool, self.text, self.time = part.server, part.source, part.text, time
        self.image_count, self._failure = image_count, find_failure(part)

    def render(self, width: int) -> list[PrefixedContent]:
        """Return a heading, and a row that describes the result and names the key that opens it.

        The description consists of the server, the tool, the number of characters and the number of images.
        """
        width = min(width, PROSE_WIDTH)
        heading = Content.styled(_("Background result"), "bold $muted")
        if self._failure:
            heading = Content.assemble(heading, (f" · {_(self._failure)}", "$error"))
        who = f"{clean_line(self.server, 40)} · " if self.server else ""
        images = f", {translate_count(self.image_count, 'image')}" if self.image_count else ""
        row = Content.assemble((who, "$muted"), (clean_line(self.tool, 80), "bold"))
        more = Content.styled(
            _("  {text_count:,} characters{images} · {key} opens them").format(
                text_count=len(self.text), images=images, key=self.open_key
            ),
            "$accent",
        )
        return [
            PrefixedContent("▌ ", "▌ ", content, "on $panel", "$muted", max_width=PROSE_WIDTH)
            for content in (
                justify_ends(heading, Content.styled(self.time + " ", "$faint"), width - 2),
                Content.assemble(row, more.stylize(ACTIVATE_STYLE)),
            )
        ]

    def estimate_height(self, width: int) -> int:
        """Estimate the height in rows, assuming that the names of the server and the tool fit on one row."""
        del width
        return self.gap + 2

    def activate(self) -> tuple[str, str] | None:
        """Return a title and the text of the result for the text viewer."""
        return f"{self.server} · {self.tool}", self.text

    def copy_text(self) -> str:
        """Return the text of the result."""
        return self.text

    def search_text(self) -> str:
        """Return the names of the server and the tool, and the text of the result."""
        return f"{self.server} · {self.tool}\n{self.text}"


class MarkdownBlock(TranscriptBlock):
    """Part of the model's response, shown as Markdown; the last block grows during streaming.

    - `is_joined`: whether there is no blank row before the block.
    - `is_plain`: whether the text is shown as it is, without parsing it as Markdown.
    - `continues_code`: whether the text begins inside a code block that began in the block above.
    """

    can_step = True

    def __init__(
        self, text: str, *, is_joined: bool = False, is_plain: bool = False, continues_code: bool = False
    ) -> None:
        super().__init__()
        self.text, self.is_plain, self.continues_code = text, is_plain, continues_code
        self.is_linear = False
        """Whether each cell of a table is shown on a separate row, for screen readers."""
        self.gap = 0 if is_joined else 1

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the rendered Markdown."""
        if self.is_plain:
            return [PrefixedContent("", "", Content(clean(self.text.rstrip("\n"))), max_width=PROSE_WIDTH)]
        from mcphost.tui.transcript.markdown import render_markdown  # imported with the first answer

        return render_markdown(self.text, width, continues_code=self.continues_code, is_linear=self.is_linear)

    def estimate_height(self, width: int) -> int:
        """Estimate the height in rows from the length of the Markdown source."""
        return self.gap + _estimate_rows(self.text, min(width, PROSE_WIDTH))

    def copy_text(self) -> str:
        """Return the Markdown source."""
        return self.text


class ThinkingBlock(TranscriptBlock):
    """Block with the model's reasoning.

    When folded, it is a single row, which shows the latest words during streaming.
    """

    can_step = True

    def __init__(self, text: str = "", *, is_streaming: bool = False) -> None:
        super().__init__()
        self.text, self.is_streaming, self.is_expanded = text, is_streaming, False

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the full reasoning if the block is unfolded, otherwise a single row."""
        words = len(self.text.split())
        if self.is_expanded and self._fits_inline:  # the text may have grown since the block was unfolded
            head = Content.styled(_("▾ thought, {words} words").format(words=words), "$faint").stylize(ACTIVATE_STYLE)
            body = Content.styled(clean(self.text), "italic $faint")
            return [
                PrefixedContent("", "", head),
                PrefixedContent("▏ ", "▏ ", body, "", "$faint", max_width=PROSE_WIDTH),
            ]
        if self.is_streaming:
            tail = clean_line(self.text[-300:].replace("\n", " "), 300)
            room = max(10, min(width, PROSE_WIDTH) - 14)
            return [
                PrefixedContent(
                    "",
                    "",
                    Content.styled(_("◌ thinking  {tail}").format(tail=tail[-room:]), "italic $faint").stylize(
                        ACTIVATE_STYLE
                    ),
                )
            ]
        return [
            PrefixedContent(
                "",
                "",
                Content.styled(_("▸ thought, {words} words").format(words=words), "$faint").stylize(ACTIVATE_STYLE),
            )
        ]

    def activate(self) -> tuple[str, str] | None:
        """Fold or unfold the reasoning, and return None.

        If the reasoning is too long to unfold, return a title and the reasoning for the text viewer instead.
        """
        if not self._fits_inline:
            return _("Thinking"), self.text
        self.is_expanded = not self.is_expanded
        self.invalidate()
        return None

    def copy_text(self) -> str:
        """Return the full reasoning."""
        return self.text

    @property
    def _fits_inline(self) -> bool:
        return is_shown_within(self.text, _MAX_INLINE_THINKING) and self.text.count("\n") <= _MAX_INLINE_LINES

    def reveal(self, pattern: re.Pattern[str], place: int) -> None:
        """Unfold the reasoning, unless it is too long to unfold."""
        if not self.is_expanded and self._fits_inline:
            self.is_expanded = True
            self.invalidate()


LEVEL_MARKS = {"info": ("ℹ", "$muted"), "warning": ("▲", "$warning"), "error": ("✕", "$error")}


class NoticeBlock(TranscriptBlock):
    """Notice from mcphost, such as an error, with a hint on how to fix it.

    `level` is "info", "warning" or "error".
    """

    can_step = True

    def __init__(self, level: str, text: str, hint: str = "") -> None:
        super().__init__()
        self.level, self.text, self.hint = level, text, hint

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the notice and its hint."""
        mark, style = LEVEL_MARKS.get(self.level, LEVEL_MARKS["info"])
        body = clean(self.text[:_MAX_NOTICE_LENGTH])
        content = Content.assemble((body, style if self.level == "error" else "$muted"))
        if self.hint:
            gap = "" if body.endswith("。") else " "  # Chinese has no space between sentences
            content = Content.assemble(content, gap, (clean(self.hint[:_MAX_NOTICE_LENGTH]), "$text"))
        return [PrefixedContent(f"{mark} ", "  ", content, "", style, max_width=PROSE_WIDTH)]

    def estimate_height(self, width: int) -> int:
        """Estimate the height in rows from the length of the notice and its hint."""
        return self.gap + _estimate_rows(self.text + self.hint, min(width, PROSE_WIDTH))

    def copy_text(self) -> str:
        """Return the notice followed by its hint."""
        return f"{self.text}{'' if self.text.endswith('。') else ' '}{self.hint}".strip()


class BlockLoader(Protocol):
    """Protocol for loaders that add the remaining blocks of an opened conversation to the transcript."""

    async def wait(self) -> None:
        """Wait until all blocks are in the transcript, or until another conversation is opened."""

    def finish(self) -> None:
        """Add all remaining blocks immediately, for an action that needs them.

        The event loop is blocked until all blocks have been added.
        """

    def cancel(self) -> None:
        """Stop adding blocks; called when another conversation is opened."""
