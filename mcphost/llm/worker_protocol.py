"""What travels between us and the worker process: one JSON value per line, both directions.

To the worker: `Command`s. From the worker: `Note`s. Neither side waits for an answer to a cancel: after `stop` the
worker closes the provider's connection and sends nothing more for that id.
"""

from typing import Any, Literal, cast

from mcphost.serialization import Raw, Struct, decode, encode

READY_ID = 0
"""The id of notes that belong to no call: the worker is ready, or cannot be."""


class Completion(Struct, frozen=True, kw_only=True):
    """One call of litellm. `messages` and `tools` are Chat Completions JSON; `key` is used for this call only."""

    model: str
    messages: Raw
    tools: Raw = Raw(b"[]")
    key: str = ""
    api_base: str = ""
    max_tokens: int = 0
    tool_choice: str = ""
    temperature: float | None = None
    reasoning_effort: str = ""
    responses: bool = False


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ours to the worker."""

    op: Literal["stream", "stop", "facts"]
    id: int
    model: str = ""
    call: Completion | None = None


class Failure(Struct, frozen=True, kw_only=True):
    """An exception of litellm, flattened. `classes` runs from the outermost to the innermost cause."""

    status: int = 0
    classes: tuple[str, ...] = ()
    message: str = ""
    retry_after: float | None = None


class Ready(Struct, frozen=True, tag="ready"):
    """litellm is imported."""

    id: int
    version: str


class Text(Struct, frozen=True, tag="text"):
    """More text."""

    id: int
    text: str


class Thinking(Struct, frozen=True, tag="thinking"):
    """More reasoning; `blocks` are the provider's own pieces, for replay."""

    id: int
    text: str
    blocks: tuple[dict[str, Any], ...] = ()


class ToolPiece(Struct, frozen=True, tag="tool"):
    """A piece of the tool call at `index`; any member may be empty."""

    id: int
    index: int
    call: str = ""
    name: str = ""
    text: str = ""


class Done(Struct, frozen=True, tag="done", kw_only=True):
    """The stream ended by itself. `cost` in US dollars, None when unknown."""

    id: int
    reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    road: str = ""


class Failed(Struct, frozen=True, tag="failed"):
    """The call failed."""

    id: int
    failure: Failure


class Facts(Struct, frozen=True, tag="facts", kw_only=True):
    """What litellm's bundled model map says; 0 and None mean unknown."""

    id: int
    known: bool = False
    provider: str = ""
    context_window: int = 0
    max_output: int = 0
    vision: bool | None = None
    tools: bool | None = None
    input_price: float | None = None
    output_price: float | None = None


Note = Ready | Text | Thinking | ToolPiece | Done | Failed | Facts


def line_of(value: Command | Note) -> bytes:
    """One line. Raw members may have been pretty-printed: in JSON a bare line break is only white space."""
    raw = encode(value)
    if b"\n" in raw or b"\r" in raw:
        raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
    return raw + b"\n"


def read_note(line: bytes) -> Note:
    """Decode one line of the worker. Raises MalformedMessage."""
    return cast("Note", decode(line, cast("type[Any]", Note), "line of the model worker"))


def read_command(line: bytes) -> Command:
    """Decode one line for the worker. Raises MalformedMessage."""
    return decode(line, Command, "command")
