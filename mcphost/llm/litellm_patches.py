"""Patches for the worker process that work around litellm's defects and make httpx reject redirects.

litellm 1.105 drops refusals from OpenAI's models in Chat Completions; a patch passes them on as text and marks
the stream as refused. litellm 1.110 drops a tool call whose index, id or type has the wrong JSON type; another
patch corrects these members. In Anthropic's format, litellm loses arguments of tool calls or assigns them to the wrong
call, which a patch prevents. Other patches accept invalid token counts, record Gemini's finish reasons, add the
names of the tools to tool results for Ollama, and keep arguments named `strict`.

A request contains the user's API key and the entire conversation. If httpx followed a redirect to another
origin, it would remove only the `Authorization` header; it would still send the headers that contain the key
for Anthropic or Gemini. Therefore, every redirect is rejected.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.llm.answer_limits import ProxyUnusable, RedirectRefused, parse_token_count
from mcphost.proxies import proxy_for
from mcphost.serialization import as_object, dumps, is_number

FINISH_REASON_ATTRIBUTE = "mcphost_gave_reason"
"""Name of an attribute of Gemini streams, which is True if the provider gave a finish reason."""
BAD_CALL_ATTRIBUTE = "mcphost_bad_call"
"""Name of an attribute of Gemini streams, which is True if the model tried to call a tool in the wrong form."""
BAD_CALL_REASONS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})
"""Gemini's finish reasons for a tool call in the wrong form, which litellm reports as `stop`.

See ai.google.dev/api/generate-content#FinishReason.
"""
REFUSED_ATTRIBUTE = "mcphost_refused"
"""Name of the attribute that marks a stream in which the model refused to answer."""
LOST_CALL_ATTRIBUTE = "mcphost_lost_call"
"""Name of the attribute that marks a stream with a tool call that cannot be read."""
TOOL_BLOCKS_ATTRIBUTE = "mcphost_tool_blocks"
"""Name of the attribute of Anthropic streams with the tool calls by the index of their block."""
Json = dict[str, Any]


def patch_litellm() -> None:
    """Apply all patches to litellm, which must be imported already."""
    patch_usage()
    patch_gemini_finish_reasons()
    patch_openai_streams()
    patch_anthropic_streams()
    patch_ollama_requests()
    patch_strict_removal()
    patch_cost_calculation()


def patch_cost_calculation() -> None:
    """Patch litellm not to compute a cost at the beginning of each answer.

    To compute this cost, litellm 1.110 would load a tokenizer and count the tokens of a stream that has no tokens yet.
    Both would take a fifth of the time from the start of the worker to the first answer. The cost is not needed,
    because the worker computes costs from the final token counts.
    """
    with suppress(ImportError, AttributeError):
        from litellm.litellm_core_utils import litellm_logging

        kind: Any = litellm_logging.Logging
        for name in ("response_cost_calculator", "_response_cost_calculator"):
            if hasattr(kind, name):
                setattr(kind, name, _compute_nothing)


def _compute_nothing(*_arguments: object, **_named: object) -> None:
    """Return None, which litellm treats as an unknown cost."""


def patch_usage() -> None:
    """Patch litellm's Usage class to accept invalid token counts, which would otherwise make the answer fail."""
    from litellm.types import utils

    kind: Any = utils.Usage
    original = kind.__init__

    def initialize(self: Any, *args: Any, **members: Any) -> None:
        original(self, *args, **{name: sanitize_usage(name, value) for name, value in members.items()})

    kind.__init__ = initialize


def patch_gemini_finish_reasons() -> None:
    """Patch litellm to record, for each Gemini stream, whether the provider gave a finish reason.

    litellm 1.105 reports `stop` for every chunk without a finish reason, so the chunks do not show that a stream was
    cut off.
    """
    with suppress(ImportError, AttributeError):
        from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as gemini

        kind: Any = gemini.ModelResponseIterator
        parse = kind.chunk_parser

        def parse_and_note(self: Any, chunk: Any) -> Any:
            setattr(
                self, FINISH_REASON_ATTRIBUTE, getattr(self, FINISH_REASON_ATTRIBUTE, False) or has_finish_reason(chunk)
            )
            if not BAD_CALL_REASONS.isdisjoint(_finish_reasons(chunk)):
                setattr(self, BAD_CALL_ATTRIBUTE, True)
            return parse(self, chunk)

        kind.chunk_parser = parse_and_note


def _finish_reasons(chunk: Any) -> list[str]:
    candidates: Any = as_object(chunk).get("candidates")
    items: list[Any] = cast("list[Any]", candidates) if isinstance(candidates, list) else []
    return [str(cast("Json", item).get("finishReason")) for item in items if isinstance(item, dict)]


