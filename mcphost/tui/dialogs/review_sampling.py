"""A server's question to the user's model, before it is asked and before the answer leaves: all of it or nothing."""

from typing import Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.data import dumps
from mcphost.host.questions import AsShown, Deny, ReviewReply, ReviewSampling
from mcphost.tui.dialogs.dialog import Dialog, rows
from mcphost.tui.sanitize import clean, clean_line

MOST_CHARS = 100_000
"""What is longer cannot be read here, so it cannot be agreed to here."""


class _Review(Dialog[Any]):
    """What both reviews share: texts that are shown whole, and one key that lets them go on."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "refuse", show=False), Binding("a", "go_on", show=False)]

    def __init__(self, question: Any) -> None:
        super().__init__(question)
        self.too_long = False

    def text(self, value: str, style: str = "") -> Content:
        """Clean, and whole unless it is beyond reading."""
        if len(value) > MOST_CHARS:
            self.too_long = True
            left = len(value) - MOST_CHARS
            value = f"{value[:MOST_CHARS]}\n… {left:,} more characters: too long to agree to here."
        return Content.styled(clean(value), style) if style else Content(clean(value))

    def blocks(self, content: Any) -> list[Content]:
        """Content blocks of the wire; what is no text is named."""
        many = cast("list[Any]", content) if isinstance(content, list | tuple) else [content]
        return [self.block(cast("dict[str, Any]", one)) for one in many if isinstance(one, dict)]

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
        out = [rows(facts)]
        if asked.system:
            out += [Content.styled("\nthe server's instructions", "$muted"), self.text(asked.system)]
        for message in asked.messages:
            out.append(Content.styled(f"\n{clean_line(str(message.get('role', '')), 20)}", "$muted"))
            out += self.blocks(message.get("content"))
        out.append(
            Content.styled("\nYour model gets exactly this, and you see its answer before the server does.", "$faint")
        )
        return out


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
        return [rows(facts), Content(""), *self.blocks(self.asked.content)]
