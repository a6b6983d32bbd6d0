"""Protocol between the host and the worker process: one JSON value per line, in both directions.

The host sends `WorkerCommand`s, and the worker sends `WorkerEvent`s. There is no reply to the command `stop`: the
worker closes the connection to the provider and sends no more events with the id of the stopped command.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal, cast

from mcphost.llm.answer_limits import AnswerTooLong
from mcphost.serialization import Raw, Struct, decode, encode, replace

NO_CALL_ID = 0
"""Call id of events that belong to no command; they report that the worker is ready, or failed to start."""


class CompletionRequest(Struct, frozen=True, kw_only=True):
    """A request to a model; `messages` and `tools` are Chat Completions JSON.

    `api_key` is used for this request only.
    """

    model: str
    messages: Raw
    tools: Raw = Raw(b"[]")
    api_key: str = ""
    api_base: str = ""
    max_tokens: int = 0
    tool_choice: str = ""
    is_parallel: bool = True
    temperature: float | None = None
    top_p: float | None = None
    drops_unsupported: bool = False
    """Whether to drop parameters that the provider does not support, instead of failing."""

    headers: dict[str, str] = {}  # noqa: RUF012
    reasoning_effort: str = ""
    answer_schema: Raw = Raw(b"null")
    """JSON Schema that the provider must enforce for the answer; null for none."""

    api: Literal["auto", "chat", "responses"] = "auto"
    """The OpenAI API to use; "auto" uses Responses for reasoning models at OpenAI and Azure."""

    context_window: int = 0
    """Size of the context in tokens to request from Ollama, or 0 for the server's own default."""


class WorkerCommand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command from the host to the worker."""

    op: Literal["stream", "stop", "facts"]
    call_id: int
    model: str = ""
    request: CompletionRequest | None = None


class CallFailure(Struct, frozen=True, kw_only=True):
    """An exception that made a command fail, as plain data.

    - `status`: the HTTP status, or 0 if there is none.
    - `class_names`: the qualified class names of the exception and its causes, outermost first.
    - `retry_after`: the delay in seconds that the provider requests before a retry, or None.
    """

    status: int = 0
    class_names: tuple[str, ...] = ()
    message: str = ""
    retry_after: float | None = None


ITEM_ORDER = "item_order"
"""Member of a message with the order of its output items: `r` for reasoning, `t` for text, `c` for a tool call."""


LOST_CALL_REASON = "lost_call"
"""Finish reason reported if the provider sent a tool call that cannot be read."""


RENAMES_ARGUMENTS = "renames_arguments"
"""Member of a tool whose arguments must have names that every provider accepts; it is not sent to the provider."""


class WorkerReady(Struct, frozen=True, tag="ready"):
    """Event that the worker sends once it has imported litellm."""

    call_id: int
    version: str


class WorkerTextDelta(Struct, frozen=True, tag="text"):
    """A piece of the answer's text."""

    call_id: int
    text: str


class WorkerThinkingDelta(Struct, frozen=True, tag="thinking"):
    """A piece of reasoning; `blocks` are pieces of the provider's reasoning blocks, for use in later requests."""

    call_id: int
    text: str
    blocks: tuple[dict[str, Any], ...] = ()


class WorkerToolCallDelta(Struct, frozen=True, tag="tool"):
    """A piece of the tool call at position `index` in the answer; all other fields may be empty."""

    call_id: int
    index: int
    tool_call_id: str = ""
    name: str = ""
    text: str = ""


class WorkerFinished(Struct, frozen=True, tag="done", kw_only=True):
    """Normal end of a stream.

    - `cached_tokens`: the number of input tokens that were read from the provider's cache.
    - `cost`: the cost in US dollars, or None if unknown.
    - `saved`: the amount in US dollars that the cache saved.
    """

    call_id: int
    reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    saved: float = 0
    api_route: str = ""


class WorkerFailed(Struct, frozen=True, tag="failed"):
    """Event for a command that failed; `failure` describes the reason."""

    call_id: int
    failure: CallFailure


class WorkerModelFacts(Struct, frozen=True, tag="facts", kw_only=True):
    """Facts about a model from litellm's bundled list; a value of 0 or None means unknown."""

    call_id: int
    is_known: bool = False
    provider: str = ""
    context_window: int = 0
    max_output_tokens: int = 0
    supports_images: bool | None = None
    supports_tools: bool | None = None
    supports_pdf: bool | None = None
    supports_audio: bool | None = None
    supports_answer_schema: bool = False
    input_price: float | None = None
    cached_input_price: float | None = None
    output_price: float | None = None


WorkerEvent = (
    WorkerReady
    | WorkerTextDelta
    | WorkerThinkingDelta
    | WorkerToolCallDelta
    | WorkerFinished
    | WorkerFailed
    | WorkerModelFacts
)


def encode_line(value: WorkerCommand | WorkerEvent) -> bytes:
    """Encode a value as one line; line breaks in embedded raw JSON become spaces."""
    raw = encode(value)
    if b"\n" in raw or b"\r" in raw:
        raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
    return raw + b"\n"


def decode_event(line: bytes) -> WorkerEvent:
    """Decode a line that the worker sent. Raises MalformedMessage."""
    return cast("WorkerEvent", decode(line, cast("type[Any]", WorkerEvent), "line of the model worker"))


def decode_command(line: bytes) -> WorkerCommand:
    """Decode a line that the host sent. Raises MalformedMessage."""
    return decode(line, WorkerCommand, "command")


MAX_BATCH_DELAY = 0.02
"""Maximum number of seconds that an event is held back so that later events can be merged with it."""
MAX_BATCH_LENGTH = 64 * 1024


