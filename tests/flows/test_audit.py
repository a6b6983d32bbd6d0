"""Tests for `mcphost audit`, and for the audit log that the pipe and other commands write."""

import json
import sqlite3
import sys
from contextlib import closing

import pytest

from tests.event_loop import wait_until
from tests.flows.program import DEMO, Program


def print_rows(program: Program, *arguments: str) -> list[dict[str, object]]:
    done = program.run("audit", "--json", "--limit", "1000", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"][::-1]


def test_a_call_that_the_model_wanted_is_recorded_from_the_question_to_its_end(program: Program) -> None:
    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="add 2 and 8675309135")
        question = pipe.event("question", kind="approve_tool")
        pipe.ask("answer", question=question["question"], answer="once")
        pipe.result(sent)
        listed = pipe.ask("audit", kind="tool")["result"]["rows"][::-1]
        assert [row["event"] for row in listed] == ["answered", "started", "ended"]
        assert pipe.ask("verify")["result"]["ok"] is True
        pipe.ask("quit")
        pipe.end()
    found = print_rows(program)
    assert [row["event"] for row in found if row["kind"] == "process"] == ["started", "ended"]
    answered, started, ended = [row for row in found if row["kind"] == "tool"]
    assert (answered["who"], answered["decision"], answered["subject"]) == ("program", "once", "add")
    assert (started["who"], started["call"]) == ("once", answered["call"])
    assert answered["arguments"] == started["arguments"] != ""
    assert (ended["about"], ended["decision"]) == (started["seq"], "ok")
    assert ended["size"]
    assert started["definition"]
    assert "8675309135" not in json.dumps([row["detail"] for row in found])


@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        ({"command": "no-such-program"}, "failed"),
        ({"command": sys.executable, "env": {"KEY": "${env:NOT_THERE_1}"}}, "failed"),
        ({"url": "http://127.0.0.1:9/mcp"}, "failed"),
        ({"command": sys.executable, "args": ["-c", "exit(3)"]}, "lost"),
    ],
)
def test_a_server_that_could_not_be_started_is_not_recorded_as_one_that_crashed(
    program: Program, entry: dict[str, object], outcome: str
) -> None:
    program.run("--mcp-config", program.servers(odd=entry), "servers", "check")
    rows = [row for row in print_rows(program, "--server", "odd") if row["kind"] in ("process", "connection")]
    assert [(row["event"], row["decision"]) for row in rows] == [("started", ""), ("ended", outcome)]
    labels = program.text("audit", "--server", "odd")
    assert "started" not in labels
    assert ("crashed" in labels) == (outcome == "lost")


@pytest.mark.anyio
async def test_the_end_of_a_call_is_on_disk_although_nothing_follows_it(program: Program) -> None:
    def recorded() -> list[str]:
        with closing(sqlite3.connect(program.home / "data" / "ledger.db")) as db:
            return [event for (event,) in db.execute("SELECT event FROM ledger WHERE kind = 'tool' ORDER BY seq")]

    with program.pipe("--model", "demo", "--mcp-config", program.servers(demo=DEMO)) as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="add 2 and 40")
        question = pipe.event("question", kind="approve_tool")
        pipe.ask("answer", question=question["question"], answer="once")
        pipe.result(sent)
        await wait_until(lambda: recorded() == ["answered", "started", "ended"])
        pipe.ask("quit")
        pipe.end()


def test_a_grant_is_recorded_when_it_is_given_used_and_revoked(program: Program) -> None:
    program.configure(demo=DEMO)
    assert program.run("servers", "trust", "demo", "--yes").returncode == 0
    with program.pipe("--model", "demo") as pipe:
        pipe.ask("connect", server="demo")
        sent = pipe.send("send", text="add 2 and 40")
        question = pipe.event("question", kind="approve_tool")
        pipe.ask("answer", question=question["question"], answer="always")
        pipe.result(sent)
        pipe.result(pipe.send("send", text="add 3 and 4"))
        (given,) = [row for row in pipe.ask("audit", kind="grant")["result"]["rows"] if row["event"] == "given"]
        pipe.ask("revoke", grant=given["grant"])
        pipe.ask("quit")
        pipe.end()
    rows = print_rows(program, "--kind", "grant")
    assert [row["event"] for row in rows] == ["given", "revoked"]
    assert [row["who"] for row in rows] == ["program", "program"], "an answer on the pipe gave it, a command revoked it"
    tools = [(row["event"], row["who"], row["grant"]) for row in print_rows(program, "--kind", "tool")]
    assert ("decided", "grant", given["grant"]) in tools
    assert ("started", "grant", given["grant"]) in tools
    assert [row["who"] for row in print_rows(program, "--kind", "process") if row["event"] == "started"] == ["always"]


def test_content_is_recorded_if_the_user_enables_it_but_never_a_secret(program: Program) -> None:
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text("[ledger]\ncontent = true\n")
    servers = program.servers(demo=DEMO)
    called = program.run("call", "--mcp-config", servers, "demo", "add_note", "text=api_key=sk-live-abcdef0123456789")
    assert called.returncode == 0, called.stderr
    (started,) = [row for row in print_rows(program, "--kind", "tool") if row["event"] == "started"]
    assert started["who"] == "user"
    assert "text" in str(started["detail"])
    assert "abcdef0123456789" not in str(started["detail"])


