"""Sampling: a server's request to the user's model; the user reviews the request and the reply.

Specification: client/sampling. The model receives only what the server sent, without the host's tools and without
earlier sampling requests. It receives the conversation only if the user adds it to the request. Tools in the
request belong to the server: the model's calls to them are returned to the server, which runs them.

If the server sends another sampling request while it runs one of these tools, the second request is nested in the
first. The number of nesting levels is limited.
"""

import math
import time
from collections.abc import Callable, Container
from typing import Any

import anyio

from mcphost.client.session import ServerRequestContext
from mcphost.client.timeouts import pause_call_deadlines
from mcphost.errors import MalformedMessage, ModelError, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.budget.budget_limits import BudgetReached
from mcphost.host.budget.spending import OpenSpending
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import (
    ApproveUnchanged,
    Deny,
    EditedReply,
    EditedRequest,
    ReviewReply,
    ReviewSampling,
)
from mcphost.host.server_requests.sampling_conversion import (
    SamplingRequest,
    issued_ids,
    parse_sampling_request,
    reply_blocks,
)
from mcphost.host.server_requests.sampling_costs import SamplingCosts
from mcphost.host.server_requests.sampling_models import SamplingModels
from mcphost.host.server_requests.sampling_policy import SamplingBudget, SamplingNesting, choose_model
from mcphost.llm import model as llm
from mcphost.llm.messages import ToolUsePart
from mcphost.llm.token_estimate import bound_tokens
from mcphost.protocol.base import is_set
from mcphost.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcphost.protocol.revisions import Revision
from mcphost.protocol.sampling import (
    parse_sampling_content,
    parse_sampling_messages,
    parse_tool_choice,
)
from mcphost.protocol.server_requests import CreateMessage, CreateMessageResult, ServerRequestRejection
from mcphost.serialization import Raw, Struct, as_object, encode, loads, replace
from mcphost.threads import run_in_parsing_thread

MAX_REQUEST = 20_000_000
"""Maximum bytes of one request's messages, including images."""
LONG_REQUEST = 256 * 1024
"""Maximum bytes of a request that is parsed on the event loop; a longer one is parsed in a thread."""
MAX_ANSWER = 1_000_000
MAX_WAITING = 8
"""Maximum sampling requests of one server that wait for the current one."""
MAX_PER_CALL = 25
_REPORT_SECONDS = 10.0
"""Minimum seconds between two notices about refused requests of one server."""
MAX_ISSUED_IDS = 1_000
"""Maximum provider ids remembered per server; a server may send back only these."""
CONVERSATION_HEADING = "The conversation of the user so far:"
"""Heading of the conversation in a request, if the user added it."""
_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "endTurn"}
Notify = Callable[[str, str], None]


class SamplingAnswer(Struct, frozen=True):
    """The model's response to a sampling request: text, tool calls, token usage, and the stop reason defined by MCP."""

    text: str
    tool_uses: tuple[ToolUsePart, ...]
    stop_reason: str
    usage: llm.Usage = llm.Usage()


