"""Trace the two main flows, and print their lengths and diagrams: `python -m tests.architecture.trace_flows`.

`--write` puts the sequence diagrams into ARCHITECTURE.md, and `--chains` prints every chain of functions.
"""

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from unittest import mock

from mcphost.auth import tokens
from mcphost.auth.accounts import TokenAges, suspend_aware_time
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.token_store import TokenStore
from mcphost.cli.build_host import open_host
from mcphost.cli.parser import Options
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import Limits, ServerConfig
from mcphost.protocol.tools import CallTool
from mcphost.tui.app import McpHostApp
from mcphost.tui.frontend import TuiFrontend
from mcphost.tui.widgets.composer import Composer
from tests.architecture.flow_trace import FlowTrace, Hop
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, ToolsPeer, run_peer
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

DOCUMENT = Path(__file__).parents[2] / "ARCHITECTURE.md"
MESSAGE_LANDMARKS = (
    "host/conversation/controller:ConversationController.send",
    "llm/demo_model:DemoModel.stream",
    "store/conversations:ConversationStore.append",
    "host/servers/tool_registry:ToolRegistry.resolve",
    "sandbox/schema_validator:SchemaValidator.validate",
    "host/consent/grants:ActiveGrants.find_covering",
    "tui/question_display:QuestionApp.open_dialog",
    "store/audit_store:AuditStore.append",
    "client/stateless_session:StatelessSession.request",
    "transport/process:ServerProcess.write",
    "transport/pipe_exchange:PipeExchange.put",
    "host/content_rendering:make_parts_async",
    "host/event_bus:EventBus.publish",
    "tui/transcript/presenter:TranscriptPresenter._handle_text",
    "tui/transcript/presenter:TranscriptPresenter._handle_tool_finished",
)
"""What a message with one tool call must reach: the model, the store, each stage of the pipeline, the screen."""
REFRESH_LANDMARKS = (
    "auth/oauth_provider:OAuthProvider.recover",
    "auth/token_store:TokenStore.lock",
    "auth/token_store:TokenStore.load",
    "auth/tokens:parse_token_response",
    "auth/token_store:TokenStore.save",
    "transport/http_pool:HttpConnectionPool.request",
)
"""What a 401 with a valid refresh token must reach, up to the request that is sent again."""
SIGN_IN_LANDMARKS = (
    "auth/oauth_provider:OAuthProvider.recover",
    "auth/discovery:discover_resource",
    "auth/discovery:discover_issuer",
    "auth/registration:register_client",
    "auth/callback_server:run_callback_server",
    "auth/sign_in_context:SignInContext.ask_user",
    "auth/callback_server:CallbackServer.wait",
    "auth/tokens:parse_token_response",
    "auth/token_store:TokenStore.save",
    "transport/http_pool:HttpConnectionPool.request",
)
"""What a 401 without a token must reach: discovery, registration, the user, the tokens and the request sent again."""
PARTICIPANTS = {
    "tui": "Screen",
    "host/active_conversation": "Store",
    "host/conversation_messages": "Store",
    "host/bootstrap": "Host",
    "host/conversation/controller": "Host",
    "host/host": "Host",
    "host/model_selection": "Host",
    "host/conversation": "Turn",
    "host/event_bus": "EventBus",
    "host/tools": "ToolPipeline",
    "host/servers": "Servers",
    "host/budget": "Budget",
    "host/content_rendering": "ToolPipeline",
    "host/consent": "Consent",
    "host/audit": "AuditLog",
    "tui/transcript/presenter": "Transcript",
    "sandbox": "Sandbox",
    "store": "Store",
    "llm": "Model",
    "client": "Session",
    "transport": "Transport",
    "transport/process": "Server",
    "auth/oauth_provider": "OAuthProvider",
    "auth/interactive_sign_in": "InteractiveSignIn",
    "auth/sign_in_context": "InteractiveSignIn",
    "auth/discovery": "Discovery",
    "auth/registration": "Registration",
    "auth/callback_server": "CallbackServer",
    "auth/oauth_http": "OAuthHttpClient",
    "auth/token": "Tokens",
    "auth/token_store": "TokenStore",
    "auth": "OAuth",
}
"""The participant of a module or function, by its longest prefix."""


