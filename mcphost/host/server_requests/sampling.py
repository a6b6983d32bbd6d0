"""Sampling: a server's question to the user's model, seen before and after by the user.

Specification: client/sampling. The model gets what the server sent and nothing else: no tool of ours, nothing of an
earlier sampling, and of the conversation only what the user added to this one request. Tools in the request are the
server's own; their calls go back to it and never run here. A server that asks the model once more to run one of them
is one level deeper, of which there are few.
"""

import time
from collections.abc import Callable, Container
from typing import Any, cast

import anyio

from mcphost.client.session import ServerRequestContext
from mcphost.client.timeouts import pause_call_deadlines
from mcphost.errors import MalformedMessage, ModelError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import (
    ApproveUnchanged,
    Deny,
    EditedReply,
    EditedRequest,
    ReviewReply,
    ReviewSampling,
)
from mcphost.host.server_requests.sampling_budget import SamplingBudget, estimate_tokens
from mcphost.host.server_requests.sampling_depth import SamplingNesting
from mcphost.host.server_requests.sampling_messages import (
    SamplingRequest,
    issued_ids,
    parse_sampling_request,
    reply_blocks,
)
from mcphost.host.server_requests.sampling_models import SamplingModels, choose_model
from mcphost.llm import model as llm
from mcphost.llm.messages import ToolUsePart
from mcphost.protocol.base import is_set
from mcphost.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcphost.protocol.revisions import Revision
from mcphost.protocol.sampling import parse_sampling_content, parse_sampling_messages, parse_tool_choice
from mcphost.protocol.server_requests import CreateMessage, CreateMessageResult, ServerRequestRejection
from mcphost.serialization import Raw, Struct, encode, loads, replace

MAX_REQUEST = 20_000_000
"""Bytes of the messages of one request, pictures included."""
MAX_ANSWER = 1_000_000
MAX_WAITING = 8
"""Samplings of one server that may wait for the one that runs."""
MAX_PER_CALL = 25
MAX_ISSUED_IDS = 1_000
"""Ids of a provider that are remembered for one server, so that they may come back."""
CONVERSATION_HEADING = "The conversation of the user so far:"
"""What stands before it where the user added it to a request."""
_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "endTurn"}
Notify = Callable[[str, str], None]


class SamplingAnswer(Struct, frozen=True):
    """What the model gave: text, calls by their wire names, why it ended, and what it used as far as that was said."""

    text: str
    tool_uses: tuple[ToolUsePart, ...]
    stop_reason: str
    usage: llm.Usage = llm.Usage()