class SamplingHandler:
    """Handler of one server's sampling requests.

    It processes one request at a time; at most eight others can wait.
    """

    def __init__(
        self,
        server: str,
        frontend: Frontend,
        models: SamplingModels,
        budget: SamplingBudget,
        costs: SamplingCosts,
        notify: Notify,
        audit: AuditLog,
    ) -> None:
        self._audit = audit
        self._server = server
        self._frontend = frontend
        self._models = models
        self._budget = budget
        self._costs = costs
        self._notify = notify
        self._lock = anyio.Lock()
        self._nesting = SamplingNesting()
        self._samplings_by_call: dict[int, int] = {}
        self._issued_ids: dict[str, None] = {}
        self._reported_at = -math.inf

    async def answer(
        self, wire_request: CreateMessage, why: str, context: ServerRequestContext
    ) -> CreateMessageResult | ServerRequestRejection:
        """Let the user review the request, send it to the model, and let the user review the response.

        *why* is the reason shown in the reviews. *context* is the client request, if known, during which the server
        sent the sampling request. If the user refuses, the server gets error -1. If the request is invalid, it gets
        error -32602. A request that exceeds a limit is rejected without a review, and the user is notified.
        """
        try:
            request = await _parse_request(wire_request, context.revision, self._issued_ids)
        except MalformedMessage as error:
            return ServerRequestRejection(error.message, INVALID_PARAMS)
        depth = self._nesting.depth(context, request.tool_result_ids)
        if limit_error := self._depth_error(depth, context) or self._rate_error(context):
            self._report_limit(limit_error, "Disable the server if this continues.")
            return ServerRequestRejection(limit_error)
        with pause_call_deadlines():
            return await self._answer_exclusively(wire_request, request, why, context, depth)

    async def _answer_exclusively(
        self, wire_request: CreateMessage, request: SamplingRequest, why: str, context: ServerRequestContext, depth: int
    ) -> CreateMessageResult | ServerRequestRejection:
        """Wait for this server's earlier sampling requests to end; then review and answer this one.

        *why* is the reason shown in the reviews. *depth* is the nesting depth of the request (see
        `SamplingNesting.depth`).
        """
        async with self._lock:
            models = await self._models.load_models()
            if not models:
                self._notify(
                    f"{self._server} requested sampling, but no model is selected.", "Select one with --model."
                )
                return ServerRequestRejection("No model is selected in this host.", INTERNAL_ERROR)
            why = f"{why}, while an earlier sampling of it is not over" if depth > 1 else why
            return await self._review_and_ask(models, wire_request, request, why, context, depth)

    def _report_limit(self, limit_error: str, hint: str) -> None:
        """Notify the user that a request was refused because of a limit; *limit_error* is a sentence about the limit.

        The user is notified at most once every ten seconds, because a server may send thousands of requests.
        """
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            self._notify(f"Sampling limit of {self._server} reached: {limit_error}", hint)

    def _depth_error(self, depth: int, context: ServerRequestContext) -> str:
        limit = self._budget.limits.depth
        if depth <= limit:
            return ""
        note = "" if context.call_number else " It counts for each concurrent call."
        return f"at most {limit} nested sampling requests of this server are allowed.{note}"

    def _rate_error(self, context: ServerRequestContext) -> str:
        """Count a request and return "", or return a sentence about the rate limit that the request exceeds."""
        if self._lock.statistics().tasks_waiting >= MAX_WAITING:
            return f"{MAX_WAITING} sampling requests of this server are already waiting."
        if context.call_number:
            if self._samplings_by_call.get(context.call_number, 0) >= MAX_PER_CALL:
                return f"at most {MAX_PER_CALL} sampling requests are allowed in one call."
            # Only the newest calls are remembered; call numbers are never reused.
            self._samplings_by_call = dict(list(self._samplings_by_call.items())[-100:])
            self._samplings_by_call[context.call_number] = self._samplings_by_call.get(context.call_number, 0) + 1
        return self._budget.count_request()

    async def _review_and_ask(
        self,
        models: dict[str, llm.ChatModel],
        wire_request: CreateMessage,
        request: SamplingRequest,
        why: str,
        context: ServerRequestContext,
        depth: int,
    ) -> CreateMessageResult | ServerRequestRejection:
        tokens = bound_tokens(
            [*map(bytes, wire_request.messages), bytes(wire_request.tools), (wire_request.system_prompt or "").encode()]
        )
        available, limit_error = self._budget.available_tokens(tokens)
        if limit_error:
            self._report_limit(limit_error, "Change the limit in [sampling].")
            return ServerRequestRejection(limit_error[:1].upper() + limit_error[1:])
        wire_request = replace(wire_request, max_tokens=min(request.max_tokens, available))
        question = self._make_question(models, wire_request, request, why, tokens, context.revision)
        verdict = await self._frontend.ask(question)
        if not isinstance(verdict, ApproveUnchanged | EditedRequest):
            return _make_refusal(verdict)
        edited = verdict if isinstance(verdict, EditedRequest) else EditedRequest()
        try:
            wire_request = _apply_edits(wire_request, edited, question.conversation)
            request = await _convert_request(wire_request, self._issued_ids)
        except MalformedMessage as error:
            return ServerRequestRejection(f"The edited request is not valid: {error.message}", INTERNAL_ERROR)
        model = models.get(edited.model or question.model)
        if model is None:
            return ServerRequestRejection("The edited request names an unknown model.", INTERNAL_ERROR)
        for note in request.unsupported_content(model.facts):
            self._notify(f"{self._server} sent the model {note}", "The model was notified.")
        try:
            most = await self._costs.find_max_output(self._frontend, self._server, why, model, request.request, tokens)
        except (BudgetReached, StoreError) as error:
            self._notify(f"A sampling request of {self._server} was not sent. {error.message}", error.hint)
            return ServerRequestRejection("The user's budget does not allow the request.")
        request = replace(request, request=replace(request.request, max_output_tokens=most))
        answer = await self._ask_model(model, request, tokens)
        if isinstance(answer, ServerRequestRejection):
            return answer
        blocks = reply_blocks(answer.text, answer.tool_uses, request)
        review = ReviewReply(
            server=self._server, why=why, content=blocks, model=model.name, stop_reason=answer.stop_reason,
            usage=answer.usage,
        )  # fmt: skip
        reply_verdict = await self._frontend.ask(review)
        if not isinstance(reply_verdict, ApproveUnchanged | EditedReply):
            return _make_refusal(reply_verdict)
        if isinstance(reply_verdict, EditedReply):
            blocks = reply_verdict.content
        uses = frozenset(str(block.get("id")) for block in blocks if block.get("type") == "tool_use")
        self._nesting.record_tool_uses(context, depth, uses)
        self._issued_ids = dict.fromkeys([*self._issued_ids, *issued_ids(blocks)][-MAX_ISSUED_IDS:])
        return _make_reply(blocks, model.name, answer.stop_reason, context.revision)

    async def _ask_model(
        self, model: llm.ChatModel, request: SamplingRequest, tokens: int
    ) -> SamplingAnswer | ServerRequestRejection:
        """Send the request to the model; return the model's response, or a rejection if the model fails.

        The request is recorded in the audit log, and its tokens are counted against the server's limits. *tokens*
        is the estimated number of input tokens.
        """
        span = await self._audit.start_span(
            AuditSubject(kind="sampling", server=self._server, name=model.name), who="answer"
        )
        outcome, size, used, began = "stopped", 0, tokens, time.monotonic()
        try:
            async with self._costs.track(self._server, model, tokens) as spending:
                answer = await _stream_answer(model, request, spending)
            size = len(answer.text.encode("utf-8", "replace"))
            outcome, usage = answer.stop_reason, answer.usage
            used = usage.input_tokens + usage.output_tokens or tokens + size // 3
            self._models.record_speed(model.name, usage.output_tokens, time.monotonic() - began)
            return answer
        except ModelError as error:
            outcome = "failed"
            # The provider's message may name keys and accounts; it is only for the user.
            self._notify(f"The model failed to answer {self._server}: {error.message}", error.hint)
            return ServerRequestRejection("The model could not answer.", INTERNAL_ERROR)
        finally:
            self._budget.spend(used)
            span.end(outcome, size=size)

    def _make_question(
        self, models: dict[str, llm.ChatModel], wire_request: CreateMessage, request: SamplingRequest, why: str,
        tokens: int, revision: Revision,
    ) -> ReviewSampling:  # fmt: skip
        decoded: Any = loads(wire_request.model_preferences) if is_set(wire_request.model_preferences) else {}
        preferences = as_object(decoded)
        max_tokens = int(wire_request.max_tokens)
        candidates = tuple(self._models.make_candidate(model, tokens, max_tokens) for model in models.values())
        model, reason = choose_model(preferences, candidates, tokens + 1)
        context = (wire_request.include_context or "none")[:100]
        # Later revisions have a capability for it, which mcphost does not declare; the field has no effect there.
        granted = context in ("thisServer", "allServers") and revision < Revision.V2025_11_25
        return ReviewSampling(
            server=self._server,
            why=why,
            messages=tuple(loads(raw) for raw in wire_request.messages),
            model=model.name,
            label=model.label,
            max_tokens=max_tokens,
            system=request.system,
            tools=tuple(loads(raw) for raw in request.tools_raw),
            tool_choice=request.tool_choice,
            temperature=wire_request.temperature,
            stop=wire_request.stop_sequences,
            preferences=preferences,
            include_context=context,
            conversation=self._models.conversation_text() if granted else "",
            reason=reason,
            models=candidates,
            budget=self._budget.usage(),
            tokens=tokens,
        )


