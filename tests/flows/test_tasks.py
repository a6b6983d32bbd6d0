"""Tests for tasks on the command line and in `mcphost pipe`, with the MCP reference server, including questions."""

import time

import pytest

from tests.flows.program import PipeClient, Program
from tests.peers import node

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("npm_peers")]


def everything_config(program: Program) -> str:
    # It requests the folders at any time, and a call that starts after that waits for the user's answer.
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text("roots = []\n")
    command, *arguments = node.everything_command()
    return program.servers(everything={"command": command, "args": arguments})


def test_a_tool_that_runs_as_a_task_is_one_call_on_the_command_line(program: Program) -> None:
    out = program.text(
        "--mcp-config", everything_config(program), "call", "everything", "simulate-research-query", "topic=tea"
    )
    assert out.startswith("# Research Report: tea\n")


def call_tool_over_pipe(pipe: PipeClient, tool: str, **arguments: object) -> int:
    pipe.ask("connect", server="everything")
    return pipe.send("call", server="everything", tool=tool, arguments=arguments)


@pytest.mark.req("task.old.input-required")
def test_status_messages_of_a_task_are_progress_and_its_question_appears_on_the_pipe(program: Program) -> None:
    with program.pipe("--mcp-config", everything_config(program)) as pipe:
        call = call_tool_over_pipe(pipe, "simulate-research-query", topic="python", ambiguous=True)
        question = pipe.event("question", kind="fill_form")
        pipe.ask("answer", question=question["question"], answer={"accept": {"interpretation": "snake"}})
        called = pipe.result(call)
        assert called["result"]["text"].startswith("# Research Report: python (snake)\n")
        said = [event["message"] for event in pipe.events if event["event"] == "progress"]
        # The server announces its tools once more when it is ready: the call waits for the new list and reports that.
        assert said.index("Gathering sources...") <= 1
        assert "Generating report..." in said
        assert pipe.ask("quit")["ok"]


@pytest.mark.req("task.old.host")
def test_questions_of_a_server_are_run_as_tasks_here(program: Program) -> None:
    with program.pipe("--mcp-config", everything_config(program), "--model", "demo") as pipe:
        call = call_tool_over_pipe(pipe, "trigger-elicitation-request-async")
        question = pipe.event("question", kind="fill_form")
        pipe.ask("answer", question=question["question"], answer={"accept": {"name": "Ada"}})
        text = pipe.result(call)["result"]["text"]
        assert text.startswith("[COMPLETED]")
        assert "- Name: Ada" in text
        call = pipe.send(
            "call",
            server="everything",
            tool="trigger-sampling-request-async",
            arguments={"prompt": "tea", "maxTokens": 50},
        )
        for kind in ("review_sampling", "review_reply"):
            question = pipe.event("question", kind=kind)
            pipe.ask("answer", question=question["question"], answer="once")
        text = pipe.result(call)["result"]["text"]
        assert text.startswith("[COMPLETED]")
        assert '"model":' in text
        assert pipe.ask("quit")["ok"]


@pytest.mark.req("task.old.list-cancel")
def test_stopping_a_call_cancels_its_task_at_the_server(program: Program) -> None:
    """mcphost quits while a task runs; its log shows that the server was asked to cancel the task."""
    with program.pipe("--mcp-config", everything_config(program)) as pipe:
        call_tool_over_pipe(pipe, "simulate-research-query", topic="python")
        pipe.event("progress", message="Gathering sources...")
        started_at = time.monotonic()
        assert pipe.ask("quit")["ok"]
        pipe.end()
    assert time.monotonic() - started_at < 20
    log = "".join(path.read_text() for path in program.home.rglob("*.log"))
    about = [line for line in log.splitlines() if "simulate-research-query" in line and ": task " in line]
    assert about[-1].endswith("we cancel it")  # and no message about a failure
