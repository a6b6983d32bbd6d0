"""Conversion of servers' JSON-RPC errors to exceptions with hints for the user."""

import re
from shlex import quote
from typing import Any, cast

from mcphost.client.capabilities import NO_USER_HINT, not_supported_message
from mcphost.errors import RequestRefused
from mcphost.protocol.jsonrpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
)
from mcphost.protocol.revisions import Era, Revision
from mcphost.protocol.server_requests import CreateMessage, Elicit, ListRoots
from mcphost.serialization import as_object, loads_or_none

MAX_ERROR_LENGTH = 2_000
MAX_ERROR_DATA = 64 * 1024
_MAX_NAMES = 10
_USER_CAPABILITIES = frozenset({"elicitation", "sampling", "roots"})

# Codes from -32000 to -32019 have no fixed meaning (specification 2026-07-28, basic/index): only the message explains
# them. Earlier revisions defined only -32002, for "resource not found".
_HINTS = {
    PARSE_ERROR: "The server could not read the message.",
    INVALID_REQUEST: "The server rejected the request as invalid.",
    METHOD_NOT_FOUND: "The server does not know this method.",
    INTERNAL_ERROR: "The server had an internal error; check its log.",
    HEADER_MISMATCH: "The HTTP headers did not match the message; a proxy may have changed them.",
}
_SERVER_REQUESTS = (Elicit.METHOD, CreateMessage.METHOD, ListRoots.METHOD)
_NO_BACK_CHANNEL = re.compile(r"back-?channel|server-(?:initiated|to-client) request|cannot send", re.IGNORECASE)
"""Text in the error of a server that cannot send requests to its client; SDKs give this error no code of its own."""
_INVALID_PARAMS_HINTS = {
    "tools/call": "There is no such tool, or its arguments are wrong.",
    "prompts/get": "There is no such prompt, or its arguments are wrong.",
    "resources/read": "There is no such resource, or its address is wrong.",
    "completion/complete": "There is no such prompt or resource template.",
}


def map_error(server: str, method: str, error: ErrorData, era: Era | None = None) -> RequestRefused:
    """Return the exception for an error response to a request with the given *method*.

    *era* is the negotiated protocol era, "handshake" (revisions before 2026-07-28) or "stateless" (later
    revisions); it is None before a revision has been negotiated. The exception's `server_message` is the text
    from the server, truncated to 2,000 characters.
    """
    text = error.message[:MAX_ERROR_LENGTH] or "no reason given"
    data = _decode_data(bytes(error.data))
    hint = _hint_for_server_request(server, error.code, text, era)
    refusal = RequestRefused(
        f"The server {server!r} refused {method} with error {error.code}: {text}",
        _hint(error.code, method, data) if hint is None else hint,
        code=error.code,
        data=data,
        server_message=text,
    )
    refusal.server = server
    return refusal


def _decode_data(raw: bytes) -> Any:
    return loads_or_none(raw) if 0 < len(raw) <= MAX_ERROR_DATA else None


def make_era_hint(server: str) -> str:
    """Return a hint that suggests setting the protocol era of *server* to "handshake" in mcp.json.

    Use this hint for a server that can ask the user questions only in the handshake era.
    """
    return (
        f"This server asks in the way of older protocol revisions. Run: mcphost servers edit {quote(server)} "
        '--era handshake, which adds "mcphost": {"era": "handshake"} to its entry.'
    )


def _hint_for_server_request(server: str, code: int, text: str, era: Era | None) -> str | None:
    """Return the hint for an error response that *server* sent because its own request to the client failed.

    An error response of this kind is recognized by *text*, which names the method of the failed request. Returns "" if
    *text* quotes mcphost's refusal of that request, which needs no hint. Returns None for any other error response.
    """
    name = next((name for name in _SERVER_REQUESTS if name in text), None)
    if name is None:
        return None
    if code in (INVALID_REQUEST, INTERNAL_ERROR) and era == "stateless" and _NO_BACK_CHANNEL.search(text):
        return make_era_hint(server)
    if code == METHOD_NOT_FOUND and not_supported_message(name) in text:
        return ""  # the server passes on a refusal of mcphost, which is explained where it is made
    return None


def _hint(code: int, method: str, data: Any) -> str:
    if code == MISSING_REQUIRED_CLIENT_CAPABILITY:
        required = _join_names(data, "requiredCapabilities")
        hint = f"The server requires the client capability {required or 'that it names'}, which mcphost did not offer."
        return f"{hint} {NO_USER_HINT}" if required.partition(".")[0] in _USER_CAPABILITIES else hint
    if code == UNSUPPORTED_PROTOCOL_VERSION:
        supported = _join_names(data, "supported") or "none that it names"
        return f"It speaks {supported}; mcphost speaks {', '.join(revision.value for revision in Revision)}."
    if code == INVALID_PARAMS:
        return _INVALID_PARAMS_HINTS.get(method, "The server does not accept these parameters.")
    if code == RESOURCE_NOT_FOUND and method == "resources/read":
        return "There is no such resource."
    return _HINTS.get(code, "")


def _join_names(data: Any, member: str) -> str:
    """Return the names found in `data[member]` of an error, separated by commas, or "" if there are none.

    The value is a list of names, or an object whose keys are names. For a nested object such as `{"a": {"b": {}}}`, the
    name "a.b" is returned.
    """
    value: Any = as_object(data).get(member)
    names: list[str] = []
    if isinstance(value, list):
        names = [item for item in cast("list[Any]", value) if isinstance(item, str)]
    elif isinstance(value, dict):
        for name, nested in cast("dict[str, Any]", value).items():
            children = as_object(nested)
            names += [f"{name}.{item}" for item in children] or [name]
    return ", ".join(name[:100] for name in names[:_MAX_NAMES])
