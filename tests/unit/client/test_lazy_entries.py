"""Tests for long lists whose entries are kept as JSON text and decoded on each access."""

import json
from typing import Any

import pytest

from mcphost.client import pagination
from mcphost.client.pagination import LazySequence, PackedJsonList, list_tools
from mcphost.protocol.tools import Tool
from mcphost.serialization import Raw
from tests.unit.client.scripted_session import open_scripted_session

pytestmark = pytest.mark.anyio


def lazy_tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def test_a_value_is_decoded_on_access_and_not_before() -> None:
    created: list[bytes | Raw] = []

    def make(text: bytes | Raw) -> str:
        created.append(text)
        return bytes(text).decode().upper()

    values = LazySequence((b"a", Raw(b"b"), b"c", b"d"), make)
    assert len(values) == 4
    part = values[1:3]
    assert len(part) == 2
    assert created == []
    assert values[-1] == "D"
    assert part[0] == "B"
    assert created == [b"d", Raw(b"b")]
    assert values[-1] == "D"
    assert len(created) == 3, "nothing is remembered"
    assert next(iter(values)) == "A"
    assert len(created) == 4, "the rest was not looked at"
    assert list(values) == ["A", "B", "C", "D"]
    assert values == ("A", "B", "C", "D")
    assert part != ("A", "B")
    with pytest.raises(IndexError):
        values[4]


def test_packed_texts_are_the_texts_that_were_added() -> None:
    packed, plain = PackedJsonList(), list[bytes]()
    for group in ([b"{}"], [], [b"", b"[1,2]", b"\xc3\xa4"], [b'{"a":1}']):
        packed.extend(group)
        plain += group
    assert list(packed) == plain
    assert [packed[at] for at in range(-5, 5)] == plain + plain
    assert (packed[1:4], packed[::-1]) == (tuple(plain[1:4]), tuple(reversed(plain)))
    assert plain[2] in packed
    assert len(packed) == 5
    for at in (5, -6):
        with pytest.raises(IndexError):
            packed[at]
    assert list(PackedJsonList()) == []


async def test_the_definition_of_a_listed_tool_is_decoded_from_its_own_bytes() -> None:
    tools = [lazy_tool(f"t{number}", description="ä" * number, x={"y": number}) for number in range(500)]
    async with open_scripted_session(lambda method, params: {"tools": tools}) as (session, _, _):
        found = await list_tools(session)
    assert found.problems == ()
    assert [json.loads(bytes(entry.raw)) for entry in found.entries] == tools
    assert [entry.value.name for entry in found.entries[250:252]] == ["t250", "t251"]
    value = found.entries[300].value
    assert isinstance(value, Tool)
    assert value == found.entries[300].value
    assert value is not found.entries[300].value, "no object of it is kept"


async def test_broken_and_long_entries_among_good_ones_cost_only_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    odd = {100: lazy_tool("") | {"name": 5}, 300: lazy_tool("deep", x=deep), 301: "text"}
    long = {310: lazy_tool("long", description="d" * 300_000), 450: lazy_tool("many", x=[[]] * 200)}
    tools = [(odd | long).get(number, lazy_tool(f"t{number}")) for number in range(600)]
    async with open_scripted_session(lambda method, params: {"tools": tools}) as (session, _, _):
        found = await list_tools(session)
        good = [tool for number, tool in enumerate(tools) if number not in odd]
        assert [json.loads(bytes(entry.raw)) for entry in found.entries] == good
        assert [problem.partition(" was left out")[0] for problem in found.problems] == [
            "A tool without a readable name",
            "The tool 'deep'",
            "A tool without a readable name",
        ]
        monkeypatch.setattr(pagination, "MAX_ITEMS", 301)
        found = await list_tools(session)
    assert [entry.value.name for entry in found.entries][-1] == "t299"
    assert len(found.problems) == 3
    assert found.problems[2] == "The list of tools is longer than 301; the rest was left out."
