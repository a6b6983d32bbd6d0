"""A server's tools are not what they were: what changed in each, line by line; each is kept or stays held back."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button

from mcphost.host.questions.questions import KeepTools, ToolChange, ToolsChanged
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.messages import Section, TextWanted
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import Pairs, differences

_SHOWN_LINES = 400
"""Of one tool; a screen has to be laid out."""
_LINE = 4_000


def difference(change: ToolChange) -> Pairs:
    """One tool's difference, its marks in front: colour only repeats what they say."""
    shown = [line[:2] + clean_line(line[2:], _LINE) for line in change.difference[:_SHOWN_LINES]]
    if len(change.difference) > len(shown):
        shown.append(f"  … {len(change.difference) - len(shown):,} more lines: v shows all")
    return differences(shown, id="sent")


def _is_cut(change: ToolChange) -> bool:
    return len(change.difference) > _SHOWN_LINES or any(len(line) > _LINE for line in change.difference)


class ToolsChangedDialog(Dialog[KeepTools]):
    """May these tools be what they are now?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Hold back all"),
        ("one", "Keep this one"),
        ("done", "Done"),
        ("keep", "Keep all"),
    )
    AGREEING: ClassVar[frozenset[str]] = frozenset({"one", "keep"})
    ONE_KEYS: ClassVar[str] = "esc hold it back · k keep it · v all"
    KEYS: ClassVar[str] = "esc hold all back · k keep · n/p next, last · f done · K keep all · v all"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "one", show=False),
        Binding("f", "done", show=False),
        Binding("K", "keep", show=False),
        Binding("n", "step(1)", show=False),
        Binding("p", "step(-1)", show=False),
        Binding("v", "view", show=False),
    ]

    def __init__(self, question: ToolsChanged) -> None:
        super().__init__(question)
        self.asked = question
        self.place = 0
        self.kept: list[str] = []
        self._read: set[int] = set()
        self._whole: set[int] = set()
        self._is_there = True

    def headline(self) -> str:
        count = len(self.asked.changes)
        what = f"{count} of its tools" if count > 1 else self.asked.changes[0].tool
        return f"{self.asked.server} changed {what}"

    def preview(self) -> str:
        return ", ".join(change.tool for change in self.asked.changes)

    def body(self) -> list[Content | Widget]:
        change = self.asked.changes[self.place]
        count = len(self.asked.changes)
        place = f"   {self.place + 1} of {count}" if count > 1 else ""
        mark = "  ✓ kept" if change.tool in self.kept else ""
        return [
            Content.assemble(
                (clean_line(change.tool, 120), "bold $text"), (place, "$faint"), (mark, "$success"), ("\n", "")
            ),
            difference(change),
            Content.styled(
                "\nWhat it was (-) and what it is (+). Held back, the model is not told of it and nothing calls it; "
                "what you allowed it before counts again only when you keep it.",
                "$faint",
            ),
        ]

    def on_mount(self) -> None:
        super().on_mount()
        if len(self.asked.changes) == 1:
            for ident in ("#done", "#keep"):
                self.query_one(ident).display = False
            self.query_one("#refuse", Button).label = "Hold it back"
            self.query_one("#one", Button).label = "Keep it"
            self.show_keys(self.ONE_KEYS)

    # -- what was read of it

    def _show_rest(self) -> None:
        # Not between two of them: how long the one is says nothing about the other.
        if self._is_there:
            super()._show_rest()

    def _show_read(self) -> None:
        if self._is_there:
            super()._show_read()

    def show_locks(self) -> None:
        if self.was_read and (self.place in self._whole or not _is_cut(self.asked.changes[self.place])):
            self._read.add(self.place)
        super().show_locks()

    def reminder(self) -> str:
        if self.place in self._whole or not _is_cut(self.asked.changes[self.place]):
            return ""
        return "not all of it is shown here: read it with v, to the end"

    def withheld(self, ident: str) -> str:
        unread = len(self.asked.changes) - len(self._read)
        if ident == "keep" and unread:
            return f"{unread} of them you have not looked at yet: n shows the next"
        return super().withheld(ident) or (self.reminder() if ident == "one" else "")

    def action_view(self) -> None:
        """The whole difference, on a page of its own; the question waits under it."""
        place, change = self.place, self.asked.changes[self.place]

        def seen() -> None:
            self._whole.add(place)
            self._show_rest()

        shown = Section(f"── how {change.tool} changed", "\n".join(change.difference))
        self.post_message(TextWanted(f"{self.asked.server} · {change.tool}", "", seen, sections=(shown,)))

    # -- answers

    def action_done(self) -> None:
        """What was kept one by one is kept; the rest is held back."""
        self.dismiss(KeepTools(tuple(self.kept)))

    def action_keep(self) -> None:
        """All of them, once each was on the screen."""
        self.agree("keep", KeepTools(tuple(one.tool for one in self.asked.changes)))

    async def action_one(self) -> None:
        """Keep the one that is shown, or not after all, and go on to the next; the last one ends it."""
        tool = self.asked.changes[self.place].tool
        if why := self.withheld("one"):
            self.insist(why)
            return
        self.kept.remove(tool) if tool in self.kept else self.kept.append(tool)
        if len(self.kept) == len(self.asked.changes):
            self.dismiss(KeepTools(tuple(self.kept)))
        else:
            await self.action_step(1)

    async def action_step(self, by: int) -> None:
        """Another one of them."""
        self._is_there = False
        self.place = (self.place + by) % len(self.asked.changes)
        self.was_read = self.place in self._read
        body = self.query_one("#body")
        await body.remove_children()
        await body.mount(*self._body_widgets())
        body.scroll_to(y=0, animate=False)
        self.fit()
        self.call_after_refresh(self._there)

    def _there(self) -> None:
        self._is_there = True
        self._show_rest()
