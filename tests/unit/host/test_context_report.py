"""Tests for the report on the context window, which lists the parts of the next request before it is sent."""

from pathlib import Path

import pytest

from mcphost.config.schema import ContextConfig
from mcphost.host.budget.token_shares import measure_shares
from mcphost.host.conversation.background_results import make_result_message
from mcphost.host.conversation.context_report import ContextTool
from mcphost.host.questions.questions import AllowSession
from mcphost.llm.messages import ImagePart, Message, ResourcePart, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelFacts, ModelRequest, StreamFinished, TextDelta, ToolSpec, Usage
from mcphost.llm.token_estimate import estimate_request_tokens
from mcphost.serialization import Raw
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.scripted_host import (
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio

SERVERS = {"files__read": "files", "mail__send": "mail"}
RESULT = ToolReturnPart("1", "files__read", "line\n" * 100, server="files", tool="read", outcome="ok")


def create_reader(text: str = "line\n" * 200):
    tools = tools_result(tool_definition("read", description="Read. " * 200), tool_definition("stat"))
    return create_peer(tools__list=tools, tools__call=text_result(text))


async def test_the_parts_of_the_next_request_are_measured_without_sending_it(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("peer__read", {})), text_round("ok"), facts=ModelFacts(context_window=50_000))
    async with open_host_with(tmp_path, create_reader(), model, ScriptedFrontend(AllowSession())) as host:
        attachment = ResourcePart("docs", "docs://a", "text " * 100)
        await host.conversation.send("go", (attachment,))
        sent = len(model.requests)
        report = await host.context.measure()
        again = await host.context.measure()
        assert len(model.requests) == sent
        model.rounds.append(text_round("ok"))
        await host.conversation.send("and")

    tokens = {(share.kind, share.server, share.tool): share.tokens for share in report.shares}
    assert set(tokens) == {
        ("system", "", ""),
        ("definitions", "peer", ""),
        ("results", "peer", "read"),
        ("attachments", "docs", ""),
        ("messages", "", ""),
    }
    assert tokens["results", "peer", "read"] > 250
    assert tokens["attachments", "docs", ""] > 125
    assert report == again
    assert (report.window, report.is_assumed, report.model, report.messages) == (50_000, False, "scripted", 4)
    assert 0 < estimate_request_tokens(model.requests[-1], since=1e12) - report.total < 20
    assert report.system == model.requests[-1].system


async def test_each_tool_is_listed_with_its_tokens_and_whether_it_is_sent(tmp_path: Path) -> None:
    context = ContextConfig(max_tools=1, pinned_tools=("peer/stat",))
    async with open_host_with(tmp_path, create_reader(), ScriptedModel(), context=context) as host:
        report = await host.context.measure()
        host.context.tools.prefer("peer", "", "pinned")
        pinned = await host.context.measure()

    read, search, stat = report.tools
    assert read.tokens > search.tokens > stat.tokens
    assert (read.name, read.is_sent, read.preference) == ("read", False, "auto")
    assert search == ContextTool("", "search_tools", search.tokens, True)
    assert (stat.name, stat.is_sent, stat.preference) == ("stat", True, "pinned")
    assert all(tool.is_sent for tool in pinned.tools)
    assert pinned.total > report.total


async def test_an_unknown_window_is_assumed_and_said_to_be(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, {}, ScriptedModel()) as host:
        report = await host.context.measure()

    assert (report.window, report.is_assumed, report.counted) == (128_000, True, 0)


async def test_the_count_of_the_provider_and_the_shortened_results_are_reported(tmp_path: Path) -> None:
    counted = [TextDelta("ok"), StreamFinished("stop", Usage(input_tokens=1_234, output_tokens=6))]
    model = ScriptedModel(tool_round(("peer__read", {})), counted, facts=ModelFacts(context_window=50_000))
    long_text = "line\n" * 20_000
    async with open_host_with(tmp_path, create_reader(long_text), model, ScriptedFrontend(AllowSession())) as host:
        await host.conversation.send("go")
        report = await host.context.measure()

    assert report.counted == 1_240
    assert report.shortened == 1
    assert report.total < 10_000


def test_each_part_is_counted_once_under_what_caused_it() -> None:
    request = ModelRequest(
        messages=(
            Message(role="user", parts=(ResourcePart("docs", "docs://a", "text " * 50), TextPart("hello " * 20))),
            Message(role="assistant", parts=(ToolUsePart("1", "files__read", {"path": "/a"}),)),
            Message(role="tool", parts=(RESULT,)),
            make_result_message(RESULT),
            Message(role="user", parts=(ImagePart("image/png", "A", "picture.png"),)),
        ),
        system="You are helpful. " * 10,
        tools=(
            ToolSpec("files__read", "Read a file. " * 5, Raw(b"{}")),
            ToolSpec("mail__send", "Send a mail. " * 5, Raw(b"{}")),
            ToolSpec("search_tools", "Find tools. " * 5, Raw(b"{}")),
        ),
    )
    shares = measure_shares(request, lambda name: SERVERS.get(name, ""))

    assert {(share.kind, share.server, share.tool) for share in shares} == {
        ("system", "", ""),
        ("definitions", "files", ""),
        ("definitions", "mail", ""),
        ("definitions", "", ""),
        ("attachments", "docs", ""),
        ("attachments", "", ""),
        ("results", "files", "read"),
        ("messages", "", ""),
    }
    assert sum(share.tokens for share in shares) == estimate_request_tokens(request, since=0)
