"""Where keys and clicks go: never to a question that they were not meant for, and in the order they were pressed."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol, cast, runtime_checkable

from textual import events
from textual.app import App
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mcphost.tui import answer_guard
from mcphost.tui.answer_guard import ENTERING_KEYS, READING_KEYS, TYPING_SECONDS, AnswerGuard

TextField = Input | TextArea
_Pressed = events.Key | events.Paste | events.MouseDown | events.MouseUp


@runtime_checkable
class Guarded(Protocol):
    """A question on the screen, which is answered only by keys that were meant for it."""

    guard: AnswerGuard
    follows: bool
    """Whether the person answered another question right before it."""

    @property
    def focused(self) -> Widget | None:
        """What a key goes to."""
        ...

    @property
    def in_field(self) -> bool:
        """Whether a key goes into a field of the question, where it is text."""
        ...

    def enter(self) -> None:
        """The person entered the question: its keys work from now on."""
        ...

    def insist(self, why: str) -> None:
        """Say why a key did nothing."""
        ...

    def binds(self, key: str) -> bool:
        """Whether the question has a use for the key."""
        ...

    def is_on(self, x: int, y: int) -> bool:
        """Whether this place of the screen is inside of the question's frame."""
        ...

    async def acts(self, key: str) -> bool:
        """Do what a key does here, if it is one that waits for nobody else; whether it was."""
        ...


@runtime_checkable
class Unseen(Protocol):
    """A form, in which nothing is confirmed by a key that was pressed before it was there."""

    def was_unseen(self, seconds: float) -> bool:
        """Whether it was not on the screen yet so many seconds ago."""
        ...


_CONFIRMING = {"enter", "ctrl+s"}
_ALWAYS = {"ctrl+q", "ctrl+c", "f9"}
_EDITING = {"enter", "backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+h", "shift+enter", "ctrl+j", "alt+enter"}
_ARRIVAL_SECONDS = 1.0
NOT_ENTERED = "keys answer after F8, tab or an arrow"
GOES_ON = " · type on to write your message"
TOO_SOON = "too soon after another key: press it again"


