"""Call a tool once and return the result as the model and the user get it."""

from pathlib import Path
from typing import Any

from mcphost.host.events import ToolFinished
from mcphost.host.questions.questions import AllowOnce
from mcphost.llm.messages import ToolReturnPart
from mcphost.llm.model import ModelFacts
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.scripted_host import create_peer, open_host_with, tool_definition, tools_result


async def call_tool_once(
    folder: Path, answer: Any, revision: str = "2026-07-28"
) -> tuple[ToolReturnPart, ToolFinished]:
    """Call a tool that returns *answer*; return the part for the model and the event for the user."""
    peer = create_peer(revision, tools__list=tools_result(tool_definition("it")), tools__call=answer)
    model = ScriptedModel(tool_round(("peer__it", {})), text_round("ok"), facts=ModelFacts(context_window=10_000_000))
    async with open_host_with(folder, peer, model, ScriptedFrontend(AllowOnce())) as host:
        feed = host.events.subscribe()
        await host.conversation.send("go")
        finished = next(event for event in feed.drain() if isinstance(event, ToolFinished))
    (part,) = model.requests[-1].messages[-1].parts
    assert isinstance(part, ToolReturnPart)
    return part, finished
