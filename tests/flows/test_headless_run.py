"""Tests for `mcphost run` with the demo model: consent without a screen, output and exit codes."""

import json
import signal
import subprocess

import pytest

from tests.flows.program import DEMO, Program
from tests.flows.typed_answers import answer_prompts
from tests.packaging.openai_stub import run_openai_stub

SUM = "what is 2 + 40?"


def test_rule_lets_the_tool_run_and_the_answer_is_printed(program: Program) -> None:
    file = program.servers(demo=DEMO)
    done = program.run("run", SUM, "--model", "demo", "--allow", "demo/add", "--mcp-config", file)
    assert done.returncode == 0
    assert b"42" in done.stdout
    assert b"demo/add" in done.stderr
    assert program.run("run", "-", "--model", "demo", "--yes", "--quiet", "--mcp-config", file, stdin=SUM).stderr == b""


@pytest.mark.req("sec.consent.tools")
def test_without_a_rule_for_it_the_tool_does_not_run_and_the_exit_is_5(program: Program) -> None:
    file = program.servers(demo=DEMO)
    flags = ("--mcp-config", file, "--allow", "demo/add", "--output", "json")
    done = program.run("run", "note: milk", "--model", "demo", *flags)
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 5
    assert [call["outcome"] for call in document["calls"]] == ["declined"]
    assert b"--allow demo/add_note" in done.stderr
    assert "This call was not allowed; the tool did not run." in document["text"]
    assert "The user declined" not in document["text"]


def test_a_server_of_which_no_rule_allows_a_call_is_neither_started_nor_waited_for(program: Program) -> None:
    mark = program.home / "it-ran"
    slow = {"command": "touch", "args": [str(mark)]}
    file = program.servers(demo=DEMO, slow=slow)
    done = program.run("run", SUM, "--model", "demo", "--allow", "demo/add", "--mcp-config", file)
    assert (done.returncode, b"42" in done.stdout) == (0, True)
    assert b"not started" not in done.stderr
    assert not mark.exists()


def test_a_run_without_any_rule_tells_a_program_too_which_option_gives_tools(program: Program) -> None:
    file = program.servers(demo=DEMO)
    done = program.run("run", "hi", "--model", "demo", "--mcp-config", file)
    assert done.returncode == 0
    assert done.stderr.count(b"--allow demo") == 1


@pytest.mark.parametrize(("names", "use"), [(("slow",), "it"), (("slow", "more"), "one of them")])
def test_a_person_is_told_which_servers_no_rule_allows(program: Program, names: tuple[str, ...], use: str) -> None:
    file = program.servers(demo=DEMO, **{name: {"command": "false"} for name in names})
    flags = ("--model", "demo", "--allow", "demo/add", "--mcp-config", file)
    code, shown = answer_prompts(program, [], "run", SUM, *flags)
    quoted = ", ".join(map(repr, names))
    assert code == 0, shown
    assert f"not started, since no rule allows a call: {quoted}. To use {use}: --allow slow" in " ".join(shown.split())


def test_a_run_waits_for_a_server_that_its_rules_allow_and_reports_it(program: Program) -> None:
    gate = program.home / "gate"
    held = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    server = {**DEMO, "args": ["-c", f"{held}import mcphost.demo.server as s; s.main()"]}
    file = program.servers(demo=server)
    command = ("run", SUM, "--model", "demo", "--allow", "demo", "--mcp-config", file)
    with program.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stderr.readline() == b"mcphost: waiting for 'demo' to start\n"
        gate.touch()
        assert b"42" in process.stdout.read()
        assert process.wait(20) == 0


@pytest.mark.parametrize("flag", ["--allow", "--pass-results"])
def test_a_rule_for_an_unknown_server_ends_the_run_and_one_for_an_unknown_tool_is_pointed_out(
    program: Program, flag: str
) -> None:
    flags = ("--model", "demo", "--mcp-config", program.servers(demo=DEMO))
    told = program.error("run", SUM, *flags, "--allow", "demo", flag, "nosuch/add", code=2)
    assert "There is no server named 'nosuch'. Configured servers: demo." in told
    done = program.run("run", SUM, *flags, "--quiet", "--allow", "demo", flag, "demo/ad", flag, "demo/a*")
    assert (done.returncode, b"42" in done.stdout) == (0, True)
    assert done.stderr.decode() == f"mcphost: {flag} demo/ad: the server has no such tool\n"


def test_a_tool_that_failed_is_pointed_out_and_does_not_change_the_exit_code(program: Program) -> None:
    flags = ("--model", "demo", "--mcp-config", program.servers(demo=DEMO), "--allow", "demo")
    done = program.run("run", "call add a=x b=1", *flags)
    assert done.returncode == 0
    assert b"mcphost: failed: demo/add: " in done.stderr


