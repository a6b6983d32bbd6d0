"""Tests for editing a tool call: form fields from the tool's schema, filled with the model's arguments."""

import time
from typing import Any

import pytest

from mcphost.host.questions.form_fields import Field, field_error
from mcphost.host.questions.forms import MAX_FIELDS, argument_fields
from mcphost.serialization import Raw, encode


def tool_form_fields(schema: Any, arguments: dict[str, Any] | None = None) -> dict[str, Field]:
    return {field.name: field for field in argument_fields(Raw(encode(schema)), arguments or {})}


SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where"},
        "count": {"type": "integer", "maximum": 10, "default": 3},
        "mode": {"type": "string", "enum": ["r", "w"]},
        "deep": {"type": "object", "title": "Deep", "properties": {}},
    },
    "required": ["path"],
}


def test_simple_properties_are_typed_fields_and_all_others_are_json() -> None:
    found = tool_form_fields(SCHEMA)
    assert [(field.name, field.kind) for field in found.values()] == [
        ("path", "text"), ("count", "integer"), ("mode", "choice"), ("deep", "json"),
    ]  # fmt: skip
    assert (found["path"].required, found["path"].description, found["deep"].title) == (True, "Where", "Deep")
    assert field_error(found["count"], 11) == "must be at most 10"
    assert field_error(found["deep"], {"any": ["thing"]}) == ""


def test_arguments_beyond_the_schema_are_fields_as_well_so_that_nothing_is_hidden() -> None:
    found = tool_form_fields(SCHEMA, {"path": "/x", "extra": {"a": 1}})
    assert list(found)[-1] == "extra"
    assert found["extra"].kind == "json"


@pytest.mark.parametrize(
    ("name", "value"),
    [("path", 5), ("count", {"a": 1}), ("count", True), ("mode", "x"), ("mode", ["r"])],
)
def test_a_value_that_its_kind_cannot_show_is_shown_as_json(name: str, value: Any) -> None:
    assert tool_form_fields(SCHEMA, {name: value})[name].kind == "json"


def test_an_invalid_value_stays_in_its_own_field() -> None:
    assert tool_form_fields(SCHEMA, {"count": 99})["count"].kind == "integer"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        [],
        "x",
        {"properties": []},
        {"properties": {f"p{n}": {} for n in range(MAX_FIELDS + 1)}},
        {"x": "y" * 300_000},
    ],
)
def test_a_schema_without_showable_fields_makes_no_form(schema: Any) -> None:
    assert tool_form_fields(schema) == {}


def test_a_schema_that_is_no_json_makes_no_form() -> None:
    assert argument_fields(Raw(b"{"), {}) == ()


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "string", "description": "\ufdfa" * 5_000},
        {"$ref": "#/$defs/big", **{f"k{number}": 1 for number in range(10_000)}},
    ],
    ids=["description", "chain"],
)
def test_many_properties_that_refer_to_one_long_definition_take_little_time(definition: dict[str, Any]) -> None:
    properties = {f"x{number}": {"$ref": "#/$defs/big"} for number in range(MAX_FIELDS)}
    began = time.process_time()
    assert len(tool_form_fields({"properties": properties, "$defs": {"big": definition}})) == MAX_FIELDS
    assert time.process_time() - began < 0.2


STRINGS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    "entry",
    [
        STRINGS,
        {"anyOf": [STRINGS, {"type": "null"}], "default": None},
        {"type": ["array", "null"], "items": {"type": "string"}},
        {"$ref": "#/$defs/names"},
        {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/name"}}, {"type": "null"}]},
    ],
)
def test_a_list_of_texts_is_a_field_of_lines_also_if_it_may_be_null(entry: Any) -> None:
    schema = {"properties": {"tags": entry}, "$defs": {"names": STRINGS, "name": {"type": "string"}}}
    for arguments in ({}, {"tags": ["a", "b c"]}, {"tags": []}):
        assert tool_form_fields(schema, arguments)["tags"].kind == "texts"


@pytest.mark.parametrize("value", [None, "a", [1], ["a", None], ["a\nb"], ["a", ""], ["a", " "], {"a": 1}])
def test_a_value_that_lines_cannot_show_is_shown_as_json(value: Any) -> None:
    schema = {"properties": {"tags": {"anyOf": [STRINGS, {"type": "null"}]}}}
    assert tool_form_fields(schema, {"tags": value})["tags"].kind == "json"


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "array"},
        {"type": "array", "items": {"type": "integer"}},
        {"anyOf": [STRINGS, {"type": "string"}]},
        {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    ],
)
def test_a_list_of_other_values_stays_json(entry: Any) -> None:
    assert tool_form_fields({"properties": {"tags": entry}})["tags"].kind == "json"


def test_the_bounds_of_a_list_of_texts_are_checked() -> None:
    schema = {"properties": {"tags": STRINGS | {"minItems": 2, "maxItems": 3}}, "required": ["tags"]}
    field = tool_form_fields(schema)["tags"]
    assert field_error(field, ["a"]) == "must have at least 2 lines"
    assert field_error(field, ["a"] * 4) == "must have at most 3 lines"
    assert field_error(field, []) == "is required"
    assert field_error(field, ["a", "b"]) == ""


def test_an_empty_list_that_is_too_short_is_shown_as_json_and_not_as_a_field_that_is_not_sent() -> None:
    schema = {"properties": {"tags": STRINGS | {"minItems": 1}}}
    assert tool_form_fields(schema, {"tags": []})["tags"].kind == "json"
    assert tool_form_fields(schema)["tags"].kind == "texts"
