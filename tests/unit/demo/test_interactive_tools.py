"""Tests for the demo server's tools that ask the user something, in both protocol eras, with hand-written JSON."""

from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.unit.demo.demo_client import DemoClient

CAN: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}
ERAS = ["handshake", "stateless"]


class InteractiveClient:
    """A client that calls a tool, answers the server's requests, and records them."""

    def __init__(self, peer: DemoClient, era: str, can: Any = None) -> None:
        self.peer, self.modern = peer, era == "stateless"
        self.meta = {"_meta": {"io.modelcontextprotocol/clientCapabilities": CAN if can is None else can}}
        self.asked: Any = None
        self.told: list[Any] = []
        if not self.modern:
            peer.hello(capabilities=CAN if can is None else can)

    def call(self, tool: str, reply: Any, **arguments: Any) -> Any:
        """Call a tool and return the result; *reply* answers the server's request, or is a function that does."""
        params = {"name": tool, "arguments": arguments}
        if not self.modern:
            return self._legacy(params, reply)
        first = self.peer.ask("tools/call", {**params, **self.meta}, modern=True)["result"]
        if first["resultType"] != "input_required":
            return first
        self.asked = first["inputRequests"]["asked"]
        more = {key: first[key] for key in ("requestState",) if key in first}
        responses = {"inputResponses": {"asked": reply(self.asked) if callable(reply) else reply}}
        return self.peer.ask("tools/call", {**params, **self.meta, **more, **responses}, modern=True)["result"]

    def _legacy(self, params: Any, reply: Any) -> Any:
        self.peer.ids += 1
        self.peer.write({"id": self.peer.ids, "method": "tools/call", "params": params})
        while True:
            message = self.peer.read()
            if message.get("id") == self.peer.ids:
                return message["result"]
            if "id" not in message:
                self.told.append(message)
                continue
            self.asked = message
            answer = reply(message) if callable(reply) else reply
            self.peer.write({"id": message["id"], **(answer if "error" in answer else {"result": answer})})


@pytest.fixture(params=ERAS)
def client(request: pytest.FixtureRequest, peer: DemoClient) -> InteractiveClient:
    return InteractiveClient(peer, request.param)


def text_of(result: Any) -> str:
    assert not result.get("isError"), result
    return result["content"][0]["text"]


def test_tea_is_ordered_with_a_form(client: InteractiveClient) -> None:
    content = {"name": "Ada", "cups": 2, "tea": "mint", "with": ["sugar", "lemon"], "hot": False, "day": "2026-07-28"}
    result = client.call("order_tea", {"action": "accept", "content": content})
    assert text_of(result) == "2 cups of iced fresh mint tea with sugar and lemon for Ada on 2026-07-28."
    assert client.asked["method"] == "elicitation/create"
    kinds = [field["type"] for field in client.asked["params"]["requestedSchema"]["properties"].values()]
    assert kinds == ["string", "integer", "string", "array", "string", "boolean"]
    assert text_of(client.call("order_tea", {"action": "decline"})) == "You declined."
    assert text_of(client.call("order_tea", {"action": "cancel"})) == "You cancelled the question."


def visit_url(asked: Any) -> Any:
    """Visit the URL that the server asked for, after trying a wrong path on the same server."""
    url = asked["params"]["url"]
    assert url.startswith("http://127.0.0.1:")
    opener = build_opener(ProxyHandler({}))
    with pytest.raises(HTTPError, match="404") as refused:
        opener.open(url + "x", timeout=5).close()
    refused.value.close()
    with opener.open(url, timeout=5) as page:
        assert b"Thank you for your visit" in page.read()
    return {"action": "accept"}


def test_a_page_is_there_until_it_was_visited(client: InteractiveClient) -> None:
    assert (
        text_of(client.call("open_page", visit_url)) == "You visited the page. The server knows that and nothing else."
    )
    assert client.asked["params"]["mode"] == "url"
    if not client.modern:
        ident = client.asked["params"]["elicitationId"]
        assert client.told == [{
            "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": ident},
        }]  # fmt: skip
    with pytest.raises(OSError, match="refused"):
        build_opener(ProxyHandler({})).open(client.asked["params"]["url"], timeout=5).close()


def test_the_page_of_a_declined_url_is_closed(client: InteractiveClient) -> None:
    assert text_of(client.call("open_page", {"action": "decline"})) == "You declined."
    with pytest.raises(OSError, match="refused"):
        build_opener(ProxyHandler({})).open(client.asked["params"]["url"], timeout=5).close()


def test_the_clients_model_is_asked(client: InteractiveClient) -> None:
    reply = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
    assert text_of(client.call("ask_model", reply, question="Capital of France?")) == "m answered: Paris"
    assert client.asked["method"] == "sampling/createMessage"
    assert client.asked["params"]["messages"][0]["content"]["text"] == "Capital of France?"
    assert client.asked["params"]["maxTokens"] == 60


def test_a_client_error_is_reported_by_the_tool(peer: DemoClient) -> None:
    client = InteractiveClient(peer, "handshake")
    refused = client.call("ask_model", {"error": {"code": -1, "message": "User rejected it"}})
    assert refused["isError"]
    assert "User rejected it" in refused["content"][0]["text"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tool", "can"),
    [("order_tea", {}), ("open_page", {"elicitation": {}}), ("ask_model", {"elicitation": {"form": {}}})],
)
def test_undeclared_requests_are_not_asked(peer: DemoClient, era: str, tool: str, can: Any) -> None:
    client = InteractiveClient(peer, era, can)
    refused = client.call(tool, {})
    assert refused["isError"]
    assert "did not declare that it can" in refused["content"][0]["text"]
    assert client.asked is None


def test_a_cancelled_call_withdraws_its_question(peer: DemoClient) -> None:
    InteractiveClient(peer, "handshake")
    peer.write({"id": "c", "method": "tools/call", "params": {"name": "order_tea", "arguments": {}}})
    asked = peer.read()
    peer.write({"method": "notifications/cancelled", "params": {"requestId": "c"}})
    gone = peer.read()
    assert (gone["method"], gone["params"]) == ("notifications/cancelled", {"requestId": asked["id"]})
    assert peer.call("add", {"a": 1, "b": 1})["result"]["content"][0]["text"] == "1 + 1 = 2"


def test_a_page_of_another_call_is_not_waited_for(peer: DemoClient) -> None:
    client = InteractiveClient(peer, "stateless")
    forged = {"name": "open_page", "arguments": {}, "requestState": "x", **client.meta}
    forged["inputResponses"] = {"asked": {"action": "accept"}}
    result = peer.ask("tools/call", forged, modern=True)["result"]
    assert result["isError"]
    assert "page is gone" in result["content"][0]["text"]
