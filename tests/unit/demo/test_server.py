"""Tests for the demo server as a subprocess, in both protocol eras, with hand-written JSON."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcphost.cli.build_host import DEMO_SERVER
from tests.unit.demo.demo_client import META_PREFIX, REQUEST_META, DemoClient


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_handshake_answers_with_the_revision_it_was_asked_for(peer: DemoClient, version: str) -> None:
    assert peer.hello(version)["protocolVersion"] == version
    assert peer.call("add", {"a": 2, "b": 40})["result"]["content"] == [{"type": "text", "text": "2 + 40 = 42"}]


def test_handshake_offers_its_newest_revision_for_an_unknown_one(peer: DemoClient) -> None:
    assert peer.hello("2031-01-01")["protocolVersion"] == "2025-11-25"


def test_stateless_results_carry_type_freshness_and_server(peer: DemoClient) -> None:
    found = peer.ask("server/discover", modern=True)["result"]
    assert found["resultType"] == "complete"
    assert found["cacheScope"] == "private"
    assert found["ttlMs"] > 0
    assert "2026-07-28" in found["supportedVersions"]
    assert found["_meta"][f"{META_PREFIX}serverInfo"]["name"] == "mcphost-demo"
    called = peer.call("multiply", {"a": 6, "b": 7}, modern=True)["result"]
    assert called["content"][0]["text"] == "6 × 7 = 42"
    assert called["resultType"] == "complete"
    assert "ttlMs" not in called


def test_stateless_era_stays_once_it_was_answered(peer: DemoClient) -> None:
    peer.ask("server/discover", modern=True)
    error = peer.ask("initialize", {"protocolVersion": "2025-11-25"})["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


def test_other_stateless_revision_is_refused_with_the_known_ones(peer: DemoClient) -> None:
    meta = {f"{META_PREFIX}protocolVersion": "2031-01-01"}
    error = peer.ask("tools/list", {"_meta": meta}, modern=True)["error"]
    assert error["code"] == -32022
    assert error["data"]["requested"] == "2031-01-01"


def test_request_of_neither_era_is_invalid(peer: DemoClient) -> None:
    assert peer.ask("tools/list")["error"]["code"] == -32602
    assert peer.ask("server/discover")["error"]["code"] == -32602


def test_notes_are_added_listed_cleared_and_readable_as_a_resource(peer: DemoClient) -> None:
    peer.hello()
    assert peer.call("add_note", {"text": "milk"})["result"]["content"][0]["text"] == "Noted as number 1."
    assert peer.call("list_notes", {})["result"]["content"][0]["text"] == "1. milk"
    read = peer.ask("resources/read", {"uri": "demo://notes"})["result"]["contents"]
    assert read == [{"uri": "demo://notes", "mimeType": "text/plain", "text": "1. milk"}]
    assert peer.call("clear_notes", {})["result"]["content"][0]["text"] == "Deleted 1 note."
    assert peer.call("list_notes", {})["result"]["content"][0]["text"] == "There are no notes."


def test_tools_declare_their_annotations(peer: DemoClient) -> None:
    peer.hello()
    claims = {tool["name"]: tool["annotations"] for tool in peer.ask("tools/list")["result"]["tools"]}
    assert list(claims) == ["add", "multiply", "add_note", "list_notes", "clear_notes", "count_slowly", "roll_dice",
                            "order_tea", "open_page", "ask_model"]  # fmt: skip
    assert [name for name, claim in claims.items() if claim["destructiveHint"]] == ["clear_notes"]
    assert [name for name, claim in claims.items() if not claim["readOnlyHint"]] == [
        "add_note",
        "clear_notes",
        "order_tea",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("add", {"a": 1}, "'b' is missing"),
        ("add", {"a": 1, "b": "2"}, "'b' must be a number"),
        ("add", {"a": 1, "b": 2, "c": 3}, "no argument 'c'"),
        ("roll_dice", {"sides": 1}, "between 2 and 1000"),
        ("count_slowly", {"to": 2.5}, "whole number"),
        ("add_note", {"text": ""}, "1 to 2000 characters"),
    ],
)
def test_wrong_arguments_are_an_error_the_model_can_read(
    peer: DemoClient, name: str, arguments: Any, text: str
) -> None:
    peer.hello()
    result = peer.call(name, arguments)["result"]
    assert result["isError"] is True
    assert text in result["content"][0]["text"]


def test_die_has_the_sides_it_is_given(peer: DemoClient) -> None:
    peer.hello()
    shown = {peer.call("roll_dice", {"sides": 2})["result"]["content"][0]["text"] for _ in range(60)}
    assert shown == {"The die shows 1.", "The die shows 2."}


def test_slow_count_reports_progress_and_others_are_answered_meanwhile(peer: DemoClient) -> None:
    peer.hello()
    params = {"name": "count_slowly", "arguments": {"to": 3, "seconds": 0.3}, "_meta": {"progressToken": "p"}}
    peer.write({"id": "slow", "method": "tools/call", "params": params})
    peer.write({"id": "quick", "method": "ping"})
    assert peer.read() == {"jsonrpc": "2.0", "id": "quick", "result": {}}
    told = [peer.read()["params"] for _ in range(3)]
    assert [text["progress"] for text in told] == [1, 2, 3]
    assert told[0] == {"progressToken": "p", "progress": 1, "total": 3, "message": "1 of 3"}
    assert peer.read()["result"]["content"][0]["text"] == "Counted to 3."


def test_cancelled_count_ends_before_it_is_done_and_gets_no_answer(peer: DemoClient) -> None:
    peer.ask("server/discover", modern=True)
    started = time.monotonic()
    params = {"name": "count_slowly", "arguments": {"to": 1, "seconds": 60}, "_meta": REQUEST_META}
    peer.write({"id": 90, "method": "tools/call", "params": params})
    peer.write({"method": "notifications/cancelled", "params": {"requestId": 90}})
    assert peer.call("add", {"a": 1, "b": 1}, modern=True)["result"]["content"][0]["text"] == "1 + 1 = 2"
    assert time.monotonic() - started < 30


def test_prompt_is_filled_and_its_required_argument_demanded(peer: DemoClient) -> None:
    peer.hello()
    filled = peer.ask("prompts/get", {"name": "plan", "arguments": {"topic": "a trip", "tone": "cheerful"}})
    assert "a trip" in filled["result"]["messages"][0]["content"]["text"]
    assert "cheerful" in filled["result"]["messages"][0]["content"]["text"]
    assert peer.ask("prompts/get", {"name": "plan", "arguments": {}})["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/nothing"}\n', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}\n', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"demo://no"}}\n', -32002),
    ],
)
def test_bad_lines_get_an_error_and_the_server_continues(peer: DemoClient, line: bytes, code: int) -> None:
    peer.hello()
    peer.write(line)
    assert peer.read()["error"]["code"] == code
    assert peer.ask("ping")["result"] == {}


def test_startup_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import mcphost.demo.server; "
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['mcphost']"


def test_demo_server_runs_no_code_of_the_folder_it_is_started_in(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("open('it-ran', 'w')")
    done = subprocess.run(
        DEMO_SERVER.argv,
        cwd=tmp_path,
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        timeout=20,
    )
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert [path.name for path in tmp_path.iterdir()] == ["json.py"]
