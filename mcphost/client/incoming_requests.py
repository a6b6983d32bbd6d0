"""Answers what a server of the handshake era asks of us: ping, and whatever the Responder knows."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from mcphost.client.client_info import WHO_CAN_ANSWER, may_ask
from mcphost.client.pre_init import SENDING_LIMIT
from mcphost.client.server_tasks import HostedTasks
from mcphost.client.session import AskContext, Observer, Responder
from mcphost.client.timeouts import Pauses, pausing
from mcphost.errors import ConnectionLost, Declined, MalformedMessage, McpHostError
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
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.server_requests import Ask, AskDeclined, ListRoots, RootsReply, asking
from mcphost.protocol.tasks import related_task, with_related
from mcphost.serialization import Raw, decode, encode
from mcphost.transport.bounded_queue import size_of
from mcphost.transport.throttle import at_leisure

_log = logging.getLogger(__name__)
PENDING_LIMIT = 100
PENDING_BYTES = 32 * 1024 * 1024
"""Of the requests that are being answered; what comes beyond is refused and not kept."""
QUEUE_LIMIT = 1_000
DECLINED = -1
_STANDARD = frozenset({METHOD_NOT_FOUND, INTERNAL_ERROR, INVALID_PARAMS})
_RESERVED = range(-32_768, -31_999)
_WARNED_METHODS = 20
Tied = Callable[[], Awaitable[AskContext]]
"""Which call a request of the server belongs to; it may take a moment until that is known."""


def emitted(code: int) -> int:
    """The code as it may be sent: what JSON-RPC and the specification keep for themselves becomes a plain refusal."""
    own = code not in _RESERVED and abs(code) < 2**53
    return code if own or code in _STANDARD else DECLINED


class Answering:
    """One task for each request of the server; a request it takes back is cancelled and never answered.

    `declared` are the client capabilities as they were declared; what is not among them is refused, and said once.
    `flooded` is called when 1,000 requests wait for their answers to leave: such a server asks and does not read.
    `pauses` stops the time of our calls while a person is asked: the server waits for that.
    """

    def __init__(
        self,
        responder: Responder,
        send: Callable[[Message], Awaitable[None]],
        tasks: TaskGroup,
        *,
        declared: dict[str, Any],
        observer: Observer,
        server: str,
        flooded: Callable[[], None],
        pauses: Pauses,
    ) -> None:
        self._responder = responder
        self._send = send
        self._tasks = tasks
        self._declared = declared
        self._observer = observer
        self._server = server
        self._flooded = flooded
        self._pauses = pauses
        self._scopes: dict[RequestId, anyio.CancelScope] = {}
        self._asked_for: list[int] = []  # the calls to which open questions belong
        self._pending = 0
        self._pending_bytes = 0
        self._sending = anyio.Semaphore(SENDING_LIMIT)
        self._hosted = HostedTasks(declared, send, tasks, server)
        self._lists: set[anyio.Event] = set()
        self._warned: set[str] = set()
        self.counts: Counter[str] = Counter()

    def take(self, request: Request, tied: Tied) -> None:
        """Start answering; returns at once."""
        if self._pending >= QUEUE_LIMIT:
            self._flooded()
            return
        size = size_of(request)
        # A first one is always taken, whatever its size.
        fits = not self._pending or self._pending_bytes + size <= PENDING_BYTES
        if not fits:
            request = Request(request.id, request.method)
            size = size_of(request)
        self._pending += 1
        self._pending_bytes += size
        scope = anyio.CancelScope()
        # Now, not in the task: the next message may take it back. An id used twice at the same time: the first one
        # keeps it, both are answered.
        self._scopes.setdefault(request.id, scope)
        self._tasks.start_soon(self._run, request, tied, scope, size, fits)

    def taken_back(self, ident: RequestId) -> bool:
        """The server does not want its answer any more; whether there was something to take back."""
        scope = self._scopes.get(ident)
        if scope is None:
            return False
        scope.cancel()
        return True

    def call_over(self, number: int) -> None:
        """A call of ours is over. What the server asked for it stays open: it wants an answer until it takes that back.

        Specification 2025-11-25, basic/utilities/cancellation: whoever sent a request cancels it.
        """
        if number in self._asked_for:
            self._observer.call_over(number)

    async def folders_sent(self) -> None:
        """Wait until each roots/list that is being answered now has its answer, or was taken back."""
        for over in tuple(self._lists):
            await over.wait()

    async def _run(self, request: Request, tied: Tied, scope: anyio.CancelScope, size: int, fits: bool) -> None:
        over = anyio.Event()
        if request.method == ListRoots.METHOD:
            self._lists.add(over)
        try:
            with scope:
                await anyio.lowlevel.checkpoint_if_cancelled()  # taken back before it began
                answer = await self._answer(request, tied) if fits else self._too_many(request)
                async with self._sending:
                    await self._send(self._still(request, answer))
        except ConnectionLost:
            return  # whoever reads the channel hears of it
        except McpHostError:
            return  # an HTTP server that refuses an answer; it will say so in its own call
        finally:
            if scope.cancel_called:
                self._responder.taken_back(request.method)
            self._pending -= 1
            self._lists.discard(over)
            over.set()
            self._pending_bytes -= size
            if self._scopes.get(request.id) is scope:
                del self._scopes[request.id]

    def _still(self, request: Request, answer: Message) -> Message:
        """The answer as it may leave now: folders may have left the list while it waited for its turn."""
        if request.method != ListRoots.METHOD or not isinstance(answer, Response):
            return answer
        reply = self._responder.still(decode(answer.result, RootsReply, "roots"))
        return Response(answer.id, with_related(Raw(encode(reply)), related_task(request.params)))

    async def _answer(self, request: Request, tied: Tied) -> Message:
        if request.method == Ping.METHOD:
            self.counts["pings answered"] += 1
            return Response(request.id, Raw(b"{}"))
        if self._hosted.serves(request.method):
            return await self._hosted.answer(request)
        if not (may_ask(request.method, self._declared) and may_ask(request.method, self._responder.capabilities)):
            self._undeclared(request.method)
            return self._error(request, METHOD_NOT_FOUND, f"{request.method[:200]} is not known here.")
        if self._pending > PENDING_LIMIT:
            return self._too_many(request)
        try:
            asked = await at_leisure(asking(request.method, request.params))
            if self._hosted.wants(request):
                answer = self._hosted.create(request, lambda: self._reply(request, asked, tied))
            else:
                answer = await self._reply(request, asked, tied)
        except MalformedMessage as error:
            return self._error(request, INVALID_PARAMS, error.message[:500])
        if isinstance(answer, Response):
            return Response(answer.id, with_related(answer.result, related_task(request.params)))
        return answer

    async def _reply(self, request: Request, asked: Ask, tied: Tied) -> Message:
        """What the Responder says; raises nothing but cancellation."""
        context = await tied()
        self._asked_for.append(context.number)
        try:
            with pausing(partial(self._pauses.person, context.number)):
                reply = await self._responder.answer(asked, context)
        except Declined as error:
            return self._error(request, DECLINED, error.message)
        except McpHostError as error:
            return self._error(request, INTERNAL_ERROR, error.message[:500])
        except Exception:  # noqa: BLE001
            # The boundary between a server's question and whoever answers it: a mistake of ours must neither end
            # the session nor leave the server waiting. What went wrong is for our log, not for the server.
            _log.exception("a question of %s broke", self._server)
            return self._error(request, INTERNAL_ERROR, "The answer could not be made.")
        finally:
            self._asked_for.remove(context.number)
        if isinstance(reply, AskDeclined):
            return self._error(request, emitted(reply.code), reply.message)
        return Response(request.id, Raw(encode(reply)))

    def _undeclared(self, method: str) -> None:
        if method not in self._warned and len(self._warned) < _WARNED_METHODS:
            self._warned.add(method)
            self._observer.warn(
                f"The server {self._server!r} asked for {method[:100]!r}, which was not offered to it; it was refused. "
                f"{WHO_CAN_ANSWER}"
            )

    def _too_many(self, request: Request) -> ErrorResponse:
        return self._error(request, INTERNAL_ERROR, "Too many requests are waiting.")

    def _error(self, request: Request, code: int, message: str) -> ErrorResponse:
        self.counts["requests refused"] += 1
        return ErrorResponse(request.id, RpcError(code, message))
