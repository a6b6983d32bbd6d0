"""Handling of a server's input requests (revision 2026-07-28).

The client answers the input requests, and then repeats its own request with the answers.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import anyio

from mcphost.client.capabilities import NO_USER_HINT, is_request_allowed
from mcphost.client.requests import make_follow_up_error
from mcphost.client.session import RequestHandler, ServerRequestContext
from mcphost.errors import (
    ConnectionLost,
    ConsentDenied,
    MalformedMessage,
    McpHostError,
    RequestRefused,
    ServerError,
    TooManyInputRounds,
)
from mcphost.protocol.base import is_set
from mcphost.protocol.jsonrpc import INVALID_PARAMS, URL_ELICITATION_REQUIRED
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import (
    INPUT_REQUIRED,
    ClientResult,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ServerRequest,
    ServerRequestRejection,
    UrlElicitationRequired,
    parse_input_requests,
    parse_server_request,
)
from mcphost.serialization import Raw, WireStruct, convert, decode, replace
from mcphost.transport.flow_control import run_steps_cooperatively

_log = logging.getLogger(__name__)
MAX_ROUNDS = 10
MAX_REQUESTS = 100
_FIRST_DELAY = 0.1
MAX_DELAY = 5.0


class _ResultType(WireStruct, frozen=True):
    result_type: str = ""


def read_result_type(raw: Raw) -> str:
    """Return the `resultType` of a result, or "" if it has none. Raises MalformedMessage."""
    return decode(raw, _ResultType, "result").result_type


class InputHandler(Protocol):
    """Interface through which input requests are answered; part of `RequestHandler`."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The declared client capabilities."""
        ...

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        """Return the result for *request*, or a ServerRequestRejection if the host rejects it."""
        ...

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        """Return *reply* without roots that the user no longer shares; other replies are returned unchanged."""
        ...


class SessionInputHandler:
    """Handler of one session's input requests, which cancels open requests when the session ends.

    Without the cancellation, the user could still agree to open a browser or to call a model after the session has
    ended, although the answer could no longer be sent.
    """

    def __init__(self, handler: RequestHandler, server: str) -> None:
        self._handler, self._server = handler, server
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = False

    @property
    def capabilities(self) -> dict[str, Any]:
        """The declared client capabilities."""
        return self._handler.capabilities

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        """Return the host's answer. Raises ConnectionLost if the session ends first."""
        scope = anyio.CancelScope()
        if not self._is_closed:
            self._scopes.add(scope)
            try:
                with scope:
                    return await self._handler.answer(request, context)
            finally:
                self._scopes.discard(scope)
        raise ConnectionLost(
            f"The connection to {self._server!r} ended before its question was answered.", server=self._server
        )

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        """Return *reply* without roots that the user no longer shares; other replies are returned unchanged."""
        return self._handler.filter_reply(reply)

    def close(self) -> None:
        """Cancel all open input requests, and reject later ones."""
        self._is_closed = True
        for scope in tuple(self._scopes):
            scope.cancel()


async def resolve_input(
    raw: Raw, resend: Callable[[dict[str, Any]], Awaitable[Raw]], handler: InputHandler, context: ServerRequestContext
) -> Raw:
    """Answer the input requests in the result *raw* and repeat the request, until a result requires no input.

    *resend* sends the request with the given additional params and a new id. Returns the final result. Raises
    ConsentDenied if the user declined an input request, TooManyInputRounds after 10 rounds, and MalformedMessage if a
    result has neither input requests nor a request state.
    """
    wait = _FIRST_DELAY
    for _ in range(MAX_ROUNDS):
        result = decode(raw, InputRequiredResult, "input_required result")
        extra: dict[str, Any] = {}
        requests = await run_steps_cooperatively(parse_input_requests(result.input_requests))
        if requests:
            extra["inputResponses"] = await answer_input_requests(requests, handler, context)
        if is_set(result.request_state):
            extra["requestState"] = result.request_state
        if not extra:
            raise MalformedMessage("The server asked for input without any input requests.")
        if not requests:
            await anyio.sleep(wait)  # a result without input requests asks the client to repeat the request later
            wait = min(wait * 2, MAX_DELAY)
        try:
            raw = await resend(extra)
        except ConnectionLost as error:
            raise make_follow_up_error(error) from error.__cause__
        if read_result_type(raw) != INPUT_REQUIRED:
            return raw
    raise TooManyInputRounds(f"The server asked for input {MAX_ROUNDS} times in a row; the call was cancelled.")


