"""Tests for entries of a message log as JSON Lines, curl commands and mcphost commands."""

import json
import subprocess
from typing import Any

import pytest

from mcphost.errors import UsageError
from mcphost.host.message_log_export import export_json_lines, make_call_command, make_curl_command
from mcphost.host.servers.logged_requests import read_tool_call
from mcphost.http_log import LoggedExchange
from mcphost.message_log import MAX_MESSAGE_BYTES, LoggedMessage, MessageLog
from mcphost.sanitize import is_sanitized

API_KEY = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5pR7t"


def run_in_shell(command: str, **variables: str) -> list[str]:
    """Return the arguments that a POSIX shell passes to the command, which is not run."""
    program = command.split(" ", 1)[0]
    script = f'{program}() {{ printf "%s\\0" "$@"; }}\n{command}\n'
    done = subprocess.run(["sh", "-c", script], env=variables, capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


def post(body: bytes, url: str = "https://h.example/mcp", **headers: str) -> LoggedExchange:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return MessageLog().add_exchange("POST", url, named, body)


def test_the_curl_command_has_the_url_the_headers_and_the_body() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    command, variables = make_curl_command(post(body, accept="application/json", host="h", content_length="40", x="1"))
    arguments = run_in_shell(command)
    assert variables == ()
    assert arguments[:3] == ["-sS", "-N", "https://h.example/mcp"]
    assert arguments[3:7] == ["-H", "accept: application/json", "-H", "x: 1"]
    assert arguments[7] == "--data-raw"
    assert json.loads(arguments[8]) == json.loads(body)


def test_secrets_are_shell_variables() -> None:
    body = json.dumps({"a": API_KEY, "b": f"two {API_KEY}", "c": "it's"}).encode()
    exchange = post(
        body,
        f"https://h/mcp?session_id=123456&token={API_KEY}",
        authorization=f"Bearer {API_KEY}",
        mcp_session_id=API_KEY,
    )
    command, variables = make_curl_command(exchange)
    assert API_KEY not in command
    assert set(variables) == {"URL_SECRET", "URL_SECRET_2", "TOKEN", "MCP_SESSION_ID", "SECRET", "SECRET_2"}
    arguments = run_in_shell(
        command, URL_SECRET="sess", URL_SECRET_2="tok", TOKEN="t$(id)", MCP_SESSION_ID="s p", SECRET="one", SECRET_2="2"
    )
    assert "https://h/mcp?session_id=sess&token=tok" in arguments
    assert "authorization: Bearer t$(id)" in arguments
    assert "mcp-session-id: s p" in arguments
    assert json.loads(arguments[-1]) == {"a": "one", "b": "2", "c": "it's"}


HOSTILE = [
    "https://h/m?x=$(touch /tmp/owned)",
    "https://h/m?'\"; rm -rf ~; #",
    "https://h/{a,b}[1-9]",
    "https://h/m\n--output\nx",
    "https://h/\x1b[201~id\r",
    "https://h/`id`\\",
    "https://h/é\u202e",
    "https://h/!!",
]


@pytest.mark.parametrize("url", HOSTILE)
def test_an_address_that_a_server_chose_stays_one_word(url: str) -> None:
    command, _variables = make_curl_command(post(b"{}", url))
    assert command.isascii()
    assert command.isprintable()
    arguments = run_in_shell(command)
    address = arguments[arguments.index("--data-raw") - 1]
    assert address.startswith("https://h/")
    assert (address.isascii(), address.isprintable(), " " in address) == (True, True, False)
    assert ("--globoff" in arguments) == any(one in address for one in "[]{}")


def test_other_methods_are_named_and_a_cut_body_is_refused() -> None:
    log = MessageLog()
    assert run_in_shell(make_curl_command(log.add_exchange("GET", "http://h/", (), b""))[0]) == [
        "-sS",
        "-N",
        "http://h/",
    ]
    deleted = run_in_shell(make_curl_command(log.add_exchange("DELETE", "http://h/", (("x", ""),), b""))[0])
    assert deleted == ["-sS", "-N", "-X", "DELETE", "http://h/", "-H", "x;"]
    with pytest.raises(UsageError, match="Only the beginning"):
        make_curl_command(post(b"x" * (MAX_MESSAGE_BYTES + 1)))


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"a": 1, "text": "it's $HOME `id` \\ \" \n"},
    {"hidden": "\u202e\x1b[31m\ud800é"},
    {"-": ["--x"]},
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_the_call_command_passes_the_same_arguments(arguments: dict[str, Any]) -> None:
    command, variables = make_call_command("my server", "tool's", arguments)
    assert (variables, is_sanitized(command)) == ((), True)
    passed = run_in_shell(command)
    assert passed[:3] == ["call", "my server", "tool's"]
    assert (json.loads(passed[4]) if arguments else {}) == json.loads(
        json.dumps(arguments).replace("\\ud800", "\\ufffd")
    )


