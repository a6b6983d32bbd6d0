"""Base class for small forms over the chat.

A form has a title, fields, an error line, buttons and key hints.
"""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Button, Input, Static, TextArea

from mcphost.translation import _, translate_sentence
from mcphost.tui import input_guard
from mcphost.tui.screen_reader import announce
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.compact_button import CompactButton
from mcphost.tui.widgets.key_hints import KeyHints
from mcphost.tui.widgets.laid_out_once import FlexColumn, FlexRow, StaticText
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.text_inputs import OrderedInput, wait_for_typed_text

A = TypeVar("A")
_MAX_FAULT_LENGTH = 4_096
_MAX_MOUNTING_SECONDS = 2


class _KeyHintLine(KeyHints):
    """Key hints in the last line of a form; drawing this line marks the form as shown.

    Using `call_after_refresh` for this would be too late: on a busy machine, Textual may run the callback only after
    the user has already pressed a key in the visible form.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines within *crop*, and record that the form is visible."""
        if isinstance(self.screen, FormScreen):
            cast("FormScreen[Any]", self.screen).mark_shown()
        return super().render_lines(crop)


class FormScreen(ScreenLifecycle, ModalScreen[A | None], Generic[A]):
    """Modal form that is dismissed with a result, or with None if the user cancels.

    A button's id is the name of the action that the button runs.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        # Handled before the field, so that text typed next goes to the next field.
        Binding("tab", "leave_field('tab')", show=False, priority=True),
        Binding("shift+tab", "leave_field('shift+tab')", show=False, priority=True),
        Binding("enter", "leave_field('enter')", show=False, priority=True),
        # In other widgets, as on every screen.
        Binding("tab", "app.focus_next", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
    ]
    DEFAULT_CSS = """
    FormScreen { align: center middle; background: $background 60%; }
    FormScreen #box { width: 90%; max-width: 90; height: auto; max-height: 95%; background: $panel; padding: 1 2 0 2;
                 border: round $accent; border-title-color: $accent; border-title-style: bold; }
    FormScreen Static { height: auto; }
    FormScreen #fault { color: $error; }
    FormScreen #buttons { height: 1; margin: 1 0 0 0; }
    FormScreen Button { min-width: 6; margin: 0 1 0 0; height: 1; border: none; padding: 0 1; background: $surface;
                   color: $text; text-style: none; }
    FormScreen Button:focus { background: $accent; color: $background; text-style: bold; }
    FormScreen #keys { color: $faint; text-align: right; }
    """

    # Whether Escape must be pressed twice if the user has changed a text, which would otherwise be lost.
    CONFIRMS_LEAVING: ClassVar[bool] = False

    _shown_at: float | None = None
    _initial_texts: tuple[str, ...] = ()
    _warned_texts: tuple[str, ...] | None = None
    _warned_at = float("-inf")

    def on_mount(self) -> None:
        """Record the initial texts of the form. After the first refresh, mark the form as shown.

        Usually, drawing the key hints has already marked the form. On a small screen, the key hints may not be drawn.
        """
        self._initial_texts = self._read_texts()
        self.call_after_refresh(self.mark_shown)

    def _read_texts(self) -> tuple[str, ...]:
        return tuple(
            field.text if isinstance(field, TextArea) else field.value
            for field in self.query("TextArea, Input").results()
            if isinstance(field, TextArea | Input)
        )

    def mark_shown(self) -> None:
        """Record that the form has become visible now; later calls have no effect."""
        if self._shown_at is None:
            self._shown_at = monotonic()

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return whether the form was still hidden *seconds_ago* seconds ago.

        If so, a key that was pressed at that time is ignored, because it was not meant for the form.
        """
        return self._shown_at is None or monotonic() - seconds_ago < self._shown_at

    def headline(self) -> str:
        """Return the title of the form.

        The title may contain unsanitized text from a server, because `compose` sanitizes it.
        """
        raise NotImplementedError

    def body(self) -> ComposeResult:
        """Yield the widgets between the title and the error line."""
        raise NotImplementedError

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return an (action, label) pair for each button."""
        return ()

    def key_hints(self) -> str:
        """Return the line at the bottom that explains the keys."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Create the box with the title, body, error line, buttons and key hints."""
        with FlexColumn(id="box") as box:
            box.border_title = Content(clean_line(self.headline(), 80))
            yield from self.body()
            yield StaticText("", id="fault", markup=False)
            if buttons := self.buttons():
                with FlexRow(id="buttons"):
                    for action, label in buttons:
                        yield CompactButton(label, id=action)
            yield _KeyHintLine(self.key_hints())

    def moves_on_enter(self, field: Input) -> bool:
        """Return whether Enter in *field* focuses the next field or button.

        Return False by default; Enter then submits the field.
        """
        del field
        return False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the action `leave_field` only for keys that move the focus from the focused field.

        Tab and Shift+Tab move the focus from every text field, Enter only if `moves_on_enter` returns True. While the
        action is disabled for a key, the key has its usual function.
        """
        if action != "leave_field":
            return super().check_action(action, parameters)
        field = self.focused
        if parameters == ("enter",):
            return isinstance(field, Input) and self.moves_on_enter(field)
        return isinstance(field, Input | TextArea)

    async def action_leave_field(self, key: str) -> None:
        """Focus the next widget, or the previous one for Shift+Tab.

        The focus does not move if the focused field uses *key* itself, for example to choose a suggestion.
        """
        field = self.focused
        if isinstance(field, OrderedInput):
            await wait_for_typed_text(field)
            if field.process_key(key):
                return
        if key != "shift+tab":
            with suppress(TimeoutError):
                async with asyncio.timeout(_MAX_MOUNTING_SECONDS):
                    await self.wait_for_fields()
        self.focus_previous() if key == "shift+tab" else self.focus_next()

    async def wait_for_fields(self) -> None:
        """Wait until all fields are mounted, so that focus can move to the next field.

        By default, this returns immediately; forms that do not mount all fields at once override it.
        """

    def show_fault(self, text: str) -> None:
        """Show an error message below the body, replacing the previous one; "" clears it."""
        self.query_one("#fault", Static).update(Content(clean_line(translate_sentence(text), _MAX_FAULT_LENGTH)))
        announce(self, text)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Run the action named by the button's id."""
        event.stop()
        if event.button.id == "leave":
            # Unlike Escape, the button is not pressed by accident.
            self._warned_texts, self._warned_at = self._read_texts(), float("-inf")
        self.call_later(self.run_action, str(event.button.id))

    def action_leave(self) -> None:
        """Close the form without a result.

        If CONFIRMS_LEAVING is set and the user has changed any text, the first call only warns that the changes would
        be lost.
        """
        texts, now = self._read_texts(), input_guard.clock()
        if self.CONFIRMS_LEAVING and texts not in (self._initial_texts, self._warned_texts):
            self._warned_texts, self._warned_at = texts, now
            self.show_fault(_("Your changes are not saved. Press Esc again to discard them."))
        elif now - self._warned_at >= input_guard.GUARD_SECONDS:
            self.dismiss(None)
        else:
            self._warned_at = now  # the key is held down