async def _parse_request(
    wire_request: CreateMessage, revision: Revision, issued_ids: Container[str]
) -> SamplingRequest:
    """Validate and convert a server's request. Raises MalformedMessage if it is invalid.

    See `parse_sampling_request` for *issued_ids*.
    """
    if wire_request.max_tokens < 1:
        raise MalformedMessage("The sampling request has no maxTokens.")
    if _measure_size(wire_request) > MAX_REQUEST:
        raise MalformedMessage(f"The sampling request is larger than {MAX_REQUEST // 1_000_000} MB.")
    if (is_set(wire_request.tools) or is_set(wire_request.tool_choice)) and revision < Revision.V2025_11_25:
        raise MalformedMessage("Tools in sampling are not supported.")
    return await _convert_request(wire_request, issued_ids)


def _measure_size(wire_request: CreateMessage) -> int:
    return sum(map(len, wire_request.messages)) + len(wire_request.tools) + len(wire_request.system_prompt or "")


async def _convert_request(wire_request: CreateMessage, issued_ids: Container[str]) -> SamplingRequest:
    """Convert a request as `parse_sampling_request` does, in a thread if the request is long."""

    def convert() -> SamplingRequest:
        return parse_sampling_request(
            wire_request,
            parse_sampling_messages(wire_request.messages),
            parse_tool_choice(wire_request.tool_choice),
            issued_ids,
        )

    is_long = _measure_size(wire_request) + len(wire_request.tool_choice) > LONG_REQUEST
    return await run_in_parsing_thread(convert) if is_long else convert()


