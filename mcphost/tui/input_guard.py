"""Protection against keys and clicks that reach a question but were meant for something else.

A question may appear while the user is typing a message or answering another question. Therefore, a new question
ignores keys and clicks for a moment. After that, most of its keys work only once the user has "entered" the question by
moving the focus into it, with F8, Tab, an arrow key or a click. Text typed before that goes into the message.
"""

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Protocol, cast, runtime_checkable

from textual import events
from textual.app import App
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button, Input, TextArea

from mcphost.translation import N_, _
from mcphost.tui.key_table import DEFAULT_KEYS, KeyTable

GUARD_SECONDS = 0.3
"""How long a question ignores keys and clicks after it appears, and after each key."""
IGNORED_FACTOR = 4
"""Multiple of GUARD_SECONDS: how long Enter is ignored after an ignored key, unless a later key moved the focus."""
BRIEF_HINT_SECONDS = 2.0
"""How long a hint that a key came too early stays: longer than the key is ignored, so that the hint can be read."""
HELD_FACTOR = 2.5
"""Multiple of GUARD_SECONDS: an Enter that follows another one sooner may be a held key; keys repeat after 0.66 s."""
BURST_SECONDS = 0.03
"""Maximum seconds between two keys that were not typed one by one; a held key repeats about this fast."""
TYPING_SECONDS = 2.0
"""How long after the last key in a text field the user is still considered to be typing."""
FOCUS_KEYS = frozenset({"tab", "shift+tab", "up", "down", "left", "right"})
"""Keys that enter a question, in addition to those of the action "answer"; none of them inserts text."""
SCROLL_KEYS = frozenset({"pageup", "pagedown", "home", "end"})
clock = monotonic
_NEVER = float("-inf")


class AnswerGuard:
    """Guard that decides whether a key was pressed too early to be meant as an answer to a question.

    The guard records when the question appeared, when keys were pressed, and whether the user has entered the question
    by moving the focus into it. Methods have a parameter `ago`, the number of seconds since the key was pressed,
    because a busy app handles keys late. Set *has_delay* to false for screens on which nothing can be approved: no key
    is then considered too early.
    """

    def __init__(self, *, is_entered: bool = False, has_delay: bool = True) -> None:
        self.is_entered = is_entered
        self._has_delay = has_delay
        self._shown_at: float | None = None
        self._navigated_at = self._key_pressed_at = self._ignored_at = _NEVER

    @property
    def is_shown(self) -> bool:
        """Whether the question is on the screen."""
        return self._shown_at is not None

    def show(self) -> None:
        """Record that the question is now on the screen, which blocks its keys for GUARD_SECONDS."""
        self._shown_at = clock()

    def hide(self) -> None:
        """Record that the question is no longer on the screen; until `show` is called, every key is ignored."""
        self._shown_at = None

    def is_new(self, ago: float = 0.0) -> bool:
        """Return whether a key pressed *ago* seconds ago came within GUARD_SECONDS of the question's appearance.

        While the question is not on the screen, every key counts as too early. A guard without a delay returns False.
        """
        return self._has_delay and (self._shown_at is None or clock() - ago - self._shown_at < GUARD_SECONDS)

    def is_blocking(self, ago: float, *, is_letter: bool) -> bool:
        """Return whether to ignore a key pressed *ago* seconds ago, because it was too early to be an answer.

        Keys are ignored for GUARD_SECONDS after the question has appeared, and after any other key. After a key that
        moved the focus or scrolled, a key is ignored only if it is a letter (*is_letter*): a user who presses Tab and
        then Enter is answering the question.
        """
        last = max(self._navigated_at, self._key_pressed_at) if is_letter else self._key_pressed_at
        return self.is_new(ago) or (self._has_delay and clock() - ago - last < GUARD_SECONDS)

    def is_confused(self, ago: float) -> bool:
        """Return whether to ignore an Enter pressed *ago* seconds ago, because a key was ignored shortly before.

        For example, if a Tab was ignored because it came too early, the focus is not where the user expects it, and
        Enter would press the wrong button.
        """
        return self._has_delay and clock() - ago - self._ignored_at < IGNORED_FACTOR * GUARD_SECONDS

    def record_ignored(self, ago: float) -> None:
        """Record that a key, pressed *ago* seconds ago, was ignored."""
        self._ignored_at = max(self._ignored_at, clock() - ago)

    def record_moved(self) -> None:
        """Record that the user has moved the focus; keys that were ignored before no longer delay an answer."""
        self._ignored_at = _NEVER

    def record_key(self, ago: float, *, is_navigation: bool = False) -> None:
        """Record a key pressed *ago* seconds ago; keys that follow within GUARD_SECONDS are ignored.

        If *is_navigation* is true, the key moved the focus or scrolled, and only letters that follow are ignored.
        """
        if is_navigation:
            self._navigated_at = max(self._navigated_at, clock() - ago)
        else:
            self._key_pressed_at = max(self._key_pressed_at, clock() - ago)


