"""Tests for grants through `mcphost pipe` and the command line: created, counted, listed, searched and revoked."""

import json
from pathlib import Path

import pytest

from tests.flows.program import DEMO, PipeClient, Program

RULE = "demo/add?a=<10&b=<=40"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    made.configure(demo=DEMO)
    made.text("servers", "trust", "demo", "--yes")
    return made


def send_and_wait_for_question(pipe: PipeClient, text: str) -> tuple[int, str]:
    """Send a message and wait for the question about its tool call; return the ids of the command and the question."""
    before = sum(event["event"] == "question" for event in pipe.events)
    sent = pipe.send("send", text=text)
    pipe.wait(lambda event: sum(event["event"] == "question" for event in pipe.events) > before)
    return sent, [event for event in pipe.events if event["event"] == "question"][-1]["question"]


def test_a_rule_is_given_on_the_pipe_used_previewed_and_revoked(program: Program) -> None:
    with program.pipe("--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        sent, question = send_and_wait_for_question(pipe, "what is 2 + 40?")
        for wrong in (
            "demo/multiply",
            "other",
            "demo/add?",
            5,
            {"text": RULE, "scope": "world"},
            {"text": RULE, "seconds": -1},
        ):
            assert pipe.ask("answer", question=question, answer={"rule": wrong})["ok"] is False
        answer = {"rule": {"text": RULE, "scope": "project", "seconds": 3600}}
        assert pipe.ask("answer", question=question, answer=answer)["ok"] is True
        assert pipe.result(sent)["result"]["declined"] == 0
        assert pipe.event("tool_started")["by"] == "grant"

        assert pipe.result(pipe.send("send", text="what is 3 + 40?"))["result"]["declined"] == 0
        assert sum(event["event"] == "question" for event in pipe.events) == 1
        sent, question = send_and_wait_for_question(pipe, "what is 3 + 41?")
        pipe.ask("answer", question=question, answer="deny")
        assert pipe.result(sent)["result"]["declined"] == 1

        past = pipe.ask("preview", rule="demo/add?a=3")["result"]["calls"]
        assert [(item["tool"], item["arguments"], item["answer"]) for item in past] == [
            ("add", {"a": 3, "b": 41}, "yes"), ("add", {"a": 3, "b": 40}, "yes"), ("add", {"a": 2, "b": 40}, "no"),
        ]  # fmt: skip
        assert pipe.ask("preview", rule="demo/multiply")["result"]["calls"][0]["answer"] == "no"
        assert pipe.ask("preview", rule="nothing")["result"]["calls"] == []
        assert pipe.ask("preview", rule="demo/add?a")["ok"] is False

        (grant,) = pipe.ask("grants", server="demo")["result"]["grants"]
        assert (grant["rule"], grant["tools"], grant["state"], grant["scope"]) == (RULE, ["add"], "counts", "project")
        assert grant["place"] == str(program.work)
        assert pipe.ask("grants", text="zzz")["result"]["grants"] == []
        assert pipe.ask("revoke", grant="")["ok"] is False
        assert pipe.ask("revoke", grant=grant["id"])["result"] == {"revoked": grant["id"]}
        _, question = send_and_wait_for_question(pipe, "what is 2 + 40?")
        assert question


def test_session_grants_are_listed_and_revoked_on_the_pipe(program: Program) -> None:
    with program.pipe("--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        sent, question = send_and_wait_for_question(pipe, "what is 2 + 40?")
        pipe.ask("answer", question=question, answer="session")
        assert pipe.result(sent)["result"]["declined"] == 0
        pipe.result(pipe.send("send", text="what is 3 + 40?"))
        (grant,) = pipe.ask("grants", text="session")["result"]["grants"]
        assert (grant["rule"], grant["scope"], grant["state"], grant["uses"]) == ("demo/add", "session", "counts", 2)
        assert json.loads(program.text("grants", "--json")) == {"grants": [], "folders": []}
        assert pipe.ask("revoke", grant=grant["id"])["result"] == {"revoked": grant["id"]}
        assert pipe.ask("grants")["result"]["grants"] == []
        _, question = send_and_wait_for_question(pipe, "what is 4 + 40?")
        assert question


def test_a_rule_without_a_scope_counts_in_its_conversation_only(program: Program) -> None:
    with program.pipe("--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        sent, question = send_and_wait_for_question(pipe, "what is 2 + 40?")
        pipe.ask("answer", question=question, answer={"rule": "demo/add"})
        assert pipe.result(sent)["result"]["declined"] == 0
        assert pipe.result(pipe.send("send", text="what is 3 + 40?"))["result"]["declined"] == 0
        assert sum(event["event"] == "question" for event in pipe.events) == 1
        (grant,) = pipe.ask("grants", server="demo")["result"]["grants"]
        assert (grant["rule"], grant["scope"], grant["state"]) == ("demo/add", "conversation", "counts")
    with program.pipe("--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        _, question = send_and_wait_for_question(pipe, "what is 2 + 40?")
        assert question


def test_a_rule_that_does_not_cover_the_call_it_answers_declines_it(program: Program) -> None:
    with program.pipe("--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        sent, question = send_and_wait_for_question(pipe, "what is 2 + 40?")
        pipe.ask("answer", question=question, answer={"rule": "demo/add?a=3"})
        assert pipe.result(sent)["result"]["declined"] == 1
        assert pipe.ask("grants")["result"]["grants"] == []


def create_grant(program: Program) -> str:
    """Store a grant by answering "Always allow" in a separate run, and return its id."""
    with program.pipe("--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        sent, question = send_and_wait_for_question(pipe, "what is 2 + 40?")
        pipe.ask("answer", question=question, answer="always")
        pipe.result(sent)
        pipe.result(pipe.send("send", text="what is 3 + 40?"))
        pipe.end()
        assert pipe.process.wait(15) == 0
    return str(json.loads(program.text("grants", "--json"))["grants"][0]["id"])


def test_grants_are_listed_searched_and_revoked_on_the_command_line(program: Program) -> None:
    assert program.text("grants") == ""
    ident = create_grant(program)
    line = program.text("grants")
    assert line.split()[:3] == [ident, "demo/add", "everywhere"]
    assert "used 2 times, last 20" in line
    assert program.text("grants", "search", "ADD") == line
    assert program.text("grants", "list", "--server", "demo") == line
    assert program.text("grants", "search", "multiply") == program.text("grants", "--server", "x") == ""
    assert "no grant" in program.error("grants", "revoke", "zz", code=2)
    assert "Which one?" in program.error("grants", "revoke", code=2)
    assert "takes no text" in program.error("grants", "list", "x", code=2)
    assert "You will be asked again" in program.text("grants", "revoke", ident[:6])
    assert json.loads(program.text("grants", "--json")) == {"grants": [], "folders": []}
    assert program.run("run", "what is 2 + 40?", "--model", "demo", "--allow", "demo/no").returncode == 5


def test_without_a_screen_grants_and_rules_allow_and_the_never_list_forbids(program: Program) -> None:
    def run(*flags: str) -> int:
        return program.run("run", "what is 2 + 40?", "--model", "demo", *flags).returncode

    assert run("--allow", "demo/no") == 5
    assert run("--allow", RULE) == 0
    assert run("--allow", "demo/add?a=>2") == 5
    assert run("--allow", "demo/Add") == 5
    assert run("--allow", "demo/add?a=<1e400") == 2
    assert run("--yes") == 0
    create_grant(program)
    assert run() == 0
    (program.home / "config" / "config.toml").write_text('[consent]\nnever = ["demo/add?b=>=40"]\n')
    assert [run(), run("--allow", "demo"), run("--yes")] == [5, 5, 5]
    error_text = program.error("call", "demo", "add", "a=1", "b=50", code=5)
    assert "never allows this: demo/add?b=>=40" in error_text
    assert f"change [consent] never in {program.home}/config/config.toml" in error_text
    assert program.run("call", "demo", "add", "a=1", "b=2").returncode == 0
    (program.home / "config" / "config.toml").write_text('[consent]\nnever = ["demo/add?b="\n')
    assert run("--yes") == 3


def test_a_server_started_differently_is_not_covered_by_the_grant(program: Program) -> None:
    create_grant(program)
    program.configure(demo={**DEMO, "env": {"NEW": "1"}})
    assert "now started or reached in another way" in program.text("grants")
    program.text("servers", "trust", "demo", "--yes")
    assert program.run("run", "what is 2 + 40?", "--model", "demo", "--allow", "demo/no").returncode == 5
    program.configure()
    assert "not configured" in program.text("grants")