def has_finish_reason(chunk: Any) -> bool:
    """Return whether a raw Gemini chunk has a `finishReason`, or reports that the prompt was blocked."""
    if not isinstance(chunk, dict):
        return False
    members = cast("dict[str, Any]", chunk)
    candidates, feedback = members.get("candidates"), members.get("promptFeedback")
    items: list[Any] = cast("list[Any]", candidates) if isinstance(candidates, list) else []
    ended = any(isinstance(item, dict) and bool(cast("dict[str, Any]", item).get("finishReason")) for item in items)
    return ended or (isinstance(feedback, dict) and "blockReason" in feedback)


def sanitize_usage(name: str, value: Any) -> Any:
    """Return *value*, the member *name* of a usage report, with invalid parts replaced.

    Invalid token counts become 0; invalid costs and detail objects become None. In a dict, only members that
    are numbers or dicts are kept, and the numbers are treated as token counts. Other values are returned
    unchanged.
    """
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            key: sanitize_usage("_tokens", member)
            for key, member in members.items()
            if isinstance(member, int | float | dict)
        }
    if name == "cost":
        return value if is_number(value) and value >= 0 else None
    if name.endswith("_details") or name == "server_tool_use":
        return value if hasattr(value, "model_dump") else None
    return parse_token_count(value) if name.endswith("_tokens") and value is not None else value


def patch_openai_streams() -> None:
    """Patch litellm to pass on refusals and tool calls in Chat Completions, and errors in the Responses API."""
    with suppress(ImportError, AttributeError):
        from litellm.litellm_core_utils import streaming_handler
        from litellm.responses import streaming_iterator

        patch_refusals(streaming_handler.CustomStreamWrapper)
        patch_tool_calls(streaming_handler.CustomStreamWrapper)
        patch_stream_errors(streaming_iterator.BaseResponsesAPIStreamingIterator)


def patch_refusals(chat: Any) -> None:
    """Patch *chat*, litellm's stream class for Chat Completions, to pass on a model's refusals as text."""
    _wrap_method(chat, "chunk_creator", _convert_chat_refusal)


def patch_tool_calls(chat: Any) -> None:
    """Patch *chat*, litellm's stream class for Chat Completions, to keep tool calls with invalid members.

    litellm 1.110 drops such a call without an error, and the answer then seems complete.
    """
    _wrap_method(chat, "chunk_creator", _repair_tool_calls)


def _repair_tool_calls(stream: Any, chunk: Any) -> Any:
    """Correct the tool calls in a chunk of the openai library; mark the stream if one of them cannot be read.

    An index that is not a number becomes 0. `ToolCallSplitter` later separates calls that have the same index.
    """
    choices: Any = getattr(chunk, "choices", None)
    for choice in cast("list[Any]", choices)[:1] if isinstance(choices, list) else []:
        delta: Any = getattr(choice, "delta", None)
        calls: Any = getattr(delta, "tool_calls", None)
        items = cast("list[Any]", calls) if isinstance(calls, list) else []
        kept = [call for call in items if _repair_tool_call(call)]
        if len(kept) < len(items) or (calls and not items):
            setattr(stream, LOST_CALL_ATTRIBUTE, True)
        if calls is not None and len(kept) < max(len(items), 1):
            delta.tool_calls = kept or None
        if (old_call := getattr(delta, "function_call", None)) is not None and not kept:
            if old_call and any(getattr(old_call, name, "") for name in ("name", "arguments")):
                setattr(stream, LOST_CALL_ATTRIBUTE, True)  # the form before tool calls; no request asks for it
            delta.function_call = None
    return chunk


def _repair_tool_call(call: Any) -> bool:
    """Give the members of a tool call the types that litellm expects; return False if that is not possible.

    *call* may be only a piece of a tool call. A piece without the member `function` gets an empty one, because the name
    may be in another piece. If no piece contains the name, `AnswerAssembler` reports the call as lost.
    """
    function: Any = getattr(call, "function", None)
    if function is None:
        if not hasattr(call, "model_dump"):
            return False
        from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCallFunction

        function = ChoiceDeltaToolCallFunction(name=None, arguments="")
        call.function = function
    if not hasattr(function, "name") or not isinstance(function.name, str | None):
        return False
    index, call_id = getattr(call, "index", None), getattr(call, "id", None)
    if isinstance(index, str) and index.isascii() and index.isdecimal() and len(index) < 10:
        call.index = int(index)
    elif type(index) is not int:
        call.index = 0
    if not isinstance(call_id, str | None):
        call.id = str(call_id)[:100]
    if getattr(call, "type", None) != "function":
        call.type = "function"
    return True