def test_rule_for_another_tool_does_not_help(program: Program) -> None:
    file = program.servers(demo=DEMO)
    assert program.run("run", SUM, "--model", "demo", "--allow", "demo/mul*", "--mcp-config", file).returncode == 5


@pytest.mark.req("sec.consent.tools")
def test_a_result_that_must_be_read_is_withheld_unless_a_rule_passes_it(program: Program) -> None:
    file = program.servers(demo={**DEMO, "mcphost": {"reviewResults": True}})
    said = ("run", SUM, "--model", "demo", "--yes", "--mcp-config", file)
    done = program.run(*said)
    assert (done.returncode, b"42" in done.stdout) == (5, False)
    assert b"withheld from the model: the result of demo/add" in done.stderr
    assert b"--pass-results demo/add" in done.stderr
    passed = program.run(*said, "--pass-results", "demo/add?a=2")
    assert (passed.returncode, b"42" in passed.stdout) == (0, True)


def test_a_run_whose_rounds_are_used_up_exits_7_because_its_answer_is_not_complete(program: Program) -> None:
    limited = ("run", SUM, "--model", "demo", "--yes", "--mcp-config", program.servers(demo=DEMO), "--max-rounds", "1")
    done = program.run(*limited)
    assert (done.returncode, done.stdout) == (7, b"")
    assert b"reached the limit of tool call rounds. Allow more with --max-rounds" in done.stderr
    document = json.loads(program.run(*limited, "--output", "json").stdout)
    assert (document["exit_code"], document["outcome"], document["calls"][0]["text"]) == (7, "rounds", "2 + 40 = 42")
    assert document["error"] == "The model reached the limit of tool call rounds."
    assert document["hint"] == "Allow more with --max-rounds."
    assert program.run(*limited[:-1], "2").returncode == 0


def test_json_is_one_document(program: Program) -> None:
    file = program.servers(demo=DEMO)
    document = json.loads(
        program.text("run", SUM, "--model", "demo", "--yes", "--output", "json", "--mcp-config", file)
    )
    assert document["outcome"] == "done"
    assert document["model"] == "demo"
    call = document["calls"][0]
    assert (call["server"], call["tool"], call["arguments"]) == ("demo", "add", {"a": 2, "b": 40})
    assert call["text"] == "2 + 40 = 42"


def test_events_are_one_per_line_and_end_with_finished(program: Program) -> None:
    file = program.servers(demo=DEMO)
    out = program.text("run", SUM, "--model", "demo", "--yes", "--output", "events", "--mcp-config", file)
    events = [json.loads(line) for line in out.splitlines()]
    kinds = [event["event"] for event in events]
    turn = ["turn_started", "round_started", "tool_proposed", "tool_started", "tool_finished", "turn_finished"]
    order = [*turn, "finished"]
    assert [kind for kind in dict.fromkeys(kinds) if kind in order] == order
    assert events[-1]["exit_code"] == 0
    assert "".join(event["text"] for event in events if event["event"] == "text_delta").endswith(events[-1]["text"])


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["run", "hi"], 3, "No model is chosen"),
        (["run", " ", "--model", "demo"], 2, "empty"),
        (["run", "-", "--model", "demo"], 2, "no prompt"),
        (["run"], 2, "PROMPT"),
        (["run", "hi", "--model", "demo", "--allow", "*"], 2, "rule"),
        (["run", "hi", "--model", "openai/x"], 7, "OPENAI_API_KEY"),
    ],
)
def test_an_impossible_run_reports_why(program: Program, arguments: list[str], code: int, text: str) -> None:
    assert text in program.error(*arguments, code=code)
    if arguments != ["run"]:
        done = program.run(*arguments, "--output", "events")
        assert json.loads(done.stdout.splitlines()[-1])["exit_code"] == code


def test_advice_to_change_the_configuration_names_the_file_that_was_read(program: Program) -> None:
    for more in ((), ("--config-dir", str(program.home / "other"))):
        place = f"{more[-1] if more else program.home / 'config'}/config.toml"
        assert f"set [model] name in {place}" in program.error("run", "hi", *more, code=3)
        assert f"Set [model] name in {place}" in program.run("doctor", *more).stdout.decode()


@pytest.mark.parametrize("more", [(), ("--quiet",)])
def test_a_run_without_a_model_says_first_that_the_settings_cannot_be_read(
    program: Program, more: tuple[str, ...]
) -> None:
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text('[model\nname = "demo"\n')
    told = program.error("run", "hi", *more, code=3)
    assert "config.toml: not valid TOML" in told
    assert "line 1" in told
    assert "No model is chosen" not in told


