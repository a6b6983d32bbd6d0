"""Contexts of open pages (MCP Apps, `ui/update-model-context`), sent to the model with the next user message."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from mcphost.host.event_bus import EventBus
from mcphost.host.events import PageContextsChanged
from mcphost.llm.messages import Part, ResourcePart
from mcphost.serialization import Struct

CONTEXT_LIMIT = 32 * 1024
"""Maximum size of the context of one page in bytes."""


class PageContext(Struct, frozen=True):
    """The context that an open page provides for the model; `page` is the number of the page."""

    page: int
    part: ResourcePart


class PageContexts:
    """The latest context of each open page, waiting to be sent with the next user message.

    After a context has been sent, or the user has removed it, it is sent again only if the page changes it.
    """

    def __init__(self, events: EventBus) -> None:
        self._events = events
        self._waiting: dict[int, ResourcePart] = {}
        self._sent: dict[int, ResourcePart] = {}
        self._removed: dict[int, ResourcePart] = {}
        self._in_preparation: set[int] = set()

    @property
    def waiting(self) -> tuple[PageContext, ...]:
        """The contexts to send with the next user message; the context that has waited longest comes first."""
        return tuple(PageContext(page, part) for page, part in self._waiting.items())

    def update(self, page: int, part: ResourcePart) -> None:
        """Replace the context of a page; an empty text removes it.

        The caller must limit the number of pages, and the size of the text to CONTEXT_LIMIT bytes.
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
    def take(self, attachments: Sequence[Part] = ()) -> Generator[tuple[ResourcePart, ...]]:
        """Return a context manager to use while a user message is sent; it yields the waiting contexts to send with it.

        A context that is already among the message's *attachments* is not yielded. From the beginning of the block,
        none of the contexts is waiting anymore. If the block raises an exception, the message was not sent: the
        contexts wait again, unless their pages have been closed or have changed them in the meantime.
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
        """Forget which contexts were sent, so that pages can send them again unchanged.

        Call this when messages are removed from the conversation, because they may have contained the contexts.
        """
        self._sent.clear()

    def _publish(self) -> None:
        self._events.publish(PageContextsChanged(len(self._waiting)))
