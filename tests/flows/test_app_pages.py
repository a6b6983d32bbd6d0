"""Tests of interactive pages of a server written with the official SDK, from its tools to a call of the page."""

import pytest

from mcphost.config.schema import ServerConfig
from mcphost.host.questions.pages import OpenPage
from mcphost.host.questions.questions import AllowOnce, ApproveTool
from mcphost.protocol.revisions import Era
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost
from tests.flows.fork_server import sdk_server_command
from tests.peers.sdk_programs import PAGE_SERVER
from tests.unit.apps.browser import Browser, request
from tests.unit.host.page_server import PageFrontend

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_the_page_of_a_real_server_is_opened_and_calls_its_tool(open_host: OpenHost, era: Era) -> None:
    command, *arguments = sdk_server_command(PAGE_SERVER, "stdio")
    server = ServerConfig(name="clock", command=command, args=tuple(arguments), source="flag", era=era)
    model = ScriptedModel(tool_round(("clock__show_clock", {"city": "Bern"})), text_round("It is noon."))
    frontend = PageFrontend(AllowOnce(), True, AllowOnce())
    opened: list[str] = []

    async def open_url(url: str) -> bool:
        opened.append(url)
        return True

    async with open_host(model, frontend, servers=(server,), open_url=open_url) as host:
        await host.servers.ensure_ready("clock")
        await host.conversation.send("What time is it in Bern?")
        assert [tool.name for tool in model.requests[0].tools if tool.name.startswith("clock")] == ["clock__show_clock"]
        page, is_opened = await host.pages.open()
        assert is_opened
        assert opened == [page.url]
        question = frontend.asked[1]
        assert isinstance(question, OpenPage)
        assert question.connect == ("https://time.example.com",)
        browser = Browser(page.port, page.url.removeprefix(f"http://127.0.0.1:{page.port}"))
        await browser.load()
        shown = await request(page.port, browser.paths["page"])
        assert "<title>Clock</title>" in shown.body
        assert "connect-src https://time.example.com;" in shown.headers["content-security-policy"]
        await browser.connect()
        assert "result" in await browser.call("ui/initialize", {"appInfo": {"name": "clock", "version": "1"}})
        await browser.notify("ui/notifications/initialized")
        assert (await browser.read())["params"] == {"arguments": {"city": "Bern"}}
        assert "12:00" in (await browser.read())["params"]["content"][0]["text"]
        answer = await browser.call("tools/call", {"name": "tick", "arguments": {"by": 7}})
        assert answer["result"]["content"][0]["text"] == "12:07"
        assert isinstance(frontend.asked[2], ApproveTool)
        await browser.close()
