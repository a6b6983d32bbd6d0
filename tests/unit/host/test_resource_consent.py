"""Tests that contents of resources and prompts are never sent automatically."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.llm.messages import ResourcePart
from mcphost.serialization import encode
from tests.fakes.model import ScriptedModel, text_round
from tests.unit.client.scripted_server import ScriptedServer
from tests.unit.host.scripted_host import open_peer_host

pytestmark = pytest.mark.anyio


def answer_request(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
    """Answer requests for a resource with private content and for a prompt."""
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "only for me"}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": "only for me"}}]}
    return {"tools": [], "prompts": [{"name": "p"}], "resources": [{"uri": "a://1", "name": "one"}]}


@pytest.mark.req("res.consent")
@pytest.mark.req("res.app-driven")
@pytest.mark.req("prompts.user-controlled")
async def test_the_model_gets_a_resource_only_when_the_user_attached_it_and_never_asks_for_a_prompt(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(text_round("Hello."), text_round("I see."))
    peer = ScriptedServer(answer_request)
    async with open_peer_host(tmp_path, peer, model=model) as host:
        read = await host.features.read_resource("peer", "a://1")
        await host.features.get_prompt("peer", "p", {})
        await host.conversation.send("hi")
        assert b"only for me" not in encode(model.requests[0])
        assert model.requests[0].tools == ()
        await host.conversation.send("look", [ResourcePart("peer", "a://1", read.contents[0].text or "", "")])
        assert b"only for me" in encode(model.requests[1])
    assert b"only for me" not in b"".join(peer.pipe.lines)
    assert peer.methods().count("prompts/get") == 1
