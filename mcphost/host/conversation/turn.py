"""One turn: the model answers and calls tools until it is done, is stopped, or reaches a limit.

A turn consists of rounds; a round is one model response with the tool calls that it contains.
"""

import secrets
import time
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import anyio

from mcphost.errors import ModelError
from mcphost.host.active_conversation import CallContext
from mcphost.host.budget.budget_check import BudgetCheck, PreparedRequest
from mcphost.host.budget.spending import SpendingTracker
from mcphost.host.consent.auto_approve import AutoApproval
from mcphost.host.conversation.background_results import BackgroundResults
from mcphost.host.conversation.compaction import Compactor
from mcphost.host.conversation.instructions import Instructions
from mcphost.host.conversation.model_request import ModelRequestBuilder
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.events import (
    MessageFinished,
    ModelRetrying,
    RoundStarted,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    UserMessageAdded,
)
from mcphost.host.message_text import clean_parts
from mcphost.host.page_contexts import PageContexts
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import ContinueTurn
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.tools.call_pipeline import ToolPipeline
from mcphost.host.tools.call_scheduler import CallRound, CallScheduler
from mcphost.host.tools.hooks import ToolHooks
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.tools.tool_outcome import ToolCallOutcome
from mcphost.llm import model as llm
from mcphost.llm.messages import Message, Part, TextPart, ThinkingPart, ToolUsePart
from mcphost.pluralize import pluralize
from mcphost.sanitize import sanitize_line

if TYPE_CHECKING:
    from mcphost.host.conversation.title_writer import TitleWriter
    from mcphost.host.lifetime import Lazy

DRAFT_SECONDS = 1.0
MAX_INVALID_ROUNDS = 3
MAX_ANSWER_CHARS = 1_000_000
_UNFINISHED = {
    "length": ("The model reached its token limit: the answer is incomplete.", "Ask it to continue."),
    "content_filter": ("The provider's content filter stopped the answer.", "Rephrase it, or choose another model."),
    "malformed_call": (
        "The model called a tool in a form that its provider does not accept.",
        "Send it again, or choose another model.",
    ),
    "lost_call": (
        "The provider sent a tool call that cannot be read; no tool was run.",
        "Send it again, or choose another model.",
    ),
    "unknown": ("The answer was cut off: its end marker is missing.", "Ask it to continue."),
}
_EMPTY_ANSWER = ("The model's answer was cut off before any text arrived.", "Send it again.")


class AnswerCutOff(ModelError):
    """Raised when the model's answer is incomplete; the part received so far is saved."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint, model_kind="network")


class StreamedAnswer:
    """A model's answer that is being received, chunk by chunk."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._texts: list[list[str]] = []
        self._kinds: list[str] = []
        self._replay = ""
        self.tool_uses: list[ToolUsePart] = []
        self.chars = 0
        self.finish = llm.StreamFinished()

    def add(self, kind: str, text: str, replay: str = "") -> None:
        """Add a chunk of the answer; *kind* is "text" or "thinking".

        *replay* is data from the provider that must be sent back together with the thinking.
        """
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
        """Build a message from everything received so far; if *cut* is true, it is marked as incomplete."""
        parts: list[Part] = []
        replay = self._replay  # only in the first part: a copy in each of thousands of parts would be too large
        for kind, pieces in zip(self._kinds, self._texts, strict=True):
            if kind == "text":
                parts.append(TextPart("".join(pieces)))
            else:
                parts.append(ThinkingPart("".join(pieces), replay))
                replay = ""
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
        """Whether nothing has been received yet."""
        return not self._kinds and not self.tool_uses


class TurnParts(NamedTuple):
    """Parts of the host that a turn uses.

    `frontend` asks the user whether to continue after `limits.max_rounds` rounds of tool calls.
    """

    requests: ModelRequestBuilder
    instructions: Instructions
    hooks: ToolHooks
    budget: BudgetCheck
    spending: SpendingTracker
    tool_pipeline: ToolPipeline
    scheduler: CallScheduler
    auto_approval: AutoApproval
    reviewer: ResultReviewer
    compactor: Compactor
    title_writer: "Lazy[TitleWriter]"
    """Writer of titles for new conversations, used only with the setting `[titles] mode = "model"`."""

    background: BackgroundResults
    events: EventBus
    frontend: Frontend
    settings: RuntimeSettings


