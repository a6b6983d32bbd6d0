"""Tests for `mcphost servers install` with a registry on loopback and fake package runners."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.bundles import bundle, sha256_of
from tests.fakes.registry_entries import DATABASE, ENTRIES, package, server
from tests.fakes.registry_server import RegistryServer, published, registry_server
from tests.flows.package_runners import PackageRunners, configured
from tests.flows.program import CANARY, Program
from tests.flows.secret_service import secret_service

WEATHER = ("--set", "cache_dir=/tmp/cache", "--set", "WEATHER_API_KEY=${env:THE_KEY}")


def install(program: Program, registry: RegistryServer, name: str, *more: str, **env: str) -> str:
    return program.text("servers", "install", name, "--registry", registry.url, *more, **env)


def config_exists(program: Program) -> bool:
    return (program.home / "config" / "mcp.json").exists()


@pytest.mark.req("market.one-click", "market.auto-config")
def test_an_npm_server_is_installed_with_its_version_and_works_at_once(program: Program) -> None:
    runners = PackageRunners(program, "npx")
    with registry_server(ENTRIES) as registry:
        said = install(program, registry, "io.github.ada/weather", "--yes", *WEATHER, THE_KEY=CANARY)
    assert "publisher: GitHub account ada" in said
    assert "runs: npx -y @ada/weather-mcp@1.10.0 serve --units=metric /tmp/cache" in said
    assert "It works: " in said
    assert runners.started == [["npx", "-y", "@ada/weather-mcp@1.10.0", "serve", "--units=metric", "/tmp/cache"]]
    entry = configured(program, "weather")
    assert entry["env"] == {"WEATHER_API_KEY": "${env:THE_KEY}", "LOG_LEVEL": "info"}
    assert entry["mcphost"]["registry"]["version"] == "1.10.0"
    assert "unknown" not in program.run("servers", "list").stderr.decode()
    assert "add" in program.text("tools", "weather", THE_KEY=CANARY)
    program.text("servers", "remove", "weather", "--yes")
    assert json.loads(program.text("servers", "list", "--json"))["servers"] == []


def test_the_publisher_of_a_server_from_a_file_is_called_a_claim(program: Program) -> None:
    PackageRunners(program, "uvx")
    file = program.home / "registry.json"
    file.write_text(json.dumps({"servers": ENTRIES}))
    said = program.text("servers", "install", "io.github.ada/clock", "--registry", str(file), "--dry-run")
    assert "publisher: GitHub account ada (claimed by the file, not verified)" in said


@pytest.mark.parametrize(
    ("name", "more", "command"),
    [
        ("io.github.ada/clock", (), ["uvx", "clock-mcp@1.0.0"]),
        ("io.github.ada/dotnet", (), ["dnx", "Ada.Sample.Mcp@0.4.0-beta", "--yes"]),
        (
            "io.github.ada/database",
            ("--set", "source=/srv/data", "--set", "DB_PASSWORD=${env:THE_KEY}"),
            ["docker", "run", "-i", "--rm", "--mount=type=bind,src=/srv/data,dst=/data", "-e", "DB_PASSWORD",
             DATABASE["packages"][0]["identifier"], "--port=5432"],
        ),
    ],
    ids=["pypi", "nuget", "oci"],
)  # fmt: skip
def test_every_kind_of_package_gets_its_runner(
    program: Program, name: str, more: tuple[str, ...], command: list[str]
) -> None:
    runners = PackageRunners(program, command[0])
    with registry_server(ENTRIES) as registry:
        install(program, registry, name, "--yes", *more, THE_KEY=CANARY)
    assert runners.started == [command]


def test_an_older_version_can_be_named_and_its_status_is_shown(program: Program) -> None:
    PackageRunners(program, "npx")
    with registry_server(ENTRIES) as registry:
        said = install(program, registry, "io.github.ada/weather@0.9.0", "--dry-run")
    assert "Warning: It is deprecated. Use 1.0" in said
    assert "@ada/weather-mcp@0.9.0" in said
    assert "inputs: units (metric or imperial), cache_dir (needed), WEATHER_API_KEY (needed, secret), LOG_LEVEL" in said


def test_a_dry_run_shows_the_plan_with_what_is_missing_and_changes_nothing(program: Program) -> None:
    runners = PackageRunners(program)
    with registry_server(ENTRIES) as registry:
        plan = json.loads(install(program, registry, "io.github.ada/weather", "--dry-run", "--json"))
    assert plan["missing"] == ["cache_dir", "WEATHER_API_KEY"]
    assert plan["command"][-1] == "<cache_dir>"
    assert plan["secrets"] == ["env.WEATHER_API_KEY"]
    assert plan["needs"] == "npx"
    assert [one["name"] for one in plan["inputs"]] == [
        "units",
        "cache_dir",
        "WEATHER_API_KEY",
        "LOG_LEVEL",
        "PROXY_NAME",
    ]
    assert not config_exists(program)
    assert runners.started == []


def test_nothing_happens_without_an_answer(program: Program) -> None:
    runners = PackageRunners(program, "uvx")
    with registry_server(ENTRIES) as registry:
        said = program.error("servers", "install", "io.github.ada/clock", "--registry", registry.url, code=2)
    assert "Nothing was installed" in said
    assert not config_exists(program)
    assert runners.started == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("io.github.ada/weather",), 2, "cache_dir needs a value"),
        (("io.github.ada/weather", *WEATHER, "--set", "units=stone"), 2, "is none of: metric, imperial"),
        (("io.github.ada/weather", *WEATHER, "--set", "unit=metric"), 2, "no input 'unit'"),
        (("weather",), 2, "Did you mean: io.github.ada/weather"),
        (("io.github.ada/weather@7",), 4, "no version '7'"),
        (("io.github.ada/clock", "--from", "oci"), 2, "has no oci"),
        (("io.github.ada/gone",), 4, "The registry has no server"),
        (("io.github.ada/old",), 4, "neither a package nor an address"),
        (("io.github.аda/weather",), 4, "looks like"),
        (("com.example/tracker", "--set", "tenant=a", "--set", "token=short", "--set", "X-Region=us", "--scope",
          "project"), 3, "secret"),
        (("io.github.ada/clock",), 4, "uvx is not installed"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_before_anything_is_written(
    program: Program, arguments: tuple[str, ...], code: int, said: str
) -> None:
    PackageRunners(program, "npx")
    with registry_server(ENTRIES) as registry:
        done = program.run("servers", "install", "--registry", registry.url, "--yes", *arguments)
    assert done.returncode == code, done.stderr.decode()
    assert said in done.stderr.decode()
    assert not config_exists(program)
    assert not (program.work / ".mcp.json").exists()


@pytest.mark.req("market.api-keys")
def test_a_secret_goes_to_the_keyring_whatever_its_name_is(tmp_path: Path) -> None:
    program = Program(tmp_path)
    PackageRunners(program, "npx")
    plain = package("npm", "notes", environmentVariables=[{"name": "NOTES", "isSecret": True, "isRequired": True}])
    entries = [published(server("io.github.ada/notes", packages=[plain]))]
    with registry_server(entries) as registry, secret_service(tmp_path) as env:
        said = install(program, registry, "io.github.ada/notes", "--yes", "--set", f"NOTES={CANARY}", **env)
        assert "environment NOTES: ${keyring:…}" in said
        assert CANARY not in said
        assert configured(program, "notes")["env"] == {"NOTES": "${keyring:notes-notes}"}
        assert "add" in program.text("tools", "notes", **env)
    stored = b"".join(
        item.read_bytes() for kind in ("config", "data", "state", "cache") for item in (tmp_path / kind).rglob("*.*")
    )
    assert CANARY.encode() not in stored


def test_what_the_publisher_wrote_is_shown_and_only_what_the_user_typed_is_stored(tmp_path: Path) -> None:
    program = Program(tmp_path)
    PackageRunners(program, "npx")
    plain = package("npm", "notes", environmentVariables=[
        {"name": "API_URL", "isSecret": True, "default": "https://collector.example"},
        {"name": "UPSTREAM_AUTH", "value": "collector.example user"},
        {"name": "LOGIN_TOKEN", "value": "collector.example {token}", "variables": {"token": {"isSecret": True}}},
    ])  # fmt: skip
    entries = [published(server("io.github.ada/notes", packages=[plain]))]
    with registry_server(entries) as registry, secret_service(tmp_path) as env:
        said = install(program, registry, "io.github.ada/notes", "--yes", "--set", f"token={CANARY}", **env)
        assert "environment UPSTREAM_AUTH: collector.example user" in said
        assert "environment LOGIN_TOKEN: collector.example ${keyring:…}" in said
        assert "API_URL:" not in said
        assert configured(program, "notes")["env"] == {
            "UPSTREAM_AUTH": "collector.example user",
            "LOGIN_TOKEN": "collector.example ${keyring:notes-login_token}",
        }
        assert "add" in program.text("tools", "notes", **env)


def test_what_the_publisher_wrote_stays_visible_until_the_user_replaces_it(tmp_path: Path) -> None:
    program = Program(tmp_path)
    PackageRunners(program, "npx")
    variables = [
        {"name": "UPSTREAM_AUTH", "value": "collector.example user"},
        {"name": "LOGIN_TOKEN", "value": "collector.example {token}", "variables": {"token": {"isSecret": True}}},
        {"name": "NOTES_TOKEN", "isSecret": True},
    ]
    versions = [
        published(
            server("io.github.ada/notes", one, packages=[package("npm", "notes", one, environmentVariables=variables)])
        )
        for one in ("1.0.0", "2.0.0")
    ]
    typed = ("--set", f"token={CANARY}", "--set", f"NOTES_TOKEN={CANARY}2")
    with registry_server(versions[:1]) as registry, secret_service(tmp_path) as env:
        install(program, registry, "io.github.ada/notes", "--yes", *typed, **env)
        program.text("servers", "edit", "notes", "--env", "LEVEL=1", **env)
        registry.entries.append(versions[1])
        program.text("servers", "update", "notes", "--yes", **env)
        seen = program.run("servers", "trust", "notes", **env).stdout.decode()
        assert "environment UPSTREAM_AUTH: collector.example user" in seen
        assert "environment LOGIN_TOKEN: collector.example ${keyring:notes-login_token}" in seen
        assert CANARY not in seen
        assert "looks like a secret" not in program.run("servers", "list", **env).stderr.decode()
        file = tmp_path / "config" / "mcp.json"
        document = json.loads(file.read_bytes())
        document["mcpServers"]["notes"]["env"] |= {"UPSTREAM_AUTH": f"{CANARY} user", "NOTES_TOKEN": CANARY}
        file.write_text(json.dumps(document))
        seen = program.run("servers", "trust", "notes", **env).stdout.decode()
    assert "environment UPSTREAM_AUTH: [hidden]" in seen
    assert "environment NOTES_TOKEN: [hidden]" in seen
    assert CANARY not in seen


@pytest.mark.req("market.verify")
def test_a_server_that_does_not_start_stays_until_it_is_removed(program: Program) -> None:
    PackageRunners(program, "uvx", fails=True)
    with registry_server(ENTRIES) as registry:
        done = program.run("servers", "install", "io.github.ada/clock", "--registry", registry.url, "--yes")
    assert done.returncode == 4
    assert "no package here" in done.stderr.decode()
    assert "mcphost servers remove clock" in done.stderr.decode()
    assert configured(program, "clock")["command"] == "uvx"


def test_a_taken_name_is_not_replaced(program: Program) -> None:
    PackageRunners(program, "uvx")
    with registry_server(ENTRIES) as registry:
        install(program, registry, "io.github.ada/clock", "--yes")
        again = program.error("servers", "install", "io.github.ada/clock", "--registry", registry.url, "--yes", code=2)
        assert "mcphost servers update clock" in again
        install(program, registry, "io.github.ada/clock", "--yes", "--name", "second", "--scope", "local")
    names = [one["name"] for one in json.loads(program.text("servers", "list", "--json"))["servers"]]
    assert sorted(names) == ["clock", "second"]


def test_a_remote_server_is_reached_at_the_address_of_its_template(program: Program) -> None:
    entries = [published(server("com.example/local", remotes=[
        {"type": "streamable-http", "url": "http://127.0.0.1:{port}/mcp", "variables": {"port": {"isRequired": True}}}
    ]))]  # fmt: skip
    with registry_server(entries) as registry:
        plan: dict[str, Any] = json.loads(
            install(program, registry, "com.example/local", "--dry-run", "--json", "--set", "port=1")
        )
        done = program.run(
            "servers", "install", "com.example/local", "--registry", registry.url, "--yes", "--set", "port=1"
        )
    assert plan["url"] == "http://127.0.0.1:1/mcp"
    assert done.returncode == 4
    assert configured(program, "local")["url"] == "http://127.0.0.1:1/mcp"


def bundle_entry(url: str, content: bytes, version: str = "1.0.0") -> dict[str, Any]:
    parts = [package("mcpb", f"{url}/{version}/notes.mcpb", "", fileSha256=sha256_of(content))]
    return published(server("io.github.ada/notes", version, packages=parts))


def test_a_bundle_is_downloaded_opened_started_and_updated(program: Program) -> None:
    runners = PackageRunners(program, "python3")
    contents = {"1.0.0": bundle(), "2.0.0": bundle({"new.txt": "new"})}
    with registry_server([]) as registry:
        registry.entries.append(bundle_entry(registry.url, contents["1.0.0"]))
        registry.override = lambda path: (200, {}, contents[path.split("/")[1]]) if "mcpb" in path else None
        plan = json.loads(install(program, registry, "io.github.ada/notes", "--dry-run", "--json"))
        assert plan["download"]["sha256"] == sha256_of(contents["1.0.0"])
        assert not (program.home / "data" / "bundles").exists()
        said = install(program, registry, "io.github.ada/notes", "--yes", "--set", "folders=/tmp/notes")
        folder = Path(configured(program, "notes")["cwd"])
        assert folder.parent == program.home / "data" / "bundles"
        assert f"runs: python3 {folder}/server/main.py --dir /tmp/notes" in said
        assert runners.started == [["python3", f"{folder}/server/main.py", "--dir", "/tmp/notes"]]
        assert "downloaded" in program.text("audit", "--server", "notes")
        registry.entries.append(bundle_entry(registry.url, contents["2.0.0"], "2.0.0"))
        assert "Updated notes" in program.text("servers", "update", "notes", "--yes")
    newer = configured(program, "notes")
    assert (Path(newer["cwd"]) / "new.txt").exists()
    assert newer["args"] == [f"{newer['cwd']}/server/main.py", "--dir", "/tmp/notes"]


def test_a_bundle_with_another_digest_leaves_nothing(program: Program) -> None:
    PackageRunners(program, "python3")
    with registry_server([]) as registry:
        registry.entries.append(bundle_entry(registry.url, bundle()))
        registry.override = lambda path: (200, {}, bundle({"evil.txt": "x"})) if "mcpb" in path else None
        said = program.error("servers", "install", "io.github.ada/notes", "--registry", registry.url, "--yes", code=4)
    assert "not the file that was published" in said
    assert list((program.home / "data" / "bundles").iterdir()) == []
    assert not config_exists(program)
