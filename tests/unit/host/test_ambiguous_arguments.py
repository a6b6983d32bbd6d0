"""Tests for arguments that servers may parse in different ways: allow rules ignore them, never-rules do not."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.host.consent.rule_matching import RuleMatcher
from tests.unit.host.rule_inputs import rule_input

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "name",
    [
        "path ", " path", "path\0", "path\u200b", "pa\u00adth", "path\ufe0f", "path\u3164", "path\U000e0041",
        "path[]", "path[0]", "path.", "$path", "--path", "p\u00e1th", "PATH", "pa_th", "pa.th", "\u24df\u24d0th",
        "__proto__", "constructor",
    ],
)  # fmt: skip
async def test_an_argument_that_may_be_read_as_the_one_of_the_rule_is_doubtful(
    rule_matcher: RuleMatcher, name: str
) -> None:
    rule = parse_rule("fs/t?path=ok")
    assert await rule_matcher.match(rule, rule_input(path="ok")) == "yes"
    assert await rule_matcher.match(rule, rule_input(**{"path": "ok", name: "evil"})) == "unsure"
    assert await rule_matcher.match(rule, rule_input(**{name: "ok"})) == "unsure"


@pytest.mark.parametrize("name", ["paths", "pat", "path2", "path[x]", "\u0440ath", "other"])
async def test_an_argument_of_another_name_is_ignored(rule_matcher: RuleMatcher, name: str) -> None:
    assert await rule_matcher.match(parse_rule("fs/t?path=ok"), rule_input(**{"path": "ok", name: "x"})) == "yes"
    assert await rule_matcher.match(parse_rule("fs/t?path=ok"), rule_input(**{name: "ok"})) == "no"


@pytest.mark.parametrize(
    "arguments",
    [
        {"options.depth": 9},
        {"options[depth]": 9},
        {"options_depth": 9},
        {"optionsDepth": 9},
        {"Options": {"depth": 9}},
        {"options": {"Depth": 9}},
        {"options": '{"depth": 9}'},
        {"options": [{"depth": 9}]},
        {"options": None},
        {"opt": {"ions": {"depth": 9}}},
        {"_": {"options": {"depth": 9}}},
    ],
)
async def test_nested_arguments_are_doubtful_in_every_other_form(
    rule_matcher: RuleMatcher, arguments: dict[str, Any]
) -> None:
    rule = parse_rule("fs/t?options.depth=9")
    assert await rule_matcher.match(rule, rule_input(options={"depth": 9}, other={"depth": 3})) == "yes"
    assert await rule_matcher.match(rule, rule_input(options={"depth": 8})) == "no"
    assert await rule_matcher.match(rule, rule_input(**arguments)) == "unsure"
    if "options" not in arguments:
        assert await rule_matcher.match(rule, rule_input(options={"depth": 9}, **arguments)) == "unsure"


async def test_a_name_with_a_dot_is_doubtful_beside_the_nested_one(rule_matcher: RuleMatcher) -> None:
    rule = parse_rule("fs/t?a%2Eb=x")
    assert await rule_matcher.match(rule, rule_input(**{"a.b": "x"})) == "yes"
    assert await rule_matcher.match(rule, rule_input(**{"a.b": "x", "a": {"b": "y"}})) == "unsure"


async def test_names_nested_without_end_cannot_be_judged(rule_matcher: RuleMatcher) -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"_": deep}
    assert await rule_matcher.match(parse_rule("fs/t?path=ok"), rule_input(path="ok", _=deep)) == "unsure"


@pytest.mark.parametrize(
    ("condition", "value", "answer"),
    [
        ("branch=main", "Main", "unsure"),
        ("branch=main", " main", "unsure"),
        ("branch=main", "ma\u200bin", "unsure"),
        ("branch=main", '"main"', "unsure"),
        ("branch=main", "\uff4dain", "unsure"),
        ("branch=main", "mainly", "no"),
        ("branch=in:main,dev", "DEV", "unsure"),
        ("n=in:1,a", "1", "unsure"),
        ("n=in:1,a", "1.0", "unsure"),
        ("n=in:1,a", "b", "no"),
        ("n=in:true,a", "yes", "unsure"),
        ("n=in:true,a", "no", "no"),
        ("n=9007199254740992", 9007199254740993, "unsure"),
        ("n=1", 10**4000, "no"),
        ("cmd=re:.*rm -rf.*", "rm -rf /", "yes"),
        ("cmd=re:.*rm -rf.*", "ls\nrm -rf /", "unsure"),
        ("cmd=re:.*rm -rf.*", "r\u200bm -rf /", "unsure"),
        ("cmd=re:ls [^;|]*", "ls x", "yes"),
        ("cmd=re:ls [^;|]*", "ls x\nrm -rf /", "unsure"),
        ("cmd=re:ls [^;|]*", "ls x\r", "unsure"),
    ],
)
async def test_a_text_that_may_be_read_as_the_one_of_the_rule_is_doubtful(
    rule_matcher: RuleMatcher, condition: str, value: Any, answer: str
) -> None:
    name = condition.partition("=")[0]
    assert await rule_matcher.match(parse_rule(f"fs/t?{condition}"), rule_input(**{name: value})) == answer


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "proj" / "My Documents").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    return str(tmp_path / "proj")


TWO_WAYS = [
    "{proj}/a:/etc/passwd", "{proj}/a,/etc/passwd", "{proj}/a;/etc/passwd", "{proj}/a|/etc/passwd",
    "{proj}/a\n/etc/passwd", "{proj}/a /etc/passwd", "{proj}/a ~/x", "{proj}/a -o/etc/x", "{proj}/a ../../etc",
    "{proj}/a>/etc/passwd", "{proj}/a</etc/passwd", "{proj}/a&/etc/passwd", "{proj}/a\"/etc", "{proj}/a'/etc",
    "{proj}/a=/etc/passwd", "{proj}/../etc#/../proj/x", "{proj}/..;/..;/etc", "{proj}/a!/etc/passwd", "{proj}/a\t/etc",
    "@a", "@{proj}/a", "-a", "--output={proj}/a", "-o{proj}/a", "+a", "!a", "/{proj}/a", "{proj}/..../x",
    "{proj}/.../x",
    "{proj}/%u002e/x", "{proj}/.\u200b./x", "{proj}/a\uff1a/etc", "{proj}/a\u2028/etc", "{proj}/a,b", "it's",
    "\"{proj}/a\"", "{proj}/a=\u0338/etc",
]  # fmt: skip


@pytest.mark.parametrize("path", TWO_WAYS)
async def test_a_path_that_may_be_several_paths_or_an_option_is_not_covered(
    rule_matcher: RuleMatcher, project: str, path: str
) -> None:
    value = path.replace("{proj}", project)
    assert await rule_matcher.match(parse_rule(f"fs/t?p=under:{project}"), rule_input(project, p=value)) == "unsure"


@pytest.mark.parametrize(
    "path",
    [
        "a b",
        "My Documents/x",
        "{proj}/My Documents/x",
        "{proj}/x (1).txt",
        "{proj}/a+b@c-d",
        "{proj}/app/(auth)/x.py",
        "{proj}/a (copy)/b",
        "(a)/(..)b",
    ],
)
async def test_usual_names_are_covered_in_any_working_directory(
    rule_matcher: RuleMatcher, project: str, path: str
) -> None:
    value = path.replace("{proj}", project)
    runs_in = "/" if value.startswith("/") else project
    assert await rule_matcher.match(parse_rule(f"fs/t?p=under:{project}"), rule_input(runs_in, p=value)) == "yes"


@pytest.mark.parametrize(
    "path",
    [
        "/srv/a:/etc/passwd", "/srv/a,/etc/passwd", "/srv/a;/etc/passwd", "@/etc/passwd", "-o/etc/passwd",
        "--file=/etc/passwd", "file=@/etc/passwd", "x /etc/passwd", "'/etc/passwd'", "<(cat /etc/passwd)",
        "/srv/a\n/etc/passwd", "/etc/passwd#x", "name=x,path=/etc/passwd", "//etc/passwd", "a\uff1a/etc/passwd",
        "(../etc/passwd)", "(/etc/passwd)", "/tmp (/etc/passwd)", "x(/etc)", "(see /etc/passwd)",
        "\u201c/etc/passwd\u201d", "/tmp [/etc/passwd]", "{/etc/passwd}", "/srv/a,/etc/x(1)/y",
    ],
)  # fmt: skip
async def test_a_never_rule_about_a_folder_sees_every_path_in_the_text(rule_matcher: RuleMatcher, path: str) -> None:
    assert await rule_matcher.match(parse_rule("fs/t?p=under:/etc"), rule_input("/srv", p=path)) != "no"


@pytest.mark.parametrize(
    "path",
    ["/srv/a,b", "/srv/x (1)", "/srv/(a)", "(b)", "it's", "@scope/pkg", "date=2026-01-01/x", "-rf", "x y", "/srv/a:1"],
)
async def test_a_never_rule_about_a_folder_does_not_affect_other_paths(rule_matcher: RuleMatcher, path: str) -> None:
    assert await rule_matcher.match(parse_rule("fs/t?p=under:/etc"), rule_input("/srv", p=path)) == "no"


async def test_a_text_of_many_paths_cannot_be_judged(rule_matcher: RuleMatcher) -> None:
    assert await rule_matcher.match(parse_rule("fs/t?p=under:/etc"), rule_input("/srv", p="a," * 200)) == "unsure"