class Turn:
    """One turn; if it is cancelled, the model's response stream is closed and the incomplete answer is saved."""

    def __init__(
        self,
        number: int,
        *,
        model: llm.ChatModel,
        conversation: Conversation,
        parts: TurnParts,
        page_contexts: PageContexts,
        steering: list[tuple[Part, ...]] | None = None,
    ) -> None:
        """Create a turn; messages appended to *steering* while it runs are sent with the next tool results.

        Each message in *steering* is a tuple of the parts of a user message, whose attachments have not been reviewed
        yet. *page_contexts* are the contexts of open pages; those that have not been sent yet are sent with the next
        message from *steering*.

        *number* identifies the turn in events. In questions to the user, a different number is shown: the position of
        the turn in the conversation.
        """
        self._number = number
        self._id = secrets.token_hex(6)
        self._model = model
        self._conversation = conversation
        self._tool_pipeline, self._scheduler = parts.tool_pipeline, parts.scheduler
        self._reviewer = parts.reviewer
        self._budget, self._spending = parts.budget, parts.spending
        self._requests = parts.requests
        self._compactor = parts.compactor
        self._events, self._frontend = parts.events, parts.frontend
        self._settings = parts.settings
        self._auto_approval = parts.auto_approval
        self._steering = steering if steering is not None else []
        self._page_contexts = page_contexts
        self.usage = llm.Usage()
        self.declined = 0
        self.text = ""

    @cached_property
    def _ordinal(self) -> int:
        """The number of the turn within the conversation, starting at 1.

        Computed only when needed, because it is found by examining every message.
        """
        return max(1, sum(message.is_typed or message.is_automatic for message in self._conversation.messages))

    async def run(self) -> Literal["done", "rounds"]:
        """Request model responses and run their tool calls until a response contains no tool call; return "done".

        When the maximum number of rounds is reached, the user is asked whether to continue, unless auto-approve mode is
        on. If the user ends the turn, "rounds" is returned. Raises ModelError if the model fails or repeatedly makes
        invalid calls; an incomplete response is saved and marked as cut off. Raises BudgetReached before a request that
        the budget does not allow.
        """
        rounds = invalid_rounds = 0
        allowed = self._settings.limits.max_rounds
        while True:
            if rounds >= allowed:
                used = pluralize(rounds, "round")
                question = ContinueTurn(server="", why=f"turn {self._ordinal} used {used} of tool calls", rounds=rounds)
                if not self._auto_approval.can_continue() and not await self._frontend.ask(question):
                    return "rounds"
                allowed += self._settings.limits.max_rounds
            rounds += 1
            answer = await self._round(rounds)
            if not answer.tool_uses:
                self.text = answer.text
                return "done"
            outcomes = await self._call_all(answer.tool_uses)
            self.declined += sum(outcome.is_declined for outcome in outcomes)
            invalid_rounds = invalid_rounds + 1 if all(outcome.is_invalid for outcome in outcomes) else 0
            if invalid_rounds == MAX_INVALID_ROUNDS:
                raise ModelError(
                    f"The model made {MAX_INVALID_ROUNDS} rounds of tool calls that could not be run.",
                    "Rephrase it, or choose another model.",
                )
            while self._steering:
                await self._add_message(self._steering.pop(0))

    async def _add_message(self, given: tuple[Part, ...]) -> None:
        """Add a user message with the parts *given*.

        Attachments from a server with `review_results` are first reviewed by the user.
        """
        with self._page_contexts.take(given) as contexts:
            attached = (*given[:-1], *contexts, *given[-1:])  # the text stays the last part
            parts = await clean_parts(await self._reviewer.review_attachments(attached))
            message = await self._conversation.append(Message(role="user", parts=parts), self._model.name)
        self._events.publish(UserMessageAdded(self._number, message))

    async def _round(self, number: int) -> Message:
        prepared = await self._prepare()
        model = prepared.model
        self._events.publish(RoundStarted(self._number, number, model.name, model.label, prepared.entry.shares))
        answer = StreamedAnswer(model.name)
        try:
            try:
                await self._stream(prepared, answer)
            except ModelError as error:
                await self._send_shorter(prepared, answer, error)
            self._check_complete(answer)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                if not answer.is_empty:
                    message = await self._save_answer(answer, cut=True)
                    self.text = message.text if isinstance(error, ModelError) else ""
                    if message.tool_uses:
                        unsent = CallRound(message.tool_uses, has_failed=isinstance(error, Exception))
                        await self._conversation.append(_make_results(unsent.list_outcomes()), self._model.name)
            raise
        return await self._save_answer(answer, cut=False)

    def _check_complete(self, answer: StreamedAnswer) -> None:
        """Raise AnswerCutOff if the answer is incomplete, after discarding the tool calls in it."""
        if answer.finish.reason not in _UNFINISHED:
            return
        answer.tool_uses.clear()
        if answer.is_empty:
            self._count_usage(answer.finish.usage)
        is_lost = answer.is_empty and answer.finish.reason == "unknown"
        raise AnswerCutOff(*(_EMPTY_ANSWER if is_lost else _UNFINISHED[answer.finish.reason]))

    async def _prepare(self) -> PreparedRequest:
        """Build a request within the budget; if it would nearly fill the context window, summarize messages first."""
        prepared = await self._budget.prepare(self._conversation, self._id, self._model)
        usage = self.usage
        if await self._compact_if_needed(prepared.request) or self.usage != usage:  # a summary costs, even if it failed
            prepared = await self._budget.prepare(self._conversation, self._id, self._model)
        self._model = prepared.model
        return prepared

    async def _compact_if_needed(self, request: llm.ModelRequest, overflow: ModelError | None = None) -> bool:
        is_changed, usage = await self._compactor.compact_if_needed(request, overflow, turn=self._id)
        self._count_usage(usage)
        return is_changed

    async def _send_shorter(self, prepared: PreparedRequest, answer: StreamedAnswer, error: ModelError) -> None:
        """Send a request again with shortened results and, if it is still too long, with a summary.

        *error* is the error of the first attempt. That error is raised again if the request was not too long for the
        model or cannot be made shorter. The model's response is added to *answer*.
        """
        if not _is_too_long(error, answer):
            raise error
        if self._requests.shorten(self._conversation, prepared.request):
            prepared = await self._prepare()
            try:
                await self._stream(prepared, answer)
            except ModelError as again:
                if not _is_too_long(again, answer):
                    raise
                error = again
            else:
                return
        if not await self._compact_if_needed(prepared.request, error):
            raise self._compactor.explain_overflow(prepared.request, error) from error
        await self._stream(await self._prepare(), answer)

    async def _stream(self, prepared: PreparedRequest, answer: StreamedAnswer) -> None:
        """Send a request, and add each chunk of the model's response to *answer*."""
        drafted = time.monotonic()
        async with (
            self._spending.track(prepared.entry, self._model) as spending,
            self._model.stream(prepared.request) as events,
        ):
            async for event in events:
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
                    case llm.ToolsRefused() | llm.ToolSimplified() | llm.ToolQuarantined():
                        self._report_refusal(event)
                    case llm.StreamFinished():
                        answer.finish = event
                        spending.usage = event.usage
                    case _:
                        pass
                spending.received_characters = answer.chars
                if answer.chars > MAX_ANSWER_CHARS:
                    raise ModelError(
                        f"The model's answer is longer than {MAX_ANSWER_CHARS:,} characters and was cut.",
                        "Ask for less at once.",
                    )
                if time.monotonic() - drafted > DRAFT_SECONDS:
                    await self._conversation.save_draft(answer.build_message(cut=True))
                    drafted = time.monotonic()

    def _report_refusal(self, event: llm.ToolsRefused | llm.ToolSimplified | llm.ToolQuarantined) -> None:
        match event:
            case llm.ToolsRefused():
                self._events.notify("warning", *_describe_tools_refused(self._model.name, event))
            case llm.ToolSimplified():
                self._events.notify("info", *_describe_simplified(self._model.name, event))
            case llm.ToolQuarantined():
                self._events.notify("warning", *_describe_quarantine(self._model.name, event))

    async def _save_answer(self, answer: StreamedAnswer, *, cut: bool) -> Message:
        message = await self._conversation.append(answer.build_message(cut=cut), self._model.name)
        self._count_usage(answer.finish.usage)
        self._events.publish(MessageFinished(self._number, message, answer.finish.usage))
        return message

    def _count_usage(self, usage: llm.Usage) -> None:
        self.usage = self.usage + usage
        self._auto_approval.count_usage(usage)

    async def _call_all(self, uses: tuple[ToolUsePart, ...]) -> list[ToolCallOutcome]:
        context = CallContext(self._conversation, self._conversation.messages.snapshot())
        calls, why = CallRound(uses), f"the model asked for it in turn {self._ordinal}"
        try:
            async with anyio.create_task_group() as tasks:
                for place, use in enumerate(uses):
                    run = partial(self._tool_pipeline.run, use, why)
                    tasks.start_soon(self._scheduler.run, calls, place, context, run)
        finally:
            # Every call gets a result, even a stopped one: providers reject a conversation with an unanswered call.
            outcomes = calls.list_outcomes()
            with anyio.CancelScope(shield=True):
                await self._conversation.append(_make_results(outcomes), self._model.name)
        return outcomes


