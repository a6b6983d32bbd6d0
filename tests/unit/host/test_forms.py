"""A server's form: which fields it may have, what makes an answer valid, and what is sent of it."""

import time
from typing import Any

import pytest

from mcphost.data import Raw, encode
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.forms import MAX_FIELDS, Field, Option, filled, parse


def fields(properties: dict[str, Any], *required: str) -> tuple[Field, ...]:
    return parse(Raw(encode({"type": "object", "properties": properties, "required": list(required)})))


def one(schema: dict[str, Any]) -> Field:
    (field,) = fields({"x": schema})
    return field


def sent(schema: dict[str, Any], value: Any) -> Any:
    return filled(fields({"x": schema}), {"x": value})["x"]


def problem(schema: dict[str, Any], value: Any) -> str:
    with pytest.raises(UsageError) as caught:
        sent(schema, value)
    return caught.value.message


@pytest.mark.req("elic.form.string")
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"minLength": 2, "maxLength": 3}, ("ab", "äöü"), ("a", "abcd")),
        ({"format": "email"}, ("ada@example.com", "a.b+c@x"), ("ada", "a@", "@b", "a b@c.d", "a@b@c", "a@b..c")),
        ({"format": "uri"}, ("https://example.com/x?y#z", "mailto:ada@x.org"), ("example.com", "https:// x", "//x")),
        ({"format": "date"}, ("2026-07-28",), ("2026-02-30", "20260728", "2026-7-28", "2026-07-28T00:00:00Z")),
        (
            {"format": "date-time"},
            ("2026-07-28T12:00:00Z", "2026-07-28T12:00:00.5+02:00"),
            ("2026-07-28", "2026-07-28T12:00:00", "2026-07-28T25:00:00Z"),
        ),
        ({"format": "unheard-of"}, ("anything", "1"), (5, True, ["a"])),
        ({"pattern": "^[A-Z]{2}\\d+$"}, ("AB1", "XY123"), ("AB", "ab1", "AB1\n")),
    ],
)
def test_texts_keep_to_their_length_and_format(schema: dict[str, Any], good: Any, bad: Any) -> None:
    for value in good:
        assert sent({"type": "string", **schema}, value) == value
    for value in bad:
        assert problem({"type": "string", **schema}, value).startswith("The form is not filled in well: 'x' must")


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "(a|a)*b", "a*a*a*a*a*a*a*a*a*b", "(", "\\1", "(?=x)", "[", "a{9999999}"]
)
def test_a_pattern_that_could_take_for_ever_or_is_none_binds_nobody(pattern: str) -> None:
    began = time.monotonic()
    assert sent({"type": "string", "pattern": pattern}, "a" * 400 + "!")
    assert time.monotonic() - began < 0.2


@pytest.mark.req("elic.form.number")
def test_numbers_keep_to_their_range_and_are_sent_as_numbers() -> None:
    whole = {"type": "integer", "minimum": 1, "maximum": 100}
    assert (sent(whole, 1), sent(whole, 100), sent(whole, 7.0)) == (1, 100, 7)
    assert type(sent(whole, 7.0)) is int
    assert sent({"type": "number", "maximum": 1000}, 95.5) == 95.5
    for value in (0, 101, 1.5, "5", True, float("inf"), float("nan")):
        assert "must be" in problem(whole, value)


@pytest.mark.req("elic.form.boolean")
def test_booleans_are_sent_as_booleans() -> None:
    assert sent({"type": "boolean"}, False) is False
    for value in ("true", 1, 0):
        assert "true or false" in problem({"type": "boolean"}, value)


@pytest.mark.req("elic.form.enum-names")
@pytest.mark.req("elic.form.enum-single")
@pytest.mark.parametrize(
    ("schema", "titles"),
    [
        ({"enum": ["r", "g"]}, ("r", "g")),
        ({"enum": ["r", "g"], "enumNames": ["Red", "Green"]}, ("Red", "Green")),
        ({"enum": ["r", "g"], "enumNames": ["Red"]}, ("r", "g")),
        ({"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}, ("Red", "Green")),
    ],
)
def test_a_choice_shows_titles_and_sends_values(schema: dict[str, Any], titles: tuple[str, str]) -> None:
    field = one({"type": "string", **schema})
    assert field.options == (Option("r", titles[0]), Option("g", titles[1]))
    assert sent({"type": "string", **schema}, "r") == "r"
    assert "must be one of 'r', 'g'" in problem({"type": "string", **schema}, "Red")


@pytest.mark.req("elic.form.enum-multi")
@pytest.mark.parametrize(
    "items",
    [
        {"type": "string", "enum": ["r", "g", "b"]},
        {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}, {"const": "b", "title": "Blue"}]},
    ],
)
def test_several_choices_keep_to_their_number_and_are_sent_as_a_list(items: dict[str, Any]) -> None:
    schema = {"type": "array", "items": items, "minItems": 1, "maxItems": 2}
    assert sent(schema, ["r", "b"]) == ["r", "b"]
    for value in (["r", "g", "b"], ["x"], ["r", "r"], "r", [5]):
        assert "must" in problem(schema, value)
    assert filled(fields({"x": schema}), {"x": []}) == {}
    with pytest.raises(UsageError, match="must be filled in"):
        filled(fields({"x": schema}, "x"), {"x": []})


