"""Tests for what a model's own server reports about it: tools, images and the size of the context."""

from typing import Any

import pytest

from mcphost.config.schema import ModelConfig
from mcphost.host.model_selection import describe_losses
from mcphost.llm.litellm_model import LiteLlmModel
from mcphost.llm.model import ModelFacts, ToolsRefused
from mcphost.llm.worker_client import WorkerProcess
from tests.fakes.json_server import json_server
from tests.peers.models.model_requests import ask_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
LARGE = ModelFacts(context_window=400_000, supports_tools=True, supports_images=True)


def ollama_details(window: int, *abilities: str, parameters: str = "") -> dict[str, Any]:
    """Return Ollama's answer to `/api/show` (https://docs.ollama.com/api)."""
    info = {"general.architecture": "gemma", "gemma.context_length": window}
    return {"model_info": info, "capabilities": ["completion", *abilities], "parameters": parameters}


def create_ollama_model(base: str, worker: WorkerProcess, **settings: Any) -> LiteLlmModel:
    return LiteLlmModel(ModelConfig(name="ollama_chat/gemma:2b", api_base=base, **settings), worker, environ={})


@pytest.fixture
def ollama(raw_provider: tuple[RawProvider, str]) -> tuple[RawProvider, str]:
    """Return a provider that answers with two words."""
    ours, base = raw_provider
    ours.words, ours.ending, ours.pause = 2, "polite", 0
    return ours, base


async def test_a_local_model_that_takes_no_tools_gets_none_and_the_loss_is_reported(
    worker: WorkerProcess, ollama: tuple[RawProvider, str]
) -> None:
    ours, base = ollama
    ours.shown = ollama_details(8_192)
    model = create_ollama_model(base, worker)
    await model.prepare()
    losses = describe_losses(model.name, LARGE, model.facts)
    assert ("no tools" in losses, "no images" in losses, "8,192 instead" in losses) == (True, True, True)
    reply = await ask_model(model, "hi")
    assert reply.events_of(ToolsRefused) == [ToolsRefused()]
    assert "tools" not in ours.bodies[0]
    await ask_model(create_ollama_model(base, worker, tools="always"), "hi")
    assert "tools" in ours.bodies[1]


async def test_a_local_model_that_takes_tools_and_images_gets_them(
    worker: WorkerProcess, ollama: tuple[RawProvider, str]
) -> None:
    ours, base = ollama
    ours.shown = ollama_details(8_192, "tools", "vision")
    model = create_ollama_model(base, worker)
    reply = await ask_model(model, "hi")
    assert (model.facts.supports_tools, model.facts.supports_images) == (True, True)
    assert not reply.events_of(ToolsRefused)
    assert "tools" in ours.bodies[0]


@pytest.mark.parametrize(
    ("window", "parameters", "configured", "expected"),
    [
        (8_192, "", 0, 8_192),
        (131_072, "", 0, 32_768),
        (131_072, "", 65_536, 65_536),
        (131_072, "", 200_000, 131_072),
        (131_072, 'stop "<end>"\nnum_ctx                        49152', 0, 49_152),
        (131_072, "num_ctx -1", 0, 32_768),
    ],
    ids=["small", "default", "configured", "too large", "Modelfile", "invalid"],
)
async def test_the_context_that_is_counted_with_is_requested_from_ollama(
    window: int,
    parameters: str,
    configured: int,
    expected: int,
    worker: WorkerProcess,
    ollama: tuple[RawProvider, str],
) -> None:
    ours, base = ollama
    ours.shown = ollama_details(window, "tools", parameters=parameters)
    model = create_ollama_model(base, worker, context_window=configured)
    await ask_model(model, "hi")
    assert ours.bodies[0]["options"]["num_ctx"] == expected
    assert model.facts.context_window == expected


async def test_ollama_is_asked_again_about_a_model_until_it_answers(
    worker: WorkerProcess, ollama: tuple[RawProvider, str]
) -> None:
    ours, base = ollama
    model = create_ollama_model(base, worker)
    await model.prepare()
    assert model.facts.supports_tools is None
    ours.shown = ollama_details(8_192)
    await ask_model(model, "hi")
    assert model.facts.supports_tools is False
    assert "tools" not in ours.bodies[0]


async def test_the_facts_of_a_model_behind_openais_format_come_from_its_server_on_this_machine(
    worker: WorkerProcess,
) -> None:
    answers = {
        "GET /props": {
            "default_generation_settings": {"n_ctx": 16_384},
            "chat_template": "{% if tools %}{% endif %}",
            "modalities": {"vision": False},
        },
        "GET /v1/models": {"object": "list", "data": [{"id": "gemma"}]},
    }
    with json_server(answers) as server:
        config = ModelConfig(name="openai/gemma", api_base=f"{server.url}/v1", api_key_env="OWN_KEY")
        model = LiteLlmModel(config, worker, environ={"OWN_KEY": "secret-of-mine"})
        await model.prepare()
        facts = model.facts
        assert (facts.context_window, facts.supports_tools, facts.supports_images) == (16_384, True, False)
        assert {request[0] for request in server.requests} == {"GET"}
        assert not any("authorization" in request[3] for request in server.requests)