@pytest.mark.parametrize(("name", "text"), [("mcp.json", "{"), ("local.json", "{"), ("config.toml", "[model\n")])
def test_a_run_with_a_configuration_file_that_cannot_be_read_ends_before_the_model_is_asked(
    program: Program, name: str, text: str
) -> None:
    (program.home / "config").mkdir()
    (program.home / "config" / name).write_text(text)
    done = program.run("run", SUM, "--model", "demo", "--output", "json")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 3
    assert name in document["error"]
    assert (document["text"], done.stderr.decode().count("not valid")) == ("", 1)


def test_interrupted_run_ends_its_events_with_130(program: Program) -> None:
    command = ("run", "count slowly to 900", "--model", "demo", "--yes", "--output", "events")
    file = program.servers(demo=DEMO)
    with program.start(*command, "--mcp-config", file, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        while b"tool_started" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert (last["event"], last["exit_code"]) == ("finished", 130)
        assert process.wait(10) == 130
        assert process.stderr
        said = process.stderr.read().splitlines()
        assert [line for line in said if not line.startswith(b"mcphost: waiting for")] == []  # a busy machine is slow


def test_an_unapproved_server_exits_5_with_the_fix_and_nothing_of_it_runs(program: Program) -> None:
    mark = program.home / "it-ran"
    program.configure(mine={"command": "touch", "args": [str(mark)]})
    for more in ([], ["--yes"], ["--allow", "mine"]):
        error_text = program.error("run", "hi", "--model", "demo", *more, code=5)
        assert "mcphost servers trust mine" in error_text
    assert "mcphost servers trust mine" in program.error("call", "mine", "x", code=5)
    assert not mark.exists()
    program.text("servers", "disable", "mine")
    program.text("run", "hi", "--model", "demo")


def test_approved_server_is_used_until_it_changes(program: Program) -> None:
    program.configure(demo=DEMO)
    assert "argument 2: mcphost.demo.server" in program.text("servers", "trust", "demo", "--yes")
    assert "42" in program.text("run", SUM, "--model", "demo", "--yes")
    assert program.text("call", "demo", "add", "a=1", "b=2") == "1 + 2 = 3\n"
    program.configure(demo={**DEMO, "args": ["-P", *DEMO["args"]]})
    assert "servers trust demo" in program.error("call", "demo", "add", "a=1", "b=2", code=5)


def test_a_run_continues_with_the_conversation_that_is_named(program: Program) -> None:
    flags = ("--model", "demo", "--mcp-config", program.servers(), "--output", "json")
    first = json.loads(program.text("run", "hello", *flags))["conversation"]
    assert json.loads(program.text("run", "again", *flags))["conversation"] != first
    for arguments in (("--resume", first[:8], "run", "more"), ("run", "still more", "--resume", first)):
        assert json.loads(program.text(*arguments, *flags))["conversation"] == first
    document = json.loads(program.text("sessions", "show", first, "--json"))
    said = [message["parts"][-1]["text"] for message in document["messages"] if message["role"] == "user"]
    assert said == ["hello", "more", "still more"]
    assert "no conversation 'zz'" in program.error("run", "hi", "--model", "demo", "--resume", "zz", code=2)
    assert "--resume belongs to" in program.error("--resume", first, "tools", code=2)


def test_a_conversation_that_is_continued_with_another_model_says_so_once(program: Program) -> None:
    flags = ("--mcp-config", program.servers())
    first = json.loads(program.text("run", "hello", "--model", "demo", "--output", "json", *flags))["conversation"]
    same = program.run("run", "more", "--resume", first, "--model", "demo", *flags)
    assert b"This conversation used" not in same.stderr
    with run_openai_stub("", {}) as stub:
        other = ("--model", "openai/x", "--api-base", stub.api_base, "--api-key-env", "K")
        done = program.run("run", "more", "--resume", first, *other, *flags, seconds=100, K="sk-test")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b"This conversation used demo; openai/x is selected.") == 1
    assert b"To switch: /model demo in the chat, or --model demo." in done.stderr


def test_conversation_is_saved_listed_and_shown(program: Program) -> None:
    file = program.servers(demo=DEMO)
    assert program.text("sessions") == ""
    output = json.loads(program.text("run", SUM, "--model", "demo", "--yes", "--output", "json", "--mcp-config", file))
    listed = json.loads(program.text("sessions", "list", "--json"))["sessions"]
    assert [row["id"] for row in listed] == [output["conversation"]]
    assert SUM in program.text("sessions")
    shown = program.text("sessions", "show", output["conversation"][:5])
    assert "[user]\n" + SUM in shown
    assert "2 + 40 = 42" in shown
    document = json.loads(program.text("sessions", "show", output["conversation"], "--json"))
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert "no conversation" in program.error("sessions", "show", "zzz", code=2)
