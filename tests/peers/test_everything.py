"""Tests for sessions with @modelcontextprotocol/server-everything, the reference server of the TypeScript SDK."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import list_prompts, list_resource_templates, list_resources, list_tools
from mcphost.config.schema import ServerConfig
from mcphost.errors import RequestRefused
from mcphost.protocol.notifications import Notification, ProgressNotification
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.server_requests import CreateMessageResult, ElicitResult, ListRootsResult, Root
from mcphost.protocol.tasks import CancelTask, GetTask, ListTasks, TaskStatusNotification
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw
from tests.peers import node
from tests.peers.everything_server import serve_everything
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import first_text

pytestmark = [pytest.mark.anyio, pytest.mark.peer, pytest.mark.usefixtures("npm_peers")]


@pytest.fixture(scope="module")
def everything_url(npm_peers: Path) -> Iterator[str]:
    """Run server-everything over Streamable HTTP; yield its URL."""
    with serve_everything("streamableHttp") as origin:
        yield f"{origin}/mcp"


@pytest.fixture(scope="module")
def sse_address(npm_peers: Path) -> Iterator[str]:
    """Run server-everything over HTTP+SSE; yield its URL."""
    with serve_everything("sse") as origin:
        yield f"{origin}/sse"


@pytest.mark.req("sse.detect")
@pytest.mark.parametrize("transport", ["stdio", "http", "sse", "sse found by itself"])
async def test_the_reference_server_can_be_listed_and_used(
    transport: str, everything_url: str, sse_address: str
) -> None:
    command, *arguments = node.everything_command()
    if transport == "stdio":
        server = ServerConfig(name="everything", command=command, args=tuple(arguments))
    elif transport == "sse":
        server = ServerConfig(name="everything", url=sse_address, transport="sse")
    else:
        server = ServerConfig(name="everything", url=everything_url if transport == "http" else sse_address)
    notifications: list[Notification] = []
    observer = RecordingObserver()
    async with ClientSessionOpener().open(server, FakeRequestHandler(), observer) as session:
        tools = [tool.name for tool in (await list_tools(session)).values]
        assert {"echo", "get-sum"} <= set(tools)
        result = await session.request(CallTool("get-sum", {"a": 2, "b": 40}))
        assert first_text(result) == "The sum of 2 and 40 is 42."
        resources = (await list_resources(session)).values
        assert resources
        assert (await session.request(ReadResource(resources[0].uri))).contents
        assert (await list_resource_templates(session)).values
        prompts = {prompt.name for prompt in (await list_prompts(session)).values}
        assert "simple-prompt" in prompts
        assert (await session.request(GetPrompt("simple-prompt"))).messages
        slow = CallTool("trigger-long-running-operation", {"duration": 0.4, "steps": 4})
        await session.request(slow, on_notification=notifications.append)
    assert len([event for event in notifications if isinstance(event, ProgressNotification)]) == 4
    assert [text for text in observer.warnings if "deprecated since" not in text] == []
    assert bool(observer.warnings) == transport.startswith("sse")


@pytest.mark.req("samp.legacy-wire")
async def test_its_sampling_and_roots_requests_are_answered() -> None:
    command, *arguments = node.everything_command()
    server = ServerConfig(name="everything", command=command, args=tuple(arguments))
    answers = FakeRequestHandler(
        {
            "roots/list": ListRootsResult((Root("file:///project", "project"),)),
            "sampling/createMessage": CreateMessageResult("assistant", Raw(b'{"type":"text","text":"Paris"}'), "m"),
        }
    )
    async with ClientSessionOpener().open(server, answers, RecordingObserver()) as session:
        with anyio.fail_after(10):
            result = await session.request(CallTool("trigger-sampling-request", {"prompt": "Capital?", "maxTokens": 5}))
    assert "Paris" in first_text(result)
    assert {type(ask).__name__ for ask, _ in answers.asked} >= {"CreateMessage"}


@pytest.mark.req("task.old.any-stream")
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_tasks_are_driven_both_ways_on_every_transport(
    transport: str, everything_url: str, sse_address: str
) -> None:
    command, *arguments = node.everything_command()
    servers = {
        "stdio": ServerConfig(name="everything", command=command, args=tuple(arguments)),
        "http": ServerConfig(name="everything", url=everything_url),
        "sse": ServerConfig(name="everything", url=sse_address, transport="sse"),
    }
    snake = ElicitResult("accept", {"interpretation": "snake", "name": "Ada"})
    said = CreateMessageResult("assistant", Raw(b'{"type":"text","text":"Paris"}'), "m")
    answers = FakeRequestHandler({"elicitation/create": snake, "sampling/createMessage": said})
    results: dict[str, str] = {}
    notifications: list[Notification] = []
    observer = RecordingObserver()
    async with ClientSessionOpener().open(servers[transport], answers, observer) as session:
        support = {tool.name: tool.execution for tool in (await list_tools(session)).values}
        required = support["simulate-research-query"]
        assert required is not None
        assert required.task_support == "required"

        async def call(tool: str, **given: Any) -> None:
            result = await session.request(CallTool(tool, given), on_notification=notifications.append)
            results[tool] = first_text(result)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(partial(call, "simulate-research-query", topic="python", ambiguous=True))
                group.start_soon(partial(call, "trigger-sampling-request-async", prompt="Capital?"))
                group.start_soon(call, "trigger-elicitation-request-async")
        listed = [json.loads(bytes(raw)) for raw in (await session.request(ListTasks())).tasks]
        assert [item["status"] for item in listed] == ["completed"]
        with pytest.raises(RequestRefused) as again:
            await session.request(CancelTask(listed[0]["taskId"]))
        assert again.value.code == -32602
        with pytest.raises(RequestRefused) as unknown:
            await session.request(GetTask("guess"))
        assert unknown.value.code == -32602
    assert results["simulate-research-query"].startswith("# Research Report: python (snake)")
    assert results["trigger-sampling-request-async"].startswith("[COMPLETED]")
    assert results["trigger-elicitation-request-async"].startswith("[COMPLETED]")
    statuses = [event.task.status for event in notifications if isinstance(event, TaskStatusNotification)]
    assert statuses[0] == "working"
    assert statuses[-1] == "completed"
    assert [warning for warning in observer.warnings if "HTTP+SSE" not in warning] == []
