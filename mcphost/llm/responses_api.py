"""Conversion between Chat Completions and OpenAI's Responses API.

Requests are converted from Chat Completions JSON, and the API's events are converted to worker events.
litellm's own conversion loses data that this API expects back: it moves all reasoning items before the text and
the tool calls, drops their summaries, and replaces the call ids. This module runs in the worker process and
does no I/O.

See https://platform.openai.com/docs/api-reference/responses and .../responses-streaming.
"""

import re
from collections.abc import Iterator
from typing import Any

from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import parse_token_count
from mcphost.llm.stream_events import StreamSummary, to_plain_blocks
from mcphost.serialization import dumps

Json = dict[str, Any]
_CHAT_ONLY = (
    "messages",
    "tools",
    "stream_options",
    "max_tokens",
    "reasoning_effort",
    "allowed_openai_params",
    "response_format",
)

_SUMMARY_PATTERN = re.compile(r"\bsummar(?:y|ies)\b", re.IGNORECASE)


def refuses_summary(message: str) -> bool:
    """Return whether a request failed because the provider does not allow a summary of the reasoning.

    *message* is the error message, for example "Your organization must be verified to generate reasoning
    summaries" from OpenAI.
    """
    return _SUMMARY_PATTERN.search(message) is not None


def make_responses_arguments(chat: Json, *, is_summarized: bool = False) -> Json:
    """Convert arguments for litellm's Chat Completions function to those for its Responses API function.

    If *is_summarized* is set, a summary of the reasoning is requested. OpenAI's models disclose their reasoning
    only as a summary.
    """
    arguments = {name: value for name, value in chat.items() if name not in _CHAT_ONLY}
    arguments["model"] = str(chat["model"]).replace("responses/", "", 1)
    messages: list[Json] = chat["messages"]
    if messages and messages[0]["role"] == "system":
        arguments["instructions"] = messages[0]["content"]
    arguments["input"] = [item for message in messages for item in make_input_items(message)]
    if tools := chat.get("tools"):
        # If `strict` is missing, OpenAI treats schemas as strict and refuses those that MCP servers write.
        arguments["tools"] = [{"type": "function", **tool["function"], "strict": False} for tool in tools]
    if limit := chat.get("max_tokens"):
        arguments["max_output_tokens"] = limit
    effort = chat.get("reasoning_effort")
    if reasoning := ({"effort": effort} if effort else {}) | ({"summary": "auto"} if is_summarized else {}):
        arguments["reasoning"] = reasoning
    if answer := chat.get("response_format"):
        arguments["text"] = {"format": {"type": "json_schema", **answer["json_schema"]}}
    # OpenAI stores responses for a month unless `store` is false; then reasoning comes encrypted, to be sent back.
    return {**arguments, "store": False, "include": ["reasoning.encrypted_content"]}


def make_input_items(message: Json) -> Iterator[Json]:
    """Yield the Responses API input items for a Chat Completions message; a system message yields none."""
    match message["role"]:
        case "user":
            yield {"type": "message", "role": "user", "content": _input_content(message["content"])}
        case "tool":
            content = message["content"]
            output = content if isinstance(content, str) else _input_content(content)
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}
        case "assistant":
            yield from _assistant_items(message)
        case _:
            return


def _input_content(content: str | list[Json]) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [_input_part(part) for part in content]


def _input_part(part: Json) -> Json:
    match part["type"]:
        case "image_url":
            return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
        case "file":
            return {"type": "input_file", **part["file"]}
        case _:
            return {"type": "input_text", "text": part["text"]}


def _assistant_items(message: Json) -> Iterator[Json]:
    """Yield the reasoning, text and tool calls of an answer, if possible in their original order."""
    text: str = message.get("content") or ""
    reasoning: list[Json] = list(message.get("reasoning_items") or ())
    written: Json = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    waiting = {"r": reasoning, "t": [written] if text else [], "c": [_call_item(call) for call in _calls(message)]}
    order = str(message.get(worker_protocol.ITEM_ORDER) or "") if reasoning else ""
    for kind in order + "r" * len(reasoning) + "t" + "c" * len(waiting["c"]):
        if items := waiting.get(kind):
            yield items.pop(0)


