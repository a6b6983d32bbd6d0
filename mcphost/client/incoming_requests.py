"""Handling of requests from a server, such as ping and sampling (protocol revisions before 2026-07-28)."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from mcphost.client.capabilities import NO_USER_HINT, is_request_allowed, not_supported_message
from mcphost.client.pre_init import MAX_CONCURRENT_SENDS
from mcphost.client.server_requests_as_tasks import ServerTaskRunner
from mcphost.client.session import RequestHandler, ServerRequestContext, SessionObserver
from mcphost.client.timeouts import UserPauses, provide_pause
from mcphost.errors import ConnectionLost, ConsentDenied, MalformedMessage, McpHostError
from mcphost.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcRequest,
    JsonRpcResponse,
    RequestId,
)
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.server_requests import (
    ListRoots,
    ListRootsResult,
    ServerRequest,
    ServerRequestRejection,
    parse_server_request,
)
from mcphost.protocol.tasks import add_related_task, read_related_task
from mcphost.serialization import Raw, decode, encode
from mcphost.transport.flow_control import message_size, run_steps_cooperatively

_log = logging.getLogger(__name__)
MAX_PENDING_REQUESTS = 100
MAX_PENDING_BYTES = 32 * 1024 * 1024
"""Maximum total size in bytes of the requests in progress; further requests are refused."""
MAX_QUEUED_REQUESTS = 1_000
DECLINED = -1
_STANDARD_CODES = frozenset({METHOD_NOT_FOUND, INTERNAL_ERROR, INVALID_PARAMS})
_RESERVED_CODES = range(-32_768, -31_999)
_WARNED_METHODS = 20
ContextResolver = Callable[[], Awaitable[ServerRequestContext]]
"""Returns the context of a request from the server, possibly after a short wait."""


def allowed_error_code(code: int) -> int:
    """Return *code* if the host is allowed to send it in an error response, otherwise -1 (declined).

    Of the codes that JSON-RPC reserves (-32768 to -32000), only those for an unknown method, invalid params and an
    internal error are allowed.
    """
    is_unreserved = code not in _RESERVED_CODES and abs(code) < 2**53
    return code if is_unreserved or code in _STANDARD_CODES else DECLINED


class ServerRequestDispatcher:
    """Dispatcher that handles each request from a server in its own task.

    Requests that the server cancels are not answered.

    - *declared*: the declared client capabilities. Requests that need other capabilities are refused, with one warning
      per method.
    - *on_flood*: called if 1,000 requests are pending, which means that the server does not read the responses.
    - *pauses*: suspends the deadlines of the client's requests while the user answers a question.
    """

    def __init__(
        self,
        handler: RequestHandler,
        send: Callable[[JsonRpcMessage], Awaitable[None]],
        tasks: TaskGroup,
        *,
        declared: dict[str, Any],
        observer: SessionObserver,
        server: str,
        on_flood: Callable[[], None],
        pauses: UserPauses,
    ) -> None:
        self._handler = handler
        self._send = send
        self._tasks = tasks
        self._declared = declared
        self._observer = observer
        self._server = server
        self._on_flood = on_flood
        self._pauses = pauses
        self._scopes: dict[RequestId, anyio.CancelScope] = {}
        self._all_scopes: set[anyio.CancelScope] = set()
        self._calls_with_questions: list[int] = []  # numbers of client requests with open questions
        self._pending = 0
        self._pending_bytes = 0
        self._sending = anyio.Semaphore(MAX_CONCURRENT_SENDS)
        self._server_tasks = ServerTaskRunner(declared, send, tasks, server)
        self._pending_roots_requests: set[anyio.Event] = set()
        self._warned: set[str] = set()
        self.counts: Counter[str] = Counter()

    def dispatch(self, request: JsonRpcRequest, resolve_context: ContextResolver) -> None:
        """Start handling a request in a new task; return without waiting.

        The task awaits *resolve_context*, which returns the context of the request.
        """
        if self._pending >= MAX_QUEUED_REQUESTS:
            self._on_flood()
            return
        size = message_size(request)
        # The first request is accepted regardless of its size.
        fits = not self._pending or self._pending_bytes + size <= MAX_PENDING_BYTES
        if not fits:
            request = JsonRpcRequest(request.id, request.method)
            size = message_size(request)
        self._pending += 1
        self._pending_bytes += size
        scope = anyio.CancelScope()
        # Registered here and not in the task, because the next message may cancel it. If two pending requests have the
        # same id, it refers to the first one, and both are answered.
        self._scopes.setdefault(request.id, scope)
        self._all_scopes.add(scope)
        self._tasks.start_soon(self._run, request, resolve_context, scope, size, fits)

    def cancel(self, request_id: RequestId) -> bool:
        """Cancel a pending request that the server has cancelled; return False if no pending request has this id."""
        scope = self._scopes.get(request_id)
        if scope is None:
            return False
        scope.cancel()
        return True

    def cancel_all(self) -> None:
        """Cancel all pending requests and tasks, because the session in which they were sent has ended.

        The server may use the same request ids in a new session, so a late response could be taken for the response to
        another request.
        """
        self._scopes.clear()
        for scope in tuple(self._all_scopes):
            scope.cancel()
        self._server_tasks.cancel_all()

    def on_call_ended(self, number: int) -> None:
        """Notify the observer that client request *number* has ended, if a server request related to it is still open.

        The server request stays open, because only the server is allowed to cancel it (specification 2025-11-25,
        basic/utilities/cancellation).
        """
        if number in self._calls_with_questions:
            self._observer.on_call_ended(number)

    async def wait_for_roots(self) -> None:
        """Wait until every pending roots/list request has been answered or cancelled."""
        for done in tuple(self._pending_roots_requests):
            await done.wait()

    async def _run(
        self,
        request: JsonRpcRequest,
        resolve_context: ContextResolver,
        scope: anyio.CancelScope,
        size: int,
        has_room: bool,
    ) -> None:
        done = anyio.Event()
        if request.method == ListRoots.METHOD:
            self._pending_roots_requests.add(done)
        try:
            with scope:
                await anyio.lowlevel.checkpoint_if_cancelled()  # cancelled before it began
                response = (
                    await self._respond(request, resolve_context) if has_room else self._too_many_requests(request)
                )
                async with self._sending:
                    await self._send(self._recheck_roots(request, response))
        except ConnectionLost:
            return  # the channel's reader handles it
        except McpHostError:
            return  # an HTTP server that refuses a response reports that in the related client request
        finally:
            if scope.cancel_called:
                self._handler.on_request_cancelled(request.method)
            self._pending -= 1
            self._all_scopes.discard(scope)
            self._pending_roots_requests.discard(done)
            done.set()
            self._pending_bytes -= size
            if self._scopes.get(request.id) is scope:
                del self._scopes[request.id]

    def _recheck_roots(self, request: JsonRpcRequest, answer: JsonRpcMessage) -> JsonRpcMessage:
        """Return *answer* without the roots that the user has stopped sharing since it was created.

        Responses to requests other than roots/list, and error responses, are returned unchanged.
        """
        if request.method != ListRoots.METHOD or not isinstance(answer, JsonRpcResponse):
            return answer
        reply = self._handler.filter_reply(decode(answer.result, ListRootsResult, "list of roots"))
        return JsonRpcResponse(answer.id, add_related_task(Raw(encode(reply)), read_related_task(request.params)))

    async def _respond(self, request: JsonRpcRequest, resolve_context: ContextResolver) -> JsonRpcMessage:
        if request.method == Ping.METHOD:
            self.counts["pings answered"] += 1
            return JsonRpcResponse(request.id, Raw(b"{}"))
        if self._server_tasks.is_task_method(request.method):
            return await self._server_tasks.handle(request)
        if not (
            is_request_allowed(request.method, self._declared)
            and is_request_allowed(request.method, self._handler.capabilities)
        ):
            self._warn_undeclared(request.method)
            return self._error_response(request, METHOD_NOT_FOUND, not_supported_message(request.method))
        if self._pending > MAX_PENDING_REQUESTS:
            return self._too_many_requests(request)
        try:
            server_request = await run_steps_cooperatively(parse_server_request(request.method, request.params))
            await anyio.lowlevel.checkpoint_if_cancelled()  # a task would outlive the cancelled request
            if self._server_tasks.is_task_request(request):
                response = self._server_tasks.create(
                    request, lambda: self._call_handler(request, server_request, resolve_context)
                )
            else:
                response = await self._call_handler(request, server_request, resolve_context)
        except MalformedMessage as error:
            return self._error_response(request, INVALID_PARAMS, error.message[:500])
        if isinstance(response, JsonRpcResponse):
            return JsonRpcResponse(response.id, add_related_task(response.result, read_related_task(request.params)))
        return response

    async def _call_handler(
        self, request: JsonRpcRequest, server_request: ServerRequest, resolve_context: ContextResolver
    ) -> JsonRpcMessage:
        """Return the response from the host's handler, or an error response if the handler fails.

        *request* is the JSON-RPC request, and *server_request* is its decoded content. *resolve_context* returns the
        context of the request. Raises no errors, except on cancellation.
        """
        context = await resolve_context()
        await anyio.lowlevel.checkpoint_if_cancelled()  # nothing is asked for a session that has ended
        self._calls_with_questions.append(context.call_number)
        try:
            with provide_pause(partial(self._pauses.pause_for_user, context.call_number)):
                reply = await self._handler.answer(server_request, context)
        except ConsentDenied as error:
            return self._error_response(request, DECLINED, error.message)
        except McpHostError as error:
            return self._error_response(request, INTERNAL_ERROR, error.message[:500])
        except Exception:  # noqa: BLE001
            # An error in a handler must neither end the session nor leave the server without a response. The details go
            # to mcphost's log, not to the server.
            _log.exception("a question of %s broke", self._server)
            return self._error_response(request, INTERNAL_ERROR, "The request could not be answered.")
        finally:
            self._calls_with_questions.remove(context.call_number)
        if isinstance(reply, ServerRequestRejection):
            return self._error_response(request, allowed_error_code(reply.code), reply.message)
        return JsonRpcResponse(request.id, Raw(encode(reply)))

    def _warn_undeclared(self, method: str) -> None:
        if method not in self._warned and len(self._warned) < _WARNED_METHODS:
            self._warned.add(method)
            self._observer.warn(
                f"The server {self._server!r} requested {method[:100]!r}, which mcphost does not offer; "
                f"the request was refused. {NO_USER_HINT}"
            )

    def _too_many_requests(self, request: JsonRpcRequest) -> JsonRpcErrorResponse:
        return self._error_response(request, INTERNAL_ERROR, "Too many requests are waiting.")

    def _error_response(self, request: JsonRpcRequest, code: int, message: str) -> JsonRpcErrorResponse:
        self.counts["requests refused"] += 1
        return JsonRpcErrorResponse(request.id, ErrorData(code, message))
