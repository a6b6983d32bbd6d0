"""Compaction: replacement of the beginning of the open conversation with a summary in model requests.

Compaction is started by the user, or when the context window is nearly full. The messages themselves are kept
in the store.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from mcphost.errors import ModelError, UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.budget.budget_limits import DEFAULT_OUTPUT_TOKENS, BudgetLimits, BudgetReached
from mcphost.host.budget.spending import OpenSpending, SpendingTracker
from mcphost.host.conversation.summarizer import Summarizer, estimate_summary_tokens, write_summary
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.events import CompactionChanged, SummaryProgress
from mcphost.host.message_text import describe_message, shorten_middle
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.compaction import (
    OfferCompaction,
    ReviewCompaction,
    SummarySource,
    UseSummary,
    mark_edited,
    summary_error,
)
from mcphost.host.questions.frontend import Frontend
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.llm.errors import parse_refused_sizes
from mcphost.llm.messages import FilePart, ImagePart, Message, Part, ResourcePart, TextPart, ToolReturnPart, Usage
from mcphost.llm.model import ChatModel, ModelRequest
from mcphost.llm.token_estimate import (
    estimate_message_tokens,
    estimate_part_tokens,
    estimate_request_tokens,
    estimate_text_tokens,
)
from mcphost.pluralize import pluralize
from mcphost.sanitize import sanitize_line
from mcphost.serialization import replace
from mcphost.store.compactions import Compaction, SummarySentence

_MAX_SOURCE_CHARS = 20_000
_MAX_SOURCES_CHARS = 2_000_000
_GROWTH_BEFORE_NEXT_OFFER = 0.05
SEND_LESS = "Send less of it, or choose a model with a larger context window: /model."
_MAX_NAME = 200


def find_cut(conversation: Conversation, keep: int) -> int:
    """Return how many messages at the beginning of a conversation can be summarized.

    Returns 0 if there is nothing more to summarize. At least *keep* messages are left after the summarized ones,
    and the first of these is a user message. A tool call and its result are never separated, and unsaved messages
    are not summarized.
    """
    messages, numbers = conversation.messages, conversation.numbers
    covered = conversation.covered
    cuts = (at for at in range(len(messages) - keep, covered, -1) if messages[at].role == "user")
    for cut in cuts:
        if numbers[cut - 1] and not _has_open_call(messages[covered:cut]):
            return cut
    return 0


def _has_open_call(messages: Iterable[Message]) -> bool:
    open_calls: set[str] = set()
    for message in messages:
        open_calls.update(use.id for use in message.tool_uses)
        open_calls.difference_update(part.use_id for part in message.parts if isinstance(part, ToolReturnPart))
    return bool(open_calls)


class CompactionResult(NamedTuple):
    """Result of a compaction: whether a new summary is in use, and the tokens spent on writing it."""

    is_changed: bool = False
    usage: Usage = Usage()


class _Plan(NamedTuple):
    """A plan to summarize the first `messages` messages.

    `replaced` is the size of these messages, and `after` is the size of the request once the summary replaces them;
    both are estimates in tokens.
    """

    messages: int
    replaced: int
    after: int


class Compactor:
    """Component that summarizes the beginning of the open conversation in requests to the model.

    A summary replaces the messages in requests only; the messages themselves are not changed. The user reviews each
    summary before it is used, except for automatic compaction with the setting `[compaction] mode = "auto"`.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        active: ActiveConversation,
        model_selection: ModelSelection,
        frontend: Frontend,
        events: EventBus,
        spending: SpendingTracker,
        limits: BudgetLimits,
        preview_request: Callable[[Conversation], ModelRequest],
    ) -> None:
        self._preview_request = preview_request
        self._settings = settings
        self._active = active
        self._model_selection = model_selection
        self._frontend = frontend
        self._events = events
        self._spending = spending
        self._limits = limits
        self._reported = ("", 0, 0)  # the conversation, the index and the tokens of the message reported as too large
        self._usage = Usage()  # of the latest summary, even if it failed
        self._refused = ("", 0)  # the conversation in which the user last refused, and the request's size in tokens

    @property
    def can_compact(self) -> bool:
        """Whether the open conversation has messages that `compact` would summarize."""
        return find_cut(self._active.current, self._settings.compaction.keep_messages) > 0

    async def compact(self, instructions: str = "") -> CompactionResult:
        """Summarize all but the last messages, and use the summary if the user accepts it.

        *instructions* are added to the prompt for the model. Raises UsageError if there is nothing to summarize,
        ModelError if the model fails, and StoreError. An error or cancellation leaves everything unchanged.
        """
        conversation = self._active.current
        count = find_cut(conversation, self._settings.compaction.keep_messages)
        if not count:
            kept = f"The last {self._settings.compaction.keep_messages} messages are always sent whole."
            raise UsageError("There is nothing to summarize yet.", f"{kept} See keep_messages under [compaction].")
        return await self._summarize(conversation, count, instructions, "you asked for it", is_reviewed=True)

    async def shorten(self) -> bool:
        """Call `compact` without instructions; return whether a new summary is in use.

        UsageError and ModelError are reported to the user instead of being raised.
        """
        try:
            return (await self.compact()).is_changed
        except (UsageError, ModelError) as error:
            self._events.notify("error", error.message, error.hint)
            return False

    async def undo(self) -> Compaction:
        """Stop using the current summary, so that the messages it replaced are sent again; return the summary.

        Raises UsageError if no summary is in use, and StoreError.
        """
        undone = await self._active.current.undo_compaction()
        if undone is None:
            raise UsageError("No summary is in use.", "Make one with /compact.")
        self._publish_change()
        return undone

    async def compact_if_needed(
        self, request: ModelRequest, overflow: ModelError | None = None, *, turn: str = ""
    ) -> CompactionResult:
        """Summarize messages if *request* nearly fills the context window or was rejected as too long.

        *overflow* is the error with which the model rejected the request, None if the request was not sent. *turn* is
        the id of the turn to which the cost of the summary is added. With `[compaction] mode = "ask"`, the user is
        asked first; with "never", nothing is summarized. With "auto", each request for the summary must be within the
        budget. A failure is reported to the user as a notice, and nothing is changed.

        Nothing is summarized if the request would still not fit into the window, if the summary would not be shorter
        than the messages, or if the last user message alone is larger than the window. In the last case, the user is
        notified, unless *overflow* is given; call `explain_overflow` to add this information to the error.
        """
        model, self._usage = self._model_selection.model, Usage()
        if model is None:
            return CompactionResult()
        conversation = self._active.current
        tokens, window = self._measure(model, request, overflow)
        if self._report_large_message(conversation, window, overflow) or self._settings.compaction.mode == "never":
            return CompactionResult()
        if overflow is None and (not window or tokens < window * self._settings.compaction.threshold / 100):
            return CompactionResult()
        is_asking = self._settings.compaction.mode == "ask"
        why = "the conversation does not fit the model's window"
        if overflow is None and tokens <= window:
            why = "the conversation barely fits the model's window"
        try:
            plan = self._find_useful_plan(conversation, tokens, window)
            if plan is None or (is_asking and not await self._offer(plan, tokens, window, overflow)):
                return CompactionResult()
            return await self._summarize(conversation, plan.messages, "", why, is_reviewed=is_asking, turn=turn)
        except (ModelError, BudgetReached) as error:
            self._events.notify("error", f"No summary was made. {error.message}", error.hint)
            return CompactionResult(usage=self._usage)

    def explain_overflow(self, request: ModelRequest, overflow: ModelError) -> ModelError:
        """Return *overflow*, the error for a request that is too long, with a better hint if no summary can help.

        The hint states what is too large. If a summary can make *request* fit, the error is returned unchanged.
        """
        model, conversation = self._model_selection.model, self._active.current
        if model is None:
            return overflow
        tokens, window = self._measure(model, request, overflow)
        last = find_last_user_message(conversation)
        size = 0 if last is None else estimate_message_tokens(conversation.messages[last])
        if last is not None and 0 < window < size:
            message = conversation.messages[last]
            fit = f"Your last message alone takes about {size:,} tokens; at most {window:,} fit."
            hint = f"{fit} {describe_largest_part(message)} {SEND_LESS}"
        else:
            try:
                plan = self._find_useful_plan(conversation, tokens, window)
            except ModelError:
                return overflow  # the failure of the summary was reported before
            if plan is not None:
                return overflow
            hint = "Send less, enable fewer tools, or choose a model with a larger context window: /model."
        return ModelError(overflow.message, hint, model_kind=overflow.model_kind, details=overflow.details)

    def _measure(self, model: ChatModel, request: ModelRequest, overflow: ModelError | None) -> tuple[int, int]:
        """Return the sizes of *request* (estimated) and of the context window (0 if unknown), in tokens.

        If *overflow* is not None, sizes in the provider's error message take precedence over estimates.
        """
        tokens = estimate_request_tokens(request, self._active.current.beginning_changed_at)
        window = model.facts.context_window
        if overflow is not None:
            refused = parse_refused_sizes(overflow.details)
            window = refused.window or window
            tokens = max(tokens, refused.size, window)
        return tokens, window

    def _report_large_message(self, conversation: Conversation, window: int, overflow: ModelError | None) -> bool:
        """Return whether the last user message alone is larger than *window*; if so, notify the user once.

        The user is not notified if *overflow* is given, because that error is shown and already states that the last
        user message is too large.
        """
        last = find_last_user_message(conversation)
        tokens = 0 if last is None else estimate_message_tokens(conversation.messages[last])
        if last is None or not window or tokens <= window:
            return False
        message, reported = conversation.messages[last], (conversation.id, last, tokens)
        if overflow is None and reported != self._reported and not message.late_result:
            self._reported = reported
            has_attachments = any(not isinstance(part, TextPart) for part in message.parts)
            self._events.notify(
                "warning",
                f"Your last message with its attachments takes about {tokens:,} tokens, more than the model's context "
                f"window of {window:,} tokens."
                if has_attachments
                else f"Your last message takes about {tokens:,} tokens, more than the model's context window of "
                f"{window:,} tokens.",
                f"{describe_largest_part(message)} {SEND_LESS}" if has_attachments else SEND_LESS,
            )
        return True

    def _find_useful_plan(self, conversation: Conversation, tokens: int, window: int) -> _Plan | None:
        """Plan a summary that makes a request of *tokens* tokens shorter and lets it fit into *window*.

        Returns None if no summary can do this. *window* is the size of the context window in tokens, 0 if unknown.
        Raises ModelError if the model for summaries cannot be used.
        """
        model = self._model_selection.get_named(self._settings.compaction.model)
        for keep in (self._settings.compaction.keep_messages, 1):
            if count := find_cut(conversation, keep):
                replaced = self._count_message_tokens(conversation, count)
                summary = estimate_summary_tokens(model, replaced)
                after = max(tokens - replaced, 0) + summary
                if summary < replaced and (not window or after <= window):
                    return _Plan(count, replaced, after)
        return None

    async def _offer(self, plan: _Plan, tokens: int, window: int, overflow: ModelError | None) -> bool:
        conversation = self._active.current
        grown = tokens - self._refused[1]
        if overflow is None and self._refused[0] == conversation.id and grown < window * _GROWTH_BEFORE_NEXT_OFFER:
            return False
        model = self._model_selection.get_named(self._settings.compaction.model)
        price = model.facts.input_price
        if overflow:
            why = "the model's window is too small"
        elif tokens > window:
            why = "the request does not fit the model's window"
        else:
            why = "the model's window is almost full"
        question = OfferCompaction(
            server="",
            why=why,
            messages=plan.messages,
            tokens=tokens,
            tokens_after=plan.after,
            window=window,
            model=model.name,
            cost=None if price is None else price * plan.replaced,
        )
        if await self._frontend.ask(question):
            return True
        self._refused = (conversation.id, tokens)
        return False

    async def _summarize(
        self,
        conversation: Conversation,
        count: int,
        instructions: str,
        why: str,
        *,
        is_reviewed: bool,
        turn: str = "",
    ) -> CompactionResult:
        model = self._model_selection.get_named(self._settings.compaction.model)

        def publish_progress(done: int, planned: int) -> None:
            self._events.publish(SummaryProgress(count, done, planned))

        @asynccontextmanager
        async def track(tokens: int) -> AsyncGenerator[OpenSpending]:
            if not is_reviewed:  # otherwise, the user asked for the summary
                await self._limits.require(conversation.id, turn, model, tokens, DEFAULT_OUTPUT_TOKENS)
            async with self._spending.track_messages(model, conversation.id, tokens, turn) as spending:
                yield spending

        summarizer, outcome = Summarizer(model, instructions, publish_progress, track), "stopped"
        try:
            compaction = await summarizer.summarize(conversation, count)
            before = self._count_message_tokens(conversation, count)
            after = self._count_summary_tokens(conversation, compaction)
            if after >= before:
                raise ModelError(
                    "The summary is not shorter than the messages.",
                    "Choose another model for summaries, or continue without one.",
                )
            outcome = "done"
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._usage = summarizer.usage
            self._events.publish(SummaryProgress(count, 0, 0, summarizer.usage, outcome))
        if is_reviewed:
            question = replace(_make_review(conversation, compaction, before, after, why), instructions=instructions)
            sentences = await self._review(question)
            if not sentences:
                return CompactionResult(usage=summarizer.usage)
            compaction = replace(compaction, sentences=sentences)
        await conversation.add_compaction(compaction)
        self._publish_change()
        return CompactionResult(is_changed=True, usage=summarizer.usage)

    async def _review(self, question: ReviewCompaction) -> tuple[SummarySentence, ...]:
        """Return the sentences that the user accepts; if there are none, tell the user that nothing has changed."""
        sentences: tuple[SummarySentence, ...] = ()
        try:
            answer = await self._frontend.ask(question)
            if isinstance(answer, UseSummary):
                marked = mark_edited(answer.sentences, question.sentences)
                sentences = () if summary_error(question, marked) else marked
        finally:
            if not sentences:
                self._events.notify("info", "The summary is not used: the model still gets the messages themselves.")
        return sentences

    def _count_summary_tokens(self, conversation: Conversation, compaction: Compaction) -> int:
        return estimate_text_tokens(write_summary(conversation, compaction, compaction.messages))

    def _count_message_tokens(self, conversation: Conversation, count: int) -> int:
        """Estimate how many tokens the first *count* messages take in the next request.

        If a summary replaces some of these messages, the summary is counted instead. Shortened tool results are counted
        at their shortened length.
        """
        kept = len(conversation.messages) - count
        messages = self._preview_request(conversation).messages
        return sum(map(estimate_message_tokens, messages[: len(messages) - kept]))

    def _publish_change(self) -> None:
        conversation = self._active.current
        active = conversation.compaction
        if active is None:
            self._events.publish(CompactionChanged())
        else:
            change = CompactionChanged(conversation.covered, len(active.sentences), active.unknown_count)
            self._events.publish(change)


