"""Answers what a server of the handshake era asks of us: ping, and whatever the Responder knows."""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from mcphost.client.identity import may_ask
from mcphost.client.session import AskContext, Responder
from mcphost.data import Raw, encode
from mcphost.errors import ConnectionLost, Declined, MalformedMessage, McpHostError
from mcphost.protocol.asks import AskDeclined, ask
from mcphost.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ErrorResponse,
    Message,
    Request,
    RequestId,
    Response,
    RpcError,
)

PENDING_LIMIT = 100


class Answering:
    """One task for each request of the server; a request it takes back is cancelled and never answered."""

    def __init__(self, responder: Responder, send: Callable[[Message], Awaitable[None]], tasks: TaskGroup) -> None:
        self._responder = responder
        self._send = send
        self._tasks = tasks
        self._scopes: dict[RequestId, anyio.CancelScope] = {}
        self._pending = 0

    def take(self, request: Request, context: AskContext) -> None:
        """Start answering; returns at once."""
        # Beyond twice the limit even refusals pile up: the server floods and does not read.
        if self._pending >= 2 * PENDING_LIMIT:
            return
        self._pending += 1
        self._tasks.start_soon(self._run, request, context)

    def taken_back(self, ident: RequestId) -> None:
        """The server does not want its answer any more."""
        scope = self._scopes.get(ident)
        if scope is not None:
            scope.cancel()

    async def _run(self, request: Request, context: AskContext) -> None:
        try:
            with anyio.CancelScope() as scope:
                self._scopes[request.id] = scope
                answer = await self._answer(request, context)
                await self._send(answer)
        except ConnectionLost:
            return  # whoever reads the channel hears of it
        except McpHostError:
            return  # an HTTP server that refuses an answer; it will say so in its own call
        finally:
            self._pending -= 1
            self._scopes.pop(request.id, None)

    async def _answer(self, request: Request, context: AskContext) -> Message:
        if request.method == "ping":
            return Response(request.id, Raw(b"{}"))
        if not may_ask(request.method, self._responder.capabilities):
            return _error(request, METHOD_NOT_FOUND, f"{request.method[:200]} is not known here.")
        if self._pending > PENDING_LIMIT:
            return _error(request, INTERNAL_ERROR, "Too many requests are waiting.")
        try:
            asked = ask(request.method, request.params)
        except MalformedMessage as error:
            return _error(request, INVALID_PARAMS, error.message[:500])
        try:
            reply = await self._responder.answer(asked, context)
        except Declined as error:
            return _error(request, -1, error.message)
        except McpHostError as error:
            return _error(request, INTERNAL_ERROR, error.message[:500])
        if isinstance(reply, AskDeclined):
            return _error(request, reply.code, reply.message)
        return Response(request.id, Raw(encode(reply)))


def _error(request: Request, code: int, message: str) -> ErrorResponse:
    return ErrorResponse(request.id, RpcError(code, message))
