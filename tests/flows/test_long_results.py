"""Tests that results five times as long as the model's window do not end a conversation or lose early facts."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.schema import CompactionConfig
from mcphost.errors import ModelError
from mcphost.host.builtin_tool_names import READ_CONVERSATION, READ_RESULT
from mcphost.host.host import Host
from mcphost.host.questions.questions import AllowSession
from mcphost.llm.messages import ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelEvent, ModelFacts, ModelRequest, StreamFinished, TextDelta, ToolUseReady, Usage
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.windowed_model import CHARS_PER_TOKEN, is_summary_request, size_of
from tests.unit.host.scripted_host import create_peer, open_host_with, tool_definition, tools_result

pytestmark = pytest.mark.anyio
WINDOW = 10_000
FILLER = "nothing of importance here\n" * 80
_BEFORE_A_SUMMARY = 8  # results are short by then, and nothing is summarized yet
CALL = re.compile(r'read_result: (\{"result": "[^"]+", "offset": \d+\})')


def page(number: int) -> str:
    return f"page {number}\n{FILLER}The code of item{number} is {code_of(number)}.\n{FILLER}"


class ReadingModel:
    """A model that answers with a code from its request, or else calls the tools that the request mentions."""

    name = label = "reading"
    facts = ModelFacts(context_window=WINDOW)

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.used: list[str] = []

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        yield self._answer(request)

    async def _answer(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        size = size_of(request)
        if size > WINDOW:
            raise ModelError("The conversation is longer than it can take.", model_kind="context")
        self.requests.append(request)
        usage = Usage(input_tokens=size, output_tokens=10)
        if is_summary_request(request):
            numbers = [str(json.loads(line)["n"]) for line in _text_of(request).splitlines() if '"n"' in line]
            yield TextDelta(f"Pages were read. [{', '.join(numbers)}]")
        elif use := self._choose_call(request):
            self.used.append(use[0])
            yield ToolUseReady(ToolUsePart(f"call_{len(self.requests)}", *use))
            yield StreamFinished("tool_calls", usage)
            return
        else:
            found = re.findall(r"code of (item\d+) is (\w+)", _text_of(request))
            yield TextDelta(dict(found).get(_question(request).rpartition(" ")[2], "Noted."))
        yield StreamFinished("stop", usage)

    def _choose_call(self, request: ModelRequest) -> tuple[str, dict[str, Any]] | None:
        question, last = _question(request), request.messages[-1]
        if question.startswith("read"):
            return None if last.role == "tool" else ("peer__read", {"page": int(question.split()[1])})
        wanted = question.rpartition(" ")[2]
        if f"code of {wanted} is" in _text_of(request):
            return None
        for part in _results(request):
            # An old result says by itself how to read it again.
            if part.text.startswith(f"page {wanted.removeprefix('item')}\n") and (call := CALL.search(part.text)):
                return READ_RESULT, json.loads(call[1])
        if any(tool.name == READ_CONVERSATION for tool in request.tools) and last.role == "user":
            return READ_CONVERSATION, {"search": f"code of {wanted} is"}
        return None

    async def load_facts(self) -> None:
        """Do nothing, because `facts` is already set."""

    async def prepare(self) -> None:
        """Do nothing, because the model is always ready."""

    async def close(self) -> None:
        """Do nothing."""


def _question(request: ModelRequest) -> str:
    return next(message.text for message in reversed(request.messages) if message.role == "user")


def _results(request: ModelRequest) -> list[ToolReturnPart]:
    return [part for message in request.messages for part in message.parts if isinstance(part, ToolReturnPart)]


def _text_of(request: ModelRequest) -> str:
    return "\n".join([*(message.text for message in request.messages), *(part.text for part in _results(request))])


def code_of(number: int) -> str:
    return f"K{number * 7919 % 10_000}"


async def expect_code(host: Host, number: int) -> None:
    answer = await host.conversation.send(f"what is the code of item{number}")
    assert answer.text == code_of(number)


def answer_read(params: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": page(params["arguments"]["page"])}]}


async def test_facts_of_the_first_results_are_found_after_five_windows_of_results(tmp_path: Path) -> None:
    model = ReadingModel()
    peer = create_peer(tools__list=tools_result(tool_definition("read")), tools__call=answer_read)
    count = 5 * WINDOW * CHARS_PER_TOKEN // len(page(1)) + 1
    auto = CompactionConfig(mode="auto", keep_messages=4)
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(AllowSession()), compaction=auto) as host:
        for number in range(1, count + 1):
            told = await host.conversation.send(f"read {number}")
            assert (told.outcome, told.error) == ("done", "")
            if number == _BEFORE_A_SUMMARY:
                await expect_code(host, 1)
                assert model.used[-1] == READ_RESULT
        assert sum(len(page(number)) for number in range(1, count + 1)) > 5 * WINDOW * CHARS_PER_TOKEN
        assert host.conversation.compaction is not None
        for number in (1, 2, count // 2, count - 5, count):
            await expect_code(host, number)

    assert READ_CONVERSATION in model.used
    assert max(map(size_of, model.requests)) <= WINDOW
