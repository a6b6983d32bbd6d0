"""Validation of a tool's structured content against its output schema."""

from mcphost.host.server_views import OutputValidation
from mcphost.protocol.base import is_set
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallToolResult, Tool
from mcphost.sandbox.schema_validator import SchemaValidator


async def validate_output(
    validator: SchemaValidator, tool: Tool, result: CallToolResult, revision: Revision
) -> OutputValidation:
    """Validate a result against its tool's output schema (server/tools#output-schema).

    Results that report an error are not validated. The outcome is "misfit" if the result does not match the schema, and
    "unchecked" if it cannot be checked.
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
