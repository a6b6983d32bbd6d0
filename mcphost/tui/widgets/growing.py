"""The open end of a conversation: text that still grows, and what of it is finished."""

from mcphost.tui.widgets.blocks import Block, Prose, Thinking
from mcphost.tui.widgets.markdown import split_stream


class Growing:
    """`tail` is the last block of the conversation while it grows; `pending` is text it does not hold yet."""

    def __init__(self) -> None:
        self.tail: Prose | Thinking | None = None
        self.pending: list[str] = []

    def takes(self, *, thinking: bool) -> bool:
        """Whether text of this kind belongs to the present tail."""
        return isinstance(self.tail, Thinking if thinking else Prose)

    def begin(self, *, thinking: bool) -> Block:
        """A new tail, to be put at the end of the conversation."""
        self.tail = Thinking(open_=True) if thinking else Prose("")
        return self.tail

    def grow(self) -> list[Block]:
        """Take the pending text in. The blocks to put after the present tail, the last of them the new tail."""
        tail = self.tail
        if tail is None:
            return []
        tail.text += "".join(self.pending)
        self.pending.clear()
        tail.forget()
        if isinstance(tail, Thinking):
            return []
        done, rest = split_stream(tail.text)
        if not done:
            return []
        tail.text = done[0].source
        out: list[Block] = [Prose(part.source, joined=part.joined) for part in done[1:]]
        self.tail = Prose(rest.source if rest else "", joined=bool(rest and rest.joined))
        return [*out, self.tail]

    def end(self) -> Block | None:
        """Nothing more comes; the block that was the tail."""
        block, self.tail = self.tail, None
        self.pending.clear()
        if isinstance(block, Thinking):
            block.growing = False
        return block