def is_call_lost(stream: Any) -> bool:
    """Return whether the provider sent a tool call that cannot be read, so that the answer is incomplete."""
    return bool(getattr(stream, LOST_CALL_ATTRIBUTE, False))


def patch_stream_errors(responses: Any) -> None:
    """Patch *responses*, litellm's stream class for the Responses API, to report error messages.

    litellm 1.105 looks for the message of an `error` event in a member named `error`, which OpenAI's events do not
    have.
    """
    _wrap_method(responses, "_maybe_raise_for_error_event", _nest_error)


def _nest_error(_stream: Any, event: Any) -> Any:
    if getattr(event, "type", None) == "error" and getattr(event, "error", None) is None:
        event.error = {name: getattr(event, name, None) for name in ("code", "message")}
    return event


def is_refused(stream: Any) -> bool:
    """Return whether the model refused to answer; litellm reports this as `stop`, like a normal end."""
    streams = (stream, getattr(stream, "completion_stream", None))
    return any(getattr(candidate, REFUSED_ATTRIBUTE, False) for candidate in streams)


def _wrap_method(kind: Any, name: str, transform: Callable[[Any, Any], Any]) -> None:
    """Wrap the method *name* of class *kind* so that each chunk first passes through *transform*."""
    method = getattr(kind, name)

    def run(self: Any, chunk: Any) -> Any:
        return method(self, transform(self, chunk))

    setattr(kind, name, run)


def _convert_chat_refusal(stream: Any, chunk: Any) -> Any:
    """Copy a refusal from `delta.refusal` to `delta.content`, and mark the stream as refused."""
    choices: list[Any] = getattr(chunk, "choices", None) or []
    for choice in choices[:1]:
        delta = getattr(choice, "delta", None)
        refusal = getattr(delta, "refusal", None)
        if isinstance(refusal, str) and refusal and not getattr(delta, "content", None):
            setattr(stream, REFUSED_ATTRIBUTE, True)
            cast("Any", delta).content = refusal
    return chunk


def patch_anthropic_streams() -> None:
    """Patch litellm to read all arguments of tool calls in the Messages API."""
    with suppress(ImportError, AttributeError):
        from litellm.llms.anthropic.chat import handler

        patch_tool_blocks(handler.ModelResponseIterator)


def patch_tool_blocks(anthropic: Any) -> None:
    """Patch *anthropic*, litellm's stream class for the Messages API, to assign arguments to the right tool call.

    litellm 1.110 assigns them to the call that began last, and drops arguments that arrive at the start of a call's
    block, as some servers other than Anthropic's send them. The call would then run without its arguments.
    """
    parse = anthropic.chunk_parser

    def parse_block(self: Any, chunk: Any) -> Any:
        members = as_object(chunk)
        kind, key = members.get("type"), str(members.get("index"))
        blocks: dict[str, _ToolBlock] = self.__dict__.setdefault(TOOL_BLOCKS_ATTRIBUTE, {})
        if kind == "content_block_start":
            blocks.pop(key, None)
            result = parse(self, chunk)
            start = as_object(members.get("content_block"))
            if start.get("type") == "tool_use":
                blocks[key] = _ToolBlock(self.tool_index, as_object(start.get("input")), self.content_blocks)
            return result
        block = blocks.get(key)
        if block is None or kind not in ("content_block_delta", "content_block_stop"):
            return parse(self, chunk)
        newest_block = next(reversed(blocks.values()))
        if block.is_complete and not newest_block.is_complete:  # some servers send the same index for all blocks
            block = newest_block
        if kind == "content_block_stop":
            block.is_complete = True
            if block.arguments:
                delta = {"type": "input_json_delta", "partial_json": dumps(block.arguments)}
                chunk = {"type": "content_block_delta", "index": members.get("index"), "delta": delta}
        if kind == "content_block_stop" or as_object(members.get("delta")).get("partial_json"):
            block.arguments = {}
        newest = self.tool_index, self.current_content_block_type, self.content_blocks
        self.tool_index, self.current_content_block_type, self.content_blocks = (
            block.tool_index,
            "tool_use",
            block.deltas,
        )
        try:
            return parse(self, chunk)
        finally:
            self.tool_index, self.current_content_block_type, self.content_blocks = newest
            if block.is_complete:
                block.deltas.clear()  # litellm reads them again at each end of the block

    anthropic.chunk_parser = parse_block


