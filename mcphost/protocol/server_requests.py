"""Requests from a server to the client (sampling, elicitation, roots), and the client's results.

Before revision 2026-07-28, a server sends these as JSON-RPC requests; in that revision and later, it sends them
in a result of type `input_required`. The request handler in `host.server_requests` determines which requests
are supported.
"""

from collections.abc import Generator
from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.json_limits import JsonLimitExceeded, check_value_count
from mcphost.protocol.base import Result, is_set
from mcphost.serialization import Raw, WireStruct, decode

MAX_VALUES = 100_000
"""Maximum number of JSON values in a server's request; a larger request is not decoded."""


class CreateMessage(WireStruct, frozen=True):
    """The sampling/createMessage request; its nested params stay raw JSON."""

    METHOD: ClassVar[str] = "sampling/createMessage"
    messages: tuple[Raw, ...] = ()
    max_tokens: float = 0
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    model_preferences: Raw = Raw()
    include_context: str | None = None
    metadata: Raw = Raw()
    tools: Raw = Raw()
    tool_choice: Raw = Raw()


class Elicit(WireStruct, frozen=True):
    """The elicitation/create request, which asks the user to fill in a form or to visit a URL."""

    METHOD: ClassVar[str] = "elicitation/create"
    message: str = ""
    mode: str = "form"
    requested_schema: Raw = Raw()
    url: str | None = None
    elicitation_id: str | None = None


class UrlElicitationRequired(WireStruct, frozen=True):
    """The data of error -32042 (revision 2025-11-25): URLs to visit before the failed request can succeed.

    If the user agrees to visit them, the client can repeat the request.
    """

    METHOD: ClassVar[str] = "elicitation/create"
    elicitations: tuple[Elicit, ...] = ()


class ListRoots(WireStruct, frozen=True):
    """The roots/list request, which asks the client for the folders that the user shares."""

    METHOD: ClassVar[str] = "roots/list"


class Root(WireStruct, frozen=True):
    """A folder that the user shares with servers; `uri` is a file: URI."""

    uri: str
    name: str | None = None


class CreateMessageResult(WireStruct, frozen=True):
    """Result of sampling/createMessage; `content` is raw JSON: one content block or an array of them."""

    role: str
    content: Raw
    model: str
    stop_reason: str | None = None


class ElicitResult(WireStruct, frozen=True):
    """Result of elicitation/create: the user's reply, which is accept (with `content`), decline or cancel."""

    action: str
    content: dict[str, Any] | None = None


class ListRootsResult(WireStruct, frozen=True):
    """Result of roots/list: the folders that the user shares."""

    roots: tuple[Root, ...]


class ServerRequestRejection(WireStruct, frozen=True):
    """Error that the client returns when it rejects a server's request.

    Before revision 2026-07-28, the error is sent as an error response. In that revision and later, it is not sent;
    instead, the client request that led to the server's request fails.
    """

    message: str
    code: int = -1


ServerRequest = CreateMessage | Elicit | ListRoots | UrlElicitationRequired
ClientResult = CreateMessageResult | ElicitResult | ListRootsResult | ServerRequestRejection
_LONG_PARAMS = 64 * 1024
_REQUEST_TYPES: dict[str, type[Any]] = {kind.METHOD: kind for kind in (CreateMessage, Elicit, ListRoots)}


def parse_server_request(method: str, params: Raw) -> Generator[None, None, ServerRequest]:
    """Parse a request from a server. Raises MalformedMessage if its method is unknown or its params are invalid.

    Yields every few milliseconds to let other tasks run.
    """
    kind = _REQUEST_TYPES.get(method)
    if kind is None:
        raise MalformedMessage(f"The server asked for {method!r}, which mcphost does not know.")
    body = bytes(params) or b"{}"
    is_long = len(body) > _LONG_PARAMS
    if is_long:
        yield
    try:
        yield from check_value_count(body, MAX_VALUES)
    except JsonLimitExceeded as error:
        raise MalformedMessage(f"The params of {method} have more than {MAX_VALUES:,} values.") from error
    if is_long:
        yield
    request = decode(body, kind, f"params object of {method}")
    if is_long:
        yield
    return request


def server_request_size(request: ServerRequest) -> int:
    """Return the approximate size of a server's request in bytes."""
    match request:
        case CreateMessage():
            raws = (*request.messages, request.tools, request.tool_choice, request.metadata, request.model_preferences)
            texts = (request.system_prompt or "", request.include_context or "", *request.stop_sequences)
            return sum(len(bytes(raw)) for raw in raws) + sum(map(len, texts))
        case Elicit():
            return len(request.message) + len(bytes(request.requested_schema)) + len(request.url or "")
        case UrlElicitationRequired():
            return sum(map(server_request_size, request.elicitations))
        case ListRoots():
            return 0


COMPLETE = "complete"
INPUT_REQUIRED = "input_required"
MAX_INPUT_VALUES = 50_000
"""Maximum number of JSON values in all input requests of one result."""


class InputRequest(WireStruct, frozen=True):
    """One request for input in an `input_required` result."""

    method: str
    params: Raw = Raw()


class InputRequiredResult(Result, frozen=True):
    """A result that asks for input; the client then repeats its request with the input and `request_state`."""

    input_requests: Raw = Raw()
    request_state: Raw = Raw()


def parse_input_requests(raw: Raw) -> Generator[None, None, dict[str, InputRequest]]:
    """Parse `inputRequests` into a dict with the same keys. Raises MalformedMessage.

    The result is empty if *raw* is absent or null. Yields every few milliseconds to let other tasks run.
    """
    if not is_set(raw):
        return {}
    try:
        yield from check_value_count(bytes(raw), MAX_INPUT_VALUES)
    except JsonLimitExceeded as error:
        raise MalformedMessage(f"The server asked for input with more than {MAX_INPUT_VALUES:,} values.") from error
    yield
    return decode(raw, dict[str, InputRequest], "inputRequests member")
