"""Handling of the messages that a server sends during negotiation (protocol revisions before 2026-07-28)."""

import anyio
from anyio.abc import TaskGroup

from mcphost.client.session import ServerRequestContext, SessionObserver
from mcphost.errors import ConnectionLost, McpHostError
from mcphost.protocol.jsonrpc import (
    INTERNAL_ERROR,
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
)
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.notifications import (
    LoggingMessageNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
    parse_notification,
)
from mcphost.serialization import Raw
from mcphost.transport.channel import Channel
from mcphost.transport.flow_control import MAX_QUEUED_BYTES, message_size

MAX_PENDING_MESSAGES = 100
# Over HTTP, each response is sent in a separate HTTP request, and a flood of requests from the server must not open a
# connection for each.
MAX_CONCURRENT_SENDS = 16
MAX_UNSENT_RESPONSES = 1_000
_LIST_CHANGES = (ToolListChangedNotification, PromptListChangedNotification, ResourceListChangedNotification)


class PreInitHandler:
    """Handler of messages during negotiation (specification 2025-11-25, basic/lifecycle, initialization).

    Until the client sends `notifications/initialized`, servers are only allowed to send pings and log messages.
    Pings are answered immediately, because the server may be waiting for the response. Some servers also send other
    requests (usually for the roots) or report changes to lists. `pending` stores these requests, and one notification
    per list, for the session.
    """

    def __init__(self, channel: Channel, observer: SessionObserver, tasks: TaskGroup) -> None:
        self._channel = channel
        self._observer = observer
        self._tasks = tasks
        self._unsent_count = 0
        self._sending = anyio.Semaphore(MAX_CONCURRENT_SENDS)
        self.pending: list[tuple[JsonRpcMessage, ServerRequestContext]] = []
        self._pending_bytes = 0

    async def serve(self) -> None:
        """Handle messages until cancelled or until the connection is lost.

        A lost connection raises no error here; the code that opened the connection reports it.
        """
        try:
            async for message in self._channel.unsolicited():
                self.handle(message, ServerRequestContext())
        except ConnectionLost:
            return

    def handle(self, message: JsonRpcMessage, context: ServerRequestContext) -> None:
        """Handle a message that is not a response; return without waiting."""
        if isinstance(message, JsonRpcRequest):
            if message.method == Ping.METHOD:
                self._respond(JsonRpcResponse(message.id, Raw(b"{}")))
            elif self._has_room(message):
                self._pending_bytes += message_size(message)
                self.pending.append((message, context))
            else:
                error = ErrorData(INTERNAL_ERROR, "Too many requests are waiting.")
                self._respond(JsonRpcErrorResponse(message.id, error))
        elif isinstance(message, JsonRpcNotification):
            notification = parse_notification(message.method, message.params)
            if isinstance(notification, LoggingMessageNotification):
                self._observer.log(notification)
            elif isinstance(notification, _LIST_CHANGES) and all(
                other.method != message.method for other, _ in self._pending_notifications()
            ):
                self.pending.append((JsonRpcNotification(message.method), context))

    def _has_room(self, request: JsonRpcRequest) -> bool:
        # The first request is accepted regardless of its size.
        fits = not self.pending or self._pending_bytes + message_size(request) <= MAX_QUEUED_BYTES
        return len(self.pending) < MAX_PENDING_MESSAGES and fits

    def _pending_notifications(self) -> list[tuple[JsonRpcNotification, ServerRequestContext]]:
        return [(message, context) for message, context in self.pending if isinstance(message, JsonRpcNotification)]

    def _respond(self, answer: JsonRpcResponse | JsonRpcErrorResponse) -> None:
        """Start a task that sends a response; drop the response if 1,000 are already waiting to be sent."""
        if self._unsent_count < MAX_UNSENT_RESPONSES:
            self._unsent_count += 1
            self._tasks.start_soon(self._send, answer)

    async def _send(self, answer: JsonRpcResponse | JsonRpcErrorResponse) -> None:
        try:
            async with self._sending:
                await self._channel.send(answer)
        except McpHostError:
            return  # the negotiation fails with the same error
        finally:
            self._unsent_count -= 1
