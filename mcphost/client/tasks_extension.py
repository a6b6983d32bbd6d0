"""Tool calls that run as tasks of the extension (SEP-2663), with input requests in the task's state."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from mcphost.client.input_required import answer_input_requests
from mcphost.client.requests import RequestSender
from mcphost.client.session import RequestHandler, ServerRequestContext
from mcphost.client.tasks import SendFn, TaskPoller
from mcphost.errors import MalformedMessage, McpHostError, RequestRefused, ServerError, TooManyInputRounds
from mcphost.protocol.base import is_set
from mcphost.protocol.input_required import (
    InputRequest,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    parse_input_requests,
)
from mcphost.protocol.jsonrpc import ErrorData, JsonRpcMessage, JsonRpcNotification
from mcphost.protocol.tasks import CANCELLED, COMPLETED, EXTENSION_NOTIFICATION, INPUT_REQUIRED, Task, UpdateTask
from mcphost.serialization import Raw, decode, replace
from mcphost.transport.task_group import CancellingTaskGroup
from mcphost.transport.throttle import run_steps_cooperatively

MessageStream = AbstractAsyncContextManager[AsyncIterator[JsonRpcMessage]]
MAX_INPUT_KEYS = 100
MIN_STREAM_POLL_SECONDS = 1.0


async def listen_for_updates(poller: TaskPoller, open_stream: Callable[[SubscriptionFilter], MessageStream]) -> None:
    """Receive state changes as they happen, if the server announces them; polling continues either way."""
    try:
        async with open_stream(SubscriptionFilter(task_ids=(poller.task_id,))) as messages:
            async for message in messages:
                if not isinstance(message, JsonRpcNotification):
                    return  # refused or ended
                if message.method == EXTENSION_NOTIFICATION:
                    poller.update(decode(message.params, Task, EXTENSION_NOTIFICATION))
                elif message.method == SubscriptionsAcknowledgedNotification.METHOD:
                    granted = decode(
                        message.params, SubscriptionsAcknowledgedNotification, message.method
                    ).notifications
                    if granted is None or poller.task_id not in granted.task_ids:
                        return
    except ServerError:
        return  # polling continues


async def run_extension_task(
    poller: TaskPoller,
    send: SendFn,
    handler: RequestHandler,
    sender: RequestSender,
    open_stream: Callable[[SubscriptionFilter], MessageStream] | None = None,
) -> Raw:
    """Return an extension task's result (SEP-2663) as JSON; *handler* answers each input request once.

    *open_stream* opens a subscription, for tasks with a poll interval long enough to be worth one. Raises
    RequestRefused for a task that failed or was cancelled, ConsentDenied, TooManyInputRounds, and the errors of
    `TaskPoller`.
    """
    context = ServerRequestContext("tools/call", poller.tool, poller.context.call_number)
    seen: set[str] = set()
    failures: list[McpHostError] = []
    questions = 0
    poller.is_asking = lambda: questions > 0

    async def respond(wanted: dict[str, InputRequest]) -> None:
        nonlocal questions
        try:
            try:
                replies = await answer_input_requests(wanted, handler, context)
            finally:
                questions -= 1
            await send(UpdateTask(poller.task_id, replies))
            poller.poll_soon()
        except McpHostError as error:
            failures.append(poller.unknown_task_error(error) if isinstance(error, RequestRefused) else error)
            poller.wake()

    async with CancellingTaskGroup() as group:
        if open_stream is not None and (poller.task.poll_seconds or 0) >= MIN_STREAM_POLL_SECONDS:
            group.start_soon(listen_for_updates, poller, open_stream)
        while not (poller.task.is_terminal and _has_result(poller.task)):
            if poller.task.is_terminal:
                await poller.poll()  # the creation response has only the status
                break
            # Requests stay listed until their answers arrive, so each key is handled once.
            fresh = await _new_input_requests(poller.task, seen)
            if fresh:
                seen.update(fresh)
                if len(seen) > MAX_INPUT_KEYS:
                    raise TooManyInputRounds(
                        f"The task of {poller.tool!r} asked for more than {MAX_INPUT_KEYS} inputs; it was cancelled.",
                        server=poller.server,
                    )
                questions += 1
                group.start_soon(respond, fresh)
            await poller.step()
            if failures:
                raise failures[0]
    return _task_result(poller, sender)


async def _new_input_requests(task: Task, seen: set[str]) -> dict[str, InputRequest]:
    if task.status != INPUT_REQUIRED:
        return {}
    requests = await run_steps_cooperatively(parse_input_requests(task.input_requests))
    return {key: request for key, request in requests.items() if key not in seen}


def _has_result(task: Task) -> bool:
    return task.status == CANCELLED or is_set(task.result if task.status == COMPLETED else task.error)


def _task_result(poller: TaskPoller, sender: RequestSender) -> Raw:
    task = poller.task
    if task.status == CANCELLED:
        raise poller.cancelled_error()
    if not _has_result(task):
        raise MalformedMessage(
            f"The server {poller.server!r} says that the task of {poller.tool!r} is {task.status}, "
            "and gives neither result nor error.",
            server=poller.server,
        )
    if task.status == COMPLETED:
        return task.result
    raise poller.failed_error(sender.to_exception(decode(task.error, ErrorData, "error of a task"), "tools/call"))


def parse_created_task(raw: Raw) -> Task:
    """Return the task in a result of type `task`, without members of later states."""
    task = decode(raw, Task, "result of tools/call")
    return replace(task, result=Raw(), error=Raw(), input_requests=Raw())
