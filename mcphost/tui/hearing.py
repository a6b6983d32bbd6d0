"""What questions hear: nothing from before they could be read, and keys in the order in which they were pressed."""

from time import monotonic
from typing import Protocol, runtime_checkable

from textual import events
from textual.app import App


@runtime_checkable
class Deaf(Protocol):
    """A question, which does not hear what was pressed before it could be read."""

    def was_deaf(self, seconds: float) -> bool:
        """Whether it heard nothing yet so many seconds ago."""
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


class Hearing(App[None]):
    """An app that hands on what was pressed."""

    async def on_event(self, event: events.Event) -> None:
        """Keys and clicks do not reach a question before it was on the screen for a moment.

        A key comes here twice: from the terminal, and when nobody below had a use for it. Meanwhile a question may have
        opened, and what was pressed elsewhere is not for that.
        """
        if isinstance(event, events.Key | events.Paste | events.MouseDown | events.MouseUp) and len(self._screen_stack):
            screen = self.screen
            quits = isinstance(event, events.Key) and event.key in _QUIT_KEYS
            ago = monotonic() - event.time
            confirms = isinstance(event, events.Key) and event.key in _CONFIRMING
            if confirms and isinstance(screen, Unseen) and screen.was_unseen(ago):
                return
            if isinstance(screen, Deaf) and not quits:
                if screen.was_deaf(ago):
                    return
                if isinstance(event, events.Key) and not event.is_forwarded and await screen.acts(event.key):
                    return
        await super().on_event(event)
