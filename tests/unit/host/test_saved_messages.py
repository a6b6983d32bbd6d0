"""Tests for reading saved message logs: what was exported comes back, and a hostile file is refused or cleaned."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.cli.main import main
from mcphost.errors import ConfigError, McpHostError, UsageError
from mcphost.host.message_log_export import export_json_lines
from mcphost.host.servers import saved_messages
from mcphost.host.servers.saved_messages import read_saved_messages
from mcphost.http_log import LoggedExchange
from mcphost.json_limits import MAX_DEPTH
from mcphost.message_log import LoggedMessage, MessageLog

MESSAGE: dict[str, Any] = {
    "type": "message", "number": 1, "time": "2026-11-30T04:00:00.123Z", "direction": "sent", "bytes": 40,
    "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
}  # fmt: skip
TEXT = {name: value for name, value in MESSAGE.items() if name != "message"}
EXCHANGE: dict[str, Any] = {
    "type": "http", "number": 2, "time": "2026-11-30T04:00:00.124Z", "method": "POST", "url": "https://h.example/mcp",
    "outcome": "complete", "status": 200, "seconds": 0.25, "response_headers": [["content-type", "text/plain"]],
}  # fmt: skip


def write(folder: Path, *entries: object) -> Path:
    file = folder / "web-messages.jsonl"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")
    return file


def create_log() -> list[LoggedMessage | LoggedExchange]:
    log = MessageLog()
    log.add("sent", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    headers = (("authorization", "Bearer hunter2hunter2"), ("mcp-session-id", "0123456789abcdef0123456789"))
    url = "https://h.example/mcp?session=0123456789abcdef0123456789"
    exchange = log.add_exchange("POST", url, headers, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    exchange.on_response(401, (("www-authenticate", 'Bearer realm="x"'), ("x-note", "\u202e")), resent=True)
    exchange.on_received(112)
    exchange.end("failed", "lost")
    log.add("received", b"not JSON")
    log.add("received", b'{"a":"' + b"x" * 70_000)
    return sorted((*log.messages(), *log.exchanges()), key=lambda entry: entry.number)


def test_a_saved_log_is_read_back_as_it_was_exported(tmp_path: Path) -> None:
    text = export_json_lines(create_log())
    (file := tmp_path / "saved.jsonl").write_text(text, encoding="utf-8")
    assert export_json_lines(read_saved_messages(file)) == text


def test_a_message_that_is_nested_as_deeply_as_possible_is_read_back(tmp_path: Path) -> None:
    log = MessageLog()
    log.add("received", b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    text = export_json_lines(log.messages())
    (file := tmp_path / "saved.jsonl").write_text(text, encoding="utf-8")
    assert export_json_lines(read_saved_messages(file)) == text


def test_a_request_of_a_sign_in_is_marked_as_one(tmp_path: Path) -> None:
    request = MessageLog().add_oauth_request("POST", "https://as.example/token", ())
    request.set_request("token endpoint", ("grant_type",), 20, is_form=True)
    request.on_response(400, (), resent=False)
    request.set_response({"error": "invalid_grant"}, 30)
    (file := tmp_path / "saved.jsonl").write_text(export_json_lines([request]), encoding="utf-8")
    (read,) = read_saved_messages(file)
    assert isinstance(read, LoggedExchange)
    assert (read.sign_in, read.status, read.response_size) == ("token endpoint", 400, 30)


def test_the_command_prints_a_saved_log_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = "\u202e\u001b]52;c;aGk=\u0007"
    hostile = {**EXCHANGE, "url": "https://h.example/\u001b[31m", "error": error, "outcome": "failed"}
    file = write(tmp_path, hostile, MESSAGE, {**TEXT, "text": "\u001b[2Jno JSON\n\u2190 faked line"})
    assert main(["messages", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == '→ {"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert lines[1] == "→ ␛[2Jno JSON ← faked line"
    assert lines[2].startswith("⇄ POST /␛[31m 200, text/plain, 0 bytes, 250 ms, ")
    assert lines[3] == "  < content-type: text/plain"
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)


NO_ENTRIES: tuple[object, ...] = (
    7,
    {},
    {"type": "other"},
    {**MESSAGE, "direction": "both"},
    {**MESSAGE, "time": "yesterday"},
    {**EXCHANGE, "response_headers": [["one"]]},
    {**EXCHANGE, "message_method": {"deep": ["list"]}},
)


@pytest.mark.parametrize("entry", NO_ENTRIES)
def test_a_line_that_is_no_entry_is_named(tmp_path: Path, entry: object) -> None:
    with pytest.raises(UsageError, match="line 2: not an entry"):
        list(read_saved_messages(write(tmp_path, MESSAGE, entry)))


def test_impossible_numbers_are_limited(tmp_path: Path) -> None:
    huge = {**EXCHANGE, "seconds": 1e300, "status": -5, "response_bytes": 10**18, "number": -1}
    (read,) = read_saved_messages(write(tmp_path, huge))
    assert isinstance(read, LoggedExchange)
    assert (read.seconds, read.status, read.response_size, read.number) == (1e12, 0, 10**12, 0)


def test_a_file_with_too_much_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_messages, "MAX_ENTRIES", 3)
    assert len(list(read_saved_messages(write(tmp_path, *[MESSAGE] * 3)))) == 3
    with pytest.raises(UsageError, match="more than 3 lines"):
        list(read_saved_messages(write(tmp_path, *[MESSAGE] * 4)))
    long = {**TEXT, "text": "x" * saved_messages.MAX_LINE_BYTES}
    with pytest.raises(UsageError, match="line 1: not an entry"):
        list(read_saved_messages(write(tmp_path, long)))
    monkeypatch.setattr(saved_messages, "MAX_FILE_BYTES", 100)
    with pytest.raises(ConfigError, match="is over"):
        list(read_saved_messages(write(tmp_path, MESSAGE)))


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(McpHostError):
        list(read_saved_messages(tmp_path / name))
