"""The parameters of a model in the bytes that the real worker sends, and models that do not accept tools."""

from typing import Any

import pytest

from mcphost.config.schema import ModelConfig
from mcphost.llm.litellm_model import LiteLlmModel, ModelDeadlines
from mcphost.llm.messages import Message, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ToolsRefused
from mcphost.llm.worker_client import WorkerProcess
from tests.fakes.model import user_message
from tests.peers.models.model_requests import KEY, ask_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
REFUSALS = {
    "ollama": "registry.ollama.ai/library/gemma:2b does not support tools",
    "vllm": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "llama.cpp": "tools param requires --jinja flag",
    "openrouter": "No endpoints found that support tool use.",
    "groq": "`tool calling` is not supported with this model",
}


def create_unknown_model(base: str, worker: WorkerProcess, **settings: Any) -> LiteLlmModel:
    config = ModelConfig(name="openai/some-local-model", api_base=f"{base}/v1", api_key_env="TEST_KEY", **settings)
    environ = {"TEST_KEY": KEY, "TEAM": "research"}
    return LiteLlmModel(config, worker, environ=environ, deadlines=ModelDeadlines(retry_delay=0.01))


@pytest.fixture
def brief_provider(raw_provider: tuple[RawProvider, str]) -> tuple[RawProvider, str]:
    """A provider that answers with two words."""
    ours, base = raw_provider
    ours.words, ours.ending, ours.pause = 2, "polite", 0
    return ours, base


async def test_temperature_top_p_and_headers_are_sent_to_the_provider(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    headers = {"X-Team": "${env:TEAM}"}
    model = create_unknown_model(base, worker, temperature=0.25, top_p=0.5, headers=headers)
    await ask_model(model, "hi")
    assert (ours.bodies[0]["temperature"], ours.bodies[0]["top_p"]) == (0.25, 0.5)
    assert "x-team: research" in ours.heads[0].lower()


async def test_parameters_that_are_not_set_are_not_sent(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    await ask_model(create_unknown_model(base, worker), "hi")
    assert not {"temperature", "top_p", "max_tokens", "reasoning_effort"} & ours.bodies[0].keys()


@pytest.mark.req("llm.providers")
@pytest.mark.parametrize("message", list(REFUSALS.values()), ids=list(REFUSALS))
async def test_a_model_that_refuses_tools_is_asked_again_without_them_and_gets_none_from_then_on(
    message: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.refuses_tools = message
    model = create_unknown_model(base, worker)
    first = await ask_model(model, "hi")
    assert first.error is None
    assert first.text == "w0 w1 "
    assert [message in refused.reason for refused in first.events_of(ToolsRefused)] == [True]
    assert ["tools" in body for body in ours.bodies] == [True, False]
    assert model.facts.supports_tools is False
    second = await ask_model(model, "again")
    assert not second.events_of(ToolsRefused)
    assert ["tools" in body for body in ours.bodies] == [True, False, False]


async def test_a_model_set_to_never_gets_no_tools_and_says_so_once(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    model = create_unknown_model(base, worker, tools="never")
    replies = [await ask_model(model, "hi"), await ask_model(model, "again")]
    assert [reply.events_of(ToolsRefused) for reply in replies] == [[ToolsRefused()], []]
    assert not any("tools" in body for body in ours.bodies)


async def test_a_model_set_to_always_reports_the_refusal_as_an_error(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.refuses_tools = REFUSALS["ollama"]
    reply = await ask_model(create_unknown_model(base, worker, tools="always"), "hi")
    assert reply.error is not None
    assert "does not support tools" in reply.error.message
    assert len(ours.bodies) == 1


async def test_earlier_calls_and_results_are_sent_as_text_to_a_model_without_tools(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    conversation = (
        user_message("read it"),
        Message(role="assistant", parts=(TextPart("I will."), ToolUsePart("1", "fs__read", {"path": "a.txt"}))),
        Message(role="tool", parts=(ToolReturnPart("1", "fs__read", "content of a"),)),
        user_message("and now?"),
    )
    await ask_model(create_unknown_model(base, worker, tools="never"), *conversation)
    messages = ours.bodies[0]["messages"]
    assert "tool" not in {message["role"] for message in messages}
    assert not any("tool_calls" in message for message in messages)
    text = str(messages)
    assert "fs__read" in text
    assert "a.txt" in text
    assert "content of a" in text