def _calls(message: Json) -> list[Json]:
    return message.get("tool_calls") or []


def _call_item(call: Json) -> Json:
    function: Json = call["function"]
    return {
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
    }


def _members(value: Any) -> Json:
    """Return the members of a litellm object as a dict, or {} for any other value."""
    return dict(*to_plain_blocks([value]))


def _encode_arguments(arguments: Any) -> str:
    """Return the arguments of a tool call as JSON text; some servers send them as an object."""
    return dumps(arguments) if isinstance(arguments, dict) else str(arguments or "")


class _Call:
    """A tool call in a response: whether its item, any of its arguments, and its complete item have arrived."""

    def __init__(self) -> None:
        self.id = ""
        self.has_begun = self.has_arguments = self.is_done = False


class ResponsesStream:
    """Converter from the events of one streamed response to worker events.

    The finish reason and the token counts are stored in *summary*.
    """

    def __init__(self, call_id: int, summary: StreamSummary) -> None:
        self._call_id = call_id
        self._summary = summary
        self._texts: set[int] = set()
        self._calls: dict[int, _Call] = {}
        """The tool call at each index that had the latest event."""

        self._calls_by_id: dict[tuple[int, str], _Call] = {}
        self._has_summary = False
        self.is_refused = False

    def make_events(self, event: Any) -> list[worker_protocol.WorkerEvent]:
        """Convert a litellm event to worker events.

        Any member of the event may be missing; unknown events are ignored.
        """
        kind = str(getattr(getattr(event, "type", ""), "value", getattr(event, "type", "")))
        index = parse_token_count(getattr(event, "output_index", 0))
        delta = str(getattr(event, "delta", "") or "")
        match kind.removeprefix("response."):
            case "output_text.delta" | "refusal.delta":
                self.is_refused |= kind.endswith("refusal.delta")
                return self._add_text(index, delta)
            case "reasoning_summary_text.delta" | "reasoning_text.delta":
                self._has_summary = True
                return [worker_protocol.WorkerThinkingDelta(self._call_id, delta)] if delta else []
            case "reasoning_summary_part.added" if self._has_summary:
                return [worker_protocol.WorkerThinkingDelta(self._call_id, "\n\n")]
            case "function_call_arguments.delta" if delta:
                return self._add_arguments(index, self._calls.setdefault(index, _Call()), delta)
            case "function_call_arguments.done" if (call := self._calls.get(index)) and not call.has_arguments:
                return self._add_arguments(index, call, _encode_arguments(getattr(event, "arguments", None)))
            case "output_item.added" | "output_item.done":
                return self._read_item(index, getattr(event, "item", None), is_done=kind.endswith("done"))
            case "completed" | "incomplete":
                response = getattr(event, "response", None)
                items = self._read_unseen_items(response)
                self._read_end(response, is_complete=kind.endswith(".completed"))
                return items
            case _:
                pass
        return []

    def _read_item(self, index: int, item: Any, *, is_done: bool) -> list[worker_protocol.WorkerEvent]:
        members = _members(item)
        match members.get("type"):
            case "reasoning" if is_done and members.get("encrypted_content"):
                kept = {name: value for name, value in members.items() if value is not None and name != "status"}
                return [worker_protocol.WorkerThinkingDelta(self._call_id, "", ({"summary": [], **kept},))]
            case "function_call":
                return self._read_call(index, members, is_done=is_done)
            case "message" if is_done and index not in self._texts:
                content: list[Any] = members.get("content") or []
                parts = to_plain_blocks(content)
                self.is_refused |= any(part.get("type") == "refusal" for part in parts)
                texts = (str(part.get("text") or part.get("refusal") or "") for part in parts)
                return self._add_text(index, "".join(texts))
            case _:
                return []

    def _read_call(self, index: int, members: Json, *, is_done: bool) -> list[worker_protocol.WorkerEvent]:
        """Return the worker events for a tool call that begins or, if *is_done* is set, has been received completely.

        If a new call begins with the index of an earlier one, `ToolCallSplitter` later gives it an index of its own.
        """
        call_id = str(members.get("call_id") or "")
        call = self._find_call(index, call_id, is_done=is_done)
        self._calls_by_id.setdefault((index, call_id), call)
        call.is_done |= is_done
        arguments = _encode_arguments(members.get("arguments")) if is_done and not call.has_arguments else ""
        if call.has_begun:
            return self._add_arguments(index, call, arguments)
        self._calls[index] = call
        call.id, call.has_begun, call.has_arguments = call_id, True, call.has_arguments or bool(arguments)
        name = str(members.get("name") or "")
        return [worker_protocol.WorkerToolCallDelta(self._call_id, index, call_id, name, arguments)]

    def _find_call(self, index: int, call_id: str, *, is_done: bool) -> _Call:
        """Return the call of an item, a new one if the item begins a call; see `_read_call`.

        Some servers give all calls the same index, complete them only at the end, or omit or change their ids.
        """
        latest = self._calls.get(index, _Call())
        if not latest.has_begun:  # no call, or arguments that arrived before their item
            return latest
        if call_id and (known := self._calls_by_id.get((index, call_id))):
            return known
        return latest if not latest.is_done and (is_done or not call_id) else _Call()

    def _add_arguments(self, index: int, call: _Call, arguments: str) -> list[worker_protocol.WorkerEvent]:
        """Return the worker events for a piece of a call's arguments, or for all of them."""
        if not arguments:
            return []
        call_id = "" if self._calls.get(index) is call else call.id
        self._calls[index] = call
        call.has_arguments = True
        return [worker_protocol.WorkerToolCallDelta(self._call_id, index, call_id, text=arguments)]

    def _read_unseen_items(self, response: Any) -> list[worker_protocol.WorkerEvent]:
        """Return the worker events for the texts and tool calls in *response*, with which the stream ends.

        Returns [] if texts or calls have already arrived in earlier events. Some servers other than OpenAI's send them
        only at the end.
        """
        if self._texts or self._calls:
            return []
        events: list[worker_protocol.WorkerEvent] = []
        for index, item in enumerate(to_plain_blocks(getattr(response, "output", None))):
            if item.get("type") != "reasoning":
                events += self._read_item(index, item, is_done=True)
        return events

    def _add_text(self, index: int, text: str) -> list[worker_protocol.WorkerEvent]:
        """Return the worker events for a piece of text.

        *index* is the position of the text's message in the response. The texts of consecutive messages are separated
        by a blank line.
        """
        if not text:
            return []
        is_another = bool(self._texts) and index not in self._texts
        self._texts.add(index)
        return [worker_protocol.WorkerTextDelta(self._call_id, f"\n\n{text}" if is_another else text)]

    def _read_end(self, response: Any, *, is_complete: bool) -> None:
        """Store the finish reason and the token counts of the response in the summary.

        *is_complete* is False if the provider cut the answer off, either at its length limit or because of a content
        filter.
        """
        if is_complete:
            self._summary.reason = "tool_calls" if self._calls else "content_filter" if self.is_refused else "stop"
        else:
            details = _members(getattr(response, "incomplete_details", None))
            self._summary.reason = "content_filter" if details.get("reason") == "content_filter" else "length"
        usage = getattr(response, "usage", None)
        cached = getattr(getattr(usage, "input_tokens_details", None), "cached_tokens", 0)
        self._summary.set_counts(getattr(usage, "input_tokens", 0), getattr(usage, "output_tokens", 0), cached)