def test_verify_reports_where_the_file_was_changed_and_exits_with_5(program: Program) -> None:
    servers = program.servers(demo=DEMO)
    assert program.run("call", "--mcp-config", servers, "demo", "add", "a=2", "b=40").returncode == 0
    good = program.run("audit", "verify")
    assert (good.returncode, b"rows are unchanged" in good.stdout) == (0, True)
    with closing(sqlite3.connect(program.home / "data" / "ledger.db", isolation_level=None)) as db:
        (code,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'ledger_is_not_changed'").fetchone()
        db.execute("DROP TRIGGER ledger_is_not_changed")
        db.execute("UPDATE ledger SET who = 'person' WHERE seq = 2")
        db.execute(code)
    bad = program.run("audit", "verify")
    assert (bad.returncode, b"Row 2 is not what was written." in bad.stdout) == (5, True)
    shown = program.run("audit", "show", "2")
    assert (shown.returncode, b"Row 2 is not what was written." in shown.stdout) == (5, True)
    assert json.loads(program.run("audit", "show", "2", "--json").stdout)["problems"] == [
        "Row 2 is not what was written."
    ]
    assert "problems" not in json.loads(program.run("audit", "show", "1", "--json").stdout)
    document = json.loads(program.run("audit", "verify", "--json").stdout)
    assert (document["ok"], document["findings"][0]["row"]) == (False, 2)
    last = str(print_rows(program)[-1]["seq"])
    assert program.run("audit", "show", last).returncode == 0
    (head,) = program.home.rglob("ledger.head")
    head.write_text(f"{head.read_text().split()[0]} {'0' * 64}\n")
    shown = program.run("audit", "show", last)
    assert (shown.returncode, b"the chain was rewritten" in shown.stdout) == (5, True)


def test_missing_rows_are_reported_by_the_next_run_and_not_called_complete(program: Program) -> None:
    servers = program.servers(demo=DEMO)
    assert program.run("call", "--mcp-config", servers, "demo", "add", "a=2", "b=40").returncode == 0
    with closing(sqlite3.connect(program.home / "data" / "ledger.db", isolation_level=None)) as db:
        db.execute("DROP TRIGGER ledger_is_not_shortened")
        db.execute("DELETE FROM ledger WHERE seq > 2")
    assert b"that is all of them" not in program.run("audit", "verify").stdout
    with program.pipe("--model", "demo", "--mcp-config", servers) as pipe:
        notice = pipe.event("told")
        assert (notice["level"], notice["text"]) == (
            "error",
            "The audit log was changed outside of mcphost: rows are missing at its end.",
        )
        assert "mcphost audit verify" in notice["hint"]
        pipe.ask("quit")
        pipe.end()


def test_rows_are_filtered_shown_and_exported(program: Program) -> None:
    servers = program.servers(demo=DEMO)
    assert program.run("call", "--mcp-config", servers, "demo", "add", "a=2", "b=40").returncode == 0
    assert {row["kind"] for row in print_rows(program, "--server", "demo", "--since", "1h")} == {"process", "tool"}
    assert print_rows(program, "--since", "2099-01-01") == []
    shown = program.run("audit", "show", "2")
    assert b"demo" in shown.stdout
    out = program.home / "out.jsonl"
    assert program.run("audit", "export", str(out)).returncode == 0
    assert [json.loads(line)["seq"] for line in out.read_text().splitlines()] == [
        row["seq"] for row in print_rows(program)
    ]
    assert out.stat().st_mode & 0o777 == 0o600
    assert program.run("audit", "export", str(out)).returncode == 2
    assert program.run("audit", "export", "-", "--format", "csv").stdout.startswith(b'"v","at","kind",')
    table = program.home / "out.csv"
    assert program.run("audit", "export", str(table)).returncode == 0
    assert table.read_bytes().startswith(b'"v","at","kind",')
    other = program.home / "out.xlsx"
    assert "does not end with .jsonl or .csv" in program.error("audit", "export", str(other), code=2)
    assert not other.exists()
    assert program.run("audit", "export", str(other), "--format", "csv").returncode == 0
    assert "audit show" not in program.error("audit", "export", code=2)
    for wrong in (["show", "99999"], ["show"], ["--since", "soon"], ["--limit", "0"]):
        assert program.run("audit", *wrong).returncode == 2
    assert "budget, " in program.error("audit", "--kind", "foo", code=2)
    for since in ("today", "yesterday", "2020-01", "1y"):
        assert print_rows(program, "--since", since), since


def test_an_approval_on_the_command_line_is_recorded_and_an_empty_audit_log_is_reported(program: Program) -> None:
    assert b"Nothing is recorded" in program.run("audit").stderr
    program.configure(demo=DEMO)
    assert program.run("servers", "trust", "demo", "--yes").returncode == 0
    (kept,) = print_rows(program, "--kind", "trust")
    assert (kept["event"], kept["who"], kept["server"]) == ("kept", "person", "demo")


def test_a_server_that_neither_the_configuration_nor_the_log_knows_is_refused(program: Program) -> None:
    program.configure(notes=DEMO)
    for arguments in (("list",), ("list", "--json"), ("export", "-")):
        error = program.error("audit", *arguments, "--server", "nots", code=2)
        assert "There is no server named 'nots'." in error
        assert "Configured servers: notes." in error
    assert program.run("audit", "verify", "--server", "nots").returncode == 0
    assert "There is no server" not in program.run("audit", "show", "1", "--server", "nots").stderr.decode()
    assert b"Nothing is recorded" in program.run("audit", "--server", "notes").stderr
    assert program.run("call", "--mcp-config", program.servers(gone=DEMO), "gone", "add", "a=2", "b=40").returncode == 0
    assert "gone" in program.text("audit", "--server", "gone")
    assert program.text("audit", "--server", "gone", "--kind", "trust") == ""
