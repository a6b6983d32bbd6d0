"""Tests for the commands `servers` and `doctor`, and for broken configurations, with the real program."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import DEMO, Program, faulty_server


@pytest.mark.req("http.static-headers")
def test_list_shows_each_server_and_starts_none(program: Program) -> None:
    mark = program.home / "it-ran"
    program.configure(
        mine={"command": "touch", "args": [str(mark), "a b"]},
        web={"url": "https://h/mcp", "headers": {"X-Key": "${env:K}"}},
        off={"command": "x", "disabled": True, "mcphost": {"reviewResults": True}},
    )  # fmt: skip
    assert program.text("servers").splitlines() == [
        f"mine  not approved  touch {mark} 'a b'", "web   not approved  https://h/mcp", "off   disabled      x",
    ]  # fmt: skip
    document = json.loads(program.text("servers", "list", "--json"))
    assert [server["state"] for server in document["servers"]] == ["not approved", "not approved", "disabled"]
    assert [server["reviews_results"] for server in document["servers"]] == [False, False, True]
    assert document["servers"][1]["headers"] == ["X-Key"]
    assert not mark.exists()


def test_a_secret_in_a_command_with_its_arguments_is_printed_nowhere(program: Program) -> None:
    program.configure(x={"command": "npx thing --api-key abcDEF123456ghiJKL789012"})
    for words in (("list", "--json"), ("list",), ("check",), ("export",)):
        done = program.run("servers", *words)
        assert b"abcDEF123456" not in done.stdout + done.stderr, words
    told = program.run("doctor", "x").stdout.decode()
    assert "npx thing --api-key [secret]" in told
    assert "abcDEF123456" not in told + program.run("doctor").stdout.decode()


@pytest.mark.parametrize("content", ["", " \n", "{}", '{"mcpServers": {}} // none yet'])
def test_a_projects_file_with_nothing_in_it_needs_no_approval(program: Program, content: str) -> None:
    (program.work / ".mcp.json").write_text(content)
    checks = json.loads(program.run("doctor", "--json").stdout)
    assert ".mcp.json" not in json.dumps(checks)
    assert "failed" not in json.dumps(checks)
    assert ".mcp.json" not in program.run("servers").stderr.decode()


@pytest.mark.parametrize("content", ['{"mcpServers": {"x": 5}}', '{"mcphost": {"roots": ["."]}}', "{", "[1]"])
def test_a_projects_file_with_anything_in_it_needs_an_approval(program: Program, content: str) -> None:
    (program.work / ".mcp.json").write_text(content)
    assert "it was not approved yet" in program.run("servers").stderr.decode()


@pytest.mark.req("sec.local.show-command")
def test_trust_shows_everything_and_the_changes_before_it_approves(program: Program) -> None:
    script = f"{'x' * 5_000}; end"
    program.configure(x={"command": "run", "args": ["a b", script], "env": {"TOKEN": "${env:T}"}, "cwd": "/w"})
    out = program.text("servers", "trust", "x", "--yes")
    assert out.splitlines()[1:6] == [
        "  command: run",
        "  argument 1: a b",
        f"  argument 2: {script}",
        "  folder: /w",
        "  environment TOKEN: ${env:T}",
    ]
    assert "approved" in program.text("servers")
    program.configure(x={"command": "ran", "env": {"TOKEN": "${env:T}"}})
    assert "not approved" in program.text("servers")
    out = program.text("servers", "trust", "x", "--yes")
    assert "It differs from what was approved before:" in out
    assert out.index("- command: run") < out.index("+ command: ran")
    assert "- argument 1: a b" in out
    assert "  environment TOKEN: ${env:T}" in out
    document = json.loads(program.text("servers", "trust", "x", "--yes", "--json"))
    assert document["covers"] == [
        "command: ran", f"folder: {program.home}/config", "environment TOKEN: ${env:T}",
    ]  # fmt: skip
    assert "Which server?" in program.error("servers", "trust", code=2)
    assert "no server named" in program.error("servers", "trust", "y", code=2)


def test_trust_asks_at_a_terminal_and_any_answer_but_yes_means_no(program: Program) -> None:
    program.configure(x={"command": "run"})
    for typed, code in ((b"\n", 5), (b"no\n", 5), (b"y\n", 0)):
        assert at_terminal(program, typed, "servers", "trust", "x") == code
    assert "not approved" not in program.text("servers")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_trust_asks_at_a_terminal_even_if_its_output_is_redirected(program: Program, more: tuple[str, ...]) -> None:
    program.configure(x={"command": "run", "args": ["the-argument"]})
    out = program.home / "out"
    for typed, code in ((b"n\n", 5), (b"y\n", 0)):
        assert "  not approved" in program.text("servers")
        seen = bytearray()
        assert at_terminal(program, typed, "servers", "trust", "x", *more, stdout=out, seen=seen) == code
        assert b"argument 1: the-argument" in seen
        assert b"[y/N]" not in out.read_bytes()
    assert "  approved" in program.text("servers")


def test_an_answer_typed_before_the_question_approves_nothing(program: Program) -> None:
    program.configure(x={"command": "run"})
    assert at_terminal(program, b"n\n", "servers", "trust", "x", ahead=b"y\n") == 5
    assert "not approved" in program.text("servers")


def test_without_a_terminal_nothing_is_approved_unless_yes_is_given(program: Program) -> None:
    program.configure(x={"command": "run", "env": {"API_TOKEN": "hunter2-hunter2"}})
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"its": DEMO}}))
    before = (program.home / "config" / "mcp.json").read_bytes()
    (program.home / "config" / "config.toml").write_text('[secrets]\nstore = "file"\n')
    for words in (("trust", "x"), ("trust", "x", "--json"), ("trust", ".mcp.json"), ("secure", "x")):
        assert "pass --yes" in program.error("servers", *words, code=2)
    assert program.text("servers").startswith("x  not approved")
    assert (program.home / "config" / "mcp.json").read_bytes() == before
    assert "--yes belongs to" in program.error("servers", "list", "--yes", code=2)


def test_a_program_name_with_escape_codes_reaches_no_pipe(program: Program) -> None:
    entry = {"command": "evil\x1b[2J\x1b]0;owned\x07 --flag"}
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"its": entry}}))
    done = program.run("servers", "trust", ".mcp.json", "--yes")
    assert done.returncode == 0
    assert b"will not be found" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr


def at_terminal(
    program: Program,
    typed: bytes,
    *arguments: str,
    stdout: Path | None = None,
    seen: bytearray | None = None,
    ahead: bytes = b"",
) -> int:
    """Run a command on a terminal, type *typed* at its yes/no prompt, and return the exit code.

    The bytes *ahead* are typed before the command starts. The output is appended to *seen*; if *stdout* is given,
    standard output goes to that file instead.
    """
    import pty

    seen = bytearray() if seen is None else seen
    master, slave = pty.openpty()
    os.write(master, ahead)
    with (
        open(stdout or os.devnull, "wb") as file,
        program.start(*arguments, stdin=slave, stdout=slave if stdout is None else file, stderr=slave) as process,
    ):
        os.close(slave)  # so that reading fails if the command ends without a question
        while b"[y/N]" not in seen:
            seen += os.read(master, 4096)
        os.write(master, typed)
        code = process.wait(10)
    os.close(master)
    return code


def test_resuming_a_missing_conversation_is_reported_once_the_terminal_is_restored(program: Program) -> None:
    def resuming(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        master, slave = pty.openpty()
        done = subprocess.run(
            [sys.executable, "-m", "mcphost", "--resume", *arguments], stdin=slave, stdout=slave,
            stderr=subprocess.PIPE, env=program.env, timeout=20,
        )  # fmt: skip
        os.close(slave)
        os.close(master)
        return done

    nothing = resuming()
    assert nothing.returncode == 2
    assert nothing.stderr.startswith(b"mcphost: There is no conversation yet.")  # before anything was drawn
    program.text("run", "--model", "demo", "hello")
    wrong = resuming("zzz")
    assert wrong.returncode == 2
    # The shell was drawn while the conversation was loaded; the error follows the sequences that restore the screen.
    assert b"\x1b[?1049l" in wrong.stderr
    assert b"There is no conversation 'zzz'" in wrong.stderr.rpartition(b"\x1b")[2]


@pytest.mark.req("sec.project-config")
def test_projects_file_counts_after_exactly_its_content_was_approved(program: Program) -> None:
    file = program.work / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"its": DEMO}}))
    done = program.run("servers")
    assert done.stdout == b""
    assert b"servers trust .mcp.json" in done.stderr
    assert "its" in program.text("servers", "trust", ".mcp.json", "--yes")
    assert program.text("servers").startswith("its  not approved")
    program.text("servers", "trust", "its", "--yes")
    assert program.text("call", "its", "add", "a=1", "b=1") == "1 + 1 = 2\n"
    file.write_text(json.dumps({"mcpServers": {"its": DEMO, "more": DEMO}}))
    done = program.run("servers")
    assert done.stdout == b""
    assert b"changed since it was approved" in done.stderr


def test_check_connects_and_reports_faults(program: Program) -> None:
    file = program.servers(demo=DEMO, bad=faulty_server("dies at start"))
    done = program.run("--mcp-config", file, "servers", "check")
    assert done.returncode == 4
    rows = {line.split()[0]: line for line in done.stdout.decode().splitlines()}
    assert "2026-07-28" in rows["demo"]
    assert "cannot read licence.key" in rows["bad"]
    document = json.loads(program.text("--mcp-config", file, "servers", "check", "demo", "--json"))
    assert document["servers"][0]["ok"]
    assert "no server" in program.error("--mcp-config", file, "servers", "check", "none", code=2)


def test_check_connects_to_each_of_several_named_servers(program: Program) -> None:
    file = program.servers(demo=DEMO, other=DEMO, slow={"command": "false"})
    shown = program.text("servers", "check", "demo", "other", "demo", "--mcp-config", file)
    assert sorted(line.split()[0] for line in shown.splitlines()) == ["demo", "other"]
    assert "no server named 'gone'" in program.error("servers", "check", "demo", "gone", "--mcp-config", file, code=2)
    told = program.error("servers", "trust", "demo", "other", "--mcp-config", file, code=2)
    assert "servers trust takes one name." in told


def test_check_without_servers_says_that_there_are_none(program: Program) -> None:
    told = program.error("servers", "check", code=4)
    assert told == "mcphost: No servers are configured. See: mcphost servers\n"


def test_check_prints_each_row_as_soon_as_it_is_known(program: Program) -> None:
    gate = program.home / "gate"
    held = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    slow = {**DEMO, "args": ["-c", f"{held}import mcphost.demo.server as s; s.main()"]}
    command = ("--mcp-config", program.servers(slow=slow, demo=DEMO), "servers", "check")
    with program.start(*command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b"demo  ok ")
        gate.touch()
        assert process.stdout.readline().startswith(b"slow  ok ")
        assert process.wait(20) == 0


def test_check_lists_an_entry_that_cannot_be_read_and_exits_4_when_nothing_is_usable(program: Program) -> None:
    program.configure(odd={"command": 7})
    done = program.run("servers", "check")
    assert (done.returncode, done.stderr) == (4, b"")
    name, state, *problem = done.stdout.decode().split()
    assert (name, state) == ("odd", "invalid")
    assert "mcp.json" in " ".join(problem)
    (entry,) = json.loads(program.text("servers", "check", "--json", code=4))["servers"]
    assert (entry["name"], entry["ok"], entry["error"]["exit"]) == ("odd", False, 3)
    program.configure()
    assert program.run("servers", "check").returncode == 4
    program.configure(odd={"command": 7}, demo=DEMO)
    program.text("servers", "trust", "demo", "--yes")
    done = program.run("servers", "check")
    assert done.returncode == 3
    assert sorted(line.split()[:2] for line in done.stdout.decode().splitlines()) == [
        ["demo", "ok"],
        ["odd", "invalid"],
    ]


def test_the_error_output_of_a_server_that_failed_is_in_the_log_that_the_message_names(program: Program) -> None:
    code = "import sys; print('the real cause', file=sys.stderr); print('see another file', file=sys.stderr); exit(3)"
    server = {"command": sys.executable, "args": ["-c", code]}
    error_text = program.error("--mcp-config", program.servers(bad=server), "call", "bad", "x", code=4)
    assert "Its error output is in" in error_text, error_text
    (log,) = re.findall(r"Its error output is in (\S+)", error_text)
    assert "the real cause" in Path(log).read_text()


def test_a_hint_names_the_file_that_was_read(program: Program) -> None:
    file = program.servers(gone={"command": "no-such-program"})
    assert f"correct `command` in {file}." in program.error("--mcp-config", file, "tools", "gone", code=4)
    empty = program.servers()
    assert f"There are no servers in {empty}." in program.run("--mcp-config", empty, "servers").stderr.decode()


def test_a_tool_that_is_not_listed_here_may_be_hidden_and_pipe_is_named(program: Program) -> None:
    error_text = program.error("--mcp-config", program.servers(demo=DEMO), "call", "demo", "ask-me", code=2)
    assert "A server may hide tools that ask the user something" in error_text
    assert "mcphost pipe" in error_text


def test_demanded_era_is_not_remembered_for_later(program: Program) -> None:
    file = program.servers(demo=DEMO)
    eras = [
        json.loads(program.text("--mcp-config", file, "servers", "check", "--json", *more))["servers"][0]["era"]
        for more in (["--era", "handshake"], [], [])
    ]
    assert eras == ["handshake", "stateless", "stateless"]


def test_broken_configuration_is_named_and_the_rest_works(program: Program) -> None:
    path = program.configure(demo=DEMO, bad={"command": 5})
    program.text("servers", "trust", "demo", "--yes")
    assert program.text("call", "demo", "add", "a=1", "b=1") == "1 + 1 = 2\n"
    assert '"command" is a number' in program.error("call", "bad", "x", code=3)
    path.write_text('{"mcpServers": {oops}}')
    error_text = program.error("call", "demo", "add", code=3)
    assert f"{path}, line 1, column 17" in error_text
    assert json.loads(program.text("servers", "list", "--json", code=3))["problems"]


@pytest.mark.parametrize("arguments", [("servers",), ("servers", "check"), ("servers", "export"), ("tools",)])
def test_a_file_of_servers_that_cannot_be_read_is_not_taken_for_an_empty_one(
    program: Program, arguments: tuple[str, ...]
) -> None:
    path = program.configure()
    path.write_text('{"mcpServers": {oops}}')
    for flags in ((), ("--quiet",)):
        told = program.error(*flags, *arguments, code=3)
        assert f"{path}, line 1, column 17" in told
        assert told.count("mcphost: ") == 1, "it says that there are no servers, or the same twice"


def test_missing_reference_exits_3_naming_it_and_a_given_one_works(program: Program) -> None:
    file = program.servers(demo={**DEMO, "env": {"X": "${env:NOT_THERE_1}"}})
    assert "NOT_THERE_1" in program.error("--mcp-config", file, "call", "demo", "add", "a=1", "b=1", code=3)
    out = program.text("--mcp-config", file, "call", "demo", "add", "a=1", "b=1", NOT_THERE_1="there")
    assert out == "1 + 1 = 2\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_in_folders_that_cannot_be_written_a_call_runs_only_if_it_needs_no_record(program: Program) -> None:
    locked = program.home / "locked"
    locked.mkdir(mode=0o500)
    call_without_folders(program, locked)


def test_in_folders_that_are_files_a_call_runs_only_if_it_needs_no_record(program: Program) -> None:
    (program.home / "file").touch()
    call_without_folders(program, program.home / "file")


def call_without_folders(program: Program, place: Path) -> None:
    """Call a tool while no folder of mcphost can be written: it fails only if the audit log is required."""
    file = program.servers(demo=DEMO)
    places: dict[str, Any] = {f"MCPHOST_{kind}_DIR": str(place / kind) for kind in ("DATA", "STATE", "CACHE")}
    call = ("--mcp-config", file, "call", "demo", "add", "a=1", "b=1")
    assert "The action was not taken: the audit log" in program.error(*call, code=5, **places)
    settings = program.home / "settings"
    settings.mkdir()
    (settings / "config.toml").write_text("[audit]\nrequired = false\n")
    places["MCPHOST_CONFIG_DIR"] = str(settings)
    assert program.text(*call, **places) == "1 + 1 = 2\n"


def test_doctor_reports_problems_and_their_fixes(program: Program) -> None:
    document = json.loads(program.text("doctor", "--json"))
    assert document["ok"]
    names = {check["name"]: check for check in document["checks"]}
    assert {"config", "keyring", "terminal", "model", "log", "data"} <= set(names)
    assert names["model"]["status"] == "warning"
    assert names["log"]["detail"] == str(program.home / "state" / "mcphost.log")
    program.configure(demo={**DEMO, "env": {"API_KEY": "sk-1234567890abcdef"}})
    document = json.loads(program.text("doctor", "--json"))
    (secret,) = [check for check in document["checks"] if check["name"] == "config"]
    assert (secret["status"], document["ok"]) == ("warning", True)
    assert "looks like a secret" in secret["detail"]
    program.configure(demo=DEMO, bad={"command": 5})
    done = program.run("doctor", "--json")
    assert done.returncode == 3
    failed = [check for check in json.loads(done.stdout)["checks"] if check["status"] == "failed"]
    assert '"command" is a number' in failed[0]["detail"]
    waiting = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "server demo")
    assert (waiting["status"], waiting["exit"]) == ("warning", 5)
    gone = program.servers(gone={"command": "no-such-program"})
    done = program.run("doctor", "--mcp-config", gone)
    assert done.returncode == 4
    assert b"no-such-program" in done.stdout


def test_a_server_cannot_add_lines_or_control_sequences_to_the_output_of_doctor(program: Program) -> None:
    said = "broken\x1b]0;title\x07\nok       server other: 2025-11-25, 3 tools"
    refusal = f"""
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m:
        error = {{"code": -32000, "message": {said!r}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": m["id"], "error": error}}), flush=True)
"""
    servers = program.servers(s={"command": sys.executable, "args": ["-c", refusal]})
    done = program.run("doctor", "s", "--mcp-config", servers)
    told = done.stdout.decode()
    assert done.returncode == 4
    assert "broken␛]0;title␇⏎ok" in told
    assert [line for line in told.splitlines() if line.startswith("ok") and "other" in line] == []
    document = json.loads(program.run("doctor", "s", "--mcp-config", servers, "--json").stdout)
    assert said in document["checks"][0]["detail"]


def test_doctor_reports_settings_that_cannot_be_read_beside_the_other_checks(program: Program) -> None:
    (program.home / "config").mkdir(exist_ok=True)
    (program.home / "config" / "config.toml").write_text("[model]\n\nname =\n")
    done = program.run("doctor", "--json")
    assert done.returncode == 3
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["config"]["status"] == "failed"
    assert "line 3" in checks["config"]["detail"]
    assert {"version", "data", "log", "terminal"} <= set(checks)
    (program.home / "config" / "config.toml").write_text('[model]\n\nname = "a')
    assert "line 3" in " ".join(program.run("doctor").stdout.decode().split())


def test_doctor_diagnoses_the_rest_with_defaults_while_a_limit_or_rule_is_invalid(program: Program) -> None:
    program.configure(demo=DEMO)
    assert program.run("servers", "trust", "demo", "--yes").returncode == 0
    settings = program.home / "config" / "config.toml"
    settings.write_text('profile = "work"\n\n[consent]\nnever = "fs"\n')
    done = program.run("doctor", "--json")
    assert done.returncode == 3
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["config"]["status"] == "failed"
    assert f'{settings}, line 4: "consent.never" is not a list of rules.' in checks["config"]["detail"]
    assert checks["server demo"]["status"] == "ok"
    assert {"data", "model", "keyring", "sign-ins", "terminal"} <= set(checks)
    assert program.run("servers", "check", "demo").returncode == 3
    done = program.run("doctor", "demo", "--profile", "work", "--json")
    assert json.loads(done.stdout)["checks"][0]["name"] == "config"


def test_a_bug_exits_1_names_the_log_and_shows_no_traceback(program: Program) -> None:
    code = (
        "import sys, mcphost.cli.list_features as module\n"
        "def run(command, given): raise ZeroDivisionError('oops')\n"
        "module.run = run\n"
        "from mcphost.cli.main import main\n"
        "sys.exit(main(['tools']))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=program.env, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    log = program.home / "state" / "mcphost.log"
    assert str(log) in done.stderr
    assert "Traceback" not in done.stderr
    assert "ZeroDivisionError: oops" in log.read_text()


def test_version_and_help_are_printed_and_chat_without_a_terminal_names_alternatives(program: Program) -> None:
    assert program.text("--version").startswith("mcphost 0.")
    assert "commands:" in program.text("--help")
    assert program.text("call", "--help").startswith("usage: mcphost call")
    assert "mcphost run" in program.error("chat", code=2)
    assert "mcphost run" in program.error(code=2)
    assert "mcphost run" in program.error("demo", code=2)


def marking_server(program: Program, name: str) -> dict[str, object]:
    """Return an mcp.json entry for a server whose command only creates the file *name*."""
    return {"command": "sh", "args": ["-c", f"touch '{program.home}/{name}'"]}


@pytest.mark.req("sec.project-config", "sec.local.approve")
def test_a_projects_file_that_was_replaced_or_linked_starts_nothing(program: Program) -> None:
    file, other = program.work / ".mcp.json", program.home / "elsewhere.json"
    good = json.dumps({"mcpServers": {"its": DEMO}})
    file.write_text(good)
    program.text("servers", "trust", ".mcp.json", "--yes")
    program.text("servers", "trust", "its", "--yes")
    bad = json.dumps({"mcpServers": {"its": marking_server(program, "started")}})
    other.write_text(bad)
    file.unlink()
    file.symlink_to(other)
    assert "no server named 'its'" in program.error("call", "its", "add", "a=1", "b=1", code=2)
    for command in (("tools",), ("run", "hi", "--model", "demo", "--yes"), ("servers", "check")):
        program.run(*command)
    assert not (program.home / "started").exists()
    # The link is followed, and its target is trusted by content: the same bytes are trusted in any place.
    other.write_text(good)
    assert program.text("call", "its", "add", "a=1", "b=1") == "1 + 1 = 2\n"
    # In a trusted file each server still needs an approval as it is now.
    other.write_text(bad)
    program.text("servers", "trust", ".mcp.json", "--yes")
    assert "not approved" in program.error("tools", "its", code=5)
    assert not (program.home / "started").exists()


@pytest.mark.req("sec.project-config")
def test_a_projects_file_never_overrides_a_server_of_the_user(program: Program) -> None:
    program.configure(demo=DEMO)
    program.text("servers", "trust", "demo", "--yes")
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": marking_server(program, "started")}}))
    program.text("servers", "trust", ".mcp.json", "--yes")
    assert program.text("call", "demo", "add", "a=1", "b=1") == "1 + 1 = 2\n"
    assert b"is not used" in program.run("servers").stderr
    assert not (program.home / "started").exists()


def test_never_rules_that_match_no_call_are_warnings(program: Program) -> None:
    program.configure(work=DEMO)
    never = ["work/save?path=undr:/etc", "wrk/die", "work/nosuch", "away/x", "work/add"]
    (program.home / "config" / "config.toml").write_text(f"[consent]\nnever = {json.dumps(never)}\n")
    program.text("servers", "trust", "work", "--yes")
    checked = program.run("servers", "check")
    assert checked.returncode == 0, checked.stderr.decode()
    told = program.run("doctor").stdout.decode()
    for text in (checked.stderr.decode(), told):
        words = " ".join(text.split())
        for rule in never[:-1]:
            assert repr(rule) in words
        assert "'work/add'" not in words
    assert "'wrk/die' matches no call" in " ".join(program.run("servers").stderr.decode().split())


LONG = "x" * 300
"""Longer than the name of a file can be."""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("servers",), 0, "sentence  not approved"),
        (("servers", "check", "path"), 4, f"'/{LONG}' is not an executable file"),
        (("servers", "check", "folder"), 4, f"The folder '/{LONG}' does not exist"),
        (("servers", "import", LONG), 2, f"There is no host or file '{LONG}'"),
        (("sessions", "salvage", LONG), 2, f"{LONG} cannot be read (File name too long)"),
        (("doctor",), 4, f"There is no file /{LONG}.py"),
    ],
)
def test_a_path_that_is_too_long_is_a_missing_file(
    program: Program, arguments: tuple[str, ...], code: int, said: str
) -> None:
    program.configure(
        sentence={"command": f"run {LONG} y"},
        path={"command": f"/{LONG}"},
        folder={"command": "true", "cwd": f"/{LONG}"},
        argument={"command": "true", "args": [f"/{LONG}.py"]},
    )
    for name in ("path", "folder"):
        program.text("servers", "trust", name, "--yes")
    done = program.run(*arguments)
    told = (done.stdout + done.stderr).decode()
    assert said in told
    assert "crashed" not in told
    assert done.returncode == code
