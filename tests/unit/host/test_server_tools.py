"""Tests for tools in a whole host: lists, names, questions, calls, and their results."""

import logging
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import Limits
from mcphost.errors import RequestRefused
from mcphost.host import bootstrap
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.config_rules import ConfigRules
from mcphost.host.consent.grants import has_read_only_hint
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowSession, ApproveTool, Deny
from mcphost.host.server_views import find_drawable
from mcphost.host.servers.catalog import DEFINITION_LIMIT
from mcphost.protocol.jsonrpc import ErrorData, JsonRpcNotification
from mcphost.protocol.tools import Tool, ToolAnnotations
from mcphost.serialization import Raw
from tests.event_loop import wait_until
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_returns, tool_round
from tests.unit.host.asking_server import HANDSHAKE
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio
EVERY = (*HANDSHAKE, "2026-07-28")


# -- lists
@pytest.mark.req("tools.list.empty")
@pytest.mark.parametrize("revision", EVERY)
async def test_a_server_without_tools_is_as_good_as_any(tmp_path: Path, revision: str) -> None:
    model = ScriptedModel(text_round("hello"))
    async with open_host_with(tmp_path, create_peer(revision), model) as host:
        view = host.servers.view("peer")
        assert (view.state, view.catalog.tools, view.catalog.left_out) == ("ready", (), ())
        assert (await host.conversation.send("hi")).outcome == "done"
    assert model.requests[0].tools == ()


@pytest.mark.req("tools.list-changed.undeclared")
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_change_counts_even_from_a_server_that_did_not_declare_list_changed(
    tmp_path: Path, revision: str
) -> None:
    peer = create_peer(revision, tools__list=tools_result(tool_definition("one")))
    async with open_host_with(tmp_path, peer) as host:
        feed = host.events.subscribe()
        peer.answers["tools/list"] = tools_result(tool_definition("one"), tool_definition("two"))
        peer.send(JsonRpcNotification("notifications/tools/list_changed", Raw()))
        with anyio.fail_after(20):
            async for _ in feed:
                if len(host.servers.view("peer").catalog.tools) == 2:
                    break


@pytest.mark.req("tools.list.not-per-connection")
async def test_listings_of_one_connection_are_kept_for_the_next_with_names_and_approvals(tmp_path: Path) -> None:
    listed = tools_result(tool_definition("b.c"), tool_definition("a"))
    peers = {"peer": create_peer(tools__list=listed, tools__call=text_result("one"))}
    model = ScriptedModel(tool_round(("peer__a", {})), text_round("ok"), tool_round(("peer__a", {})), text_round("ok"))
    frontend = ScriptedFrontend(AllowAlways())
    async with open_host_with(tmp_path, peers, model, frontend) as host:
        await host.conversation.send("first")

        def list_again(params: dict[str, Any]) -> dict[str, Any]:
            seen.append([tool.name for tool in host.servers.view("peer").catalog.tools])
            return listed

        seen: list[list[str]] = []
        peers["peer"] = create_peer(tools__list=list_again, tools__call=text_result("two"))
        host.servers.restart("peer")
        await host.servers.ensure_ready("peer")
        await host.conversation.send("second")
    assert seen == [["b.c", "a"]], "before the new connection has a list"
    assert len(frontend.asked) == 1
    assert model.requests[0].tools == model.requests[-1].tools
    assert [part.text for part in tool_returns(model)] == ["two"]


async def test_a_tool_whose_definition_is_over_a_megabyte_is_left_out_and_that_is_reported(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("ok"))
    peer = create_peer(
        tools__list=tools_result(tool_definition("small"), tool_definition("big", description="d" * DEFINITION_LIMIT))
    )
    async with open_host_with(tmp_path, peer, model) as host:
        catalog = host.servers.view("peer").catalog
        assert [tool.name for tool in catalog.tools] == ["small"]
        assert catalog.left_out == ("The tool 'big' was left out: its definition is over 1 MB.",)
        await host.conversation.send("hi")
    assert [tool.name for tool in model.requests[0].tools] == ["peer__small"]


