"""One turn: user message, model, tool calls, model again, until done, stopped or out of rounds."""

import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from mcphost.config.schema import Limits
from mcphost.errors import McpHostError, ModelError, UsageError
from mcphost.host.consent.auto_approve import AutoApproval
from mcphost.host.conversation.conversation import Conversation
from mcphost.host.events import (
    EventBus,
    MessageFinished,
    ModelRetrying,
    RoundStarted,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    TurnFinished,
    TurnStarted,
)
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import ContinueTurn
from mcphost.host.tools.pipeline import ToolPipeline
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.tools.tool_outcome import ToolCallOutcome
from mcphost.host.views import TurnResult
from mcphost.llm import model as llm
from mcphost.llm.messages import Message, Part, TextPart, ThinkingPart, ToolUsePart
from mcphost.llm.model import ChatModel
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct

DRAFT_SECONDS = 1.0
MAX_INVALID_ROUNDS = 3
MAX_ANSWER_CHARS = 1_000_000
_UNFINISHED = {
    "length": ("The model stopped at its limit of tokens: the answer is not complete.", "Ask it to go on."),
    "content_filter": ("The provider's filter ended the answer.", "Say it differently, or choose another model."),
    "unknown": ("The answer was cut off: it ended without its end mark.", "Ask it to go on."),
}
_EMPTY_ANSWER = ("The model's answer was cut off before anything came.", "Send it again.")


