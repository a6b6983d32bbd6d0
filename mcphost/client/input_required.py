"""The input_required loop of the stateless era: ask, answer everything, send the same call again, within bounds."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from mcphost.client.client_info import WHO_CAN_ANSWER, may_ask
from mcphost.client.session import AskContext, Responder
from mcphost.errors import Declined, MalformedMessage, McpHostError, ServerError, TooManyRounds
from mcphost.protocol.base import is_set
from mcphost.protocol.input_required import INPUT_REQUIRED, InputRequest, InputRequired, input_requests
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.protocol.server_requests import AskDeclined, Reply, asking
from mcphost.serialization import Raw, Wire, decode
from mcphost.transport.throttle import at_leisure

_log = logging.getLogger(__name__)
MAX_ROUNDS = 10
MAX_REQUESTS = 100
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0


class _Kind(Wire, frozen=True):
    result_type: str = ""


def result_type(raw: Raw) -> str:
    """The resultType of a result, "" when it has none. Raises MalformedMessage."""
    return decode(raw, _Kind, "result").result_type


async def rounds(
    raw: Raw, again: Callable[[dict[str, Any]], Awaitable[Raw]], responder: Responder, context: AskContext
) -> Raw:
    """Answer rounds until the result is something else, and return that.

    `again` sends the call with the given further params under a new id. Raises Declined when an ask was declined,
    TooManyRounds after 10 rounds, MalformedMessage for a round that asks nothing.
    """
    wait = _FIRST_WAIT
    for _ in range(MAX_ROUNDS):
        question = decode(raw, InputRequired, "input_required result")
        extra: dict[str, Any] = {}
        wanted = await at_leisure(input_requests(question.input_requests))
        if wanted:
            extra["inputResponses"] = await answers(wanted, responder, context)
        if is_set(question.request_state):
            extra["requestState"] = question.request_state
        if not extra:
            raise MalformedMessage("The server asked for input without saying which.")
        if not wanted:
            await anyio.sleep(wait)  # the server wants to be asked again later
            wait = min(wait * 2, _LONGEST_WAIT)
        raw = await again(extra)
        if result_type(raw) != INPUT_REQUIRED:
            return raw
    raise TooManyRounds(f"The server asked for input {MAX_ROUNDS} times in a row; the call was given up.")


async def answers(wanted: dict[str, InputRequest], responder: Responder, context: AskContext) -> dict[str, Reply]:
    """A reply to every request, asked side by side. Raises Declined, and MalformedMessage for what was not offered."""
    if len(wanted) > MAX_REQUESTS:
        raise MalformedMessage(f"The server asked for {len(wanted)} inputs at once; at most {MAX_REQUESTS} are read.")
    for entry in wanted.values():
        if not may_ask(entry.method, responder.capabilities):
            raise MalformedMessage(
                f"The server asked for {entry.method[:200]!r}, which was not offered to it.", WHO_CAN_ANSWER
            )
    asks = {key: await at_leisure(asking(entry.method, entry.params)) for key, entry in wanted.items()}
    replies: dict[str, Reply] = {}
    failures: list[McpHostError] = []

    async with anyio.create_task_group() as group:

        async def one(key: str) -> None:
            try:
                reply = await responder.answer(asks[key], context)
                if isinstance(reply, AskDeclined):
                    raise _end(reply)
            except McpHostError as error:
                failures.append(error)
                group.cancel_scope.cancel()  # the call is over; nobody needs the other answers
            except Exception:  # noqa: BLE001
                # The boundary between a server's question and whoever answers it, as in client.incoming_requests.
                _log.exception("a question during %s broke", context.method)
                failures.append(ServerError("An answer the server asked for could not be made."))
                group.cancel_scope.cancel()
            else:
                replies[key] = reply

        for key in asks:
            group.start_soon(one, key)
    if failures:
        raise failures[0]
    # One of them may have waited for minutes while another question was open.
    return {key: responder.still(replies[key]) for key in asks}


def _end(reply: AskDeclined) -> McpHostError:
    """This era has no error to send back: the call ends here, as the user's no or as what went wrong."""
    if reply.code == -1:
        return Declined(reply.message)
    if reply.code == INVALID_PARAMS:
        return MalformedMessage(f"The server asked for something that cannot be: {reply.message}")
    return ServerError(reply.message)
