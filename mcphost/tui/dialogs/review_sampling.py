"""A server's question to the user's model, before it is asked and before the answer leaves: all of it or nothing."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.data import dumps
from mcphost.host.questions import AsShown, Deny, ReviewReply, ReviewSampling
from mcphost.tui.dialogs.dialog import Dialog, rows
from mcphost.tui.sanitize import clean, clean_line

MOST_CHARS = 100_000
"""What is longer cannot be read here, so it cannot be agreed to here."""
MOST_TOTAL = 400_000
"""The same for all of it together: laying out more would hold up the screen."""
_EACH = 40  # what a block counts for at least: a flood of empty ones is one, too


class _Review(Dialog[Any]):
    """What both reviews share: texts that are shown whole, and one key that lets them go on."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "refuse", show=False), Binding("a", "go_on", show=False)]

    def __init__(self, question: Any) -> None:
        super().__init__(question)
        self.too_long = False
        self._room = MOST_TOTAL

    def text(self, value: str, style: str = "") -> Content:
        """Clean, and whole unless it is beyond reading."""
        room = min(MOST_CHARS, max(0, self._room))
        self._room -= max(len(value), _EACH)
        if len(value) > room or self._room < 0:
            self.too_long = True
            left = len(value) - room
            value = f"{value[:room]}\n… {max(0, left):,} more characters: too long to agree to here."
        return Content.styled(clean(value), style) if style else Content(clean(value))

    def blocks(self, content: Any) -> Iterator[Content]:
        """Content blocks of the wire; what is no text is named."""
        many = cast("list[Any]", content) if isinstance(content, list | tuple) else [content]
        return (self.block(cast("dict[str, Any]", one)) for one in many if isinstance(one, dict))

    def whole(self, parts: Iterable[Content]) -> Content:
        """All of it, up to where it is too long; one widget, because a thousand of them take seconds."""
        self._room = MOST_TOTAL
        shown: list[Content] = []
        for part in parts:
            shown.append(part)
            if self.too_long:
                break
        return Content("\n").join(shown)

    def block(self, block: dict[str, Any]) -> Content:
        """One block."""
        match block.get("type"):
            case "text":
                return self.text(str(block.get("text", "")))
            case "image" | "audio" as kind:
                size = len(str(block.get("data", ""))) * 3 // 4
                return self.text(f"[{kind}: {block.get('mimeType')}, {size:,} bytes]", "$muted")
            case "tool_use":
                return self.text(f"calls {block.get('name')} {dumps(block.get('input'))}", "$accent")
            case _:
                return self.text(dumps(block), "$muted")

    def action_go_on(self) -> None:
        """As it was shown."""
        if not self.too_long:
            self.dismiss(AsShown())

    def action_refuse(self) -> None:
        """Nothing leaves."""
        self.dismiss(Deny())


class ReviewSamplingDialog(_Review):
    """May the model be asked this on a server's behalf?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Deny"), ("go_on", "Ask the model"))
    KEYS: ClassVar[str] = "esc/d deny · a ask the model"

    def __init__(self, question: ReviewSampling) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return f"Let {self.asked.server} ask your model?"

    def body(self) -> list[Content]:
        asked = self.asked
        facts = [("model", clean_line(asked.label, 200)), ("at most", f"{asked.max_tokens:,} tokens")]
        if asked.include_context != "none":
            facts.append(("wishes", "to see your conversation too; it gets none of it"))
        if asked.tools:
            names = ", ".join(clean_line(str(tool.get("name", "")), 100) for tool in asked.tools)
            facts.append(("its tools", f"{names} (run by the server)"))
        out = [rows(facts), self.whole(self._sent())]
        out.append(
            Content.styled("\nYour model gets exactly this, and you see its answer before the server does.", "$faint")
        )
        return out

    def _sent(self) -> Iterator[Content]:
        """What the model gets, in the server's words; the descriptions of tools are such words, too."""
        if self.asked.system:
            yield Content.styled("\nthe server's instructions", "$muted")
            yield self.text(self.asked.system)
        for message in self.asked.messages:
            yield Content.styled(f"\n{clean_line(str(message.get('role', '')), 20)}", "$muted")
            yield from self.blocks(message.get("content"))
        for tool in self.asked.tools:
            yield Content.styled(f"\nits tool {clean_line(str(tool.get('name', '')), 100)}", "$muted")
            if words := tool.get("description") or tool.get("title"):
                yield self.text(str(words))
            if schema := tool.get("inputSchema"):
                yield self.text(dumps(schema), "$faint")


class ReviewReplyDialog(_Review):
    """May the server have what the model answered?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Keep it"), ("go_on", "Send it"))
    KEYS: ClassVar[str] = "esc/d keep it · a send it"

    def __init__(self, question: ReviewReply) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return f"Send this answer to {self.asked.server}?"

    def body(self) -> list[Content]:
        facts = [("model", clean_line(self.asked.model, 200)), ("ended by", clean_line(self.asked.stop_reason, 60))]
        return [rows(facts), Content(""), self.whole(self.blocks(self.asked.content))]
