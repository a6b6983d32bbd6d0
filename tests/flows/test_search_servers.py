"""Tests for `mcphost servers search` with a registry on loopback."""

import json
from pathlib import Path

import pytest

from tests.fakes.registry_entries import ENTRIES, server
from tests.fakes.registry_server import published, registry_server
from tests.flows.program import Program


@pytest.mark.req("market.browse")
def test_a_search_lists_name_version_kinds_and_status(program: Program) -> None:
    with registry_server(ENTRIES) as registry:
        said = program.run("servers", "search", "--registry", registry.url)
    rows = said.stdout.decode().splitlines()
    assert len(rows) == 30
    assert "limit" in said.stderr.decode()
    weather = next(row for row in rows if row.startswith("io.github.ada/weather"))
    assert "1.10.0" in weather
    assert "npm" in weather
    old = next(row for row in rows if row.startswith("io.github.ada/old"))
    assert "(deprecated) Old ␛[31mred‹U+202E›" in old
    assert not any("gone" in row for row in rows)


@pytest.mark.parametrize("url", ["", " "])
def test_an_empty_address_in_the_settings_is_one_error_that_names_the_setting(program: Program, url: str) -> None:
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text(f'[registry]\nurl = "{url}"\n')
    assert program.error("servers", "search", "files", code=4).strip() == (
        'mcphost: "registry.url" in config.toml is empty. Write the address of a registry or the path of a file there, '
        "or remove the line to use the official one."
    )


def test_several_words_need_no_quotes(program: Program) -> None:
    with registry_server([published(server(f"a.b/google-{word}")) for word in ("calendar", "drive")]) as registry:
        said = program.text("servers", "search", "google", "calendar", "--registry", registry.url)
    assert "a.b/google-calendar" in said
    assert "a.b/google-drive" not in said


def test_a_whole_name_shows_everything_about_one_server(program: Program) -> None:
    with registry_server(ENTRIES) as registry:
        said = program.text("servers", "search", "io.github.ada/weather", "--registry", registry.url)
    for part in (
        "publisher: GitHub account ada",
        "versions: 1.10.0, 1.0.0, 0.9.0 (deprecated)",
        "repository: https://github.com/ada/weather",
        "npm: @ada/weather-mcp 1.10.0",
        "mcphost servers install io.github.ada/weather",
    ):
        assert part in said


@pytest.mark.req("market.browse")
def test_the_popularity_that_a_registry_states_is_shown_as_its_statement(program: Program) -> None:
    about = {"io.glama/stats": {"downloads": 12345, "stars": 1}}
    entry = {"server": server("io.github.ada/popular"), "_meta": about}
    with registry_server([entry]) as registry:
        listed = program.text("servers", "search", "--registry", registry.url)
        whole = program.text("servers", "search", "io.github.ada/popular", "--registry", registry.url)
        found = json.loads(program.text("servers", "search", "--json", "--registry", registry.url))
    assert "12,345 downloads, 1 star (says the registry)" in listed
    assert "popularity: 12,345 downloads, 1 star (says the registry)" in whole
    assert found["servers"][0]["popularity"] == {"downloads": 12345, "stars": 1}


def test_the_registry_of_the_configuration_is_asked(program: Program) -> None:
    with registry_server(ENTRIES) as registry:
        (program.home / "config").mkdir()
        (program.home / "config" / "config.toml").write_text(f'[registry]\nurl = "{registry.url}"\n')
        found = json.loads(program.text("servers", "search", "tracker", "--json"))
    assert [server["name"] for server in found["servers"]] == ["com.example/tracker"]
    assert found["servers"][0]["publisher"] == "domain example.com"
    assert found["servers"][0]["remotes"][1]["url"] == "https://mcp.example.com/sse"


