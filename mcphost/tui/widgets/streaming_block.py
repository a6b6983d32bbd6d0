"""The open end of a conversation: text that still grows, and what of it is finished."""

from typing import TYPE_CHECKING

from mcphost.tui.widgets.blocks import Block, Prose, Thinking

if TYPE_CHECKING:
    from mcphost.tui.widgets.markdown import Part

_SLICE = 4000
MAX_MARKDOWN = 100_000
"""Characters of one text that are read as Markdown; the rest of it is shown as it is."""
_PLAIN_PART = 1000
"""Characters of that rest that are drawn at once, as its end is drawn anew for each piece that is added."""


def blocks_of_text(text: str) -> list[Block]:
    """A finished text as blocks that are each drawn quickly."""
    growing = Growing()
    first = growing.begin(thinking=False)
    growing.pending.append(text)
    return [first, *growing.grow()]


class Growing:
    """`tail` is the last block of the conversation while it grows; `pending` is text it does not hold yet."""

    def __init__(self) -> None:
        self.tail: Prose | Thinking | None = None
        self.pending: list[str] = []
        self._size = 0

    def takes(self, *, thinking: bool) -> bool:
        """Whether text of this kind belongs to the present tail."""
        return isinstance(self.tail, Thinking if thinking else Prose)

    def begin(self, *, thinking: bool) -> Block:
        """A new tail, to be put at the end of the conversation."""
        self.tail = Thinking(open_=True) if thinking else Prose("")
        self._size = 0
        return self.tail

    def grow(self) -> list[Block]:
        """Take the pending text in. The blocks to put after the present tail, the last of them the new tail."""
        text = "".join(self.pending)
        self.pending.clear()
        out: list[Block] = []
        # A text that comes in one piece is cut like one that streams.
        for start in range(0, len(text), _SLICE):
            out.extend(self._take(text[start : start + _SLICE]))
        return out

    def _take(self, text: str) -> list[Block]:
        tail = self.tail
        if tail is None:
            return []
        tail.text += text
        tail.forget()
        if isinstance(tail, Thinking):
            return []
        from mcphost.tui.widgets.markdown import split_stream  # with the first answer

        self._size += len(text)
        done, rest = split_stream(tail.text) if self._size <= MAX_MARKDOWN else _split_plain(tail.text)
        if not done:
            return []
        tail.text = done[0].source
        tail.is_plain |= self._size > MAX_MARKDOWN
        out: list[Block] = [Prose(part.source, joined=part.joined, is_plain=tail.is_plain) for part in done[1:]]
        self.tail = Prose(rest.source if rest else "", joined=bool(rest and rest.joined), is_plain=tail.is_plain)
        return [*out, self.tail]

    def end(self) -> Block | None:
        """Nothing more comes; the block that was the tail."""
        block, self.tail = self.tail, None
        self.pending.clear()
        if isinstance(block, Thinking):
            block.growing = False
        return block


def _split_plain(source: str) -> "tuple[list[Part], Part | None]":
    """The same as `split_stream` for a text that is shown as it is."""
    from mcphost.tui.widgets.markdown import Part, cut_at

    parts: list[Part] = []
    while len(source) > _PLAIN_PART:
        at = cut_at(source, _PLAIN_PART)
        parts.append(Part(source[:at], joined=bool(parts)))
        source = source[at:]
    return parts, Part(source, joined=bool(parts))