def _apply_edits(wire_request: CreateMessage, edited: EditedRequest, conversation: str) -> CreateMessage:
    max_tokens = wire_request.max_tokens
    if edited.max_tokens is not None:
        max_tokens = min(max_tokens, max(1, edited.max_tokens))
    system = wire_request.system_prompt if edited.system is None else edited.system
    messages = (
        wire_request.messages if edited.messages is None else tuple(Raw(encode(message)) for message in edited.messages)
    )
    if edited.context and conversation:
        block = {"type": "text", "text": f"{CONVERSATION_HEADING}\n\n{conversation}"}
        messages = (Raw(encode({"role": "user", "content": block})), *messages)
    return replace(wire_request, messages=messages, system_prompt=system, max_tokens=max_tokens)


async def _stream_answer(model: llm.ChatModel, request: SamplingRequest, spending: OpenSpending) -> SamplingAnswer:
    """Send the request to the model; return the response, cut off at a stop sequence. Raises ModelError.

    While the response is received, its length and token usage are recorded in *spending*.
    """
    text, uses = "", list[ToolUsePart]()
    finished = llm.StreamFinished()
    longest = max((len(stop) for stop in request.stop_sequences), default=0)
    async with model.stream(request.request) as events:
        async for event in events:
            match event:
                case llm.TextDelta():
                    start = max(0, len(text) - longest)
                    text += event.text
                    spending.received_characters = len(text)
                    # Cut here rather than by the provider, because this works with every model.
                    stops = [at for stop in request.stop_sequences if stop and (at := text.find(stop, start)) >= 0]
                    if stops:
                        return SamplingAnswer(text[: min(stops)], (), "stopSequence")
                    if len(text) > MAX_ANSWER:
                        raise ModelError(f"The answer is longer than {MAX_ANSWER:,} characters.")
                case llm.ToolUseReady():
                    uses.append(event.use)
                case llm.StreamFinished():
                    finished = event
                    spending.usage = event.usage
                case _:
                    pass
    reason = "toolUse" if uses else _STOP_REASONS.get(finished.reason, finished.reason)
    return SamplingAnswer(text, tuple(uses), reason, finished.usage)


def _make_reply(
    blocks: tuple[dict[str, Any], ...], model: str, stop_reason: str, revision: Revision
) -> CreateMessageResult | ServerRequestRejection:
    """Return the reply for the server, or a rejection if the blocks, which the user may have edited, are not valid.

    If the protocol version permits only one content block, the texts of all blocks are joined into one.
    """
    try:
        content = parse_sampling_content(Raw(encode(blocks)), "reply")
    except MalformedMessage as error:
        return ServerRequestRejection(f"The edited reply is not valid: {error.message}", INTERNAL_ERROR)
    if len(content) > 1 and revision < Revision.V2025_11_25:
        text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        blocks = ({"type": "text", "text": text},)
    return CreateMessageResult("assistant", Raw(encode(blocks[0] if len(blocks) == 1 else blocks)), model, stop_reason)


def _make_refusal(verdict: object) -> ServerRequestRejection:
    reason = verdict.reason if isinstance(verdict, Deny) else ""
    return ServerRequestRejection(f"The user rejected the sampling request. {reason}".rstrip()[:500])
