"""Tests for storing long lists as blocks of JSON text, compressed where that is cheap and saves memory."""

import json
import random
import tracemalloc
import zlib
from collections import Counter
from typing import Any

import pytest

from mcphost.client import pagination
from mcphost.client.pagination import PackedJsonList, list_tools
from mcphost.json_limits import has_only_small_values
from tests.unit.client.scripted_session import open_scripted_session

pytestmark = pytest.mark.anyio
COUNT = 128


def similar_definitions(block: int) -> list[bytes]:
    """Return tool definitions that resemble each other, as those of one server do."""
    return [b'{"name":"search_%d_%d","description":"%s"}' % (block, number, b"text " * 120) for number in range(COUNT)]


def incompressible_texts() -> list[bytes]:
    """Return texts that cannot be compressed to a quarter of their size."""
    chance = random.Random(1)
    return [json.dumps(chance.randbytes(300).hex()).encode() for _ in range(COUNT)]


class CountedZlib:
    """A wrapper of the module zlib that counts the calls of each function."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.count[name] += 1
        return getattr(zlib, name)


@pytest.fixture
def zlib_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted = CountedZlib()
    monkeypatch.setattr(pagination, "zlib", counted)
    return counted.count


async def test_ten_thousand_similar_tools_take_a_tenth_of_their_text() -> None:
    schema = {"type": "object", "properties": {"query": {"type": "string", "description": "What to look for " * 30}}}
    tools = [{"name": f"search_{number}", "inputSchema": schema} for number in range(10_000)]
    size = sum(len(json.dumps(tool)) for tool in tools)
    async with open_scripted_session(lambda method, params: {"tools": tools}) as (session, _, _):
        await list_tools(session)  # everything that is created once is created now
        tracemalloc.start()
        try:
            found = await list_tools(session)
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert len(found.entries) == 10_000
    assert [json.loads(bytes(found.entries[at].raw)) for at in (0, 127, 128, -1)] == [
        tools[at] for at in (0, 127, 128, -1)
    ]
    assert kept < size / 10


def test_reading_in_order_expands_each_block_once(zlib_calls: Counter[str]) -> None:
    packed, plain = PackedJsonList(), list[bytes]()
    for block in range(3):
        packed.extend(similar_definitions(block))
        plain += similar_definitions(block)
    assert zlib_calls["compressobj"] == 3
    assert list(packed) == plain
    assert zlib_calls["decompress"] == 3
    assert [packed[at] for at in (5, 200, 6)] == [plain[at] for at in (5, 200, 6)]


def test_texts_that_compress_badly_are_tried_once_and_stored_as_they_are(zlib_calls: Counter[str]) -> None:
    packed, texts = PackedJsonList(), incompressible_texts()
    for _ in range(3):
        packed.extend(texts)
    packed.extend(similar_definitions(0))
    assert zlib_calls["compressobj"] == 1
    assert list(packed) == [*texts, *texts, *texts, *similar_definitions(0)]
    assert zlib_calls["decompress"] == 0


def test_short_and_overlong_blocks_are_not_compressed(zlib_calls: Counter[str]) -> None:
    packed = PackedJsonList()
    packed.extend(similar_definitions(0)[:5])
    packed.extend([b'"' + b"a" * pagination.MAX_COMPRESSED_BLOCK + b'"'])
    assert zlib_calls["compressobj"] == 0
    assert len(packed) == 6


@pytest.mark.parametrize(
    ("texts", "small"),
    [
        ([b"{}", b"[1]"], True),
        ([b"{}"], True),
        ([b"[" * 128, b"{" * 128], True),
        ([b"{}", b"[" * 129], False),
        ([b'{"a":\n1}', b"{}"], False),
        ([b"0" * 150_000, b"0" * 60_000], False),
    ],
)
def test_values_are_small_when_each_of_them_is(texts: list[bytes], small: bool) -> None:
    assert has_only_small_values(b",\n".join(texts), len(texts)) is small


async def test_definitions_with_line_breaks_are_listed_as_others_are() -> None:
    tools = [{"name": f"t{number}", "description": "a\nb"} for number in range(300)]

    def server(method: str, params: dict[str, Any]) -> Any:
        return {"tools": tools}

    async with open_scripted_session(server) as (session, _, _):
        found = await list_tools(session)
    assert [item.description for item in found.values] == ["a\nb"] * 300
