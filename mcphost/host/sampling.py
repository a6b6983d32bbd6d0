"""Sampling: a server's question to the user's model, seen before and after by the user.

Specification: client/sampling. The model gets what the server sent and nothing else: no conversation, no tool of ours,
nothing of an earlier sampling. Tools in the request are the server's own; their calls go back to it and never run here.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import anyio

from mcphost.client.session import AskContext
from mcphost.data import Data, Raw, encode, loads, replace
from mcphost.errors import MalformedMessage, ModelError
from mcphost.host.front import Front
from mcphost.host.questions import Deny, EditedReply, EditedRequest, ReviewReply, ReviewSampling
from mcphost.host.sampling_parts import Asked, asked_of, reply_blocks
from mcphost.llm import model as llm
from mcphost.llm.parts import ToolUsePart
from mcphost.protocol.asks import AskDeclined, CreateMessage, CreateMessageReply
from mcphost.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcphost.protocol.revisions import Revision
from mcphost.protocol.sampling import chosen, content, messages
from mcphost.protocol.wire import is_set

MAX_REQUEST = 20_000_000
"""Bytes of the messages of one request, pictures included."""
MAX_ANSWER = 1_000_000
WAITING = 8
"""Samplings of one server that may wait for the one that runs."""
PER_MINUTE = 30
PER_CALL = 25
_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "endTurn"}
Tell = Callable[[str, str], None]


class Answered(Data, frozen=True):
    """What the model gave: text, calls by their wire names, and why it ended."""

    text: str
    uses: tuple[ToolUsePart, ...]
    stop_reason: str


class Sampling:
    """Answers one server, one request after the other; the rest waits, and too many are refused."""

    def __init__(self, server: str, front: Front, model: Callable[[], llm.ChatModel | None], tell: Tell) -> None:
        self._server = server
        self._front = front
        self._model = model
        self._tell = tell
        self._turn = anyio.Lock()
        self._begun: deque[float] = deque(maxlen=PER_MINUTE)
        self._rounds: dict[int, int] = {}

    async def answer(self, ask: CreateMessage, why: str, context: AskContext) -> CreateMessageReply | AskDeclined:
        """Review, ask the model, review the reply. Refused by the user is -1, a request that cannot be is -32602."""
        try:
            asked = _read(ask, context.revision)
        except MalformedMessage as error:
            return AskDeclined(error.message, INVALID_PARAMS)
        if refused := self._too_many(context):
            self._tell(f"{self._server} asks the model too often: {refused}", "Disable the server if it goes on.")
            return AskDeclined(refused)
        async with self._turn:
            model = self._model()
            if model is None:
                self._tell(f"{self._server} wanted to ask a model, and none is chosen.", "Choose one with --model.")
                return AskDeclined("No model is chosen in this host.", INTERNAL_ERROR)
            return await self._with(model, ask, asked, why, context)

    def _too_many(self, context: AskContext) -> str:
        """Why this one is too many, or nothing when it is not; then it counts."""
        if self._turn.statistics().tasks_waiting >= WAITING:
            return f"{WAITING} samplings of this server are waiting already."
        now = time.monotonic()
        if len(self._begun) == PER_MINUTE and now - self._begun[0] < 60:
            return f"at most {PER_MINUTE} samplings of a server are answered in a minute."
        if context.number:
            if self._rounds.get(context.number, 0) >= PER_CALL:
                return f"at most {PER_CALL} samplings belong to one call."
            # Only the newest calls are remembered; the numbers of calls never come again.
            self._rounds = dict(list(self._rounds.items())[-100:])
            self._rounds[context.number] = self._rounds.get(context.number, 0) + 1
        self._begun.append(now)
        return ""

    async def _with(
        self, model: llm.ChatModel, ask: CreateMessage, asked: Asked, why: str, context: AskContext
    ) -> CreateMessageReply | AskDeclined:
        verdict = await self._front.ask(_review(self._server, why, ask, asked, model))
        if isinstance(verdict, Deny):
            return _refused(verdict)
        if isinstance(verdict, EditedRequest):
            try:
                asked = asked_of(_edited(ask, verdict), messages(_raws(ask, verdict)), asked.choice)
            except MalformedMessage as error:
                return AskDeclined(f"The edited request is not valid: {error.message}", INTERNAL_ERROR)
        for note in asked.left_out(model.facts):
            self._tell(f"{self._server} sent the model {note}", "It was told so.")
        try:
            answered = await _ask(model, asked)
        except ModelError as error:
            # The provider's words may tell of keys and accounts; they are for the user alone.
            self._tell(f"The model could not answer {self._server}: {error.message}", error.hint)
            return AskDeclined("The model could not answer.", INTERNAL_ERROR)
        blocks = reply_blocks(answered.text, answered.uses, asked)
        shown = ReviewReply(
            server=self._server, why=why, content=blocks, model=model.name, stop_reason=answered.stop_reason
        )
        judged = await self._front.ask(shown)
        if isinstance(judged, Deny):
            return _refused(judged)
        if isinstance(judged, EditedReply):
            blocks = judged.content
        return _reply(blocks, model.name, answered.stop_reason, context.revision)


def _read(ask: CreateMessage, revision: Revision) -> Asked:
    """The request, checked. Raises MalformedMessage."""
    if ask.max_tokens < 1:
        raise MalformedMessage("The sampling request has no maxTokens.")
    size = sum(len(bytes(raw)) for raw in ask.messages) + len(bytes(ask.tools)) + len(ask.system_prompt or "")
    if size > MAX_REQUEST:
        raise MalformedMessage(f"The sampling request is larger than {MAX_REQUEST // 1_000_000} MB.")
    if (is_set(ask.tools) or is_set(ask.tool_choice)) and revision < Revision.V2025_11_25:
        raise MalformedMessage("Tools in sampling were not offered.")
    return asked_of(ask, messages(ask.messages), chosen(ask.tool_choice))


def _review(server: str, why: str, ask: CreateMessage, asked: Asked, model: llm.ChatModel) -> ReviewSampling:
    preferences: Any = loads(ask.model_preferences) if is_set(ask.model_preferences) else {}
    return ReviewSampling(
        server=server,
        why=why,
        messages=tuple(loads(raw) for raw in ask.messages),
        model=model.name,
        label=model.label,
        max_tokens=asked.max_tokens,
        system=asked.system,
        tools=tuple(loads(raw) for raw in asked.tools_raw),
        tool_choice=asked.choice,
        temperature=ask.temperature,
        stop=ask.stop_sequences,
        preferences=cast("dict[str, Any]", preferences) if isinstance(preferences, dict) else {},
        include_context=(ask.include_context or "none")[:100],
    )


def _raws(ask: CreateMessage, edited: EditedRequest) -> tuple[Raw, ...]:
    return ask.messages if edited.messages is None else tuple(Raw(encode(one)) for one in edited.messages)


def _edited(ask: CreateMessage, edited: EditedRequest) -> CreateMessage:
    most = ask.max_tokens if edited.max_tokens is None else min(ask.max_tokens, max(1, edited.max_tokens))
    system = ask.system_prompt if edited.system is None else edited.system
    return replace(ask, messages=_raws(ask, edited), system_prompt=system, max_tokens=most)


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
    return Answered(text, tuple(uses), reason)


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


def _refused(deny: Deny) -> AskDeclined:
    return AskDeclined(f"The user refused the sampling. {deny.reason}".rstrip()[:500])
