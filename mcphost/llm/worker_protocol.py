"""The protocol between the host and the worker process: one JSON value per line in both directions.

The host sends `WorkerCommand`s, the worker `WorkerEvent`s. A `stop` is not confirmed: the worker closes the provider's
connection and sends nothing more for that id.
"""

from typing import Any, Literal, cast

from mcphost.serialization import Raw, Struct, decode, encode

NO_CALL_ID = 0
"""Id of events that belong to no call: the worker is ready, or failed to start."""


class CompletionRequest(Struct, frozen=True, kw_only=True):
    """A call of litellm; `messages` and `tools` are Chat Completions JSON, `api_key` is for this call only."""

    model: str
    messages: Raw
    tools: Raw = Raw(b"[]")
    api_key: str = ""
    api_base: str = ""
    max_tokens: int = 0
    tool_choice: str = ""
    temperature: float | None = None
    reasoning_effort: str = ""
    uses_responses_api: bool = False


class WorkerCommand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command to the worker."""

    op: Literal["stream", "stop", "facts"]
    call_id: int
    model: str = ""
    request: CompletionRequest | None = None


class CallFailure(Struct, frozen=True, kw_only=True):
    """An exception of litellm as plain data; `class_names` are from the outermost to the innermost cause."""

    status: int = 0
    class_names: tuple[str, ...] = ()
    message: str = ""
    retry_after: float | None = None


class WorkerReady(Struct, frozen=True, tag="ready"):
    """The worker has imported litellm."""

    call_id: int
    version: str


class WorkerTextDelta(Struct, frozen=True, tag="text"):
    """More text."""

    call_id: int
    text: str


class WorkerThinkingDelta(Struct, frozen=True, tag="thinking"):
    """More reasoning; `blocks` are pieces of the provider's own blocks, for replay."""

    call_id: int
    text: str
    blocks: tuple[dict[str, Any], ...] = ()


class WorkerToolCallDelta(Struct, frozen=True, tag="tool"):
    """A piece of the tool call at `index`; any member may be empty."""

    call_id: int
    index: int
    tool_call_id: str = ""
    name: str = ""
    text: str = ""


class WorkerFinished(Struct, frozen=True, tag="done", kw_only=True):
    """The stream ended normally; `cost` is in US dollars, or None if unknown."""

    call_id: int
    reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    api_route: str = ""


class WorkerFailed(Struct, frozen=True, tag="failed"):
    """The call failed."""

    call_id: int
    failure: CallFailure


class WorkerModelFacts(Struct, frozen=True, tag="facts", kw_only=True):
    """Facts from litellm's bundled model map; 0 and None mean unknown."""

    call_id: int
    is_known: bool = False
    provider: str = ""
    context_window: int = 0
    max_output_tokens: int = 0
    supports_images: bool | None = None
    supports_tools: bool | None = None
    input_price: float | None = None
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
    """Encode one line; line breaks in indented raw members become spaces."""
    raw = encode(value)
    if b"\n" in raw or b"\r" in raw:
        raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
    return raw + b"\n"


def decode_event(line: bytes) -> WorkerEvent:
    """Decode one line of the worker. Raises MalformedMessage."""
    return cast("WorkerEvent", decode(line, cast("type[Any]", WorkerEvent), "line of the model worker"))


def decode_command(line: bytes) -> WorkerCommand:
    """Decode one line for the worker. Raises MalformedMessage."""
    return decode(line, WorkerCommand, "command")