class EventBatch:
    """Sender that merges consecutive pieces of text into one event, to reduce the number of events.

    The first piece is sent immediately, and later pieces about once per iteration of the event loop. `put` and `flush`
    raise AnswerTooLong if *send* does. All methods must be called on the event loop's thread. Call `flush` before
    sending an event in another way, or `discard` to drop the pending event.
    """

    def __init__(self, send: Callable[[WorkerEvent], None]) -> None:
        self._send = send
        self._pending: WorkerEvent | None = None
        self._size = 0
        self._started_at = 0.0
        self._has_sent = False
        self._handle: asyncio.Handle | None = None
        self._error: AnswerTooLong | None = None

    def put(self, event: WorkerEvent) -> None:
        """Send an event immediately, or hold it back so that it can be merged with later events."""
        merged = None if self._pending is None else merge_events(self._pending, event)
        if merged is None:
            self.flush()
            self._started_at, self._size = perf_counter(), 0
        self._pending = merged or event
        self._size += len(getattr(event, "text", ""))
        if not self._has_sent or self._size > MAX_BATCH_LENGTH or perf_counter() - self._started_at > MAX_BATCH_DELAY:
            self._has_sent = True
            self.flush()
        elif self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._flush_when_idle)

    def flush(self) -> None:
        """Send the pending event, if any."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._error is not None:
            raise self._error
        event, self._pending = self._pending, None
        if event is not None:
            self._send(event)

    def discard(self) -> None:
        """Drop the pending event."""
        self._pending = self._error = None
        self.flush()

    def _flush_when_idle(self) -> None:
        self._handle = None
        try:
            self.flush()
        except AnswerTooLong as error:
            self._error = error  # the next call raises this error


def merge_events(first: WorkerEvent, second: WorkerEvent) -> WorkerEvent | None:
    """Merge two consecutive pieces of the same kind into one event; return None if they cannot be merged."""
    match first, second:
        case WorkerTextDelta(), WorkerTextDelta():
            return replace(first, text=first.text + second.text)
        case WorkerThinkingDelta(), WorkerThinkingDelta():
            return replace(first, text=first.text + second.text, blocks=first.blocks + second.blocks)
        case WorkerToolCallDelta(), WorkerToolCallDelta() if first.index == second.index and not (
            second.tool_call_id or second.name
        ):
            return replace(first, text=first.text + second.text)
        case _:
            return None


MAX_MESSAGE_LENGTH = 8_000
MAX_CAUSES = 12
STREAMED_ERROR = "openai.APIError"
"""Name of the exception for an error that a server sent as an event of its answer."""


def make_failure(error: BaseException) -> CallFailure:
    """Convert an exception from litellm to plain data: status, class names, message and retry delay."""
    chain = exception_chain(error)
    status = 0
    wait: float | None = None
    for link in chain:
        status = status or parse_status(getattr(link, "status_code", None))
        if _is_streamed(link):
            status = _parse_error_status(getattr(link, "code", None)) or status
        if wait is None:
            wait = retry_after(link)
    return CallFailure(
        status=status,
        class_names=tuple(f"{type(link).__module__}.{type(link).__qualname__}" for link in chain),
        message=best_message(chain)[:MAX_MESSAGE_LENGTH],
        retry_after=wait,
    )


def _is_streamed(error: BaseException) -> bool:
    """Return whether *error* reports an error that an OpenAI-compatible server sent as an event of its answer.

    For this event, the openai library raises the base class of its errors, without the status from the event.
    """
    return f"{type(error).__module__}.{type(error).__qualname__}" == STREAMED_ERROR


def _parse_error_status(code: Any) -> int:
    status = parse_status(code)
    return status if 400 <= status < 600 else 0


def exception_chain(error: BaseException) -> list[BaseException]:
    """Return *error* and the exceptions that caused it, outermost first, without duplicates.

    The causes are found in `__cause__`, `__context__`, and the `original_exception` of litellm's exceptions.
    """
    chain: list[BaseException] = []
    pending: list[Any] = [error]
    while pending and len(chain) < MAX_CAUSES:
        link = pending.pop(0)
        if not isinstance(link, BaseException) or link in chain:
            continue
        chain.append(link)
        pending += [getattr(link, "original_exception", None), link.__cause__, link.__context__]
    return chain


def best_message(chain: list[BaseException]) -> str:
    """Return the most informative message in a chain of exceptions.

    If a server sent an error as plain text during an answer, the result is that text, which the openai library omits
    from its message. In all other cases, the result is the first message in *chain*. litellm's MidStreamFallbackError
    is skipped, because its message hides the provider's.
    """
    for link in chain:
        if _is_streamed(link) and isinstance(body := getattr(link, "body", None), str) and body:
            return body
    for link in chain:
        if type(link).__name__ != "MidStreamFallbackError" and str(link):
            return str(link)
    return str(chain[0]) or type(chain[0]).__name__


def retry_after(error: BaseException) -> float | None:
    """Return the delay in seconds from the Retry-After header of a failed request, or None if there is none."""
    places: list[Any] = [
        getattr(getattr(error, "response", None), "headers", None),
        getattr(error, "litellm_response_headers", None),
        getattr(error, "headers", None),
    ]
    for headers in places:
        for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
            try:
                seconds = float(headers[name]) / divisor
            except (KeyError, TypeError, ValueError, IndexError):
                continue
            if 0 <= seconds < 86_400:
                return seconds
    return None


def parse_status(value: Any) -> int:
    """Return an HTTP status code as an int, or 0 if *value* is not a valid one."""
    try:
        status = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return status if 100 <= status < 600 else 0