def test_the_call_command_hides_secrets_and_keeps_names_from_being_options() -> None:
    command, variables = make_call_command("files", "--tool", {"api_key": "hunter2hunter2", "b": 1})
    assert "hunter2" not in command
    assert variables == ("SECRET",)
    passed = run_in_shell(command, SECRET="typed")
    assert passed == ["call", "--args", '{"api_key":"typed","b":1}', "--", "files", "--tool"]
    with pytest.raises(UsageError, match="hidden"):
        make_call_command("files", "to\u202eol", {})


@pytest.mark.parametrize(
    "arguments",
    [{"args": ["--token", "hunter2hunter2"]}, {"password": "hunter2"[:5]}, {API_KEY: 1}, {"a": {API_KEY: 1}}],
)
def test_the_call_command_hides_what_the_log_hides(arguments: dict[str, Any]) -> None:
    command, variables = make_call_command("files", "add", arguments)
    assert "hunte" not in command
    assert API_KEY not in command
    assert variables == ("SECRET",)


def log_call_with_header_value() -> LoggedMessage:
    log = MessageLog()
    log.hide_headers({"X-Team": "blue-whale-42"})
    params = {"name": "add", "arguments": {"team": "of blue-whale-42", "b": 1}}
    log.add("sent", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode())
    return log.messages()[0]


def test_the_call_command_hides_values_of_configured_headers_as_curl_does() -> None:
    message = log_call_with_header_value()
    call = read_tool_call(message)
    command, variables = make_call_command("files", call.tool, call.recorded, message.mask)
    assert "whale" not in command
    assert variables == ("SECRET",)
    assert run_in_shell(command, SECRET="typed")[4] == '{"team":"of typed","b":1}'


def test_a_repeated_call_leaves_out_values_of_configured_headers() -> None:
    call = read_tool_call(log_call_with_header_value())
    assert (call.arguments, call.masked) == ({"b": 1}, ("team",))


def test_each_entry_is_a_line_of_json_without_secrets() -> None:
    log = MessageLog()
    log.add("sent", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"api_key":"' + API_KEY.encode() + b'"}}')
    exchange = log.add_exchange(
        "POST", f"https://h/mcp?token={API_KEY}", (("authorization", f"Bearer {API_KEY}"),), b"{}"
    )
    exchange.on_response(200, (("x-note", "\x1b[31m\u202e"), ("set-cookie", API_KEY)), resent=True)
    exchange.end("failed", f"lost {API_KEY}")
    log.add("received", b"not JSON " + API_KEY.encode() + b"\x1b[31m")
    log.add("received", b'{"a":"' + b"x" * 70_000)
    text = export_json_lines((log.messages()[0], exchange, *log.messages()[1:]))
    assert API_KEY not in text
    assert is_sanitized(text)
    first, http, odd, cut = map(json.loads, text.splitlines())
    assert (first["type"], first["direction"], first["message"]["method"]) == ("message", "sent", "ping")
    assert (http["type"], http["status"], http["outcome"], http["sent_again"]) == ("http", 200, "failed", True)
    assert http["response_headers"] == [["x-note", "\x1b[31m\u202e"], ["set-cookie", "[secret]"]]
    assert odd["text"].startswith("not JSON [secret]")
    assert cut["cut_bytes"] > 0
