"""Tests for how tool results are presented to users and models."""

import base64

import pytest

from mcphost.host.content_rendering import MODEL_TEXT_LIMIT, make_parts, make_parts_async, render
from mcphost.host.servers.catalog import fingerprint
from mcphost.llm.messages import ImagePart
from mcphost.protocol.tools import MAX_BLOCKS, CallToolResult
from mcphost.serialization import Raw, decode, encode

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(50)).decode()


def tool_result(**members: object) -> CallToolResult:
    return decode(encode(members), CallToolResult)


@pytest.mark.req("tools.content.text")
def test_text_blocks_are_joined_by_lines() -> None:
    rendered = render(tool_result(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))
    assert rendered.text == "a\nb"


@pytest.mark.req("tools.content.image")
def test_an_image_counts_only_if_its_bytes_are_valid() -> None:
    real = render(tool_result(content=[{"type": "image", "data": PNG, "mimeType": "image/jpeg"}]))
    assert real.images == (ImagePart("image/png", PNG),)
    svg = base64.b64encode(b"<svg>").decode()
    fake = render(tool_result(content=[{"type": "image", "data": svg, "mimeType": "image/png"}]))
    assert fake.images == ()
    assert "unsupported image format" in fake.text


def test_the_images_of_one_result_are_bounded_together() -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)).decode()
    rendered = render(tool_result(content=[{"type": "image", "data": data, "mimeType": "image/png"}] * 3))
    assert len(rendered.images) == 1
    assert rendered.text.count("left out") == 2


@pytest.mark.req("tools.content.unknown")
def test_an_unknown_kind_and_a_broken_block_are_named_and_the_rest_stays() -> None:
    blocks = [{"type": "hologram", "x": 1}, {"type": "text"}, {"type": "text", "text": "kept"}]
    rendered = render(tool_result(content=blocks))
    lines = rendered.text.splitlines()
    assert "hologram" in lines[0]
    assert "'text'" in lines[1]
    assert lines[2] == "kept"


@pytest.mark.req("tools.structured.only")
def test_structured_content_alone_is_shown_as_json() -> None:
    assert render(tool_result(content=[], structuredContent={"sum": 42})).text == '{\n  "sum": 42\n}'


@pytest.mark.req("llm.big-results")
def test_the_model_gets_a_bounded_text_that_names_missing_parts() -> None:
    rendered = render(tool_result(content=[{"type": "text", "text": "x" * (MODEL_TEXT_LIMIT + 1234)}]))
    assert len(rendered.text) == MODEL_TEXT_LIMIT + 1234
    cut = "[mcphost: the text above is the first 262,144 of 263,378 bytes of this result. The rest is not available]"
    assert rendered.bounded_model_text().endswith(f"x\n{cut}")


def test_the_bound_counts_bytes_and_cuts_no_character() -> None:
    rendered = render(tool_result(content=[{"type": "text", "text": "a" + "語" * MODEL_TEXT_LIMIT}]))
    told = rendered.bounded_model_text().partition("\n")[0]
    assert MODEL_TEXT_LIMIT - 3 < len(told.encode()) <= MODEL_TEXT_LIMIT
    assert set(told) == {"a", "語"}


@pytest.mark.req("tools.content.embedded")
def test_resources_links_and_sounds_are_named() -> None:
    rendered = render(
        tool_result(
            content=[
                {"type": "resource", "resource": {"uri": "demo://a", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "demo://b", "blob": "AAAA", "mimeType": "application/gzip"}},
                {"type": "resource_link", "uri": "demo://c", "name": "see"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            ]
        )
    )
    assert rendered.text.splitlines() == [
        "inside",
        "[demo://b: application/gzip, 3 bytes]",
        "[resource: see demo://c]",
        "[audio: audio/wav, 3 bytes]",
    ]


def test_a_digest_ignores_order_and_space_and_sees_every_unknown_field() -> None:
    one = fingerprint(Raw(b'{"name": "a", "x": {"b": 1, "a": 2}}'))
    assert fingerprint(Raw(b'{"x":{"a":2,"b":1},"name":"a"}')) == one
    assert fingerprint(Raw(b'{"x":{"a":2,"b":1},"name":"a","new":0}')) != one


def test_a_result_with_very_many_parts_is_read_up_to_a_bound_with_a_note() -> None:
    raw = b'{"content":[' + b",".join([b"{}"] * 300_000) + b"]}"
    parts = make_parts(decode(raw, CallToolResult))
    assert len(parts) == MAX_BLOCKS + 1
    assert parts[-1].text == "[the parts after the first 5,000 were left out]"


def test_all_parts_of_a_result_within_the_bound_are_read() -> None:
    content = [{"type": "text", "text": "a,b," * 30} for _ in range(MAX_BLOCKS)]
    parts = make_parts(tool_result(content=content))
    assert len(parts) == MAX_BLOCKS
    assert parts[-1].text == "a,b," * 30


def test_structured_content_that_is_nested_deep_is_not_multiplied_by_its_indentation() -> None:
    raw = b"[" * 500 + b"1," * 20_000 + b"1" + b"]" * 500
    text = render(decode(b'{"content":[],"structuredContent":' + raw + b"}", CallToolResult)).text
    assert len(text) <= 4 * len(raw)


@pytest.mark.parametrize("hints", ["[%s[]]", '{"audience":[%s[]]}', '{"audience":"user"}', "7", "null"])
def test_annotations_that_cannot_be_read_do_not_cost_the_block(hints: str) -> None:
    hints = hints.replace("%s", "[]," * 30_000)
    raw = f'{{"content":[{{"type":"text","text":"kept","annotations":{hints}}}]}}'
    (part,) = make_parts(decode(raw, CallToolResult))
    assert (part.text, part.for_user) == ("kept", False)


def test_an_unknown_kind_with_a_giant_name_is_named_in_short() -> None:
    assert len(render(tool_result(content=[{"type": "x" * 1_000_000}])).text) < 5_000


def test_the_bytes_of_an_image_too_big_for_the_model_are_not_all_decoded() -> None:
    head = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(600_000)).decode()
    big = head + "A" * 8_000_000
    text = render(tool_result(content=[{"type": "image", "data": big, "mimeType": "image/png"}])).text
    assert text == f"[image: image/png, {len(big) * 3 // 4 // 1000:,} kB; left out: too big]"


@pytest.mark.anyio
async def test_a_large_result_is_read_on_a_thread_and_gives_the_same() -> None:
    large = tool_result(content=[{"type": "text", "text": "word " * 300_000}, {"type": "text", "text": "end"}])
    assert await make_parts_async(large) == make_parts(large)