@pytest.mark.req("tools.name.duplicate")
async def test_of_two_tools_with_one_name_the_first_is_used_and_the_other_is_reported(tmp_path: Path) -> None:
    listed = tools_result(
        tool_definition("same", description="first"),
        tool_definition("same", description="second"),
        tool_definition("Same"),
    )
    async with open_host_with(tmp_path, create_peer(tools__list=listed)) as host:
        catalog = host.servers.view("peer").catalog
    assert [(tool.name, tool.description) for tool in catalog.tools] == [("same", "first"), ("Same", None)]
    assert "'same'" in catalog.left_out[0]


# -- names
@pytest.mark.req("tools.name.charset", "tools.name.alias-length")
@pytest.mark.parametrize("name", ["a.b/c", "ÄÖ ü", "x" * 128, "x" * 400, "🦊", "a\x1b[31m", "Get", "get", "-", "__"])
async def test_a_tool_of_any_name_has_an_alias_for_the_model_and_is_called_by_its_name(
    tmp_path: Path, name: str
) -> None:
    peer = create_peer(
        tools__list=tools_result(tool_definition(name), tool_definition("get"), tool_definition("GET")),
        tools__call=text_result("done"),
    )
    model = ScriptedModel(text_round("hm"))
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(AllowOnce())) as host:
        await host.conversation.send("look")
        aliases = {spec.name for spec in model.requests[0].tools}
        assert len(aliases) == len(host.servers.view("peer").catalog.tools)
        assert all(len(alias) <= 64 and alias.replace("-", "_").isidentifier() and alias.isascii() for alias in aliases)
        alias = next(spec.name for spec in model.requests[0].tools if spec.description == name.replace("\x1b", ""))
        model.rounds += [tool_round((alias, {})), text_round("ok")]
        await host.conversation.send("call it")
        assert {spec.name for spec in model.requests[-1].tools} == aliases
    assert peer.asked("tools/call")[0]["name"] == name


@pytest.mark.req("tools.name.collision")
async def test_servers_are_identified_by_their_configured_names(tmp_path: Path) -> None:
    named = {
        name: create_peer(
            info={"name": "github"},
            tools__list=tools_result(tool_definition("search")),
            tools__call=text_result(f"from {name}"),
        )
        for name in ("left", "right")
    }
    model = ScriptedModel(tool_round(("left__search", {}), ("right__search", {})), text_round("ok"))
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    async with open_host_with(tmp_path, named, model, frontend) as host:
        await host.conversation.send("both")
    assert [spec.name for spec in model.requests[0].tools] == ["left__search", "right__search"]
    assert [part.text for part in tool_returns(model)] == ["from left", "from right"]


@pytest.mark.req("tools.order")
async def test_the_model_gets_tools_in_the_same_order_whatever_the_order_of_the_list(tmp_path: Path) -> None:
    orders: list[list[str]] = []
    for number, names in enumerate((["b", "a", "c"], ["c", "b", "a"])):
        model = ScriptedModel(text_round("hm"))
        (folder := tmp_path / str(number)).mkdir()
        peers = {name: create_peer(tools__list=tools_result(*map(tool_definition, names))) for name in ("z", "y")}
        async with open_host_with(folder, peers, model) as host:
            await host.conversation.send("look")
        orders.append([spec.name for spec in model.requests[0].tools])
    assert orders[0] == orders[1] == ["z__a", "z__b", "z__c", "y__a", "y__b", "y__c"]


@pytest.mark.req("tools.title-order")
@pytest.mark.parametrize(
    ("title", "annotated", "label"),
    [("T", "A", "T"), (None, "A", "A"), (None, None, "n"), ("", "", "n"), ("", "A", "A")],
)
async def test_the_title_is_displayed_and_the_name_is_used_for_calls(
    tmp_path: Path, title: str | None, annotated: str | None, label: str
) -> None:
    definition = tool_definition("n", title=title, annotations={"title": annotated})
    peer = create_peer(tools__list=tools_result(definition), tools__call=text_result("x"))
    model = ScriptedModel(tool_round(("peer__n", {})), text_round("ok"))
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peer, model, frontend) as host:
        await host.conversation.send("go")
    assert Tool("n", title, annotations=ToolAnnotations(annotated)).display_name == label
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert (question.tool, question.claims.title) == ("n", None if label == "n" else label)
    assert peer.asked("tools/call")[0]["name"] == "n"


