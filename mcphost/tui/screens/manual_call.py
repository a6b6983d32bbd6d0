"""What is typed as `!server/tool key=value`: a call the user makes without a model."""

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from mcphost.errors import MalformedMessage, McpHostError, UsageError
from mcphost.serialization import loads
from mcphost.tui.messages import ArgumentCheckRequested

if TYPE_CHECKING:
    from mcphost.host.host import Host


class ManualCall(NamedTuple):
    """A parsed line."""

    server: str
    tool: str
    arguments: dict[str, Any]


def parse_value(text: str) -> Any:
    """JSON when it is JSON, the text itself otherwise."""
    try:
        return loads(text, "value")
    except MalformedMessage:
        return text


def parse_manual_call(line: str) -> ManualCall:
    """`!server/tool key=value key="two words" key={"json": 1}`. Raises UsageError saying what is missing.

    It is one line: the composer shows ten rows, and a call must not run with more than its person sees.
    """
    if len(line.splitlines()) > 1:
        said = "Write a line break as \\n in JSON, or put a space before the text to send it as a message."
        raise UsageError("A call by hand is one line.", said)
    body = line.strip().removeprefix("!").strip()
    head, _, rest = body.partition(" ")
    server, slash, tool = head.partition("/")
    if not slash or not server or not tool:
        raise UsageError("A call by hand names server and tool.", "Write !server/tool key=value.")
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
    """Say what is wrong with arguments that somebody typed."""
    try:
        fault = await host.tools.validate(message.server, message.tool, message.arguments)
    except McpHostError as error:
        from mcphost.host.tools.schema_validation import SchemaErrors

        fault = SchemaErrors(error.message)
    message.on_checked(fault)
