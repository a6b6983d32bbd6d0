"""Translation of messages and tools to Chat Completions JSON, and of worker events to model events.

No I/O.
"""

import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, cast

from mcphost.errors import MalformedMessage, ModelError
from mcphost.llm import worker_protocol
from mcphost.llm.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.llm.model import (
    ModelEvent,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    ToolUseDelta,
    ToolUseReady,
    ToolUseStarted,
    Usage,
)
from mcphost.llm.response_limits import MAX_TOOL_CALLS
from mcphost.serialization import Raw, Struct, dumps, encode, loads, replace

CALL_NOT_RUN = "(This call was not run: the turn was stopped.)"
IMAGES_OMITTED = "(An image was left out: this model does not take images.)"
PORTABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids that every provider accepts; others are sent only to the model that made them."""
_MAX_EARLY_REPLAYS = 16
"""How often the reasoning of an unfinished answer is saved for replay; each time all of it is encoded."""

Json = dict[str, Any]


class ApiRoute(Struct, frozen=True, kw_only=True):
    """What a provider and its API support, as far as the JSON of a request depends on it."""

    model: str
    provider: str
    supports_images: bool = True
    supports_result_images: bool = False
    replays_thinking: bool = False
    marks_cache: bool = False
    """Whether the prompt is cached only up to explicit marks, as by Anthropic; others cache equal beginnings anyway."""

    has_tools: bool = True
    """Whether tools are offered; without them, providers reject earlier calls, which are sent as text."""


def encode_tools(tools: Iterable[ToolSpec]) -> Raw:
    """Encode tools as JSON; each schema is copied byte for byte, without parsing."""
    return Raw(
        encode(
            [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.schema if bytes(tool.schema) else {"type": "object", "properties": {}},
                    },
                }
                for tool in tools
            ]
        )
    )


def encode_messages(messages: Iterable[Message], system: str, route: ApiRoute) -> Raw:
    """Encode the conversation as JSON."""
    chat = list(make_chat_messages(messages, system, route))
    if route.marks_cache:
        mark_cache(chat)
    return Raw(encode(chat))


def mark_cache(chat: list[Json]) -> None:
    """Mark the parts of a request that Anthropic is to cache: tools and system prompt, and the conversation.

    Its end is marked, and where it ended in the previous request. Four marks are allowed in a request. A beginning of
    under about 1,000 tokens is not cached, which is no error. See "Prompt caching" in Anthropic's documentation.
    """
    inputs = [at for at, message in enumerate(chat) if message["role"] in ("user", "tool")]
    answered = max((at for at, message in enumerate(chat) if message["role"] == "assistant"), default=0)
    earlier = [at for at in inputs if at < answered]
    for at in {*([0] if chat[:1] and chat[0]["role"] == "system" else []), *inputs[-1:], *earlier[-1:]}:
        content = chat[at]["content"]
        # litellm reads the mark of a text from its message, and that of several parts from the part.
        in_part = isinstance(content, list) and chat[at]["role"] == "user"
        marked: Json = cast("list[Json]", content)[-1] if in_part else chat[at]
        marked["cache_control"] = {"type": "ephemeral"}


def make_chat_messages(messages: Iterable[Message], system: str, route: ApiRoute) -> Iterator[Json]:
    """Yield the messages as JSON, with exactly one result right after each call, as providers require."""
    if system:
        yield {"role": "system", "content": system}
    if not route.has_tools:
        messages = map(_describe_calls, messages)
    open_calls: dict[str, str] = {}
    pictures: list[Json] = []
    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and (call := open_calls.pop(part.use_id, None)) is not None:
                    yield make_tool_message(part, call, route, pictures)
            continue
        yield from _close_open_calls(open_calls, pictures)
        if message.role == "user":
            content = make_user_content(message, route)
            if content:
                yield {"role": "user", "content": content}
        else:
            yield from make_assistant_message(message, route, open_calls)
    yield from _close_open_calls(open_calls, pictures)


def _describe_calls(message: Message) -> Message:
    """Return a message with its tool calls or results written as text.

    A message of results becomes one of the user.
    """
    if message.role == "tool":
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                parts.append(TextPart(f"[Result of {part.name}]\n{part.text}"))
                parts.extend(part.images)
        return replace(message, role="user", parts=tuple(parts))
    calls = tuple(TextPart(f"\n[Called {use.name} with {encode_arguments(use)}]") for use in message.tool_uses)
    others = tuple(part for part in message.parts if not isinstance(part, ToolUsePart))
    return replace(message, parts=(*others, *calls)) if calls else message


def _close_open_calls(open_calls: dict[str, str], pictures: list[Json]) -> Iterator[Json]:
    for call in open_calls.values():
        yield {"role": "tool", "tool_call_id": call, "content": CALL_NOT_RUN}
    open_calls.clear()
    if pictures:
        yield {"role": "user", "content": list(pictures)}
        pictures.clear()


def make_user_content(message: Message, route: ApiRoute) -> str | list[Json]:
    """Return the content of a user message, as one text if possible: some servers accept nothing else."""
    items: list[Json] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            items.append(text_item(part.text))
        elif isinstance(part, ResourcePart):
            items.append(text_item(f"Attached resource {part.uri} of the server {part.server}:\n\n{part.text}"))
        elif isinstance(part, ImagePart):
            items.append(image_item(part) if route.supports_images else text_item(IMAGES_OMITTED))
    items = [item for item in items if item.get("text", "…").strip()]
    if all(item["type"] == "text" for item in items):
        return "\n\n".join(item["text"] for item in items)
    return items


def make_assistant_message(message: Message, route: ApiRoute, open_calls: dict[str, str]) -> Iterator[Json]:
    """Yield an assistant message, with reasoning if the provider is the same.

    Add its calls to *open_calls*.
    """
    result: Json = {"role": "assistant", "content": message.text or None}
    calls: list[Json] = []
    taken: set[str] = set()
    for use in message.tool_uses:
        call = choose_call_id(use, message.model == route.model)
        if call in taken:
            call = use.id
        taken.add(call)
        open_calls[use.id] = call
        calls.append(
            {"id": call, "type": "function", "function": {"name": use.name, "arguments": encode_arguments(use)}}
        )
    if calls:
        result["tool_calls"] = calls
    if not message.cut:
        # Each part with reasoning has all blocks of the answer.
        replay = next((part for part in message.parts if isinstance(part, ThinkingPart) and part.replay), None)
        blocks, order = replayable_blocks(replay, route) if replay else ([], "")
        thinking = [block for block in blocks if not is_reasoning_item(block)]
        if thinking and route.replays_thinking:
            result["thinking_blocks"] = thinking
        items = [block for block in blocks if is_reasoning_item(block)]
        if items and message.model == route.model:
            # The worker sends them to the Responses API only.
            result |= {"reasoning_items": items, worker_protocol.ITEM_ORDER: order}
    if calls or message.text.strip():
        yield result


def choose_call_id(use: ToolUsePart, is_same_model: bool) -> str:
    """Return the id for a tool call: the provider's own if the model accepts it, else ours."""
    if use.provider_id and (is_same_model or PORTABLE_ID.fullmatch(use.provider_id)):
        return use.provider_id
    return use.id


