"""Tests for parsing and writing JSON-RPC messages: envelopes, requests, and blocks of content."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.errors import MalformedMessage
from mcphost.json_limits import run_steps
from mcphost.protocol.content import TextContent, UnknownContent, parse_content_block
from mcphost.protocol.jsonrpc import (
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    parse_message,
    serialize_message,
)
from mcphost.protocol.notifications import ProgressNotification, UnknownNotification, parse_notification
from mcphost.protocol.server_requests import Elicit, ListRoots, parse_server_request
from mcphost.protocol.tools import CallTool, ListTools
from mcphost.serialization import Raw, encode, loads

ids = st.one_of(st.integers(-(2**62), 2**62), st.text(max_size=20))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
params = st.dictionaries(st.text(max_size=5), values, max_size=3).map(lambda value: Raw(encode(value)))
messages = st.one_of(
    st.builds(JsonRpcRequest, ids, st.text(max_size=10), params),
    st.builds(JsonRpcNotification, st.text(max_size=10), params),
    st.builds(JsonRpcResponse, ids, params),
    st.builds(
        JsonRpcErrorResponse, ids, st.builds(ErrorData, st.integers(-40000, -1), st.text(min_size=1, max_size=10))
    ),
)


@pytest.mark.req("base.jsonrpc.version")
@pytest.mark.req("stdio.framing")
@pytest.mark.req("base.utf8")
@given(messages)
def test_output_is_one_line_and_round_trips(message: JsonRpcMessage) -> None:
    line = serialize_message(message)
    assert b"\n" not in line
    assert json.loads(line)["jsonrpc"] == "2.0"
    again = parse_message(line)
    assert type(again) is type(message)
    assert serialize_message(again) == line


@given(st.binary(max_size=200) | values.map(encode))
def test_reading_raises_one_kind_of_error_for_any_input(line: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        parse_message(line)


@pytest.mark.req("base.id.type")
@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "result": {}},
        {"jsonrpc": "1.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "id": None, "method": "x"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "x"},
        {"jsonrpc": "2.0", "id": None, "result": {}},
        {"jsonrpc": "2.0", "result": {}},
        {"jsonrpc": "2.0", "ID": 1, "Result": {}},
        {"jsonrpc": "2.0", "id": True, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "x", "result": {}},
        [],
        5,
    ],
)
def test_an_invalid_message_is_refused(message: Any) -> None:
    with pytest.raises(MalformedMessage):
        parse_message(json.dumps(message).encode())


def test_a_null_result_is_a_result_and_an_error_may_have_no_id() -> None:
    assert isinstance(parse_message(b'{"jsonrpc":"2.0","id":1,"result":null}'), JsonRpcResponse)
    for text in (b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}', b'{"jsonrpc":"2.0","id":null,"error":{}}'):
        error = parse_message(text)
        assert isinstance(error, JsonRpcErrorResponse)
        assert error.id is None


@pytest.mark.parametrize("levels", [5_000, 100_000, 2_000_000])
def test_deep_nesting_is_an_error_and_not_a_crash(levels: int) -> None:
    with pytest.raises(MalformedMessage):  # how many levels of a raw result are passed over depends on the Python
        loads(parse_result(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * levels + b"]" * levels + b"}"))


def parse_result(message: bytes) -> Raw:
    response = parse_message(message)
    assert isinstance(response, JsonRpcResponse)
    return response.result


@pytest.mark.req("tools.call.request")
def test_calls_have_the_form_of_the_specification() -> None:
    assert encode(CallTool("x")) == b'{"name":"x","arguments":{}}'
    assert encode(CallTool("x", Raw(b'{"a":1.0}'))) == b'{"name":"x","arguments":{"a":1.0}}'
    assert encode(ListTools()) == b"{}"
    assert encode(ListTools(cursor="")) == b'{"cursor":""}'


@pytest.mark.req("tools.content.unknown")
def test_an_unknown_or_invalid_block_is_kept_as_received() -> None:
    assert parse_content_block(Raw(b'{"type":"text","text":"x","more":1}')) == TextContent("x")
    for text in (b'{"type":"hologram","x":1}', b'{"type":"text","text":5}', b"5", b'{"text":"x"}', b'{"type":7}'):
        kept = parse_content_block(Raw(text))
        assert isinstance(kept, UnknownContent)
        assert bytes(kept.raw) == text
    assert parse_content_block(Raw(b'{"type":"hologram"}')).type == "hologram"  # type: ignore[union-attr]


@pytest.mark.req("base.notification.unknown-ignored")
def test_notices_and_asks_come_as_their_kind() -> None:
    said = parse_notification("notifications/progress", Raw(b'{"progressToken":"a","progress":1,"total":2.5}'))
    assert said == ProgressNotification("a", 1, 2.5)
    assert isinstance(parse_notification("notifications/new", Raw()), UnknownNotification)
    assert run_steps(parse_server_request("roots/list", Raw())) == ListRoots()
    asked = run_steps(parse_server_request("elicitation/create", Raw(b'{"message":"?"}')))
    assert isinstance(asked, Elicit)
    assert asked.mode == "form"
    with pytest.raises(MalformedMessage):
        run_steps(parse_server_request("tools/list", Raw()))
    assert parse_notification("notifications/progress", Raw(b"{}")) is None


def test_half_a_character_costs_itself_and_not_the_answer() -> None:
    sent = rb'{"jsonrpc":"2.0","id":1,"result":{"a":"cut \ud83d","b":"\ud83d\ude00 \\ud83d \udE00","c":"\u00e9"}}'
    message = parse_message(sent)
    assert isinstance(message, JsonRpcResponse)
    assert loads(message.result) == {"a": "cut \ufffd", "b": "\U0001f600 \\ud83d \ufffd", "c": "\u00e9"}


@pytest.mark.parametrize(
    "message", [{"id": "i" * 1_001, "method": "ping"}, {"id": "i" * 1_001, "result": {}}, {"method": "m" * 1_001}]
)
def test_an_id_or_a_method_of_more_than_a_thousand_characters_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage, match="1,001 characters"):
        parse_message(json.dumps({"jsonrpc": "2.0", **message}).encode())
