"""Tests for reading requests of a message log that are sent again."""

import json
from typing import Any

import pytest

from mcphost.errors import UsageError
from mcphost.host.servers.logged_requests import RecordedToolCall, read_request
from mcphost.message_log import LoggedMessage, MessageLog
from mcphost.protocol.prompts import Complete, GetPrompt, PromptReference
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.tools import ListTools


def logged(message: Any, direction: Any = "sent") -> LoggedMessage:
    log = MessageLog()
    log.add(direction, message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode())
    return log.messages()[0]


def request(method: str, **params: Any) -> LoggedMessage:
    return logged({"id": 1, "method": method, "params": {**params, "_meta": {"progressToken": 1}}})


def test_requests_without_effects_are_read_with_their_parameters() -> None:
    assert read_request(request("tools/list", cursor="c")) == ListTools("c")
    assert read_request(logged({"id": 1, "method": "tools/list"})) == ListTools()
    assert read_request(request("resources/read", uri="file:///a")) == ReadResource("file:///a")
    assert read_request(request("prompts/get", name="p", arguments={"a": "b"})) == GetPrompt("p", {"a": "b"})
    completion = read_request(
        request("completion/complete", ref={"type": "ref/prompt", "name": "p"}, argument={"name": "a", "value": "x"})
    )
    assert isinstance(completion, Complete)
    assert completion.ref == PromptReference("p")
    for method in ("ping", "resources/list", "resources/templates/list", "prompts/list"):
        found = read_request(request(method))
        assert not isinstance(found, RecordedToolCall)
        assert (found.METHOD, found) == (method, type(found)())


def test_a_tool_call_is_read_without_the_arguments_that_are_masked() -> None:
    found = read_request(
        request(
            "tools/call", name="add", arguments={"a": 1, "api_key": "hunter2hunter2", "deep": {"token": "abcdefgh1"}}
        )
    )
    assert isinstance(found, RecordedToolCall)
    assert (found.tool, found.arguments, found.masked) == ("add", {"a": 1}, ("api_key", "deep"))


def test_an_argument_is_masked_if_the_log_masks_a_part_of_it() -> None:
    arguments = {"a": 1, "args": ["--token", "hunter2hunter2"], "password": "abc12"}
    found = read_request(request("tools/call", name="add", arguments=arguments))
    assert isinstance(found, RecordedToolCall)
    assert (found.arguments, found.masked) == ({"a": 1}, ("args", "password"))
    with pytest.raises(UsageError, match="looks like a secret"):
        read_request(request("prompts/get", name="add", arguments={"password": "abc12"}))


REFUSED: list[tuple[LoggedMessage, str]] = [
    (logged({"id": 1, "method": "ping"}, "received"), "server sent"),
    (logged({"method": "notifications/initialized"}), "notification"),
    (logged({"id": 1, "result": {}}), "response"),
    (logged(b"[]"), "not a single"),
    (logged(b"hello"), "not a single"),
    (logged(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}'), "not a single"),
    (logged(b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":5}}'), "not a single"),
    (request("initialize"), "once for each connection"),
    (request("resources/subscribe", uri="a"), "may change"),
    (request("tasks/cancel", taskId="a"), "may change"),
    (request("resources/read", uri="https://h/?token=abcdef123456"), "masked"),
    (request("prompts/get", name="p", arguments={"password": "hunter2hunter2"}), "masked"),
    (request("ping", filler="x" * 70_000), "Only the beginning"),
]


@pytest.mark.parametrize(("message", "reason"), REFUSED)
def test_everything_else_is_refused_with_the_reason(message: LoggedMessage, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_request(message)
