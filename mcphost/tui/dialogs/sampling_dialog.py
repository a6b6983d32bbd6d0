"""What both dialogs of a sampling share: texts shown whole, one key that lets them go on, one that edits them."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import Deny
from mcphost.serialization import dumps
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.form import Form
from mcphost.tui.widgets.picture_view import PictureView, views
from mcphost.tui.widgets.quoted_text import Barred, Part

MOST_CHARS = 100_000
"""What is longer cannot be read here, so it cannot be agreed to here."""
MOST_TOTAL = 400_000
"""The same for all of it together: laying out more would hold up the screen."""
_BEGINNING = 1_000
_HEADED = 200
_EACH = 40  # what a block counts for at least: a flood of empty ones is one, too


class SamplingDialog(Dialog[Any]):
    """A text that goes to the model, or comes from it: shown whole, let go on by one key, edited by another.

    Edited texts are shown like the first ones, and are read to their end before they go anywhere.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse_it", show=False),
        Binding("a", "go_on", show=False),
        Binding("e", "edit", show=False),
        Binding("ctrl+s", "take", show=False),
        # Before the field itself hears of them, so that what is typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    AGREEING: ClassVar[frozenset[str]] = frozenset({"go_on"})
    EDIT_KEYS: ClassVar[str] = "tab next · shift+tab back · ctrl+s apply · esc drop the edits"
    DEFAULT_CSS = """
    SamplingDialog #fault { height: auto; color: $error; }
    SamplingDialog #body { scrollbar-gutter: stable; }
    """

    def __init__(self, question: Any) -> None:
        super().__init__(question)
        self.too_long = False
        self.form: Form | None = None
        self._room = MOST_TOTAL

    # -- what each fills in

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """What can be edited, and what it is now."""
        raise NotImplementedError

    def edited(self, values: dict[str, Any]) -> str:
        """Take this over; or why that cannot be."""
        raise NotImplementedError

    def answer(self) -> Any:
        """The answer that sends what is shown."""
        raise NotImplementedError

    # -- showing

    def text(self, value: str, style: str = "") -> Part:
        """Clean, and whole unless it is beyond reading."""
        room = min(MOST_CHARS, max(0, self._room))
        self._room -= max(len(value), _EACH)
        if len(value) > room or self._room < 0:
            self.too_long = True
            left = len(value) - room
            value = f"{value[:room]}\n… {max(0, left):,} more characters: too long to agree to here."
        return Part(clean(value), style)

    def blocks(self, content: Any) -> Iterator[Part]:
        """Content blocks of the wire; what is no text is named."""
        return (part for one in _many(content) if isinstance(one, dict) for part in self.block(_dict(one)))

    def beginning(self, content: Any) -> str:
        """The first text in content blocks of the wire, cut."""
        texts = (str(one.get("text", "")) for one in map(_dict, _many(content)) if one.get("type") == "text")
        return next(texts, "")[:_BEGINNING]

    def whole(self, parts: Iterable[Part]) -> Barred:
        """All of it, up to where it is too long, each text behind a bar: none can fake a heading or a setting."""
        self._room, self.too_long = MOST_TOTAL, False
        shown: list[Part] = []
        for part in parts:
            shown.append(part)
            if self.too_long:
                break
        return Barred(shown)

    def heading(self, text: str, style: str = "$muted") -> Part:
        """What a part is, in our words."""
        self._room -= _EACH
        return Part(clean_line(text, _HEADED), style, is_heading=True)

    def pictures(self, contents: Iterable[Any]) -> list[PictureView]:
        """The pictures among these contents, drawn where the terminal can; they are named above."""
        listed = (_dict(one) for content in contents for one in _many(content))
        return views(str(one.get("data", "")) for one in listed if one.get("type") == "image")

    def block(self, block: dict[str, Any]) -> Iterator[Part]:
        """One block; what is no text of a message has a heading of its own."""
        match block.get("type"):
            case "text":
                yield self.text(str(block.get("text", "")))
            case "image" | "audio" as kind:
                size = len(str(block.get("data", ""))) * 3 // 4
                yield self.heading(f"[{kind}: {block.get('mimeType')}, {size:,} bytes]")
            case "tool_use":
                yield self.heading(f"calls {block.get('name')}", "$accent")
                yield self.text(dumps(block.get("input")), "$accent")
            case kind:
                yield self.heading(f"[{kind}]")
                yield self.text(dumps(block), "$muted")

    def withheld(self, ident: str) -> str:
        if ident == "go_on" and self.too_long:
            return "this is too long to agree to here"
        return super().withheld(ident)

    def extra(self) -> ComposeResult:
        yield Static("", id="fault", markup=False)

    # -- answering

    def action_go_on(self) -> None:
        """What was shown."""
        if self.form is None:
            self.agree("go_on", self.answer())

    def action_refuse_it(self) -> None:
        """Nothing leaves; in a form the key is one of its own."""
        if self.form is None:
            self.dismiss(Deny())

    def action_refuse(self) -> None:
        """Nothing leaves; out of the form first."""
        if self.form is None:
            self.dismiss(Deny())
        else:
            self.call_later(self._close)

    # -- editing

    async def action_edit(self) -> None:
        """The texts as fields to fill in."""
        if self.form is None and not self.too_long:
            self.form = Form(*self.fields(), named=False)
            await self._open(self.form)

    async def _open(self, form: Form) -> None:
        body = self.query_one("#body")
        await body.remove_children()
        body.can_focus = False
        await body.mount(form)
        self.query_one("#buttons").display = False
        self.show_keys(self.EDIT_KEYS)
        body.scroll_to(y=0, animate=False)
        form.begin()
        self.fit()

    def action_step(self, by: int) -> None:
        """To the next field, or the next button."""
        if self.form is not None:
            if not self.form.go(by):
                self.form.begin() if by > 0 else self.form.end()
        else:
            self.focus_next() if by > 0 else self.focus_previous()

    def action_take(self) -> None:
        """Show what was edited, to be agreed to or not."""
        if self.form is None or not self.form.complete():
            return
        if fault := self.edited(self.form.values()):
            self._say(fault)
        else:
            self.call_later(self._close)

    def on_form_edited(self) -> None:
        """A fault is about what was there before."""
        self._say("")

    async def _close(self) -> None:
        self.form = None
        self._say("")
        self.query_one("#buttons").display = True
        self.query_one("#body").can_focus = True
        self.show_keys(self.KEYS)
        await self.show_body()
        self.query_one(f"#{self.BUTTONS[0][0]}").focus()

    def _say(self, text: str) -> None:
        self.query_one("#fault", Static).update(text)
        self.query_one("#extra").set_class(bool(text), "shown")
        self.call_after_refresh(self.fit)


def _many(content: Any) -> list[Any]:
    return list(cast("list[Any]", content)) if isinstance(content, list | tuple) else [content]


def _dict(block: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", block) if isinstance(block, dict) else {}