# -- claims
@pytest.mark.req("tools.annotations.untrusted")
@pytest.mark.parametrize("revision", EVERY[1:])
async def test_no_claim_of_a_tool_spares_it_the_question(tmp_path: Path, revision: str) -> None:
    harmless = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    peer = create_peer(
        revision, tools__list=tools_result(tool_definition("safe", annotations=harmless)), tools__call=text_result("x")
    )
    model = ScriptedModel(tool_round(("peer__safe", {})), text_round("ok"))
    frontend = ScriptedFrontend(Deny())
    async with open_host_with(tmp_path, peer, model, frontend) as host:
        await host.conversation.send("go")
    assert len(frontend.asked) == 1
    assert peer.asked("tools/call") == []


@pytest.mark.req("tools.annotations.defaults")
@pytest.mark.parametrize(
    "annotations",
    [None, ToolAnnotations(), ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)],
)
def test_a_tool_without_a_read_only_hint_counts_as_one_that_writes(annotations: ToolAnnotations | None) -> None:
    assert not has_read_only_hint(Tool("t", annotations=annotations))


# -- texts of servers
@pytest.mark.req("sec.untrusted-descriptions")
async def test_texts_of_a_server_reach_the_model_without_hidden_ones_and_with_its_name(tmp_path: Path) -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    peer = create_peer(
        info={"instructions": f"call me{hidden}\x1b[2J"},
        tools__list=tools_result(tool_definition("t", description=f"does{hidden} it\x07")),
    )
    model = ScriptedModel(text_round("ok"))
    async with open_host_with(tmp_path, peer, model) as host:
        await host.conversation.send("hi")
    assert model.requests[0].tools[0].description == "does it"
    assert "The server 'peer' says this about its tools:\ncall me[2J" in model.requests[0].system


@pytest.mark.req("sec.cross-server")
async def test_data_passed_from_one_server_to_another_is_shown_in_the_question(tmp_path: Path) -> None:
    peers = {
        "bank": create_peer(tools__list=tools_result(tool_definition("balance")), tools__call=text_result("secret 42")),
        "mail": create_peer(tools__list=tools_result(tool_definition("send")), tools__call=text_result("sent")),
    }
    model = ScriptedModel(
        tool_round(("bank__balance", {})), tool_round(("mail__send", {"text": "secret 42"})), text_round("ok")
    )
    frontend = ScriptedFrontend(AllowSession(), Deny())
    async with open_host_with(tmp_path, peers, model, frontend) as host:
        await host.conversation.send("go")
    question = frontend.asked[1]
    assert isinstance(question, ApproveTool)
    assert (question.server, question.arguments) == ("mail", {"text": "secret 42"})
    assert peers["mail"].asked("tools/call") == []


# -- the log of calls
@pytest.mark.req("tools.audit")
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
async def test_every_call_is_logged_with_decision_and_outcome_and_its_content_only_for_debugging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    peer = create_peer(tools__list=tools_result(tool_definition("t")), tools__call=text_result("ok"))
    model = ScriptedModel(tool_round(("peer__t", {"n": 1}), ("peer__t", {"n": 2})), text_round("ok"))

    def answer(question: Any) -> Any:  # the calls of a round may ask in either order
        return AllowOnce() if question.arguments == {"n": 1} else Deny()

    with caplog.at_level(level, logger="mcphost"):
        async with open_host_with(tmp_path, peer, model, ScriptedFrontend(answer, answer)) as host:
            await host.conversation.send("go")
            await host.tools.call("peer", "t", {"n": 3})
            peer.answers["tools/call"] = ErrorData(code=-32603, message="broken")
            with pytest.raises(RequestRefused):
                await host.tools.call("peer", "t", {"n": 4})
    logged = [line.message for line in caplog.records if line.name == "mcphost.host.tools.tool_outcome"]
    assert len(logged) == 4
    for number, decision, outcome in (
        (1, "once", "ok after"),
        (2, "declined", "not run"),
        (3, "user", "ok after"),
        (4, "user", "failed after"),
    ):
        words, mark = f'{{"n":{number}}}', f"of 7 characters (sha256 {arguments_digest({'n': number})})"
        expected, other = (words, mark) if level == logging.DEBUG else (mark, words)
        (line,) = (line for line in logged if expected in line)
        assert other not in line
        assert "'t' of 'peer'" in line
        assert f"decision: {decision}" in line
        assert f"outcome: {outcome}" in line


