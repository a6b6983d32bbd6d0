"""Scheduler that runs the model's tool calls, and limits how many calls by the model and by pages run at a time.

A call runs as a task of the host while its turn waits for it. If the user sends it to the background, the turn
continues with a placeholder result. The real result follows in a later message; a call that is still running when
the host closes is cancelled.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar

import anyio

from mcphost.errors import UsageError
from mcphost.host.active_conversation import CallContext, call_context
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ToolBackgrounded
from mcphost.host.lifetime import Lifetime
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.tools.tool_outcome import UNSENT_TEXT, ToolCallOutcome, make_tool_return
from mcphost.llm.messages import Outcome, ToolReturnPart, ToolUsePart
from mcphost.serialization import replace

MAX_BACKGROUND_CALLS = 8
BACKGROUND_TEXT = (
    "The user sent this call to the background. It is still running. Its result will arrive later, in a separate "
    "message that names the call {id}. Continue without the result, and do not repeat the call."
)
STOPPED_TEXT = "The user stopped this call before its result arrived."
NEVER_RAN_TEXT = "The user stopped this call before it started; the tool did not run."
STOPPED_AFTER_RUN_TEXT = "The call ran, but the user stopped before you received its result."
_ERROR_TEXT = "An error ended the turn before the result of this call arrived. The tool may have run."
_ERROR_UNSENT_TEXT = "An error ended the turn before this call started; the tool did not run."
_ERROR_AFTER_RUN_TEXT = "The call ran, but an error ended the turn before you received its result."
_CRASHED_TEXT = "The call failed in mcphost. The tool may have run."
_CRASHED_UNSENT_TEXT = "The call failed in mcphost. The tool did not run."
_log = logging.getLogger(__name__)

RunCall = Callable[[], Awaitable[ToolCallOutcome]]


class CallRound:
    """The tool calls in one response of the model, and their outcomes.

    `has_failed` means that the calls were stopped by an error that ended the turn, not by the user.
    """

    def __init__(self, uses: Sequence[ToolUsePart], *, has_failed: bool = False) -> None:
        self.uses = uses
        self.has_failed = has_failed
        self.by_place: dict[int, ToolCallOutcome] = {}
        """The outcome of each call that began, keyed by its index in `uses`; a model may repeat the id of a call."""

    def list_outcomes(self) -> list[ToolCallOutcome]:
        """Return the outcomes in the order of the calls; the result of a call that never began states the reason."""
        return [
            self.by_place.get(at) or ToolCallOutcome(_make_unsent_return(use, "", use.name, is_error=self.has_failed))
            for at, use in enumerate(self.uses)
        ]


class _Call:
    """A tool call by the model.

    `released` is set when the call's turn no longer waits for it, because it has ended or was sent to the background.
    `is_unsent` means that the tool has certainly not run. `has_result` means that it has run, and that its result was
    received.
    """

    def __init__(self, use: ToolUsePart, context: CallContext) -> None:
        self.use, self.context = use, context
        self.server, self.tool = "", use.name
        self.is_unsent = self.has_result = False
        self.scope = anyio.CancelScope()
        self.released, self.done = anyio.Event(), anyio.Event()
        self.outcome: ToolCallOutcome | None = None
        self.error: Exception | None = None
        self.is_in_background = False
        self.slot: object | None = None

    def make_return(self, text: str, outcome: Outcome) -> ToolReturnPart:
        return make_tool_return(self.use, self.server, self.tool, text, outcome=outcome)

    def make_stopped_return(self, *, is_error: bool = False) -> ToolReturnPart:
        """Return the result of a call that was stopped before it had an outcome.

        *is_error* means that an error in the call's turn, not the user, stopped the call.
        """
        if self.is_unsent:
            return _make_unsent_return(self.use, self.server, self.tool, is_error=is_error)
        stopped, after_run = (
            (_ERROR_TEXT, _ERROR_AFTER_RUN_TEXT) if is_error else (STOPPED_TEXT, STOPPED_AFTER_RUN_TEXT)
        )
        return self.make_return(after_run if self.has_result else stopped, "stopped")

    def make_return_without_outcome(self) -> ToolReturnPart:
        if self.error is None:
            return self.make_stopped_return()
        text = _CRASHED_UNSENT_TEXT if self.is_unsent else _CRASHED_TEXT
        return replace(self.make_return(text, "failed"), is_unsent=self.is_unsent)


_current_call: ContextVar[_Call] = ContextVar("current call")
"""The call that the current task runs."""


def mark_result_received() -> None:
    """Record that the tool of the current call has run; called before the user reviews its result.

    If the call is stopped during the review, the model is then told that the tool ran. Does nothing outside of a call
    by the model.
    """
    if (call := _current_call.get(None)) is not None:
        call.has_result, call.is_unsent = True, False


class CallScheduler:
    """Scheduler that runs the model's tool calls, in the foreground or background.

    `on_result` receives the conversation's id and the result of each call that ended in the background, except for
    calls that are cancelled because the host closes.
    """

    def __init__(
        self, lifetime: Lifetime, events: EventBus, running_calls: RunningCalls, settings: RuntimeSettings
    ) -> None:
        self._lifetime = lifetime
        self._events = events
        self._running_calls = running_calls
        self._settings = settings
        self._limiter = anyio.CapacityLimiter(settings.limits.parallel_calls)
        self._calls: list[_Call] = []
        self.on_result: Callable[[str, ToolReturnPart], Awaitable[None]] | None = None

    async def run(self, calls: CallRound, place: int, context: CallContext, run: RunCall) -> None:
        """Execute the call with the index *place* in *calls* by awaiting *run*; its outcome is added to *calls*.

        If the user sends the call to the background, the outcome is a placeholder, and the conversation in *context*
        receives the result later. Cancellation stops the call and waits until it has ended.

        An exception raised by *run* is raised again. The outcome then tells the model that the call failed, and whether
        the tool may have run.
        """
        use = calls.uses[place]
        tasks = self._lifetime.tasks
        if tasks is None:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        call = _Call(use, context)
        self._calls.append(call)
        self._running_calls.reserve_place(use.id)
        tasks.start_soon(self._work, call, run, name=f"call of {use.name}")
        try:
            await call.released.wait()
        except BaseException:
            # This includes a call that was just sent to the background: the turn stores that it was stopped.
            call.is_in_background = False
            call.scope.cancel()
            with anyio.CancelScope(shield=True):
                await call.done.wait()
            calls.by_place[place] = ToolCallOutcome(call.make_stopped_return(is_error=calls.has_failed))
            raise
        if call.is_in_background:
            told = BACKGROUND_TEXT.format(id=use.id)
            calls.by_place[place] = ToolCallOutcome(call.make_return(told, "background"))
        elif call.outcome is None:
            calls.by_place[place] = ToolCallOutcome(call.make_return_without_outcome())
            calls.has_failed = True
            raise call.error or RuntimeError("The call was cancelled, and its turn was not.")
        else:
            calls.by_place[place] = call.outcome

    async def _work(self, call: _Call, run: RunCall) -> None:
        _current_call.set(call)
        call_context.set(call.context)
        try:
            with call.scope:
                call.outcome = await run()
        except Exception as error:  # noqa: BLE001 - raised again in the turn; in the background, reported to the model
            call.error = error
        finally:
            self._calls.remove(call)
            self._running_calls.free_place(call.use.id)
            call.done.set()
            call.released.set()
        if call.is_in_background and self.on_result is not None:
            await self.on_result(call.context.conversation.id, self._late_result(call))

    def _late_result(self, call: _Call) -> ToolReturnPart:
        if call.outcome is not None:
            return call.outcome.part
        if call.error is not None:
            _log.error("call of %r in the background", call.tool, exc_info=call.error)
        return call.make_return_without_outcome()

    def describe_call(self, server: str, tool: str) -> None:
        """Record the server and tool of the current call, which the model is told if the call is stopped.

        This also marks the call as not sent; the mark is removed when the call gets an execution slot.
        """
        call = _current_call.get()
        call.server, call.tool, call.is_unsent = server, tool, True

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Return a context manager that waits for a free execution slot and holds it while the current call runs.

        A call that is sent to the background frees its slot, so that it does not block other calls.
        """
        call = _current_call.get()
        if call.is_in_background:
            yield
            return
        call.slot = slot = object()
        await self._acquire(slot)
        call.is_unsent = False
        try:
            yield
        finally:
            self._release_slot(call)

    @asynccontextmanager
    async def shared_slot(self) -> AsyncGenerator[None]:
        """Return a context manager that waits for a free execution slot and holds it inside the block.

        Use this for a call that the model did not make.
        """
        slot = object()
        await self._acquire(slot)
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(slot)

    async def _acquire(self, slot: object) -> None:
        self._limiter.total_tokens = self._settings.limits.parallel_calls
        await self._limiter.acquire_on_behalf_of(slot)

    def _release_slot(self, call: _Call) -> None:
        slot, call.slot = call.slot, None
        if slot is not None:
            self._limiter.release_on_behalf_of(slot)

    # -- background
    def send_to_background(self, use_id: str) -> None:
        """Let the turn continue without waiting for this tool call.

        Raises UsageError if *use_id* is not a running call by the model, or if too many calls are in the background.
        """
        call = next((one for one in self._calls if one.use.id == use_id and one.slot is not None), None)
        if call is None or not self._running_calls.is_running(use_id):
            raise UsageError(
                "Only a running call of the model can continue in the background.", "Wait until it is running."
            )
        if len(self.background_ids) >= MAX_BACKGROUND_CALLS:
            raise UsageError(
                f"{MAX_BACKGROUND_CALLS} calls are in the background already.", "Wait for one, or cancel it."
            )
        call.is_in_background = True
        self._running_calls.mark_background(use_id)
        self._release_slot(call)
        self._events.publish(ToolBackgrounded(use_id, call.server, call.tool))
        call.released.set()

    @property
    def background_ids(self) -> frozenset[str]:
        """The ids of the tool calls that run in the background."""
        return frozenset(call.use.id for call in self._calls if call.is_in_background)

    def cancel_background(self, conversation: str | None = None) -> bool:
        """Cancel the background calls of *conversation*, or all if it is None; return whether there were any."""
        calls = [one for one in self._calls if one.is_in_background]
        chosen = [one for one in calls if conversation in (None, one.context.conversation.id)]
        for call in chosen:
            call.scope.cancel()
        return bool(chosen)


def _make_unsent_return(use: ToolUsePart, server: str, tool: str, *, is_error: bool) -> ToolReturnPart:
    text = _ERROR_UNSENT_TEXT if is_error else NEVER_RAN_TEXT
    return replace(make_tool_return(use, server, tool, text, outcome="stopped"), is_unsent=True, user_text=UNSENT_TEXT)
