"""Tests that the schema of an answer is sent in each provider's own format, also together with tools."""

from contextlib import suppress
from typing import Any

import pytest

from mcphost.errors import ModelError
from mcphost.llm.litellm_model import LiteLlmModel
from mcphost.llm.model import ModelRequest, ToolSpec
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw
from tests.fakes.model import user_message
from tests.peers.models.model_requests import TOOLS, create_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
RAW = Raw(b'{"type":"object","properties":{"total":{"type":"number"}},"required":["total"]}')
NAMED = {"name": "answer", "schema": SCHEMA, "strict": False}


async def ask(model: LiteLlmModel, tools: tuple[ToolSpec, ...]) -> None:
    request = ModelRequest(messages=(user_message("Add."),), tools=tools, answer_schema=RAW)
    with suppress(ModelError):
        async with model.stream(request) as events:
            await anext(events)


def sent_schema(route: str, body: dict[str, Any]) -> Any:
    match route:
        case "openai":
            return body.get("response_format")
        case "responses":
            return body.get("text", {}).get("format")
        case "anthropic":
            return body.get("output_format", body.get("output_config")) or body.get("tools")
        case "ollama":
            return body.get("format")
        case _:
            return body.get("generationConfig", {})


@pytest.mark.req("llm.openai.structured")
@pytest.mark.parametrize("route", ["openai", "responses"])
async def test_openai_is_sent_a_schema_that_is_not_strict_beside_tools(
    route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    provider, base = raw_provider
    provider.status = 400
    await ask(create_model(route, base, worker), TOOLS)
    wanted = {"type": "json_schema", "json_schema": NAMED} if route == "openai" else {"type": "json_schema", **NAMED}
    assert sent_schema(route, provider.bodies[0]) == wanted


@pytest.mark.parametrize("route", ["anthropic", "gemini", "ollama"])
async def test_other_providers_are_sent_a_schema_only_without_tools(
    route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    provider, base = raw_provider
    provider.status = 400
    await ask(create_model(route, base, worker), ())
    assert "total" in str(sent_schema(route, provider.bodies[0]))
    assert route != "ollama" or sent_schema(route, provider.bodies[0]) == SCHEMA
    provider.bodies.clear()
    await ask(create_model(route, base, worker), TOOLS)
    assert "total" not in str(provider.bodies[0])