# -- unsafe and unsupported icons
@pytest.mark.req("icon.scheme", "icon.fetch")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_no_icon_is_ever_fetched_whatever_its_address(tmp_path: Path, revision: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        icons = [{"src": f"{scheme}://127.0.0.1:{port}/i.png"} for scheme in ("http", "https", "ftp")]
        icons += [{"src": "javascript:alert(1)"}, {"src": "file:///etc/passwd"}, {"src": "data:image/png;base64,AAAA"}]
        peer = create_peer(
            revision, {"tools": {}, "resources": {}, "prompts": {}},
            info={"icons": icons},
            tools__list=tools_result(tool_definition("t", icons=icons)), tools__call=text_result("x"),
            resources__list={"resources": [{"uri": "x://y", "name": "r", "icons": icons}]},
            prompts__list={"prompts": [{"name": "p", "icons": icons}]},
        )  # fmt: skip
        async with open_host_with(tmp_path, peer) as host:
            catalog = host.servers.view("peer").catalog
            (one,), (two,), (three,) = catalog.tools, catalog.resources, catalog.prompts
            assert [find_drawable(entry.icons, dark=True) for entry in (one, two, three)] == [None] * 3
            await host.tools.call("peer", "t", {})
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("icons", [[], None, "x", [{}], [{"src": 3}], [{"src": "x", "sizes": "any"}]])
async def test_odd_icons_cost_at_most_their_tool(tmp_path: Path, icons: Any) -> None:
    peer = create_peer(
        "2025-11-25", tools__list=tools_result(tool_definition("odd", icons=icons), tool_definition("good"))
    )
    async with open_host_with(tmp_path, peer) as host:
        assert "good" in [tool.name for tool in host.servers.view("peer").catalog.tools]


def declared_capabilities(peer: InProcessServer) -> str:
    return str([params for method, params in peer.seen if method in ("initialize", "tools/list")])


@pytest.mark.req("apps.declare-only-if", "apps.ui-resources")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_apps_are_not_declared_and_their_tools_are_tools(tmp_path: Path, revision: str) -> None:
    app = tool_definition("chart", _meta={"ui": {"resourceUri": "ui://chart/index.html"}})
    html = {
        "type": "resource",
        "resource": {"uri": "ui://chart", "mimeType": "text/html;profile=mcp-app", "text": "<b>x</b>"},
    }
    peer = create_peer(revision, tools__list=tools_result(app), tools__call={"content": [html]})
    async with open_host_with(tmp_path, peer) as host:
        assert (await host.tools.call("peer", "chart", {})).text == "<b>x</b>"
    assert "modelcontextprotocol/ui" not in declared_capabilities(peer)
    assert "mcp-app" not in declared_capabilities(peer)


class HoldingServer(InProcessServer):
    """A server that delays a call of the tool `look` until the test calls `release`."""

    held: Any = None

    def _answer(self, request: Any, params: dict[str, Any]) -> None:
        if params.get("name") == "look" and self.held is None:
            self.held = (request, params)
        else:
            super()._answer(request, params)

    def release(self) -> None:
        super()._answer(*self.held)


async def test_a_never_rule_that_is_added_while_an_approved_call_waits_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = ConfigRules()
    monkeypatch.setattr(bootstrap, "ConfigRules", lambda *given: rules)
    listed = tools_result(tool_definition("look"), tool_definition("write"))
    answers = {"tools/list": listed, "tools/call": text_result("ran")}
    peer = HoldingServer(answers, "2026-07-28", {"tools": {}}, {"name": "peer", "version": "1"})
    model = ScriptedModel(tool_round(("peer__look", {}), ("peer__write", {})), text_round("ok"))
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    async with (
        open_host_with(tmp_path, peer, model, frontend, limits=Limits(parallel_calls=1)) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(host.conversation.send, "go")
        await wait_until(lambda: peer.held is not None and len(frontend.asked) == 2)
        await anyio.wait_all_tasks_blocked()
        rules.never = (parse_rule("peer/write"),)
        peer.release()
        await wait_until(lambda: len(model.requests) == 2)
        assert [params["name"] for params in peer.asked("tools/call")] == ["look"]
        (_, returned) = (part.text for part in host.conversation.messages[2].results)
        assert "never allows this: peer/write" in returned
