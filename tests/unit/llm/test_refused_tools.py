"""Tests for finding the tools that a provider refuses, by its error message and by bisection."""

from collections.abc import Sequence

import pytest

from mcphost.llm.model import ToolSpec
from mcphost.llm.refused_tools import MAX_PROBES, find_refused_tools, refuses_definition
from mcphost.llm.worker_protocol import CallFailure
from mcphost.serialization import Raw

pytestmark = pytest.mark.anyio


def make_tools(count: int) -> list[ToolSpec]:
    return [ToolSpec(f"s__t{number}", "", Raw(b"{}")) for number in range(count)]


class Provider:
    """A provider that refuses some tools with a fixed message, and counts the requests."""

    def __init__(self, *bad: int) -> None:
        self.bad = {f"s__t{number}" for number in bad}
        self.requests = 0

    async def probe(self, tools: Sequence[ToolSpec]) -> str:
        self.requests += 1
        return "bad schema" if any(spec.name in self.bad for spec in tools) else ""


@pytest.mark.parametrize("bad", [(0,), (127,), (64,), (3, 4), (0, 127), (5, 50, 100)])
async def test_refused_tools_are_found_by_halves(bad: tuple[int, ...]) -> None:
    provider = Provider(*bad)
    found = await find_refused_tools(make_tools(128), "bad schema", provider.probe)
    assert {refused.spec.name for refused in found} == provider.bad
    assert provider.requests <= MAX_PROBES


async def test_a_named_tool_is_tried_first() -> None:
    for reason in ("tools.77.custom.input_schema: invalid", "Invalid schema for function 's__t77'", "tools[77]: bad"):
        provider = Provider(77)
        (refused,) = await find_refused_tools(make_tools(128), reason, provider.probe)
        assert (refused.spec.name, refused.reason, provider.requests) == ("s__t77", "bad schema", 2)


async def test_a_misleading_name_does_not_quarantine_a_good_tool() -> None:
    provider = Provider(5)
    (refused,) = await find_refused_tools(make_tools(8), "tools[3]: bad", provider.probe)
    assert refused.spec.name == "s__t5"


async def test_nothing_is_quarantined_if_no_tool_is_refused_alone() -> None:
    provider = Provider()
    assert await find_refused_tools(make_tools(16), "JSON schema", provider.probe) == ()


async def test_the_number_of_requests_is_bounded_if_everything_is_refused() -> None:
    provider = Provider(*range(128))
    await find_refused_tools(make_tools(128), "bad schema", provider.probe)
    assert provider.requests == MAX_PROBES


@pytest.mark.parametrize(
    ("status", "message", "refuses"),
    [
        (400, "Invalid schema for function 'a__b': None is not of type 'object'", True),
        (400, "tools.3.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12", True),
        (
            400,
            "* GenerateContentRequest.tools[0].function_declarations[2].parameters: should be non-empty",
            True,
        ),
        (422, "Unsupported tool schema", True),
        (400, "Unknown parameter: foo", False),
        (400, "messages.1: all messages must have non-empty content", False),
        (500, "Invalid schema for function", False),
        (401, "tools[0]", False),
    ],
)
def test_a_refused_definition_is_told_from_other_refusals(status: int, message: str, refuses: bool) -> None:
    assert refuses_definition(CallFailure(status=status, message=message)) is refuses
