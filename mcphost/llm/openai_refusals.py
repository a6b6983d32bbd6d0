"""Refusals of OpenAI's models: passed on as text and noted, because litellm 1.105 drops them in both APIs."""

from collections.abc import Callable
from typing import Any, cast

REFUSED = "mcphost_refused"
"""The attribute of a stream that says that the model refused to answer."""
Json = dict[str, Any]


def watch_refusals(chat: Any, responses: Any) -> None:
    """Have litellm's classes of streams, one for each API, pass on what a model refuses with."""
    _run_first(chat, "chunk_creator", _take_chat)
    _run_first(responses, "chunk_parser", _take_responses)


def is_refused(stream: Any) -> bool:
    """Return whether the model refused: litellm says `stop` also then."""
    return any(getattr(one, REFUSED, False) for one in (stream, getattr(stream, "completion_stream", None)))


def _run_first(kind: Any, name: str, step: Callable[[Any, Any], Any]) -> None:
    """Let a method of one chunk see the chunk as `step` returns it."""
    method = getattr(kind, name)

    def run(self: Any, chunk: Any) -> Any:
        return method(self, step(self, chunk))

    setattr(kind, name, run)


def _take_chat(stream: Any, chunk: Any) -> Any:
    """Chat Completions: `delta.refusal` becomes `delta.content`."""
    choices: list[Any] = getattr(chunk, "choices", None) or []
    for choice in choices[:1]:
        delta = getattr(choice, "delta", None)
        refusal = getattr(delta, "refusal", None)
        if isinstance(refusal, str) and refusal and not getattr(delta, "content", None):
            setattr(stream, REFUSED, True)
            cast("Any", delta).content = refusal
    return chunk


def _take_responses(stream: Any, chunk: Any) -> Any:
    """Responses: an event `response.refusal.delta` becomes one of output text."""
    if not isinstance(chunk, dict):
        return chunk
    event = cast("Json", chunk)
    if getattr(event.get("type"), "value", event.get("type")) != "response.refusal.delta":
        return event
    setattr(stream, REFUSED, True)
    return {**event, "type": "response.output_text.delta"}
