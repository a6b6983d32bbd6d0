"""Tests of interactive pages of tools over loopback, with a client that sends what a browser would send."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.hooks import HookOutput
from mcphost.config.schema import HookConfig, HookSettings
from mcphost.errors import ConsentDenied, ServerError, UsageError
from mcphost.host.app_pages import page_bridge, pages
from mcphost.host.events import PageDrafted, PageOffered, PagesChanged, ToolFinished, ToolStarted
from mcphost.host.questions.pages import OpenPage, PageMessage
from mcphost.host.questions.questions import AcceptUrl, AllowOnce, AllowSession, ApproveTool, Cancel, Deny, VisitUrl
from mcphost.host.servers.connection import ServerConnection
from mcphost.protocol.jsonrpc import ErrorData
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.apps.browser import request
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.page_server import (
    PAGE_URI,
    SHOW,
    PageFrontend,
    browser_for,
    create_page_peer,
    initialize,
    open_page,
    page_result,
)
from tests.unit.host.scripted_host import open_host_with, tool_definition

pytestmark = pytest.mark.anyio


async def test_a_page_is_offered_opened_after_a_question_and_gets_the_call_that_it_shows(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (host, browser, peer, frontend):
        asked = frontend.asked[0]
        assert isinstance(asked, OpenPage)
        assert (asked.server, asked.tool, asked.uri, asked.tools) == ("peer", "show", PAGE_URI, 2)
        assert asked.size > 0
        assert peer.asked("resources/read")[0]["uri"] == PAGE_URI
        host.pages.theme, host.pages.locale = "dark", "de-CH"
        result = await initialize(browser)
        assert result["protocolVersion"] == "2026-01-26"
        assert result["hostInfo"]["name"] == "mcphost"
        assert result["hostCapabilities"].keys() >= {"openLinks", "serverTools", "serverResources", "sandbox"}
        context = result["hostContext"]
        assert (context["theme"], context["locale"], context["displayMode"]) == ("dark", "de-CH", "inline")
        assert context["containerDimensions"] == {"width": 800, "maxHeight": 10_000}
        assert context["toolInfo"]["tool"]["name"] == "show"
        given = await browser.read()
        assert given["method"] == "ui/notifications/tool-input"
        assert given["params"] == {"arguments": {"city": "Bern"}}
        shown = await browser.read()
        assert shown["method"] == "ui/notifications/tool-result"
        assert shown["params"]["content"] == [{"type": "text", "text": "show: sunny"}]
        assert shown["params"]["structuredContent"] == {"sky": "sunny"}
        assert shown["params"]["_meta"] == {"source": "sensor"}
        assert host.pages.list_open()[0].is_shown


async def test_nothing_is_sent_before_the_page_says_that_it_is_initialized(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (_, browser, _, _):
        assert (await browser.call("tools/call", {"name": "show"}))["error"]["code"] == -32600
        await browser.notify("ui/notifications/initialized")  # before ui/initialize, so it is ignored
        assert "result" in await browser.call("ui/initialize", {})
        assert (await browser.call("ping", number="text id"))["result"] == {}


async def test_a_page_that_loads_itself_again_gets_its_call_again(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (_, browser, _, _):
        for _ in range(2):
            await initialize(browser)
            assert [(await browser.read())["method"] for _ in range(2)] == [
                "ui/notifications/tool-input", "ui/notifications/tool-result",
            ]  # fmt: skip


async def test_a_page_that_is_opened_during_the_call_gets_its_result_or_its_failure(tmp_path: Path) -> None:
    tools = (SHOW, tool_definition("broken", _meta={"ui": {"resourceUri": PAGE_URI}}))
    peer = create_page_peer(*tools)
    async with open_host_with(tmp_path, peer, frontend=PageFrontend(True)) as host:
        with pytest.raises(ServerError):
            await host.tools.call("peer", "broken", {})
        page, _ = await host.pages.open()
        browser = browser_for(page)
        await browser.load()
        await browser.connect()
        await initialize(browser)
        assert (await browser.read())["method"] == "ui/notifications/tool-input"
        ended = await browser.read()
        assert ended["method"] == "ui/notifications/tool-cancelled"
        assert "out of order" in ended["params"]["reason"]
        await browser.close()


async def test_the_model_s_call_offers_its_page_too_and_the_text_stays_its_result(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("peer__show", {})), text_round("done"))
    async with open_host_with(tmp_path, create_page_peer(), model, PageFrontend(AllowOnce(), True)) as host:
        feed = host.events.subscribe()
        await host.conversation.send("show it")
        assert PageOffered("use-1", "peer", "show") in feed.drain()
        assert "show: sunny" in host.conversation.messages[2].parts[0].text  # type: ignore[union-attr]
        page, _ = await host.pages.open("use-1")
        assert page.tool == "show"


async def test_without_a_front_end_for_pages_nothing_is_offered(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_page_peer(), frontend=ScriptedFrontend()) as host:
        feed = host.events.subscribe()
        await host.tools.call("peer", "show", {})
        assert not any(isinstance(event, PageOffered) for event in feed.drain())
        with pytest.raises(UsageError, match="There is no page to open"):
            await host.pages.open()


async def test_the_question_is_asked_once_for_the_same_server_and_origins(tmp_path: Path) -> None:
    declared: dict[str, Any] = {"connectDomains": ["https://api.example.com"]}

    def read(_: dict[str, Any]) -> dict[str, Any]:
        return page_result(csp=declared)

    peer = create_page_peer(resources__read=read)
    frontend = PageFrontend(True, True, False)
    async with open_host_with(tmp_path, peer, frontend=frontend) as host:
        for number in (1, 2):
            await host.tools.call("peer", "show", {})
            assert (await host.pages.open())[0].number == number
        assert [type(question) for question in frontend.asked] == [OpenPage]
        assert frontend.asked[0].connect == ("https://api.example.com",)  # type: ignore[attr-defined]
        declared["resourceDomains"] = ["https://cdn.example.com"]
        await host.tools.call("peer", "show", {})
        await host.pages.open()
        assert len(frontend.asked) == 2
        declared["frameDomains"] = ["https://frame.example.com"]
        await host.tools.call("peer", "show", {})
        with pytest.raises(ConsentDenied, match="not opened"):
            await host.pages.open()
        assert len(host.pages.list_open()) == 3


async def test_a_page_is_asked_about_again_after_another_account_signed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontend = PageFrontend(True, True)
    async with open_host_with(tmp_path, create_page_peer(), frontend=frontend) as host:
        for account in ("", "work"):
            monkeypatch.setattr(ServerConnection, "account", account)
            await host.tools.call("peer", "show", {})
            await host.pages.open()
        assert [question.account for question in frontend.asked] == ["", "work"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (page_result(mime_type="text/html"), "no page of the type"),
        (page_result(""), "empty, invalid or over"),
        (page_result("x" * (5 * 1024 * 1024)), "empty, invalid or over"),
        ({"contents": []}, "no page of the type"),
        (page_result(uri="ui://other"), "no page of the type"),
        (ErrorData(code=-32002, message="no such thing"), "did not return the page: no such thing"),
    ],
)
async def test_a_page_that_is_no_page_is_refused_without_a_question(tmp_path: Path, answer: Any, message: str) -> None:
    frontend = PageFrontend()
    async with open_host_with(tmp_path, create_page_peer(resources__read=answer), frontend=frontend) as host:
        await host.tools.call("peer", "show", {})
        with pytest.raises(ServerError, match=message):
            await host.pages.open()
        assert frontend.asked == []


async def test_a_page_as_base64_and_with_another_spelling_of_its_type_is_accepted(tmp_path: Path) -> None:
    content = {"uri": PAGE_URI, "mimeType": 'Text/HTML; profile="mcp-app"', "blob": "PHA+aGk8L3A+"}
    peer = create_page_peer(resources__read={"contents": [content]})
    async with open_page(tmp_path, peer=peer) as (_, browser, _, _):
        assert (await request(browser.port, browser.paths["page"])).body == "<p>hi</p>"


async def test_a_page_that_cannot_be_served_is_an_error_and_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(**_: object) -> None:
        raise OSError("no ports")

    async with open_host_with(tmp_path, create_page_peer(), frontend=PageFrontend(True)) as host:
        await host.tools.call("peer", "show", {})
        with monkeypatch.context() as patch:
            patch.setattr(anyio, "create_tcp_listener", fail)
            with pytest.raises(ServerError, match="no ports"):
                await host.pages.open()
        assert host.pages.list_open() == ()
        assert (await host.pages.open())[0].number == 2


# -- tools/call


async def test_a_call_of_the_page_is_asked_for_and_its_result_goes_back_to_the_page(tmp_path: Path) -> None:
    async with open_page(tmp_path, AllowOnce()) as (host, browser, peer, frontend):
        feed = host.events.subscribe()
        await initialize(browser)
        answer = await browser.call("tools/call", {"name": "refresh", "arguments": {"a": 1}}, 7)
        assert answer["result"]["content"] == [{"type": "text", "text": "refresh: sunny"}]
        assert answer["result"]["structuredContent"] == {"sky": "sunny"}
        question = frontend.asked[1]
        assert isinstance(question, ApproveTool)
        assert (question.server, question.tool, question.arguments) == ("peer", "refresh", {"a": 1})
        assert question.why == "the page of its tool 'show' asks for it"
        assert [call["name"] for call in peer.asked("tools/call")] == ["show", "refresh"]
        events = feed.drain()
        assert [(event.call, event.by) for event in events if isinstance(event, ToolStarted)] == [("page-1", "page")]
        assert [event.call for event in events if isinstance(event, ToolFinished)] == ["page-1"]
        # A call of the page offers no page of its own.
        assert not any(isinstance(event, PageOffered) for event in events)


async def test_calls_of_the_page_are_audited_with_the_page_as_their_origin(tmp_path: Path) -> None:
    audit_log = create_audit_log(tmp_path)
    async with open_page(tmp_path, AllowOnce(), Deny(), audit_log=audit_log) as (host, browser, _, _):
        await initialize(browser)
        await browser.call("tools/call", {"name": "refresh"})
        await browser.call("tools/call", {"name": "refresh"})
        rows = [(row.kind, row.event, row.decision, row.who) for row in await read_rows(host.audit)]
    assert ("page", "answered", "yes", "person") in rows
    assert ("page", "opened", "", "person") in rows
    assert ("page", "asked", "", "page") in rows
    assert ("tool", "answered", "once", "person") in rows
    assert ("tool", "started", "", "page") in rows
    assert ("tool", "answered", "deny", "person") in rows
    assert rows.count(("tool", "started", "", "page")) == 1
    assert ("page", "closed") in [(row.kind, row.event) for row in await read_rows(audit_log)]
    await audit_log.close()


async def test_a_declined_call_is_not_sent_and_the_page_is_told(tmp_path: Path) -> None:
    async with open_page(tmp_path, Deny("no")) as (_, browser, peer, _):
        await initialize(browser)
        answer = await browser.call("tools/call", {"name": "refresh"})
        assert answer["error"] == {"code": -32000, "message": "The user declined."}
        assert [call["name"] for call in peer.asked("tools/call")] == ["show"]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"name": "secret"}, -32602),  # not for pages
        ({"name": "unknown"}, -32602),
        ({"name": 3}, -32602),
        ({}, -32602),
        ({"name": "refresh", "arguments": "x"}, -32602),
        ({"name": "strict", "arguments": {"n": "x"}}, -32602),
    ],
)
async def test_calls_that_are_not_possible_are_refused_without_a_question(
    tmp_path: Path, params: dict[str, Any], code: int
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    strict = {"name": "strict", "inputSchema": schema}
    hidden = tool_definition("secret", _meta={"ui": {"visibility": ["model"]}})
    peer = create_page_peer(SHOW, tool_definition("refresh"), hidden, strict)
    async with open_page(tmp_path, peer=peer) as (_, browser, _, frontend):
        await initialize(browser)
        assert (await browser.call("tools/call", params))["error"]["code"] == code
        assert len(frontend.asked) == 1


async def test_the_page_cannot_call_tools_of_another_server(tmp_path: Path) -> None:
    other = create_page_peer(tool_definition("wipe"))
    frontend = PageFrontend(True)
    async with open_host_with(tmp_path, {"peer": create_page_peer(), "other": other}, frontend=frontend) as host:
        await host.tools.call("peer", "show", {})
        page, _ = await host.pages.open()
        browser = browser_for(page)
        await browser.load()
        await browser.connect()
        await initialize(browser)
        for name in ("wipe", "other__wipe", "other/wipe"):
            assert (await browser.call("tools/call", {"name": name}))["error"]["code"] == -32602
        assert other.asked("tools/call") == []
        await browser.close()


async def test_a_permission_of_the_user_covers_the_page_but_a_turned_off_tool_is_refused(tmp_path: Path) -> None:
    async with open_page(tmp_path, AllowSession()) as (host, browser, peer, frontend):
        await initialize(browser)
        for _ in range(2):
            assert "result" in await browser.call("tools/call", {"name": "refresh"})
        assert len(frontend.asked) == 2
        await host.servers.set_tool_enabled("peer", "refresh", enabled=False)
        assert "turned this tool off" in (await browser.call("tools/call", {"name": "refresh"}))["error"]["message"]
        assert len(peer.asked("tools/call")) == 3


async def test_a_tool_that_is_turned_off_during_the_question_is_not_called(tmp_path: Path) -> None:
    async def turn_off(_: ApproveTool) -> AllowOnce:
        await host.servers.set_tool_enabled("peer", "refresh", enabled=False)
        return AllowOnce()

    async with open_page(tmp_path, turn_off) as (host, browser, peer, _):
        await initialize(browser)
        assert "error" in await browser.call("tools/call", {"name": "refresh"})
        assert [call["name"] for call in peer.asked("tools/call")] == ["show"]


async def test_hooks_check_the_arguments_that_the_user_edited_in_the_question_of_a_page(tmp_path: Path) -> None:
    async def run(command: Any, folder: str, document: bytes, seconds: float) -> HookOutput:
        del command, folder, seconds
        return HookOutput(2, b"", "too deep in /home/me/plan") if b'"depth":9' in document else HookOutput()

    hook = HookConfig(settings=HookSettings(event="before_call", command=("check",)))
    answers = (AllowOnce({"depth": 9}), AllowOnce({"depth": 2}))
    async with open_page(tmp_path, *answers, hooks=(hook,), run_hook=run) as (_, browser, peer, _):
        await initialize(browser)
        asked = {"name": "refresh", "arguments": {"depth": 1}}
        refused = await browser.call("tools/call", asked)
        # The reason of the hook is for the user, and not for the server.
        assert refused["error"]["message"] == "One of the user's hooks denied this call; the tool did not run."
        assert "result" in await browser.call("tools/call", asked)
        assert [call["arguments"] for call in peer.asked("tools/call")] == [{"city": "Bern"}, {"depth": 2}]


async def test_arguments_that_a_hook_changes_after_an_edit_are_asked_about_again(tmp_path: Path) -> None:
    async def run(command: Any, folder: str, document: bytes, seconds: float) -> HookOutput:
        del command, folder, seconds
        return HookOutput(output=b'{"arguments": {"depth": 5}}') if b'"depth":9' in document else HookOutput()

    hook = HookConfig(settings=HookSettings(event="before_call", command=("limit",)))
    answers = (AllowOnce({"depth": 9}), AllowOnce())
    async with open_page(tmp_path, *answers, hooks=(hook,), run_hook=run) as (_, browser, peer, frontend):
        await initialize(browser)
        assert "result" in await browser.call("tools/call", {"name": "refresh", "arguments": {"depth": 1}})
        questions = [one for one in frontend.asked if isinstance(one, ApproveTool)]
        assert [one.arguments for one in questions] == [{"depth": 1}, {"depth": 5}]
        assert peer.asked("tools/call")[-1]["arguments"] == {"depth": 5}


async def test_a_call_is_withdrawn_when_the_page_cancels_it_or_is_loaded_again(tmp_path: Path) -> None:
    frontend = PageFrontend(True)
    async with open_page(tmp_path, frontend=frontend) as (_, browser, peer, _):
        await initialize(browser)
        for end in ("cancel", "load"):
            asked = frontend.asked_now
            await browser.post({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "refresh"}})
            with anyio.fail_after(5):
                await asked.wait()
            assert frontend.waiting == 1
            if end == "cancel":
                await browser.notify("notifications/cancelled", {"requestId": 5})
            else:
                await browser.load()
            with anyio.fail_after(5):
                while frontend.waiting:
                    await anyio.lowlevel.checkpoint()
        assert [call["name"] for call in peer.asked("tools/call")] == ["show"]


# -- other requests


async def test_the_page_reads_resources_of_its_server_only_through_the_host(tmp_path: Path) -> None:
    def read(params: dict[str, Any]) -> Any:
        if params["uri"] == "data://1":
            return {"contents": [{"uri": "data://1", "text": "one", "_meta": {"x": 1}, "size": 3}]}
        return page_result() if params["uri"] == PAGE_URI else ErrorData(code=-32002, message="not here")

    async with open_page(tmp_path, peer=create_page_peer(resources__read=read)) as (_, browser, _, frontend):
        await initialize(browser)
        answer = await browser.call("resources/read", {"uri": "data://1"})
        assert answer["result"] == {"contents": [{"uri": "data://1", "text": "one", "_meta": {"x": 1}, "size": 3}]}
        assert (await browser.call("resources/read", {"uri": "data://2"}))["error"] == {
            "code": -32002, "message": "not here",
        }  # fmt: skip
        assert (await browser.call("resources/read", {"uri": ""}))["error"]["code"] == -32602
        assert len(frontend.asked) == 1


@pytest.mark.parametrize("content", [{"type": "text", "text": "Tell more"}, [{"type": "text", "text": "Tell more"}]])
async def test_a_message_of_the_page_becomes_a_draft_only_if_the_user_agrees(tmp_path: Path, content: Any) -> None:
    async with open_page(tmp_path, True, False) as (host, browser, _, frontend):
        feed = host.events.subscribe()
        await initialize(browser)
        assert (await browser.call("ui/message", {"role": "user", "content": content}))["result"] == {}
        question = frontend.asked[1]
        assert isinstance(question, PageMessage)
        assert question.text == "Tell more"
        assert [event for event in feed.drain() if isinstance(event, PageDrafted)] == [PageDrafted("peer", "Tell more")]
        assert "error" in await browser.call("ui/message", {"role": "user", "content": content})
        assert not any(isinstance(event, PageDrafted) for event in feed.drain())
        assert host.conversation.messages == ()


@pytest.mark.parametrize(
    "params",
    [
        {"role": "assistant", "content": {"type": "text", "text": "x"}},
        {"role": "user", "content": {"type": "image", "data": "", "mimeType": "image/png"}},
        {"role": "user", "content": {"type": "text", "text": "  "}},
        {"role": "user", "content": {"type": "text", "text": "x" * 30_000}},
        {"role": "user"},
    ],
)
async def test_other_messages_of_the_page_are_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    async with open_page(tmp_path) as (_, browser, _, frontend):
        await initialize(browser)
        assert (await browser.call("ui/message", params))["error"]["code"] == -32602
        assert len(frontend.asked) == 1


async def test_a_link_is_opened_only_after_the_question_about_addresses(tmp_path: Path) -> None:
    async with open_page(tmp_path, AcceptUrl(), Cancel()) as (_, browser, _, frontend):
        await initialize(browser)
        assert (await browser.call("ui/open-link", {"url": "https://example.com/a?b"}))["result"] == {}
        question = frontend.asked[1]
        assert isinstance(question, VisitUrl)
        assert (question.url, question.host) == ("https://example.com/a?b", "example.com")
        assert "error" in await browser.call("ui/open-link", {"url": "https://example.com/"})
        for url in ("javascript:alert(1)", "file:///etc/passwd", "http://example.com", "data:text/html,x"):
            assert "error" in await browser.call("ui/open-link", {"url": url})
        assert len(frontend.asked) == 3


async def test_a_page_whose_questions_are_declined_again_and_again_is_slowed_down(tmp_path: Path) -> None:
    async with open_page(tmp_path, *[False] * 30) as (_, browser, _, frontend):
        await initialize(browser)
        said = {"role": "user", "content": {"type": "text", "text": "x"}}
        assert "ask again in" in [(await browser.call("ui/message", said))["error"]["message"] for _ in range(25)][-1]
        assert len(frontend.asked) < 25


async def test_everything_else_is_refused_cleanly(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (_, browser, _, _):
        await initialize(browser)
        for method in ("sampling/createMessage", "tools/list", "prompts/get", "x", "initialize", "ui/unknown"):
            assert (await browser.call(method))["error"]["code"] == -32601
        assert (await browser.call("ui/request-display-mode", {"mode": "fullscreen"}))["result"] == {"mode": "inline"}
        for raw in (b"{", b"[]", b"null", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b"[" * 100_000):
            assert await browser.post(raw) == 202
        assert (await browser.call("ping"))["result"] == {}


async def test_requests_that_are_being_answered_are_bounded(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (_, browser, _, frontend):
        await initialize(browser)
        link = {"url": "https://example.com"}
        statuses = [
            await browser.post({"jsonrpc": "2.0", "id": n, "method": "ui/open-link", "params": link}) for n in range(20)
        ]
        assert statuses == [202] * page_bridge.MAX_RUNNING + [429] * 4
        assert frontend.waiting == page_bridge.MAX_RUNNING


async def test_log_messages_of_the_page_are_in_the_log_of_its_server(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (host, browser, _, _):
        await initialize(browser)
        await browser.notify("notifications/message", {"level": "info", "logger": "ui", "data": "clicked"})
        assert (await browser.call("ping"))["result"] == {}
        assert "clicked" in host.servers.view("peer").log[-1].text


# -- the end of a page


async def test_closing_a_page_tears_it_down_and_its_address_is_gone(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (host, browser, _, _):
        await initialize(browser)
        await browser.read()
        await browser.read()
        assert host.pages.close(1)
        down = await browser.read()
        assert down["method"] == "ui/resource-teardown"
        assert down["params"] == {"reason": "the user closed it"}
        await browser.post({"jsonrpc": "2.0", "id": down["id"], "result": {}})
        assert await browser.read() == "end"
        with anyio.fail_after(5):
            while host.pages.list_open():
                await anyio.lowlevel.checkpoint()
        with pytest.raises(OSError, match="All connection attempts failed"):
            await browser.load()
        assert not host.pages.close(1)


@pytest.mark.parametrize("end", ["conversation", "restart", "remove"])
async def test_a_page_ends_with_its_conversation_and_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(pages, "CHECK_SECONDS", 0.02)
    async with open_page(tmp_path) as (host, _, _, _):
        feed = host.events.subscribe()
        if end == "conversation":
            host.conversation.open_new()
        elif end == "restart":
            host.servers.stop("peer")
        else:
            host.servers.remove("peer")
        with anyio.fail_after(10):
            async for event in feed:
                if isinstance(event, PagesChanged) and event.closed_server:
                    break
        assert host.pages.list_open() == ()
        if end == "conversation":
            with pytest.raises(UsageError, match="There is no page to open"):
                await host.pages.open()


async def test_a_page_is_not_opened_in_another_conversation_than_the_one_of_its_call(tmp_path: Path) -> None:
    def switch(_: OpenPage) -> bool:
        host.conversation.open_new()
        return True

    async with open_host_with(tmp_path, create_page_peer(), frontend=PageFrontend(switch)) as host:
        await host.tools.call("peer", "show", {})
        with pytest.raises(UsageError, match="result is gone"):
            await host.pages.open()
        assert host.pages.list_open() == ()


async def test_questions_of_a_page_are_withdrawn_as_soon_as_it_is_closed(tmp_path: Path) -> None:
    frontend = PageFrontend(True)
    async with open_page(tmp_path, frontend=frontend) as (host, browser, peer, _):
        await initialize(browser)
        asked = frontend.asked_now
        await browser.post({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "refresh"}})
        with anyio.fail_after(5):
            await asked.wait()
        host.conversation.open_new()
        while (await browser.read())["method"] != "ui/resource-teardown":
            pass
        # The page has a second to end, in which it can only answer.
        assert "closed" in (await browser.call("ui/message", {"role": "user", "content": []}))["error"]["message"]
        assert frontend.waiting == 0
        assert [call["name"] for call in peer.asked("tools/call")] == ["show"]


async def test_a_page_that_is_being_closed_is_opened_anew(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (host, _, _, _):
        host.pages.close(1)
        assert (await host.pages.open())[0].number == 2


async def test_a_page_that_no_browser_shows_is_closed_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(pages, "IDLE_SECONDS", 0.1)
    async with open_host_with(tmp_path, create_page_peer(), frontend=PageFrontend(True)) as host:
        await host.tools.call("peer", "show", {})
        await host.pages.open()
        with anyio.fail_after(10):
            async for event in host.events.subscribe():
                if isinstance(event, PagesChanged) and event.reason == "no browser showed it":
                    break


async def test_the_number_of_open_pages_and_of_remembered_calls_is_bounded(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_page_peer(), frontend=PageFrontend(True)) as host:
        calls = [host.tools.make_call_id() for _ in range(pages.MAX_PAGES)]
        for call in calls:
            await host.tools.call("peer", "show", {}, call=call)
            await host.pages.open()
        assert (await host.pages.open())[0].number == pages.MAX_PAGES  # the same page again
        await host.tools.call("peer", "show", {})
        with pytest.raises(UsageError, match="already open"):
            await host.pages.open()
        first = host.pages.list_open()[0].number
        for _ in range(60):
            await host.tools.call("peer", "show", {})
        assert len(host.pages.list_open()) == pages.MAX_PAGES
        assert first == 1
        with pytest.raises(UsageError, match="result is gone"):
            await host.pages.open(calls[0])


async def test_a_changed_server_cannot_show_the_page_of_an_earlier_call(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_page_peer(), frontend=PageFrontend()) as host:
        await host.tools.call("peer", "show", {})
        host.servers.stop("peer")
        with pytest.raises(ServerError, match="not connected as it was"):
            await host.pages.open()