class AnswerCutOff(ModelError):
    """The stream of an answer ended early; the received part is kept."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint, model_kind="network")


class StreamedAnswer:
    """A model's message while it is streamed."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._texts: list[list[str]] = []
        self._kinds: list[str] = []
        self._replay = ""
        self.tool_uses: list[ToolUsePart] = []
        self.chars = 0
        self.finish = llm.StreamFinished()

    def add(self, kind: str, text: str, replay: str = "") -> None:
        """Add text or thinking."""
        self.chars += len(text)
        self._replay = replay or self._replay
        if not text and kind in self._kinds:
            return
        if self._kinds and self._kinds[-1] == kind:
            self._texts[-1].append(text)
        else:
            self._kinds.append(kind)
            self._texts.append([text])

    def build_message(self, *, cut: bool) -> Message:
        """Return the message so far."""
        parts: list[Part] = []
        for kind, pieces in zip(self._kinds, self._texts, strict=True):
            text = "".join(pieces)
            parts.append(TextPart(text) if kind == "text" else ThinkingPart(text, self._replay))
        return Message(
            role="assistant",
            parts=(*parts, *self.tool_uses),
            at=time.time(),
            model=self._model,
            cut=cut,
            usage=self.finish.usage,
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was received yet."""
        return not self._kinds and not self.tool_uses


class TurnOutcome(Struct, frozen=True):
    """The outcome of a turn."""

    outcome: str
    text: str = ""
    declined: int = 0
    usage: llm.Usage = llm.Usage()


class Turn:
    """One turn; cancelling it closes the model's stream, notifies servers and saves a cut message."""

    def __init__(
        self,
        number: int,
        *,
        model: llm.ChatModel,
        create_request: Callable[[], llm.ModelRequest],
        conversation: Conversation,
        tool_pipeline: ToolPipeline,
        channels: tuple[EventBus, Frontend],
        limits: Limits,
        auto_approval: AutoApproval,
    ) -> None:
        """*create_request* returns the request of the next round with present messages and tools."""
        self._number = number
        self._model = model
        self._conversation = conversation
        self._tool_pipeline = tool_pipeline
        self._create_request = create_request
        self._events, self._frontend = channels
        self._limits = limits
        self._auto_approval = auto_approval
        self.usage = llm.Usage()
        self.declined = 0
        self.text = ""

    async def run(self) -> TurnOutcome:
        """Run all rounds. Raises ModelError; the part received before is kept, marked as cut."""
        rounds = invalid_rounds = 0
        allowed = self._limits.max_rounds
        while True:
            if rounds >= allowed:
                why = f"turn {self._number} used {rounds} rounds of tool calls"
                question = ContinueTurn(server="", why=why, rounds=rounds)
                if not self._auto_approval.can_continue() and not await self._frontend.ask(question):
                    return self._make_outcome("rounds")
                allowed += self._limits.max_rounds
            rounds += 1
            answer = await self._round(rounds)
            if not answer.tool_uses:
                self.text = answer.text
                return self._make_outcome("done")
            outcomes = await self._call_all(answer.tool_uses)
            self.declined += sum(outcome.is_declined for outcome in outcomes)
            invalid_rounds = invalid_rounds + 1 if all(outcome.is_invalid for outcome in outcomes) else 0
            if invalid_rounds == MAX_INVALID_ROUNDS:
                raise ModelError(
                    f"The model made {MAX_INVALID_ROUNDS} rounds of tool calls that could not be run.",
                    "Say it differently, or choose another model.",
                )

    def _make_outcome(self, outcome: str) -> TurnOutcome:
        return TurnOutcome(outcome, self.text, self.declined, self.usage)

    async def _round(self, number: int) -> Message:
        model = self._model
        self._events.publish(RoundStarted(self._number, number, model.name, model.label))
        answer = StreamedAnswer(model.name)
        try:
            await self._stream(self._create_request(), answer)
            self._check_complete(answer)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                if not answer.is_empty:
                    message = await self._save_answer(answer, cut=True)
                    self.text = message.text if isinstance(error, ModelError) else ""
                    await self._return_stopped(message)
            raise
        return await self._save_answer(answer, cut=False)

    def _check_complete(self, answer: StreamedAnswer) -> None:
        """Raise AnswerCutOff for an incomplete answer; its calls, which may be incomplete, are dropped."""
        if answer.finish.reason not in _UNFINISHED:
            return
        answer.tool_uses.clear()
        if answer.is_empty:
            self._count_usage(answer.finish.usage)
        is_lost = answer.is_empty and answer.finish.reason == "unknown"
        raise AnswerCutOff(*(_EMPTY_ANSWER if is_lost else _UNFINISHED[answer.finish.reason]))

    async def _stream(self, request: llm.ModelRequest, answer: StreamedAnswer) -> None:
        drafted = time.monotonic()
        async with self._model.stream(request) as events:
            async for event in events:
                self._handle_event(event, answer)
                if answer.chars > MAX_ANSWER_CHARS:
                    raise ModelError(
                        f"The model's answer is longer than {MAX_ANSWER_CHARS:,} characters and was cut.",
                        "Ask for less at once.",
                    )
                if time.monotonic() - drafted > DRAFT_SECONDS:
                    await self._conversation.save_draft(answer.build_message(cut=True))
                    drafted = time.monotonic()

    def _handle_event(self, event: llm.ModelEvent, answer: StreamedAnswer) -> None:
        match event:
            case llm.TextDelta():
                answer.add("text", event.text)
                self._events.publish(TextDeltaEvent(self._number, event.text))
            case llm.ThinkingDelta():
                answer.add("thinking", event.text, event.replay)
                if event.text:
                    self._events.publish(ThinkingDeltaEvent(self._number, event.text))
            case llm.ToolUseReady():
                answer.tool_uses.append(event.use)
            case llm.RetryScheduled():
                self._events.publish(ModelRetrying(self._number, event.seconds, event.reason, event.attempt))
            case llm.StreamFinished():
                answer.finish = event
            case _:
                pass

    async def _save_answer(self, answer: StreamedAnswer, *, cut: bool) -> Message:
        message = await self._conversation.append(answer.build_message(cut=cut), self._model.name)
        self._count_usage(answer.finish.usage)
        self._events.publish(MessageFinished(self._number, message, answer.finish.usage))
        return message

    def _count_usage(self, usage: llm.Usage) -> None:
        self.usage = self.usage + usage
        self._auto_approval.count_usage(usage)

    async def _call_all(self, uses: tuple[ToolUsePart, ...]) -> list[ToolCallOutcome]:
        outcomes: dict[str, ToolCallOutcome] = {}

        async def run_call(use: ToolUsePart) -> None:
            outcomes[use.id] = await self._tool_pipeline.run(use, f"the model asked for it in turn {self._number}")

        try:
            async with anyio.create_task_group() as tasks:
                for use in uses:
                    tasks.start_soon(run_call, use)
        finally:
            # Every call gets a result, also when stopped: providers reject a conversation with an open call.
            parts = tuple(
                outcomes[use.id].part if use.id in outcomes else self._tool_pipeline.make_stopped_return(use)
                for use in uses
            )
            with anyio.CancelScope(shield=True):
                await self._conversation.append(Message(role="tool", parts=parts), self._model.name)
        return [outcomes[use.id] for use in uses]

    async def _return_stopped(self, message: Message) -> None:
        if message.tool_uses:
            parts = tuple(self._tool_pipeline.make_stopped_return(use) for use in message.tool_uses)
            await self._conversation.append(Message(role="tool", parts=parts), self._model.name)


_log = logging.getLogger(__name__)


class TurnQueue:
    """Runner of at most one turn at a time in the host's task group.

    `create_turn` creates a turn from a number and a model; `conversation` returns the open conversation.
    """

    def __init__(
        self,
        create_turn: Callable[[int, ChatModel], Turn],
        conversation: Callable[[], Conversation],
        model_selection: ModelSelection,
        events: EventBus,
        reviewer: ResultReviewer,
        wait_for_servers: Callable[[], Awaitable[None]],
    ) -> None:
        """*wait_for_servers* is awaited before the first round, after the message is shown."""
        self._wait_for_servers = wait_for_servers
        self._reviewer = reviewer
        self._create_turn = create_turn
        self._conversation = conversation
        self._model_selection = model_selection
        self._events = events
        self._numbers = itertools.count(1)
        self._scope: anyio.CancelScope | None = None
        self._tasks: TaskGroup | None = None

    def set_task_group(self, tasks: TaskGroup) -> None:
        """Set the task group of the turns."""
        self._tasks = tasks

    @property
    def is_running(self) -> bool:
        """Whether a turn is running."""
        return self._scope is not None

    def stop(self) -> bool:
        """Stop the running turn; return False if there is none."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    async def send(
        self, text: str | None, attachments: Sequence[Part], load_toggles: Callable[[], Awaitable[None]]
    ) -> TurnResult:
        """Run a turn, see Host.send; without a text, ask the model again with the present conversation.

        *load_toggles* is awaited in the turn, before the model is asked.
        """
        if self._scope is not None:
            raise UsageError("A turn is running.", "Wait for it, or stop it first.")
        if self._tasks is None:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        done = anyio.Event()
        results: list[TurnResult] = []
        self._scope = anyio.CancelScope()

        async def work() -> None:
            try:
                reviewed = await self._prepare_attachments(attachments, load_toggles)
                results.append(await self._run(self._scope or anyio.CancelScope(), text, reviewed))
            finally:
                self._scope = None
                done.set()

        # The turn belongs to the host, so that it ends in order even if the frontend ends first.
        self._tasks.start_soon(work, name="turn")
        try:
            await done.wait()
        except BaseException:
            self.stop()
            raise
        return results[0] if results else TurnResult("stopped", "")

    async def _prepare_attachments(
        self, attachments: Sequence[Part], load_toggles: Callable[[], Awaitable[None]]
    ) -> Sequence[Part]:
        """Return the reviewed attachments; a stop during the review withholds them and skips the model."""
        scope = self._scope or anyio.CancelScope()
        with scope:
            await load_toggles()
            return await self._reviewer.review_attachments(attachments)
        self._scope = anyio.CancelScope()
        self._scope.cancel()
        return self._reviewer.withhold_attachments(attachments)

    async def _run(self, scope: anyio.CancelScope, text: str | None, attachments: Sequence[Part]) -> TurnResult:
        number = next(self._numbers)
        model = self._model_selection.model
        if text is None:
            user_messages = [message for message in self._conversation().messages if message.role == "user"]
            message = user_messages[-1] if user_messages else Message(role="user", parts=())
        else:
            message = Message(role="user", parts=(*attachments, TextPart(replace_surrogates(text))))
            message = await self._conversation().append(message, model.name if model else "")
        self._events.publish(TurnStarted(number, message, again=text is None))
        if model is None:
            return self._fail(
                number, ModelError("No model is chosen.", "Start with --model PROVIDER/MODEL, or try: mcphost demo"), 3
            )
        turn = self._create_turn(number, model)
        outcome = TurnOutcome("stopped")
        try:
            with scope:
                await anyio.lowlevel.checkpoint()  # a stop before the start skips the model
                await self._wait_for_servers()
                outcome = await turn.run()
        except McpHostError as error:
            return self._fail(number, error, error.exit_code, turn)
        except Exception as error:  # noqa: BLE001
            # The boundary of a turn: a bug must not end the conversation.
            _log.exception("turn %d", number)
            known_error = next(
                (inner for inner in getattr(error, "exceptions", ()) if isinstance(inner, McpHostError)), None
            )
            host_error = known_error or McpHostError(f"mcphost crashed: {error!r}.", "See the log for details.")
            return self._fail(number, host_error, host_error.exit_code, turn)
        self._events.publish(TurnFinished(number, outcome.outcome, turn.usage))  # pyright: ignore[reportArgumentType]
        code = 5 if turn.declined else 7 if outcome.outcome == "rounds" else 0
        return TurnResult(outcome.outcome, turn.text, turn.declined, exit_code=code)

    def _fail(self, number: int, error: McpHostError, exit_code: int, turn: Turn | None = None) -> TurnResult:
        text, declined = (turn.text, turn.declined) if turn else ("", 0)
        if turn:
            self._events.publish(TurnFinished(number, "failed", turn.usage, error.message, error.hint))
        else:
            self._events.publish(TurnFinished(number, "failed", error=error.message, hint=error.hint))
        return TurnResult("failed", text, declined, error.message, error.hint, exit_code)
