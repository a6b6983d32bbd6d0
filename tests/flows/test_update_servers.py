"""Tests for `mcphost servers update`, and for undoing an update that does not work."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.registry_entries import ENTRIES, package, server, weather
from tests.fakes.registry_server import published, registry_server
from tests.flows.package_runners import PackageRunners, configured
from tests.flows.program import CANARY, Program
from tests.flows.secret_service import secret_service
from tests.flows.typed_answers import answer_prompts


def newer_weather() -> dict[str, Any]:
    """Return the registry entry of the weather server 2.0.0, with one argument added and another one removed."""
    document = weather("2.0.0")
    newest = document["packages"][0]
    newest["packageArguments"] = [*newest["packageArguments"][1:], {"type": "named", "name": "--alerts", "value": "on"}]
    return document


@pytest.mark.req("market.update-remove")
def test_an_update_shows_what_changes_and_keeps_what_the_user_has_set(tmp_path: Path) -> None:
    program = Program(tmp_path)
    runners = PackageRunners(program, "npx")
    with registry_server(ENTRIES) as registry, secret_service(tmp_path) as env:
        program.text(
            "servers", "install", "io.github.ada/weather@1.0.0", "--registry", registry.url, "--yes",
            "--set", f"WEATHER_API_KEY={CANARY}", "--set", "cache_dir=/tmp/c", "--set", "units=imperial", **env,
        )  # fmt: skip
        program.text("servers", "edit", "weather", "--env", "MINE=1", **env)
        registry.entries.append(published(newer_weather()))
        shown = program.text("servers", "update", "--dry-run")
        assert "version: 1.0.0 -> 2.0.0" in shown
        assert "- argument 2: @ada/weather-mcp@1.0.0" in shown
        assert "+ argument 2: @ada/weather-mcp@2.0.0" in shown
        assert "+ argument 5: --alerts=on" in shown
        assert "WEATHER_API_KEY" not in shown
        assert configured(program, "weather")["args"][1] == "@ada/weather-mcp@1.0.0"
        said = program.text("servers", "update", "weather", "--yes", **env)
        assert "Updated weather" in said
        assert "It works" in said
        entry = configured(program, "weather")
        assert entry["args"] == ["-y", "@ada/weather-mcp@2.0.0", "--units=imperial", "/tmp/c", "--alerts=on"]
        assert entry["env"] == {
            "WEATHER_API_KEY": "${keyring:weather-weather_api_key}", "LOG_LEVEL": "info", "MINE": "1"
        }  # fmt: skip
        assert runners.started[-1] == ["npx", *entry["args"]]
        assert "2.0.0 is the latest version" in program.text("servers", "update", "weather")


def test_an_update_with_another_secret_deletes_the_old_one_from_the_keyring(tmp_path: Path) -> None:
    program = Program(tmp_path)
    PackageRunners(program, "npx")
    with registry_server(ENTRIES) as registry, secret_service(tmp_path) as env:
        program.text(
            "servers", "install", "io.github.ada/weather@1.0.0", "--registry", registry.url, "--yes",
            "--set", f"WEATHER_API_KEY={CANARY}", "--set", "cache_dir=/tmp/c", **env,
        )  # fmt: skip
        before = configured(program, "weather")["env"]["WEATHER_API_KEY"]
        registry.entries.append(published(newer_weather()))
        said = program.text(
            "servers", "update", "weather", "--yes", "--set", "WEATHER_API_KEY=another-secret-4711", **env
        )
        after = configured(program, "weather")["env"]["WEATHER_API_KEY"]
        assert after != before
        old = before.removeprefix("${keyring:").removesuffix("}")
        assert f"deleted: keyring: {old}" in said
        kept = program.text("servers", "remove", "weather", "--forget", "--yes", **env)
        assert old + chr(10) not in kept
        assert after.removeprefix("${keyring:").removesuffix("}") in kept


def test_a_new_required_value_is_asked_for(program: Program) -> None:
    PackageRunners(program, "uvx")
    entries = [published(server("io.github.ada/notes", packages=[package("pypi", "notes")]))]
    wanted = package("pypi", "notes", "2.0.0", environmentVariables=[{"name": "NOTES_DIR", "isRequired": True}])
    with registry_server(entries) as registry:
        program.text("servers", "install", "io.github.ada/notes", "--registry", registry.url, "--yes")
        registry.entries.append(published(server("io.github.ada/notes", "2.0.0", packages=[wanted])))
        error = program.error("servers", "update", "notes", "--yes", code=2)
        assert "NOTES_DIR needs a value in 2.0.0" in error
        code, shown = answer_prompts(
            program, [("Value of NOTES_DIR: ", "/tmp/notes"), ("[y/N] ", "y")], "servers", "update", "notes"
        )
    assert code == 0, shown
    assert "+ environment NOTES_DIR: /tmp/notes" in shown
    assert configured(program, "notes")["env"] == {"NOTES_DIR": "/tmp/notes"}


def test_what_an_installed_and_an_updated_server_runs_is_repeated_above_the_question(program: Program) -> None:
    PackageRunners(program, "uvx")
    many = [{"name": f"VARIABLE_{number}", "value": "x"} for number in range(80)]
    entries = [published(server("io.github.ada/notes", packages=[package("pypi", "notes")]))]
    with registry_server(entries) as registry:
        install = ("servers", "install", "io.github.ada/notes", "--registry", registry.url)
        _code, shown = answer_prompts(program, [("Install and approve notes? [y/N] ", "y")], *install)
        above = shown.partition("Install and approve")[0].splitlines()[-2:]
        assert above == ["Command: uvx notes@1.0.0", "publisher: GitHub account ada"]
        newer = package("pypi", "notes", "2.0.0", environmentVariables=many)
        registry.entries.append(published(server("io.github.ada/notes", "2.0.0", packages=[newer])))
        _code, shown = answer_prompts(
            program, [("Update and approve notes? [y/N] ", "n")], "servers", "update", "notes"
        )
    above = shown.partition("Update and approve")[0].splitlines()[-2:]
    assert above == ["Command: uvx notes@2.0.0", "publisher: GitHub account ada"]


def test_an_approval_is_not_given_by_a_line_typed_before_its_question(program: Program) -> None:
    PackageRunners(program, "uvx")
    entries = [published(server("io.github.ada/notes", packages=[package("pypi", "notes")]))]
    wanted = package("pypi", "notes", "2.0.0", environmentVariables=[{"name": "NOTES_DIR", "isRequired": True}])
    with registry_server(entries) as registry:
        program.text("servers", "install", "io.github.ada/notes", "--registry", registry.url, "--yes")
        before = configured(program, "notes")
        registry.entries.append(published(server("io.github.ada/notes", "2.0.0", packages=[wanted])))
        code, shown = answer_prompts(
            program, [("Value of NOTES_DIR: ", "/tmp/notes\ny"), ("[y/N] ", "n")], "servers", "update", "notes"
        )
    assert code == 5, shown
    assert configured(program, "notes") == before


def test_an_update_can_change_the_kind_of_package_and_the_registry(program: Program, tmp_path: Path) -> None:
    PackageRunners(program, "uvx", "npx")
    entries = [published(server("io.github.ada/notes", packages=[package("npm", "notes")]))]
    moved = published(server("io.github.ada/notes", "2.0.0", packages=[package("pypi", "notes", "2.0.0")]))
    with registry_server(entries) as registry:
        program.text("servers", "install", "io.github.ada/notes", "--registry", registry.url, "--yes")
        registry.entries.append(moved)
        assert "Available: pypi." in program.error("servers", "update", "notes", "--yes", code=2)
    (tmp_path / "registry.json").write_text(json.dumps([*entries, moved]))
    said = program.text(
        "servers", "update", "notes", "--yes", "--from", "pypi", "--registry", str(tmp_path / "registry.json")
    )
    assert f"registry: {tmp_path / 'registry.json'}" in said
    assert configured(program, "notes")["command"] == "uvx"
    assert configured(program, "notes")["mcphost"]["registry"]["url"] == str(tmp_path / "registry.json")


def installed(place: str, **more: Any) -> dict[str, Any]:
    """Return the entry of the clock server 0.9.0, installed from the registry at *place*, with more settings."""
    record = {"url": place, "name": "io.github.ada/clock", "version": "0.9.0", "from": "pypi"}
    return {"command": "uvx", "args": ["clock-mcp@0.9.0"], **more, "mcphost": {"registry": record}}


def test_an_update_shows_what_the_publisher_changed_in_a_variable_named_like_a_secret(program: Program) -> None:
    PackageRunners(program, "npx")

    def notes(version: str, user: str) -> dict[str, Any]:
        fixed = [{"name": "UP_AUTH", "value": f"collector {user}"}, {"name": "SAME_TOKEN", "value": "fixed-value-1"}]
        return server(
            "io.github.ada/notes", version, packages=[package("npm", "n", version, environmentVariables=fixed)]
        )

    with registry_server([published(notes("1.0.0", "one"))]) as registry:
        program.text("servers", "install", "io.github.ada/notes", "--registry", registry.url, "--yes")
        registry.entries.append(published(notes("2.0.0", "two")))
        shown = program.text("servers", "update", "--dry-run")
        assert "+ environment UP_AUTH: collector two" in shown
        assert "SAME_TOKEN" not in shown
        program.text("servers", "update", "notes", "--yes")
        assert configured(program, "notes")["env"] == {"UP_AUTH": "collector two", "SAME_TOKEN": "fixed-value-1"}


def test_an_update_of_a_server_that_was_not_approved_shows_it_as_a_whole(program: Program) -> None:
    PackageRunners(program, "uvx")
    with registry_server(ENTRIES) as registry:
        program.configure(clock=installed(registry.url, env={"PYTHONPATH": "/unseen"}))
        code, shown = answer_prompts(program, [("[y/N] ", "y")], "servers", "update", "clock")
    assert code == 0, shown
    assert "+ environment PYTHONPATH: /unseen" in shown
    assert "Warning: It sets PYTHONPATH" in shown


@pytest.mark.parametrize("name", [(), ("clock",)], ids=["all", "one"])
def test_yes_does_not_update_a_server_that_was_not_approved(program: Program, name: tuple[str, ...]) -> None:
    runners = PackageRunners(program, "uvx")
    path = program.work / ".mcp.json"
    with registry_server(ENTRIES) as registry:
        program.configure()
        (program.home / "config" / "config.toml").write_text(f'[registry]\nurl = "{registry.url}"\n')
        path.write_text(json.dumps({"mcpServers": {"clock": installed(registry.url)}}))
        program.text("servers", "trust", ".mcp.json", "--yes")
        before = path.read_text()
        done = program.run("servers", "update", *name, "--yes")
        state = json.loads(program.text("servers", "list", "--json"))["servers"][0]["state"]
    told = done.stderr.decode()
    assert done.returncode == (5 if name else 0), told
    assert "clock was not updated, because it is not approved." in told
    assert "mcphost servers trust clock" in told
    assert path.read_text() == before
    assert state == "not approved"
    assert runners.started == []


def test_yes_still_asks_about_a_named_server_that_was_not_approved(program: Program) -> None:
    runners = PackageRunners(program, "uvx")
    with registry_server(ENTRIES) as registry:
        program.configure(clock=installed(registry.url, env={"PYTHONPATH": "/unseen"}))
        code, shown = answer_prompts(program, [("approve clock? [y/N] ", "n")], "servers", "update", "clock", "--yes")
    assert code == 5, shown
    assert "+ environment PYTHONPATH: /unseen" in shown
    assert "Nothing was changed" in shown
    assert runners.started == []


def test_a_projects_file_does_not_choose_the_registry_of_an_update(program: Program) -> None:
    PackageRunners(program, "uvx")
    with registry_server(ENTRIES) as registry:
        (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"clock": installed(registry.url)}}))
        program.text("servers", "trust", ".mcp.json", "--yes")
        error = program.error("servers", "update", "clock", "--yes", code=4)
        assert f"mcphost servers update clock --registry {registry.url}" in error
        program.text("servers", "trust", "clock", "--yes")
        assert "Updated clock" in program.text("servers", "update", "clock", "--yes", "--registry", registry.url)


def test_without_a_newer_version_nothing_changes(program: Program) -> None:
    PackageRunners(program, "uvx")
    with registry_server(ENTRIES) as registry:
        program.text("servers", "install", "io.github.ada/clock", "--registry", registry.url, "--yes")
        before = configured(program, "clock")
        report = json.loads(program.text("servers", "update", "--json", "--yes"))
    assert report["servers"][0]["changes"] == []
    assert configured(program, "clock") == before
    program.text("servers", "add", "own", "--", "own")
    assert "not installed from a registry" in program.error("servers", "update", "own", code=2)


@pytest.mark.req("market.verify")
def test_a_failed_installation_is_undone_after_confirmation(program: Program) -> None:
    runners = PackageRunners(program, "uvx", fails=True)
    with registry_server(ENTRIES) as registry:
        command = ("servers", "install", "io.github.ada/clock", "--registry", registry.url)
        code, shown = answer_prompts(program, [("Install and approve clock? [y/N] ", "n")], *command)
        assert code == 5, shown
        assert runners.started == []
        code, shown = answer_prompts(program, [("approve clock? [y/N] ", "y"), ("of clock? [y/N] ", "y")], *command)
    assert code == 4, shown
    assert "no package here" in shown
    assert "Undone" in shown
    assert json.loads(program.text("servers", "list", "--json"))["servers"] == []


@pytest.mark.req("market.verify")
def test_a_failed_update_is_undone_after_confirmation(program: Program) -> None:
    PackageRunners(program, "uvx")
    with registry_server(ENTRIES) as registry:
        program.text("servers", "install", "io.github.ada/clock", "--registry", registry.url, "--yes")
        before = configured(program, "clock")
        registry.entries.append(
            published(server("io.github.ada/clock", "2.0.0", packages=[package("pypi", "clock-mcp", "2.0.0")]))
        )
        PackageRunners(program, "uvx", fails=True)
        answers = [("approve clock? [y/N] ", "y"), ("Undo the update of clock? [y/N] ", "y")]
        code, shown = answer_prompts(program, answers, "servers", "update", "clock")
    assert code == 4, shown
    assert configured(program, "clock") == before


def test_a_look_alike_is_named_before_anything_is_asked(program: Program) -> None:
    PackageRunners(program, "npx")
    fake = server(
        "io.github.eve/filesystem",
        repository={"url": "https://github.com/ada/filesystem", "source": "github"},
        packages=[package("npm", "@modelcontextprotoco1/server-filesystem", environmentVariables=[
            {"name": "TOKEN", "isRequired": True, "isSecret": True}
        ])],
    )  # fmt: skip
    with registry_server([published(fake)]) as registry:
        code, shown = answer_prompts(
            program, [("Value of TOKEN (not shown): ", "")],
            "servers", "install", "io.github.eve/filesystem", "--registry", registry.url,
        )  # fmt: skip
    assert code == 2
    assert "is not the well-known @modelcontextprotocol/server-filesystem" in " ".join(shown.split())
    assert "its repository belongs to ada" in shown
