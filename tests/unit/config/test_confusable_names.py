"""Tests for similar server names: refused if the difference is invisible, otherwise one server is renamed."""

import json
from pathlib import Path

import pytest

from mcphost.config.loader import load_config
from mcphost.config.mcp_json import parse_servers
from mcphost.host.servers.server_approval import server_warnings
from mcphost.unicode_forms import confusable_pairs, describe_name_risk


@pytest.mark.parametrize("name", ["gіthub", "ｇｉｔhub", "GITΗUB", "git‐hub", "ѕсоре"])
def test_a_name_with_lookalikes_of_ascii_is_listed_with_its_odd_character(name: str) -> None:
    assert "looks like" in describe_name_risk(name)
    assert "U+" in describe_name_risk(name)


def test_a_name_of_several_alphabets_is_named() -> None:
    assert "(Cyrillic and Latin)" in describe_name_risk("serверж")


@pytest.mark.parametrize(
    "name", ["github", "Dateien für Köln", "файлы", "文件 mcp", "αρχεία", "ファイル", "קבצים", "é-mail"]
)
def test_names_of_one_alphabet_are_not_warned_about(name: str) -> None:
    assert describe_name_risk(name) == ""


def test_two_similar_names_are_reported() -> None:
    assert list(confusable_pairs(["github", "gіthub", "other"])) == [("github", "gіthub")]
    assert list(confusable_pairs(["fi1es", "files", "FILES"])) == [
        ("fi1es", "files"),
        ("fi1es", "FILES"),
        ("files", "FILES"),
    ]
    assert list(confusable_pairs(["a", "b", "files", "filed"])) == []


def test_a_configuration_with_two_similar_names_is_reported(tmp_path: Path) -> None:
    entries = {name: {"command": "x"} for name in ("github", "gіthub")}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    found = load_config(tmp_path)
    assert len(found.servers) == 2
    assert any("looks like that of" in problem and "Rename one" in problem for problem in found.problems)


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u3000", "\u202f", "\u1680", "\t", "\u0085"])
def test_a_name_with_white_space_other_than_space_is_refused(blank: str) -> None:
    problems: list[str] = []
    assert parse_servers({"mcpServers": {f"a{blank}b": {"command": "x"}}}, "f", "user", problems.append) == ()
    assert "white space" in problems[0] or "invisible" in problems[0]
    assert parse_servers({"mcpServers": {"a b": {"command": "x"}}}, "f", "user", problems.append)


def test_the_question_about_a_server_names_the_danger_of_its_name() -> None:
    (server,) = parse_servers({"mcpServers": {"gіthub": {"command": "x"}}}, "f", "user", [].append)
    assert any('looks like "github"' in warning for warning in server_warnings(server))