def encode_arguments(use: ToolUsePart) -> str:
    """Return the arguments of a call as a JSON object, `{}` if they are invalid: some providers' clients parse it."""
    return dumps(use.arguments if use.arguments is not None else {"not_valid_json": use.raw[:2000]})


def replayable_blocks(part: ThinkingPart, route: ApiRoute) -> tuple[list[Any], str]:
    """Return the reasoning blocks that are sent back to the same provider, and the order of the answer's items.

    There are none for another provider.
    """
    try:
        value: Any = loads(part.replay)
    except MalformedMessage:
        return [], ""
    members = cast("Json", value) if isinstance(value, dict) else {}
    blocks: Any = members.get("blocks")
    if members.get("provider") != route.provider or not isinstance(blocks, list):
        return [], ""
    return cast("list[Any]", blocks), str(members.get("order", ""))


def is_reasoning_item(block: Any) -> bool:
    """Return whether a block is a reasoning item of the Responses API with encrypted content."""
    return isinstance(block, dict) and _is_encrypted(cast("Json", block))


def make_tool_message(part: ToolReturnPart, call_id: str, route: ApiRoute, pictures: list[Json]) -> Json:
    """Return the message for a tool result.

    Images that the message cannot contain are added to *pictures*.
    """
    text = f"Error: {part.text}" if part.is_error else part.text
    if part.images and not route.supports_images:
        text += f"\n{IMAGES_OMITTED}"
    elif part.images and route.supports_result_images:
        items = [text_item(text)] if text else []
        items += [image_item(image) for image in part.images]
        return {"role": "tool", "tool_call_id": call_id, "content": items}
    elif part.images:
        text += "\n(Its images follow.)"
        pictures.append(text_item(f"Images returned by the tool {part.name}:"))
        pictures.extend(image_item(image) for image in part.images)
    return {"role": "tool", "tool_call_id": call_id, "content": text or "(no output)"}