async def answer_input_requests(
    input_requests: dict[str, InputRequest], handler: InputHandler, context: ServerRequestContext
) -> dict[str, ClientResult]:
    """Answer all input requests concurrently; return the answers under the keys of the requests.

    Raises ConsentDenied if the user declined a request, and MalformedMessage if there are too many requests or
    a request needs an undeclared capability.
    """
    if len(input_requests) > MAX_REQUESTS:
        raise MalformedMessage(
            f"The server asked for {len(input_requests)} inputs at once; at most {MAX_REQUESTS} are allowed."
        )
    for entry in input_requests.values():
        if not is_request_allowed(entry.method, handler.capabilities):
            raise MalformedMessage(
                f"The server requested {entry.method[:200]!r}, which mcphost does not offer. {NO_USER_HINT}"
            )
    requests = {
        key: await run_steps_cooperatively(parse_server_request(entry.method, entry.params))
        for key, entry in input_requests.items()
    }
    replies: dict[str, ClientResult] = {}
    failures: list[McpHostError] = []

    async with anyio.create_task_group() as group:

        async def answer_one(key: str) -> None:
            try:
                reply = await handler.answer(requests[key], context)
                if isinstance(reply, ServerRequestRejection):
                    raise _rejection_error(reply)
            except McpHostError as error:
                failures.append(error)
                group.cancel_scope.cancel()  # the client request has failed; the other answers are not needed
            except Exception:  # noqa: BLE001
                # An error in a handler must not end the session; see client.incoming_requests.
                _log.exception("a question during %s broke", context.method)
                failures.append(ServerError("A request from the server could not be answered."))
                group.cancel_scope.cancel()
            else:
                replies[key] = reply

        for key in requests:
            group.start_soon(answer_one, key)
    if failures:
        raise failures[0]
    # A reply may be minutes old if the answer to another question took that long.
    return {key: handler.filter_reply(replies[key]) for key in requests}


def _rejection_error(reply: ServerRequestRejection) -> McpHostError:
    """Return the exception with which the client's request fails if the host rejects an input request.

    Unlike a JSON-RPC request from the server, an input request cannot be answered with an error.
    """
    if reply.code == -1:
        return ConsentDenied(reply.message)
    if reply.code == INVALID_PARAMS:
        return MalformedMessage(f"The server sent an invalid request: {reply.message}")
    return ServerError(reply.message)


MAX_URL_ROUNDS = 3


class UrlElicitation:
    """Handler of the error "URL elicitation required" (-32042) in response to one request (revision 2025-11-25).

    The user is asked to visit the URLs in the error. The caller then sends the request again, at most three times.
    """

    def __init__(self, revision: Revision, capabilities: dict[str, Any], handler: InputHandler) -> None:
        elicitation = capabilities.get("elicitation")
        self._is_supported = (
            revision is Revision.V2025_11_25
            and isinstance(elicitation, dict)
            and "url" in cast("dict[str, Any]", elicitation)
        )
        self._revision = revision
        self._handler = handler
        self._rounds_left = MAX_URL_ROUNDS

    async def resolve(self, error: RequestRefused, context: ServerRequestContext) -> bool:
        """Ask the user to visit the URLs in *error*, and return whether to repeat the client's request.

        Returns False if *error* has another error code or no valid URLs, if the host rejects the question, or if the
        request was already repeated three times. Raises ConsentDenied if the user cancels or does not visit the URLs.
        """
        if error.code != URL_ELICITATION_REQUIRED or not self._is_supported or not self._rounds_left:
            return False
        try:
            required = convert(error.data, UrlElicitationRequired, "error -32042")
        except MalformedMessage:
            return False
        if not required.elicitations or any(item.mode != "url" for item in required.elicitations):
            return False
        self._rounds_left -= 1
        reply = await self._handler.answer(required, replace(context, revision=self._revision))
        if isinstance(reply, ElicitResult) and reply.action == "accept":
            return True
        if isinstance(reply, ElicitResult):
            raise ConsentDenied(
                "The server requires a visit to an address. You did not visit it, or cancelled, "
                "so the call was not repeated."
            )
        return False
