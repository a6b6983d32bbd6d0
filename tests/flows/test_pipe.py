"""Tests for `mcphost pipe`, the interface for other programs, with real servers and the demo model."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import DEMO, Program, error_of, faulty_server


def test_commands_of_a_server(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(demo=DEMO)) as pipe:
        ready = pipe.ask("connect", server="demo")["result"]
        assert (ready["state"], ready["tools"], ready["era"]) == ("ready", 10, "stateless")
        assert pipe.event("server_state", state="ready")["server"] == "demo"
        for kind, count in (("tools", 10), ("resources", 2), ("templates", 0), ("prompts", 1)):
            assert len(pipe.ask("list", server="demo", kind=kind)["result"][kind]) == count
        called = pipe.ask("call", server="demo", tool="add", arguments={"a": 2, "b": 40})
        assert (called["ok"], called["exit"], called["result"]["text"]) == (True, 0, "2 + 40 = 42")
        failed = pipe.ask("call", server="demo", tool="add", arguments={"a": 2})
        assert (failed["ok"], failed["exit"], failed["result"]["isError"]) == (True, 8, True)
        read = pipe.ask("read", server="demo", uri="demo://notes")["result"]
        assert read["contents"][0]["text"] == "There are no notes."
        filled = pipe.ask("prompt", server="demo", name="plan", arguments={"topic": "tea"})["result"]
        assert "tea" in filled["messages"][0]["content"]["text"]
        assert pipe.ask("stop")["result"] == {"stopped": False}
        quit_result = pipe.ask("quit")
        assert quit_result["ok"]
        pipe.end()


def test_a_program_disables_a_tool_and_the_listing_shows_it(program: Program) -> None:
    file = program.servers(demo={**DEMO, "disabledTools": ["clear_*"]})

    def off() -> list[str]:
        return [tool["name"] for tool in pipe.ask("list", server="demo")["result"]["tools"] if tool.get("off")]

    with program.pipe("--mcp-config", file, "--model", "demo") as pipe:
        assert off() == ["clear_notes"]
        assert pipe.ask("switch", server="demo", tool="add", on=False)["result"]["on"] is False
        assert pipe.event("tool_switched")["tool"] == "add"
        assert sorted(off()) == ["add", "clear_notes"]
        for wrong in ({"tool": "add"}, {"tool": "none", "on": False}, {"tool": "clear_notes", "on": True}):
            assert error_of(pipe.ask("switch", server="demo", **wrong)) == ("usage", 2)
    shown = program.text("tools", "--mcp-config", file).splitlines()
    assert [line.split()[1] for line in shown if line.split()[2] == "off"] == ["add", "clear_notes"]
    listed = json.loads(program.text("tools", "--json", "--mcp-config", file))["tools"]
    assert [item["name"] for item in listed if item.get("off")] == ["add", "clear_notes"]


def test_a_program_reads_a_result_before_the_model_does(program: Program) -> None:
    file = program.servers(demo={**DEMO, "mcphost": {"reviewResults": True}})
    with program.pipe("--mcp-config", file, "--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        turn = pipe.send("send", text="what is 2 + 40?")
        approve = pipe.event("question", kind="approve_tool")
        pipe.ask("answer", question=approve["question"], answer="once")
        review = pipe.event("question", kind="review_result")
        assert (review["tool"], review["parts"][0]["text"]) == ("add", "2 + 40 = 42")
        texts = ["2 + 40 = 41", *[None for _ in review["parts"][1:]]]
        wrong = pipe.ask("answer", question=review["question"], answer={"accept": {"texts": [*texts, "more"]}})
        assert error_of(wrong) == ("usage", 2)
        pipe.ask("answer", question=review["question"], answer={"accept": {"texts": texts}})
        assert pipe.event("result_reviewed")["outcome"] == "changed"
        said = pipe.result(turn)["result"]["text"]
        assert "41" in said
        assert "42" not in said


def test_commands_run_side_by_side_and_events_come_between(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        slow = pipe.send("call", server="demo", tool="count_slowly", arguments={"to": 3, "seconds": 1.5})
        pipe.event("tool_started", tool="count_slowly")
        quick = pipe.send("call", server="demo", tool="add", arguments={"a": 1, "b": 1})
        pipe.result(slow)
        order = [event.get("id") for event in pipe.events if event["event"] == "result"]
        assert order.index(quick) < order.index(slow)
        progress = [event for event in pipe.events if event["event"] == "progress"]
        assert [event["progress"] for event in progress] == [1, 2, 3]
        kinds = [event["event"] for event in pipe.events]
        last = max(at for at, event in enumerate(pipe.events) if event.get("tool") == "count_slowly")
        assert kinds[last:] == ["tool_finished", "result"]


def test_a_call_continues_in_the_background_and_its_result_is_reported(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(demo=DEMO), "--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        turn = pipe.send("send", text="count slowly to 3")
        approve = pipe.event("question", kind="approve_tool")
        pipe.ask("answer", question=approve["question"], answer="once")
        call = pipe.event("tool_started", tool="count_slowly")["call"]
        assert pipe.ask("background", call=call)["ok"]
        assert pipe.event("tool_backgrounded")["call"] == call
        assert pipe.result(turn)["ok"]
        assert pipe.event("background_ended") == {
            "event": "background_ended", "call": call, "server": "demo", "tool": "count_slowly", "outcome": "ok",
            "in_open_conversation": True,
        }  # fmt: skip
        added = pipe.event("background_result")["message"]
        assert added["role"] == "user"
        assert added["parts"][0]["use_id"] == call
        assert error_of(pipe.ask("background", call=call)) == ("usage", 2)
        assert error_of(pipe.ask("background")) == ("usage", 2)


def test_the_messages_of_a_prompt_are_inserted_and_reported(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(demo=DEMO), "--model", "demo") as pipe:
        filled = {"server": "demo", "name": "plan", "arguments": {"topic": "tea"}}
        assert error_of(pipe.ask("prompt", **filled, insert="yes")) == ("usage", 2)
        assert pipe.ask("prompt", **filled)["ok"]
        assert not [event for event in pipe.events if event["event"] == "messages_inserted"]
        assert pipe.ask("prompt", **filled, insert=True)["ok"]
        (message,) = pipe.event("messages_inserted")["messages"]
        assert "tea" in message["parts"][0]["text"]


@pytest.mark.parametrize(
    ("command", "kind", "code"),
    [
        ({"do": "connect", "server": "none"}, "usage", 2),
        ({"do": "connect"}, "usage", 2),
        ({"do": "connect", "server": "gone"}, "cannot_start", 4),
        ({"do": "list", "server": "demo", "kind": "x"}, "usage", 2),
        ({"do": "call", "server": "demo", "tool": "none"}, "usage", 2),
        ({"do": "call", "server": "demo", "tool": "add", "arguments": []}, "usage", 2),
        ({"do": "read", "server": "demo", "uri": "demo://no"}, "refused", 4),
        ({"do": "prompt", "server": "demo", "name": "plan", "arguments": {"topic": 5}}, "usage", 2),
        ({"do": "send", "text": "hi"}, "config", 3),
        ({"do": "answer", "question": "q9", "answer": "once"}, "usage", 2),
        ({"do": "wait", "seconds": -1}, "usage", 2),
        ({"do": "login", "server": "demo"}, "usage", 2),
        ({"do": "subscribe", "server": "demo"}, "usage", 2),
        ({"do": "subscribe", "server": "demo", "uri": "demo://notes"}, "not_offered", 4),
        ({"do": "log_level", "server": "demo", "level": "loud"}, "usage", 2),
        ({"do": "log_level", "server": "demo"}, "usage", 2),
        ({"do": "read", "server": "demo", "template": "x://{a", "values": {}}, "usage", 2),
        ({"do": "read", "server": "demo", "template": "x://{a}", "values": {"a": 5}}, "usage", 2),
        ({"do": "complete", "server": "demo"}, "usage", 2),
        ({"do": "complete", "server": "demo", "prompt": "plan", "argument": "topic"}, "not_offered", 4),
        ({"do": "complete", "server": "demo", "prompt": "plan", "argument": "topic", "value": 5}, "usage", 2),
    ],
)
def test_an_impossible_command_returns_a_result_with_kind_and_exit(
    program: Program, command: dict[str, Any], kind: str, code: int
) -> None:
    with program.pipe("--mcp-config", program.servers(demo=DEMO, gone={"command": "no-such-program"})) as pipe:
        do = command.pop("do")
        assert error_of(pipe.ask(do, **command)) == (kind, code)
        assert pipe.ask("send", text="")["error"]["message"] == '"text" is empty.'
        assert pipe.ask("call", server="demo", tool="add", arguments={"a": 1, "b": 1})["ok"]


@pytest.mark.parametrize(
    "line",
    [b"nonsense", b"[]", b"{}", b'{"id": 1}', b'{"id": "x", "do": "dance"}', b'{"id": [], "do": "stop"}', b"\xff\xfe",
     b'{"id": 1, "do": 5}', b"[" * 100_000, b'{"do": "list", "do": "stop"}',
     b'{"do": "call", "arguments": {"path": "/a", "path": "/b"}}'],
)  # fmt: skip
def test_bad_line_is_an_error_event_and_the_pipe_continues(program: Program, line: bytes) -> None:
    with program.pipe() as pipe:
        pipe.write(line + b"\n\n")
        assert pipe.event("error")["message"]
        assert pipe.ask("stop")["ok"]
        pipe.end()
        assert len([event for event in pipe.events if event["event"] == "error"]) == 1


def test_an_unknown_command_with_an_id_has_a_result_too(program: Program) -> None:
    with program.pipe() as pipe:
        assert error_of(pipe.ask("dance")) == ("usage", 2)
        assert "There is no command 'dance'" in pipe.event("error")["message"]


def test_line_over_the_limit_is_an_error_event_and_the_pipe_continues(program: Program) -> None:
    with program.pipe() as pipe:
        pipe.write(b'{"id": 1, "do": "' + b"x" * 17_000_000 + b'"}\n')
        assert "16 MB" in pipe.event("error")["message"]
        assert pipe.ask("stop")["ok"]


def test_call_of_the_model_asks_and_runs_once_it_is_answered(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="what is 2 + 40?")
        question = pipe.event("question")
        assert (question["kind"], question["server"], question["tool"]) == ("approve_tool", "demo", "add")
        assert question["arguments"] == {"a": 2, "b": 40}
        wrong = pipe.ask("answer", question=question["question"], answer="perhaps")
        assert error_of(wrong) == ("usage", 2)
        assert pipe.event("error")["question"] == question["question"]
        refused = pipe.ask("answer", question=question["question"], answer={"accept": {"a": "three", "b": 40}})
        assert error_of(refused) == ("usage", 2)
        assert '/a: "three" is not of type' in refused["error"]["message"]
        assert pipe.ask("answer", question=question["question"], answer={"accept": {"a": 3, "b": 40}})["ok"]
        result = pipe.result(sent)
        assert result["ok"]
        assert "43" in result["result"]["text"]
        assert "".join(event["text"] for event in pipe.events if event["event"] == "text_delta")


def test_message_sent_at_once_finds_the_tools_it_was_started_with(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        sent = pipe.send("send", text="what is 2 + 40?")
        pipe.ask("answer", question=pipe.event("question")["question"], answer="once")
        assert "42" in pipe.result(sent)["result"]["text"]


def test_refused_call_never_runs_and_the_reason_reaches_the_model(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="note: milk")
        question = pipe.event("question")["question"]
        pipe.ask("answer", question=question, answer={"deny": "not today"})
        result = pipe.result(sent)
        assert (result["exit"], result["result"]["declined"]) == (5, 1)
        assert "not today" in result["result"]["text"]
        assert not [event for event in pipe.events if event["event"] == "tool_started"]
        notes = pipe.ask("call", server="demo", tool="list_notes")["result"]["text"]
        assert notes == "There are no notes."


def test_a_line_with_two_answers_answers_nothing(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="what is 2 + 40?")
        name = pipe.event("question")["question"]
        pipe.write(
            json.dumps({"do": "answer", "question": name, "answer": "deny"})[:-1].encode() + b', "answer": "once"}\n'
        )
        assert pipe.event("error")["message"] == "The line is not valid: it has the key 'answer' twice in one object."
        assert pipe.ask("answer", question=name, answer="deny")["ok"]
        assert pipe.result(sent)["result"]["declined"] == 1
        assert not [event for event in pipe.events if event["event"] == "tool_started"]


def test_session_answer_covers_later_calls(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="what is 2 + 40?")
        pipe.ask("answer", question=pipe.event("question")["question"], answer="session")
        assert pipe.result(sent)["ok"]
        assert pipe.ask("send", text="what is 1 + 1?")["result"]["declined"] == 0
        assert len([event for event in pipe.events if event["event"] == "question"]) == 1


def test_stop_ends_a_turn_and_withdraws_its_question(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="what is 2 + 40?")
        question = pipe.event("question")["question"]
        assert pipe.ask("stop")["result"] == {"stopped": True}
        assert pipe.event("question_withdrawn")["question"] == question
        assert pipe.result(sent)["result"]["outcome"] == "stopped"


def test_stop_cancels_a_message_that_still_waits_for_servers_and_no_model_is_asked(program: Program) -> None:
    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
    with program.pipe("--model", "demo", "--mcp-config", program.servers(silent=silent)) as pipe:
        sent = pipe.send("send", text="hello")
        assert pipe.ask("stop")["result"] == {"stopped": True}
        result = pipe.result(sent)["result"]
        assert (result["outcome"], result["text"], result["declined"]) == ("stopped", "", 0)
        assert pipe.ask("stop")["result"] == {"stopped": False}
        assert [event for event in pipe.events if event["event"] == "round_started"] == []


@pytest.mark.parametrize("opens", [False, True])
def test_a_url_is_reported_and_open_starts_the_configured_browser(program: Program, opens: bool) -> None:
    seen = program.home / "opened"
    browser = program.home / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{seen}"\n')
    browser.chmod(0o700)
    program.env["BROWSER"] = str(browser)
    flags = ("--open",) if opens else ()
    with program.pipe("--mcp-config", program.servers(demo=DEMO), *flags) as pipe:
        call = pipe.send("call", server="demo", tool="open_page", arguments={})
        question = pipe.event("question", kind="visit_url")
        pipe.ask("answer", question=question["question"], answer="once")
        assert pipe.event("open_url") == {"event": "open_url", "url": question["url"], "opened": opens}
        pipe.ask("quit")
        assert pipe.result(call)["exit"] in (0, 130)
    assert seen.exists() is opens
    assert not opens or seen.read_text() == question["url"]


def test_a_message_starts_without_a_hanging_server_and_reports_it(program: Program) -> None:
    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text("[limits]\nserver_wait = 0.1\n")
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO, silent=silent)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="what is 2 + 40?")
        pipe.ask("answer", question=pipe.event("question")["question"], answer="once")
        assert "42" in pipe.result(sent)["result"]["text"]
        told = [event["text"] for event in pipe.events if event["event"] == "told"]
        assert told == ["Starting without the server 'silent', which is not ready."]
        assert not [event for event in pipe.events if event["event"] == "server_state" and event["state"] == "failed"]


def test_end_of_input_refuses_the_open_question_and_finishes_the_turn(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="what is 2 + 40?")
        pipe.event("question")
        pipe.end()
        assert pipe.result(sent)["result"]["declined"] == 1


def test_the_end_of_input_waits_for_every_command_without_an_id(program: Program) -> None:
    file = program.servers(demo=DEMO)
    call = {"do": "call", "server": "demo", "tool": "count_slowly", "arguments": {"to": 2, "seconds": 0.5}}
    lines = program.text("pipe", "--mcp-config", file, stdin=f'{json.dumps(call)}\n{{"do": "grants"}}\n').splitlines()
    results = [event for event in map(json.loads, lines) if event["event"] == "result"]
    assert [(event["ok"], "isError" in event["result"]) for event in results] == [(True, False), (True, True)]


def test_server_that_is_not_approved_asks_and_the_answer_is_kept_when_always(program: Program) -> None:
    program.configure(demo=DEMO)
    for answer, asks in (("deny", 1), ("once", 1), ("always", 1), ("", 0)):
        with program.pipe() as pipe:
            connect = pipe.send("connect", server="demo")
            if asks:
                question = pipe.event("question", kind="trust_server")
                assert question["command"][1:] == DEMO["args"]
                pipe.ask("answer", question=question["question"], answer=answer)
            result = pipe.result(connect)
            assert (result["ok"], result["exit"]) == ((False, 5) if answer == "deny" else (True, 0))
            pipe.end()
            assert len([event for event in pipe.events if event["event"] == "question"]) == asks


def test_quit_with_a_call_and_a_question_open_ends_before_the_call_and_leaves_no_process(program: Program) -> None:
    note = program.home / "pids"
    note.touch()
    code = f"import os; open({str(note)!r}, 'a').write(f'{{os.getpid()}} '); import mcphost.demo.server as s; s.main()"
    server = {**DEMO, "args": ["-c", code]}
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=server)) as pipe:
        pipe.ask("connect", server="demo")
        call = pipe.send("call", server="demo", tool="count_slowly", arguments={"to": 9, "seconds": 60})
        pipe.event("tool_started")
        pipe.send("send", text="what is 2 + 40?")
        pipe.event("question")
        started_at = time.monotonic()
        pipe.send("quit")
        assert error_of(pipe.result(call)) == ("interrupted", 130)
        assert pipe.process.wait(20) == 0
        assert time.monotonic() - started_at < 20
    assert_processes_ended(note)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_it_like_quit(program: Program, number: signal.Signals) -> None:
    note = program.home / "pids"
    note.touch()
    code = f"import os; open({str(note)!r}, 'a').write(f'{{os.getpid()}} '); import mcphost.demo.server as s; s.main()"
    with program.pipe("--mcp-config", program.servers(demo={**DEMO, "args": ["-c", code]})) as pipe:
        pipe.ask("connect", server="demo")
        call = pipe.send("call", server="demo", tool="count_slowly", arguments={"to": 9, "seconds": 60})
        pipe.event("tool_started")
        pipe.process.send_signal(number)
        assert error_of(pipe.result(call)) == ("interrupted", 130)
        assert pipe.process.wait(10) == 130
        assert pipe.process.stderr
        assert b"Traceback" not in pipe.process.stderr.read()
    assert_processes_ended(note)


def test_reader_that_leaves_ends_it(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        assert pipe.process.stdout
        pipe.process.stdout.close()
        pipe.send("stop")
        assert pipe.process.wait(10) == 0


def test_server_that_dies_in_a_call_costs_that_call_only(program: Program) -> None:
    peer = program.home / "peer.py"
    peer.write_text(Path(faulty_server("")["args"][0]).read_text().replace('else ("echo",)', 'else ("die",)'))
    file = program.servers(bad={"command": sys.executable, "args": [str(peer)]}, demo=DEMO)
    with program.pipe("--mcp-config", file) as pipe:
        pipe.ask("connect", server="bad")
        assert pipe.ask("call", server="bad", tool="die")["exit"] == 4
        assert pipe.ask("call", server="demo", tool="add", arguments={"a": 1, "b": 1})["ok"]


def test_connect_tries_a_failed_server_again(program: Program) -> None:
    ready = program.home / "ready"
    code = (
        f"import os, sys; os.path.exists({str(ready)!r}) or sys.exit('not yet'); "
        "import mcphost.demo.server as s; s.main()"
    )
    with program.pipe("--mcp-config", program.servers(demo={**DEMO, "args": ["-c", code]})) as pipe:
        for _ in range(2):
            told = pipe.ask("connect", server="demo")
            assert error_of(told) == ("cannot_start", 4)
            assert "not yet" in told["error"]["message"]
        ready.touch()
        assert pipe.ask("connect", server="demo")["result"]["state"] == "ready"
        assert pipe.ask("call", server="demo", tool="add", arguments={"a": 1, "b": 1})["ok"]


def test_broken_file_named_on_the_command_line_exits_3(program: Program) -> None:
    path = program.home / "bad.json"
    path.write_text("{\n oops")
    assert "line 2, column 2" in program.error("pipe", "--mcp-config", str(path), code=3)


def test_input_from_a_file_waits_at_wait_lines(program: Program) -> None:
    lines = [
        {"id": 1, "do": "call", "server": "demo", "tool": "add", "arguments": {"a": 1, "b": 2}},
        {"id": 2, "do": "wait", "seconds": 0.2}, {"id": 3, "do": "stop"},
    ]  # fmt: skip
    text = "\n".join(json.dumps(line) for line in lines)
    done = program.run("pipe", "--mcp-config", program.servers(demo=DEMO), stdin=text)
    results = {event["id"]: event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "result"}
    assert results[1]["result"]["text"] == "1 + 2 = 3"
    assert set(results) == {1, 2, 3}


def assert_processes_ended(note: Path) -> None:
    """Check that every process whose pid is in the file *note* has ended."""
    for pid in map(int, note.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_auto_approval_on_the_pipe_lasts_only_as_requested(program: Program) -> None:
    program.configure(demo=DEMO)
    program.text("servers", "trust", "demo", "--yes")
    with program.pipe() as pipe:
        started = pipe.ask("autonomy", tools={"demo": ["add"]}, calls=3)
        assert (started["result"]["tools"], started["result"]["left"]["calls"]) == (1, 3)
        assert pipe.event("autonomy", on=True)["servers"] == ["demo"]
        assert "cannot be auto-approved" in pipe.ask("autonomy", tools={"demo": ["clear_notes"]})["error"]["message"]
        assert pipe.ask("autonomy", tools=["demo/add"])["error"]["message"]
        assert pipe.ask("autonomy", tools={"demo": ["add"]}, calls="many")["error"]["message"]
        assert pipe.ask("autonomy")["result"] == {"stopped": True}
        assert pipe.event("autonomy", on=False)["why"] == "ended by you"
        assert pipe.ask("autonomy")["result"] == {"stopped": False}
        pipe.end()


def test_the_audit_log_names_the_program_for_what_it_changed(program: Program) -> None:
    program.configure(demo=DEMO)
    program.text("servers", "trust", "demo", "--yes")
    (program.work / "shared").mkdir()
    with program.pipe() as pipe:
        pipe.ask("autonomy", tools={"demo": ["add"]})
        pipe.ask("autonomy")
        pipe.ask("switch", server="demo", tool="add", on=False)
        pipe.ask("roots", add="shared")
        pipe.ask("roots", remove="shared")
        rows = pipe.ask("audit")["result"]["rows"]
        pipe.end()
    found = [(row["kind"], row["event"], row["who"]) for row in rows if row["kind"] in ("mode", "tool", "roots")]
    assert found[::-1] == [
        ("mode", "on", "program"),
        ("mode", "off", "program"),
        ("tool", "switched off", "program"),
        ("roots", "added", "program"),
        ("roots", "removed", "program"),
    ]


def test_folders_are_listed_added_and_removed_and_persist_as_requested(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers()) as pipe:
        (first,) = pipe.ask("roots")["result"]["folders"]
        assert (first["path"], first["source"], first["uri"]) == (
            str(program.work),
            "started",
            f"file://{program.work}",
        )
        for wrong in (
            {"add": "nowhere"},
            {"remove": "/etc"},
            {"add": "/", "keep": "ever"},
            {"add": 5},
            {"add": "/", "remove": "/"},
        ):
            assert error_of(pipe.ask("roots", **wrong)) == ("usage", 2)
        added = pipe.ask("roots", add="~", name="home", keep="user")["result"]["folders"][1]
        assert (added["path"], added["name"], added["keep"]) == (str(program.home), "home", "user")
        assert "home folder" in added["warning"]
        assert [folder["state"] for folder in pipe.event("roots")["folders"]] == ["there", "there"]
        gone = pipe.ask("roots", remove=".", keep="project")["result"]["folders"][0]
        assert (gone["state"], gone["uri"]) == ("out", "")
    (program.work / "src").mkdir()
    (program.work / ".mcp.json").write_text('{"mcphost": {"roots": ["src"]}}')
    assert f"{program.work}/src" in program.text("servers", "trust", ".mcp.json", "--yes")
    with program.pipe() as pipe:
        found = pipe.ask("roots")["result"]["folders"]
        assert [(item["source"], item["state"]) for item in found] == [
            ("started", "out"), ("project", "there"), ("added", "there"),
        ]  # fmt: skip
        assert found[1]["uri"] == f"file://{program.work}/src"
    (program.work / ".mcp.json").write_text('{"mcphost": {"roots": ["src", "/"]}}')
    with program.pipe() as pipe:
        assert "project" not in {folder["source"] for folder in pipe.ask("roots")["result"]["folders"]}


def test_messages_start_turns_in_the_order_they_were_written(program: Program) -> None:
    (program.work / "notes.txt").write_text("tea")
    with program.pipe("--mcp-config", program.servers(demo=DEMO), "--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        lines = (
            {"id": "first", "do": "send", "text": "what is 2 + 40?", "files": [str(program.work / "notes.txt")]},
            {"id": "second", "do": "send", "text": "hello"},
            {"id": "third", "do": "compact"},
        )
        pipe.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        approve = pipe.event("question", kind="approve_tool")
        for later in ("second", "third"):
            refused = pipe.event("result", id=later)
            assert error_of(refused) == ("usage", 2)
            assert refused["error"]["message"] == "The model is still answering."
        pipe.ask("answer", question=approve["question"], answer="once")
        assert pipe.event("result", id="first")["ok"]


def test_a_message_starts_after_an_earlier_one_whose_file_cannot_be_read(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(), "--model", "demo") as pipe:
        lines = (
            {"id": "first", "do": "send", "text": "read it", "files": [str(program.work / "none.txt")]},
            {"id": "second", "do": "send", "text": "hello"},
        )
        pipe.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert error_of(pipe.event("result", id="first")) == ("usage", 2)
        assert pipe.event("result", id="second")["ok"]


def test_stop_also_ends_a_message_whose_files_are_still_being_read(program: Program) -> None:
    (program.work / "notes.txt").write_text("tea")
    with program.pipe("--mcp-config", program.servers(), "--model", "demo") as pipe:
        lines = (
            {"id": "first", "do": "send", "text": "read it", "files": [str(program.work / "notes.txt")]},
            {"id": "second", "do": "stop"},
        )
        pipe.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert pipe.event("result", id="second")["result"] == {"stopped": True}
        stopped = pipe.event("result", id="first")
        assert (stopped["exit"], stopped["result"]["outcome"]) == (0, "stopped")


def test_errors_on_the_pipe_are_those_of_the_commands_and_hints_fit_both(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(demo=DEMO)) as pipe:
        said = pipe.ask("audit", kind="nokind")
        assert error_of(said) == ("usage", 2)
        assert said["error"]["message"] == "There is no kind 'nokind'."
        assert said["error"]["hint"] in program.error("audit", "--kind", "nokind", code=2)
        for command in ({"do": "use_account", "account": "work"}, {"do": "login"}):
            said = pipe.ask(command.pop("do"), server="demo", **command)
            assert error_of(said) == ("usage", 2)
            assert "is a program on this machine; there is nothing to sign in to." in said["error"]["message"]
        assert pipe.ask("prompt", server="demo", name="plan")["error"]["hint"] == "Give a value for each."
        missing = pipe.ask("read", server="demo", uri="demo://no")["error"]
        assert missing["hint"] == "Choose one from the list of its resources."
