"""Whether a server may know a folder: asked when it is needed, answered for good, revoked; with real servers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import Pipe, Program

SERVER = str(Path(__file__).parent / "folder_server.py")


def entry(*how: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SERVER, *how]}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def told(result: dict[str, Any]) -> Any:
    """What the server says it knows."""
    return json.loads(result["result"]["text"])


def asked(pipe: Pipe) -> list[dict[str, Any]]:
    return [event for event in pipe.events if event["event"] == "question"]


def test_an_answer_for_good_is_given_by_every_later_run_until_it_is_revoked(program: Program) -> None:
    servers, here = program.servers(files=entry()), f"file://{program.work}"
    with program.pipe("--mcp-config", servers) as pipe:
        call = pipe.send("call", server="files", tool="ask")
        question = pipe.event("question", kind="share_roots")
        assert question["choices"] == ["once", "session", "always", "never", "deny"]
        pipe.ask("answer", question=question["question"], answer="always")
        assert told(pipe.result(call)) == [here]
        (kept,) = pipe.ask("grants")["result"]["folders"]
        assert (kept["server"], kept["folder"], kept["shared"]) == ("files", str(program.work), True)
        assert pipe.ask("roots")["result"]["servers"][0]["for_good"] is True
        pipe.end()
    with program.pipe("--mcp-config", servers) as pipe:
        assert told(pipe.ask("call", server="files", tool="ask")) == [here]
        assert asked(pipe) == []
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
        assert told(pipe.result(call)) == []
        assert told(pipe.ask("call", server="files", tool="ask")) == []
        assert len(asked(pipe)) == 1
        pipe.end()
