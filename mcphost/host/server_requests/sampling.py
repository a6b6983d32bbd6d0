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

from mcphost.client.session import AskContext
from mcphost.client.timeouts import paused
from mcphost.errors import MalformedMessage, ModelError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.questions import AsShown, Deny, EditedReply, EditedRequest, ReviewReply, ReviewSampling
from mcphost.host.server_requests.sampling_budget import Budget, about
from mcphost.host.server_requests.sampling_depth import Nesting
from mcphost.host.server_requests.sampling_messages import Asked, asked_of, issued_ids, reply_blocks
from mcphost.host.server_requests.sampling_models import SamplingModels, chosen
from mcphost.llm import model as llm
from mcphost.llm.messages import ToolUsePart
from mcphost.protocol.base import is_set
from mcphost.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcphost.protocol.revisions import Revision
from mcphost.protocol.sampling import choice, content, messages
from mcphost.protocol.server_requests import AskDeclined, CreateMessage, CreateMessageReply
from mcphost.serialization import Data, Raw, encode, loads, replace

MAX_REQUEST = 20_000_000
"""Bytes of the messages of one request, pictures included."""
MAX_ANSWER = 1_000_000
WAITING = 8
"""Samplings of one server that may wait for the one that runs."""
PER_CALL = 25
ISSUED = 1_000
"""Ids of a provider that are remembered for one server, so that they may come back."""
CONVERSATION = "The conversation of the user so far:"
"""What stands before it where the user added it to a request."""
_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "endTurn"}
Tell = Callable[[str, str], None]


class Answered(Data, frozen=True):
    """What the model gave: text, calls by their wire names, why it ended, and what it used as far as that was said."""

    text: str
    uses: tuple[ToolUsePart, ...]
    stop_reason: str
    usage: llm.Usage = llm.Usage()


