"""Tests for the user's consent to share folders: asked for when needed, stored, and revoked, with real servers."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.schema import RootConfig, ServerConfig
from mcphost.host.questions.questions import ShareOnce, ShareRoots
from tests.fakes.frontend import ScriptedFrontend
from tests.flows.conftest import OpenHost
from tests.flows.program import PipeClient, Program

SERVER = str(Path(__file__).parent / "roots_server.py")


def roots_server_entry(*how: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SERVER, *how]}


def reported_folders(result: dict[str, Any]) -> Any:
    """Return the folders that the server reports in the result of its tool."""
    return json.loads(result["result"]["text"])


def question_events(pipe: PipeClient) -> list[dict[str, Any]]:
    return [event for event in pipe.events if event["event"] == "question"]


def test_an_answer_for_good_is_given_by_every_later_run_until_it_is_revoked(program: Program) -> None:
    servers, here = program.servers(files=roots_server_entry()), f"file://{program.work}"
    with program.pipe("--mcp-config", servers) as pipe:
        call = pipe.send("call", server="files", tool="ask")
        question = pipe.event("question", kind="share_roots")
        assert question["choices"] == ["once", "session", "always", "never", "deny"]
        pipe.ask("answer", question=question["question"], answer="always")
        assert reported_folders(pipe.result(call)) == [here]
        (kept,) = pipe.ask("grants")["result"]["folders"]
        assert (kept["server"], kept["folder"], kept["shared"]) == ("files", str(program.work), True)
        assert pipe.ask("roots")["result"]["servers"][0]["for_good"] is True
        pipe.end()
    with program.pipe("--mcp-config", servers) as pipe:
        assert reported_folders(pipe.ask("call", server="files", tool="ask")) == [here]
        assert question_events(pipe) == []
        pipe.end()
    listed = program.text("--mcp-config", servers, "grants")
    assert f"files may know {program.work}" in listed
    assert json.loads(program.text("--mcp-config", servers, "grants", "--json"))["folders"][0]["id"] == kept["id"]
    assert "Revoked: files may know" in program.text("grants", "revoke", kept["id"])
    rows = json.loads(program.text("audit", "--json", "--kind", "roots"))["rows"]
    assert {"kept", "told", "revoked"} <= {row["event"] for row in rows}
    with program.pipe("--mcp-config", servers) as pipe:
        call = pipe.send("call", server="files", tool="ask")
        question = pipe.event("question", kind="share_roots")
        pipe.ask("answer", question=question["question"], answer="never")
        assert reported_folders(pipe.result(call)) == []
        assert reported_folders(pipe.ask("call", server="files", tool="ask")) == []
        assert len(question_events(pipe)) == 1
        pipe.end()


def test_no_server_is_asked_about_before_use_and_waiting_ones_are_one_list(program: Program) -> None:
    here = f"file://{program.work}"
    servers = program.servers(
        one=roots_server_entry("start"), two=roots_server_entry("start"), three=roots_server_entry()
    )
    with program.pipe("--mcp-config", servers) as pipe:
        for name in ("one", "two", "three"):
            pipe.ask("connect", server=name)
        assert reported_folders(pipe.ask("call", server="three", tool="where")) is None
        assert question_events(pipe) == []
        call = pipe.send("call", server="one", tool="where")
        question = pipe.event("question", kind="share_roots")
        assert question["why"] == "it asked for them, and its tool where is about to run"
        assert [(asker["server"], [root["uri"] for root in asker["roots"]]) for asker in question["askers"]] == [
            ("one", [here]), ("two", [here]),
        ]  # fmt: skip
        assert question["choices"] == ["deny", {"accept": {"servers": {"one": "deny", "two": "deny"}}}]
        for wrong in ("once", {"accept": {"servers": {"one": "ever"}}}, {"accept": {"servers": {"three": "once"}}}):
            assert not pipe.ask("answer", question=question["question"], answer=wrong)["ok"]
        chosen = {"accept": {"servers": {"one": "always", "two": "session"}}}
        assert pipe.ask("answer", question=question["question"], answer=chosen)["ok"]
        assert reported_folders(pipe.result(call)) == [here], "it knows them before the call reaches it"
        assert reported_folders(pipe.ask("call", server="two", tool="where")) == [here]
        assert len(question_events(pipe)) == 1
        pipe.end()
    rows = json.loads(program.text("audit", "--json", "--kind", "roots"))["rows"]
    assert {(row["server"], row["decision"]) for row in rows if row["event"] == "decided"} >= {
        ("one", "always"), ("two", "session"),
    }  # fmt: skip
    with program.pipe("--mcp-config", servers) as pipe:
        assert reported_folders(pipe.ask("call", server="one", tool="where")) == [here], "for good"
        assert question_events(pipe) == []
        call = pipe.send("call", server="two", tool="where")
        question = pipe.event("question", kind="share_roots")
        assert (question["server"], question["askers"]) == ("two", [])
        pipe.ask("answer", question=question["question"], answer="deny")
        assert "does not share" in reported_folders(pipe.result(call))
        pipe.end()


def test_a_cancelled_request_is_repeated_before_the_first_call(program: Program) -> None:
    servers = program.servers(one=roots_server_entry("start", "withdraw", "list"))
    with program.pipe("--mcp-config", servers) as pipe:
        pipe.ask("connect", server="one")
        pipe.event("log", server="one", text="taken back")
        call = pipe.send("call", server="one", tool="where")
        question = pipe.event("question", kind="share_roots")
        pipe.ask("answer", question=question["question"], answer="once")
        assert reported_folders(pipe.result(call)) == [f"file://{program.work}"]
        assert len(question_events(pipe)) == 1
        pipe.end()


def test_a_server_that_answers_only_after_its_roots_request_starts_without_a_question(program: Program) -> None:
    servers = program.servers(one=roots_server_entry("start", "stubborn", "list"))
    with program.pipe("--mcp-config", servers) as pipe:
        assert pipe.ask("connect", server="one")["ok"]
        assert question_events(pipe) == []
        call = pipe.send("call", server="one", tool="where")
        question = pipe.event("question", kind="share_roots")
        pipe.ask("answer", question=question["question"], answer="session")
        assert reported_folders(pipe.result(call)) == [f"file://{program.work}"]
        pipe.end()


def test_a_restarted_server_gets_the_shared_folders_and_a_waiting_one_does_not_block_exit(
    program: Program,
) -> None:
    servers = program.servers(one=roots_server_entry("start"), two=roots_server_entry("start"))
    with program.pipe("--mcp-config", servers) as pipe:
        call = pipe.send("call", server="one", tool="where")
        question = pipe.event("question", kind="share_roots")
        accepted = {"accept": {"servers": {"one": "session"}}} if question["askers"] else "session"
        pipe.ask("answer", question=question["question"], answer=accepted)
        pipe.result(call)
        assert not pipe.ask("call", server="one", tool="die")["ok"]
        assert reported_folders(pipe.ask("call", server="one", tool="where")) == [f"file://{program.work}"]
        pipe.end()


def test_a_noninteractive_run_shares_only_permanently_shared_folders(program: Program) -> None:
    (program.work / "here").mkdir()
    servers, here = program.servers(one=roots_server_entry("start")), f"file://{program.work}"
    assert folders_of_one_command(program, servers) is None, "without an answer on record nothing is declared"
    with program.pipe("--mcp-config", servers) as pipe:
        call = pipe.send("call", server="one", tool="ask")
        question = pipe.event("question", kind="share_roots")
        pipe.ask("answer", question=question["question"], answer="always")
        assert reported_folders(pipe.result(call)) == [here]
        pipe.ask("roots", add="here", keep="user")
        pipe.end()
    assert folders_of_one_command(program, servers) == [here]


def folders_of_one_command(program: Program, servers: str) -> Any:
    """Return the folders that the server is given during a single `mcphost call`, or None if none are shared."""
    done = json.loads(program.text("--mcp-config", servers, "call", "one", "where", "--json"))
    found = json.loads(done["text"])
    return None if isinstance(found, str) else found


def test_a_flood_of_questions_about_folders_asks_once_and_writes_few_rows(program: Program) -> None:
    servers = program.servers(one=roots_server_entry())
    with program.pipe("--mcp-config", servers) as pipe:
        call = pipe.send("call", server="one", tool="flood")
        question = pipe.event("question", kind="share_roots")
        pipe.ask("answer", question=question["question"], answer="deny")
        assert reported_folders(pipe.result(call)) == {"refused": 200, "told": 0}
        assert len(question_events(pipe)) == 1
        pipe.end()
    assert len(json.loads(program.text("audit", "--json", "--kind", "roots"))["rows"]) <= 3


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["removed", "stopped"])
async def test_a_server_that_ended_while_it_waited_for_folders_is_in_no_later_question(
    open_host: OpenHost, tmp_path: Path, how: str
) -> None:
    one, two = (
        ServerConfig(name=name, command=sys.executable, args=(SERVER, *arguments), source="flag")
        for name, arguments in (("one", ("start",)), ("two", ()))
    )
    frontend = ScriptedFrontend(ShareOnce())
    roots = (RootConfig(str(tmp_path)),)
    async with open_host(frontend=frontend, servers=(one, two), roots=roots) as host:
        await host.servers.ensure_ready("one")
        waiting = host.servers.find("one").request_handler.root_sharing
        with anyio.fail_after(20):
            while not waiting.held_count:
                await anyio.lowlevel.checkpoint()
            if how == "removed":
                host.servers.remove("one")
            else:
                host.servers.stop("one")
            while waiting.held_count:
                await anyio.lowlevel.checkpoint()
            await host.tools.call("two", "ask", {})
    (question,) = frontend.asked
    assert isinstance(question, ShareRoots)
    assert (question.server, question.askers) == ("two", ())