def _make_review(
    conversation: Conversation, compaction: Compaction, before: int, after: int, why: str
) -> ReviewCompaction:
    cited = {number for sentence in compaction.sentences for number in sentence.sources}
    return ReviewCompaction(
        server="",
        why=f"{why}; replaces {pluralize(compaction.messages, 'message')} for the model only",
        sentences=compaction.sentences,
        numbers=tuple(conversation.numbers[: compaction.messages]),
        sources=tuple(list_sources(conversation, cited)),
        messages=compaction.messages,
        model=compaction.model,
        usage=compaction.usage,
        tokens_before=before,
        tokens_after=after,
    )


def list_sources(conversation: Conversation, cited: set[int]) -> Iterator[SummarySource]:
    """Yield the messages whose numbers are in *cited*, shortened so that their size stays within limits."""
    left = _MAX_SOURCES_CHARS
    for number, message in zip(conversation.numbers, conversation.messages, strict=True):
        if number in cited:
            text = shorten_middle(describe_message(message), min(_MAX_SOURCE_CHARS, max(left, 0)))
            left -= len(text)
            yield SummarySource(number, message.role, text)


def find_last_user_message(conversation: Conversation) -> int | None:
    """Return the index of the last user message that no summary replaces, or None if there is none."""
    messages = conversation.messages
    places = range(len(messages) - 1, conversation.covered - 1, -1)
    return next((at for at in places if messages[at].role == "user"), None)


def describe_largest_part(message: Message) -> str:
    """Return a sentence that names the largest part of a user message: an attachment, or the user's text."""
    largest = max(message.parts, key=estimate_part_tokens)
    size = estimate_part_tokens(largest)
    if name := _name_attachment(largest):
        return f"The largest part of it is {name}, with about {size:,} tokens."
    return f"The largest part of it is its text, with about {size:,} tokens."


def _name_attachment(part: Part) -> str:
    match part:
        case ResourcePart():
            name = part.source
        case ImagePart() | FilePart():
            name = part.name or part.mime_type
        case _:
            return ""
    return sanitize_line(name, _MAX_NAME)
