"""User message, model, tool calls, model again, until it is done, stopped or out of rounds."""

import time
from collections.abc import Callable

import anyio

from mcphost.config.schema import Limits
from mcphost.errors import ModelError
from mcphost.host.consent.auto_approve import Autonomy
from mcphost.host.conversation.conversation import Conversation
from mcphost.host.event_queue import Feeds
from mcphost.host.events import MessageFinished, ModelRetrying, RoundStarted, TextDelta, ThinkingDelta
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.questions import ContinueTurn
from mcphost.host.tools.pipeline import ToolCalls
from mcphost.host.tools.tool_outcome import Called
from mcphost.llm import model as llm
from mcphost.llm.messages import Message, Part, TextPart, ThinkingPart, ToolUsePart
from mcphost.serialization import Data

DRAFT_SECONDS = 1.0
BAD_ROUNDS = 3
MAX_ANSWER_CHARS = 1_000_000
_UNFINISHED = {
    "length": ("The model stopped at its limit of tokens: the answer is not complete.", "Ask it to go on."),
    "content_filter": ("The provider's filter ended the answer.", "Say it differently, or choose another model."),
    "unknown": ("The answer was cut off: it ended without its end mark.", "Ask it to go on."),
}
_NOTHING_CAME = ("The model's answer was cut off before anything came.", "Send it again.")


class AnswerCutOff(ModelError):
    """The stream of an answer ended before the answer was complete; what came is kept."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint, model_kind="network")


class Answer:
    """A model's message while it streams in."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._pieces: list[list[str]] = []
        self._kinds: list[str] = []
        self._replay = ""
        self.uses: list[ToolUsePart] = []
        self.chars = 0
        self.finished = llm.Finished()

    def add(self, kind: str, text: str, replay: str = "") -> None:
        """More text or thinking."""
        self.chars += len(text)
        self._replay = replay or self._replay
        if not text and kind in self._kinds:
            return
        if self._kinds and self._kinds[-1] == kind:
            self._pieces[-1].append(text)
        else:
            self._kinds.append(kind)
            self._pieces.append([text])

    def message(self, *, cut: bool) -> Message:
        """The message so far."""
        parts: list[Part] = []
        for kind, pieces in zip(self._kinds, self._pieces, strict=True):
            text = "".join(pieces)
            parts.append(TextPart(text) if kind == "text" else ThinkingPart(text, self._replay))
        return Message(
            role="assistant",
            parts=(*parts, *self.uses),
            at=time.time(),
            model=self._model,
            cut=cut,
            usage=self.finished.usage,
        )

    @property
    def empty(self) -> bool:
        """Whether nothing came yet."""
        return not self._kinds and not self.uses


class Ended(Data, frozen=True):
    """How a turn ended."""

    outcome: str
    text: str = ""
    declined: int = 0
    usage: llm.Usage = llm.Usage()