class Sampling:
    """Answers one server, one request after the other; the rest waits, and too many are refused."""

    def __init__(
        self, server: str, front: Front, models: SamplingModels, budget: Budget, tell: Tell, journal: Journal
    ) -> None:
        self._journal = journal
        self._server = server
        self._front = front
        self._models = models
        self._budget = budget
        self._tell = tell
        self._turn = anyio.Lock()
        self._nesting = Nesting()
        self._rounds: dict[int, int] = {}
        self._issued: dict[str, None] = {}

    async def answer(self, ask: CreateMessage, why: str, context: AskContext) -> CreateMessageReply | AskDeclined:
        """Review, ask the model, review the reply. Refused by the user is -1, a request that cannot be is -32602."""
        try:
            asked = _read(ask, context.revision, self._issued)
        except MalformedMessage as error:
            return AskDeclined(error.message, INVALID_PARAMS)
        depth = self._nesting.depth(context, asked.answered)
        if refused := self._too_deep(depth, context) or self._too_many(context):
            self._tell(f"{self._server} asks the model too often: {refused}", "Disable the server if it goes on.")
            return AskDeclined(refused)
        with paused():
            return await self._in_turn(ask, asked, why, context, depth)

    async def _in_turn(
        self, ask: CreateMessage, asked: Asked, why: str, context: AskContext, depth: int
    ) -> CreateMessageReply | AskDeclined:
        """One at a time: review, ask the model, review the reply."""
        async with self._turn:
            models = await self._models.all()
            if not models:
                self._tell(f"{self._server} wanted to ask a model, and none is chosen.", "Choose one with --model.")
                return AskDeclined("No model is chosen in this host.", INTERNAL_ERROR)
            why = f"{why}, while an earlier sampling of it is not over" if depth > 1 else why
            return await self._with(models, ask, asked, why, context, depth)

    def _too_deep(self, depth: int, context: AskContext) -> str:
        most = self._budget.limits.depth
        if depth <= most:
            return ""
        unclear = "" if context.number else " Of calls side by side it counts for each."
        return f"at most {most} samplings of this server may be nested in one another.{unclear}"

    def _too_many(self, context: AskContext) -> str:
        """Why this one is too many, or nothing when it is not; then it counts."""
        if self._turn.statistics().tasks_waiting >= WAITING:
            return f"{WAITING} samplings of this server are waiting already."
        if context.number:
            if self._rounds.get(context.number, 0) >= PER_CALL:
                return f"at most {PER_CALL} samplings belong to one call."
            # Only the newest calls are remembered; the numbers of calls never come again.
            self._rounds = dict(list(self._rounds.items())[-100:])
            self._rounds[context.number] = self._rounds.get(context.number, 0) + 1
        return self._budget.request()

    async def _with(
        self, models: dict[str, llm.ChatModel], ask: CreateMessage, asked: Asked, why: str, context: AskContext,
        depth: int,
    ) -> CreateMessageReply | AskDeclined:  # fmt: skip
        tokens = about([*map(bytes, ask.messages), bytes(ask.tools), (ask.system_prompt or "").encode()])
        left, refused = self._budget.tokens(tokens)
        if refused:
            self._tell(f"{self._server} may not ask the model now: {refused}", "The limit is in [sampling].")
            return AskDeclined(refused[:1].upper() + refused[1:])
        ask = replace(ask, max_tokens=min(asked.max_tokens, left))
        question = self._review(models, ask, asked, why, tokens, context.revision)
        verdict = await self._front.ask(question)
        if not isinstance(verdict, AsShown | EditedRequest):
            return _refused(verdict)
        edited = verdict if isinstance(verdict, EditedRequest) else EditedRequest()
        try:
            ask = _edited(ask, edited, question.conversation)
            asked = asked_of(ask, messages(ask.messages), asked.choice, self._issued)
        except MalformedMessage as error:
            return AskDeclined(f"The edited request is not valid: {error.message}", INTERNAL_ERROR)
        model = models.get(edited.model or question.model)
        if model is None:
            return AskDeclined("The edited request names a model that is not there.", INTERNAL_ERROR)
        for note in asked.left_out(model.facts):
            self._tell(f"{self._server} sent the model {note}", "It was told so.")
        answered = await self._asked(model, asked, tokens)
        if isinstance(answered, AskDeclined):
            return answered
        blocks = reply_blocks(answered.text, answered.uses, asked)
        shown = ReviewReply(
            server=self._server, why=why, content=blocks, model=model.name, stop_reason=answered.stop_reason,
            usage=answered.usage,
        )  # fmt: skip
        judged = await self._front.ask(shown)
        if not isinstance(judged, AsShown | EditedReply):
            return _refused(judged)
        if isinstance(judged, EditedReply):
            blocks = judged.content
        uses = frozenset(str(block.get("id")) for block in blocks if block.get("type") == "tool_use")
        self._nesting.called(context, depth, uses)
        self._issued = dict.fromkeys([*self._issued, *issued_ids(blocks)][-ISSUED:])
        return _reply(blocks, model.name, answered.stop_reason, context.revision)

    async def _asked(self, model: llm.ChatModel, asked: Asked, tokens: int) -> Answered | AskDeclined:
        """The model's answer, recorded, and counted as what it used; `tokens` is about what goes in."""
        effect = await self._journal.started(
            Act(kind="sampling", server=self._server, subject=model.name), who="answer"
        )
        ended, size, used, began = "stopped", 0, tokens, time.monotonic()
        try:
            answered = await _ask(model, asked)
            size = len(answered.text.encode("utf-8", "replace"))
            ended, usage = answered.stop_reason, answered.usage
            used = usage.input_tokens + usage.output_tokens or tokens + size // 3
            self._models.measured(model.name, usage.output_tokens, time.monotonic() - began)
            return answered
        except ModelError as error:
            ended = "failed"
            # The provider's words may tell of keys and accounts; they are for the user alone.
            self._tell(f"The model could not answer {self._server}: {error.message}", error.hint)
            return AskDeclined("The model could not answer.", INTERNAL_ERROR)
        finally:
            self._budget.spend(used)
            effect.ended(ended, size=size)

    def _review(
        self, models: dict[str, llm.ChatModel], ask: CreateMessage, asked: Asked, why: str, tokens: int,
        revision: Revision,
    ) -> ReviewSampling:  # fmt: skip
        read: Any = loads(ask.model_preferences) if is_set(ask.model_preferences) else {}
        preferences = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        most = int(ask.max_tokens)
        offers = tuple(self._models.offer(model, tokens, most) for model in models.values())
        model, reason = chosen(preferences, offers, tokens + 1)
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
            system=asked.system,
            tools=tuple(loads(raw) for raw in asked.tools_raw),
            tool_choice=asked.choice,
            temperature=ask.temperature,
            stop=ask.stop_sequences,
            preferences=preferences,
            include_context=wishes,
            conversation=self._models.conversation() if granted else "",
            reason=reason,
            models=offers,
            budget=self._budget.shown(),
            tokens=tokens,
        )


