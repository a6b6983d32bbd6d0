"""What a conversation is made of on the screen: speakers, words, prose, thinking and notices, as pieces to draw."""

from collections.abc import Sequence

from textual.content import Content
from textual.strip import Strip
from textual.style import Style

from mcphost.tui.messages import Section
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.piece import Piece

_THOUGHT_SHOWN = 20_000
"""Characters of reasoning that unfold in place; more is shown on a page of its own."""
_NOTICE_SHOWN = 4_000
_WORDS_SHOWN = 10_000
FOLD = Style.from_meta({"act": "enter"})


class Block:
    """One block. `height` is an estimate until it was drawn once; `gap` empty lines stand before it."""

    gap = 1
    can_step = False
    kept = ""
    """The file that holds all of it, when the block has the beginning only."""

    def __init__(self) -> None:
        self.height = 1
        self.measured = False
        self.strips: list[Strip] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it changes by itself with time."""
        return False

    def pieces(self, width: int) -> list[Piece]:
        """What to draw at this width; all text is clean."""
        raise NotImplementedError

    def estimate(self, width: int) -> int:
        """A cheap guess of the height, gap included."""
        del width
        return self.gap + 1

    def forget(self) -> None:
        """It changed: draw it again."""
        self.strips = None

    def enter(self) -> tuple[str, str] | None:
        """Enter or a click: folds or unfolds itself, or gives the title and text of something to open."""
        return None

    def sections(self) -> Sequence[Section]:
        """Return the parts of what `enter` opens, where it has several; they are shown in place of its text."""
        return ()

    def source(self) -> str:
        """What copying it gives."""
        return ""


def _guess(text: str, width: int) -> int:
    return text.count("\n") + len(text) // max(20, width) + 1


def spread(left: Content, right: Content, width: int) -> Content:
    """Two contents at the two ends of a row; the left one is cut when both do not fit."""
    room = width - right.cell_length - 1
    if left.cell_length > room:
        left = left.truncate(max(1, room), ellipsis=True)
    return Content.assemble(left, " " * max(1, width - left.cell_length - right.cell_length), right)


class Speaker(Block):
    """Who speaks now, and when."""

    def __init__(self, name: str, detail: str = "", at: str = "", *, style: str = "bold") -> None:
        super().__init__()
        self.name, self.detail, self.at, self.style = clean_line(name, 60), clean_line(detail, 80), at, style

    def pieces(self, width: int) -> list[Piece]:
        left = Content.assemble((self.name, self.style), ("  " + self.detail if self.detail else "", "$faint"))
        return [Piece("", "", spread(left, Content.styled(self.at, "$faint"), width))]


class Words(Block):
    """What the user wrote, as it is, and what was attached."""

    gap = 1
    can_step = True

    def __init__(self, text: str, attached: tuple[str, ...] = (), at: str = "") -> None:
        super().__init__()
        self.text, self.attached, self.at = text, attached, at

    def pieces(self, width: int) -> list[Piece]:
        edge = "▌ "
        head = spread(Content.styled("You", "bold $accent"), Content.styled(self.at + " ", "$faint"), width - 2)
        out = [Piece(edge, edge, head, "on $panel", "$accent")]
        shown = self.text[:_WORDS_SHOWN]
        out.append(Piece(edge, edge, Content(clean(shown).rstrip("\n")), "on $panel", "$accent"))
        if len(shown) < len(self.text):
            note = f"… {len(self.text) - len(shown):,} more characters · enter opens all"
            out.append(Piece(edge, edge, Content.styled(note, "$accent").stylize(FOLD), "on $panel", "$accent"))
        out.extend(
            Piece(edge, edge, Content.styled(f"@ {clean_line(name, 300)}", "$muted"), "on $panel", "$accent")
            for name in self.attached
        )
        return out

    def estimate(self, width: int) -> int:
        return self.gap + 1 + _guess(self.text[:_WORDS_SHOWN], width - 2) + len(self.attached)

    def enter(self) -> tuple[str, str] | None:
        return ("You", self.text) if len(self.text) > _WORDS_SHOWN else None

    def source(self) -> str:
        return self.text


class Prose(Block):
    """Markdown of a model: one finished part, or the open tail of a stream."""

    can_step = True

    def __init__(self, text: str, *, joined: bool = False, is_plain: bool = False) -> None:
        super().__init__()
        self.text, self.is_plain = text, is_plain
        self.gap = 0 if joined else 1

    def pieces(self, width: int) -> list[Piece]:
        if self.is_plain:
            return [Piece("", "", Content(clean(self.text.rstrip("\n"))))]
        from mcphost.tui.widgets.markdown import pieces  # with the first answer

        return pieces(self.text, width)

    def estimate(self, width: int) -> int:
        return self.gap + _guess(self.text, width)

    def source(self) -> str:
        return self.text


class Thinking(Block):
    """Reasoning that the provider shows: folded, its newest words visible while it grows."""

    can_step = True

    def __init__(self, text: str = "", *, open_: bool = False) -> None:
        super().__init__()
        self.text, self.growing, self.unfolded = text, open_, False

    def pieces(self, width: int) -> list[Piece]:
        words = len(self.text.split())
        if self.unfolded:
            head = Content.styled(f"▾ thought, {words} words", "$faint").stylize(FOLD)
            body = Content.styled(clean(self.text), "italic $faint")
            return [Piece("", "", head), Piece("▏ ", "▏ ", body, "", "$faint")]
        if self.growing:
            tail = clean_line(self.text[-300:].replace("\n", " "), 300)
            room = max(10, width - 14)
            return [Piece("", "", Content.styled(f"◌ thinking  {tail[-room:]}", "italic $faint").stylize(FOLD))]
        return [Piece("", "", Content.styled(f"▸ thought, {words} words", "$faint").stylize(FOLD))]

    def enter(self) -> tuple[str, str] | None:
        if len(self.text) > _THOUGHT_SHOWN:
            return "Thinking", self.text
        self.unfolded = not self.unfolded
        self.forget()
        return None

    def source(self) -> str:
        return self.text


MARKS = {"info": ("ℹ", "$muted"), "warning": ("▲", "$warning"), "error": ("✕", "$error")}


class Notice(Block):
    """One sentence of mcphost itself, and what to do next."""

    can_step = True

    def __init__(self, level: str, text: str, hint: str = "") -> None:
        super().__init__()
        self.level, self.text, self.hint = level, text, hint

    def pieces(self, width: int) -> list[Piece]:
        mark, style = MARKS.get(self.level, MARKS["info"])
        body = clean(self.text[:_NOTICE_SHOWN])
        content = Content.assemble((body, style if self.level == "error" else "$muted"))
        if self.hint:
            content = Content.assemble(content, " ", (clean(self.hint[:_NOTICE_SHOWN]), "$text"))
        return [Piece(f"{mark} ", "  ", content, "", style)]

    def estimate(self, width: int) -> int:
        return self.gap + _guess(self.text + self.hint, width)

    def source(self) -> str:
        return f"{self.text} {self.hint}".strip()
