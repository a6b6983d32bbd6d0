"""Tests for server features other than tools, with a real Host and a scripted in-process server."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.errors import RequestRefused, UnsupportedCapability, UsageError
from mcphost.host.servers import features
from mcphost.protocol.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.prompts import PromptReference, ResourceTemplateReference
from mcphost.serialization import Raw, encode
from tests.spec.manifest import REVISIONS
from tests.unit.client.scripted_server import ALL_CAPABILITIES, ScriptedServer
from tests.unit.host.host_events import LIST_RESULT_KEYS
from tests.unit.host.scripted_host import open_peer_host

pytestmark = pytest.mark.anyio


def server_with_lists(answers: Any, revision: str = "2025-11-25", **lists: list[Any]) -> ScriptedServer:
    """Return a server with these lists; *answers*, called with a method and params, handles all other requests."""

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method in LIST_RESULT_KEYS:
            return {"resultType": "complete", LIST_RESULT_KEYS[method]: lists.get(LIST_RESULT_KEYS[method], [])}
        return answers(method, params)

    return ScriptedServer(script, revision)


def request_params(peer: ScriptedServer, method: str) -> list[dict[str, Any]]:
    """Return the params of each request with this method, without the members that every request has."""
    requests = [message.get("params", {}) for message in peer.seen if message.get("method") == method]
    return [{key: value for key, value in params.items() if key != "_meta"} for params in requests]


# -- completion
@pytest.mark.req("comp.request")
@pytest.mark.req("comp.context")
@pytest.mark.req("comp.context-not-before")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_completion_sends_the_typed_and_the_filled_in_values(revision: str, tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {"resultType": "complete", "completion": {"values": ["Sales"]}}, revision)
    async with open_peer_host(tmp_path, peer) as host:
        prompt, template = PromptReference("p"), ResourceTemplateReference("a://{x}/{y}")
        found = await host.features.complete("peer", prompt, "department", "S")
        await host.features.complete("peer", template, "y", "", {"x": "1"})
    assert (found.values, found.has_more, found.total) == (("Sales",), False, None)
    context = {"context": {"arguments": {"x": "1"}}} if revision >= "2025-06-18" else {}
    assert request_params(peer, "completion/complete") == [
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "department", "value": "S"}},
        {"ref": {"type": "ref/resource", "uri": "a://{x}/{y}"}, "argument": {"name": "y", "value": ""}, **context},
    ]


@pytest.mark.req("comp.capability")
@pytest.mark.parametrize("revision", REVISIONS[1:])
async def test_a_server_that_declared_no_completions_is_not_asked(revision: str, tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {"completion": {"values": []}}, revision)
    peer.capabilities = {"prompts": {}}
    async with open_peer_host(tmp_path, peer) as host:
        with pytest.raises(UnsupportedCapability):
            await host.features.complete("peer", PromptReference("p"), "a", "")
    assert "completion/complete" not in peer.methods()


@pytest.mark.req("comp.capability-2024")
async def test_an_old_server_is_tried_once_and_not_again_when_it_knows_no_completion(tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: ErrorData(-32601, "unknown"), "2024-11-05")
    async with open_peer_host(tmp_path, peer) as host:
        for error in (RequestRefused, UnsupportedCapability, UnsupportedCapability):
            with pytest.raises(error):
                await host.features.complete("peer", PromptReference("p"), "a", "")
    assert peer.methods().count("completion/complete") == 1


@pytest.mark.req("comp.max-100")
@pytest.mark.parametrize(
    ("completion", "count", "more"),
    [
        ({"values": [str(n) for n in range(150)]}, 100, True),
        ({"values": ["a"], "total": 900}, 1, True),
        ({"values": ["a"], "hasMore": True}, 1, True),
        ({"values": ["a"], "total": 1, "hasMore": False}, 1, False),
        ({"values": [], "total": 0.0}, 0, False),
        ({"values": ["x" * 9_000, "b"]}, 1, False),
    ],
)
async def test_a_hundred_values_are_taken_and_more_are_indicated(
    completion: dict[str, Any], count: int, more: bool, tmp_path: Path
) -> None:
    async with open_peer_host(tmp_path, server_with_lists(lambda *_: {"completion": completion})) as host:
        found = await host.features.complete("peer", PromptReference("p"), "a", "")
    assert (len(found.values), found.has_more) == (count, more)


@pytest.mark.req("comp.cache")
async def test_the_same_question_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = server_with_lists(lambda *_: {"completion": {"values": ["x"]}})
    monkeypatch.setattr(features, "COMPLETION_CACHE_SIZE", 3)
    async with open_peer_host(tmp_path, peer) as host:
        for context in ({}, {"b": "1"}, {"b": "2"}):
            for _ in range(3):
                await host.features.complete("peer", PromptReference("p"), "a", "v", context)
        assert peer.methods().count("completion/complete") == 3
        await host.features.complete("peer", PromptReference("p"), "a", "w")  # one too many: the oldest is dropped
        await host.features.complete("peer", PromptReference("p"), "a", "v")
        assert peer.methods().count("completion/complete") == 5


# -- resources
@pytest.mark.req("res.read")
@pytest.mark.req("res.scheme.any")
@pytest.mark.parametrize(
    "uri",
    ["file:///etc/passwd", "FILE://Host/%7e/../x", "git://repo?ref=main#L1", "https://example.org/a b", "urn:x:y",
     "x:ü", "no scheme at all", "custom+a.b-c:1", " a://padded "],
)  # fmt: skip
async def test_any_url_is_passed_to_the_server_unchanged(uri: str, tmp_path: Path) -> None:
    def answers(method: str, params: dict[str, Any]) -> Any:
        return {"contents": [{"uri": params["uri"], "text": "from the server"}]}

    peer = server_with_lists(answers)
    async with open_peer_host(tmp_path, peer) as host:
        read = await host.features.read_resource("peer", uri)
    assert request_params(peer, "resources/read") == [{"uri": uri}]
    assert read.contents[0].text == "from the server"


@pytest.mark.req("res.read.many")
@pytest.mark.req("res.read.empty")
async def test_a_read_may_give_several_contents_or_none(tmp_path: Path) -> None:
    several = [
        {"uri": "d://x/1", "text": "one", "mimeType": "text/plain"},
        {"uri": "d://x/2", "blob": "AAE=", "mimeType": "image/png", "_meta": {"k": 1}},
        {"uri": "d://x/3", "text": ""},
    ]
    answers = [{"contents": several}, {"contents": []}]
    async with open_peer_host(tmp_path, server_with_lists(lambda *_: answers.pop(0))) as host:
        read = await host.features.read_resource("peer", "d://x")
        assert [(content.uri, content.text, content.blob) for content in read.contents] == [
            ("d://x/1", "one", None),
            ("d://x/2", None, "AAE="),
            ("d://x/3", "", None),
        ]
        assert (await host.features.read_resource("peer", "d://x")).contents == ()


@pytest.mark.req("res.not-found.32602")
@pytest.mark.req("res.not-found.32002")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ErrorData(-32002, "Resource not found"), "has no resource 'a://1'"),
        (ErrorData(-32602, "Resource a://1 not found"), "does not have or accept the resource 'a://1'"),
    ],
)
@pytest.mark.parametrize("data", [None, {"uri": "a://named"}, {"uri": 5}, "text"])
async def test_a_missing_resource_is_reported_in_words(error: ErrorData, words: str, data: Any, tmp_path: Path) -> None:
    full = ErrorData(error.code, error.message, Raw(encode(data))) if data is not None else error
    async with open_peer_host(tmp_path, server_with_lists(lambda *_: full)) as host:
        with pytest.raises(RequestRefused) as exc_info:
            await host.features.read_resource("peer", "a://1")
    named = isinstance(data, dict) and isinstance(data["uri"], str)
    assert words.replace("'a://1'", "'a://named'" if named else "'a://1'") in exc_info.value.message
    assert error.message in exc_info.value.message
    assert exc_info.value.code == error.code
    assert exc_info.value.hint == "Choose one from the list of its resources."


async def test_an_address_without_end_is_not_sent(tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {"contents": []})
    async with open_peer_host(tmp_path, peer) as host:
        for uri in ("", "x:" + "y" * 70_000):
            for do in (host.features.read_resource, host.features.subscribe):
                with pytest.raises(UsageError):
                    await do("peer", uri)
    assert peer.seen == []


# -- prompts
REVIEW = {"name": "review", "arguments": [{"name": "code", "required": True}, {"name": "tone"}]}


@pytest.mark.req("prompts.args.form")
@pytest.mark.req("prompts.args.strings")
async def test_a_prompt_without_its_required_arguments_is_not_requested(tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {"messages": []}, prompts=[REVIEW])
    async with open_peer_host(tmp_path, peer) as host:
        with pytest.raises(UsageError, match="'review' of 'peer' needs code"):
            await host.features.get_prompt("peer", "review", {"tone": "kind"})
        await host.features.get_prompt("peer", "review", {"code": "1"})
        await host.features.get_prompt("peer", "not listed", {})
    assert request_params(peer, "prompts/get") == [
        {"name": "review", "arguments": {"code": "1"}},
        {"name": "not listed"},
    ]


@pytest.mark.req("prompts.content.types")
@pytest.mark.req("prompts.get.messages")
async def test_every_kind_of_content_arrives_in_order_with_its_role(tmp_path: Path) -> None:
    contents: list[dict[str, Any]] = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": "AAE=", "mimeType": "image/png"},
        {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a://1", "text": "embedded"}},
        {"type": "resource_link", "uri": "a://2", "name": "two"},
    ]
    messages = [{"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(contents)]
    async with open_peer_host(
        tmp_path, server_with_lists(lambda *_: {"description": "All", "messages": messages})
    ) as host:
        filled = await host.features.get_prompt("peer", "p", {})
    assert filled.description == "All"
    assert [message.role for message in filled.messages] == ["user", "assistant", "user", "assistant", "user"]
    kinds = [type(message.parse_content()) for message in filled.messages]
    assert kinds == [TextContent, ImageContent, AudioContent, EmbeddedResource, ResourceLink]


@pytest.mark.req("prompts.list")
@pytest.mark.req("res.list")
async def test_lists_that_were_not_declared_are_not_asked_for(tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {})
    peer.capabilities = {"tools": {}}
    async with open_peer_host(tmp_path, peer) as host:
        await host.servers.ensure_ready("peer")
        with pytest.raises(UnsupportedCapability):
            await host.features.get_prompt("peer", "p", {})
    assert peer.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/list"]


@pytest.mark.req("res.fields")
async def test_the_description_of_a_resource_is_in_the_catalog(tmp_path: Path) -> None:
    full = {
        "uri": "a://1", "name": "n", "title": "T", "description": "D", "mimeType": "text/plain", "size": 12,
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
        "icons": [{"src": "https://x/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    }  # fmt: skip
    async with open_peer_host(
        tmp_path, server_with_lists(lambda *_: {}, resources=[full, {"uri": "a://2", "name": "m"}])
    ) as host:
        view = await host.servers.ensure_ready("peer")
    one, two = view.catalog.resources
    assert (one.name, one.title, one.description, one.mime_type, one.size) == ("n", "T", "D", "text/plain", 12)
    assert one.annotations is not None
    assert one.annotations.audience == ("user",)
    assert one.icons[0].src == "https://x/i.png"
    assert (two.title, two.size, two.annotations, two.icons) == (None, None, None, ())


# -- logs
@pytest.mark.req("log.level.legacy")
async def test_a_level_from_the_configuration_or_the_user_is_sent_once_each(tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {})
    async with open_peer_host(tmp_path, peer, log_level="warning") as host:
        await host.servers.ensure_ready("peer")
        await peer.wait_until(lambda: "logging/setLevel" in peer.methods())
        await host.features.set_log_level("peer", "debug")
        with pytest.raises(UsageError, match="debug, info, notice"):
            await host.features.set_log_level("peer", "verbose")
    assert request_params(peer, "logging/setLevel") == [{"level": "warning"}, {"level": "debug"}]


@pytest.mark.req("log.level.legacy")
async def test_no_log_level_is_sent_unless_chosen_and_declared(tmp_path: Path) -> None:
    silent, plain = server_with_lists(lambda *_: {}), server_with_lists(lambda *_: {})
    plain.capabilities = {key: value for key, value in ALL_CAPABILITIES.items() if key != "logging"}
    (tmp_path / "b").mkdir()
    async with open_peer_host(tmp_path, silent) as host:
        await host.servers.ensure_ready("peer")
        await anyio.wait_all_tasks_blocked()
    async with open_peer_host(tmp_path / "b", plain, log_level="info") as host:
        await host.servers.ensure_ready("peer")
        with pytest.raises(UnsupportedCapability):
            await host.features.set_log_level("peer", "debug")
        await anyio.wait_all_tasks_blocked()
        assert any("The log level could not be set" in line.text for line in host.servers.view("peer").log)
    assert "logging/setLevel" not in silent.methods() + plain.methods()


@pytest.mark.req("log.level.error")
@pytest.mark.parametrize("code", [-32601, -32602])
async def test_a_refused_level_leaves_the_session_intact(code: int, tmp_path: Path) -> None:
    peer = server_with_lists(
        lambda method, _: ErrorData(code, "no") if method == "logging/setLevel" else {"messages": []}
    )
    async with open_peer_host(tmp_path, peer, log_level="info") as host:
        await host.servers.ensure_ready("peer")
        await peer.wait_until(lambda: bool(request_params(peer, "logging/setLevel")))
        with pytest.raises(RequestRefused):
            await host.features.set_log_level("peer", "debug")
        await host.features.get_prompt("peer", "p", {})
        assert host.servers.view("peer").state == "ready"
    assert request_params(peer, "logging/setLevel") == [{"level": "info"}, {"level": "debug"}]
    assert peer.methods().count("initialize") == 1


def requested_levels(peer: ScriptedServer, method: str) -> list[Any]:
    """Return the log level that each request with this method asks for, or None where it asks for none."""
    requests = [message["params"]["_meta"] for message in peer.seen if message.get("method") == method]
    return [meta.get("io.modelcontextprotocol/logLevel") for meta in requests]


@pytest.mark.req("log.level.modern")
@pytest.mark.req("log.level.modern-off")
async def test_a_stateless_server_is_asked_for_logs_with_every_request_and_only_when_wanted(tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {"resultType": "complete", "messages": []}, "2026-07-28")
    async with open_peer_host(tmp_path, peer) as host:
        await host.features.get_prompt("peer", "p", {})
        await host.features.set_log_level("peer", "error")
        await host.features.get_prompt("peer", "p", {})
        await host.features.set_log_level("peer", "")
        await host.features.get_prompt("peer", "p", {})
    assert requested_levels(peer, "prompts/get") == [None, "error", None]
    assert requested_levels(peer, "prompts/list") == [None]
    assert "logging/setLevel" not in peer.methods()


@pytest.mark.req("log.message")
async def test_a_log_message_is_in_the_servers_log_with_its_logger(tmp_path: Path) -> None:
    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method == "tools/list":
            return {"resultType": "complete", "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        if method == "tools/call":
            said = {"level": "warning", "logger": "disk", "data": {"free": 0}}
            peer.say(method="notifications/message", params=said)
            return {"resultType": "complete", "content": []}
        return {"resultType": "complete"}

    peer = ScriptedServer(script, "2026-07-28", {"tools": {}})
    async with open_peer_host(tmp_path, peer, log_level="info") as host:
        await host.tools.call("peer", "t", {})
        await anyio.wait_all_tasks_blocked()
        (line,) = host.servers.view("peer").log
    assert (line.level, line.logger, line.text, line.source) == ("warning", "disk", '{"free": 0}', "server")


# -- refresh, round trip
async def test_an_explicit_refresh_asks_however_fresh_everything_is(tmp_path: Path) -> None:
    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        fresh = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public"}
        return {**fresh, LIST_RESULT_KEYS[method]: []} if method in LIST_RESULT_KEYS else {**fresh, "contents": []}

    peer = ScriptedServer(script, "2026-07-28")
    async with open_peer_host(tmp_path, peer) as host:
        for _ in range(2):
            await host.features.read_resource("peer", "a:1")
        await host.features.refresh("peer")
        for fresh in (False, False, True):
            await host.features.read_resource("peer", "a:1", bypass_cache=fresh)
    assert [peer.methods().count(method) for method in (*LIST_RESULT_KEYS, "resources/read")] == [2, 2, 2, 2, 3]


@pytest.mark.parametrize(("revision", "method"), [("2025-11-25", "ping"), ("2026-07-28", "server/discover")])
async def test_a_round_trip_is_measured_with_the_smallest_request(revision: str, method: str, tmp_path: Path) -> None:
    peer = server_with_lists(lambda *_: {}, revision)
    async with open_peer_host(tmp_path, peer) as host:
        await host.servers.ensure_ready("peer")
        before = peer.methods().count(method)
        for _ in range(2):
            assert 0 < await host.features.measure_round_trip("peer") < 5
        assert peer.methods().count(method) == before + 2
