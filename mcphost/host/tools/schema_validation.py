"""Validation against a tool's schemas: arguments before the call, and structured content after it."""

from typing import Any

from mcphost.host.server_views import OutputValidation
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.base import is_set
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallToolResult, Tool
from mcphost.sandbox.schema_validator import SchemaValidator, SchemaViolation
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Struct


class SchemaErrors(Struct, frozen=True):
    """Violations of an input schema, as one sentence and as a list; false in a boolean context if there are none."""

    sentence: str = ""
    faults: tuple[SchemaViolation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sentence)


class ArgumentValidator:
    """Stage of the tool call pipeline that validates arguments against the tool's input schema."""

    def __init__(self, validator: SchemaValidator) -> None:
        self._validator = validator

    async def validate(self, offered: OfferedTool, arguments: dict[str, Any]) -> SchemaErrors:
        """Return the errors in the arguments; there are none if the arguments are valid or cannot be checked.

        If they cannot be checked, a warning is added to the server's log.
        """
        tool = offered.definition.tool
        verdict = await self._validator.validate(tool.input_schema, arguments)
        if verdict.outcome == "unchecked":
            offered.connection.warn(f"The arguments for the tool {tool.name!r} were not checked: {verdict.summary}.")
        if verdict.outcome != "invalid":
            return SchemaErrors()
        message = f"The arguments do not match the tool's inputSchema; the tool was not called. {verdict.summary}."
        return SchemaErrors(strip_hidden_text(message), verdict.violations)


async def validate_output(
    validator: SchemaValidator, tool: Tool, result: CallToolResult, revision: Revision
) -> OutputValidation:
    """Validate a result against its tool's output schema (server/tools#output-schema).

    Results that report an error are not validated. If the result cannot be checked, the outcome is `unchecked`, not
    `misfit`.
    """
    if result.is_error or not revision.has_output_schemas:
        return OutputValidation()
    structure = result.parse_structured_content(allow_null=revision.has_non_object_output)
    if structure is not None and not revision.has_non_object_output and not bytes(structure).lstrip().startswith(b"{"):
        return OutputValidation("misfit", f"The structured content is not an object, as {revision.value} requires.")
    if not is_set(tool.output_schema):
        return OutputValidation()
    if structure is None:
        return OutputValidation(
            "misfit", "The result has no structured content, although the tool's outputSchema promises it."
        )
    verdict = await validator.validate(tool.output_schema, structure)
    match verdict.outcome:
        case "fits":
            return OutputValidation("fits")
        case "invalid":
            return OutputValidation(
                "misfit", f"The structured content does not fit the tool's outputSchema: {verdict.summary}."
            )
        case "unchecked":
            return OutputValidation("unchecked", f"The structured content was not checked: {verdict.summary}.")