def text_item(text: str) -> Json:
    """Return a text as a content item."""
    return {"type": "text", "text": text}


def image_item(image: ImagePart) -> Json:
    """Return an image as a content item with a data URL."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


class AnswerAssembler:
    """Converter of the worker's events of one answer to model events.

    It merges the pieces of each tool call.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: dict[int, _PartialToolCall] = {}
        self._blocks = ThinkingBlockAssembler()
        self._replay_count = 0
        self._order: list[str] = []
        """The order of reasoning items, text and calls; see ITEM_ORDER."""

        self.char_count = 0
        """Characters received so far."""

    def feed(self, event: worker_protocol.WorkerEvent) -> Iterator[ModelEvent]:
        """Yield the model events for an event of the worker; `WorkerFinished` completes the tool calls.

        Raises ModelError if there are too many calls.
        """
        if isinstance(event, worker_protocol.WorkerThinkingDelta):
            yield from self._add_thinking(event)
            return
        if self._blocks.has_new_signature and (
            isinstance(event, worker_protocol.WorkerFinished) or self._replay_count < _MAX_EARLY_REPLAYS
        ):
            self._replay_count += 1
            yield ThinkingDelta("", self._encode_replay())
        elif isinstance(event, worker_protocol.WorkerFinished) and "r" in self._order:
            yield ThinkingDelta("", self._encode_replay())  # with the order of what came after it
        if isinstance(event, worker_protocol.WorkerTextDelta):
            self.char_count += len(event.text)
            if "t" not in self._order:
                self._order.append("t")
            yield TextDelta(event.text)
        elif isinstance(event, worker_protocol.WorkerToolCallDelta):
            self.char_count += len(event.text) + len(event.name) + len(event.tool_call_id) + 1
            yield from self._add_tool_call(event)
        elif isinstance(event, worker_protocol.WorkerFinished):
            for call in self._calls.values():
                if call.name:
                    yield ToolUseReady(call.build())
            yield StreamFinished(event.reason or "stop", make_usage(event), event.api_route)

    def _add_thinking(self, event: worker_protocol.WorkerThinkingDelta) -> Iterator[ModelEvent]:
        self.char_count += len(event.text)
        for block in event.blocks:
            self.char_count += self._blocks.add(block)
            if is_reasoning_item(block):
                self._order.append("r")
        if event.text:
            yield ThinkingDelta(event.text)

    def _encode_replay(self) -> str:
        blocks, order = self._blocks.signed_blocks(), "".join(self._order)
        return dumps({"provider": self._provider, "blocks": blocks} | ({"order": order} if "r" in order else {}))

    def _add_tool_call(self, piece: worker_protocol.WorkerToolCallDelta) -> Iterator[ModelEvent]:
        call = self._calls.get(piece.index)
        if (
            call is not None
            and piece.tool_call_id
            and call.provider_id
            and piece.tool_call_id != call.provider_id
            and piece.name
        ):
            # Some servers send complete calls that all have index 0.
            key = max(self._calls) + 1
            self._calls[key], call = call, None
            del self._calls[piece.index]
            self._calls = dict(sorted(self._calls.items(), key=lambda item: item[1].order))
        if call is None:
            if len(self._calls) >= MAX_TOOL_CALLS:
                raise ModelError(
                    f"The model asked for more than {MAX_TOOL_CALLS} tool calls in one answer; none of them ran.",
                    "Ask for less at once.",
                )
            call = self._calls[piece.index] = _PartialToolCall(order=len(self._calls))
            self._order.append("c")
        call.provider_id = call.provider_id or piece.tool_call_id
        call.pieces.append(piece.text)
        if not call.name and piece.name:
            call.name = piece.name
            yield ToolUseStarted(call.id, call.name)
            text = "".join(call.pieces)
        else:
            text = piece.text
        if text and call.name:
            yield ToolUseDelta(call.id, text)


