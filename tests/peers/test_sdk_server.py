"""Tests for sessions with servers written with the official Python SDK, over stdio and HTTP, in both protocol eras."""

import subprocess
from collections.abc import Iterator

import anyio
import pytest

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import list_prompts, list_resource_templates, list_resources, list_tools
from mcphost.client.session import Session, WatchedChanges
from mcphost.config.schema import ServerConfig
from mcphost.errors import RequestRefused, RequestTimeout
from mcphost.protocol.content import TextContent
from mcphost.protocol.notifications import Notification, ProgressNotification, ToolListChangedNotification
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import Era, Revision
from mcphost.protocol.server_requests import ElicitResult
from mcphost.protocol.tools import CallTool
from tests.flows.fork_server import sdk_server_command
from tests.peers.sdk_programs import SDK_SERVER
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text

pytestmark = pytest.mark.anyio
# transport, era in the configuration, resulting revision
WAYS = [
    (transport, era, Revision.V2025_11_25 if era == "handshake" else Revision.V2026_07_28)
    for transport in ("stdio", "http", "http json")
    for era in ("auto", "handshake", "stateless")
]


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """Run two HTTP servers, one of which answers without event streams; yield their URLs by name."""
    processes: list[subprocess.Popen[str]] = []
    found: dict[str, str] = {}
    try:
        for name in ("http", "http json"):
            process = subprocess.Popen(sdk_server_command(SDK_SERVER, *name.split()), stdout=subprocess.PIPE, text=True)
            processes.append(process)
            assert process.stdout is not None
            found[name] = f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        yield found
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def config(transport: str, era: Era, addresses: dict[str, str]) -> ServerConfig:
    if transport == "stdio":
        command, *arguments = sdk_server_command(SDK_SERVER, "stdio")
        return ServerConfig(name="sdk", command=command, args=tuple(arguments), era=era)
    return ServerConfig(name="sdk", url=addresses[transport], era=era)


def open_session(
    server: ServerConfig, answers: FakeRequestHandler | None = None, observer: RecordingObserver | None = None
):  # type: ignore[no-untyped-def]
    return ClientSessionOpener().open(server, answers or FakeRequestHandler(), observer or RecordingObserver())


@pytest.mark.req("tools.list")
@pytest.mark.req("res.list")
@pytest.mark.parametrize(("transport", "era", "revision"), WAYS)
async def test_everything_a_server_offers_can_be_listed_and_used(
    transport: str, era: Era, revision: Revision, addresses: dict[str, str]
) -> None:
    observer = RecordingObserver()
    async with open_session(config(transport, era, addresses), observer=observer) as session:
        assert session.facts.revision is revision
        assert (session.facts.info.name, session.facts.info.version) == ("sdk-peer", "1.2.3")
        assert session.facts.instructions == "A peer for tests."
        tools = {tool.name: tool for tool in (await list_tools(session)).values}
        assert {"add", "slow", "fail", "big", "greet", "change"} <= set(tools)
        assert b'"a"' in bytes(tools["add"].input_schema)
        assert [resource.uri for resource in (await list_resources(session)).values] == ["demo://greeting"]
        assert [template.uri_template for template in (await list_resource_templates(session)).values] == [
            "demo://items/{ident}"
        ]
        (prompt,) = (await list_prompts(session)).values
        assert [argument.name for argument in prompt.arguments] == ["code"]
        await use_session(session)
    assert observer.warnings == []


async def use_session(session: Session) -> None:
    assert single_text(await session.request(CallTool("add", {"a": 2, "b": 40}))) == "42"
    failed = await session.request(CallTool("fail"))
    assert failed.is_error
    assert "it went wrong" in single_text(failed)
    assert len(single_text(await session.request(CallTool("big", {"size": 2_000_000})))) == 2_000_000
    read = await session.request(ReadResource("demo://items/7"))
    assert [content.text for content in read.contents] == ["item 7"]
    filled = await session.request(GetPrompt("review", {"code": "x = 1"}))
    block = filled.messages[0].parse_content()
    assert isinstance(block, TextContent)
    assert block.text == "Please review: x = 1"
    with pytest.raises(RequestRefused):
        await session.request(ReadResource("demo://nothing"))


@pytest.mark.parametrize(("transport", "era", "revision"), [way for way in WAYS if way[0] != "http json"])
async def test_progress_arrives_and_an_abandoned_call_leaves_the_session_usable(
    transport: str, era: Era, revision: Revision, addresses: dict[str, str]
) -> None:
    notifications: list[Notification] = []
    async with open_session(config(transport, era, addresses)) as session:
        call = CallTool("slow", {"steps": 3, "seconds": 0.02})
        assert single_text(await session.request(call, on_notification=notifications.append)) == "done"
        progress = [
            (event.progress, event.total, event.message)
            for event in notifications
            if isinstance(event, ProgressNotification)
        ]
        # Of more than ten a second only the newest is kept.
        assert (progress[0], progress[-1]) == ((1, 3, "step 1"), (3, 3, "step 3"))
        assert progress == sorted(progress)
        with pytest.raises(RequestTimeout):
            await session.request(CallTool("slow", {"steps": 1, "seconds": 30}), deadline=0.2)
        assert single_text(await session.request(CallTool("add", {"a": 1, "b": 1}))) == "2"


@pytest.mark.req("mrtr.state.echo")
@pytest.mark.req("mrtr.retry.new-id")
@pytest.mark.parametrize("transport", ["stdio", "http", "http json"])
async def test_an_input_round_is_answered_and_the_state_is_returned(transport: str, addresses: dict[str, str]) -> None:
    answers = FakeRequestHandler({"elicitation/create": ElicitResult("accept", {"name": "Ada"})})
    answers.capabilities = {"elicitation": {"form": {}}}
    async with open_session(config(transport, "stateless", addresses), answers) as session:
        result = await session.request(CallTool("greet"))
    assert single_text(result) == "Hello Ada, state remember me"
    assert answers.asked[0][1].target == "greet"


@pytest.mark.req("tools.list-changed.modern")
@pytest.mark.req("tools.list-changed.legacy")
@pytest.mark.parametrize(("transport", "era"), [("stdio", "stateless"), ("http", "stateless"), ("stdio", "handshake")])
async def test_a_changed_list_is_announced(transport: str, era: Era, addresses: dict[str, str]) -> None:
    async with open_session(config(transport, era, addresses)) as session, anyio.create_task_group() as group:
        heard = anyio.Event()

        async def watch() -> None:
            async for change in session.changes(WatchedChanges(tools=True)):
                assert isinstance(change, ToolListChangedNotification)
                heard.set()

        group.start_soon(watch)
        with anyio.fail_after(10):
            while not heard.is_set():
                # The start of a subscription is not visible here, so the change is repeated until it is reported.
                await session.request(CallTool("change"))
                with anyio.move_on_after(0.2):
                    await heard.wait()
        group.cancel_scope.cancel()


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_form_in_the_way_of_older_revisions_needs_the_handshake_and_the_error_says_so(
    transport: str, addresses: dict[str, str]
) -> None:
    answers = FakeRequestHandler({"elicitation/create": ElicitResult("accept", {"name": "Ada"})})
    answers.capabilities = {"elicitation": {"form": {}}}
    async with open_session(config(transport, "auto", addresses), answers) as session:
        with pytest.raises(RequestRefused) as caught:
            await session.request(CallTool("old_form"), deadline=30)
    assert '"mcphost": {"era": "handshake"}' in caught.value.hint
    async with open_session(config(transport, "handshake", addresses), answers) as session:
        assert single_text(await session.request(CallTool("old_form"), deadline=30)) == "thanks"