class Turn:
    """One turn. Cancelling it closes the model's stream, tells the servers, and leaves a cut message behind."""

    def __init__(
        self,
        number: int,
        *,
        model: llm.ChatModel,
        request: Callable[[], llm.ModelRequest],
        conversation: Conversation,
        calls: ToolCalls,
        telling: tuple[Feeds, Front],
        limits: Limits,
        autonomy: Autonomy,
    ) -> None:
        """`request` gives what the model is asked in the next round: messages so far, tools of this moment."""
        self._number = number
        self._model = model
        self._conversation = conversation
        self._calls = calls
        self._request = request
        self._feeds, self._front = telling
        self._limits = limits
        self._autonomy = autonomy
        self.usage = llm.Usage()
        self.declined = 0
        self.text = ""

    async def run(self) -> Ended:
        """All rounds. Raises ModelError; what arrived before it is kept and marked as cut."""
        rounds = bad = 0
        allowed = self._limits.max_rounds
        while True:
            if rounds >= allowed:
                why = f"turn {self._number} used {rounds} rounds of tool calls"
                question = ContinueTurn(server="", why=why, rounds=rounds)
                if not self._autonomy.goes_on() and not await self._front.ask(question):
                    return self._ended("rounds")
                allowed += self._limits.max_rounds
            rounds += 1
            answer = await self._round(rounds)
            if not answer.tool_uses:
                self.text = answer.text
                return self._ended("done")
            called = await self._call_all(answer.tool_uses)
            self.declined += sum(one.declined for one in called)
            bad = bad + 1 if all(one.bad for one in called) else 0
            if bad == BAD_ROUNDS:
                raise ModelError(
                    f"The model made {BAD_ROUNDS} rounds of tool calls that could not be run.",
                    "Say it differently, or choose another model.",
                )

    def _ended(self, outcome: str) -> Ended:
        return Ended(outcome, self.text, self.declined, self.usage)

    async def _round(self, number: int) -> Message:
        model = self._model
        self._feeds.put(RoundStarted(self._number, number, model.name, model.label))
        answer = Answer(model.name)
        try:
            await self._stream(self._request(), answer)
            self._check_complete(answer)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                if not answer.empty:
                    message = await self._keep(answer, cut=True)
                    self.text = message.text if isinstance(error, ModelError) else ""
                    await self._return_stopped(message)
            raise
        return await self._keep(answer, cut=False)

    def _check_complete(self, answer: Answer) -> None:
        """Raise AnswerCutOff for an answer that is not complete; its calls, which may be cut as well, are dropped."""
        if answer.finished.reason not in _UNFINISHED:
            return
        answer.uses.clear()
        if answer.empty:
            self._count(answer.finished.usage)
        cut_at_once = answer.empty and answer.finished.reason == "unknown"
        raise AnswerCutOff(*(_NOTHING_CAME if cut_at_once else _UNFINISHED[answer.finished.reason]))

    async def _stream(self, request: llm.ModelRequest, answer: Answer) -> None:
        drafted = time.monotonic()
        async with self._model.stream(request) as events:
            async for event in events:
                self._take(event, answer)
                if answer.chars > MAX_ANSWER_CHARS:
                    raise ModelError(
                        f"The model's answer is longer than {MAX_ANSWER_CHARS:,} characters and was cut.",
                        "Ask for less at once.",
                    )
                if time.monotonic() - drafted > DRAFT_SECONDS:
                    await self._conversation.draft(answer.message(cut=True))
                    drafted = time.monotonic()

    def _take(self, event: llm.ModelEvent, answer: Answer) -> None:
        match event:
            case llm.TextDelta():
                answer.add("text", event.text)
                self._feeds.put(TextDelta(self._number, event.text))
            case llm.ThinkingDelta():
                answer.add("thinking", event.text, event.replay)
                if event.text:
                    self._feeds.put(ThinkingDelta(self._number, event.text))
            case llm.ToolUseReady():
                answer.uses.append(event.use)
            case llm.Retrying():
                self._feeds.put(ModelRetrying(self._number, event.seconds, event.reason, event.attempt))
            case llm.Finished():
                answer.finished = event
            case _:
                pass

    async def _keep(self, answer: Answer, *, cut: bool) -> Message:
        message = await self._conversation.append(answer.message(cut=cut), self._model.name)
        self._count(answer.finished.usage)
        self._feeds.put(MessageFinished(self._number, message, answer.finished.usage))
        return message

    def _count(self, usage: llm.Usage) -> None:
        self.usage = self.usage + usage
        self._autonomy.spent(usage)

    async def _call_all(self, uses: tuple[ToolUsePart, ...]) -> list[Called]:
        done: dict[str, Called] = {}

        async def one(use: ToolUsePart) -> None:
            done[use.id] = await self._calls.run(use, f"the model asked for it in turn {self._number}")

        try:
            async with anyio.create_task_group() as tasks:
                for use in uses:
                    tasks.start_soon(one, use)
        finally:
            # Every use gets its return, also when stopped: providers refuse a conversation with an open call.
            parts = tuple(done[use.id].part if use.id in done else self._calls.stopped(use) for use in uses)
            with anyio.CancelScope(shield=True):
                await self._conversation.append(Message(role="tool", parts=parts), self._model.name)
        return [done[use.id] for use in uses]

    async def _return_stopped(self, message: Message) -> None:
        if message.tool_uses:
            parts = tuple(self._calls.stopped(use) for use in message.tool_uses)
            await self._conversation.append(Message(role="tool", parts=parts), self._model.name)
