"""Base class for dialogs that show a request and the reason for it, and ask the user to decide.

The button that refuses the request has the initial focus; Escape also refuses it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from textual import events
from textual._cells import cell_len
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static, TextArea

from mcphost.host.questions.frontend import Question
from mcphost.serialization import replace
from mcphost.translation import N_, _, ngettext, translate_sentence
from mcphost.tui.forms.form import Form
from mcphost.tui.input_guard import AnswerGuard
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import account_title, clean_line
from mcphost.tui.widgets.compact_button import CompactButton
from mcphost.tui.widgets.key_hints import SEPARATOR, KeyHints, mark_locked_keys, wrap_key_hints
from mcphost.tui.widgets.laid_out_once import Column, StaticText
from mcphost.tui.widgets.one_line_text import OneLineText
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.stable_scroll import StableScroll
from mcphost.tui.widgets.wrapping_row import WrappingRow

A = TypeVar("A")
ENTER_HINT = N_("press {answer} or tab to answer")
NEXT_HINT = N_("next question · press {answer} or tab to answer · letters go to your message")
_POLL_SECONDS = 0.03
_FRAME_ROWS = 9  # border, padding, "more lines", keys, and a row of the chat above and below
_SPACING_ROWS = 3  # the part of _FRAME_ROWS that the body uses on a short screen
_SHORT_HEIGHT = 30


class Dialog(ScreenLifecycle, ModalScreen[A], Generic[A]):
    """Modal dialog that asks one question.

    The dialog closes only through `dismiss(answer)`; a click outside the dialog does nothing.
    """

    CSS_PATH = None
    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 45%; }
    Dialog #box {
        width: 95%; max-width: 104; height: auto; max-height: 100%; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; border-subtitle-color: $muted; padding: 1 2 0 2;
    }
    Dialog #why { height: auto; color: $muted; margin-bottom: 1; }
    Dialog #why.changed { color: $warning; }
    Dialog #body { height: auto; max-height: 1fr; background: $panel; scrollbar-size-vertical: 1; }
    Dialog #body Static { height: auto; }
    Dialog #more { color: $warning; text-align: right; }
    Dialog #more.insists { text-style: bold reverse; }
    Dialog #extra { height: auto; display: none; margin-top: 1; }
    Dialog #extra.shown { display: block; }
    Dialog #buttons { height: auto; margin: 1 0 0 0; }
    Dialog Button { min-width: 6; margin: 0 1 0 0; height: 1; border: none; padding: 0; background: $surface;
                    color: $text; text-style: none; }
    Dialog Button.locked { color: $faint; }
    Dialog Button:focus { background: $accent; color: $background; text-style: bold; }
    Dialog #keys { height: auto; color: $faint; text-align: right; margin-top: 1; text-opacity: 0%; }
    Dialog.short #box { padding: 0 2; }
    Dialog.short #buttons, Dialog.short #keys, Dialog.short LabeledInput { margin: 0; }
    Dialog.short #extra { margin: 0 0 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("up", "line(-1)", show=False),
        Binding("down", "line(1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
    ]
    # `on_mount` sets the focus. Textual would focus the body before that, and restyle all of its widgets twice.
    AUTO_FOCUS = ""

    # The id and label of each button; the first button refuses, and has the initial focus.
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", N_("No")),)
    KEYS: ClassVar[str] = N_("esc no")
    # Passed to `dismiss` if the user wants to answer another question first.
    POSTPONED: ClassVar[object] = object()
    # Passed to `dismiss` if the user types elsewhere; the question stays open as a card.
    MINIMIZED: ClassVar[object] = object()
    # Whether the account is shown below the title; False if the body shows it.
    SHOW_ACCOUNT: ClassVar[bool] = True
    # Actions that open an input. Their keys have `priority` and focus the input immediately, because text typed right
    # after such a key is meant for the input and must not trigger other keys.
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset()
    # Whether a title that the frame truncates is repeated in full below it; False if the body has the names.
    REPEAT_LONG_TITLE: ClassVar[bool] = True
    # Buttons that approve; they are disabled until the end of the content has been visible.
    APPROVING: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, question: Question[A]) -> None:
        super().__init__()
        self.question = question
        self.is_read = not self.APPROVING
        self.guard = AnswerGuard()
        self._body_version = 0
        """How many times the body was replaced, so that a callback for an earlier body can be ignored."""
        self.is_follow_up = False
        self.is_retry = False
        """Whether the dialog opens with its input, because the user's entry was wrong; see Question.is_retry."""
        self.retry_text = ""
        """Text that the user typed while the wrong entry was checked; the input initially contains this text."""
        self.on_dismissed: Callable[[Any], None] = lambda answer: None
        """Called with the answer as soon as the dialog is closed, before any further key is handled."""
        self._queue_position = (1, 1)
        self.key_line = self.KEYS
        self._shown_key_hints = ""

    @property
    def is_guarded(self) -> bool:
        """Whether keys and clicks are ignored, because the user may not have noticed the new question yet."""
        return self.guard.is_new()

    @property
    def is_field_focused(self) -> bool:
        """Whether an input field has the focus, so that letter keys enter text instead of running actions."""
        focused = self.focused
        if focused is None or isinstance(focused, Input | TextArea):
            return focused is not None
        return any(isinstance(node, Form) for node in focused.ancestors)

    def enter(self) -> None:
        """Enable the dialog's keys, because the user has moved to the dialog deliberately, for example with F8."""
        self.guard.is_entered = True
        if self.is_mounted:
            self.show_key_hints(self.key_line)
            self.fit()
            self.update_key_hint_opacity()

    def has_binding(self, key: str) -> bool:
        """Return whether the dialog has a binding for the key."""
        return key in self._bindings.key_to_bindings

    def contains_point(self, x: int, y: int) -> bool:
        """Return whether the cell at column *x* and row *y* of the screen is inside the dialog's frame."""
        return any(box.region.contains(x, y) for box in self.query("#box"))

    def card_texts(self) -> tuple[str, tuple[str, ...], str]:
        """Return the title, the summary lines and the queue position for the card shown while the dialog is minimized.

        The queue position is a label such as "question 2 of 3", or "" if no other question is waiting.
        """
        place, total = self._queue_position
        lines = (clean_line(self.preview(), 400), clean_line(translate_sentence(self.question.why), 400))
        return (
            clean_line(self.headline(), 400),
            lines,
            _("question {place} of {total}").format(place=place, total=total) if total > 1 else "",
        )

    async def process_key(self, key: str) -> bool:
        """Run a key's action before the next key is delivered; return False if the key has no action.

        If the action opens or focuses an input, text typed right after the key therefore goes into that input. While a
        form field has the focus, only keys that move to another field are handled; all other keys go to the field.
        """
        focused, app = self.focused, cast("Any", self).app
        for node in focused.ancestors if focused is not None else ():
            if isinstance(node, Form):
                return node.process_key(key)
        on_button = isinstance(focused, Button) and getattr(focused.parent, "id", None) == "buttons"
        if focused is None or not (on_button or focused.id == "body" or isinstance(focused, OptionList)):
            return False
        if key == "enter" and on_button:
            return bool(await app.run_action(str(focused.id), self))
        return bool(await app._check_bindings(key, priority=True) or await app._check_bindings(key))

    # -- overridden by each dialog

    def headline(self) -> str:
        """Return the title, which usually names the server and what it requests; the caller sanitizes it."""
        raise NotImplementedError

    def preview(self) -> str:
        """Return a one-line summary for the card shown while the dialog is minimized; the caller sanitizes it."""
        return ""

    def body(self) -> Sequence[Content | Widget]:
        """Return the sanitized content and widgets that show everything the user needs to know to decide."""
        raise NotImplementedError

    def last_required_row(self) -> int:
        """Return the row of the body to which the user must have scrolled before approving.

        This is the end of the widget with the id `sent`, which shows what the user approves; the text below this widget
        comes from the server and need not be read. If there is no such widget, it is the end of the body.
        """
        body = self.query_one("#body")
        sent = next((part for part in body.children if part.id == "sent" and part.virtual_region.height), None)
        return sent.virtual_region.bottom if sent is not None else body.virtual_size.height  # 0 until it is laid out

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the actions that open an input (INPUT_ACTIONS) while one is open, because their keys enter text."""
        if action in self.INPUT_ACTIONS and self._open_inputs:
            return False
        return super().check_action(action, parameters)

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled."""
        describe = self.reminder if self.is_read else self.unread_message
        return describe() if button_id in self.APPROVING else ""

    def unmet_condition(self, button_id: str) -> str:
        """Return the reason why a button's key does not work yet, or "" if it works.

        The key hints mark such a key as "not yet". By default, the result is the `disabled_reason`. A subclass must
        override this method if it also disables buttons while an input or another screen is open.
        """
        return self.disabled_reason(button_id)

    def key_hints(self) -> str:
        """Return the key hints to show while no input is open."""
        return self.KEYS

    def compose_extra(self) -> ComposeResult:
        """Yield input widgets, which stay hidden until an action opens them."""
        yield from ()

    def compose_pinned(self) -> ComposeResult:
        """Yield a widget with the id `pinned` that stays in view above the body while the body scrolls.

        The base class yields no widget.
        """
        yield from ()

    def open_extra(self, first: str, key_hints: str) -> None:
        """Show the hidden inputs, focus the input with the id *first*, and show *key_hints*."""
        self.query_one("#extra").add_class("shown")
        for field in self.query(f"#{first}"):  # none while a dialog that has just opened is removed
            self.set_focus(field)
        self.show_key_hints(key_hints)
        self.call_after_refresh(self.fit)

    @property
    def _open_inputs(self) -> list[Widget]:
        # A query of the whole dialog would look at each of the 600 widgets of a long form.
        extras = (extra for box in self.children for extra in box.query_children("#extra.shown"))
        return [part for extra in extras for part in extra.children]

    def close_extra(self) -> bool:
        """Hide the inputs, clear passwords and return True; return False if no input was open."""
        extra = self.query_one("#extra")
        if not extra.has_class("shown"):
            return False
        extra.remove_class("shown")
        self.query_one("#more").remove_class("insists")
        for line in extra.query(Input):
            if line.password:
                line.value = ""
        self.focus_first()
        self.show_key_hints(self.key_hints())
        self.fit()
        return True

    # -- the frame

    def compose(self) -> ComposeResult:
        """Create the frame with the reason for the request, the body, hidden inputs, buttons and key hints."""
        self.set_class(self.app.size.height < _SHORT_HEIGHT, "short", update=False)  # pyright: ignore[reportUnknownMemberType]
        with Column(id="box") as box:
            box.border_title = ""
            yield StaticText(self._requester_text(), id="why", markup=False)
            yield from self.compose_pinned()
            with StableScroll(id="body", can_focus=True):
                yield from self._body_widgets()
            yield OneLineText("", id="more", markup=False)
            with Column(id="extra"):
                yield from self.compose_extra()
            with WrappingRow(id="buttons"):
                for button_id, label in self.BUTTONS:
                    yield CompactButton(Content(_(label)), id=button_id, locked=button_id in self.APPROVING)
            yield KeyHints(_(self.KEYS))

    def _requester_text(self) -> str:
        """Return the line with the reason for the request and the account.

        If the frame truncates the title, the full title precedes this line.
        """
        title = clean_line(self.headline(), 400)
        whole = title if self.REPEAT_LONG_TITLE and Content(title).cell_length > self._width - 2 else ""
        account = clean_line(account_title(self.question.account), 100) if self.SHOW_ACCOUNT else ""
        named = account and _("account {account}").format(account=account)
        asker = " · ".join(filter(None, (clean_line(translate_sentence(self.question.why), 400), named)))
        return "\n".join(filter(None, (whole, asker)))

    def _body_widgets(self) -> Iterator[Widget]:
        for piece in self.body():
            yield StaticText(piece, markup=False) if isinstance(piece, Content) else piece

    async def show_body(self) -> None:
        """Rebuild the body, scroll to its beginning, and ignore keys for a moment.

        The user must scroll to the end again before approving.
        """
        self.is_read = not self.APPROVING
        self._body_version += 1
        self.guard.hide()
        self.query_one("#keys").styles.text_opacity = 0.0
        body = self.query_one("#body")
        await body.remove_children()
        await body.mount(*self._body_widgets())
        body.scroll_to(y=0, animate=False)
        self.fit()
        self.call_after_refresh(self._mark_shown, self._body_version)

    def on_mount(self) -> None:
        """Focus the button that refuses the request, and ignore keys until shortly after the first layout.

        If the user's previous answer to this question was wrong, open the input in which to correct it instead.
        """
        box = self.query_one("#box")
        box.border_title = Content(clean_line(self.headline(), 120))
        self.show_queue_position(*self._queue_position)
        if self.is_retry:
            self.open_retry_input()
            if self.retry_text and isinstance(self.focused, Input):
                self.focused.select_on_focus = False  # the next key would replace the text
                self.focused.insert_text_at_cursor(self.retry_text)
                self.retry_text = ""  # Textual also calls this method for a subclass that overrides it
        else:
            self.focus_first()
        self.watch(self.query_one("#body"), "scroll_y", self.update_remaining, init=False)
        self.fit()
        self.call_after_refresh(self._mark_shown, self._body_version)

    def open_retry_input(self) -> None:
        """Open the input in which the user will correct an earlier answer; see Question.is_retry."""
        self.focus_first()

    def focus_first(self) -> None:
        """Focus the button that refuses the request."""
        self.query_one(f"#{self.BUTTONS[0][0]}").focus()

    def _mark_shown(self, version: int) -> None:
        if version == self._body_version:  # otherwise, a newer body is not laid out yet
            self.accept_keys()

    def accept_keys(self) -> None:
        """Start the short delay after which keys are accepted; call this once the body is on the screen."""
        self.guard.show()
        self.update_remaining()
        self.update_key_hint_opacity()

    def update_key_hint_opacity(self) -> None:
        """Hide the key hints while keys are ignored, and show them afterwards."""
        if not self.guard.is_shown or not self.is_open:
            return  # the body is being replaced
        blocked = self.guard.is_blocking(0.0, is_letter=True)  # read only once, because the value changes with time
        # Changing the visibility instead would lay out the whole question again.
        self.query_one("#keys").styles.text_opacity = 0.0 if blocked else 1.0
        if blocked:
            self.set_timer(_POLL_SECONDS, self.update_key_hint_opacity)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the body to the new size."""
        del event
        self.fit()

    @property
    def _width(self) -> int:
        return max(20, min(104, self.size.width * 19 // 20) - 6)

    def fit(self) -> None:
        """Limit the height of the body so that the buttons stay visible."""
        if not self.is_open:
            return
        width = self._width
        short = self.size.height < _SHORT_HEIGHT
        self.set_class(short, "short")
        self._shown_key_hints = self._visible_key_hints
        keys = wrap_key_hints(self._shown_key_hints, width)
        self.query_one("#keys", Static).update("\n".join(keys))
        taken = _FRAME_ROWS - (_SPACING_ROWS if short else 0) + self._button_rows(width) + len(keys) - 1
        asker, why = self._requester_text(), self.query_one("#why", Static)
        if str(why.content) != asker:
            why.update(asker)
        why.display = bool(asker)
        taken += 1 + len(Content(asker).wrap(width)) if asker else 0
        for child in (*self.query_one("#box").query_children("#pinned"), *self._open_inputs):
            taken += (child.outer_size.height or 1) + child.styles.margin.height if child.display else 0
        taken += 1 if self._open_inputs else 0
        self.query_one("#body").styles.max_height = max(3, self.size.height - taken)
        self.call_after_refresh(self._handle_layout)

    def _button_rows(self, width: int) -> int:
        rows, used = 1, 0
        for button in self.query_one("#buttons").query(Button):
            if button.display:
                cells = max(6, cell_len(str(button.label)) + 2)
                rows, used = (rows + 1, 0) if used and used + cells > width else (rows, used)
                used += cells + 1
        return rows

    # -- reading to the end before approving

    def _count_unread_rows(self) -> int:
        body = self.query_one("#body")
        return max(0, round(self.last_required_row() - body.scroll_y - body.size.height))

    def unread_message(self) -> str:
        """Return a message that states how many lines the user must still read before approving."""
        rows = self._count_unread_rows()
        text = ngettext("read to the end first: {rows} more line", "read to the end first: {rows} more lines", rows)
        return text.format(rows=rows)

    def _handle_layout(self) -> None:
        # A hint about the last key stays until another key is pressed, even if the layout finishes later.
        if self.query_one("#more").has_class("insists"):
            self._update_read_state()
        else:
            self.update_remaining()

    def _update_read_state(self) -> None:
        body = self.query_one("#body")
        laid_out = self.guard.is_shown and body.size.height > 0 and body.virtual_size.height > 0
        if laid_out and body.scroll_y >= body.max_scroll_y:
            self.handle_end_visible()
        if not self.is_read and laid_out and not self._count_unread_rows():
            self.is_read = True
        self.update_locked_buttons()

    def update_remaining(self) -> None:
        """Show how many lines remain to be read; enable the approving buttons when no required line remains."""
        if not self.is_open:
            return
        self._update_read_state()
        body = self.query_one("#body")
        rest = round(body.max_scroll_y - body.scroll_y)
        # Text below the required part is only informative, such as all limits of a sampling request.
        below = ngettext("↓ {rest} more line (down, page down)", "↓ {rest} more lines (down, page down)", rest)
        text = below.format(rest=rest) if rest > 0 else ""
        if not self.is_read and self.query_one("#buttons").display:
            text = _("↓ {unread_message} (page down, end)").format(unread_message=self.unread_message())
        self.query_one("#more", Static).remove_class("insists").update(Content(text or self.reminder()))

    def handle_end_visible(self) -> None:
        """Handle the event that the end of the body has become visible; by default, do nothing."""

    def reminder(self) -> str:
        """Return a sanitized reminder of what the user must do before approving, or "" if nothing is left to do."""
        return ""

    def update_locked_buttons(self) -> None:
        """Set the CSS class `locked`, which makes a button look disabled, on the buttons with a `disabled_reason`."""
        for button in self.query_one("#buttons").query(Button):
            button.set_class(bool(self.disabled_reason(button.id or "")), "locked")
        if (hints := self._visible_key_hints) != self._shown_key_hints:
            self._render_key_hints(hints)

    # -- answering

    def approve(self, button_id: str, answer: A) -> None:
        """Dismiss the dialog with *answer*; if the button is disabled, show the reason instead."""
        why = self.disabled_reason(button_id)
        if why:
            self.show_hint(why)
        else:
            self.dismiss(answer)

    def show_hint(self, why: str) -> None:
        """Show a highlighted message that a key or button had no effect; *why* is the reason."""
        for more in self.query("#more").results(Static):
            more.add_class("insists").update(Content(clean_line(why, 400)))

    def end_hint(self, why: str) -> None:
        """Remove the message that `show_hint` showed with the reason *why*, unless another has replaced it."""
        if any(str(more.content) == clean_line(why, 400) for more in self.query("#more.insists").results(Static)):
            self.update_remaining()

    def restore_review(self, review: Any) -> Any:
        """Continue the review from an earlier dialog about the same question; return the object that stores it.

        *review* is what this method returned for the earlier dialog, or None if this is the first dialog about the
        question. The base class stores nothing.
        """
        return review

    def set_list_available(self, *, is_available: bool) -> None:
        """Set whether the user can go back to a list of waiting tool calls; the base class does nothing."""

    # -- key hints

    def show_key_hints(self, text: str) -> None:
        """Replace the key hints at the bottom of the dialog."""
        self.key_line = text
        self._render_key_hints(self._visible_key_hints)

    def _render_key_hints(self, hints: str) -> None:
        """Show the key hints; if they need more or fewer rows than before, fit the body again."""
        before = len(wrap_key_hints(self._shown_key_hints, self._width))
        self._shown_key_hints = hints
        rows = wrap_key_hints(hints, self._width)
        self.query_one("#keys", Static).update("\n".join(rows))
        if len(rows) != before:
            self.fit()

    @property
    def _visible_key_hints(self) -> str:
        hints = SEPARATOR.join(mark_locked_keys(_(self.key_line).split(SEPARATOR), self._is_locked))
        if self.guard.is_entered:
            return hints
        entering = keys_in_use(self).fill(_(NEXT_HINT if self.is_follow_up else ENTER_HINT))
        return f"{entering}{SEPARATOR}{hints}"

    def _is_locked(self, key: str) -> bool:
        bindings = self._bindings.key_to_bindings.get(key, ())
        return any(self.unmet_condition(binding.action) for binding in bindings)

    # -- the question

    def update_reason(self, why: str) -> None:
        """Replace the reason for the request with *why*, and highlight the new reason."""
        self.question = replace(self.question, why=why)
        # Before the dialog is composed, the widget does not exist; it is then created with the new reason.
        for line in self.query("#why").results(Static):
            line.add_class("changed").update(Content(self._requester_text()))
            self.fit()

    def show_queue_position(self, place: int, total: int) -> None:
        """Show the position of this question among the waiting ones, such as "question 2 of 3".

        *place* is the position and *total* the number of questions. If there is only one, nothing is shown.
        """
        self._queue_position = (place, total)
        # The box is composed shortly after the dialog is attached. Until then, this does nothing; on_mount repeats it.
        for box in self.query("#box"):
            box.border_subtitle = (
                _("question {place} of {total}").format(place=place, total=total) if total > 1 else None
            )

    def dismiss(self, result: A | None = None) -> AwaitComplete:
        """Close the dialog with *result* if it is the top screen; otherwise, do nothing."""
        is_top = self.app.screen is self  # pyright: ignore[reportUnknownMemberType]
        closing = super().dismiss(result)
        if is_top:
            self.on_dismissed(result)
        return closing

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Run the action named by the button's id."""
        event.stop()
        self.call_later(self.run_action, str(event.button.id))

    def action_refuse(self) -> None:
        """Close the dialog and refuse the request."""
        self.dismiss(self.question.refusal())

    # -- scrolling

    def action_page(self, by: int) -> None:
        """Scroll the body by *by* pages, or up if *by* is negative; at its end, turn to the form's next page."""
        body = self.query_one("#body")
        is_at_end = body.scroll_y >= body.max_scroll_y if by > 0 else body.scroll_y <= 0
        if is_at_end and any(form.turn_page(by) for form in self.query_one("#body").query_children(Form)):
            return
        body.scroll_relative(y=by * max(1, body.size.height - 1), animate=False)

    def action_line(self, by: int) -> None:
        """Scroll the body down by *by* lines, or up if *by* is negative."""
        self.query_one("#body").scroll_relative(y=by, animate=False)

    def action_edge(self, which: int) -> None:
        """Scroll to the end of the body if *which* is positive, otherwise to the beginning."""
        body = self.query_one("#body")
        for form in self.query_one("#body").query_children(Form):
            form.show_end(which)
        body.scroll_to(y=body.max_scroll_y if which > 0 else 0, animate=False)

    def on_form_page_key_pressed(self, event: Form.PageKeyPressed) -> None:
        """Scroll the body by a page."""
        event.stop()
        self.action_page(event.direction)

    def on_form_page_shown(self, event: Form.PageShown) -> None:
        """Scroll to the beginning or end of the form's new page, and update the number of lines to be read."""
        event.stop()
        body = self.query_one("#body")
        if event.edge < 0:
            for form in self.query_one("#body").query_children(Form):
                body.scroll_to_widget(form, animate=False, top=True)
        elif event.edge > 0:
            body.scroll_to(y=body.max_scroll_y, animate=False)
        self._handle_layout()


AnyDialog = Dialog[Any]
