"""Refusals of OpenAI's models: passed on as text and noted, because litellm 1.105 drops them in both APIs."""

from collections.abc import Callable
from typing import Any, cast

REFUSED_ATTRIBUTE = "mcphost_refused"
"""The attribute of a stream that says that the model refused to answer."""
Json = dict[str, Any]


def patch_refusals(chat: Any, responses: Any) -> None:
    """Have litellm's classes of streams, one for each API, pass on what a model refuses with."""
    _wrap_method(chat, "chunk_creator", _convert_chat_refusal)
    _wrap_method(responses, "chunk_parser", _convert_responses_refusal)


def is_refused(stream: Any) -> bool:
    """Return whether the model refused: litellm says `stop` also then."""
    return any(getattr(one, REFUSED_ATTRIBUTE, False) for one in (stream, getattr(stream, "completion_stream", None)))


def _wrap_method(kind: Any, name: str, transform: Callable[[Any, Any], Any]) -> None:
    """Let a method of one chunk see the chunk as `step` returns it."""
    method = getattr(kind, name)

    def run(self: Any, chunk: Any) -> Any:
        return method(self, transform(self, chunk))

    setattr(kind, name, run)


def _convert_chat_refusal(stream: Any, chunk: Any) -> Any:
    """Chat Completions: `delta.refusal` becomes `delta.content`."""
    choices: list[Any] = getattr(chunk, "choices", None) or []
    for choice in choices[:1]:
        delta = getattr(choice, "delta", None)
        refusal = getattr(delta, "refusal", None)
        if isinstance(refusal, str) and refusal and not getattr(delta, "content", None):
            setattr(stream, REFUSED_ATTRIBUTE, True)
            cast("Any", delta).content = refusal
    return chunk


def _convert_responses_refusal(stream: Any, chunk: Any) -> Any:
    """Responses: an event `response.refusal.delta` becomes one of output text."""
    if not isinstance(chunk, dict):
        return chunk
    event = cast("Json", chunk)
    if getattr(event.get("type"), "value", event.get("type")) != "response.refusal.delta":
        return event
    setattr(stream, REFUSED_ATTRIBUTE, True)
    return {**event, "type": "response.output_text.delta"}
