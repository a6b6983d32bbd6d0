"""Tests of what a server learns about pages (MCP Apps), and of tools that only its pages may call."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.headless.question_answers import PipeFrontend
from mcphost.host.questions import kinds
from mcphost.protocol.apps import EXTENSION, MIME_TYPE
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.page_server import SHOW, PageFrontend, create_page_peer
from tests.unit.host.scripted_host import InProcessServer, open_host_with, tool_definition

pytestmark = pytest.mark.anyio


def declared_capabilities(peer: InProcessServer) -> dict[str, Any]:
    if opened := peer.asked("initialize"):
        return opened[0]["capabilities"]
    return peer.asked("tools/list")[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_servers_learn_that_pages_can_be_opened(tmp_path: Path, revision: str) -> None:
    peer = create_page_peer(revision=revision)
    async with open_host_with(tmp_path, peer, frontend=PageFrontend()):
        assert declared_capabilities(peer)["extensions"][EXTENSION] == {"mimeTypes": [MIME_TYPE]}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_servers_are_not_told_of_pages_that_nobody_can_open(tmp_path: Path, revision: str) -> None:
    peer = create_page_peer(revision=revision)
    async with open_host_with(tmp_path, peer, frontend=ScriptedFrontend()):
        assert EXTENSION not in declared_capabilities(peer).get("extensions", {})
    assert kinds.OPEN_PAGE not in PipeFrontend().kinds


async def test_a_tool_for_pages_only_is_neither_offered_to_the_model_nor_called_by_it(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("peer__refresh", {})), text_round("done"))
    peer = create_page_peer()
    async with open_host_with(tmp_path, peer, model, PageFrontend()) as host:
        await host.conversation.send("refresh it")
        assert {tool.name for tool in model.requests[0].tools} >= {"peer__show", "peer__secret"}
        assert "peer__refresh" not in {tool.name for tool in model.requests[0].tools}
        assert "There is no tool named" in host.conversation.messages[2].parts[0].text  # type: ignore[union-attr]
        assert peer.asked("tools/call") == []
        # The user may still call it by hand.
        assert (await host.tools.call("peer", "refresh", {})).text.startswith("refresh: sunny")


async def test_a_page_at_another_address_is_ignored_with_a_note_and_its_tool_stays(tmp_path: Path) -> None:
    outside = tool_definition("outside", _meta={"ui": {"resourceUri": "https://example.com/page"}})
    async with open_host_with(tmp_path, create_page_peer(SHOW, outside), frontend=PageFrontend()) as host:
        view = host.servers.view("peer")
        assert [tool.name for tool in view.catalog.tools] == ["show", "outside"]
        assert view.catalog.left_out == (
            "The page of the tool 'outside' was ignored: its address does not begin with ui://.",
        )


async def test_a_model_that_uses_a_servers_own_name_of_a_tool_is_told_the_name_to_call(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("show", {}), ("refresh", {}), ("nothing", {})), text_round("done"))
    async with open_host_with(tmp_path, create_page_peer(), model, PageFrontend()) as host:
        await host.conversation.send("show it")
        texts = [result.text for result in host.conversation.messages[2].results]
    assert texts[0].endswith("There is no tool named 'show'. Did you mean 'peer__show'?")
    assert texts[1].endswith("There is no tool named 'refresh'.")  # for pages only
    assert texts[2].endswith("There is no tool named 'nothing'.")