class _ToolBlock:
    """A tool call that is being received in the Messages API.

    `tool_index` is litellm's index of the call. `arguments` arrived when the call began; they are used only if no
    arguments arrive later. `deltas` are the pieces of arguments that arrived; if all of them are empty at the end of a
    call, litellm adds `{}`.
    """

    def __init__(self, tool_index: int, arguments: Json, deltas: list[Any]) -> None:
        self.tool_index = tool_index
        self.arguments = arguments
        self.deltas = deltas
        self.is_complete = False


def patch_ollama_requests() -> None:
    """Patch litellm to include the tool's name in each tool result for Ollama, and to report Ollama's errors."""
    with suppress(ImportError, AttributeError):
        from litellm.llms.ollama.chat.transformation import (
            OllamaChatCompletionResponseIterator,
            OllamaChatConfig,
            OllamaError,
        )

        patch_tool_names(OllamaChatConfig)
        _wrap_method(OllamaChatCompletionResponseIterator, "chunk_parser", partial(_check_ollama_chunk, OllamaError))


def _check_ollama_chunk(error_class: Any, _stream: Any, chunk: Any) -> Any:
    """Raise the error that Ollama has sent as a line of the answer; return any other chunk unchanged.

    *error_class* is the class of the exception. Without this patch, litellm 1.110 would report that a key is missing in
    the JSON, instead of Ollama's error.
    """
    problem: Any = as_object(chunk).get("error")
    if isinstance(problem, str):
        raise error_class(status_code=500, message=problem, headers={})
    return chunk


def patch_tool_names(ollama: Any) -> None:
    """Patch *ollama*, litellm's class for Ollama's chat API, to include the tool's name in each tool result.

    Chat templates use the name (`tool_name` in Ollama's API reference); litellm 1.110 sends only the id of the call.
    """
    transform = ollama.transform_request

    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        request = transform(self, *arguments, **named)
        names: Json = {}
        for message in request["messages"]:
            names |= {call.get("id"): call["function"]["name"] for call in message.get("tool_calls") or ()}
            if message["role"] == "tool" and message.get("tool_call_id") in names:
                message["tool_name"] = names[message["tool_call_id"]]
        return request

    ollama.transform_request = run


def patch_strict_removal() -> None:
    """Patch litellm to keep tool arguments that are named `strict`.

    For Gemini, vLLM and watsonx, litellm 1.110 removes OpenAI's member `strict` from tools. It also removes
    every other member with this name.
    """
    with suppress(ImportError, AttributeError):
        from litellm.llms.hosted_vllm.chat import transformation as vllm
        from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as gemini
        from litellm.llms.watsonx.chat import transformation as watsonx

        modules: tuple[Any, ...] = (gemini, vllm, watsonx)
        for module in modules:
            if hasattr(module, "remove_strict_from_schema"):
                module.remove_strict_from_schema = remove_strict_flags


def remove_strict_flags(value: Any) -> Any:
    """Remove every member named `strict` whose value is a boolean from a JSON value, in place.

    Returns the value.
    """
    if isinstance(value, dict):
        members = cast("Json", value)
        if isinstance(members.get("strict"), bool):
            del members["strict"]
        for member in members.values():
            remove_strict_flags(member)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            remove_strict_flags(item)
    return cast("Any", value)


def refuse_redirects(async_client: Any, sync_client: Any) -> None:
    """Patch `httpx.AsyncClient` and `httpx.Client` to raise RedirectRefused for every redirect."""
    send, send_blocking = async_client.send, sync_client.send

    async def send_without_redirects(self: Any, request: Any, **options: Any) -> Any:
        response = await send(self, request, **{**options, "follow_redirects": False})
        if response.has_redirect_location:
            await response.aclose()
            raise _redirect_error(response)
        return response

    def send_blocking_without_redirects(self: Any, request: Any, **options: Any) -> Any:
        response = send_blocking(self, request, **{**options, "follow_redirects": False})
        if response.has_redirect_location:
            response.close()
            raise _redirect_error(response)
        return response

    async_client.send, sync_client.send = send_without_redirects, send_blocking_without_redirects


def check_proxies(client: Any) -> None:
    """Patch a client class (`httpx.AsyncClient`) to send nothing if the environment sets an unusable proxy.

    litellm 1.110 speaks HTTP to a SOCKS proxy, and ignores a proxy without a host.
    """
    send = client.send

    async def send_checked(self: Any, request: Any, **options: Any) -> Any:
        try:
            proxy_for(str(request.url))
        except MalformedMessage as error:
            raise ProxyUnusable(str(error)) from None
        return await send(self, request, **options)

    client.send = send_checked


def _redirect_error(response: Any) -> RedirectRefused:
    host, place = response.request.url.host, response.headers["location"][:200]
    return RedirectRefused(f"The provider at {host} redirects to {place!a}, which was not followed.")
