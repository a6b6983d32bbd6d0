"""Tests that HTTP exchanges are logged with their headers, status, duration and size, and without secrets."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcphost.errors import MalformedMessage, ServerError
from mcphost.host.message_log_export import export_json_lines, make_curl_command
from mcphost.http_log import LoggedExchange, show_headers
from mcphost.message_log import MAX_EXCHANGE_BYTES, MAX_EXCHANGES, MAX_MESSAGE_BYTES, MessageLog
from mcphost.protocol.jsonrpc import JsonRpcNotification, JsonRpcRequest
from mcphost.protocol.revisions import Revision
from mcphost.redact import PLACEHOLDER, register_secret
from mcphost.transport.channel import Channel
from mcphost.transport.streamable_http import HttpConnector
from tests.event_loop import wait_until
from tests.unit.transport.raw_http import RawServer, ReceivedRequest, serve

pytestmark = pytest.mark.anyio

SESSION = "session-1234567890-abcdefghij"
TOKEN = "t0p" + "Secret" * 5


@asynccontextmanager
async def open_logged(
    handler: Callable[[ReceivedRequest], Awaitable[object]], headers: Mapping[str, str] | None = None, path: str = ""
) -> AsyncGenerator[tuple[Channel, MessageLog, RawServer]]:
    log = MessageLog()
    async with serve(handler) as server:
        connector = HttpConnector("far", server.url + path, headers or {}, warn=list[str]().append)
        connector.message_log = log
        async with connector.connect() as channel:
            yield channel, log, server


async def ask(channel: Channel, method: str = "ping", number: int = 1) -> list[object]:
    async with channel.exchange(JsonRpcRequest(number, method)) as messages:
        return [message async for message in messages]


def shown(exchange: LoggedExchange) -> tuple[dict[str, str], dict[str, str]]:
    return dict(show_headers(exchange.request_headers)), dict(show_headers(exchange.response_headers))


async def test_a_post_is_logged_with_status_time_size_and_headers() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.result({}, X_Note="hello")

    async with open_logged(answer, {"Accept-Language": "eu"}) as (channel, log, server):
        await ask(channel)
        (exchange,) = log.exchanges()
        received = len(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}))
        assert (exchange.verb, exchange.target, exchange.status) == ("POST", "/mcp", 200)
        assert exchange.shown_url() == server.url
        assert (exchange.outcome, exchange.rpc_method, exchange.content_type) == (
            "complete",
            "ping",
            "application/json",
        )
        assert (exchange.response_size, exchange.request_size) == (received, len(server.seen[0].body))
        assert exchange.head_seconds is not None
        assert exchange.seconds is not None
        assert 0 < exchange.head_seconds <= exchange.seconds
        sent, came = shown(exchange)
        assert sent == server.seen[0].headers
        assert came["x-note"] == "hello"


async def test_messages_and_exchanges_have_one_order() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.result({})

    async with open_logged(answer) as (channel, log, _server):
        await ask(channel)
        numbers = [one.number for one in (*log.messages(), *log.exchanges())]
        assert numbers == [1, 3, 2], "the exchange stands between the request and its response"


async def test_credentials_never_enter_the_log() -> None:
    theirs = TOKEN[::-1]

    async def answer(request: ReceivedRequest) -> None:
        await request.result(
            {},
            Set_Cookie=f"sid={theirs}; Path=/",
            X_Api_Key=theirs,
            Location=f"/next?code={theirs}&mcp_session_id={theirs}",
        )

    secret_headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Cookie": f"a={TOKEN}",
        "DPoP": TOKEN,
        "Proxy-Authorization": f"Basic {TOKEN}",
        "X-Auth-Token": TOKEN,
    }
    async with open_logged(answer, secret_headers, f"?session_id={theirs}&token={theirs}") as (channel, log, _server):
        await ask(channel)
        (exchange,) = log.exchanges()
        sent, came = shown(exchange)
        shown_texts = str((sent, came, exchange.shown_url(), exchange.target))
        assert TOKEN not in shown_texts
        assert theirs not in shown_texts
        kept = str(exchange.request_headers)
        assert TOKEN not in kept, "credentials are not even kept in memory"
        assert sent["authorization"] == f"Bearer {PLACEHOLDER}"
        assert sent["proxy-authorization"] == f"Basic {PLACEHOLDER}"
        assert {sent[name] for name in ("cookie", "dpop", "x-auth-token")} == {PLACEHOLDER}
        assert came["set-cookie"] == came["x-api-key"] == PLACEHOLDER
        assert came["location"] == f"/next?code={PLACEHOLDER}&mcp_session_id={theirs[:8]}…"
        assert exchange.target == f"/mcp?session_id={theirs[:8]}…&token={PLACEHOLDER}"


async def test_a_configured_header_is_masked_by_its_value_whatever_its_name_is() -> None:
    async def answer(request: ReceivedRequest) -> None:
        heard = request.headers
        await request.result(
            {"heard": dict(heard)}, X_Team=heard["x-team"], X_Note=f"you are {heard['x-team']}", X_Kind=heard["x-kind"]
        )

    headers = {"X-Team": "hunter2hunter2", "X-Kind": "abc", "X-Odd": 'say "hunter3hunter3"', "Accept-Language": "de-CH"}
    async with open_logged(answer, headers, "?team=hunter2hunter2") as (channel, log, _server):
        await ask(channel)
        (exchange,) = log.exchanges()
        sent, came = shown(exchange)
        assert {sent[name] for name in ("x-team", "x-kind", "x-odd")} == {PLACEHOLDER}
        assert (sent["accept-language"], sent["content-type"]) == ("de-CH", "application/json")
        assert (came["x-team"], came["x-kind"], came["x-note"]) == (PLACEHOLDER, PLACEHOLDER, f"you are {PLACEHOLDER}")
        assert "hunter" not in exchange.shown_url() + exchange.template_url() + exchange.target
        saved = export_json_lines([*log.messages(), *log.exchanges()])
        assert "hunter" not in saved, "a message in which the server repeats the headers is masked, too"
        assert saved.count("x-team") == 3, "names stay"
        assert "hunter" not in make_curl_command(exchange)[0]
    log.add("received", b'{"jsonrpc":"2.0","method":"x","params":"abc hunter2hunter2"}' + b" " * MAX_MESSAGE_BYTES)
    assert "abc" in log.messages()[-1].to_text(), "a short word stays readable"
    assert "hunter" not in log.messages()[-1].to_text()


async def test_entries_keep_masking_the_headers_of_their_time() -> None:
    log = MessageLog()
    log.hide_headers({"X-Team": "hunter2hunter2"})
    log.add("received", b'{"was":"hunter2hunter2"}')
    log.hide_headers({"X-Team": "hunter4hunter4"})
    log.add("received", b'{"is":"hunter4hunter4","was":"hunter2hunter2"}')
    assert [one.to_text() for one in log.messages()] == ['{"was":"[secret]"}', '{"is":"[secret]","was":"[secret]"}']


async def test_a_challenge_stays_readable_but_its_credentials_do_not() -> None:
    challenge = 'Bearer error="invalid_token", resource_metadata="https://as.example/.well-known/x", Negotiate '

    async def answer(request: ReceivedRequest) -> None:
        await request.reply(401, b"{}", WWW_Authenticate=challenge + TOKEN)

    async with open_logged(answer) as (channel, log, _server):
        with pytest.raises(ServerError, match="sign-in"):
            await ask(channel)
        (exchange,) = log.exchanges()
        assert (exchange.status, exchange.is_problem) == (401, True)
        shown_challenge = shown(exchange)[1]["www-authenticate"]
        assert shown_challenge == challenge + PLACEHOLDER


async def test_a_refused_redirect_and_each_followed_one_are_rows_of_their_own() -> None:
    async def answer(request: ReceivedRequest) -> None:
        place = "/other" if request.path == "/mcp" else "https://evil.example/mcp"
        await request.reply(307, Location=place)

    async with open_logged(answer) as (channel, log, _server):
        with pytest.raises(MalformedMessage, match="another origin"):
            await ask(channel)
        first, second = log.exchanges()
        assert (first.target, first.outcome) == ("/mcp", "complete")
        assert (second.target, second.outcome) == ("/other", "failed")
        assert "not followed" in second.error


async def test_the_get_stream_its_loss_and_the_delete_are_logged() -> None:
    async def answer(request: ReceivedRequest) -> object:
        if request.method == "GET":
            await request.stream()
            await request.event({"method": "notifications/message", "params": {"level": "info", "data": 1}})
            return False
        if request.method == "DELETE":
            await request.reply(405)
        elif "id" in request.message:
            await request.result({}, Mcp_Session_Id=SESSION)
        else:
            await request.reply(202)
        return True

    async with open_logged(answer) as (channel, log, _server):
        channel.set_revision(Revision.V2025_06_18)
        await ask(channel, "initialize")
        await channel.send(JsonRpcNotification("notifications/initialized"))
        await wait_until(lambda: any(one.verb == "GET" and one.outcome != "open" for one in log.exchanges()))
    by_verb: dict[str, LoggedExchange] = {}
    for one in log.exchanges():
        by_verb.setdefault(one.verb, one)
    assert by_verb["GET"].is_event_stream
    assert by_verb["GET"].response_size > 0
    assert by_verb["GET"].outcome == "complete"
    assert by_verb["DELETE"].status == 405
    assert shown(by_verb["DELETE"])[0]["mcp-session-id"] == SESSION[:8] + "…"
    assert [one.status for one in log.exchanges() if one.rpc_method == "notifications/initialized"] == [202]


async def test_a_request_that_is_sent_again_on_a_new_connection_says_so() -> None:
    async def answer(request: ReceivedRequest) -> object:
        received.append(request)
        if len(received) == 2:
            return False  # the reused connection is closed
        return await request.result({})

    received: list[ReceivedRequest] = []
    async with open_logged(answer) as (channel, log, _server):
        await ask(channel, number=1)
        await ask(channel, number=2)
        assert [one.resent for one in log.exchanges()] == [False, True]
    assert len(received) == 3


async def test_an_unreachable_server_is_visible() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.result({})

    async with serve(answer) as gone:
        url = gone.url
    connector = HttpConnector("far", url, {}, warn=list[str]().append)
    connector.message_log = log = MessageLog()
    async with connector.connect() as channel:
        with pytest.raises(ServerError):
            await ask(channel)
        (exchange,) = log.exchanges()
    assert (exchange.status, exchange.outcome) == (0, "failed")
    assert "refused" in exchange.error


def test_hostile_headers_are_bounded_in_count_and_size() -> None:
    log = MessageLog()
    exchange = log.add_exchange("POST", "http://h/mcp", (), b"")
    many = [(f"x-{number}", "v" * 500) for number in range(256)]
    exchange.on_response(200, [("x-long", "a" * 60_000), *many], resent=False)
    names = [name for name, _value in exchange.response_headers]
    assert len(names) <= 100
    assert exchange.omitted_headers == 257 - len(names)
    assert len(dict(show_headers(exchange.response_headers))["x-long"]) == 2_001
    assert exchange.logged_bytes < 25_000


def test_only_the_newest_exchanges_are_kept_and_their_bytes_are_bounded() -> None:
    log = MessageLog()
    for number in range(MAX_EXCHANGES + 7):
        log.add_exchange("GET", f"http://h/{number}", (), b"")
    assert [one.url for one in log.exchanges()][:1] == ["http://h/7"]
    first = log.exchanges()[0]
    for _number in range(200):
        log.add_exchange("POST", "http://h/mcp", (), b"x" * 60_000)
    first.end("complete")  # already dropped
    assert sum(one.logged_bytes for one in log.exchanges()) <= MAX_EXCHANGE_BYTES


def test_a_secret_at_the_cut_of_a_header_is_not_shown_in_part() -> None:
    log = MessageLog()
    key = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5pR7t"
    exchange = log.add_exchange("GET", "http://h/", (("x-note", "n" * 1_980 + " " + key),), b"")
    assert key[8:16] not in str(show_headers(exchange.request_headers))


def test_a_long_secret_at_the_cut_of_a_path_is_not_shown_in_part() -> None:
    register_secret(TOKEN * 4)
    exchange = MessageLog().add_exchange("GET", f"http://h/{'p' * 180}/{TOKEN * 4}/mcp", (), b"")
    assert TOKEN[:8] not in exchange.target
    exchange.end("failed", f"{'e' * 180} {TOKEN * 4}")
    assert TOKEN[:8] not in exchange.error


def test_a_token_that_is_named_after_a_session_is_not_shortened_but_masked() -> None:
    exchange = MessageLog().add_exchange(
        "GET", "http://h/", (("x-session-token", TOKEN), ("mcp-session-id", SESSION)), b""
    )
    assert show_headers(exchange.request_headers) == (("x-session-token", PLACEHOLDER), ("mcp-session-id", "session-…"))


@pytest.mark.parametrize(
    ("body", "method"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', "tools/list"),
        (b'{"id":"a","method":"tools/call","params":{},"jsonrpc":"2.0"}', "tools/call"),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', "notifications/initialized"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}', ""),
        (b"", ""),
    ],
)
def test_the_method_of_the_message_is_read_from_the_body(body: bytes, method: str) -> None:
    assert MessageLog().add_exchange("POST", "http://h/", (), body).rpc_method == method


def test_listeners_hear_of_the_response_and_of_the_end_once_each() -> None:
    log = MessageLog()
    seen: list[tuple[str, int]] = []
    log.on_exchange = lambda one: seen.append((one.outcome, one.status))
    exchange = log.add_exchange("GET", "http://h/", (), b"")
    exchange.on_response(200, [], resent=False)
    exchange.on_received(10)
    exchange.end("complete")
    exchange.end("closed")
    assert seen == [("open", 200), ("complete", 200)]


def test_the_log_of_a_session_renders_any_header_a_server_may_send() -> None:
    values: list[Any] = ["", "\x1b[31m", "é\x9b", "=" * 3_000, '"' * 3_000, "a=" * 1_500, "session" * 400]
    log = MessageLog()
    for name in ("www-authenticate", "x-session", "set-cookie", "location", "\x01odd"):
        for value in values:
            exchange = log.add_exchange("GET", "http://h/", ((name, value),), b"")
            assert len(show_headers(exchange.request_headers)) == 1
