"""Tests for results too big for the model: the model gets the beginning, and the full result is stored."""
# ruff: noqa: ASYNC240 - the test looks at small files of its own

from pathlib import Path
from typing import Any

import pytest

from mcphost.host.builtin_tool_names import READ_RESULT
from mcphost.host.content_rendering import MODEL_TEXT_LIMIT
from mcphost.host.events import ToolFinished
from mcphost.host.questions.questions import AllowOnce
from mcphost.llm.messages import ToolReturnPart
from mcphost.llm.model import ModelFacts, ModelRequest
from mcphost.store.large_results import ResultStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.scripted_host import create_peer, open_host_with, text_result, tool_definition, tools_result

pytestmark = pytest.mark.anyio
BIG = "".join(f"line {number}\n" for number in range(60_000))


def last_return(request: ModelRequest) -> ToolReturnPart:
    (part,) = request.messages[-1].parts
    assert isinstance(part, ToolReturnPart)
    return part


async def run_conversation(folder: Path, kept: Path | None, *rounds: Any, big: str = BIG) -> tuple[ScriptedModel, Any]:
    peer = create_peer("2026-07-28", tools__list=tools_result(tool_definition("it")), tools__call=text_result(big))
    large = ModelFacts(context_window=10_000_000)
    model = ScriptedModel(tool_round(("peer__it", {})), *rounds, text_round("ok"), facts=large)
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(folder, peer, model, frontend, results=ResultStore(kept)) as host:
        feed = host.events.subscribe()
        await host.conversation.send("go")
        finished = [event for event in feed.drain() if isinstance(event, ToolFinished)]
        byhand = await host.tools.call("peer", "it", {})
    assert byhand.text == big
    return model, finished


LINE_START = BIG.rindex("\n", 0, MODEL_TEXT_LIMIT) + 1
"""Where the part of the text that the model gets ends: with a whole line."""


@pytest.mark.req("llm.big-results")
async def test_the_model_reads_on_where_the_beginning_ended(tmp_path: Path) -> None:
    def read_on(request: ModelRequest) -> Any:
        name = Path(last_return(request).kept).stem
        return tool_round((READ_RESULT, {"result": name, "offset": LINE_START, "limit": 100_000}))(request)

    model, finished = await run_conversation(tmp_path, tmp_path / "results", read_on)
    first, second = (last_return(request) for request in model.requests[1:3])
    path = Path(first.kept)
    assert path.read_text() == BIG
    assert [item.stored_file for item in finished] == [str(path), ""]
    assert finished[0].text == BIG
    assert f'{{"result": "{path.stem}", "offset": {LINE_START}}}' in first.text
    assert len(first.text.encode()) < MODEL_TEXT_LIMIT + 300
    head, _, rest = second.text.partition("\n")
    assert rest == BIG[LINE_START : LINE_START + 100_000]
    assert f"continues at offset {LINE_START + 100_000}" in head
    assert [sum(spec.name == READ_RESULT for spec in request.tools) for request in model.requests] == [0, 1, 1]
    assert len(list(path.parent.iterdir())) == 1, "what the user calls by hand goes to no model and is not kept"


@pytest.mark.parametrize(
    "given",
    [{"result": "0" * 16}, {"result": "../../store"}, {}, {"result": 7}, None,
     {"result": "mine", "offset": -1}, {"result": "mine", "offset": "1"}, {"result": "mine", "limit": 0}],
)  # fmt: skip
async def test_nothing_but_results_of_the_conversation_can_be_read(tmp_path: Path, given: Any) -> None:
    def read_on(request: ModelRequest) -> Any:
        mine = Path(last_return(request).kept).stem
        asked = {**given, "result": mine} if given and given.get("result") == "mine" else given
        return tool_round((READ_RESULT, asked))(request)

    model, finished = await run_conversation(tmp_path, tmp_path / "results", read_on)
    assert finished[-1].outcome == "failed"
    assert last_return(model.requests[2]).is_error


async def test_a_result_of_another_conversation_cannot_be_read(tmp_path: Path) -> None:
    strange = Path(await ResultStore(tmp_path / "results").save("of another conversation"))
    model, _ = await run_conversation(
        tmp_path, tmp_path / "results", tool_round((READ_RESULT, {"result": strange.stem}))
    )
    assert "of another" not in last_return(model.requests[2]).text
    assert last_return(model.requests[2]).is_error


async def test_a_result_that_could_not_be_stored_is_reported_to_user_and_model(tmp_path: Path) -> None:
    model, finished = await run_conversation(tmp_path, None)
    assert "was not stored" in finished[0].text
    told = last_return(model.requests[1])
    assert (told.kept, READ_RESULT in told.text) == ("", False)
    assert "was not stored" in told.text
    assert told.text.endswith("The rest is not available]")


async def test_a_result_of_usual_size_is_not_stored(tmp_path: Path) -> None:
    model, _ = await run_conversation(tmp_path, tmp_path / "results", big="x" * MODEL_TEXT_LIMIT)
    assert last_return(model.requests[1]).text == "x" * MODEL_TEXT_LIMIT
    assert not (tmp_path / "results").exists()
