"""Tests for tool arguments given as KEY=VALUE or --args: converted according to the schema, with clear errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.cli.call_arguments import parse_arguments
from mcphost.errors import UsageError
from mcphost.serialization import Raw

SCHEMA = Raw(json.dumps({"type": "object", "properties": {
    "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string"},
    "l": {"type": "array"}, "o": {"type": "object"}, "si": {"type": ["string", "integer"]},
    "any": {}, "e": {"enum": ["1", "2"]}, "u": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "z": True,
}}).encode())  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i=42", 42),
        ("n=1.5", 1.5),
        ("n=2", 2),
        ("b=true", True),
        ("s=42", "42"),
        ("s=", ""),
        ("s=a=b", "a=b"),
        ("l=[1, 2]", [1, 2]),
        ('o={"a": 1}', {"a": 1}),
        ("si=5", 5),
        ("si=x", "x"),
        ("si=true", "true"),
        ("any=5", 5),
        ("any=x", "x"),
        ("e=1", "1"),
        ("u=null", None),
        ("z=[1", "[1"),
        ("unknown=3", 3),
        ("unknown=03", "03"),
        ("i=1.0", 1.0),
    ],
)
def test_value_gets_the_type_the_schema_wants(text: str, value: Any) -> None:
    made = parse_arguments([text], None, SCHEMA)
    assert made == {text.partition("=")[0]: value}
    assert type(next(iter(made.values()))) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("i=x", "expects a whole number"), ("i=1.5", "expects a whole number"), ("b=yes", "expects true or false"),
     ("l=1", "expects a list"), ("o=x", "expects an object"),
     ("u=x", "expects a whole number or null"), ("n=true", "expects a number"), ("nothing", "is not KEY=VALUE"),
     ("=x", "KEY=VALUE")],
)  # fmt: skip
def test_value_that_does_not_fit_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_arguments([text], None, SCHEMA)


def test_key_given_twice_is_named() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_arguments(["s=1", "s=2"], None, SCHEMA)


def test_json_arguments_come_first_and_pairs_win(tmp_path: Path) -> None:
    assert parse_arguments(["i=2"], '{"i": 1, "s": "x"}', SCHEMA) == {"i": 2, "s": "x"}
    (tmp_path / "a.json").write_text('{"i": 7}')
    assert parse_arguments([], f"@{tmp_path / 'a.json'}", SCHEMA) == {"i": 7}


@pytest.mark.parametrize(
    ("source", "text"), [("{", "not valid"), ("[]", "not a JSON object"), ("@/no/such", "cannot be read")]
)
def test_json_arguments_that_cannot_be_used_are_named(source: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_arguments([], source, SCHEMA)


@pytest.mark.parametrize("schema", [b"", b"[]", b'{"properties": 5}', b"{", b'{"properties": {"i": {"type": 5}}}'])
def test_a_schema_without_types_means_json_or_text(schema: bytes) -> None:
    assert parse_arguments(["i=2", "s=x"], None, Raw(schema)) == {"i": 2, "s": "x"}


def test_text_for_an_array_is_refused_with_an_example() -> None:
    with pytest.raises(UsageError) as refused:
        parse_arguments(["l=urgent, home"], None, SCHEMA)
    assert "expects a list" in refused.value.message
    assert refused.value.hint == 'Use JSON, for example ["urgent", "home"].'


@pytest.mark.parametrize(
    ("text", "wanted", "hint"),
    [
        ("i=two", "a whole number", "For example: i=2"),
        ("n=two", "a number", "For example: n=2.5"),
        ("b=yes", "true or false", "For example: b=true"),
    ],
)
def test_a_word_for_a_number_is_refused_with_an_example_and_no_word_about_json(
    text: str, wanted: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        parse_arguments([text], None, SCHEMA)
    key, _sign, value = text.partition("=")
    assert (refused.value.message, refused.value.hint) == (
        f"The argument {key!r} is {value!r}, but the tool expects {wanted}.",
        hint,
    )