class Hearing(App[None]):
    """An app that hands on what was pressed."""

    _typed_into: Widget | None = None
    _typed_at = float("-inf")
    _held: tuple[Guarded | None, tuple[events.Key, ...]] = (None, ())

    # -- who types where

    def text_field(self, screen: Screen[Any]) -> TextField | None:
        """The field into which a person types on that screen; None where there is none."""
        focused = screen.focused
        return focused if isinstance(focused, TextField) else None

    @property
    def _screen_below(self) -> Screen[Any]:
        """The screen on which the person was before any question came."""
        return next(screen for screen in reversed(self.screen_stack) if not isinstance(screen, Guarded))

    @property
    def is_typing(self) -> bool:
        """Whether the person is writing: the text field holds text, or a key went into it a moment ago."""
        field = self.text_field(self._screen_below)
        if field is None:
            return False
        text = field.text if isinstance(field, TextArea) else field.value
        return bool(text) or answer_guard.clock() - self._typed_at < TYPING_SECONDS

    # -- keys

    async def on_event(self, event: events.Event) -> None:
        """Hand on a key, a paste or a click, unless it was not meant for what is on the screen.

        A key comes here twice: from the terminal, and when nobody below had a use for it. Meanwhile a question may have
        opened, and what was pressed elsewhere is not for that.
        """
        if isinstance(event, events.InputEvent | events.Paste) and (self._exit or not self._screen_stack):
            return  # the screens are being taken apart: input that looked for a part of one would end in an error
        if isinstance(event, events.Key | events.Paste | events.MouseDown | events.MouseUp):
            screen = self.screen
            ago = monotonic() - event.time
            confirms = isinstance(event, events.Key) and event.key in _CONFIRMING
            if confirms and isinstance(screen, Unseen) and screen.was_unseen(ago):
                return
            if isinstance(screen, Guarded):
                if not self._admits(screen, event, ago):
                    return
                if isinstance(event, events.Key) and not event.is_forwarded and event.key not in _ALWAYS:
                    await self._arrive(event.key)
                    if await screen.acts(event.key):
                        return
                    self._typed_into = screen.focused
            elif isinstance(event, events.Key | events.Paste) and isinstance(self.focused, TextField):
                self._typed_at = answer_guard.clock() - ago
        await super().on_event(event)

    async def _arrive(self, key: str) -> None:
        """Wait until what was typed before has arrived in its field: a key that is no text may act at once.

        Over a slow connection a form was sent without the last that was typed into it.
        """
        field = self._typed_into
        if field is None or len(key) == 1:
            return
        self._typed_into = None
        arrived = asyncio.Event()
        if field.call_later(arrived.set):
            with suppress(TimeoutError):
                async with asyncio.timeout(_ARRIVAL_SECONDS):
                    await arrived.wait()

    # -- keys, pastes and clicks while a question is on top

    def _admits(self, question: Guarded, event: _Pressed, ago: float) -> bool:
        """Whether the question gets it."""
        guard = question.guard
        if isinstance(event, events.MouseDown | events.MouseUp):
            if guard.is_closed(ago, to_letters=True):
                return False
            if isinstance(event, events.MouseDown) and question.is_on(event.screen_x, event.screen_y):
                self._enter(question)
            return True
        if isinstance(event, events.Key) and event.key in _ALWAYS:
            return True
        if event.is_forwarded:
            return not guard.is_new(ago)
        if question.in_field:
            guard.press(ago, moves=True)  # a letter that comes right behind it is text, too
            return True
        if isinstance(event, events.Key):
            return (self._admits_key if guard.entered else self._admits_first)(question, event, ago)
        if not guard.entered:
            self._type_below(question, event, ago)
        return guard.entered

    def _admits_key(self, question: Guarded, event: events.Key, ago: float) -> bool:
        """A key for a question that the person entered."""
        guard, key = question.guard, event.key
        moves = key in READING_KEYS or (key in ENTERING_KEYS and key != "f8")
        goes_back = moves or key == "escape"
        closed = guard.is_new(ago) if goes_back else guard.is_closed(ago, to_letters=event.is_printable)
        guard.press(ago, moves=moves)
        if closed and (key == "enter" or question.binds(key)):
            question.insist(TOO_SOON)
        return not closed and key != "f8"

    def _admits_first(self, question: Guarded, event: events.Key, ago: float) -> bool:
        """A key for a question that came by itself: it may refuse and move the focus, and nothing else."""
        guard, key = question.guard, event.key
        closed = guard.is_closed(ago, to_letters=False)
        goes_on = self._held_of(question) and (key in _EDITING or (closed and key not in {"escape", "f8"}))
        if event.is_printable or goes_on:
            self._type_below(question, event, ago)
            return False
        guard.press(ago, moves=key in READING_KEYS or (key in ENTERING_KEYS and key != "f8"))
        if key == "f8" or (key in ENTERING_KEYS and not closed):
            self._enter(question)
            return key != "f8"
        if closed:
            return False
        if key in {"enter", "escape"}:
            self._held = (None, ())
            return True
        if key not in READING_KEYS and question.binds(key):
            question.insist(NOT_ENTERED)
            return False
        return True

    def _enter(self, question: Guarded) -> None:
        """Its keys work from now on; a letter that came before was meant for it, and too early."""
        self._held = (None, ())
        if not question.guard.entered:
            question.enter()

    def _held_of(self, question: Guarded) -> tuple[events.Key, ...]:
        holder, keys = self._held
        return keys if holder is question else ()

    def _type_below(self, question: Guarded, event: events.Key | events.Paste, ago: float) -> None:
        """Text for a question that the person did not enter goes where the person types; the question makes room.

        A single letter may have been meant for the question: it is held until another key tells. So are letters from
        right after the answer to another question: that key may have been pressed twice.
        """
        below, guard = self._screen_below, question.guard
        field = self.text_field(below)
        held = self._held_of(question)
        in_flight = guard.is_closed(ago, to_letters=True)
        waits = question.follows and guard.is_new(ago) if held or in_flight else True
        guard.press(ago)
        if field is None:
            question.insist(NOT_ENTERED)
        elif waits and isinstance(event, events.Key) and event.is_printable:
            self._held = (question, (*held, event))
            question.insist(NOT_ENTERED + GOES_ON)
        else:
            self._held = (None, ())
            self._type_into(field, *held, event)
            below.set_focus(field)
            self.set_aside(question)

    def _type_into(self, field: TextField, *keys: events.Key | events.Paste) -> None:
        self._typed_at = answer_guard.clock()
        for key in keys:
            cast("Any", field)._forward_event(key)

    def release_held(self, question: Guarded) -> None:
        """The question is gone: what it was given goes where the person types."""
        field, keys = self.text_field(self._screen_below), self._held_of(question)
        if field is not None and keys:
            self._held = (None, ())
            self._type_into(field, *keys)

    def set_aside(self, question: Guarded) -> None:
        """Take the question from the top of the screen; it waits until the person comes back to it."""
        raise NotImplementedError
