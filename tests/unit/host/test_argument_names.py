"""Tests that a misspelt argument name is refused, unless the tool's schema allows further names."""

from typing import Any

import pytest

from mcphost.errors import UsageError
from mcphost.host.tools.argument_names import check_argument_names
from mcphost.serialization import Raw, encode


def schema_of(**members: Any) -> Raw:
    properties = {"title": {"type": "string"}, "priority": {"type": "string"}}
    return Raw(encode({"type": "object", "properties": properties, **members}))


@pytest.mark.parametrize("members", [{}, {"additionalProperties": False}, {"required": ["title"], "$defs": {}}])
@pytest.mark.parametrize("name", ["prio", "Priority", "priorityy"])
def test_a_name_that_the_schema_does_not_declare_is_refused_with_a_similar_one(
    members: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_argument_names(["title", name], schema_of(**members))
    assert caught.value.message == f"There is no argument {name!r}."
    assert caught.value.hint.startswith("Did you mean 'priority'? ")


@pytest.mark.parametrize(
    "members",
    [
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^x-": {}}},
        {"anyOf": [{"properties": {"prio": {}}}]},
        {"$ref": "#/$defs/note"},
        {"unevaluatedProperties": False},
        {"extends": {"properties": {"prio": {}}}},
        {"dependentSchemas": {"title": {"properties": {"prio": {}}}}},
        {"$dynamicRef": "#note"},
        {"properties": {}},
        {"properties": []},
    ],
)
def test_a_schema_that_may_allow_further_names_refuses_none(members: dict[str, Any]) -> None:
    check_argument_names(["prio"], schema_of(**members))
    check_argument_names(["prio"], Raw(b"true"))
    check_argument_names(["prio"], Raw(b"{"))


@pytest.mark.parametrize(
    "members", [{"required": ["prio", 1]}, {"dependentRequired": {"title": ["prio"], "priority": None}}]
)
def test_a_name_that_is_only_required_is_allowed_and_no_other(members: dict[str, Any]) -> None:
    check_argument_names(["title", "prio"], schema_of(**members))
    with pytest.raises(UsageError, match="There is no argument 'prioo'"):
        check_argument_names(["prioo"], schema_of(**members))


def test_without_a_similar_name_a_few_declared_ones_are_listed() -> None:
    many = {"x" * 1_000: {}, **{f"field{number}": {} for number in range(30)}}
    with pytest.raises(UsageError) as caught:
        check_argument_names(["zzz"], schema_of(properties=many))
    assert "Its arguments: 'field0', " in caught.value.hint
    assert "'field9', and 21 more. To send any name" in caught.value.hint
    with pytest.raises(UsageError, match=r"There is no argument 'z{60}'\."):
        check_argument_names(["z" * 9_000], schema_of())