class PasteGuard:
    """Guard that distinguishes the keys of a paste from keys that the user types afterwards.

    In some terminals, pasted text can contain the escape code that ends a paste. The rest of the text then arrives as
    key presses, without pauses between them. The paste counts as finished once each of two consecutive keys has arrived
    after a pause. In the methods, *ago* is the number of seconds since the key was pressed.
    """

    def __init__(self) -> None:
        self._pasted_at = self._last_key_at = self._last_enter_at = clock()
        self._typed_keys = 0

    @property
    def is_over(self) -> bool:
        """Whether the paste is over, which means that later keys are not part of it."""
        return self._typed_keys >= 2

    def is_pasted(self, ago: float) -> bool:
        """Record a key other than Enter, pressed *ago* seconds ago; return whether it is part of the paste."""
        at = clock() - ago
        is_pasted = at - self._pasted_at < GUARD_SECONDS or at - self._last_key_at < BURST_SECONDS
        self._last_key_at = max(self._last_key_at, at)
        self._typed_keys = 0 if is_pasted else self._typed_keys + 1
        return is_pasted

    def is_early_enter(self, ago: float) -> bool:
        """Record an Enter that was pressed *ago* seconds ago; return whether it may belong to the paste.

        This is the case if it came right after the paste, or right after another Enter, so that the key may be held
        down.
        """
        at = clock() - ago
        is_early = at - max(self._pasted_at, self._last_enter_at) < GUARD_SECONDS
        self._last_enter_at = max(self._last_enter_at, at)
        return is_early


class HeldEnterGuard:
    """Guard that ignores Enter on a button if the key has been held down since a form field had the focus.

    Enter in a field moves the focus to the next field and, from the last field, to the button. A user who holds the key
    down to pass through the fields does not mean to press the button. Repeated Enters count as one held key until there
    is a pause of HELD_FACTOR * GUARD_SECONDS, another key, or a click.
    """

    def __init__(self) -> None:
        self._last_enter_at = _NEVER
        self._has_left_field = False

    def release(self) -> None:
        """Record another key or a click, which shows that Enter is no longer held down."""
        self._last_enter_at = _NEVER

    def is_held(self, ago: float, *, on_button: bool) -> bool:
        """Record an Enter that was pressed *ago* seconds ago; return whether to ignore it.

        *on_button* states whether a button has the focus.
        """
        at = clock() - ago
        repeats = at - self._last_enter_at < HELD_FACTOR * GUARD_SECONDS
        self._last_enter_at = max(self._last_enter_at, at)
        self._has_left_field = (repeats and self._has_left_field) or not on_button
        return on_button and self._has_left_field


TextInput = Input | TextArea
_UserInput = events.Key | events.Paste | events.MouseDown | events.MouseUp


