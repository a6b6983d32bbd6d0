"""What the schemas of a tool say: of the arguments before a call, of the structured result after it."""

from typing import Any

from mcphost.host.results.schema_verdict import OutputValidation
from mcphost.protocol.base import is_set
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallToolResult, Tool
from mcphost.sandbox.schema_validator import SchemaValidator, SchemaViolation, ValidationResult
from mcphost.serialization import Struct


class SchemaErrors(Struct, frozen=True):
    """What does not fit in arguments, as a sentence and one by one; it is true when there is anything."""

    sentence: str = ""
    faults: tuple[SchemaViolation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sentence)


async def validate_output(
    validator: SchemaValidator, tool: Tool, result: CallToolResult, revision: Revision
) -> OutputValidation:
    """Whether a result is what its tool promised (server/tools#output-schema). An error promises nothing.

    A promise that cannot be checked is not a broken one: the outcome is then `unchecked`.
    """
    if result.is_error or not revision.has_output_schemas:
        return OutputValidation()
    structure = result.parse_structured_content(allow_null=revision.has_non_object_output)
    if structure is not None and not revision.has_non_object_output and not bytes(structure).lstrip().startswith(b"{"):
        return OutputValidation("misfit", f"The structured content is no object, as it must be at {revision.value}.")
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
        case "misfit":
            return OutputValidation(
                "misfit", f"The structured content does not fit the tool's outputSchema: {verdict.summary}."
            )
        case "unchecked":
            return OutputValidation("unchecked", f"The structured content was not checked: {verdict.summary}.")


async def validate_arguments(validator: SchemaValidator, tool: Tool, values: dict[str, Any]) -> ValidationResult:
    """Whether what the model wrote fits the tool's whole inputSchema."""
    return await validator.validate(tool.input_schema, values)