class SamplingHandler:
    """Answers one server, one request after the other; the rest waits, and too many are refused."""

    def __init__(
        self,
        server: str,
        frontend: Frontend,
        models: SamplingModels,
        budget: SamplingBudget,
        notify: Notify,
        audit: AuditLog,
    ) -> None:
        self._audit = audit
        self._server = server
        self._frontend = frontend
        self._models = models
        self._budget = budget
        self._notify = notify
        self._lock = anyio.Lock()
        self._nesting = SamplingNesting()
        self._samplings_by_call: dict[int, int] = {}
        self._issued_ids: dict[str, None] = {}

    async def answer(
        self, ask: CreateMessage, why: str, context: ServerRequestContext
    ) -> CreateMessageResult | ServerRequestRejection:
        """Review, ask the model, review the reply. Refused by the user is -1, a request that cannot be is -32602."""
        try:
            asked = _parse_request(ask, context.revision, self._issued_ids)
        except MalformedMessage as error:
            return ServerRequestRejection(error.message, INVALID_PARAMS)
        depth = self._nesting.depth(context, asked.tool_result_ids)
        if refused := self._depth_error(depth, context) or self._rate_error(context):
            self._notify(f"{self._server} asks the model too often: {refused}", "Disable the server if it goes on.")
            return ServerRequestRejection(refused)
        with pause_call_deadlines():
            return await self._answer_exclusively(ask, asked, why, context, depth)

    async def _answer_exclusively(
        self, ask: CreateMessage, request: SamplingRequest, why: str, context: ServerRequestContext, depth: int
    ) -> CreateMessageResult | ServerRequestRejection:
        """One at a time: review, ask the model, review the reply."""
        async with self._lock:
            models = await self._models.load_models()
            if not models:
                self._notify(f"{self._server} wanted to ask a model, and none is chosen.", "Choose one with --model.")
                return ServerRequestRejection("No model is chosen in this host.", INTERNAL_ERROR)
            why = f"{why}, while an earlier sampling of it is not over" if depth > 1 else why
            return await self._review_and_ask(models, ask, request, why, context, depth)

    def _depth_error(self, depth: int, context: ServerRequestContext) -> str:
        most = self._budget.limits.depth
        if depth <= most:
            return ""
        unclear = "" if context.call_number else " Of calls side by side it counts for each."
        return f"at most {most} samplings of this server may be nested in one another.{unclear}"

    def _rate_error(self, context: ServerRequestContext) -> str:
        """Why this one is too many, or nothing when it is not; then it counts."""
        if self._lock.statistics().tasks_waiting >= MAX_WAITING:
            return f"{MAX_WAITING} samplings of this server are waiting already."
        if context.call_number:
            if self._samplings_by_call.get(context.call_number, 0) >= MAX_PER_CALL:
                return f"at most {MAX_PER_CALL} samplings belong to one call."
            # Only the newest calls are remembered; the numbers of calls never come again.
            self._samplings_by_call = dict(list(self._samplings_by_call.items())[-100:])
            self._samplings_by_call[context.call_number] = self._samplings_by_call.get(context.call_number, 0) + 1
        return self._budget.count_request()

    async def _review_and_ask(
        self,
        models: dict[str, llm.ChatModel],
        ask: CreateMessage,
        request: SamplingRequest,
        why: str,
        context: ServerRequestContext,
        depth: int,
    ) -> CreateMessageResult | ServerRequestRejection:
        tokens = estimate_tokens([*map(bytes, ask.messages), bytes(ask.tools), (ask.system_prompt or "").encode()])
        left, refused = self._budget.available_tokens(tokens)
        if refused:
            self._notify(f"{self._server} may not ask the model now: {refused}", "The limit is in [sampling].")
            return ServerRequestRejection(refused[:1].upper() + refused[1:])
        ask = replace(ask, max_tokens=min(request.max_tokens, left))
        question = self._make_question(models, ask, request, why, tokens, context.revision)
        verdict = await self._frontend.ask(question)
        if not isinstance(verdict, ApproveUnchanged | EditedRequest):
            return _make_refusal(verdict)
        edited = verdict if isinstance(verdict, EditedRequest) else EditedRequest()
        try:
            ask = _apply_edits(ask, edited, question.conversation)
            request = parse_sampling_request(
                ask, parse_sampling_messages(ask.messages), request.tool_choice, self._issued_ids
            )
        except MalformedMessage as error:
            return ServerRequestRejection(f"The edited request is not valid: {error.message}", INTERNAL_ERROR)
        model = models.get(edited.model or question.model)
        if model is None:
            return ServerRequestRejection("The edited request names a model that is not there.", INTERNAL_ERROR)
        for note in request.unsupported_content(model.facts):
            self._notify(f"{self._server} sent the model {note}", "It was told so.")
        answered = await self._ask_model(model, request, tokens)
        if isinstance(answered, ServerRequestRejection):
            return answered
        blocks = reply_blocks(answered.text, answered.tool_uses, request)
        shown = ReviewReply(
            server=self._server, why=why, content=blocks, model=model.name, stop_reason=answered.stop_reason,
            usage=answered.usage,
        )  # fmt: skip
        judged = await self._frontend.ask(shown)
        if not isinstance(judged, ApproveUnchanged | EditedReply):
            return _make_refusal(judged)
        if isinstance(judged, EditedReply):
            blocks = judged.content
        uses = frozenset(str(block.get("id")) for block in blocks if block.get("type") == "tool_use")
        self._nesting.record_tool_uses(context, depth, uses)
        self._issued_ids = dict.fromkeys([*self._issued_ids, *issued_ids(blocks)][-MAX_ISSUED_IDS:])
        return _make_reply(blocks, model.name, answered.stop_reason, context.revision)

    async def _ask_model(
        self, model: llm.ChatModel, request: SamplingRequest, tokens: int
    ) -> SamplingAnswer | ServerRequestRejection:
        """The model's answer, recorded, and counted as what it used; `tokens` is about what goes in."""
        effect = await self._audit.start_span(
            AuditSubject(kind="sampling", server=self._server, name=model.name), who="answer"
        )
        ended, size, used, began = "stopped", 0, tokens, time.monotonic()
        try:
            answered = await _stream_answer(model, request)
            size = len(answered.text.encode("utf-8", "replace"))
            ended, usage = answered.stop_reason, answered.usage
            used = usage.input_tokens + usage.output_tokens or tokens + size // 3
            self._models.record_speed(model.name, usage.output_tokens, time.monotonic() - began)
            return answered
        except ModelError as error:
            ended = "failed"
            # The provider's words may tell of keys and accounts; they are for the user alone.
            self._notify(f"The model could not answer {self._server}: {error.message}", error.hint)
            return ServerRequestRejection("The model could not answer.", INTERNAL_ERROR)
        finally:
            self._budget.spend(used)
            effect.end(ended, size=size)

    def _make_question(
        self, models: dict[str, llm.ChatModel], ask: CreateMessage, request: SamplingRequest, why: str, tokens: int,
        revision: Revision,
    ) -> ReviewSampling:  # fmt: skip
        read: Any = loads(ask.model_preferences) if is_set(ask.model_preferences) else {}
        preferences = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        most = int(ask.max_tokens)
        offers = tuple(self._models.make_candidate(model, tokens, most) for model in models.values())
        model, reason = choose_model(preferences, offers, tokens + 1)
        wishes = (ask.include_context or "none")[:100]
        # Later revisions have a capability for it, which is not declared; a wish without it is none.
        granted = wishes in ("thisServer", "allServers") and revision < Revision.V2025_11_25
        return ReviewSampling(
            server=self._server,
            why=why,
            messages=tuple(loads(raw) for raw in ask.messages),
            model=model.name,
            label=model.label,
            max_tokens=most,
            system=request.system,
            tools=tuple(loads(raw) for raw in request.tools_raw),
            tool_choice=request.tool_choice,
            temperature=ask.temperature,
            stop=ask.stop_sequences,
            preferences=preferences,
            include_context=wishes,
            conversation=self._models.conversation_text() if granted else "",
            reason=reason,
            models=offers,
            budget=self._budget.usage(),
            tokens=tokens,
        )


