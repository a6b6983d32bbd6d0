"""Tests for which calls a permission rule covers: hostile values never match, and unclear ones cause a question."""

import os
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.rules import OTHER_SERVERS, Rule
from mcphost.host.argument_origins import ArgumentOrigin, ArgumentOrigins
from mcphost.host.consent import similar_arguments
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.consent.schema_defaults import find_defaults
from mcphost.serialization import Raw, encode, replace
from mcphost.unicode_forms import normalize
from tests.unit.host.rule_inputs import rule_input

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("condition", "value", "answer"),
    [
        ("n=<10", 9, "yes"),
        ("n=<10", 9.99, "yes"),
        ("n=<10", 10, "no"),
        ("n=<=10", 10, "yes"),
        ("n=<=10", 11, "no"),
        ("n=>10", 11, "yes"),
        ("n=>10", 10, "no"),
        ("n=>=10", 10, "yes"),
        ("n=>=10", 9, "no"),
        ("n=<10", -(10**400), "yes"),
        ("n=<10", 10**400, "no"),
        ("n=<9007199254740993", 9007199254740992.0, "yes"),
        ("n=>9007199254740992", 9007199254740993, "yes"),
        ("n=<10", True, "unsure"),
        ("n=<10", "9", "unsure"),
        ("n=<10", None, "unsure"),
        ("n=<10", [9], "unsure"),
        ("n=<10", {"n": 9}, "unsure"),
        ("n=<10", float("-inf"), "unsure"),
        ("n=>10", float("inf"), "unsure"),
        ("n=<10", float("nan"), "unsure"),
        ("n=1", True, "unsure"),
        ("n=1", 1.0, "yes"),
        ("n=1", "1", "unsure"),
        ("n=true", 1, "unsure"),
        ("n=true", True, "yes"),
        ("n=true", False, "no"),
        ('n="1"', "1", "yes"),
        ("n=abc", "abc", "yes"),
        ("n=abc", "ABC", "unsure"),
        ("n=abc", "abcd", "no"),
        ("n=abc", "\u0430bc", "no"),
        ("n=abc", "abc\0", "unsure"),
        ("n=abc", "abc\n", "unsure"),
        ("n=abc", ["abc"], "unsure"),
        ("n=\u00e9", "e\u0301", "unsure"),
        ("n=in:a,b", "b", "yes"),
        ("n=in:a,b", "c", "no"),
        ("n=in:a,1", 1, "yes"),
        ("n=in:a,1", True, "unsure"),
        ("n=re:a+", "aaa", "yes"),
        ("n=re:a+", "aaab", "no"),
        ("n=re:a+", "baaa", "no"),
        ("n=re:a+", "a\n", "unsure"),
        ("n=re:a+", "b\na\nb", "unsure"),
        ("n=re:a|b", "ab", "no"),
        ("n=re:a|b", "xb", "no"),
        ("n=re:(?m)a", "xa", "no"),
        ("n=re:a)|(?:b", "b", "unsure"),
        ("n=re:(?x)a#", "abc", "unsure"),
        ("n=re:(", "(", "unsure"),
        ("n=re:.*", 5, "unsure"),
        ("n=re:.*", "x" * 100_000, "unsure"),
    ],
)
async def test_a_condition_matches_exactly_its_values(
    rule_matcher: RuleMatcher, condition: str, value: Any, answer: str
) -> None:
    assert await rule_matcher.match(parse_rule(f"fs/t?{condition}"), rule_input(n=value)) == answer


async def test_an_exponential_pattern_is_abandoned_within_seconds(rule_matcher: RuleMatcher) -> None:
    with anyio.fail_after(10):
        assert await rule_matcher.match(parse_rule("fs/t?n=re:(a|a)*(a|aa)*(?=b)c"), rule_input(n="a" * 60)) != "yes"


