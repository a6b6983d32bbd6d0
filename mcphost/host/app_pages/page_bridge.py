"""JSON-RPC exchange with one page (MCP Apps, "Communication Protocol"); everything from the page is untrusted."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcphost import __version__
from mcphost.errors import MalformedMessage, McpHostError
from mcphost.host.app_pages.page_calls import ERROR_LIMIT, NOT_ANSWERED, PageCall, explain_to_page
from mcphost.host.tools.page_records import result_for_page
from mcphost.json_limits import check_plain_value
from mcphost.protocol.apps import PROTOCOL_VERSION, PageOrigins
from mcphost.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    parse_message,
    serialize_message,
)
from mcphost.protocol.notifications import LoggingMessageNotification
from mcphost.serialization import Raw, WireStruct, decode, decode_or_none, encode

REFUSED = -32000
"""The error code of the extension for requests that the user or the host refuses."""
MAX_RUNNING = 16
TEARDOWN_SECONDS = 1.0
MAX_HEIGHT = 10_000
_TEARDOWN_ID = "mcphost-teardown"
_log = logging.getLogger(__name__)


class PageRequestRejected(Exception):
    """Raised to answer a request from a page with a JSON-RPC error."""

    def __init__(self, message: str, code: int = REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


PageRequestHandler = Callable[[Raw], Awaitable[Any]]
"""Handles the params of a request from a page, and returns the result. Raises PageRequestRejected or McpHostError."""


class _CancelledParams(WireStruct, frozen=True):
    request_id: int | str = ""


class PageBridge:
    """The host's side of the exchange with a page.

    The exchange consists of the handshake, the tool call that the page shows, and the page's requests. If the browser
    loads the page again, a new exchange begins, and the running requests of the earlier exchange are cancelled.
    """

    def __init__(
        self,
        call: PageCall,
        origins: PageOrigins,
        tasks: TaskGroup,
        send: Callable[[bytes], None],
        handlers: dict[str, PageRequestHandler],
    ) -> None:
        self.call = call
        self._origins = origins
        self._tasks = tasks
        self._send_bytes = send
        self._handlers = handlers
        self._running: dict[int | str, anyio.CancelScope] = {}
        self._is_opened = self._is_initialized = self._is_input_sent = False
        self._torn_down = anyio.Event()
        self._is_ending = False
        self.context: Callable[[], dict[str, Any]] = dict
        """Returns the members of the host context that the front end knows, such as the theme."""
        call.listeners.append(self._send_outcome)

    # -- MessageReceiver
    def start(self) -> None:
        """Begin a new exchange, because the page was loaded; cancel the running requests of the earlier exchange."""
        self._cancel_running()
        self._is_opened = self._is_initialized = self._is_input_sent = False

    def _cancel_running(self) -> None:
        for scope in tuple(self._running.values()):
            scope.cancel()
        self._running.clear()

    def receive(self, message: bytes) -> bool:
        """Handle a message from the page; a malformed message is ignored.

        Returns False if the message is a request that cannot be accepted, because too many requests of the page are
        running, or because a running request has the same id.
        """
        try:
            check_plain_value(message)
            parsed = parse_message(message)
        except MalformedMessage:
            return True  # no response is possible, because the id cannot be read
        match parsed:
            case JsonRpcRequest():
                return self._start_request(parsed)
            case JsonRpcNotification():
                self._handle_notification(parsed)
            case JsonRpcResponse(id=identifier) | JsonRpcErrorResponse(id=identifier):
                if identifier == _TEARDOWN_ID:
                    self._torn_down.set()
        return True

    # -- requests of the page
    def _start_request(self, request: JsonRpcRequest) -> bool:
        if len(self._running) >= MAX_RUNNING or request.id in self._running:
            return False
        scope = self._running[request.id] = anyio.CancelScope()
        self._tasks.start_soon(self._answer, request, scope)
        return True

    async def _answer(self, request: JsonRpcRequest, scope: anyio.CancelScope) -> None:
        """Answer one request; a request that was cancelled, or belongs to an earlier exchange, gets no response."""
        response: JsonRpcMessage | None = None
        with scope:
            try:
                response = JsonRpcResponse(request.id, Raw(encode(await self._dispatch(request))))
            except PageRequestRejected as error:
                response = self._make_error(request, error.code, error.message)
            except McpHostError as error:
                _log.warning("a request of a page was not answered: %s", error)
                response = self._make_error(request, REFUSED, explain_to_page(error))
            except Exception:  # noqa: BLE001 - a bug must not end the exchange of the page
                _log.exception("a request of a page failed")
                response = self._make_error(request, INTERNAL_ERROR, NOT_ANSWERED)
        if self._running.get(request.id) is scope:
            del self._running[request.id]
            if response is not None:
                self._send(response)

    def _make_error(self, request: JsonRpcRequest, code: int, message: str) -> JsonRpcErrorResponse:
        return JsonRpcErrorResponse(request.id, ErrorData(code, message[:ERROR_LIMIT]))

    async def _dispatch(self, request: JsonRpcRequest) -> Any:
        if self._is_ending:
            raise PageRequestRejected("The page was closed.")
        if request.method == "ui/initialize":
            # The document in the frame may have been loaded again; it then needs its input once more.
            self._is_opened, self._is_initialized, self._is_input_sent = True, False, False
            return self._initialize_result()
        if request.method == "ping":
            return {}
        if not self._is_opened:
            raise PageRequestRejected("The page must send ui/initialize first.", INVALID_REQUEST)
        if request.method == "ui/request-display-mode":
            return {"mode": "inline"}
        handler = self._handlers.get(request.method)
        if handler is None:
            raise PageRequestRejected(f"{request.method[:200]} is not supported.", METHOD_NOT_FOUND)
        return await handler(request.params)

    def _initialize_result(self) -> dict[str, Any]:
        definition = self.call.offered.definition
        declared = {
            "connectDomains": self._origins.connect, "resourceDomains": self._origins.resource,
            "frameDomains": self._origins.frame, "baseUriDomains": self._origins.base_uri,
        }  # fmt: skip
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "hostInfo": {"name": "mcphost", "version": __version__},
            "hostCapabilities": {
                "openLinks": {}, "serverTools": {}, "serverResources": {}, "logging": {}, "message": {"text": {}},
                "updateModelContext": {"text": {}, "structuredContent": {}},
                "sandbox": {"permissions": {}, "csp": {name: values for name, values in declared.items() if values}},
            },
            "hostContext": {
                "toolInfo": {"id": self.call.call, "tool": definition.raw},
                "displayMode": "inline",
                "availableDisplayModes": ["inline"],
                "platform": "desktop",
                "userAgent": f"mcphost/{__version__}",
                **self.context(),
            },
        }  # fmt: skip

    # -- notifications of the page
    def _handle_notification(self, notification: JsonRpcNotification) -> None:
        match notification.method:
            case "ui/notifications/initialized" if self._is_opened and not self._is_initialized:
                self._is_initialized = True
                self._notify("ui/notifications/tool-input", {"arguments": self.call.arguments})
                self._is_input_sent = True
                self._send_outcome()
            case "notifications/cancelled":
                cancelled = decode_or_none(notification.params, _CancelledParams)
                if cancelled is not None and (scope := self._running.pop(cancelled.request_id, None)) is not None:
                    scope.cancel()
            case "notifications/message":
                entry = decode_or_none(notification.params, LoggingMessageNotification)
                if entry is not None:
                    self.call.offered.connection.log(entry, self.call.call)
            case _:
                pass  # unknown notifications are ignored, as in MCP

    # -- messages to the page
    def _send_outcome(self) -> None:
        """Send the result of the tool call, or the reason why there is none; do nothing if the call has not ended.

        The specification requires that the page receives the arguments of the call first. Until then, nothing is
        sent.
        """
        if not self._is_input_sent:
            return
        if self.call.result is not None:
            self._notify("ui/notifications/tool-result", result_for_page(self.call.result))
        elif self.call.failure:
            self._notify("ui/notifications/tool-cancelled", {"reason": self.call.failure[:ERROR_LIMIT]})

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._send(JsonRpcNotification(method, Raw(encode(params))))

    def _send(self, message: JsonRpcMessage) -> None:
        self._send_bytes(serialize_message(message))

    def change_context(self, members: dict[str, Any]) -> None:
        """Send changed members of the host context to the page, if it has already received the host context."""
        if self._is_initialized and not self._is_ending:
            self._notify("ui/notifications/host-context-changed", members)

    async def tear_down(self, reason: str, *, is_shown: bool) -> None:
        """Cancel the page's running requests, tell the page that it will be closed, and wait a second for its response.

        If one of the requests is asking the user a question, the question is withdrawn. If *is_shown* is false, no
        browser shows the page, so no message is sent to it.
        """
        self._is_ending = True
        self._cancel_running()
        if self._is_initialized and is_shown:
            self._send(
                JsonRpcRequest(_TEARDOWN_ID, "ui/resource-teardown", Raw(encode({"reason": reason[:ERROR_LIMIT]})))
            )
            with anyio.move_on_after(TEARDOWN_SECONDS):
                await self._torn_down.wait()


def decode_params(params: Raw, kind: type[Any]) -> Any:
    """Decode the params of a page's request. Raises PageRequestRejected if they are invalid."""
    try:
        return decode(params if len(params) else b"{}", kind, "params object")
    except MalformedMessage as error:
        raise PageRequestRejected(error.message, INVALID_PARAMS) from error
