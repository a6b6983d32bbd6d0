"""A real Host with scripted in-process servers, reached through mcphost's own session code."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import SessionObserver
from mcphost.config.project_texts import ProjectPlaces
from mcphost.config.rules import Rule
from mcphost.config.schema import (
    BudgetConfig,
    CompactionConfig,
    ConsentConfig,
    ContextConfig,
    HookConfig,
    HostConfig,
    Limits,
    ModelConfig,
    ServerConfig,
    TitlesConfig,
)
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.bootstrap import build_host
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Frontend
from mcphost.host.tools.hooks import RunHook
from mcphost.llm.model import ChatModel
from mcphost.protocol.jsonrpc import (
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    parse_message,
)
from mcphost.serialization import Raw, encode
from mcphost.store.database import Database
from mcphost.store.large_results import ResultStore
from mcphost.transport.channel import CancellingTaskGroup, Connector
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.in_memory_channel import InMemoryChannel
from tests.fakes.model import ScriptedModel
from tests.unit.client.scripted_server import ScriptedServer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""

PeerAnswers = dict[str, Any]
EMPTY_LISTS: dict[str, Any] = {
    "tools/list": {"tools": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
}


class InProcessServer(InMemoryChannel):
    """A server that answers by method: with a result, an ErrorData, raw JSON (bytes), or a function of the params."""

    def __init__(self, answers: PeerAnswers, revision: str, capabilities: dict[str, Any], info: dict[str, Any]) -> None:
        super().__init__()
        self.answers = {**EMPTY_LISTS, **answers}
        self.seen: list[tuple[str, dict[str, Any]]] = []
        base = {"capabilities": capabilities, "instructions": info.pop("instructions", "")}
        if revision >= "2026-07-28":
            self.answers["server/discover"] = {**base, "supportedVersions": [revision], "serverInfo": info}
        else:
            self.answers["initialize"] = {**base, "protocolVersion": revision, "serverInfo": info}

    def asked(self, method: str) -> list[dict[str, Any]]:
        """Return the params of every request with this method."""
        return [params for name, params in self.seen if name == method]

    def _receive(self, line: bytes) -> None:
        message = parse_message(line)
        if isinstance(message, JsonRpcRequest):
            params = json.loads(bytes(message.params) or b"{}")
            self.seen.append((message.method, params))
            asyncio.get_running_loop().call_soon(self._answer, message, params)
        elif isinstance(message, JsonRpcNotification):
            self.seen.append((message.method, {}))

    def _answer(self, request: JsonRpcRequest, params: dict[str, Any]) -> None:
        answer = self.answers.get(request.method, ErrorData(code=-32601, message="unknown"))
        if callable(answer):
            answer = answer(params)
        if isinstance(answer, ErrorData):
            self.send(JsonRpcErrorResponse(request.id, answer))
        elif isinstance(answer, bytes):
            self.send(JsonRpcResponse(request.id, Raw(answer)))
        else:
            self.send(JsonRpcResponse(request.id, Raw(encode({"resultType": "complete", **answer}))))


class PeerOpener(ClientSessionOpener):
    """mcphost's session opener, with in-process servers instead of processes and URLs."""

    def __init__(self, peers: dict[str, InProcessServer]) -> None:
        super().__init__()
        self._peers = peers

    def _create_connector(self, server: ServerConfig, observer: SessionObserver, oauth: Any) -> Connector:
        return self._peers[server.name]


ToolDefinition = dict[str, Any]


def tool_definition(name: str, **members: Any) -> ToolDefinition:
    """Return the definition of a tool without parameters; *members* are added to it."""
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def tools_result(*definitions: ToolDefinition) -> dict[str, Any]:
    """Return a tools/list result with these definitions."""
    return {"tools": list(definitions), "ttlMs": 0, "cacheScope": "private"}


def text_result(text: str, **members: Any) -> dict[str, Any]:
    """Return a tool result that contains one text; *members* are added to it."""
    return {"content": [{"type": "text", "text": text}], **members}


def create_peer(
    revision: str = "2026-07-28",
    capabilities: dict[str, Any] | None = None,
    info: dict[str, Any] | None = None,
    **answers: Any,
) -> InProcessServer:
    """Return an in-process server; in the keywords of *answers*, `__` stands for the slash in a method's name."""
    given = {"tools": {}} if capabilities is None else capabilities
    return InProcessServer(
        {name.replace("__", "/"): answer for name, answer in answers.items()},
        revision,
        given,
        {"name": "peer", "version": "1", **(info or {})},
    )


