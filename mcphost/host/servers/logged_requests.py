"""Requests in the message log, which the user can send again."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mcphost.errors import MalformedMessage, UsageError
from mcphost.header_mask import HeaderMask
from mcphost.message_log import LoggedMessage, redact_json
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.jsonrpc import JsonRpcNotification, JsonRpcRequest, parse_message
from mcphost.protocol.lifecycle import Initialize, Ping
from mcphost.protocol.prompts import Complete, GetPrompt, ListPrompts
from mcphost.protocol.resources import ListResources, ListResourceTemplates, ReadResource
from mcphost.protocol.tools import CallTool, ListTools
from mcphost.serialization import as_object, decode, dumps

_REPEATABLE: Mapping[str, type[ClientRequest[Any]]] = {
    kind.METHOD: kind
    for kind in (ListTools, ListResources, ListResourceTemplates, ListPrompts, Ping, ReadResource, GetPrompt, Complete)
}
"""Requests that have no effect on the server, by method."""


class RecordedToolCall(NamedTuple):
    """A tool call from the message log.

    `recorded` contains the arguments as logged. `arguments` contains only those without a masked secret, and `masked`
    contains the names of the others.
    """

    tool: str
    recorded: dict[str, Any]
    arguments: dict[str, Any]
    masked: tuple[str, ...]


def read_request(message: LoggedMessage) -> RecordedToolCall | ClientRequest[Any]:
    """Return the request in a logged message, to be sent again.

    A tool call is returned as a RecordedToolCall, because it is not simply sent again: the user edits it and calls the
    tool. Raises UsageError with the reason if the message cannot be sent again. May take 0.5 s for a long message.
    """
    if message.direction == "received":
        raise UsageError("The server sent this message.", "Select a request that mcphost sent.")
    if message.cut_bytes:
        raise UsageError("Only the beginning of this request was logged.", "Repeat the action that sent it.")
    try:
        request = parse_message(message.data)
        if isinstance(request, JsonRpcNotification):
            raise UsageError("A notification is not sent again.", "Select a request that mcphost sent.")
        if not isinstance(request, JsonRpcRequest):
            raise UsageError("A response is not sent again.", "Select a request that mcphost sent.")
        params = decode(request.params, dict[str, Any]) if len(request.params) else {}
        if request.method == CallTool.METHOD:
            return _read_tool_call(params, message.mask)
        if request.method not in _REPEATABLE:
            raise _refusal(request.method)
        params.pop("_meta", None)
        if _has_secret(params, message.mask):
            raise UsageError(
                "A value of this request looks like a secret, and is masked.", "Make the request again, and type it."
            )
        return decode(request.params, _REPEATABLE[request.method]) if params else _REPEATABLE[request.method]()
    except MalformedMessage as error:
        raise UsageError("This is not a single JSON-RPC message.", "Select a request that mcphost sent.") from error


def read_tool_call(message: LoggedMessage) -> RecordedToolCall:
    """Return the tool call in a logged message. Raises UsageError if there is none."""
    call = read_request(message)
    if not isinstance(call, RecordedToolCall):
        raise UsageError("This is not a tool call.", "Select a request with the method tools/call.")
    return call


def _read_tool_call(params: dict[str, Any], mask: HeaderMask) -> RecordedToolCall:
    given = params.get("arguments")
    arguments = as_object(given)
    masked = [name for name, value in arguments.items() if _has_secret({name: value}, mask)]
    kept = {name: value for name, value in arguments.items() if name not in masked}
    return RecordedToolCall(str(params.get("name", "")), arguments, kept, tuple(masked))


def _has_secret(value: Any, mask: HeaderMask) -> bool:
    """Return whether any string in a value is masked in the message log because it looks like a secret."""
    return mask.mask_text(redact_json(value)) != dumps(value)


def _refusal(method: str) -> UsageError:
    if method == Initialize.METHOD:
        return UsageError("initialize is sent once for each connection.", "Restart the server to send it again.")
    return UsageError(f"{method[:100]} may change something, so it is not sent again.")