@pytest.mark.parametrize(
    ("condition", "arguments", "answer"),
    [
        ("a.b=x", {"a": {"b": "x"}}, "yes"),
        ("a.b=x", {"a.b": "x"}, "unsure"),
        ("a%2Eb=x", {"a.b": "x"}, "yes"),
        ("a.b=x", {"a": [{"b": "x"}]}, "unsure"),
        ("a.b=x", {"a": "b"}, "unsure"),
        ("a=x", {}, "no"),
        ("a=x", {"A": "x"}, "unsure"),
        ("a.b=x", {"A": {"b": "x"}}, "unsure"),
        ("a.b=x", {"a": {"B": "x"}}, "unsure"),
        ("a.b=x", {"A": {}, "a": {"b": "x"}}, "unsure"),
        ("a=x", {"a": "x", "A": "y"}, "unsure"),
        ("file_path=x", {"file_path": "x", "filePath": "y"}, "unsure"),
        ("a=x", {"a": "x", "\uff41": "y"}, "unsure"),
        ("a=x", {"a": "y", "A": "x"}, "unsure"),
        ("a=x", {"b": "x"}, "no"),
        ("a=x&b=<3", {"a": "x", "b": 2}, "yes"),
        ("a=x&b=<3", {"a": "x", "b": "2"}, "unsure"),
        ("a=x&b=<3", {"a": "y", "b": "2"}, "no"),
        ("a=x&b=<3", {"a": "x"}, "no"),
        ("b=<3&a=x", {"a": "x", "b": "2"}, "unsure"),
        ("b=<3&a=x", {"a": "y", "b": "2"}, "no"),
    ],
)
async def test_arguments_are_found_by_their_exact_way(
    rule_matcher: RuleMatcher, condition: str, arguments: dict[str, Any], answer: str
) -> None:
    assert await rule_matcher.match(parse_rule(f"fs/t?{condition}"), rule_input(**arguments)) == answer


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"path" + "\u0301" * 900_000: 1}, "unsure"),
        ({"path[" + "0" * 900_000 + "]": 1}, "unsure"),
        ({"[]" * 450_000 + "path": 1}, "unsure"),
        ({"\ufdfa" * 900_000: 1}, "no"),
        ({"p" * 900_000: 1}, "no"),
        ({f"p{number}": 1 for number in range(90_000)}, "unsure"),
        ({f"p{number}": 1 for number in range(2_000)}, "no"),
        ({"path": "/etc" + " " * 900_000}, "unsure"),
        ({"path": "\u200b" * 900_000 + "/etc"}, "unsure"),
        ({"path": "/ETC" + "'" * 900_000}, "unsure"),
        ({"path": "/etc/" + "x" * 900_000}, "no"),
        ({"path": "\ufdfa" * 900_000}, "no"),
        ({"path": "e\u0301" * 450_000}, "no"),
        ({"path": "\u0301" * 900_000}, "no"),
    ],
)
async def test_of_long_names_and_values_only_the_beginning_is_examined(
    rule_matcher: RuleMatcher, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], answer: str
) -> None:
    examined = 0

    def count(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
        nonlocal examined
        examined += len(text)
        return normalize(form, text)

    monkeypatch.setattr(similar_arguments, "normalize", count)
    assert await rule_matcher.match(parse_rule("fs/t?path=/etc"), rule_input(**arguments)) == answer
    assert examined < 1_000


@pytest.mark.parametrize(
    ("condition", "value"),
    [("n=true", "true" + '"' * 1_000), ("n=1", "0" * 1_000 + "1"), ("n=1", "1." + "0" * 1_000 + "'")],
)
async def test_a_long_value_that_may_be_a_number_or_truth_value_is_undecidable(
    rule_matcher: RuleMatcher, condition: str, value: str
) -> None:
    rule = parse_rule(f"fs/t?{condition}")
    assert await rule_matcher.match(rule, rule_input(n=value)) == "unsure"


async def test_another_server_tool_or_account_is_another_rule(rule_matcher: RuleMatcher) -> None:
    rule = Rule(server="fs", tool="t", account="me")
    mine = replace(rule_input(), account="me")
    assert await rule_matcher.match(rule, mine) == "yes"
    assert await rule_matcher.match(rule, rule_input()) == "no"
    assert await rule_matcher.match(rule, replace(mine, tool="T")) == "no"
    assert await rule_matcher.match(rule, replace(mine, server="fs ")) == "no"


@pytest.fixture
def home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a home folder `me` with a project, symbolic links into and out of it, and a folder `outside`."""
    proj = tmp_path / "me" / "proj"
    (proj / "src").mkdir(parents=True)
    (proj / "src" / "a.py").write_text("")
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_text("")
    (tmp_path / "me" / "proj2").mkdir()
    (proj / "out").symlink_to(tmp_path / "outside" / "deep")
    (proj / "file-out").symlink_to("../../outside/secret")
    (proj / "loop").symlink_to("loop")
    (proj / "own").symlink_to("/proc/self/cwd")
    (tmp_path / "outside" / "back").symlink_to(proj)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    return tmp_path


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("{home}/me/proj", "yes"),
        ("{home}/me/proj/", "yes"),
        ("{home}/me/proj/src/a.py", "yes"),
        ("{home}/me/proj/src/new/deep.py", "yes"),
        ("{home}/me/proj//src/./a.py", "yes"),
        ("{home}/me/proj/src/../src/a.py", "yes"),
        ("src/a.py", "yes"),
        (".", "yes"),
        ("~/proj/src/a.py", "yes"),
        ("{home}/outside/back/src/a.py", "yes"),
        ("{home}/me/proj2/x", "no"),
        ("{home}/me/Proj/x", "no"),
        ("{home}/me/pr\u043ej/x", "no"),
        ("{home}/me", "no"),
        ("/etc/passwd", "no"),
        ("{home}/me/proj/../../../../../../../../../../etc", "no"),
        ("../../outside/secret", "no"),
        ("{home}/me/proj/file-out", "no"),
        ("{home}/me/proj/out/x", "no"),
        ("{home}/me/proj/nothing/../../proj2", "no"),
        ("{home}/me/proj/out/../src", "unsure"),
        ("{home}/me/proj/loop", "unsure"),
        ("{home}/me/proj/own/x", "unsure"),
        ("/proc/self/cwd/src", "unsure"),
        ("/dev/fd/0", "unsure"),
        ("~/x", "unsure"),
        ("~nobody-of-that-name/x", "unsure"),
        ("", "unsure"),
        ("{home}/me/proj/a\0b", "unsure"),
        ("{home}/me/proj/a\nb", "unsure"),
        ("{home}/me/proj/\uff0e\uff0e/x", "unsure"),
        ("src\uff0f..\uff0f..", "unsure"),
        ("src\\..\\..\\..\\etc", "unsure"),
        ("file:///etc/passwd", "unsure"),
        ("C:\\x", "unsure"),
        ("%2e%2e/%2e%2e/etc", "unsure"),
        ("$HOME/x", "unsure"),
        ("`id`", "unsure"),
        (" /etc/passwd", "unsure"),
        ("src/*", "unsure"),
        ("src/{{a,../../x}}", "unsure"),
        ("a" * 5_000, "unsure"),
        ("a/" * 2_000, "unsure"),
        (["src/a.py"], "unsure"),
        (5, "unsure"),
        (None, "unsure"),
    ],
)
async def test_a_path_is_under_a_folder_by_every_way_of_reading_it(
    rule_matcher: RuleMatcher, home_folder: Path, path: Any, answer: str
) -> None:
    value = (
        path.replace("{home}", str(home_folder)).replace("{{", "{").replace("}}", "}")
        if isinstance(path, str)
        else path
    )
    proj = f"{home_folder}/me/proj"
    for folder in (proj, "~/proj", f"{home_folder}/outside/back"):
        assert await rule_matcher.match(parse_rule(f"fs/t?p=under:{folder}"), rule_input(proj, p=value)) == answer, (
            folder
        )


async def test_relative_paths_are_read_where_the_server_runs(rule_matcher: RuleMatcher, home_folder: Path) -> None:
    rule = parse_rule(f"fs/t?p=under:{home_folder}/me/proj")
    assert await rule_matcher.match(rule, rule_input(f"{home_folder}/me", p="proj/src")) == "yes"
    assert await rule_matcher.match(rule, rule_input(f"{home_folder}/me", p="src/a.py")) == "no"
    assert await rule_matcher.match(rule, rule_input(f"{home_folder}/me/proj", p="~/proj")) == "yes"
    assert await rule_matcher.match(rule, rule_input(f"{home_folder}/outside", p="~/proj")) == "unsure"


@pytest.mark.parametrize("path", ["file:///etc/passwd", "/etc*", "$X/passwd", "\\etc\\passwd", " /x", "/%65tc"])
async def test_a_path_outside_that_can_be_read_otherwise_may_be_inside(rule_matcher: RuleMatcher, path: str) -> None:
    assert await rule_matcher.match(parse_rule("fs/t?p=under:/etc"), rule_input("/srv", p=path)) == "unsure"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("notes about a trip.txt", "yes"),
        ("src/report (1).txt", "yes"),
        ("{home}/me/proj/src/two words/a.txt", "yes"),
        ("src/a.py src/b.py", "yes"),
        ("/etc/two words", "no"),
        ("x file-out", "unsure"),
        ("x out/new", "unsure"),
        ("{home}/me/proj/file-out x", "unsure"),
        ("a/b/c src/../../x", "unsure"),
        ("x\u3000file-out", "unsure"),
        ("a " * 60, "unsure"),
    ],
)
async def test_a_rule_is_unsure_about_a_path_whose_words_lead_elsewhere(
    rule_matcher: RuleMatcher, home_folder: Path, path: str, answer: str
) -> None:
    proj = f"{home_folder}/me/proj"
    value = path.replace("{home}", str(home_folder))
    assert await rule_matcher.match(parse_rule(f"fs/t?p=under:{proj}"), rule_input(proj, p=value)) == answer


async def test_the_first_of_several_words_may_be_a_link_in_the_home_folder(
    rule_matcher: RuleMatcher, home_folder: Path
) -> None:
    (home_folder / "me" / "out").symlink_to("/etc")
    (home_folder / "me" / "notes").mkdir()
    rule, folder = parse_rule("fs/t?p=under:~"), str(home_folder / "me")
    assert await rule_matcher.match(rule, rule_input(folder, p="~/notes x")) == "yes"
    assert await rule_matcher.match(rule, rule_input(folder, p="~/out x")) == "unsure"
    assert await rule_matcher.match(parse_rule("fs/t?p=under:/etc"), rule_input(folder, p="~/out x")) == "unsure"


async def test_a_prohibited_folder_may_be_one_of_several_words(rule_matcher: RuleMatcher, home_folder: Path) -> None:
    proj = f"{home_folder}/me/proj"
    rule = parse_rule(f"fs/t?p=under:{proj}/src")
    assert await rule_matcher.match(rule, rule_input(proj, p="x src/a.py")) == "unsure"
    assert await rule_matcher.match(rule, rule_input(proj, p="x sources/a.py")) == "no"


async def test_an_unreadable_or_slow_path_is_undecidable(
    rule_matcher: RuleMatcher, home_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, inside = (
        parse_rule(f"fs/t?p=under:{home_folder}/me/proj"),
        rule_input("/", p=f"{home_folder}/me/proj/not-there"),
    )
    assert await rule_matcher.match(rule, inside) == "yes"
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *_: False)
        assert await rule_matcher.match(rule, inside) == "unsure"
    monkeypatch.setattr("mcphost.host.consent.rule_matching.PATH_SECONDS", 0)
    assert await rule_matcher.match(rule, inside) == "unsure"


async def test_paths_of_a_server_on_another_machine_cannot_be_judged(
    rule_matcher: RuleMatcher, home_folder: Path
) -> None:
    rule = parse_rule(f"fs/t?p=under:{home_folder}/me/proj")
    assert await rule_matcher.match(rule, rule_input(None, p=f"{home_folder}/me/proj/src")) == "unsure"


@pytest.mark.parametrize(
    ("condition", "arguments", "answer"),
    [
        ("to=bob&only:", {"to": "bob"}, "yes"),
        ("to=bob&only:", {"to": "bob", "bcc": "eve"}, "no"),
        ("to=bob&only:", {"to": "bob", "bcc": None}, "no"),
        ("to=bob&only:", {"to": "bob", "TO": "eve"}, "no"),
        ("to=bob", {"to": "bob", "bcc": "eve"}, "yes"),
        ("only:", {}, "yes"),
        ("only:", {"x": []}, "no"),
        ("only:x", {}, "yes"),
        ("only:x", {"x": {"y": [1]}}, "yes"),
        ("only:x", {"x.y": 1}, "no"),
        ("only:x%2Ey", {"x.y": 1}, "yes"),
        ("o.d=1&only:o.e", {"o": {"d": 1}}, "yes"),
        ("o.d=1&only:o.e", {"o": {"d": 1, "e": {"f": 1}}}, "yes"),
        ("o.d=1&only:o.e", {"o": {"d": 1, "f": 1}}, "no"),
        ("only:o.e", {"o": 1}, "no"),
        ("only:o.e", {"o": {}}, "yes"),
    ],
)
async def test_a_rule_can_exclude_arguments_that_it_does_not_name(
    rule_matcher: RuleMatcher, condition: str, arguments: dict[str, Any], answer: str
) -> None:
    call = replace(rule_input("/"), arguments=arguments)
    assert await rule_matcher.match(parse_rule(f"fs/t?{condition}"), call) == answer


DEFAULTS: dict[str, Any] = {
    "$defs": {"Mode": {"type": "object", "properties": {"depth": {"default": 3}}}},
    "type": "object",
    "properties": {
        "dry_run": {"type": "boolean", "default": False},
        "path": {"type": "string", "default": "/etc"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "plain": {"type": "string"},
        "mode": {"$ref": "#/$defs/Mode"},
        "whole": {"type": "object", "default": {"depth": 3}},
        "endless": {"$ref": "#/properties/endless"},
    },
}


@pytest.mark.parametrize(
    ("condition", "arguments", "answer"),
    [
        ("dry_run=false", {}, "unsure"),
        ("dry_run=true", {}, "no"),
        ("dry_run=false", {"dry_run": True}, "no"),
        ("path=under:/etc", {}, "unsure"),
        ("path=under:/srv", {}, "no"),
        ("note=re:.*", {}, "no"),
        ("plain=re:.*", {}, "no"),
        ("other=1", {}, "no"),
        ("mode.depth=3", {}, "unsure"),
        ("mode.depth=3", {"mode": {}}, "unsure"),
        ("mode.depth=4", {}, "no"),
        ("whole.depth=3", {}, "unsure"),
        ("whole.depth=3", {"whole": {}}, "no"),
        ("endless.x=1", {}, "no"),
    ],
)
async def test_an_argument_that_is_left_out_may_have_the_default_of_the_schema(
    rule_matcher: RuleMatcher, condition: str, arguments: dict[str, Any], answer: str
) -> None:
    definition = Raw(encode({"name": "t", "inputSchema": DEFAULTS}))
    call = replace(rule_input("/", **arguments), definition=definition)
    rule = parse_rule(f"fs/t?{condition}")
    assert await rule_matcher.match(rule, call) == answer
    assert not await rule_matcher.allows(rule, call)


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"force": {"default": True}}}]},
        {"anyOf": [{"$ref": "#/$defs/Options"}], "$defs": {"Options": {"properties": {"force": {"default": True}}}}},
        {"properties": {"force": {"oneOf": [{"default": False}, {"default": True}]}}},
        {"if": {}, "then": {"properties": {"force": {"default": True}}}},
        {"properties": {"force": {"anyOf": [{"default": False}] + [{"title": str(at)} for at in range(1_000)]}}},
    ],
    ids=["allOf", "reference", "oneOf", "then", "too-many"],
)
async def test_a_default_in_a_combined_schema_makes_the_match_unsure(
    rule_matcher: RuleMatcher, schema: dict[str, Any]
) -> None:
    definition = Raw(encode({"name": "t", "inputSchema": schema}))
    call = replace(rule_input("/"), definition=definition)
    assert await rule_matcher.match(parse_rule("fs/t?force=true"), call) == "unsure"


@pytest.mark.parametrize(("whole", "expected"), [({}, "unsure"), ({"depth": None}, "unsure"), ({"depth": 4}, "no")])
async def test_a_default_object_that_lacks_a_member_gets_the_default_of_the_member(
    rule_matcher: RuleMatcher, whole: dict[str, Any], expected: str
) -> None:
    options = {"default": whole, "properties": {"depth": {"default": 3}}}
    definition = Raw(encode({"name": "t", "inputSchema": {"properties": {"options": options}}}))
    call = replace(rule_input("/"), definition=definition)
    assert await rule_matcher.match(parse_rule("fs/t?options.depth=3"), call) == expected


async def test_a_schema_that_refers_to_itself_is_read_once(rule_matcher: RuleMatcher) -> None:
    # It was copied a thousand times: with more members, for minutes and with gigabytes of memory.
    schema = {"$ref": "#/properties/force", "default": False, "allOf": [0] * 20_000}
    definition = Raw(encode({"name": "t", "inputSchema": {"properties": {"force": schema}}}))
    assert find_defaults(definition, {}, ("force",)) == [False]
    call = replace(rule_input("/"), definition=definition)
    assert await rule_matcher.match(parse_rule("fs/t?force=true"), call) == "no"


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"inputSchema": true}', b'{"inputSchema": {"properties": [1]}}'])
async def test_an_unusable_definition_has_no_defaults(rule_matcher: RuleMatcher, text: bytes) -> None:
    call = replace(rule_input("/"), definition=Raw(text))
    assert await rule_matcher.match(parse_rule("fs/t?a=1"), call) == "no"


async def test_a_symlinked_folder_counts_as_its_target(rule_matcher: RuleMatcher, home_folder: Path) -> None:
    link = home_folder / "link"
    link.symlink_to(home_folder / "me" / "proj")
    rule = parse_rule(f"fs/t?p=under:{link}")
    assert await rule_matcher.match(rule, rule_input(p=f"{home_folder}/me/proj/src")) == "yes"
    os.remove(link)
    link.symlink_to(home_folder / "outside")
    assert await rule_matcher.match(rule, rule_input(p=f"{home_folder}/me/proj/src")) == "no"


@pytest.mark.parametrize(
    ("condition", "aliases", "answer"),
    [
        ("never-from:mail", (), "yes"),
        ("never-from:mail", ("mail",), "unsure"),
        ("from:mail", ("mail",), "unsure"),
        ("never-from:mail", ("notes",), "yes"),
        ("never-from:mail", (OTHER_SERVERS,), "unsure"),
        ("never-from:@file", (OTHER_SERVERS,), "yes"),
        ("never-from:copy", ("mail",), "no"),
        ("never-from:*", (), "no"),
    ],
)
async def test_a_rule_is_unsure_about_a_server_that_may_have_another_name(
    rule_matcher: RuleMatcher, condition: str, aliases: tuple[str, ...], answer: str
) -> None:
    found = ArgumentOrigin(argument="body", server="copy", source="read", characters=20)
    call = replace(rule_input(body="x"), origins=ArgumentOrigins(found=(found,), aliases=frozenset(aliases)))
    rule = parse_rule(f"{call.server}/{call.tool}?{condition}")
    assert await rule_matcher.match(rule, call) == answer
    assert await rule_matcher.allows(rule, call) == (answer == "yes")