@contextmanager
def temporary_folders() -> Generator[None]:
    """Redirect all of mcphost's folders to a temporary folder until the block ends."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        names = {f"MCPHOST_{kind}_DIR": f"{folder}/{kind.lower()}" for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        stack.enter_context(mock.patch.dict(os.environ, names))
        yield


async def trace_message() -> FlowTrace:
    """Trace a message with one approved tool call, from Enter in the composer to the answer."""
    trace = FlowTrace(MESSAGE_LANDMARKS)
    frontend = TuiFrontend()
    with temporary_folders():
        async with open_host(Options(demo=True), frontend) as host:
            app = McpHostApp(host, frontend)
            async with app.run_test(size=(100, 40)) as pilot:
                frontend.bind(app)

                async def until(is_true: Callable[[], object]) -> None:
                    async with asyncio.timeout(60):
                        while not is_true():
                            await pilot.pause(0.02)

                await until(lambda: host.servers.view("demo").state == "ready")
                app.chat.query_one(Composer).set_text("add 2 and 40", "typed")
                with trace.recording():
                    await pilot.press("enter")
                    # A question opens as a card while the composer was used in the last two seconds.
                    await until(lambda: app.screen is not app.chat or app.screen.query("QuestionCard"))
                    await pilot.press("f8")
                    await until(
                        lambda: app.screen is not app.chat and not app.screen.guard.is_blocking(0, is_letter=True)
                    )
                    await pilot.press("a")
                    await until(lambda: not host.conversation.is_busy)
                    await pilot.pause()
                app.request_quit()
    return trace


async def trace_sign_in() -> tuple[FlowTrace, FlowTrace]:
    """Trace a tool call over HTTP that gets a 401, first without a token, then with one that can be refreshed."""
    sign_in, refresh = FlowTrace(SIGN_IN_LANDMARKS), FlowTrace(REFRESH_LANDMARKS)
    registry = OAuthRegistry(TokenStore(MemoryBackend(), None), BrowserUser())
    opener = ClientSessionOpener(accounts=registry, limits=Limits())
    slept = 0.0
    ages = TokenAges(lambda: suspend_aware_time() + slept, lambda: time.time() + slept)
    scopes, free = "tools:read tools:write", ("initialize", "notifications/initialized", "server/discover", "GET")
    async with run_peer(kind=ToolsPeer, scope=scopes) as peer, AsyncExitStack() as stack:
        peer.free = free
        stack.enter_context(mock.patch.object(tokens, "token_ages", ages))
        server = ServerConfig(name="peer", url=peer.url)
        async with opener.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            with sign_in.recording():
                await session.request(CallTool("write", {}))
            peer.valid.clear()
            slept = 1000.0  # A refused token that is new is not refreshed.
            with refresh.recording():
                await session.request(CallTool("write", {}))
    return sign_in, refresh


def participant(hop: Hop) -> str:
    """Return the participant in the diagrams to which a function belongs."""
    name = f"{hop.module}:{hop.function}"
    return PARTICIPANTS[max((prefix for prefix in PARTICIPANTS if name.startswith(prefix)), key=len)]


def diagram(trace: FlowTrace) -> str:
    """Return a Mermaid sequence diagram of the calls between participants, in order, each call once."""
    arrows: dict[tuple[str, str, str], None] = {}
    for chain in trace.chains:
        for caller, callee in pairwise(chain):
            source, target = participant(caller), participant(callee)
            if source != target:
                arrows[source, target, callee.label] = None
    lines = [f"    {source}->>{target}: {label}" for source, target, label in arrows]
    return "\n".join(["```mermaid", "sequenceDiagram", *lines, "```"])


def trace_all() -> dict[str, FlowTrace]:
    """Trace all flows, and return the traces by name."""
    sign_in, refresh = asyncio.run(trace_sign_in())
    return {"message": asyncio.run(trace_message()), "sign-in": sign_in, "refresh": refresh}


def flow_hops(name: str, trace: FlowTrace) -> tuple[Hop, ...]:
    """Return the functions in a flow; for the 401 flows, only those called after the refused request."""
    before = () if name == "message" else trace.chains[0]
    return tuple(hop for hop in trace.hops if hop not in before)


def update_document(traces: dict[str, FlowTrace]) -> None:
    """Replace the diagrams in ARCHITECTURE.md, which have the same order as *traces*."""
    expected = iter([diagram(traces["message"]), diagram(traces["sign-in"])])
    text = DOCUMENT.read_text(encoding="utf-8")
    text = re.sub(r"```mermaid\nsequenceDiagram\n[^`]*```", lambda _: next(expected), text)
    DOCUMENT.write_text(text, encoding="utf-8")


def main() -> int:
    """Trace and print all flows, and update ARCHITECTURE.md with `--write`; return the exit code."""
    traces = trace_all()
    for name, trace in traces.items():
        hops = flow_hops(name, trace)
        print(f"{name}: {len(hops)} functions in {len({hop.module for hop in hops})} modules\n{diagram(trace)}")
        print(f"not reached: {', '.join(sorted(trace.missing)) or 'none'}\n")
        if "--chains" in sys.argv:
            for chain in trace.chains:
                print("  " + " > ".join(f"{hop.module}:{hop.function}" for hop in chain) + "\n")
    if "--write" in sys.argv:
        update_document(traces)
    return 0


if __name__ == "__main__":
    sys.exit(main())
