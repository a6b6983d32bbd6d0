"""Tests for permission rules as text: what they can express, and that formatting and parsing are inverse."""

import pytest

from mcphost.config.rule_syntax import (
    exact_pattern,
    format_path,
    format_rule,
    parse_alternatives,
    parse_path,
    parse_rule,
)
from mcphost.config.rules import Condition, Rule
from mcphost.errors import UsageError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("s/t?only:", ()),
        ("s/t?a=1&only:b", ("b",)),
        ("s/t?only:b,c.d,e%2Ef", ("b", "c.d", "e%2Ef")),
        ("s/t?only:a%2Cb,c%20d,e%26%3D", ("a%2Cb", "c%20d", "e%26%3D")),
    ],
)
def test_the_other_arguments_of_a_call_can_be_named(text: str, names: tuple[str, ...]) -> None:
    rule = parse_rule(text)
    assert rule.conditions[-1] == Condition((), "only", names)
    assert format_rule(rule) == text
    assert all(format_path(parse_path(name)) == name for name in names)


@pytest.mark.parametrize("text", ["s/t?only:,a", "s/t?only:a..b", "s/t?only:.", "s/t?only", f"s/t?only:{'a,' * 100}a"])
def test_a_wrong_list_of_other_arguments_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "server", "tool", "covered"),
    [
        ("fs", "fs", "anything", True),
        ("fs", "fs2", "x", False),
        ("fs", "FS", "x", False),
        ("fs/read", "fs", "read", True),
        ("fs/read", "fs", "Read", False),
        ("fs/read", "fs", "ｒead", False),
        ("fs/re\u0301ad", "fs", "r\u00e9ad", False),
        ("fs/read", "fs", "read\u200b", False),
        ("fs/read", "fs", "read\n", False),
        ("fs/read", "fs", "read_all", False),
        ("fs/read*", "fs", "read_all", True),
        ("fs/*", "fs", "", True),
        ("fs/*_file", "fs", "read_file", True),
        ("fs/*_file", "fs", "read_files", False),
        ("fs/a*a", "fs", "a", False),
        ("fs/a*b*c", "fs", "acbc", True),
        ("fs/a*b*c", "fs", "acb", False),
        ("fs/a*bb*b", "fs", "abb", False),
        ("fs/a*/b", "fs/a*", "b", False),
        ("fs/a.c", "fs", "abc", False),
        ("fs/[a]", "fs", "a", False),
        ("fs/read*", "fs", "read\nx", True),
        ("fs/a%2A", "fs", "a*", True),
        ("fs/a%2A", "fs", "ab", False),
        ("a%2Fb/c", "a/b", "c", True),
        ("a/b/c", "a/b", "c", True),
        ("a/b", "a/b", "anything", True),
    ],
)
def test_a_rule_covers_exactly_the_names_in_it(text: str, server: str, tool: str, covered: bool) -> None:
    assert any(rule.covers(server, tool) for rule in parse_alternatives(text)) is covered


def test_a_pattern_with_many_stars_is_compared_without_backtracking() -> None:
    assert not parse_rule("fs/" + "a*" * 3_000 + "b").covers("fs", "a" * 100_000)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("n=<10", Condition(("n",), "<", (10,))),
        ("n=>=-1.5", Condition(("n",), ">=", (-1.5,))),
        ("a.b=x", Condition(("a", "b"), "is", ("x",))),
        ("a%2Eb=x", Condition(("a.b",), "is", ("x",))),
        ("force=false", Condition(("force",), "is", (False,))),
        ('force="false"', Condition(("force",), "is", ("false",))),
        ("n=5", Condition(("n",), "is", (5,))),
        ('n="5"', Condition(("n",), "is", ("5",))),
        ('n="<5"', Condition(("n",), "is", ("<5",))),
        ("path=under:/home/me", Condition(("path",), "under", ("/home/me",))),
        ("kind=in:a,b%2Cc,3", Condition(("kind",), "in", ("a", "b,c", 3))),
        ("name=re:a%26b?=x", Condition(("name",), "re", ("a&b?=x",))),
        ("q=", Condition(("q",), "is", ("",))),
        ("q=https://a/?b=c", Condition(("q",), "is", ("https://a/?b=c",))),
    ],
)
def test_a_condition_is_parsed_as_intended(text: str, condition: Condition) -> None:
    rule = parse_rule(f"fs/t?{text}")
    assert rule == Rule(server="fs", tool="t", conditions=(condition,))
    assert [type(value) for value in rule.conditions[0].values] == [type(value) for value in condition.values]
    assert parse_rule(format_rule(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "/x", "fs/", "*", "f*/x", "fs/t?", "fs/t?n", "fs/t?=1", "fs/t?a..b=1", "fs/t?n=<x", "fs/t?n=<true",
        "fs/t?n=<1e400", "fs/t?n=1e400", "fs/t?n==5", "fs/t?path=under:", "fs/t?path=under:proj",
        "fs/t?path=under:../x", "fs/t?path=under:/a%00b", "fs/t?path=under:~root", "fs/t?x=re:", "fs/t?x=%", "fs/%zz",
        "fs/%FF", 'fs/t?x="abc', "fs/t?n=" + "9" * 400, "fs/t?" + "&".join(["a=1"] * 21),
        "fs/t?a=in:" + ",".join("abcde" * 30), "fs/t?x=re:" + "a" * 501, "f" * 9_000,
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_meant_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="rule") as exc_info:
        parse_rule(text)
    assert len(str(exc_info.value)) < 600


HOSTILE = [
    "*",
    "a*b",
    "?",
    "a?b=c",
    "%",
    "%2A",
    "a/b",
    "&",
    "=",
    "\0",
    "\x1b[2J",
    "\u202e",
    "é",
    "名",
    "\ud800",
    " x ",
    ",",
    "x from:y",
    "x never-from:*",
    "x\u00a0from:y ",
    "\u3000x\u3000",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_rule_for_one_tool_covers_only_that_one_whatever_its_name(name: str) -> None:
    rule = Rule(server=f"s{name}", tool=exact_pattern(name))
    again = parse_rule(format_rule(rule))
    assert again == rule
    assert again.covers(f"s{name}", name)
    assert again.exact_tool == name
    assert not any(again.covers(f"s{name}", other) for other in [*HOSTILE, "ab", "axb", "x", ""] if other != name)
    assert "\x1b" not in format_rule(rule)


@pytest.mark.parametrize("value", [*HOSTILE, "true", "5", '"', '"x"', "under:/x", "<5", "=", "in:a", "re:", "", "a,b"])
def test_any_text_can_be_the_value_and_the_name_of_a_condition(value: str) -> None:
    for condition in (
        Condition((value or "a", "b"), "is", (value,)),
        Condition(("x",), "in", (value, True, 1, 1.5, "true", value)),
        Condition(("x",), "under", (f"/{value.replace(chr(0), '')}",)),
        Condition(("x",), "re", (value or "x",)),
    ):
        rule = Rule(server="s", conditions=(condition,))
        again = parse_rule(format_rule(rule))
        assert again == rule
        assert list(map(type, again.conditions[0].values)) == list(map(type, condition.values))
