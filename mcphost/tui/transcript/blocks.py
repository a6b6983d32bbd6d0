"""Blocks of the transcript: speakers, messages, Markdown, reasoning and notices."""

from collections.abc import Sequence

from textual.content import Content
from textual.strip import Strip
from textual.style import Style

from mcphost.tui.messages import Section
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.transcript.prefixed_content import PrefixedContent

_MAX_INLINE_THINKING = 20_000
"""Characters of reasoning that expand in place; longer reasoning opens in the viewer."""
_MAX_NOTICE_LENGTH = 4_000
_MAX_INLINE_MESSAGE = 10_000
ACTIVATE_STYLE = Style.from_meta({"act": "enter"})


class TranscriptBlock:
    """One block; `height` is an estimate until it is drawn, `gap` is the number of blank lines before it."""

    gap = 1
    can_step = False
    full_text_file = ""
    """Return the file with the whole text if the block has only its beginning."""

    def __init__(self) -> None:
        self.height = 1
        self.is_measured = False
        self.strips: list[Strip] | None = None

    @property
    def is_running(self) -> bool:
        """Return whether the block changes with time and must be redrawn."""
        return False

    def render(self, width: int) -> list[PrefixedContent]:
        """Return what to draw at this width; all text is sanitized."""
        raise NotImplementedError

    def estimate_height(self, width: int) -> int:
        """Return a cheap estimate of the height, including the gap."""
        del width
        return self.gap + 1

    def invalidate(self) -> None:
        """Mark the block as changed, so that it is drawn again."""
        self.strips = None

    def activate(self) -> tuple[str, str] | None:
        """Fold or unfold the block, or return title and text to open in the viewer."""
        return None

    def sections(self) -> Sequence[Section]:
        """Return the sections that Enter opens instead of a single text, if any."""
        return ()

    def copy_text(self) -> str:
        """Return the text that copying the block copies."""
        return ""


def _estimate_rows(text: str, width: int) -> int:
    return text.count("\n") + len(text) // max(20, width) + 1


def justify_ends(left: Content, right: Content, width: int) -> Content:
    """Place one content at the left end of a row and one at the right end; truncate the left one if they do not fit."""
    room = width - right.cell_length - 1
    if left.cell_length > room:
        left = left.truncate(max(1, room), ellipsis=True)
    return Content.assemble(left, " " * max(1, width - left.cell_length - right.cell_length), right)


