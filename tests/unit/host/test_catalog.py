"""Tests for checking a server's tools and other lists before the model is offered them."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.client.pagination import LazySequence, ListEntry, Listing
from mcphost.config.schema import ServerConfig
from mcphost.host.servers import catalog
from mcphost.protocol.tools import Tool
from mcphost.serialization import Raw, decode, encode

pytestmark = pytest.mark.anyio


def create_listing(count: int) -> Listing[Tool]:
    raws = [Raw(encode({"name": f"t{number}", "inputSchema": {"type": "object"}})) for number in range(count)]
    return Listing[Tool](entries=tuple(ListEntry(decode(raw, Tool), raw) for raw in raws))


async def test_other_tasks_run_while_many_tools_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "SLICE_SECONDS", 0.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    found: Any = None
    async with anyio.create_task_group() as group:
        group.start_soon(other)
        found, left_out = await catalog.run_in_slices(catalog.parse_tools(create_listing(500)))
        group.cancel_scope.cancel()
    assert (len(found), left_out) == (500, [])
    assert turns >= 400


async def test_large_tools_are_checked_one_by_one_so_that_other_tasks_run_between_them() -> None:
    taken = 0

    def take(text: bytes | Raw) -> ListEntry[Tool]:
        nonlocal taken
        taken += 1
        return ListEntry(decode(text, Tool), Raw(bytes(text)))

    schema = {"type": "object", "description": "x" * 100_000}
    texts = [encode({"name": f"t{number}", "inputSchema": schema}) for number in range(5)]
    for _ in catalog.parse_tools(Listing[Tool](entries=LazySequence(texts, take))):
        assert taken <= 1
        taken = 0


@pytest.mark.parametrize("number", [b"1e400", b"-1E+999", b"1" * 5_000])
async def test_a_tool_whose_schema_no_program_can_decode_is_left_out_so_that_models_can_be_asked(number: bytes) -> None:
    raw = Raw(b'{"name":"bad","inputSchema":{"type":"object","properties":{"n":{"default":%s}}}}' % number)
    good = create_listing(100).entries
    listing = Listing[Tool](entries=(*good[:30], ListEntry(decode(raw, Tool), raw), *good[30:]))
    found, left_out = await catalog.run_in_slices(catalog.parse_tools(listing))
    assert list(found) == [f"t{number}" for number in range(100)]
    assert left_out[0].startswith("The tool 'bad' was left out: its inputSchema cannot be used: ")


async def test_a_schema_that_is_no_object_costs_only_its_own_tool() -> None:
    schemas = [
        b"true",
        b"[]",
        b'{"type":"array"}',
        b'{"$ref":"https://example.org/a"}',
        b'{"type":"object","a":"\\u0024"}',
    ]
    raws = [Raw(b'{"name":"odd%d","inputSchema":%s}' % pair) for pair in enumerate(schemas)]
    odd = tuple(ListEntry(decode(raw, Tool), raw) for raw in raws)
    listing = Listing[Tool](entries=(*create_listing(20).entries, *odd))
    found, left_out = await catalog.run_in_slices(catalog.parse_tools(listing))
    assert list(found) == [*(f"t{number}" for number in range(20)), "odd4"]
    assert len(left_out) == 4


def test_only_a_few_instructions_of_a_server_and_a_limited_length_of_all_are_remembered() -> None:
    known = catalog.KnownInstructions()
    for number in range(100):
        known.remember(ServerConfig(name="changing"), f"{number} ")
        known.remember(ServerConfig(name="constant"), "The same.")
    assert known.left_out == {"changing"}
    assert len(known.texts) < 10
    for number in range(100):
        known.remember(ServerConfig(name=f"s{number}"), "x" * 32_000)
    known.remember(ServerConfig(name="last"), "")
    assert sum(len(text) for _, _, text in known.texts) <= 200_000
    assert {"s0", "s40", "last"}.isdisjoint(known.left_out)
    assert "s99" in known.left_out