def test_a_registry_that_is_gone_is_answered_for_by_the_cache(program: Program) -> None:
    with registry_server(ENTRIES) as registry:
        program.text("servers", "search", "--registry", registry.url)
    said = program.run("servers", "search", "clock", "--registry", registry.url, "--refresh")
    assert said.returncode == 0
    assert said.stdout.decode().startswith("io.github.ada/clock")
    assert "from the cache, less than a minute old" in said.stderr.decode()
    error = program.error("servers", "search", "x", "--registry", "http://127.0.0.1:1", code=4)
    assert "cannot be reached" in error


def test_a_file_can_be_searched(program: Program, tmp_path: Path) -> None:
    (tmp_path / "registry.json").write_text(json.dumps({"servers": ENTRIES}))
    said = program.text("servers", "search", "dotnet", "--registry", str(tmp_path / "registry.json"))
    assert said.split()[:3] == ["io.github.ada/dotnet", "1.0.0", "nuget"]


def test_an_unsafe_address_is_refused(program: Program) -> None:
    said = program.error("servers", "search", "x", "--registry", "http://registry.example", code=4)
    assert "plain http" in said


def test_a_registry_is_found_below_a_path_and_by_the_address_of_its_list(program: Program) -> None:
    with registry_server(ENTRIES) as registry:
        registry.api = "/internal/v0.1"
        for end in ("", "/", "/v0.1", "/v0.1/servers", "/servers"):
            address = f"{registry.url}/internal{end}"
            found = json.loads(program.text("servers", "search", "--registry", address, "--json", "--refresh"))
            assert len(found["servers"]) == 30
        wrong = program.error("servers", "search", "--registry", f"{registry.url}/other/v0", code=4)
    assert "has no /other/v0/servers. Is this the address of a registry?" in wrong


def test_a_search_reads_as_many_pages_as_the_limit_needs(program: Program) -> None:
    with registry_server(ENTRIES) as registry:
        registry.page_size = 10
        found = json.loads(program.text("servers", "search", "--registry", registry.url, "--json", "--limit", "25"))
        assert (len(found["servers"]), found["more"]) == (25, True)
        assert [path.partition("cursor=")[2] for path in registry.paths] == ["", "10", "20"]


def test_why_an_entry_was_left_out_is_said_in_the_language_of_the_person(program: Program, tmp_path: Path) -> None:
    entries = [{"server": {"name": "a.b/bad"}}, 5, {"server": {"name": "bad name", "version": "1"}}]
    (tmp_path / "registry.json").write_text(json.dumps({"servers": entries}))
    place = ("--lang", "zh-CN", "--registry", str(tmp_path / "registry.json"))
    said = program.run("servers", "search", *place).stderr.decode().splitlines()
    assert said[:3] == [
        "mcphost: 条目 a.b/bad 已被略去。该条目无效：对象缺少必需的字段 `version`",
        "mcphost: 第 2 个条目已被略去。该条目无效：对象缺少必需的字段 `name`",
        "mcphost: 第 3 个条目已被略去。名称 'bad name' 无效。",
    ]


def test_what_a_registry_does_not_have_is_said_in_the_language_of_the_person(program: Program, tmp_path: Path) -> None:
    (tmp_path / "registry.json").write_text(json.dumps({"servers": ENTRIES}))
    place = ("--lang", "zh-CN", "--registry", str(tmp_path / "registry.json"))
    assert program.error("servers", "install", "a.b/gone", *place, code=4).startswith(
        "mcphost: 注册表没有服务器 a.b/gone。"
    )
    assert program.error("servers", "install", "io.github.ada/weather@9", *place, code=4).startswith(
        "mcphost: 注册表没有 io.github.ada/weather 的版本 '9'。"
    )
    (tmp_path / "registry.json").write_text(json.dumps({"servers": [published(server("a.b/empty"))]}))
    assert program.error("servers", "install", "a.b/empty", *place, code=4).endswith(
        "如果你信任它，请手动添加：mcphost servers add NAME -- COMMAND\n"
    )