@runtime_checkable
class Guarded(Protocol):
    """Interface of a screen that shows a question and is protected by an AnswerGuard."""

    guard: AnswerGuard
    is_follow_up: bool
    """Whether this question appeared right after the user answered another one."""

    @property
    def focused(self) -> Widget | None:
        """The focused widget, or None if no widget has the focus."""
        ...

    @property
    def is_field_focused(self) -> bool:
        """Whether a form field in the question has the focus, so that keystrokes go into that field."""
        ...

    def enter(self) -> None:
        """Enable all keys of the question, because the user has moved the focus into it, for example with F8."""
        ...

    def show_hint(self, why: str) -> None:
        """Show a hint that a key had no effect; *why* is the reason."""
        ...

    def end_hint(self, why: str) -> None:
        """Remove the hint with the reason *why*, unless another one has replaced it."""
        ...

    def has_binding(self, key: str) -> bool:
        """Return whether the question has a binding for the key."""
        ...

    def contains_point(self, x: int, y: int) -> bool:
        """Return whether these screen coordinates are inside the question's frame."""
        ...

    async def process_key(self, key: str) -> bool:
        """Handle a key if it must take effect before the next key arrives; return whether the key was handled."""
        ...


@runtime_checkable
class GuardedForm(Protocol):
    """Interface of a form that ignores Enter and Ctrl+S if they were pressed before the form appeared."""

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return whether the form was still hidden *seconds_ago* seconds ago."""
        ...


@runtime_checkable
class TypeAhead(Protocol):
    """Interface of a screen that handles typed text before its focused widget does."""

    async def process_typed_key(self, event: events.Key) -> bool:
        """Handle a key before any later key is delivered; return False to leave it to the focused widget."""
        ...


_CONFIRM_KEYS = {"enter", "ctrl+s"}
_GLOBAL_ACTIONS = {"quit", "auto_approval"}
"""Actions whose keys work no matter which question is open."""

_EDIT_KEYS = {"enter", "backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+h", "shift+enter", "ctrl+j", "alt+enter"}
_DELIVERY_TIMEOUT = 1.0
NOT_ENTERED_HINT = N_("press {answer}, tab or an arrow first")
KEEP_TYPING_HINT = N_(" · keep typing to write your message")
TOO_SOON_HINT = N_("too soon after another key: press it again")
JUST_SHOWN_HINT = N_("this question has only just appeared: press it again")
HELD_HINT = N_("enter may still be held down: let go of it, then press it again")
IGNORED_HINT = N_("the keys before had no effect: look where you are, then press it again")


class InputGuardApp(App[None]):
    """App that delivers a key, paste or click to a screen only if the user meant it for that screen.

    This class does not depend on other parts of the app. It is a base class of the app because Textual passes all
    input to the App first.
    """

    _last_input: Widget | None = None
    last_input_at = float("-inf")
    """Time of the last key, paste or click, as given by `time.monotonic`."""
    _last_typed_at = float("-inf")
    _buffered_keys: tuple[Guarded | None, tuple[events.Key, ...]] = (None, ())
    _paste_guard: PasteGuard | None = None
    _is_press_pasted = False
    _held_enter: HeldEnterGuard | None = None
    _hinted: Guarded | None = None  # the question with the latest brief hint, which `_hint_timer` ends
    _hint_timer: Timer | None = None

    key_table: KeyTable = DEFAULT_KEYS

    def _is_global(self, key: str) -> bool:
        return key == "ctrl+c" or self.key_table.action_of(key) in _GLOBAL_ACTIONS

    def _is_answer(self, key: str) -> bool:
        return self.key_table.action_of(key) == "answer"

    def _show_brief_hint(self, question: Guarded, why: str) -> None:
        """Show a hint that a key came too early; remove it after BRIEF_HINT_SECONDS."""
        question.show_hint(why)
        if self._hinted is question and self._hint_timer is not None:
            self._hint_timer.stop()  # otherwise, the end of the earlier hint would remove this one
        self._hinted = question
        self._hint_timer = self.set_timer(BRIEF_HINT_SECONDS, partial(question.end_hint, why))

    def _show_not_entered(self, question: Guarded, more: str = "") -> None:
        question.show_hint(self.key_table.fill(_(NOT_ENTERED_HINT)) + more)

    def restart_guards(self) -> None:
        """Make each open question ignore input for a moment, because the program was suspended until now.

        Keys that the user typed in the shell during the suspension must not answer a question.
        """
        for screen in self._screen_stack:
            if isinstance(screen, Guarded) and screen.guard.is_shown:
                screen.guard.show()

    # -- text input

    def find_text_input(self, screen: Screen[Any]) -> TextInput | None:
        """Return the screen's text field that receives typed text, or None if no text field has the focus."""
        focused = screen.focused
        return focused if isinstance(focused, TextInput) else None

    @property
    def _base_screen(self) -> Screen[Any]:
        """The topmost screen that does not show a question."""
        return next(screen for screen in reversed(self.screen_stack) if not isinstance(screen, Guarded))

    @property
    def is_typing(self) -> bool:
        """Whether the user is typing text that is not meant for a question.

        This is the case if the text field of the topmost screen without a question contains text, or has received a key
        within the last TYPING_SECONDS.
        """
        field = self.find_text_input(self._base_screen)
        if field is None:
            return False
        text = field.text if isinstance(field, TextArea) else field.value
        return bool(text) or clock() - self._last_typed_at < TYPING_SECONDS

    # -- keys

    async def on_event(self, event: events.Event) -> None:
        """Deliver an event; drop or redirect a key, paste or click that was not meant for the top screen.

        Textual calls this twice for a key: when the key is pressed, and again if no widget handled it. A question that
        opened between the two calls must not receive the key.
        """
        if isinstance(event, events.InputEvent | events.Paste) and (self._exit or not self._screen_stack):
            return  # the screens are being removed, and handling input would raise
        if isinstance(event, events.Key | events.Paste | events.MouseDown | events.MouseUp):
            screen = self.screen
            self.last_input_at, ago = event.time, monotonic() - event.time
            if self._was_pasted(event, ago) and self._acts_on_question(screen, event):
                return
            if self._is_enter_held(screen, event, ago) and isinstance(screen, Guarded):
                self._show_brief_hint(screen, _(HELD_HINT))
                return
            confirms = isinstance(event, events.Key) and event.key in _CONFIRM_KEYS
            if confirms and isinstance(screen, GuardedForm) and screen.was_hidden(ago):
                return
            if isinstance(screen, Guarded):
                if not self._accepts_input(screen, event, ago):
                    return
                if isinstance(event, events.Key) and not event.is_forwarded and not self._is_global(event.key):
                    await self._wait_for_delivery(event.key)
                    if await screen.process_key(event.key):
                        return
                    self._last_input = screen.focused
            elif isinstance(event, events.Key | events.Paste) and isinstance(self.focused, TextInput):
                self._last_typed_at = clock() - ago
            elif (
                isinstance(event, events.Key)
                and not event.is_forwarded
                and isinstance(screen, TypeAhead)
                and await screen.process_typed_key(event)
            ):
                return
        await super().on_event(event)

    def _is_enter_held(self, screen: Screen[Any], event: _UserInput, ago: float) -> bool:
        """Return whether a button would receive an Enter that may have been held down since a field had the focus."""
        if isinstance(event, events.MouseUp) or event.is_forwarded:
            return False
        self._held_enter = self._held_enter or HeldEnterGuard()
        if not isinstance(event, events.Key) or event.key != "enter":
            self._held_enter.release()
            return False
        return self._held_enter.is_held(ago, on_button=isinstance(screen.focused, Button))

    def _was_pasted(self, event: _UserInput, ago: float) -> bool:
        """Return whether a key or click may be part of a paste that contains the end-of-paste escape code."""
        if isinstance(event, events.Paste):
            if not event.is_forwarded:
                self._paste_guard, self._is_press_pasted = PasteGuard(), True
        elif isinstance(event, events.MouseUp):
            return self._is_press_pasted  # a tap on a touchpad takes less time than there is between pasted keys
        elif isinstance(event, events.MouseDown):
            self._is_press_pasted = self._paste_guard is not None and self._is_pasted(self._paste_guard, ago)
            return self._is_press_pasted
        elif self._paste_guard is not None and not event.is_forwarded:
            return self._is_pasted(self._paste_guard, ago)
        return False

    def _is_pasted(self, guard: PasteGuard, ago: float) -> bool:
        is_pasted = guard.is_pasted(ago)
        if guard.is_over:
            self._paste_guard = None
        return is_pasted

    def _acts_on_question(self, screen: Screen[Any], event: _UserInput) -> bool:
        """Return whether *event* could answer a question; if so, show a hint that it came too soon.

        The user probably did not mean it: it is a key that may be part of a paste, or a click shortly after a paste.
        """
        key = event.key if isinstance(event, events.Key) else ""
        if not isinstance(screen, Guarded):
            return self._is_answer(key)
        is_text = isinstance(event, events.Key) and event.is_printable
        if self._is_global(key) or (is_text and (screen.is_field_focused or not screen.guard.is_entered)):
            return False
        self._show_brief_hint(screen, _(TOO_SOON_HINT))
        return True

    async def _wait_for_delivery(self, key: str) -> None:
        """Before a key such as Enter is handled, wait until the last focused field has received all text typed so far.

        Otherwise, Enter on a slow connection could submit a form without the last characters typed. If *key* itself
        types text, return immediately.
        """
        field = self._last_input
        if field is None or len(key) == 1:
            return
        self._last_input = None
        arrived = asyncio.Event()
        if field.call_later(arrived.set):
            with suppress(TimeoutError):
                async with asyncio.timeout(_DELIVERY_TIMEOUT):
                    await arrived.wait()

    # -- keys, pastes and clicks while a question is on top

    def _accepts_input(self, question: Guarded, event: _UserInput, ago: float) -> bool:
        """Return whether to deliver the event to the question; *ago* is its age in seconds.

        Text typed before the user has moved the focus into the question goes into the message being written instead.
        """
        guard = question.guard
        if isinstance(event, events.MouseDown | events.MouseUp):
            if guard.is_blocking(ago, is_letter=True):
                return False
            if isinstance(event, events.MouseDown) and question.contains_point(event.screen_x, event.screen_y):
                self._enter_question(question)
            return True
        if isinstance(event, events.Key) and self._is_global(event.key):
            return True
        if event.is_forwarded:
            return not guard.is_new(ago)
        if question.is_field_focused:
            # A letter that follows immediately is text as well, and an Enter that follows Enter may be the same key,
            # held down: it goes through the fields, but must not press the button after the last one.
            guard.record_key(ago, is_navigation=not (isinstance(event, events.Key) and event.key == "enter"))
            return True
        if isinstance(event, events.Key):
            return (self._accepts_entered_key if guard.is_entered else self._accepts_unentered_key)(
                question, event, ago
            )
        if not guard.is_entered:
            self._redirect_typing(question, event, ago)
        return guard.is_entered

    def _accepts_entered_key(self, question: Guarded, event: events.Key, ago: float) -> bool:
        """Return whether to deliver the key to a question into which the user has moved the focus.

        If the key came too early, show a hint.
        """
        guard, key = question.guard, event.key
        moves = key in SCROLL_KEYS or key in FOCUS_KEYS
        goes_back = moves or key == "escape"
        closed = guard.is_new(ago) if goes_back else guard.is_blocking(ago, is_letter=event.is_printable)
        hint = _(JUST_SHOWN_HINT) if guard.is_new(ago) else _(TOO_SOON_HINT)
        guard.record_key(ago, is_navigation=moves)
        if key == "enter" and not closed and guard.is_confused(ago):
            closed, hint = True, _(IGNORED_HINT)
        elif key not in {"enter", "escape"} and not self._is_answer(key):
            if closed or (event.is_printable and not question.has_binding(key)):
                guard.record_ignored(ago)
            elif moves:
                guard.record_moved()
        if closed and (key == "enter" or question.has_binding(key)):
            self._show_brief_hint(question, hint)
        return not closed and not self._is_answer(key)

    def _accepts_unentered_key(self, question: Guarded, event: events.Key, ago: float) -> bool:
        """Return whether to deliver the key to a question into which the user has not moved the focus yet.

        Only keys that scroll, move the focus or decline the question are delivered. Typed text goes to the text field
        of the screen below.
        """
        guard, key = question.guard, event.key
        closed = guard.is_blocking(ago, is_letter=False)
        leaves = key == "escape" or self._is_answer(key)
        goes_on = self._get_buffered_keys(question) and (key in _EDIT_KEYS or (closed and not leaves))
        is_text = event.is_printable and not self.key_table.action_of(key)  # Textual treats Alt+letter as text
        if is_text or goes_on:
            self._redirect_typing(question, event, ago)
            return False
        guard.record_key(ago, is_navigation=key in SCROLL_KEYS or key in FOCUS_KEYS)
        if self._is_answer(key) or (key in FOCUS_KEYS and not closed):
            self._enter_question(question)
            return not self._is_answer(key)
        if closed:
            return False
        if key in {"enter", "escape"}:
            self._buffered_keys = (None, ())
            return True
        if key not in SCROLL_KEYS and question.has_binding(key):
            self._show_not_entered(question)
            return False
        return True

    def _enter_question(self, question: Guarded) -> None:
        """Enable all keys of the question, because the user has moved the focus into it.

        Letters that were held back for it are discarded.
        """
        self._buffered_keys = (None, ())
        if not question.guard.is_entered:
            question.enter()

    def _get_buffered_keys(self, question: Guarded) -> tuple[events.Key, ...]:
        holder, keys = self._buffered_keys
        return keys if holder is question else ()

    def _redirect_typing(self, question: Guarded, event: events.Key | events.Paste, ago: float) -> None:
        """Send text typed over a question to the text field of the screen below, and minimize the question.

        The first letter is held back until the next key, because it may have been meant for the question. Letters typed
        right after another question was answered are held back as well, because the user may have pressed the answer
        key twice.
        """
        below, guard = self._base_screen, question.guard
        field = self.find_text_input(below)
        buffered = self._get_buffered_keys(question)
        in_flight = guard.is_blocking(ago, is_letter=True)
        waits = question.is_follow_up and guard.is_new(ago) if buffered or in_flight else True
        guard.record_key(ago)
        if field is None:
            self._show_not_entered(question)
        elif waits and isinstance(event, events.Key) and event.is_printable:
            self._buffered_keys = (question, (*buffered, event))
            self._show_not_entered(question, _(KEEP_TYPING_HINT))
        else:
            self._buffered_keys = (None, ())
            self._forward_keys(field, *buffered, event)
            below.set_focus(field)
            self.minimize(question)

    def _forward_keys(self, field: TextInput, *keys: events.Key | events.Paste) -> None:
        self._last_typed_at = clock()
        for key in keys:
            cast("Any", field)._forward_event(key)

    def release_buffered_keys(self, question: Guarded) -> None:
        """Send letters that were held back for *question*, which is being removed, to the text field below it."""
        field, keys = self.find_text_input(self._base_screen), self._get_buffered_keys(question)
        if field is not None and keys:
            self._buffered_keys = (None, ())
            self._forward_keys(field, *keys)

    def minimize(self, question: Guarded) -> None:
        """Replace the question with a small card; it stays unanswered until the user opens it again."""
        raise NotImplementedError
