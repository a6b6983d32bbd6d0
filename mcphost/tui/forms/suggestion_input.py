"""Single-line input that shows a list of suggestions when the user pauses typing."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from mcphost.errors import McpHostError, UnsupportedCapability
from mcphost.protocol.prompts import Completion
from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.text_inputs import OrderedInput

SUGGEST_DELAY = 0.15
"""Seconds after the last key until suggestions are requested."""
VALUE_LIMIT = 2_000
SuggestionSource = Callable[[str], Awaitable[Completion]]


class SuggestionLine(OrderedInput):
    """Single-line input inside a SuggestionInput; the list of suggestions handles each key first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+space", "suggest", show=False)]

    def __init__(self, owner: "SuggestionInput", widget_id: str) -> None:
        super().__init__(id=widget_id, compact=True)
        self._owner = owner

    def process_key(self, key: str) -> bool:
        """Handle a key that acts on the list of suggestions; return False for any other key."""
        return self._owner.process_key(key)

    async def _on_key(self, event: events.Key) -> None:
        if self.process_key(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def action_suggest(self) -> None:
        """Request suggestions for the current text, after the usual delay."""
        self._owner.schedule_request()


class SuggestionInput(Vertical):
    """Single-line input with a list of suggestions below it.

    *source* is an async function that receives the typed text and returns suggestions. If it raises
    UnsupportedCapability, it is not called again; if it raises another McpHostError, no suggestions are shown.

    Arrow keys highlight a suggestion, Enter or Tab accepts it, and Escape closes the list. While no suggestion is
    highlighted, Enter and Tab have their usual function. A screen that contains this input can show HINT before its own
    key hints.
    """

    HINT = N_("↓ suggestions · ")
    DEFAULT_CSS = """
    SuggestionInput { height: auto; margin-bottom: 1; }
    SuggestionInput SuggestionLine { border: none; height: 1; background: $surface; padding: 0 1; margin: 0; }
    SuggestionInput OptionList {
        height: auto; max-height: 6; border: none; background: $surface; padding: 0; scrollbar-size-vertical: 1;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, input_id: str, source: SuggestionSource | None = None) -> None:
        super().__init__()
        self._input_id = input_id
        self._source = source
        self._suggestions: list[str] = []
        self._accepted_value: str | None = None
        self._delay_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Create the single-line input."""
        yield SuggestionLine(self, self._input_id)

    @property
    def line(self) -> SuggestionLine:
        """The single-line input."""
        return self.query_one(SuggestionLine)

    def on_input_changed(self) -> None:
        """Request suggestions for the new text, unless the text is a suggestion that the user just accepted."""
        if self._accepted_value == self.line.value:
            return  # the suggestion that was just accepted
        self._accepted_value = None
        self.schedule_request()

    def on_descendant_focus(self) -> None:
        """Request suggestions when the input gets the focus, even if it is empty."""
        self.schedule_request()

    def on_descendant_blur(self) -> None:
        """Close the list of suggestions and cancel a pending request."""
        self._close_suggestions()

    def schedule_request(self) -> None:
        """Request suggestions after a delay of SUGGEST_DELAY seconds; cancel an earlier request."""
        self._cancel_request()
        if self._source is not None:
            self._delay_timer = self.set_timer(SUGGEST_DELAY, self._start_request)

    def _cancel_request(self) -> None:
        if self._delay_timer is not None:
            self._delay_timer.stop()
        self.workers.cancel_group(self, "suggestions")  # pyright: ignore[reportUnknownMemberType]

    def _start_request(self) -> None:
        if self.line.has_focus:
            self.run_worker(partial(self._load_suggestions, self.line.value), group="suggestions", exclusive=True)

    async def _load_suggestions(self, value: str) -> None:
        if self._source is None:
            return
        try:
            found = await self._source(value)
        except UnsupportedCapability:
            self._source = None
            found = Completion()
        except McpHostError:
            found = Completion()
        # Values with invisible characters are not suggested: the user could not see what would be sent.
        values = [one for one in found.values if one and clean_line(one, VALUE_LIMIT) == one]
        self._show_suggestions([] if values == [value] else values, more=found.has_more)

    def _show_suggestions(self, values: list[str], *, more: bool) -> None:
        self._suggestions = values
        popup = next(iter(self.query(OptionList)), None)
        if not values:
            if popup is not None:
                popup.remove()
            return
        if popup is None:
            popup = OptionList(markup=False, compact=True)
            popup.can_focus = False
            self.mount(popup)
        popup.clear_options()
        popup.add_options([Option(Content(clean_line(value, 200))) for value in values])
        if more:
            popup.add_option(Option(Content.styled(_("… and more: keep typing"), "$muted"), disabled=True))
        popup.highlighted = None
        popup.call_after_refresh(self.scroll_visible, animate=False)

    def _close_suggestions(self) -> None:
        self._cancel_request()
        self._show_suggestions([], more=False)

    def process_key(self, key: str) -> bool:
        """Handle a key that acts on the list of suggestions; return False for any other key."""
        popup = next(iter(self.query(OptionList)), None)
        if popup is None or not self._suggestions:
            return False
        match key:
            case "down":
                popup.action_cursor_down() if popup.highlighted is not None else setattr(popup, "highlighted", 0)
            case "up" if popup.highlighted is not None:
                popup.highlighted = popup.highlighted - 1 if popup.highlighted else None
            case "enter" | "tab" if popup.highlighted is not None:
                self._accept(popup.highlighted)
            case "escape":
                self._close_suggestions()
            case _:
                return False
        return True

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Accept the suggestion that the user clicked."""
        event.stop()
        self._accept(event.option_index)
        self.line.focus()

    def _accept(self, index: int) -> None:
        if index < len(self._suggestions):
            self._accepted_value = self._suggestions[index]
            self.line.value = self._accepted_value
            self.line.cursor_position = len(self._accepted_value)
        self._close_suggestions()