def _read(ask: CreateMessage, revision: Revision, issued: Container[str]) -> Asked:
    """The request, checked. Raises MalformedMessage."""
    if ask.max_tokens < 1:
        raise MalformedMessage("The sampling request has no maxTokens.")
    size = sum(map(len, ask.messages)) + len(ask.tools) + len(ask.system_prompt or "")
    if size > MAX_REQUEST:
        raise MalformedMessage(f"The sampling request is larger than {MAX_REQUEST // 1_000_000} MB.")
    if (is_set(ask.tools) or is_set(ask.tool_choice)) and revision < Revision.V2025_11_25:
        raise MalformedMessage("Tools in sampling were not offered.")
    return asked_of(ask, messages(ask.messages), choice(ask.tool_choice), issued)


def _edited(ask: CreateMessage, edited: EditedRequest, conversation: str) -> CreateMessage:
    most = ask.max_tokens if edited.max_tokens is None else min(ask.max_tokens, max(1, edited.max_tokens))
    system = ask.system_prompt if edited.system is None else edited.system
    said = ask.messages if edited.messages is None else tuple(Raw(encode(one)) for one in edited.messages)
    if edited.context and conversation:
        block = {"type": "text", "text": f"{CONVERSATION}\n\n{conversation}"}
        said = (Raw(encode({"role": "user", "content": block})), *said)
    return replace(ask, messages=said, system_prompt=system, max_tokens=most)


async def _ask(model: llm.ChatModel, asked: Asked) -> Answered:
    """One round in a context of its own. Raises ModelError."""
    text, uses = "", list[ToolUsePart]()
    finished = llm.Finished()
    longest = max((len(stop) for stop in asked.stop), default=0)
    async with model.stream(asked.request) as events:
        async for event in events:
            match event:
                case llm.TextDelta():
                    start = max(0, len(text) - longest)
                    text += event.text
                    # Cut here and not by the provider: every model can be stopped so.
                    found = [at for stop in asked.stop if stop and (at := text.find(stop, start)) >= 0]
                    if found:
                        return Answered(text[: min(found)], (), "stopSequence")
                    if len(text) > MAX_ANSWER:
                        raise ModelError(f"The answer is longer than {MAX_ANSWER:,} characters.")
                case llm.ToolUseReady():
                    uses.append(event.use)
                case llm.Finished():
                    finished = event
                case _:
                    pass
    reason = "toolUse" if uses else _STOP_REASONS.get(finished.reason, finished.reason)
    return Answered(text, tuple(uses), reason, finished.usage)


def _reply(
    blocks: tuple[dict[str, Any], ...], model: str, stop_reason: str, revision: Revision
) -> CreateMessageReply | AskDeclined:
    """One block alone or, where the revision knows arrays, several."""
    try:
        read = content(Raw(encode(blocks)), "reply")
    except MalformedMessage as error:
        return AskDeclined(f"The edited reply is not valid: {error.message}", INTERNAL_ERROR)
    if len(read) > 1 and revision < Revision.V2025_11_25:
        text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        blocks = ({"type": "text", "text": text},)
    return CreateMessageReply("assistant", Raw(encode(blocks[0] if len(blocks) == 1 else blocks)), model, stop_reason)


def _refused(verdict: object) -> AskDeclined:
    reason = verdict.reason if isinstance(verdict, Deny) else ""
    return AskDeclined(f"The user refused the sampling. {reason}".rstrip()[:500])
