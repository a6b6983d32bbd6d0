"""Our parts as Chat Completions messages and tools, and the worker's notes back as events; pure, no I/O."""

import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, cast

from mcphost.errors import MalformedMessage, ModelError
from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import MAX_CALLS
from mcphost.llm.messages import (
    ImagePart,
    Message,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.llm.model import (
    Finished,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    ToolUseDelta,
    ToolUseReady,
    ToolUseStarted,
    Usage,
)
from mcphost.serialization import Raw, Struct, dumps, encode, loads

NOT_RUN = "(This call was not run: the turn was stopped.)"
NO_IMAGES = "(An image was left out: this model does not take images.)"
PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids that every provider takes; others are only given back to the model that made them."""
_SAID_EARLY = 16
"""How often in one answer its reasoning is given back before the end; each time all of it is written anew."""

Json = dict[str, Any]


class Road(Struct, frozen=True, kw_only=True):
    """What the translation must know of the model's road."""

    model: str
    provider: str
    images: bool = True
    images_in_results: bool = False
    replays_thinking: bool = False


def tools_json(tools: Iterable[ToolSpec]) -> Raw:
    """The tools as JSON; each schema goes in byte for byte, never parsed here."""
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


def messages_json(messages: Iterable[Message], system: str, road: Road) -> Raw:
    """The conversation as JSON."""
    return Raw(encode(list(chat_messages(messages, system, road))))


def chat_messages(messages: Iterable[Message], system: str, road: Road) -> Iterator[Json]:
    """Every call gets exactly one answer right after it: providers refuse the conversation otherwise."""
    if system:
        yield {"role": "system", "content": system}
    open_calls: dict[str, str] = {}
    pictures: list[Json] = []
    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and (call := open_calls.pop(part.use_id, None)) is not None:
                    yield tool_message(part, call, road, pictures)
            continue
        yield from _close(open_calls, pictures)
        if message.role == "user":
            content = user_content(message, road)
            if content:
                yield {"role": "user", "content": content}
        else:
            yield from assistant_message(message, road, open_calls)
    yield from _close(open_calls, pictures)


def _close(open_calls: dict[str, str], pictures: list[Json]) -> Iterator[Json]:
    for call in open_calls.values():
        yield {"role": "tool", "tool_call_id": call, "content": NOT_RUN}
    open_calls.clear()
    if pictures:
        yield {"role": "user", "content": list(pictures)}
        pictures.clear()


def user_content(message: Message, road: Road) -> str | list[Json]:
    """Plain text where that is all there is; some servers take nothing else."""
    items: list[Json] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            items.append(text_item(part.text))
        elif isinstance(part, ResourcePart):
            items.append(text_item(f"Attached resource {part.uri} of the server {part.server}:\n\n{part.text}"))
        elif isinstance(part, ImagePart):
            items.append(image_item(part) if road.images else text_item(NO_IMAGES))
    items = [item for item in items if item.get("text", "…").strip()]
    if all(item["type"] == "text" for item in items):
        return "\n\n".join(item["text"] for item in items)
    return items


def assistant_message(message: Message, road: Road, open_calls: dict[str, str]) -> Iterator[Json]:
    """Text and calls; reasoning only where its maker wants it back. Notes the calls that wait for an answer."""
    result: Json = {"role": "assistant", "content": message.text or None}
    calls: list[Json] = []
    taken: set[str] = set()
    for use in message.tool_uses:
        call = call_id(use, message.model == road.model)
        if call in taken:
            call = use.id
        taken.add(call)
        open_calls[use.id] = call
        calls.append({"id": call, "type": "function", "function": {"name": use.name, "arguments": arguments_text(use)}})
    if calls:
        result["tool_calls"] = calls
    if not message.cut:
        blocks = [block for part in message.parts if isinstance(part, ThinkingPart) for block in replayed(part, road)]
        thinking = [block for block in blocks if not is_reasoning_item(block)]
        if thinking and road.replays_thinking:
            result["thinking_blocks"] = thinking
        items = [block for block in blocks if is_reasoning_item(block)]
        if items and message.model == road.model:
            result["reasoning_items"] = items  # the worker sends them in the Responses API only
    if calls or message.text.strip():
        yield result


def call_id(use: ToolUsePart, own: bool) -> str:
    """The provider's id where it is safe to show it, else ours."""
    if use.provider_id and (own or PLAIN_ID.fullmatch(use.provider_id)):
        return use.provider_id
    return use.id


def arguments_text(use: ToolUsePart) -> str:
    """Always a JSON object: some roads parse it before sending."""
    return dumps(use.arguments if use.arguments is not None else {"not_valid_json": use.raw[:2000]})


def replayed(part: ThinkingPart, road: Road) -> list[Any]:
    """The provider's blocks, when it is the same provider."""
    if not part.replay:
        return []
    try:
        value: Any = loads(part.replay)
    except MalformedMessage:
        return []
    if not isinstance(value, dict) or value.get("provider") != road.provider:  # pyright: ignore[reportUnknownMemberType]
        return []
    blocks: Any = value.get("blocks")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return list(blocks) if isinstance(blocks, list) else []  # pyright: ignore[reportUnknownArgumentType]


def is_reasoning_item(block: Any) -> bool:
    """Return whether it is a reasoning item of the Responses API, with the content that only its model can read."""
    return isinstance(block, dict) and _is_encrypted(cast("Json", block))


def tool_message(part: ToolReturnPart, call: str, road: Road, pictures: list[Json]) -> Json:
    """One result. Images that the road cannot carry inside it follow in `pictures`."""
    text = f"Error: {part.text}" if part.is_error else part.text
    if part.images and not road.images:
        text += f"\n{NO_IMAGES}"
    elif part.images and road.images_in_results:
        items = [text_item(text)] if text else []
        items += [image_item(image) for image in part.images]
        return {"role": "tool", "tool_call_id": call, "content": items}
    elif part.images:
        text += "\n(Its images follow.)"
        pictures.append(text_item(f"Images returned by the tool {part.name}:"))
        pictures.extend(image_item(image) for image in part.images)
    return {"role": "tool", "tool_call_id": call, "content": text or "(no output)"}


def text_item(text: str) -> Json:
    """A piece of text."""
    return {"type": "text", "text": text}


def image_item(image: ImagePart) -> Json:
    """A picture as a data address."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


class Gathering:
    """Notes of one answer in, events out; merges parallel calls by index and mints our ids."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: dict[int, _Call] = {}
        self._blocks = ThinkingBlocks()
        self._said = 0
        self.size = 0
        """Characters received so far."""

    def take(self, note: worker_protocol.Note) -> Iterator[ModelEvent]:
        """The events of one note; `Done` completes the calls. Raises ModelError for more calls than are taken."""
        if isinstance(note, worker_protocol.Thinking):
            yield from self._thinking(note)
            return
        if self._blocks.news and (isinstance(note, worker_protocol.Done) or self._said < _SAID_EARLY):
            self._said += 1
            yield ThinkingDelta("", dumps({"provider": self._provider, "blocks": self._blocks.signed()}))
        if isinstance(note, worker_protocol.Text):
            self.size += len(note.text)
            yield TextDelta(note.text)
        elif isinstance(note, worker_protocol.ToolPiece):
            self.size += len(note.text) + len(note.name) + len(note.call) + 1
            yield from self._piece(note)
        elif isinstance(note, worker_protocol.Done):
            for call in self._calls.values():
                if call.name:
                    yield ToolUseReady(call.finished())
            yield Finished(note.reason or "stop", usage_of(note), note.road)

    def _thinking(self, note: worker_protocol.Thinking) -> Iterator[ModelEvent]:
        self.size += len(note.text)
        for block in note.blocks:
            self.size += self._blocks.add(block)
        if note.text:
            yield ThinkingDelta(note.text)

    def _piece(self, piece: worker_protocol.ToolPiece) -> Iterator[ModelEvent]:
        call = self._calls.get(piece.index)
        if call is not None and piece.call and call.provider_id and piece.call != call.provider_id and piece.name:
            # some servers send whole calls that all carry index 0
            key = max(self._calls) + 1
            self._calls[key], call = call, None
            del self._calls[piece.index]
            self._calls = dict(sorted(self._calls.items(), key=lambda item: item[1].order))
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                raise ModelError(
                    f"The model asked for more than {MAX_CALLS} tool calls in one answer; none of them ran.",
                    "Ask for less at once.",
                )
            call = self._calls[piece.index] = _Call(order=len(self._calls))
        call.provider_id = call.provider_id or piece.call
        call.pieces.append(piece.text)
        if not call.name and piece.name:
            call.name = piece.name
            yield ToolUseStarted(call.id, call.name)
            text = "".join(call.pieces)
        else:
            text = piece.text
        if text and call.name:
            yield ToolUseDelta(call.id, text)


class _Call:
    """A tool call that is still arriving."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.id = f"call_{uuid.uuid4().hex[:16]}"
        self.provider_id = ""
        self.name = ""
        self.pieces: list[str] = []

    def finished(self) -> ToolUsePart:
        raw = "".join(self.pieces)
        return ToolUsePart(
            id=self.id,
            name=self.name,
            arguments=arguments_of(raw),
            raw=raw,
            provider_id=self.provider_id,
        )


def arguments_of(raw: str) -> dict[str, Any] | None:
    """The object in `raw`; nothing at all means no arguments; anything else that is no object is None."""
    if not raw.strip():
        return {}
    try:
        value: Any = loads(raw)
    except MalformedMessage:
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


class ThinkingBlocks:
    """The provider's blocks of reasoning. They stream in pieces: text first, the signature last, sometimes with the
    whole text once more."""

    def __init__(self) -> None:
        self._blocks: list[Json] = []
        self._texts: list[str] = []
        self.news = False
        """Whether a block was signed since `signed` was called last."""

    def add(self, piece: Json) -> int:
        """Take a piece in, and return about how many characters it has."""
        size = len(encode(piece))
        last = self._blocks[-1] if self._blocks else None
        if last is None or piece.get("type") == "redacted_thinking" or _is_signed(last):
            self._close()
            self._blocks.append(dict(piece))
            self._texts = [str(piece.get("thinking") or "")]
            self.news |= _is_signed(piece)
            return size
        more = str(piece.get("thinking") or "")
        if piece.get("signature"):
            text = "".join(self._texts)
            self._texts = [more] if more.startswith(text) else [text, more]
            last["signature"] = piece["signature"]
            self.news = True
        else:
            self._texts.append(more)
        return size

    def signed(self) -> list[Json]:
        """The blocks that their maker wants back."""
        self._close()
        self.news = False
        return [block for block in self._blocks if _is_signed(block)]

    def _close(self) -> None:
        if self._blocks and "thinking" in self._blocks[-1]:
            self._blocks[-1]["thinking"] = "".join(self._texts)
            self._texts = [self._blocks[-1]["thinking"]]


def _is_signed(block: Json) -> bool:
    return bool(block.get("signature") or block.get("data")) or _is_encrypted(block)


def _is_encrypted(block: Json) -> bool:
    return block.get("type") == "reasoning" and bool(block.get("encrypted_content"))


def usage_of(done: worker_protocol.Done) -> Usage:
    """Counts and cost as the provider reported them."""
    return Usage(
        input_tokens=done.input_tokens,
        output_tokens=done.output_tokens,
        cached_tokens=done.cached_tokens,
        cost=done.cost,
    )