@pytest.mark.req("elic.form.defaults")
def test_fields_left_alone_are_sent_with_their_defaults_in_the_right_type() -> None:
    form = fields(
        {
            "name": {"type": "string", "default": "John"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["on", "off"], "default": "on"},
            "colours": {"type": "array", "items": {"type": "string", "enum": ["r", "g"]}, "default": ["g"]},
            "verified": {"type": "boolean", "default": True},
            "nothing": {"type": "string"},
        }
    )
    full = {"name": "John", "age": 30, "score": 95.5, "status": "on", "colours": ["g"], "verified": True}
    assert filled(form, {}) == full
    assert filled(form, {"age": 31, "verified": False}) == {**full, "age": 31, "verified": False}
    # Emptied on purpose is not the same as left alone.
    assert filled(form, {"name": None, "age": None}) == {
        key: full[key] for key in ("score", "status", "colours", "verified")
    }


@pytest.mark.parametrize("default", [5, "x" * 9, None, ["a"], {}])
def test_a_default_that_breaks_the_rules_of_its_own_field_is_none(default: Any) -> None:
    assert one({"type": "string", "maxLength": 8, "default": default}).default is None


@pytest.mark.req("elic.form.required")
@pytest.mark.req("elic.form.validate")
def test_required_fields_must_be_filled_in_and_empty_optional_ones_are_left_out() -> None:
    form = fields({"name": {"type": "string"}, "note": {"type": "string"}, "age": {"type": "integer"}}, "name", "age")
    assert filled(form, {"name": "Ada", "note": "", "age": 3}) == {"name": "Ada", "age": 3}
    with pytest.raises(UsageError) as caught:
        filled(form, {"name": "", "age": "x", "other": 1})
    for words in ("'name' must be filled in", "'age' must be a number", "no field 'other'"):
        assert words in caught.value.message


@pytest.mark.req("elic.form.empty")
def test_a_form_without_fields_is_a_plain_confirmation() -> None:
    assert parse(Raw(b'{"type":"object","properties":{}}')) == ()
    assert parse(Raw(b'{"type":"object"}')) == ()
    assert filled((), {}) == {}


@pytest.mark.req("elic.form.unsupported")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"$ref": "#/$defs/x"},
        {"type": "string", "anyOf": [{"type": "string"}]},
        {"type": "string", "enum": [1, 2]},
        {"type": "string", "enum": []},
        {"type": "string", "enum": ["x"] * 2000},
        {"type": "string", "oneOf": ["a"]},
        {},
        "text",
        None,
    ],
)
def test_a_field_that_forms_may_not_have_is_refused_and_named(schema: Any) -> None:
    with pytest.raises(MalformedMessage, match="'x'"):
        fields({"x": schema})


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b'"x"',
        b"{",
        b'{"type":"array"}',
        b'{"$ref":"#/x"}',
        b'{"oneOf":[]}',
        b'{"properties":[]}',
        b'{"required":{}}',
        b'{"required":["x"]}',
        b'{"properties":' + b'{"a":' * 100_000,
        b'{"description":"' + b"x" * 300_000 + b'"}',
        encode({"properties": {f"f{number}": {"type": "string"} for number in range(MAX_FIELDS + 1)}}),
    ],
)
def test_a_form_that_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse(Raw(raw))


@pytest.mark.req("elic.form.no-secrets")
@pytest.mark.parametrize("name", ["password", "apiKey", "API_KEY", "secretWord", "card_number", "token", "accessKey"])
def test_a_field_that_looks_like_a_secret_is_marked(name: str) -> None:
    (field,) = fields({name: {"type": "string"}})
    assert field.secret
    (field,) = fields({"x": {"type": "string", "title": "Your password"}})
    assert field.secret


@pytest.mark.parametrize("name", ["name", "tokens_used", "compass", "spinning", "key"])
def test_an_ordinary_field_is_not_marked(name: str) -> None:
    (field,) = fields({name: {"type": "string"}})
    assert not field.secret
