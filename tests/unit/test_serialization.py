"""Tests for the bounds on untrusted JSON, which apply before objects and text are created."""

import json
import tracemalloc
from typing import Any, cast

import pytest

from mcphost.config.schema import ConfigWarning
from mcphost.errors import MalformedMessage
from mcphost.json_limits import MAX_STRUCT_DEPTH
from mcphost.llm.messages import Message
from mcphost.serialization import (
    INDENTED_FACTOR,
    Raw,
    Struct,
    as_object,
    decode,
    decode_array,
    decode_or_none,
    dumps,
    encode,
    find_member,
    loads,
    make_decoder,
    nesting_depth,
)


def test_deeply_nested_json_stays_on_one_line_instead_of_growing_a_hundredfold() -> None:
    value = loads(b"[" * 100 + b"1," * 80_000 + b"1" + b"]" * 100)
    text = dumps(value, indent=2)
    assert len(text) <= INDENTED_FACTOR * len(dumps(value))
    assert json.loads(text) == value


def test_usual_json_is_indented() -> None:
    value = [{"name": f"entry {number}", "values": {"a": [1, 2], "b": "a [note]"}} for number in range(5_000)]
    assert dumps(value, indent=2) == json.dumps(value, indent=2, ensure_ascii=False)


def test_json_text_with_brackets_and_quotes_in_its_strings_counts_only_real_levels() -> None:
    assert nesting_depth(b'{"a\\"[[[": [[1], "\\\\"], "b": "]]{{"}') == 3
    assert nesting_depth(b"1") == 0
    assert nesting_depth(b"[" * 99 + b"]" * 99, 10) == 11


@pytest.mark.parametrize("item", [b"{}", b"[]", b"0", b'"a,]"', b'{"a":[1,2,{"b":","}]}', b'"\\"],["'])
def test_only_the_wanted_items_of_a_long_array_are_made(item: bytes) -> None:
    raw = b"[" + b",".join([item] * 300_000) + b"]"
    tracemalloc.start()
    items, rest = decode_array(raw, 500)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [bytes(item) for item in items] == [item] * 500
    assert rest > 0
    assert most < 2 * len(raw)


def test_a_shortened_array_shows_how_many_items_are_left_out() -> None:
    items, rest = decode_array(b"[1, 2, 3]", 2)
    assert ([bytes(item) for item in items], rest) == ([b"1", b"2"], 1)
    assert decode_array(b"[]", 2) == ((), 0)


def test_a_value_that_is_no_array_is_refused_with_a_bounded_reason() -> None:
    with pytest.raises(MalformedMessage) as refused:
        decode_array(b'{"a": 1}', 5, "content")
    assert "content" in refused.value.message
    with pytest.raises(MalformedMessage) as refused:
        decode_array(json.dumps(["x" * 100_000])[:-1].encode(), 5)
    assert len(refused.value.message) < 3_000


def test_a_subclass_of_str_is_encoded_as_its_text_and_other_types_are_refused() -> None:
    assert encode({"problems": [ConfigWarning("odd")]}) == b'{"problems":["odd"]}'
    with pytest.raises(TypeError, match="object"):
        encode([object()])


class Envelope(Struct, frozen=True):
    arguments: dict[str, Any]
    children: tuple["Envelope", ...] = ()
    rest: Raw = Raw()


@pytest.mark.parametrize("levels", [MAX_STRUCT_DEPTH, 5_000, 100_000])
def test_plain_values_inside_a_struct_are_bounded_in_depth_on_each_version_of_python(levels: int) -> None:
    raw = b'{"arguments":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"
    reason = f"The call is not valid: It is nested deeper than {MAX_STRUCT_DEPTH} levels."
    for kind in (Envelope, object, list[Any], dict[str, object], Message, Envelope | None):
        with pytest.raises(MalformedMessage, match=reason):
            decode(raw, cast("type[object]", kind), "call")
        with pytest.raises(MalformedMessage, match=reason):
            make_decoder(cast("type[object]", kind), "call")(raw)
        assert decode_or_none(raw, cast("type[object]", kind)) is None
    with pytest.raises(MalformedMessage, match="nested deeper than"):
        decode(raw.decode(), Envelope)
    with pytest.raises(MalformedMessage, match="nested deeper than"):
        decode(Raw(raw), Envelope)


def test_the_deepest_value_inside_a_struct_is_still_read() -> None:
    raw = b'{"arguments":' + b'{"a":' * (MAX_STRUCT_DEPTH - 1) + b"1" + b"}" * (MAX_STRUCT_DEPTH - 1) + b"}"
    assert encode(decode(raw, Envelope).arguments) == raw[len(b'{"arguments":') : -1]


def test_brackets_inside_a_text_do_not_count_as_levels() -> None:
    raw = b'{"arguments":{"a":"' + b"[" * 5_000 + b'"}}'
    assert decode(raw, Envelope).arguments == {"a": "[" * 5_000}


def test_a_member_is_found_only_if_every_value_on_its_path_is_an_object() -> None:
    document = {"servers": {"time": {"args": ["--utc"]}}}
    assert find_member(document, ("servers", "time", "args")) == ["--utc"]
    assert find_member(document, ("servers", "time", "args", "0")) is None
    assert find_member(["servers"], ("servers",)) is None
    assert find_member(document, ()) is document
    assert as_object(["servers"]) == as_object(None) == {}
