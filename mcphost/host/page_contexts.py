"""Contexts of open pages (MCP Apps, `ui/update-model-context`), which the user's next message takes to the model."""

from mcphost.host.event_bus import EventBus
from mcphost.host.events import PageContextsChanged
from mcphost.llm.messages import ResourcePart
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
        self._handled: dict[int, ResourcePart] = {}

    @property
    def waiting(self) -> tuple[PageContext, ...]:
        """The contexts that the next user message takes, in the order in which the pages first sent them."""
        return tuple(PageContext(page, part) for page, part in self._waiting.items())

    def update(self, page: int, part: ResourcePart) -> None:
        """Replace the context of a page; an empty text removes it.

        The caller limits the size of the text to CONTEXT_LIMIT bytes, and the number of pages.
        """
        before = self._waiting.get(page)
        if not part.text.strip() or part == self._handled.get(page):
            self._waiting.pop(page, None)
        elif part != before:
            self._waiting[page] = part
            self._handled.pop(page, None)
        if before != self._waiting.get(page):
            self._publish()

    def remove(self, page: int) -> None:
        """Remove the context of a page, because the user does not want to send it."""
        if (part := self._waiting.pop(page, None)) is not None:
            self._handled[page] = part
            self._publish()

    def close(self, page: int) -> None:
        """Forget everything about a page, because it is closed."""
        self._handled.pop(page, None)
        if self._waiting.pop(page, None) is not None:
            self._publish()

    def take(self) -> tuple[ResourcePart, ...]:
        """Return the contexts for a user message, which are then no longer waiting."""
        taken = tuple(self._waiting.values())
        if taken:
            self._handled.update(self._waiting)
            self._waiting.clear()
            self._publish()
        return taken

    def forget_sent(self) -> None:
        """Accept contexts again that were sent, because messages were removed from the conversation."""
        self._handled.clear()

    def _publish(self) -> None:
        self._events.publish(PageContextsChanged(len(self._waiting)))
