"""A helper that waits for an event of the host."""

from typing import Any

from mcphost.host.event_bus import EventQueue
from mcphost.host.events import HostEvent


async def wait_for_event(feed: EventQueue, kind: type[HostEvent]) -> Any:
    """Wait for the next event of the given type, and return it; the events after it stay in the queue."""
    async for event in feed:
        if isinstance(event, kind):
            return event
    raise AssertionError("the feed ended")


LIST_RESULT_KEYS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
         "resources/templates/list": "resourceTemplates"}  # fmt: skip
