"""Search bar for the conversation, which searches while the user types."""

from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.style import Style
from textual.widgets import Input, Static

from mcphost.translation import _
from mcphost.tui.transcript.find import MAX_QUERY, FindMatch, FindQuery, FindResult
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widgets.text_inputs import OrderedInput


class FindBar(Horizontal):
    """Bar with a search input and the number of matches; the transcript highlights the matches."""

    DEFAULT_CSS = """
    FindBar { height: 1; background: $surface; padding: 0 1; margin: 0 1; }
    FindBar #find-label { width: 6; color: $accent; }
    FindBar Input { width: 1fr; background: $panel; }
    FindBar #find-count { width: auto; margin-left: 2; color: $muted; }
    FindBar #find-keys { width: auto; margin-left: 2; color: $muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "go(1)", show=False),
        Binding("shift+enter,up", "go(-1)", show=False),
        # Handled before later keys: over a slow connection, keys arrive together, and later letters are message text.
        Binding("escape", "close", show=False, priority=True),
    ]

    def __init__(self, transcript: Transcript) -> None:
        super().__init__()
        self._transcript = transcript
        self._result: FindResult | None = None
        self._current: FindMatch | None = None

    def compose(self) -> ComposeResult:
        """Create the input, the match count and the clickable key hints."""
        yield Static(_("Find"), id="find-label", markup=False)
        yield OrderedInput(placeholder=_("text in this conversation"), max_length=MAX_QUERY, compact=True)
        yield Static("", id="find-count", markup=False)
        keys = (("↑", _("up"), "go(-1)"), ("↓", _("down"), "go(1)"), ("esc", _("close"), "close"))
        yield Static(
            Content("  ").join(
                Content.assemble((shown, "$accent"), f" {label}").stylize(Style.from_meta({"find": action}))
                for shown, label, action in keys
            ),
            id="find-keys",
            markup=False,
        )

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for the changed text, or end the search if the text is blank."""
        event.stop()
        text = event.value
        if not text.strip():
            self._result = self._current = None
            self.workers.cancel_group(self, "find")  # pyright: ignore[reportUnknownMemberType]
            self._transcript.show_find(None)
            self._show_count()
            return
        result = self._result = FindResult(FindQuery(text))
        self._current = None
        self.run_worker(partial(self._search, result), group="find", exclusive=True)

    async def _search(self, result: FindResult) -> None:
        await self._transcript.wait_loaded()
        first = self._transcript.first_visible_index()
        await result.search(tuple(self._transcript.blocks))
        if result is not self._result:
            return
        order = {id(block): index for index, block in enumerate(self._transcript.blocks)}
        below = (match for match in result.matches if order.get(id(match.block), -1) >= first)
        self._show(next(below, result.matches[-1] if result.matches else None))

    def _show(self, match: FindMatch | None) -> None:
        self._current = match
        if self._result is not None:
            self._transcript.show_find(self._result.query, match)
        self._show_count()

    def _show_count(self) -> None:
        text = ""
        if self._result is not None and self._result.is_complete:
            total = len(self._result.matches)
            more = "+" if self._result.is_full else ""
            place = self._result.index(self._current) + 1
            text = (
                _("{place:,} of {total:,}{more}").format(place=place, total=total, more=more)
                if total
                else _("no match")
            )
        self.query_one("#find-count", Static).update(text)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show the next match when the user presses Enter."""
        event.stop()
        await self.action_go(1)

    def on_click(self, event: events.Click) -> None:
        """Run the action of the key hint that was clicked."""
        if action := event.style.meta.get("find"):
            event.stop()
            self.run_worker(partial(self.run_action, str(action)), group="find-click")

    async def action_go(self, by: int) -> None:
        """Search again, and show the next (*by* = 1) or previous (*by* = -1) match.

        The search wraps around at the ends of the conversation.
        """
        result = self._result
        if result is None:
            return
        current = self._current
        fresh = FindResult(result.query)
        await self._transcript.wait_loaded()
        await fresh.search(tuple(self._transcript.blocks))
        if self._result is not result or not self.is_attached:
            return
        self._result = fresh
        if fresh.matches:
            at = fresh.index(current)
            at = 0 if at < 0 and by < 0 else at
            self._show(fresh.matches[(at + by) % len(fresh.matches)])
        else:
            self._show(None)

    def action_close(self) -> None:
        """Close the bar and focus the composer.

        The block that contains the current match remains the transcript's current block.
        """
        self._transcript.show_find(None)
        self.screen.set_focus(self.screen.query_one("#prompt"))
        self.remove()
