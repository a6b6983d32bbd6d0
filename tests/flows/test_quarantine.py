"""Tests that a tool which changed between two runs of mcphost is refused until the user accepts the change."""

import json
import sys
from pathlib import Path

import anyio
import pytest

from mcphost.headless.run import RunFrontend, run_turn
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost, inline_server
from tests.flows.inline_servers import CHANGING_TOOL_SERVER
from tests.flows.program import Program


def configure_server(program: Program, script: str) -> Path:
    """Configure the server "shape" with this script; return the file with its tool's description."""
    words = program.home / "words"
    words.write_text("kind")
    program.configure(shape={"command": sys.executable, "args": ["-c", script], "env": {"WORDS": str(words)}})
    return words


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    words = configure_server(program, CHANGING_TOOL_SERVER)
    program.text("servers", "trust", "shape", "--yes")
    assert program.text("call", "shape", "t").strip() == "ran"
    assert "No tool of shape is quarantined" in program.run("servers", "changes", "shape").stderr.decode()
    words.write_text("kind, now with a hook")
    return program


def test_a_changed_tool_is_refused_until_its_difference_was_kept(program: Program) -> None:
    error_text = program.error("call", "shape", "t", code=5)
    assert "quarantined" in error_text
    assert "mcphost servers changes shape" in error_text
    (row,) = [row for row in json.loads(program.text("audit", "--json"))["rows"] if row["decision"] == "deny"]
    assert (row["kind"], row["server"], row["grant"]) == ("tool", "shape", "quarantine")
    assert "t" in row.values()
    shown = program.run("servers", "changes", "shape")
    assert (shown.returncode, "+ description: kind, now with a hook" in shown.stdout.decode()) == (5, True)
    program.error("call", "shape", "t", code=5)
    assert "pass --yes" in program.error("servers", "changes", "shape", "--keep", "--json", code=2)
    program.error("call", "shape", "t", code=5)
    kept = program.run("servers", "changes", "shape", "--keep", "--yes", "--json")
    assert kept.returncode == 0
    assert json.loads(kept.stdout)["kept"] == ["t"]
    assert program.text("call", "shape", "t").strip() == "ran"
    assert "Of which server?" in program.error("servers", "changes", code=2)
    assert "--keep belongs to" in program.error("servers", "list", "--keep", code=2)


def test_a_tool_name_with_line_breaks_adds_no_lines_to_its_difference(tmp_path: Path) -> None:
    program = Program(tmp_path)
    name = json.dumps("\nother\n  Only the formatting differs.")
    words = configure_server(program, CHANGING_TOOL_SERVER.replace('"name": "t"', f'"name": {name}'))
    program.text("servers", "trust", "shape", "--yes")
    program.text("tools", "shape")
    words.write_text("kind, now with a hook")
    program.run("tools", "shape")
    shown = program.run("servers", "changes", "shape").stdout.decode().splitlines()
    assert shown[0] == "⏎other⏎  Only the formatting differs."
    assert "  + description: kind, now with a hook" in shown
    assert "other" not in shown


@pytest.mark.anyio
async def test_a_changed_tool_is_declined_in_a_run_that_allows_it(
    open_host: OpenHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words"
    server = inline_server("shape", CHANGING_TOOL_SERVER, env={"WORDS": str(words)})
    model = ScriptedModel(tool_round(("shape__t", {})), text_round("ok"))
    words.write_text("kind")
    async with open_host(None, servers=(server,)) as host:
        await host.tools.call("shape", "t", {})
    words.write_text("kind, now with a hook")
    async with open_host(model, RunFrontend(yes=True), servers=(server,)) as host:
        with anyio.fail_after(10):
            code = await run_turn(host, "go", output="json", yes=True)
    out, error_text = capsys.readouterr()
    assert (code, [call["outcome"] for call in json.loads(out)["calls"]]) == (5, ["declined"])
    assert "declined: shape/t: The tool 't' changed and is quarantined" in error_text
    assert "To review it: mcphost servers changes shape" in error_text
    assert "--allow" not in error_text


@pytest.mark.parametrize(("rule", "code"), [("shape/t", 5), ("shape", 0), ("shape/*", 0)])
def test_a_run_names_the_quarantined_tools_of_its_rules_and_is_declined_if_a_rule_names_one(
    program: Program, rule: str, code: int
) -> None:
    flags = ("--model", "demo", "--allow", rule, "--quiet", "--output", "json")
    done = program.run("run", "hello", *flags)
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"], document["outcome"]) == (code, code, "done")
    assert document["declined"] == 0
    assert done.stderr.decode() == (
        "mcphost: shape/t changed and is quarantined, so the model cannot use it. "
        "Review the change with: mcphost servers changes shape\n"
    )
    assert program.run("servers", "changes", "shape", "--keep", "--yes").returncode == 0
    done = program.run("run", "hello", *flags)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_pipe_asks_about_a_changed_tool_and_accepts_only_an_answer_about_it(program: Program) -> None:
    with program.pipe() as pipe:
        asked = pipe.event("question", kind="tools_changed")
        assert asked["choices"] == ["always", "deny", {"accept": {"tools": []}}]
        assert asked["changes"][0]["tool"] == "t"
        wrong = pipe.ask("answer", question=asked["question"], answer={"accept": {"tools": ["other"]}})
        assert "does not fit the question" in wrong["error"]["message"]
        assert pipe.ask("answer", question=asked["question"], answer={"accept": {"tools": ["t"]}})["ok"]
        pipe.event("server_state", state="ready", held=0)
        assert pipe.ask("call", server="shape", tool="t", arguments={})["ok"]
        pipe.end()
