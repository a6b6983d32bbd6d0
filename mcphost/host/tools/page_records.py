"""Tool results in the form sent to interactive pages, and stored calls from which later runs can open pages."""

from typing import Any

from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.tools import CallToolResult
from mcphost.serialization import Raw, encode
from mcphost.store.page_results import StoredPageCall


def result_for_page(result: CallToolResult) -> dict[str, Any]:
    """Return a tool result in the form sent to pages: its content, structured content, error flag and metadata."""
    shown: dict[str, Any] = {"content": result.raw_content}
    if len(result.structured_content):
        shown["structuredContent"] = result.structured_content
    if result.is_error:
        shown["isError"] = True
    if len(result.meta):
        shown["_meta"] = result.meta
    return shown


def make_stored_call(offered: OfferedTool, arguments: dict[str, Any], result: CallToolResult) -> StoredPageCall:
    """Return the record of a call whose page can be opened in a later run."""
    connection, definition = offered.connection, offered.definition
    return StoredPageCall(
        connection.config.name, connection.digest, offered.account, definition.name, definition.digest, arguments,
        Raw(encode(result_for_page(result))),
    )  # fmt: skip
