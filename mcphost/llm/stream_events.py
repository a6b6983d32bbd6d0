"""Conversion of litellm's Chat Completions chunks to worker events, and the summary of a stream.

This module runs in the worker process and does no I/O.
"""

from typing import Any, cast

from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import parse_token_count
from mcphost.serialization import replace

RETAINED_CHUNKS = 64
"""Number of chunks that litellm may keep from each end of an answer; without a limit, it keeps all, at 5 kB each."""
_RETAINED_CHARS = 64 * 1024


class StreamSummary:
    """Data collected during a stream for its last event, WorkerFinished."""

    def __init__(self, call_id: int, api_route: str) -> None:
        self.call_id = call_id
        self.api_route = api_route
        self.reason = ""
        self.has_content = False
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.cache_write_tokens = 0
        self.char_count = 0
        self.is_estimated = False
        """Whether litellm's own token count is incomplete, because chunks were deleted."""

    def set_usage(self, usage: Any) -> None:
        """Store the token counts from the usage report in a chunk."""
        details = getattr(usage, "prompt_tokens_details", None)
        self.set_counts(
            getattr(usage, "prompt_tokens", 0),
            getattr(usage, "completion_tokens", 0),
            getattr(details, "cached_tokens", 0),
            getattr(details, "cache_creation_tokens", 0),
        )

    def set_counts(self, sent: object, received: object, cached: object, written: object = 0) -> None:
        """Store the reported numbers of input, output, cached and newly cached tokens; an invalid number counts as 0.

        The sum of both cached counts is limited to the number of input tokens, because more would make the cost
        negative.
        """
        self.input_tokens, self.output_tokens = parse_token_count(sent), parse_token_count(received)
        self.cached_tokens = min(parse_token_count(cached), self.input_tokens)
        self.cache_write_tokens = min(parse_token_count(written), self.input_tokens - self.cached_tokens)

    def to_event(self, cost: float | None, uncached_cost: float | None = None) -> worker_protocol.WorkerFinished:
        """Return the event that ends the stream, with the collected token counts and *cost* in US dollars.

        *uncached_cost* is the amount that the answer would have cost without the provider's cache.
        """
        return worker_protocol.WorkerFinished(
            call_id=self.call_id,
            reason=self.reason,
            api_route=self.api_route,
            cost=cost,
            input_tokens=self.input_tokens,
            output_tokens=max(self.output_tokens, self.char_count // 6) if self.is_estimated else self.output_tokens,
            cached_tokens=self.cached_tokens,
            saved=max(0.0, uncached_cost - cost) if cost is not None and uncached_cost is not None else 0,
        )


def make_events(call_id: int, summary: StreamSummary, chunk: Any) -> list[worker_protocol.WorkerEvent]:
    """Convert a litellm chunk to worker events, and update *summary*.

    *call_id* is the id of the command that requested the answer. Any part of the chunk may be missing or None.
    """
    notes: list[worker_protocol.WorkerEvent] = []
    if usage := getattr(chunk, "usage", None):
        summary.set_usage(usage)
    choices: list[Any] = getattr(chunk, "choices", None) or []
    for choice in choices[:1]:
        summary.reason = getattr(choice, "finish_reason", None) or summary.reason
        delta = getattr(choice, "delta", None)
        thinking = getattr(delta, "reasoning_content", None) or ""
        blocks = to_plain_blocks(getattr(delta, "thinking_blocks", None))
        if thinking or blocks:
            notes.append(worker_protocol.WorkerThinkingDelta(call_id, str(thinking), blocks))
        if text := getattr(delta, "content", None):
            notes.append(worker_protocol.WorkerTextDelta(call_id, str(text)))
        pieces: list[Any] = getattr(delta, "tool_calls", None) or []
        for piece in pieces:
            function = getattr(piece, "function", None)
            notes.append(
                worker_protocol.WorkerToolCallDelta(
                    call_id,
                    parse_token_count(getattr(piece, "index", 0)),
                    str(getattr(piece, "id", None) or ""),
                    str(getattr(function, "name", None) or ""),
                    str(getattr(function, "arguments", None) or ""),
                )
            )
    return notes


class SurrogateJoiner:
    """Joiner of characters whose halves (UTF-16 surrogates) arrive in two pieces of text.

    Some servers cut their text between UTF-16 code units. A first half at the very end of an answer is dropped.
    """

    def __init__(self) -> None:
        self._halves: dict[type, str] = {}

    def join(self, event: worker_protocol.WorkerEvent) -> worker_protocol.WorkerEvent:
        """Return *event* with the half of a character that is left over from an earlier event put before its text.

        The earlier event has the same type. A first half at the end of the text is removed, and kept for the next
        event.
        """
        if not isinstance(event, worker_protocol.WorkerTextDelta | worker_protocol.WorkerThinkingDelta):
            return event
        half = self._halves.pop(type(event), "")
        if not event.text or (not half and not "\ud800" <= event.text[-1] <= "\udbff"):
            if half:
                self._halves[type(event)] = half
            return event
        text = half + event.text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._halves[type(event)] = text[:-1], text[-1]
        return replace(event, text=text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def trim_chunks(stream: Any) -> bool:
    """Delete most of the chunks that litellm accumulates for logs and token counts, to limit memory use.

    The first and last chunks and the latest usage report are kept. Returns True if anything was deleted.
    """
    if len(getattr(stream, "_generated_content", "")) > _RETAINED_CHARS:
        stream._generated_content = ""  # of the Responses API; litellm copies the list for each added delta
        return True
    value: Any = getattr(stream, "chunks", None)
    chunks = cast("list[Any]", value) if isinstance(value, list) else []
    if len(chunks) < 4 * RETAINED_CHUNKS:
        return False
    middle = chunks[RETAINED_CHUNKS:-RETAINED_CHUNKS]
    chunks[RETAINED_CHUNKS:-RETAINED_CHUNKS] = [chunk for chunk in middle if getattr(chunk, "usage", None) is not None][
        -1:
    ]
    stream.response_uptil_now = ""  # litellm copies the list for each added delta
    return True


def to_plain_blocks(blocks: Any) -> tuple[dict[str, Any], ...]:
    """Convert litellm's content blocks to dicts."""
    plain: list[dict[str, Any]] = []
    for block in blocks or ():
        if isinstance(block, dict):
            plain.append(cast("dict[str, Any]", block))
        elif hasattr(block, "model_dump"):
            plain.append(block.model_dump())
    return tuple(plain)
