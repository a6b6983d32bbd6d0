"""Parser of `!server/tool key=value`: a tool call by the user, without a model."""

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from mcphost.errors import MalformedMessage, McpHostError, UsageError
from mcphost.serialization import loads
from mcphost.tui.messages import ArgumentCheckRequested

if TYPE_CHECKING:
    from mcphost.host.host import Host


class ManualCall(NamedTuple):
    """A parsed manual call."""

    server: str
    tool: str
    arguments: dict[str, Any]


def parse_value(text: str) -> Any:
    """Return the JSON value of *text*, or the text itself."""
    try:
        return loads(text, "value")
    except MalformedMessage:
        return text


def parse_manual_call(line: str) -> ManualCall:
    """Parse `!server/tool key=value key="two words" key={"json": 1}`. Raises UsageError.

    The call must be one line: the composer shows ten rows, and no more than its user sees may run.
    """
    if len(line.splitlines()) > 1:
        said = "Write a line break as \\n in JSON, or put a space before the text to send it as a message."
        raise UsageError("A manual call is one line.", said)
    body = line.strip().removeprefix("!").strip()
    head, _, rest = body.partition(" ")
    server, slash, tool = head.partition("/")
    if not slash or not server or not tool:
        raise UsageError("A manual call needs a server and a tool.", "Write !server/tool key=value.")
    rest = rest.strip()
    if rest.startswith("{"):
        value = parse_value(rest)
        if isinstance(value, dict):
            return ManualCall(server, tool, value)  # pyright: ignore[reportUnknownArgumentType]
        raise UsageError("The arguments are not valid JSON.", "Write them as key=value, or as one JSON object.")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"The arguments cannot be read: {error}.", "Close every quotation mark.") from error
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f'"{word}" is not key=value.', "Put a value with spaces in quotation marks.")
        arguments[key] = parse_value(value)
    return ManualCall(server, tool, arguments)


async def check_arguments(host: "Host", message: ArgumentCheckRequested) -> None:
    """Return what is wrong with typed arguments."""
    try:
        fault = await host.tools.validate(message.server, message.tool, message.arguments)
    except McpHostError as error:
        from mcphost.host.tools.schema_validation import SchemaErrors

        fault = SchemaErrors(error.message)
    message.on_checked(fault)
