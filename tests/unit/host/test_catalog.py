"""Tests for the checks of a server's lists before they are offered."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.client.pagination import ListEntry, Listing
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