class SpeakerHeading(TranscriptBlock):
    """Heading with the speaker and the time."""

    def __init__(self, name: str, detail: str = "", time: str = "", *, style: str = "bold") -> None:
        super().__init__()
        self.name, self.detail, self.time, self.style = clean_line(name, 60), clean_line(detail, 80), time, style

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the heading."""
        left = Content.assemble((self.name, self.style), ("  " + self.detail if self.detail else "", "$faint"))
        return [PrefixedContent("", "", justify_ends(left, Content.styled(self.time, "$faint"), width))]


class UserMessage(TranscriptBlock):
    """The user's message as written, with its attachments."""

    gap = 1
    can_step = True

    def __init__(self, text: str, attachment_names: tuple[str, ...] = (), time: str = "") -> None:
        super().__init__()
        self.text, self.attachment_names, self.time = text, attachment_names, time

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the message and its attachments."""
        edge = "▌ "
        head = justify_ends(Content.styled("You", "bold $accent"), Content.styled(self.time + " ", "$faint"), width - 2)
        out = [PrefixedContent(edge, edge, head, "on $panel", "$accent")]
        shown = self.text[:_MAX_INLINE_MESSAGE]
        out.append(PrefixedContent(edge, edge, Content(clean(shown).rstrip("\n")), "on $panel", "$accent"))
        if len(shown) < len(self.text):
            note = f"… {len(self.text) - len(shown):,} more characters · enter opens all"
            out.append(
                PrefixedContent(
                    edge, edge, Content.styled(note, "$accent").stylize(ACTIVATE_STYLE), "on $panel", "$accent"
                )
            )
        out.extend(
            PrefixedContent(edge, edge, Content.styled(f"@ {clean_line(name, 300)}", "$muted"), "on $panel", "$accent")
            for name in self.attachment_names
        )
        return out

    def estimate_height(self, width: int) -> int:
        """Return the height, estimated from the length of the text."""
        return self.gap + 1 + _estimate_rows(self.text[:_MAX_INLINE_MESSAGE], width - 2) + len(self.attachment_names)

    def activate(self) -> tuple[str, str] | None:
        """Return the text for the viewer if the message is folded."""
        return ("You", self.text) if len(self.text) > _MAX_INLINE_MESSAGE else None

    def copy_text(self) -> str:
        """Return the message."""
        return self.text


class MarkdownBlock(TranscriptBlock):
    """Markdown of a model: a finished part, or the open end of a stream."""

    can_step = True

    def __init__(self, text: str, *, is_joined: bool = False, is_plain: bool = False) -> None:
        super().__init__()
        self.text, self.is_plain = text, is_plain
        self.gap = 0 if is_joined else 1

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the rendered Markdown."""
        if self.is_plain:
            return [PrefixedContent("", "", Content(clean(self.text.rstrip("\n"))))]
        from mcphost.tui.transcript.markdown import render_markdown  # imported with the first answer

        return render_markdown(self.text, width)

    def estimate_height(self, width: int) -> int:
        """Return the height, estimated from the length of the source."""
        return self.gap + _estimate_rows(self.text, width)

    def copy_text(self) -> str:
        """Return the Markdown source."""
        return self.text


class ThinkingBlock(TranscriptBlock):
    """Reasoning of the model: folded, its newest words visible while it streams."""

    can_step = True

    def __init__(self, text: str = "", *, is_streaming: bool = False) -> None:
        super().__init__()
        self.text, self.is_streaming, self.is_expanded = text, is_streaming, False

    def render(self, width: int) -> list[PrefixedContent]:
        """Return the reasoning, or its last line while folded."""
        words = len(self.text.split())
        if self.is_expanded:
            head = Content.styled(f"▾ thought, {words} words", "$faint").stylize(ACTIVATE_STYLE)
            body = Content.styled(clean(self.text), "italic $faint")
            return [PrefixedContent("", "", head), PrefixedContent("▏ ", "▏ ", body, "", "$faint")]
        if self.is_streaming:
            tail = clean_line(self.text[-300:].replace("\n", " "), 300)
            room = max(10, width - 14)
            return [
                PrefixedContent(
                    "", "", Content.styled(f"◌ thinking  {tail[-room:]}", "italic $faint").stylize(ACTIVATE_STYLE)
                )
            ]
        return [PrefixedContent("", "", Content.styled(f"▸ thought, {words} words", "$faint").stylize(ACTIVATE_STYLE))]

    def activate(self) -> tuple[str, str] | None:
        """Unfold the reasoning, or return it for the viewer if it is long."""
        if len(self.text) > _MAX_INLINE_THINKING:
            return "Thinking", self.text
        self.is_expanded = not self.is_expanded
        self.invalidate()
        return None

    def copy_text(self) -> str:
        """Return the reasoning."""
        return self.text


LEVEL_MARKS = {"info": ("ℹ", "$muted"), "warning": ("▲", "$warning"), "error": ("✕", "$error")}


class NoticeBlock(TranscriptBlock):
    """A notice of mcphost and its hint."""

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
            content = Content.assemble(content, " ", (clean(self.hint[:_MAX_NOTICE_LENGTH]), "$text"))
        return [PrefixedContent(f"{mark} ", "  ", content, "", style)]

    def estimate_height(self, width: int) -> int:
        """Return the height, estimated from the length of the text."""
        return self.gap + _estimate_rows(self.text + self.hint, width)

    def copy_text(self) -> str:
        """Return the notice and its hint as text."""
        return f"{self.text} {self.hint}".strip()
