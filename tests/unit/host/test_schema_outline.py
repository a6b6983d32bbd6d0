"""Tests for the outline of nested arguments: what it shows of a schema, and how little a hostile schema costs."""

import json
from typing import Any

import pytest

from mcphost.host.questions.forms import argument_fields
from mcphost.host.questions.schema_outline import MAX_OUTLINE, outline_schema

ITEM = {
    "title": "Item",
    "type": "object",
    "properties": {
        "sku": {"type": "string"},
        "qty": {"type": "integer"},
        "notes": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["sku", "qty"],
}
ROOT: dict[str, Any] = {
    "$defs": {
        "Item": ITEM,
        "Short": {"properties": {"a": {"const": None}}, "required": ["a"]},
        "Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}},
    }
}


@pytest.mark.parametrize(
    ("schema", "outline"),
    [
        (ITEM, '{"sku": string, "qty": integer, "notes"?: string | null}'),
        ({"items": ITEM, "type": "array"}, '[{"sku": string, "qty": integer, "notes"?: string | null}]'),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"enum": [{"a": 1}, [1]]}, "{…} | […]"),
        ({"type": ["string", "integer"]}, "string | integer"),
        ({"type": "array", "items": {"$ref": "#/$defs/Short"}}, '[{"a": null}]'),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{string: number}"),
        ({"type": "array", "items": {"oneOf": [{"type": "boolean"}, {"type": "array"}]}}, "[boolean | [any]]"),
        ({"$ref": "#/$defs/Loop"}, "[[…]]"),
    ],
)  # fmt: skip
def test_an_outline_shows_the_members_and_types_of_a_nested_value(schema: Any, outline: str) -> None:
    assert outline_schema(schema, ROOT) == outline


@pytest.mark.parametrize("schema", [True, {}, {"type": "object"}, {"type": "array"}, {"type": "a kind of its own"}, []])
def test_a_schema_that_says_nothing_about_a_value_has_no_outline(schema: Any) -> None:
    assert outline_schema(schema, ROOT) == ""


def test_a_type_that_json_schema_does_not_have_is_not_quoted_as_one() -> None:
    assert outline_schema({"type": "array", "items": {"type": "string. Allowed by mcphost"}}, ROOT) == ""
    assert outline_schema({"type": "object", "properties": {"a": {"type": ["x", 5]}}}, ROOT) == '{"a"?: any}'


def test_a_hostile_schema_has_a_short_outline_and_few_parts_are_read() -> None:
    wide: Any = {"type": "string"}
    for _ in range(60):
        wide = {"type": "object", "properties": {f"{'n' * 500}{number}": wide for number in range(500)}}
    choices = {"anyOf": [{"enum": ["v" * 10_000] * 1_000}] * 1_000}
    for schema in (wide, choices, {"type": ["array"] * 10_000, "items": wide}):
        assert len(outline_schema(schema, ROOT)) <= MAX_OUTLINE + 1


def test_two_arguments_of_one_type_are_named_by_their_own_names_and_have_its_outline() -> None:
    address = {"title": "Address", "type": "object", "properties": {"street": {"type": "string"}}}
    reference = {"$ref": "#/$defs/Address"}
    schema = {
        "$defs": {"Address": address},
        "type": "object",
        "properties": {
            "ship_to": reference,
            "bill_to": {"anyOf": [reference, {"type": "null"}]},
            "from": {**reference, "title": "Sender"},
        },
    }
    fields = argument_fields(json.dumps(schema).encode(), {})
    assert [(field.name, field.title, field.outline) for field in fields] == [
        ("ship_to", "", '{"street"?: string}'),
        ("bill_to", "", '{"street"?: string} | null'),
        ("from", "Sender", '{"street"?: string}'),
    ]