def _parse_request(ask: CreateMessage, revision: Revision, issued_ids: Container[str]) -> SamplingRequest:
    """The request, checked. Raises MalformedMessage."""
    if ask.max_tokens < 1:
        raise MalformedMessage("The sampling request has no maxTokens.")
    size = sum(map(len, ask.messages)) + len(ask.tools) + len(ask.system_prompt or "")
    if size > MAX_REQUEST:
        raise MalformedMessage(f"The sampling request is larger than {MAX_REQUEST // 1_000_000} MB.")
    if (is_set(ask.tools) or is_set(ask.tool_choice)) and revision < Revision.V2025_11_25:
        raise MalformedMessage("Tools in sampling were not offered.")
    return parse_sampling_request(
        ask, parse_sampling_messages(ask.messages), parse_tool_choice(ask.tool_choice), issued_ids
    )


def _apply_edits(ask: CreateMessage, edited: EditedRequest, conversation: str) -> CreateMessage:
    most = ask.max_tokens if edited.max_tokens is None else min(ask.max_tokens, max(1, edited.max_tokens))
    system = ask.system_prompt if edited.system is None else edited.system
    said = ask.messages if edited.messages is None else tuple(Raw(encode(one)) for one in edited.messages)
    if edited.context and conversation:
        block = {"type": "text", "text": f"{CONVERSATION_HEADING}\n\n{conversation}"}
        said = (Raw(encode({"role": "user", "content": block})), *said)
    return replace(ask, messages=said, system_prompt=system, max_tokens=most)


async def _stream_answer(model: llm.ChatModel, request: SamplingRequest) -> SamplingAnswer:
    """One round in a context of its own. Raises ModelError."""
    text, uses = "", list[ToolUsePart]()
    finished = llm.Finished()
    longest = max((len(stop) for stop in request.stop_sequences), default=0)
    async with model.stream(request.request) as events:
        async for event in events:
            match event:
                case llm.TextDelta():
                    start = max(0, len(text) - longest)
                    text += event.text
                    # Cut here and not by the provider: every model can be stopped so.
                    found = [at for stop in request.stop_sequences if stop and (at := text.find(stop, start)) >= 0]
                    if found:
                        return SamplingAnswer(text[: min(found)], (), "stopSequence")
                    if len(text) > MAX_ANSWER:
                        raise ModelError(f"The answer is longer than {MAX_ANSWER:,} characters.")
                case llm.ToolUseReady():
                    uses.append(event.use)
                case llm.Finished():
                    finished = event
                case _:
                    pass
    reason = "toolUse" if uses else _STOP_REASONS.get(finished.reason, finished.reason)
    return SamplingAnswer(text, tuple(uses), reason, finished.usage)


def _make_reply(
    blocks: tuple[dict[str, Any], ...], model: str, stop_reason: str, revision: Revision
) -> CreateMessageResult | ServerRequestRejection:
    """One block alone or, where the revision knows arrays, several."""
    try:
        read = parse_sampling_content(Raw(encode(blocks)), "reply")
    except MalformedMessage as error:
        return ServerRequestRejection(f"The edited reply is not valid: {error.message}", INTERNAL_ERROR)
    if len(read) > 1 and revision < Revision.V2025_11_25:
        text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        blocks = ({"type": "text", "text": text},)
    return CreateMessageResult("assistant", Raw(encode(blocks[0] if len(blocks) == 1 else blocks)), model, stop_reason)


def _make_refusal(verdict: object) -> ServerRequestRejection:
    reason = verdict.reason if isinstance(verdict, Deny) else ""
    return ServerRequestRejection(f"The user refused the sampling. {reason}".rstrip()[:500])