def _make_results(outcomes: list[ToolCallOutcome]) -> Message:
    return Message(role="tool", parts=tuple(outcome.part for outcome in outcomes))


def _is_too_long(error: ModelError, answer: StreamedAnswer) -> bool:
    return error.model_kind == "context" and answer.is_empty


def _quote_reason(reason: str) -> str:
    """Return the reason that a provider gave, as one sanitized line that ends with a punctuation mark."""
    shown = sanitize_line(reason, 300)
    return shown if not shown or shown.endswith((".", "!", "?", "…")) else f"{shown}."


def _describe_simplified(model: str, tool: llm.ToolSimplified) -> tuple[str, str]:
    """Return a notice and a hint for the user about a tool whose schema was simplified for the provider."""
    name, reason = sanitize_line(tool.name, 300), _quote_reason(tool.reason)
    return (
        f"{model} rejected the schema of the tool {name} and gets a simpler one. The provider said: {reason}",
        "Arguments are still checked against the server's own schema.",
    )


def _describe_quarantine(model: str, tool: llm.ToolQuarantined) -> tuple[str, str]:
    """Return a notice and a hint for the user about a tool whose definition the provider rejects.

    The tool is no longer offered to the model.
    """
    name, reason = sanitize_line(tool.name, 300), _quote_reason(tool.reason)
    return (
        f"{model} rejected the definition of the tool {name} and is no longer offered this tool. The "
        f"provider said: {reason}",
        "Report it to the server's author; other models may accept it.",
    )


def _describe_tools_refused(model: str, event: llm.ToolsRefused) -> tuple[str, str]:
    """Return a notice and a hint for the user about a model that does not support tools."""
    said = _quote_reason(event.reason)
    detail = f" The provider said: {said}" if said else ""
    hint = 'To send tools nevertheless: tools = "always" under [model] in config.toml.'
    if event.refused_at:
        day = time.strftime("%Y-%m-%d", time.localtime(event.refused_at))
        detail = f" It refused them on {day}.{detail}"
        hint = "To try them again: Ctrl+R in /models, or: mcphost models --retry-tools"
    return f"{model} does not support tools and answers without them.{detail}", hint