class _PartialToolCall:
    """A tool call whose pieces have not all arrived."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.id = f"call_{uuid.uuid4().hex[:16]}"
        self.provider_id = ""
        self.name = ""
        self.pieces: list[str] = []

    def build(self) -> ToolUsePart:
        raw = "".join(self.pieces)
        return ToolUsePart(
            id=self.id,
            name=self.name,
            arguments=parse_arguments(raw),
            raw=raw,
            provider_id=self.provider_id,
        )


def parse_arguments(raw: str) -> dict[str, Any] | None:
    """Parse the arguments of a call: blank text is an empty object.

    None means that they are not a JSON object.
    """
    if not raw.strip():
        return {}
    try:
        value: Any = loads(raw)
    except MalformedMessage:
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


class ThinkingBlockAssembler:
    """Assembler of a provider's reasoning blocks from pieces.

    The text comes first, then the signature, sometimes with the whole text repeated.
    """

    def __init__(self) -> None:
        self._blocks: list[Json] = []
        self._texts: list[str] = []
        self.has_new_signature = False
        """Whether a block was signed since the last call of `signed_blocks`."""

    def add(self, piece: Json) -> int:
        """Add a piece, and return its approximate number of characters."""
        size = len(encode(piece))
        last = self._blocks[-1] if self._blocks else None
        if last is None or piece.get("type") == "redacted_thinking" or _is_signed(last):
            self._join_text()
            self._blocks.append(dict(piece))
            self._texts = [str(piece.get("thinking") or "")]
            self.has_new_signature |= _is_signed(piece)
            return size
        more = str(piece.get("thinking") or "")
        if piece.get("signature"):
            text = "".join(self._texts)
            self._texts = [more] if more.startswith(text) else [text, more]
            last["signature"] = piece["signature"]
            self.has_new_signature = True
        else:
            self._texts.append(more)
        return size

    def signed_blocks(self) -> list[Json]:
        """Return the signed blocks, which the provider expects back in the next request."""
        self._join_text()
        self.has_new_signature = False
        return [block for block in self._blocks if _is_signed(block)]

    def _join_text(self) -> None:
        if self._blocks and "thinking" in self._blocks[-1]:
            self._blocks[-1]["thinking"] = "".join(self._texts)
            self._texts = [self._blocks[-1]["thinking"]]


def _is_signed(block: Json) -> bool:
    return bool(block.get("signature") or block.get("data")) or _is_encrypted(block)


def _is_encrypted(block: Json) -> bool:
    return block.get("type") == "reasoning" and bool(block.get("encrypted_content"))


def make_usage(event: worker_protocol.WorkerFinished) -> Usage:
    """Return the token counts and the cost of a finished answer."""
    return Usage(
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cached_tokens=event.cached_tokens,
        cost=event.cost,
        saved=event.saved,
    )
