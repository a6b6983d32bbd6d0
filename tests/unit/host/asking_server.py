"""An in-process server whose tool `ask` sends requests to the host first, in the form defined by its revision."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcphost.config.schema import HostConfig, ModelConfig, RootConfig, ServerConfig
from mcphost.host.bootstrap import build_host
from mcphost.host.host import Host
from mcphost.protocol.jsonrpc import (
    JsonRpcErrorResponse,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    parse_message,
)
from mcphost.serialization import Raw, encode, loads
from mcphost.store.database import Database
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel
from tests.unit.host.scripted_host import InProcessServer, PeerOpener, tool_definition, tools_result

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
BOTH_ERAS = ("2025-11-25", STATELESS)
ServerRequests = dict[str, tuple[str, dict[str, Any]]]


def form_request(properties: dict[str, Any] | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return an elicitation request for a form with these fields."""
    schema = {"type": "object", "properties": properties or {}, **more}
    return "elicitation/create", {"message": "Who are you?", "requestedSchema": schema}


def url_request(url: str, ident: str = "e1", **more: Any) -> tuple[str, dict[str, Any]]:
    """Return an elicitation request that asks the user to visit a URL."""
    return "elicitation/create", {"mode": "url", "message": "Go there.", "url": url, "elicitationId": ident, **more}


def sampling_request(*messages: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
    """Return a sampling request, by default with a single user message."""
    said = messages or ({"role": "user", "content": {"type": "text", "text": "Capital of France?"}},)
    return "sampling/createMessage", {"messages": list(said), "maxTokens": 100, **more}


ROOTS = ("roots/list", dict[str, Any]())


class AskingServer(InProcessServer):
    """A server whose tool `ask` sends the requests in `asks`, and returns the replies as JSON under the same keys.

    The arguments of a call may contain other requests. A reply is `{"result": …}` or `{"error": {"code", "message"}}`.
    """

    def __init__(self, revision: str, asks: ServerRequests | None = None) -> None:
        super().__init__(
            {"tools/list": tools_result(tool_definition("ask"), tool_definition("plain"))},
            revision,
            {"tools": {}},
            {"name": "asker"},
        )
        self.asks = asks or {}
        self.state: dict[str, Any] = {"requestState": "opaque"}
        self.notifications: list[str] = []
        self.results: list[tuple[str, dict[str, Any]]] = []
        self.calls: list[tuple[Any, dict[str, Any]]] = []
        self.declared: dict[str, Any] = {}
        self._waiting: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._wanted: dict[Any, ServerRequests] = {}
        self.changed = anyio.Event()

    def _receive(self, line: bytes) -> None:
        message = parse_message(line)
        if isinstance(message, JsonRpcResponse | JsonRpcErrorResponse):
            self._reply(message)
        elif isinstance(message, JsonRpcNotification):
            self.notifications.append(message.method)
        elif isinstance(message, JsonRpcRequest):
            params = json.loads(bytes(message.params) or b"{}")
            meta = params.get("_meta", {})
            stamped = meta.get("io.modelcontextprotocol/clientCapabilities", self.declared)
            self.declared = params.get("capabilities", stamped)
            if message.method == "tools/call":
                self.calls.append((message.id, params))
                self._call(message.id, params)
            else:
                super()._receive(line)
        self.changed.set()
        self.changed = anyio.Event()

    def _call(self, ident: Any, params: dict[str, Any]) -> None:
        asks: ServerRequests = params.get("arguments", {}).get("asks") or self.asks
        if params["name"] == "plain" or not asks:
            self.finish(ident, {})
        elif "server/discover" in self.answers:
            if "inputResponses" in params:
                self.finish(ident, {key: {"result": reply} for key, reply in params["inputResponses"].items()})
                return
            expected = {key: {"method": method, "params": given} for key, (method, given) in asks.items()}
            round_ = {"resultType": "input_required", "inputRequests": expected, **self.state}
            self.send(JsonRpcResponse(ident, Raw(encode(round_))))
        else:
            self._wanted[ident] = asks
            for key, (method, given) in asks.items():
                self.ask(f"{ident}/{key}", method, given)

    def ask(self, ident: str, method: str, params: dict[str, Any]) -> None:
        """Send a request to the host."""
        self.send(JsonRpcRequest(ident, method, Raw(encode(params))))

    def say(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send(JsonRpcNotification(method, Raw(encode(params))))

    def _reply(self, message: JsonRpcResponse | JsonRpcErrorResponse) -> None:
        if isinstance(message, JsonRpcResponse):
            reply = {"result": loads(message.result)}
        else:
            reply = {"error": {"code": message.error.code, "message": message.error.message}}
        self.results.append((str(message.id), reply))
        for ident, asks in list(self._wanted.items()):
            given = {key: found for key in asks for name, found in self.results if name == f"{ident}/{key}"}
            if len(given) == len(asks):
                del self._wanted[ident]
                self.finish(ident, given)

    def finish(self, ident: Any, replies: dict[str, Any]) -> None:
        """Return the replies as the result of the tool call *ident*."""
        text = {"type": "text", "text": json.dumps(replies)}
        self.send(JsonRpcResponse(ident, Raw(encode({"resultType": "complete", "content": [text]}))))

    async def until(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        """Wait until the host has answered *count* requests in total; return all replies with their request ids."""
        while len(self.results) < count:
            await self.changed.wait()
        return self.results


@asynccontextmanager
async def open_asking_host(
    folder: Path,
    peers: AskingServer | dict[str, AskingServer],
    frontend: Any,
    model: Any = None,
    roots: tuple[RootConfig, ...] | None = (),
    open_url: Any = None,
    models: Any = None,
    audit_log: Any = None,
    **more: Any,
) -> AsyncIterator[Host]:
    """Open a host that is connected to the given servers; a single server is named `peer`."""
    known = {"peer": peers} if isinstance(peers, AskingServer) else peers
    servers = tuple(
        ServerConfig(name=name, command="in-process", source="flag",
                     era="stateless" if "server/discover" in peer.answers else "handshake")
        for name, peer in known.items()
    )  # fmt: skip
    database = Database(folder / "store.db")
    host = build_host(
        HostConfig(servers=servers, model=ModelConfig(name="scripted" if model else ""), roots=roots, **more),
        store=database,
        opener=PeerOpener(dict(known)),
        model_factory=models or (lambda _: model or ScriptedModel()),
        frontend=frontend,
        open_url=open_url,
        audit=audit_log,
    )
    with anyio.fail_after(10):
        async with host:
            for name in known:
                await host.servers.ensure_ready(name)
            yield host
    await database.close()


async def collect_replies(
    folder: Path, revision: str, asks: ServerRequests, *answers: Any, model: Any = None, **more: Any
) -> Any:
    """Let a server send the requests *asks*; return the host's replies and the questions that the user was asked.

    *answers* are the user's answers to these questions, in order.
    """
    peer, frontend = AskingServer(revision, asks), ScriptedFrontend(*answers)
    async with open_asking_host(folder, peer, frontend, model, **more) as host:
        outcome = await host.tools.call("peer", "ask", {})
    return json.loads(outcome.text), frontend.asked
