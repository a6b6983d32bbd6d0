"""What questions hear: nothing from before they could be read, and keys in the order in which they were pressed."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Protocol, runtime_checkable

from textual import events
from textual.app import App
from textual.widget import Widget


@runtime_checkable
class Deaf(Protocol):
    """A question, which does not hear what was pressed before it could be read."""

    def was_deaf(self, seconds: float) -> bool:
        """Whether it heard nothing yet so many seconds ago."""
        ...

    @property
    def focused(self) -> Widget | None:
        """What a key goes to."""
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
_QUIT_KEYS = {"ctrl+q", "ctrl+c"}
_ARRIVAL_SECONDS = 1.0


class Hearing(App[None]):
    """An app that hands on what was pressed."""

    _typed_into: Widget | None = None

    async def on_event(self, event: events.Event) -> None:
        """Keys and clicks do not reach a question before it was on the screen for a moment.

        A key comes here twice: from the terminal, and when nobody below had a use for it. Meanwhile a question may have
        opened, and what was pressed elsewhere is not for that.
        """
        if isinstance(event, events.Key | events.Paste | events.MouseDown | events.MouseUp) and len(self._screen_stack):
            if self._exit:
                return  # the screens are being taken apart: a key that looked for a part of one would end in an error
            screen = self.screen
            quits = isinstance(event, events.Key) and event.key in _QUIT_KEYS
            ago = monotonic() - event.time
            confirms = isinstance(event, events.Key) and event.key in _CONFIRMING
            if confirms and isinstance(screen, Unseen) and screen.was_unseen(ago):
                return
            if isinstance(screen, Deaf) and not quits:
                if screen.was_deaf(ago):
                    return
                if isinstance(event, events.Key) and not event.is_forwarded:
                    await self._arrive(event.key)
                    if await screen.acts(event.key):
                        return
                    self._typed_into = screen.focused
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
