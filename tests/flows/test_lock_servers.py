"""Tests for `mcphost servers lock` and `mcphost servers verify`."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcphost.cli.lock_servers import LockableProject
from mcphost.cli.parser import Options
from mcphost.config.env_file import read_env_file
from mcphost.config.mcp_json import parse_servers
from mcphost.config.schema import HostConfig
from mcphost.errors import ConfigError
from tests.fakes.json_server import json_server
from tests.flows.locked_project import READ, WRITE, LockedProject, checked_out, trusted
from tests.flows.program import CANARY, Program


@pytest.fixture
def project(program: Program) -> LockedProject:
    return LockedProject(program)


def test_a_locked_project_is_verified_as_unchanged(project: LockedProject) -> None:
    said = project.lock()
    assert f"Locked: 1 server, 2 tools in {project.lock_path}" in said
    assert project.verify() == "files: unchanged, 2 tools\n"
    document = json.loads(project.lock_path.read_text())
    assert document["lockVersion"] == 3
    assert document["servers"]["files"]["identity"] == {
        "name": "files", "version": "1.0", "protocolVersion": "2025-11-25",
    }  # fmt: skip
    assert document["servers"]["files"]["tools"]["read"]["definition"] == {
        key: value for key, value in READ.items() if key != "name"
    }


def test_locking_again_gives_the_same_bytes_in_any_order_of_the_tools(project: LockedProject) -> None:
    project.lock()
    first = project.lock_path.read_bytes()
    project.serve(WRITE, dict(reversed(READ.items())))
    assert "Unchanged: 1 server, 2 tools" in project.lock()
    project.lock_path.unlink()
    project.lock()
    assert project.lock_path.read_bytes() == first


def test_a_changed_tool_is_reported_as_a_difference_of_its_text_and_schema(project: LockedProject) -> None:
    project.lock()
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "mail": {"type": "string"}}}
    project.serve({**READ, "description": "Read one file, then mail it.", "inputSchema": schema}, WRITE)
    lines = project.drift()[("tool_changed", "read")]
    assert "- description: Read one file." in lines
    assert "+ description: Read one file, then mail it." in lines
    assert "+ inputSchema.properties.mail.type: string" in lines
    told = project.program.error("--mcp-config", ".mcp.json", "servers", "verify", code=9)
    assert f"1 server differs from {project.lock_path}. If this is intended, run: mcphost servers changes files" in told


def test_added_and_removed_tools_and_another_identity_are_reported(project: LockedProject) -> None:
    project.lock()
    project.serve(READ, {**WRITE, "name": "erase"}, version="2.0")
    drift = project.drift()
    assert set(drift) == {("identity", ""), ("tool_added", "erase"), ("tool_removed", "write")}
    assert drift[("identity", "")] == [
        "  name: files",
        "  protocolVersion: 2025-11-25",
        "- version: 1.0",
        "+ version: 2.0",
    ]
    assert drift[("tool_added", "erase")][0] == "+ description: Write one file."
    said = project.lock()
    assert "  tool added erase" in said
    assert project.verify() == "files: unchanged, 2 tools\n"


def test_a_part_that_the_lock_does_not_repeat_is_compared_too(project: LockedProject) -> None:
    project.lock()
    project.serve({**READ, "_meta": {"x": 1}}, WRITE)
    assert project.drift()[("tool_changed", "read")][0] == "  Only parts that the lock file does not repeat differ."


def test_another_protocol_revision_is_reported(project: LockedProject) -> None:
    project.lock()
    project.serve(READ, WRITE, revision="2025-06-18")
    assert project.drift()[("identity", "")] == [
        "  name: files", "- protocolVersion: 2025-11-25", "+ protocolVersion: 2025-06-18", "  version: 1.0",
    ]  # fmt: skip


def test_a_server_whose_command_changed_is_not_started(project: LockedProject) -> None:
    project.lock()
    project.started.unlink()
    project.configure(files=project.entry("--all"))
    drift = project.drift()
    assert set(drift) == {("command", "")}
    assert drift[("command", "")][-1] == "+ command word 4: --all"
    assert "It was not started" in project.verify(code=9)
    assert not project.started.exists()


def test_a_changed_command_that_looks_like_a_secret_is_not_started(project: LockedProject) -> None:
    taken = project.program.work / "taken"
    files = project.entry()

    def configure(state: str) -> None:
        words = " ".join(shlex.quote(word) for word in (files["command"], *files["args"]))
        project.configure(files={**files, "command": "sh", "args": ["-c", f"cd /;state={state};exec {words}"]})

    configure("ready")
    project.lock()
    assert "state=[secret]" in project.lock_path.read_text()
    project.started.unlink()
    configure(f"ready;touch$IFS{taken}")
    assert "It was not started" in project.verify(code=9)
    assert project.drift().keys() == {("command", "")}
    assert not taken.exists()
    assert not project.started.exists()


def test_new_and_removed_servers_are_reported_and_new_ones_not_started(project: LockedProject) -> None:
    project.lock()
    project.started.unlink()
    project.configure(other={"url": "https://mcp.example.com/mcp"}, more=project.entry())
    assert {kind for kind, _ in project.drift()} == {"server_added", "server_removed"}
    assert "  It was not started, because it is not in the lock file." in project.verify(code=9)
    assert not project.started.exists()


def test_offline_starts_nothing_and_compares_the_entries(project: LockedProject) -> None:
    project.lock()
    project.started.unlink()
    project.serve(READ)
    assert project.verify("--offline") == "files: the entry is unchanged; not started\n"
    assert project.program.text("servers", "verify", "--offline") == "files: the entry is unchanged; not started\n"
    project.configure(files=project.entry(env={"NODE_OPTIONS": "--require ./evil.js"}))
    assert project.drift("--offline")[("environment", "")] == [
        "+ env.NODE_OPTIONS: --require ./evil.js", "  env.SERVED: [value not locked]",
    ]  # fmt: skip
    assert not project.started.exists()


def test_another_version_of_a_package_is_reported(project: LockedProject) -> None:
    entry = {"command": "npx", "args": ["-y", "@ada/files@1.0.0"], "disabled": True}
    project.configure(files=entry)
    assert "Locked: 1 server, 0 tools" in project.lock()
    package = json.loads(project.lock_path.read_text())["servers"]["files"]["package"]
    assert package == {"type": "npm", "name": "@ada/files", "version": "1.0.0"}
    project.configure(files={**entry, "args": ["-y", "@ada/files@1.0.1"]})
    drift = project.drift("--offline")
    assert drift[("package", "")] == [
        "  package.name: @ada/files", "  package.type: npm", "- package.version: 1.0.0", "+ package.version: 1.0.1",
    ]  # fmt: skip
    assert ("command", "") in drift


def test_the_origin_in_a_registry_is_locked(project: LockedProject) -> None:
    record = {"url": "https://registry.example.com", "name": "io.github.ada/files", "version": "1.0.0", "from": "npm"}
    entry = {"command": "npx", "args": ["-y", "@ada/files@1.0.0"], "disabled": True, "mcphost": {"registry": record}}
    project.configure(files=entry)
    project.lock()
    record["version"] = "1.1.0"
    project.configure(files=entry)
    assert ("registry", "") in project.drift("--offline")


def test_no_secret_gets_into_the_lock(project: LockedProject) -> None:
    env = {"API_TOKEN": "${env:THE_KEY}", "PHRASE": CANARY}
    project.configure(
        files=project.entry("--api-key", CANARY, f"--password={CANARY}", "${env:PLAIN}", env=env),
        far={"url": f"https://ada:{CANARY}@mcp.example.com/mcp?token={CANARY}", "disabled": True,
             "headers": {"Authorization": f"Bearer {CANARY}", "X-Team": "${env:TEAM}"}},
    )  # fmt: skip
    project.serve({**READ, "description": f"Reads with {CANARY}."})
    project.lock(THE_KEY=CANARY, PLAIN="x", TEAM="t")
    text = project.lock_path.read_text()
    assert CANARY not in text
    servers = json.loads(text)["servers"]
    *_, option, key, password, reference = servers["files"]["command"]
    assert (option, key.partition(" ")[0], reference) == ("--api-key", "[hidden]", "${env:PLAIN}")
    assert password.partition(" ")[0] == "--password=[hidden]"
    assert servers["files"]["env"]["API_TOKEN"] == "${env:THE_KEY}"
    assert servers["far"]["headers"] == {"Authorization": "[value not locked]", "X-Team": "${env:TEAM}"}
    assert servers["files"]["tools"]["read"]["definition"]["description"] == "Reads with [secret]."
    assert "unchanged, 1 tool" in project.verify(THE_KEY=CANARY, PLAIN="x", TEAM="t")


def test_a_secret_that_a_server_tells_about_itself_is_hidden_everywhere(project: LockedProject) -> None:
    project.configure(files=project.entry("${env:DB_PASSWORD}"))
    tool: dict[str, Any] = {
        **READ,
        "name": f"read_{CANARY}",
        "inputSchema": {"type": "object", "properties": {CANARY: {}}},
    }
    project.serve(tool, version=f"1.0 {CANARY}")
    project.lock(DB_PASSWORD=CANARY)
    assert CANARY not in project.lock_path.read_text()
    assert "unchanged, 1 tool" in project.verify(DB_PASSWORD=CANARY)
    project.serve({**tool, "name": "read_another-secret"}, version="1.0 another-secret")
    assert "another-secret" not in project.verify("--json", code=9, DB_PASSWORD="another-secret")


def test_hidden_text_is_visible_in_the_lock_and_in_the_difference(project: LockedProject) -> None:
    project.lock()
    project.serve({**READ, "description": "Read\u202e one\x1b[2J \U000e0041file."}, WRITE)
    lines = project.drift()[("tool_changed", "read")]
    assert "+ description: Read‹U+202E› one␛[2J ‹U+E0041›file." in lines
    project.accept()
    project.lock()
    text = project.lock_path.read_text()
    assert "Read\\u202e one\\u001b[2J \\udb40\\udc41file." in text
    assert project.verify() == "files: unchanged, 2 tools\n"


def test_an_edited_text_in_the_lock_is_reported_although_the_digest_fits(project: LockedProject) -> None:
    project.lock()
    project.lock_path.write_text(project.lock_path.read_text().replace("Read one file.", "Read nothing."))
    lines = project.drift()[("tool_changed", "read")]
    assert lines[0].startswith("  The text in the lock file was edited")


def test_a_definition_too_large_to_repeat_is_locked_by_its_digest(project: LockedProject) -> None:
    huge = {**READ, "description": "x" * 100_000}
    project.serve(huge)
    project.lock()
    assert len(project.lock_path.read_bytes()) < 10_000
    assert "unchanged" in project.verify()
    project.serve({**huge, "description": "x" * 100_001})
    assert ("tool_changed", "read") in project.drift()


def answer_mcp(tools: list[dict[str, Any]]) -> Any:
    """Return the handler of an HTTP server that offers these tools."""
    identity = {"name": "far", "version": "1"}
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": identity},
        "tools/list": {"tools": tools},
    }

    def answer(message: dict[str, Any]) -> Any:
        if "id" not in message:
            return 202
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in results:
            return reply | {"result": results[message["method"]]}
        return reply | {"error": {"code": -32601, "message": "no"}}

    return answer


def test_a_server_over_http_is_locked_with_its_address_and_compared(project: LockedProject) -> None:
    with json_server({"POST /mcp": answer_mcp([READ]), "POST /v2": answer_mcp([READ])}) as far:
        entry = {"url": f"{far.url}/mcp", "type": "streamable-http", "headers": {"X-Team": "${env:TEAM}"}}
        project.configure(far=entry)
        project.lock(TEAM="blue team")
        locked = json.loads(project.lock_path.read_text())["servers"]["far"]
        assert (locked["url"], locked["transport"]) == (f"{far.url}/mcp", "streamable-http")
        assert locked["identity"]["name"] == "far"
        assert project.verify(TEAM="red team") == "far: unchanged, 1 tool\n"
        far.answers["POST /mcp"] = answer_mcp([{**READ, "title": "Fetch"}])
        assert "    - title: Read\n    + title: Fetch\n" in project.verify(code=9, TEAM="blue team")
        project.configure(far={**entry, "url": f"{far.url}/v2", "headers": {"X-Team": "${env:AWS_SECRET}"}})
        far.requests.clear()
        assert project.drift() == {
            ("address", ""): ["  transport: streamable-http", f"- url: {far.url}/mcp", f"+ url: {far.url}/v2"],
            ("headers", ""): ["- headers.X-Team: ${env:TEAM}", "+ headers.X-Team: ${env:AWS_SECRET}"],
        }
        assert far.requests == []


def test_two_branches_that_add_tools_merge(project: LockedProject, tmp_path: Path) -> None:
    locks: list[bytes] = []
    for tools in ((READ, WRITE), (READ, WRITE, {**WRITE, "name": "append"}), (READ, WRITE, {**WRITE, "name": "zip"})):
        project.serve(*tools)
        project.lock()
        locks.append(project.lock_path.read_bytes())
    paths = [tmp_path / name for name in ("base", "ours", "theirs")]
    for path, content in zip(paths, locks, strict=True):
        path.write_bytes(content)
    base, ours, theirs = map(str, paths)
    merged = subprocess.run(["git", "merge-file", "-p", ours, base, theirs], capture_output=True, check=True).stdout
    project.serve({**WRITE, "name": "zip"}, WRITE, READ, {**WRITE, "name": "append"})
    project.lock()
    assert merged == project.lock_path.read_bytes()


def test_a_changed_sign_in_or_header_is_reported_and_sends_no_secret(project: LockedProject) -> None:
    secrets = {"CI_TOKEN": CANARY, "MCP_TOKEN": "mcp-token", "TEAM": "blue team"}
    with json_server({"POST /mcp": answer_mcp([READ]), "POST /take": lambda _message: {}}) as far:
        entry: dict[str, Any] = {
            "url": f"{far.url}/mcp", "type": "streamable-http",
            "headers": {"Authorization": "Bearer ${env:MCP_TOKEN}"},
        }  # fmt: skip
        project.configure(far=entry)
        project.lock(**secrets)
        far.requests.clear()
        project.configure(far={**entry, "headers": {"Authorization": "Bearer ${env:CI_TOKEN}"}})
        assert "It was not started" in project.verify(code=9, **secrets)
        oauth = {
            "grant": "enterprise", "clientId": "c", "clientSecret": "s", "issuer": far.url,
            "idToken": "${env:CI_TOKEN}", "idpClientId": "x", "idpTokenEndpoint": f"{far.url}/take",
        }  # fmt: skip
        project.configure(far={**entry, "mcphost": {"oauth": oauth}})
        said = project.verify(code=9, **secrets)
        assert "  sign-in changed\n" in said
        assert f"    + oauth.idpTokenEndpoint: {far.url}/take\n" in said
        assert "It was not started" in said
        assert far.requests == []


def test_another_certificate_file_or_another_content_is_reported(project: LockedProject) -> None:
    entry = {"url": "https://mcp.example.com/mcp", "disabled": True, "mcphost": {"caFile": "ca.pem"}}
    authorities = project.program.work / "ca.pem"
    authorities.write_text("one")
    project.configure(far=entry)
    project.lock()
    assert json.loads(project.lock_path.read_text())["servers"]["far"]["caFile"] == "ca.pem"
    assert "far: the entry is unchanged" in project.verify("--offline")
    authorities.write_text("two")
    assert project.drift("--offline").keys() == {("certificates", "")}
    authorities.unlink()
    assert project.drift("--offline").keys() == {("certificates", "")}


def test_a_server_whose_environment_file_changed_is_not_started(project: LockedProject) -> None:
    variables = project.program.work / "settings.env"
    variables.write_text(f"API_TOKEN={CANARY}\n")
    project.configure(files=project.entry(envFile="settings.env"))
    project.lock()
    assert CANARY not in project.lock_path.read_text()
    variables.write_text("API_TOKEN=of-another-developer\n")
    assert project.verify() == "files: unchanged, 2 tools\n"
    project.started.unlink()
    variables.write_text(f"API_TOKEN={CANARY}\nLD_PRELOAD=/nowhere/x.so\n")
    lines = project.drift()[("environment", "")]
    assert "+ envFileVariables.LD_PRELOAD: /nowhere/x.so" in lines
    variables.unlink()
    assert "does not exist" in project.program.error("--mcp-config", ".mcp.json", "servers", "verify", code=3)
    assert not project.started.exists()


@pytest.mark.parametrize("before", ["A=1", None])
def test_an_environment_file_changed_after_its_comparison_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    entry = {"command": "run", "envFile": "settings.env"}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    variables = tmp_path / "settings.env"
    if before is not None:
        variables.write_text(before)
    monkeypatch.chdir(tmp_path)
    project = LockableProject(Options())
    (server,) = parse_servers({"mcpServers": {"s": entry}}, str(project.file), "project", list[str]().append)
    (bound,) = project.bind(HostConfig(servers=(server,))).servers
    variables.write_text("LD_PRELOAD=/nowhere/x.so")
    if before is None:
        assert project.unreadable.keys() == {"s"}
    else:
        with pytest.raises(ConfigError, match="has changed"):
            read_env_file(bound, {})


def test_a_lock_of_an_earlier_version_says_to_lock_again(project: LockedProject) -> None:
    project.lock()
    project.started.unlink()
    project.lock_path.write_text(project.lock_path.read_text().replace('"lockVersion": 3', '"lockVersion": 2'))
    for command in ("verify", "lock"):
        told = project.program.error("--mcp-config", ".mcp.json", "servers", command, code=3)
        assert "Delete it and write it again: mcphost servers lock" in told
    assert not project.started.exists()
    project.lock_path.unlink()
    project.lock()
    assert project.verify() == "files: unchanged, 2 tools\n"


def test_a_disabled_server_stays_locked_as_it_was(project: LockedProject) -> None:
    project.lock()
    before = project.lock_path.read_bytes()
    project.configure(files=project.entry(disabled=True))
    project.started.unlink()
    assert "Unchanged: 1 server, 2 tools" in project.lock()
    assert project.lock_path.read_bytes() == before
    assert project.verify() == "files: the entry is unchanged; it is disabled\n"
    assert not project.started.exists()


def test_the_users_own_server_of_that_name_is_not_locked_in_its_place(project: LockedProject) -> None:
    project.program.configure(files=project.entry())
    trusted(project)
    project.started.unlink(missing_ok=True)
    assert "has one of that name. Rename one of them." in project.program.error("servers", "lock", code=3)
    assert not project.started.exists()


def test_an_invalid_entry_is_neither_locked_nor_passed_over(project: LockedProject) -> None:
    project.lock()
    project.configure(files=project.entry(), broken={"command": 1})
    told = project.program.error("--mcp-config", ".mcp.json", "servers", "lock", code=3)
    assert 'server "broken"' in told
    assert "files: unchanged" in project.verify(code=3)
    assert 'server "broken"' in project.program.error("servers", "verify", "--offline", "broken", code=3)


def test_a_named_server_is_locked_without_touching_the_others(project: LockedProject) -> None:
    project.lock()
    before = json.loads(project.lock_path.read_text())["servers"]["files"]
    project.configure(files=project.entry("--all"), more=project.entry())
    assert "Locked: 1 server" in project.lock("more")
    servers = json.loads(project.lock_path.read_text())["servers"]
    assert servers["files"] == before
    assert "more: unchanged" in project.verify("more")
    assert "no server named 'less'" in project.program.error("servers", "verify", "less", code=2)


def test_a_missing_or_invalid_lock_is_a_configuration_error(project: LockedProject) -> None:
    told = project.program.error("servers", "verify", code=3)
    assert f"{project.lock_path} does not exist. Write it: mcphost servers lock" in told
    project.lock_path.write_text("{")
    assert "is not valid" in project.program.error("servers", "verify", code=3)
    assert "is not valid" in project.program.error("--mcp-config", ".mcp.json", "servers", "lock", code=3)
    assert project.lock_path.read_text() == "{"


def test_a_server_that_cannot_be_reached_is_reported_with_its_own_code(project: LockedProject) -> None:
    project.lock()
    project.served.unlink()
    report = json.loads(project.verify("--json", code=4))
    assert report["servers"][0]["ok"] is False
    assert report["servers"][0]["error"]["exit"] == 4
    before = project.lock_path.read_bytes()
    project.program.error("--mcp-config", ".mcp.json", "servers", "lock", code=4)
    assert project.lock_path.read_bytes() == before


@pytest.mark.req("sec.project-config")
def test_without_an_approval_nothing_is_started(project: LockedProject) -> None:
    told = project.program.error("servers", "lock", code=5)
    assert "mcphost servers trust .mcp.json" in told
    assert not project.started.exists()
    assert not project.lock_path.exists()


def test_an_approved_project_is_locked_without_a_flag(project: LockedProject) -> None:
    project.program.text("servers", "trust", ".mcp.json", "--yes")
    assert "mcphost servers trust files" in project.program.error("servers", "lock", code=5)
    project.program.text("servers", "trust", "files", "--yes")
    assert "Locked: 1 server" in project.program.text("servers", "lock")
    assert "files: unchanged" in project.program.text("servers", "verify")


def test_changed_tools_in_quarantine_are_not_locked(project: LockedProject) -> None:
    project.lock()
    before = project.lock_path.read_bytes()
    project.serve({**READ, "description": "Something else."}, WRITE)
    advice = project.program.run("--mcp-config", ".mcp.json", "servers", "verify").stderr.decode()
    assert "run: mcphost servers changes files, then: mcphost servers lock" in advice
    told = project.program.error("--mcp-config", ".mcp.json", "servers", "lock", code=5)
    assert "in quarantine" in told
    assert project.lock_path.read_bytes() == before
    project.accept()
    assert "tool changed read" in project.lock()


def test_a_symbolic_link_is_not_written_through(project: LockedProject, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    project.lock_path.symlink_to(target)
    assert "symbolic link" in project.program.error("--mcp-config", ".mcp.json", "servers", "lock", code=3)
    assert target.read_text() == "mine"


def test_a_lock_of_another_machine_fits_a_checkout_elsewhere(project: LockedProject, tmp_path: Path) -> None:
    project.lock()
    copy = tmp_path / "copy"
    shutil.copytree(project.program.work, copy)
    said = project.program.text("--mcp-config", str(copy / ".mcp.json"), "servers", "verify")
    assert said == "files: unchanged, 2 tools\n"


def test_a_tool_that_the_lock_does_not_have_is_quarantined_when_it_is_first_seen(project: LockedProject) -> None:
    project.lock()
    project.serve({**READ, "description": "Mail one file."}, WRITE, {**WRITE, "name": "erase"})
    checked_out(project)
    shown = project.program.text("servers", "changes", "files", code=5)
    assert "- description: Read one file." in shown
    assert "+ description: Mail one file." in shown
    assert "erase\n    The project's lock file does not contain this tool's definition" in shown
    assert "write" not in shown.replace("Write", "")
    assert "in quarantine" in project.program.error("servers", "lock", code=5)
    project.program.text("servers", "changes", "files", "--keep", "--yes")
    assert "Locked: 1 server, 3 tools" in project.program.text("servers", "lock")
    assert "files: unchanged, 3 tools" in project.program.text("servers", "verify")


def test_the_question_about_an_unlocked_tool_names_the_lock_file(project: LockedProject) -> None:
    project.lock()
    project.serve({**READ, "description": "Mail one file."}, WRITE)
    checked_out(project)
    with project.program.pipe() as pipe:
        pipe.send("connect", server="files")
        question = pipe.event("question", kind="tools_changed")
        pipe.end()
    assert question["why"] == "one of its tools is not what the project's lock file records"
    notice = next(event for event in pipe.events if event["event"] == "told")
    assert notice["text"] == "files: It differs from the project's lock file: tool changed read."


def test_a_server_left_out_by_a_profile_is_reported_as_such(project: LockedProject) -> None:
    project.lock()
    (project.program.home / "config").mkdir()
    (project.program.home / "config" / "config.toml").write_text("[profiles.none]\nservers = []\n")
    assert "files: unchanged" in project.verify()
    done = project.program.run("--profile", "none", "--mcp-config", ".mcp.json", "servers", "verify")
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"'files' is not in the profile 'none'." in done.stderr


def test_what_the_lock_records_is_trusted_when_it_is_first_seen(project: LockedProject) -> None:
    project.configure(files=project.entry(env={"API_TOKEN": "${env:THE_KEY}"}))
    project.serve({**READ, "description": f"Reads with {CANARY}."}, WRITE)
    project.lock(THE_KEY=CANARY)
    checked_out(project, THE_KEY=CANARY)
    assert project.program.text("servers", "changes", "files", THE_KEY=CANARY) == ""


def test_a_run_tells_drift_once(project: LockedProject) -> None:
    project.lock()
    project.serve(READ, WRITE, version="2.0")
    checked_out(project)
    done = project.program.run("run", "hello", "--model", "demo", "--allow", "files")
    told = done.stderr.decode()
    assert told.count("files: It differs from the project's lock file: identity.") == 1
    assert "The differences: mcphost servers verify files" in told


def spoil(project: LockedProject, how: str) -> str:
    """Make the lock file unusable, and return a part of the error that says why."""
    text = project.lock_path.read_text()
    project.lock_path.unlink()
    match how:
        case "invalid":
            project.lock_path.write_text("[]")
            return "is not valid: it contains a list, not an object."
        case "too old":
            project.lock_path.write_text(text.replace('"lockVersion": 3', '"lockVersion": 2'))
            return 'has "lockVersion" 2; this mcphost reads only 3.'
        case "of a later version":
            project.lock_path.write_text(text.replace('"lockVersion": 3', '"lockVersion": 4'))
            return 'has "lockVersion" 4; this mcphost reads only 3.'
        case "a merge conflict":
            project.lock_path.write_text(f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n")
            return "has a merge conflict."
        case "a folder":
            project.lock_path.mkdir()
            return "cannot be read: Is a directory."
        case _:
            project.lock_path.symlink_to("nowhere")
            return "is a symbolic link"


SPOILED = ("invalid", "too old", "of a later version", "a merge conflict", "a folder", "a dangling link")


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.req("sec.project-config")
def test_with_a_lock_that_cannot_be_used_a_call_starts_nothing(project: LockedProject, how: str) -> None:
    project.lock()
    reason = spoil(project, how)
    checked_out(project)
    project.started.unlink()
    told = project.program.error("call", "files", "read", code=3)
    assert f"Not started, because the project's lock file cannot be used: {project.lock_path}" in told
    assert reason in told
    assert "mcphost servers lock" in told
    assert not project.started.exists()


def test_with_a_lock_that_cannot_be_used_a_run_asks_no_model(project: LockedProject) -> None:
    project.lock()
    spoil(project, "too old")
    checked_out(project)
    project.started.unlink()
    report = json.loads(
        project.program.text("run", "hello", "--model", "demo", "--allow", "files", "--output", "json", code=3)
    )
    assert "cannot be used" in report["error"]
    assert "mcphost servers lock" in report["hint"]
    assert report["text"] == ""
    assert project.program.text("run", "hello", "--model", "demo")  # without a rule, the server is not needed
    assert not project.started.exists()


def test_a_server_starts_as_soon_as_its_lock_is_repaired(project: LockedProject) -> None:
    project.lock()
    good = project.lock_path.read_bytes()
    spoil(project, "invalid")
    project.serve({**READ, "description": "Mail one file."}, WRITE)
    checked_out(project)
    project.started.unlink()
    with project.program.pipe() as pipe:
        refused = pipe.ask("connect", server="files")
        assert refused["exit"] == 3
        assert "cannot be used" in refused["error"]["message"]
        assert "mcphost servers lock" in refused["error"]["hint"]
        assert not project.started.exists()
        project.lock_path.write_bytes(good)
        pipe.send("connect", server="files")
        assert pipe.event("question", kind="tools_changed")["why"].endswith("what the project's lock file records")
        pipe.end()
