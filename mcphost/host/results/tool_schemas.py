"""What the schemas of a tool say: of the arguments before a call, of the structured result after it."""

from typing import Any

from mcphost.host.results.schema_verdict import Checked
from mcphost.protocol.base import is_set
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import Tool, ToolResult
from mcphost.sandbox.schema_validator import Checker, Fault, Verdict
from mcphost.serialization import Data


class Misfit(Data, frozen=True):
    """What does not fit in arguments, as a sentence and one by one; it is true when there is anything."""

    sentence: str = ""
    faults: tuple[Fault, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sentence)


async def judged(checker: Checker, tool: Tool, result: ToolResult, revision: Revision) -> Checked:
    """Whether a result is what its tool promised (server/tools#output-schema). An error promises nothing.

    A promise that cannot be checked is not a broken one: the outcome is then `unchecked`.
    """
    if result.is_error or not revision.has_output_schemas:
        return Checked()
    structure = result.structure(null_counts=revision.has_any_structure)
    if structure is not None and not revision.has_any_structure and not bytes(structure).lstrip().startswith(b"{"):
        return Checked("misfit", f"The structured content is no object, as it must be at {revision.value}.")
    if not is_set(tool.output_schema):
        return Checked()
    if structure is None:
        return Checked("misfit", "The result has no structured content, although the tool's outputSchema promises it.")
    verdict = await checker.check(tool.output_schema, structure)
    match verdict.outcome:
        case "fits":
            return Checked("fits")
        case "misfit":
            return Checked(
                "misfit", f"The structured content does not fit the tool's outputSchema: {verdict.sentence}."
            )
        case "unchecked":
            return Checked("unchecked", f"The structured content was not checked: {verdict.sentence}.")


async def arguments(checker: Checker, tool: Tool, given: dict[str, Any]) -> Verdict:
    """Whether what the model wrote fits the tool's whole inputSchema."""
    return await checker.check(tool.input_schema, given)
