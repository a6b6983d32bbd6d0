"""Tools that run as tasks by the extension (SEP-2663): the server decides, what it asks for is in the task's state."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from mcphost.client.input_required import answers
from mcphost.client.requests import Caller
from mcphost.client.session import AskContext, Responder
from mcphost.client.tasks import Following, Send
from mcphost.errors import MalformedMessage, McpHostError, Refused, ServerError, TooManyRounds
from mcphost.protocol.base import is_set
from mcphost.protocol.input_required import Acknowledged, Filter, InputRequest, input_requests
from mcphost.protocol.jsonrpc import Message, Notification, RpcError
from mcphost.protocol.tasks import ASKS_INPUT, CANCELLED, COMPLETED, EXTENSION_NOTICE, Task, UpdateTask
from mcphost.serialization import Raw, decode, replace
from mcphost.transport.task_group import Tasks
from mcphost.transport.throttle import at_leisure

Stream = AbstractAsyncContextManager[AsyncIterator[Message]]
INPUT_KEYS = 100
WORTH_A_STREAM = 1.0


async def listen(following: Following, open_stream: Callable[[Filter], Stream]) -> None:
    """Hear of the changes as they happen, where the server tells them; polling goes on at its pace either way."""
    try:
        async with open_stream(Filter(task_ids=(following.ident,))) as messages:
            async for message in messages:
                if not isinstance(message, Notification):
                    return  # refused, or over
                if message.method == EXTENSION_NOTICE:
                    following.heard(decode(message.params, Task, EXTENSION_NOTICE))
                elif message.method == Acknowledged.METHOD:
                    granted = decode(message.params, Acknowledged, message.method).notifications
                    if granted is None or following.ident not in granted.task_ids:
                        return
    except ServerError:
        return  # the polls will tell


async def extension_result(
    following: Following,
    send: Send,
    responder: Responder,
    caller: Caller,
    open_stream: Callable[[Filter], Stream] | None = None,
) -> Raw:
    """The result of a task of the extension (SEP-2663), as JSON. What it asks for goes to `responder`, once per key.

    `open_stream` opens a subscription, for tasks that are polled so seldom that it is worth a stream.
    Raises Refused for a task that failed or was cancelled, Declined, TooManyRounds, and what `Following` raises.
    """
    context = AskContext("tools/call", following.tool, following.errand.number)
    seen: set[str] = set()
    failures: list[McpHostError] = []
    questions = 0
    following.is_asking = lambda: questions > 0

    async def respond(wanted: dict[str, InputRequest]) -> None:
        nonlocal questions
        try:
            try:
                replies = await answers(wanted, responder, context)
            finally:
                questions -= 1
            await send(UpdateTask(following.ident, replies))
            following.poll_soon()
        except McpHostError as error:
            failures.append(following.unknown(error) if isinstance(error, Refused) else error)
            following.wake()

    async with Tasks() as group:
        if open_stream is not None and (following.task.pace or 0) >= WORTH_A_STREAM:
            group.start_soon(listen, following, open_stream)
        while not (following.task.is_over and _has_outcome(following.task)):
            if following.task.is_over:
                await following.look()  # its creation says the status only
                break
            # Requests stay listed until their answers arrived, so a key counts once.
            fresh = await _fresh(following.task, seen)
            if fresh:
                seen.update(fresh)
                if len(seen) > INPUT_KEYS:
                    raise TooManyRounds(
                        f"The task of {following.tool!r} asked for more than {INPUT_KEYS} inputs; it was given up.",
                        server=following.server,
                    )
                questions += 1
                group.start_soon(respond, fresh)
            await following.step()
            if failures:
                raise failures[0]
    return _outcome(following, caller)


async def _fresh(task: Task, seen: set[str]) -> dict[str, InputRequest]:
    if task.status != ASKS_INPUT:
        return {}
    wanted = await at_leisure(input_requests(task.input_requests))
    return {key: request for key, request in wanted.items() if key not in seen}


def _has_outcome(task: Task) -> bool:
    return task.status == CANCELLED or is_set(task.result if task.status == COMPLETED else task.error)


def _outcome(following: Following, caller: Caller) -> Raw:
    task = following.task
    if task.status == CANCELLED:
        raise following.cancelled()
    if not _has_outcome(task):
        raise MalformedMessage(
            f"The server {following.server!r} says that the task of {following.tool!r} is {task.status}, "
            "and gives neither result nor error.",
            server=following.server,
        )
    if task.status == COMPLETED:
        return task.result
    raise following.failed(caller.refused(decode(task.error, RpcError, "error of a task"), "tools/call"))


def seed(raw: Raw) -> Task:
    """The task in an answer of kind `task`; what belongs to later states is not read from it."""
    task = decode(raw, Task, "result of tools/call")
    return replace(task, result=Raw(), error=Raw(), input_requests=Raw())
