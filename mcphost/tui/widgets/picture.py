"""A picture of a conversation as a block: its place is kept from the beginning, and painted when it was decoded."""

import binascii
from typing import TYPE_CHECKING

from textual.content import Content

from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.blocks import FOLD, Block
from mcphost.tui.widgets.piece import Piece

if TYPE_CHECKING:  # loaded with the first picture, not with the first frame
    from mcphost.llm.messages import ImagePart
    from mcphost.sandbox.image_formats import Drawing, Picture

ROWS = 14
"""Rows of cells at most: what stands before and after a picture stays in view on a screen of 24 rows."""
COLUMNS = 120
_LEAD = "▎   "


def recognized(part: "ImagePart") -> "Picture | None":
    """What it is by its first bytes; None when it is no picture, or does not say how large."""
    from mcphost.sandbox.image_formats import HEAD, picture

    try:
        found = picture(binascii.a2b_base64(part.data[: HEAD // 3 * 4]))
    except (binascii.Error, ValueError):
        return None
    return found if found is not None and found.width and found.height else None


class PictureBlock(Block):
    """One picture below what it belongs to. Enter folds it to one row."""

    can_step = True
    gap = 0

    def __init__(self, part: "ImagePart", kind: "Picture") -> None:
        super().__init__()
        self.part, self.kind = part, kind
        self.folded = False
        self.why = ""
        self._drawing: Drawing | None = None
        self._asked = (0, 0)  # in pixels
        self._failed_at = 0  # the width at which it could not be drawn; its place is kept there

    def _box(self, width: int) -> tuple[int, int]:
        """Its columns, and its rows of cells."""
        from mcphost.sandbox.image_formats import fitted

        columns, pixels = fitted(self.kind.width, self.kind.height, max(1, min(COLUMNS, width - len(_LEAD))), ROWS * 2)
        return columns, -(-pixels // 2)

    def _rows(self, width: int) -> int:
        if self.folded or (self.why and self._failed_at != width):
            return 0
        return self._box(width)[1]

    def wanted(self, width: int) -> tuple[int, int] | None:
        """The pixels it has to be decoded to for this width, unless that was asked for already."""
        columns, rows = self._box(width)
        sides = columns, rows * 2
        if self.folded or self.why or self._asked == sides:
            return None
        self._asked = sides
        return sides

    def take(self, sides: tuple[int, int], width: int, answer: "Drawing | str") -> bool:
        """What came of it; False when other sides are wanted by now."""
        if self._asked != sides:
            return False
        if isinstance(answer, str):
            self.why, self._failed_at = answer, width
        else:
            self._drawing = answer
        return True

    def pieces(self, width: int) -> list[Piece]:
        rows = self._rows(width)
        facts = f"{self.kind.mime_type}, {self.kind.width:,} × {self.kind.height:,} pixels"
        told = f"{facts}: {clean_line(self.why, 200)}" if self.why else facts if self.folded else ""
        if self._drawing is not None and not self._drawing.whole:
            told = f"{facts}: damaged, this is what could be read of it"
        head = Content.assemble((f"{'▾' if rows else '▸'} picture", "$faint"), (f"  {told}" if told else "", "$faint"))
        out = [Piece("▎ ", "▎ ", head.stylize(FOLD), "", "$faint")]
        if rows:
            out.append(Piece(_LEAD, _LEAD, Content(""), "", "$faint", rows, self._drawing))
        return out

    def estimate(self, width: int) -> int:
        return self.gap + 1 + self._rows(width)

    def enter(self) -> tuple[str, str] | None:
        self.folded = not self.folded
        self.forget()
        return None

    def source(self) -> str:
        return f"[picture: {self.kind.mime_type}, {self.kind.width:,} × {self.kind.height:,} pixels]"