@asynccontextmanager
async def open_host_with(
    folder: Path,
    peers: InProcessServer | dict[str, InProcessServer],
    model: ChatModel | None = None,
    frontend: Frontend | None = None,
    wait: Callable[[str], bool] = bool,
    results: ResultStore | None = None,
    *,
    reviewed: tuple[str, ...] = (),
    trusted: tuple[str, ...] = (),
    passes: tuple[Rule, ...] = (),
    never: tuple[Rule, ...] = (),
    audit_log: AuditLog | None = None,
    limits: Limits | None = None,
    context: ContextConfig | None = None,
    project: ProjectPlaces | None = None,
    consent: ConsentConfig | None = None,
    compaction: CompactionConfig | None = None,
    titles: TitlesConfig | None = None,
    budget: BudgetConfig | None = None,
    hooks: tuple[HookConfig, ...] = (),
    run_hook: RunHook | None = None,
    same_as: tuple[str, ...] = (),
    args: dict[str, tuple[str, ...]] | None = None,
) -> AsyncIterator[Host]:
    """Open a host that is connected to all *peers*; a single one is named `peer`.

    *reviewed* names the servers whose results the user reviews before the model gets them, *trusted* those whose
    annotations the user trusts. *same_as* names servers of
    the user that are treated as identical to every server here. *args* contains the arguments of each server's command;
    without them, a command has the server's name as its argument.
    """
    known = {"peer": peers} if isinstance(peers, InProcessServer) else peers
    servers = tuple(
        ServerConfig(
            name=name, command="in-process", args=(args or {}).get(name, (name,)), source="flag",
            era="stateless" if "server/discover" in peer.answers else "handshake", review_results=name in reviewed,
            matching_servers=same_as, trust_annotations=name in trusted,
        )
        for name, peer in known.items()
    )  # fmt: skip
    database = Database(folder / "store.db")
    model_config = ModelConfig(name="scripted" if model else "")
    config = HostConfig(
        servers=servers, model=model_config, pass_rules=passes, never_rules=never, limits=limits or Limits(),
        consent=consent or ConsentConfig(),
        context=context or ContextConfig(),
        compaction=compaction or CompactionConfig(),
        titles=titles or TitlesConfig(),
        budget=budget or BudgetConfig(),
        hooks=hooks,
    )  # fmt: skip
    host = build_host(
        config,
        store=database,
        opener=PeerOpener(known),
        model_factory=lambda _: model or ScriptedModel(),
        frontend=frontend or ScriptedFrontend(),
        results=results or ResultStore(folder / "results"),
        audit=audit_log,
        project=project,
        run_hook=run_hook,
    )
    async with host:
        for name in known:
            if wait(name):
                await host.servers.ensure_ready(name)
        yield host
    await database.close()


class PeerSequenceOpener(ClientSessionOpener):
    """mcphost's session opener, which connects to the next in-process server at each connection."""

    def __init__(self, peers: tuple[ScriptedServer, ...], tasks: CancellingTaskGroup) -> None:
        super().__init__(limits=Limits(request_timeout=5, connect_timeout=5))
        self._peers = list(peers)
        self._tasks = tasks

    def _create_connector(self, server: ServerConfig, observer: Any, oauth: Any) -> Connector:
        peer = self._peers.pop(0)
        self._tasks.start_soon(peer.serve)
        return peer.pipe


@asynccontextmanager
async def open_peer_host(
    folder: Path, *peers: ScriptedServer, url: str = "", model: ScriptedModel | None = None, **config: Any
) -> AsyncIterator[Host]:
    """Open a host whose server `peer` is not started yet; *config* adds to the server's configuration.

    With *url*, the server listens at that URL instead of being one of *peers*.
    """
    database = Database(folder / "store.db")
    server = ServerConfig(name="peer", command="" if url else "peer", url=url, source="flag", **config)
    async with CancellingTaskGroup() as tasks:
        host = build_host(
            HostConfig(servers=(server,), model=ModelConfig(name="scripted" if model else "")),
            store=database,
            opener=ClientSessionOpener() if url else PeerSequenceOpener(peers, tasks),
            model_factory=lambda _: model or ScriptedModel(),
            frontend=ScriptedFrontend(),
        )
        async with host:
            with anyio.fail_after(20):
                yield host
    await database.close()
