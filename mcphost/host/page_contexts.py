"""Contexts of open pages (MCP Apps, `ui/update-model-context`), which the user's next message takes to the model."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from mcphost.host.event_bus import EventBus
from mcphost.host.events import PageContextsChanged
from mcphost.llm.messages import Part, ResourcePart
from mcphost.serialization import Struct

CONTEXT_LIMIT = 32 * 1024
"""Maximum size of the context of one page in bytes."""


class PageContext(Struct, frozen=True):
    """What one page wants the model to know; `page` is the number of the open page."""

    page: int
    part: ResourcePart


class PageContexts:
    """The latest context of each open page, until a user message takes it, the user removes it, or the page closes.

    A context that was sent or removed is not added again until the page changes it.
    """

    def __init__(self, events: EventBus) -> None:
        self._events = events
        self._waiting: dict[int, ResourcePart] = {}
        self._sent: dict[int, ResourcePart] = {}
        self._removed: dict[int, ResourcePart] = {}
        self._in_preparation: set[int] = set()

    @property
    def waiting(self) -> tuple[PageContext, ...]:
        """The contexts that the next user message takes, in the order in which the pages first sent them."""
        return tuple(PageContext(page, part) for page, part in self._waiting.items())

    def update(self, page: int, part: ResourcePart) -> None:
        """Replace the context of a page; an empty text removes it.

        The caller limits the size of the text to CONTEXT_LIMIT bytes, and the number of pages.
        """
        before = self._waiting.get(page)
        if part in (self._sent.get(page), self._removed.get(page)):
            self._waiting.pop(page, None)
        else:
            self._in_preparation.discard(page)
            if part.text.strip():
                self._set(page, part)
            else:
                self._waiting.pop(page, None)
        if before != self._waiting.get(page):
            self._publish()

    def _set(self, page: int, part: ResourcePart) -> None:
        self._waiting[page] = part
        self._sent.pop(page, None)
        self._removed.pop(page, None)

    def remove(self, page: int) -> None:
        """Remove the context of a page, because the user does not want to send it."""
        if (part := self._waiting.pop(page, None)) is not None:
            self._removed[page] = part
            self._publish()

    def close(self, page: int) -> None:
        """Forget everything about a page, because it is closed."""
        self._sent.pop(page, None)
        self._removed.pop(page, None)
        self._in_preparation.discard(page)
        if self._waiting.pop(page, None) is not None:
            self._publish()

    @contextmanager
    def taking(self, attachments: Sequence[Part] = ()) -> Generator[tuple[ResourcePart, ...]]:
        """Yield the contexts for a user message, without those among its *attachments*; they no longer wait.

        If the block raises an exception, the message was not sent, and they wait again, unless their pages were closed
        or changed them meanwhile.
        """
        taken = dict(self._waiting)
        self._sent.update(taken)
        self._in_preparation.update(taken)
        self._waiting.clear()
        if taken:
            self._publish()
        try:
            yield tuple(part for part in taken.values() if part not in attachments)
        except BaseException:
            again = {page: part for page, part in taken.items() if page in self._in_preparation}
            for page, part in again.items():
                self._set(page, part)
            if again:
                self._publish()
            raise
        finally:
            self._in_preparation.difference_update(taken)

    def forget_sent(self) -> None:
        """Accept contexts again that were sent, because messages were removed from the conversation."""
        self._sent.clear()

    def _publish(self) -> None:
        self._events.publish(PageContextsChanged(len(self._waiting)))
