"""Conversion of messages to OpenAI's Chat Completions JSON, and of worker events to model events.

This module does no I/O.
"""

import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, cast

from mcphost.errors import ModelError
from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import MAX_TOOL_CALLS
from mcphost.llm.messages import (
    FilePart,
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
from mcphost.llm.prompt_cache import mark_cache
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.serialization import Raw, Struct, as_object, dumps, encode, loads_or_none, replace

CALL_NOT_RUN = "(This call was not run: the turn was stopped.)"
FILES_OMITTED = "(The file {} was left out: this model does not accept such files.)"
BEGINS_WITH_ANSWER = "(The conversation begins with an answer.)"
MEDIA_FOLLOW = "(The media of this message follow.)"
REUSED = "(Not called again: this is the result of the same call of {:%Y-%m-%d %H:%M} UTC.)"
IMAGES_OMITTED = "(An image was left out: this model does not accept images.)"
PORTABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Pattern of tool call ids that every provider accepts; other ids are sent only to the model that created them."""
_CALL_REASONS = ("tool_calls", "function_call")
"""Finish reasons of an answer that ends with tool calls."""
_MAX_EARLY_REPLAYS = 16
"""Maximum number of times that the reasoning of an unfinished answer is encoded; each time encodes all of it."""

Json = dict[str, Any]


class ApiRoute(Struct, frozen=True, kw_only=True):
    """Features of a model, its provider and its API that determine how a request is encoded."""

    model: str
    provider: str
    supports_images: bool = True
    supports_result_images: bool = False
    supports_pdf: bool = True
    supports_audio: bool = False
    replays_thinking: bool = False
    replays_reasoning_text: bool = False
    """Whether reasoning that led to tool calls is sent back to the provider as text, in `reasoning_content`."""

    marks_cache: bool = False
    """Whether the prompt needs explicit cache breakpoints (Anthropic); other providers cache prefixes automatically."""

    has_tools: bool = True
    """Whether the request offers tools. If not, providers reject earlier tool calls, so they are sent as text."""


def encode_tools(tools: Iterable[ToolSpec]) -> Raw:
    """Encode tools as Chat Completions JSON, copying each schema byte for byte without parsing it."""
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
                | ({worker_protocol.RENAMES_ARGUMENTS: True} if tool.is_simplified else {})
                for tool in tools
            ]
        )
    )


def encode_messages(messages: Iterable[Message], system: str, route: ApiRoute) -> Raw:
    """Encode a conversation as Chat Completions JSON, with cache breakpoints if the model needs them.

    *system* is the system prompt, and *route* describes the provider and its API.
    """
    chat = list(make_chat_messages(messages, system, route))
    if route.marks_cache:
        mark_cache(chat)
    return Raw(encode(chat))


def make_chat_messages(messages: Iterable[Message], system: str, route: ApiRoute) -> Iterator[Json]:
    """Convert messages to Chat Completions JSON, with exactly one result for each tool call.

    Providers reject a conversation in which a tool call has no result. *system* is the system prompt, and
    *route* describes the provider and its API.
    """
    if system:
        yield {"role": "system", "content": system}
    messages = _join_inserted(messages)
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


def _join_inserted(messages: Iterable[Message]) -> Iterator[Message]:
    """Change messages from MCP prompts and results of background calls so that all providers accept the request.

    - Consecutive messages with the same role are merged.
    - A user message is added before an assistant message that begins the conversation.
    - Media in an assistant message is moved to a new user message after it.

    A message written by the user or the model is changed only by merging it with an adjacent message of these two
    kinds.
    """
    held: Message | None = None
    for message in messages:
        for piece in _split_media(message):
            if held is None:
                if piece.role == "assistant" and piece.prompt is not None:
                    yield Message(role="user", parts=(TextPart(BEGINS_WITH_ANSWER),))
            elif _can_join(held, piece):
                between = (TextPart("\n\n"),) if piece.role == "assistant" else ()
                held = replace(held, parts=(*held.parts, *between, *piece.parts), prompt=held.prompt or piece.prompt)
                continue
            else:
                yield held
            held = piece
    if held is not None:
        yield held


def _split_media(message: Message) -> Iterator[Message]:
    """Yield *message*, with media in an assistant message from an MCP prompt moved to a user message after it.

    The media are moved because not all providers accept media in assistant messages. Any other message is yielded
    unchanged.
    """
    media = tuple(part for part in message.parts if not isinstance(part, TextPart))
    if message.prompt is None or message.role != "assistant" or not media:
        yield message
        return
    yield replace(message, parts=(TextPart("\n\n".join(filter(None, (message.text, MEDIA_FOLLOW)))),))
    yield replace(message, role="user", parts=(TextPart("From the previous answer:"), *media))


def _can_join(first: Message, second: Message) -> bool:
    is_inserted = any(one.prompt is not None or one.late_result is not None for one in (first, second))
    is_text = all(isinstance(part, TextPart) for part in (*first.parts, *second.parts))
    return is_inserted and first.role == second.role and (first.role == "user" or is_text)


def _describe_calls(message: Message) -> Message:
    """Replace the tool calls or results in a message with text, for requests that offer no tools.

    A message with tool results becomes a user message.
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
    """Return the content of a user message: a string, or a list of content items if there is any media.

    A string is used wherever possible, because some servers accept only strings. *route* determines which media
    are sent.
    """
    items: list[Json] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            items.append(text_item(part.text))
        elif isinstance(part, ResourcePart):
            items.append(text_item(f"{_describe_resource(part)}:\n\n{part.text}"))
        elif isinstance(part, ImagePart):
            if part.name and route.supports_images:
                items.append(text_item(f"Attached image {sanitize(part.name, keep_newlines=False)}:"))
            items.append(image_item(part) if route.supports_images else text_item(IMAGES_OMITTED))
        elif isinstance(part, FilePart):
            is_taken = route.supports_pdf if part.mime_type == "application/pdf" else route.supports_audio
            omitted = FILES_OMITTED.format(sanitize(part.name, keep_newlines=False))
            items.append(file_item(part) if is_taken else text_item(omitted))
    items = [item for item in items if item.get("text", "…").strip()]
    if all(item["type"] == "text" for item in items):
        return "\n\n".join(item["text"] for item in items)
    return items


def _describe_resource(part: ResourcePart) -> str:
    if part.use_id:
        return f"Message from mcphost, not from the user, with a result of the server {part.server}"
    tool = sanitize(part.tool, keep_newlines=False)
    if part.is_from_page:
        return f"Context from the page of the tool {tool} of the server {part.server}, written by the page"
    if part.tool:
        return f"Result of the tool {tool} of the server {part.server}, attached by the user"
    uri = sanitize(part.uri, keep_newlines=False)
    if part.whole:
        known = f"Resource {uri} of the server {part.server} has changed since it was attached before"
        return f"{known}. Difference in unified format"
    if part.server:
        return f"Attached resource {uri} of the server {part.server}"
    return f"Attached folder {uri}" if part.mime_type == "inode/directory" else f"Attached file {uri}"


def make_assistant_message(message: Message, route: ApiRoute, open_calls: dict[str, str]) -> Iterator[Json]:
    """Yield the JSON of an assistant message, or nothing if the message is empty.

    Reasoning is included if the same provider produced it. Tool calls are added to *open_calls*, which maps mcphost's
    call ids to the ids in the request.
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
        # Each reasoning part contains all blocks of the answer, so the first part is enough.
        replay = next((part for part in message.parts if isinstance(part, ThinkingPart) and part.replay), None)
        blocks, order = replayable_blocks(replay, route) if replay else ([], "")
        thinking = [block for block in blocks if not is_reasoning_item(block)]
        if thinking and route.replays_thinking:
            result["thinking_blocks"] = thinking
        items = [block for block in blocks if is_reasoning_item(block)]
        if items and message.model == route.model:
            # The worker sends them to the Responses API only.
            result |= {"reasoning_items": items, worker_protocol.ITEM_ORDER: order}
        reasoning = "".join(part.text for part in message.parts if isinstance(part, ThinkingPart))
        if reasoning and calls and route.replays_reasoning_text and message.model == route.model:
            result["reasoning_content"] = reasoning
    if calls or message.text.strip():
        yield result


def choose_call_id(use: ToolUsePart, is_same_model: bool) -> str:
    """Return the id of a tool call to use in a request.

    This is the id that the provider assigned, if this model accepts it, and otherwise mcphost's id.
    *is_same_model* means that the request goes to the model that made the call.
    """
    if use.provider_id and (is_same_model or PORTABLE_ID.fullmatch(use.provider_id)):
        return use.provider_id
    return use.id


def encode_arguments(use: ToolUsePart) -> str:
    """Encode a tool call's arguments as a JSON object, because some provider libraries parse them.

    If the model sent arguments that are not a JSON object, the encoded object contains the beginning of their text.
    """
    return dumps(use.arguments if use.arguments is not None else {"not_valid_json": use.raw[:2000]})


def replayable_blocks(part: ThinkingPart, route: ApiRoute) -> tuple[list[Any], str]:
    """Return the reasoning blocks to send back to the provider, and the order of the items in the answer.

    The order is a string with one letter per item; see `worker_protocol.ITEM_ORDER`. Both values are empty if the
    reasoning came from another provider.
    """
    members = as_object(loads_or_none(part.replay))
    blocks: Any = members.get("blocks")
    if members.get("provider") != route.provider or not isinstance(blocks, list):
        return [], ""
    return cast("list[Any]", blocks), str(members.get("order", ""))


def is_reasoning_item(block: Any) -> bool:
    """Return whether a block is an encrypted reasoning item of OpenAI's Responses API."""
    return isinstance(block, dict) and _is_encrypted(cast("Json", block))


def make_tool_message(part: ToolReturnPart, call_id: str, route: ApiRoute, pictures: list[Json]) -> Json:
    """Return the message that contains a tool result in a request.

    *call_id* is the id of the tool call in the request. If the provider accepts images, but not in tool results
    (see *route*), the images are added to *pictures*, which the caller sends in a user message after the
    results.
    """
    text = f"Error: {part.text}" if part.is_error else part.text
    if part.reused_at:
        text = f"{REUSED.format(datetime.fromtimestamp(part.reused_at, UTC))}\n\n{text}"
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
    """Return a content item for *text*."""
    return {"type": "text", "text": text}


def image_item(image: ImagePart) -> Json:
    """Return a content item for an image, as a data URL."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


def file_item(file: FilePart) -> Json:
    """Return a content item for a PDF or audio file."""
    if file.mime_type.startswith("audio/"):
        audio = {"data": file.data, "format": file.mime_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": audio}
    name = sanitize_line(file.name.rsplit("/", 1)[-1], 200) or "file.pdf"
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{file.mime_type};base64,{file.data}"}}


class AnswerAssembler:
    """Incremental converter from the worker events of one answer to model events.

    The fragments of each tool call are collected until the call is complete.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: dict[int, _PartialToolCall] = {}
        self._blocks = ThinkingBlockAssembler()
        self._replay_count = 0
        self._order: list[str] = []
        """The order of reasoning items, text and tool calls in the answer; see `worker_protocol.ITEM_ORDER`."""

        self.char_count = 0
        """Characters received so far."""

    def feed(self, event: worker_protocol.WorkerEvent) -> Iterator[ModelEvent]:
        """Convert a worker event to model events; `WorkerFinished` completes the tool calls.

        Raises ModelError if the answer contains too many tool calls.
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
            yield ThinkingDelta("", self._encode_replay())  # now with the order of later items
        if isinstance(event, worker_protocol.WorkerTextDelta):
            self.char_count += len(event.text)
            if "t" not in self._order:
                self._order.append("t")
            yield TextDelta(event.text)
        elif isinstance(event, worker_protocol.WorkerToolCallDelta):
            self.char_count += len(event.text) + len(event.name) + len(event.tool_call_id) + 1
            yield from self._add_tool_call(event)
        elif isinstance(event, worker_protocol.WorkerFinished):
            named = [call for call in self._calls.values() if call.name]
            for call in named:
                yield ToolUseReady(call.build())
            yield StreamFinished(self._finish_reason(event.reason, len(named)), make_usage(event), event.api_route)

    def _finish_reason(self, reason: str, named_count: int) -> str:
        """Return LOST_CALL_REASON if a tool call was lost, otherwise *reason* or, if that is empty, "stop".

        A call was lost if *reason* announces tool calls, but none arrived with a name. A call that arrived without a
        name was lost, too, unless *reason* is a special one, such as a length limit. *named_count* is the number of
        calls with a name.
        """
        has_nameless = any(not call.name and (call.provider_id or any(call.pieces)) for call in self._calls.values())
        if (reason in _CALL_REASONS and not named_count) or (reason in ("", "stop", *_CALL_REASONS) and has_nameless):
            return worker_protocol.LOST_CALL_REASON
        return reason or "stop"

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
        if call is None:
            if len(self._calls) >= MAX_TOOL_CALLS:
                raise ModelError(
                    f"The model asked for more than {MAX_TOOL_CALLS} tool calls in one answer; none of them ran.",
                    "Ask for less at once.",
                )
            call = self._calls[piece.index] = _PartialToolCall()
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
    """A tool call that is still being received."""

    def __init__(self) -> None:
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
    """Parse the arguments of a tool call; return None if the text is not a JSON object.

    Blank text is treated as an empty object.
    """
    if not raw.strip():
        return {}
    value = loads_or_none(raw)
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


class ThinkingBlockAssembler:
    """Incremental assembler for the reasoning blocks of one streamed answer.

    The text of a block arrives first and its signature last, sometimes together with a second copy of the complete
    text.
    """

    def __init__(self) -> None:
        self._blocks: list[Json] = []
        self._texts: list[str] = []
        self.has_new_signature = False
        """Whether a signature has arrived since `signed_blocks` was last called."""

    def add(self, piece: Json) -> int:
        """Add a piece of a reasoning block, and return the approximate size of the piece in characters."""
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
        """Return the signed blocks, which the next request must send back to the provider."""
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
