"""Tests for listing a provider's models and checking keys, with the documented responses over real HTTP."""

from typing import Any

import pytest

from mcphost.config.schema import ModelConfig
from mcphost.llm.json_requests import JsonAnswer, JsonClient
from mcphost.llm.provider_models import ListedModel, check_key, list_endpoint_models, list_provider_models
from tests.fakes.json_server import json_server

pytestmark = pytest.mark.anyio

KEY = "sk-test-0123456789abcdefghij"
OPENAI_LIST = {
    "object": "list",
    "data": [
        {"id": "gpt-5", "object": "model", "created": 1, "owned_by": "openai"},
        {"id": "text-embedding-3-large", "object": "model"},
        {"id": "gpt-5", "object": "model"} | {"id": "bad\x1b[2Jname"},
        {"id": 7},
        "not an object",
    ],
}
ANTHROPIC_LIST = {"data": [{"type": "model", "id": "claude-x", "display_name": "Claude X"}], "has_more": False}
GEMINI_LIST = {
    "models": [
        {
            "name": "models/gemini-x",
            "inputTokenLimit": 1_000_000,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
            "thinking": True,
        },
        {"name": "models/text-x", "supportedGenerationMethods": ["predict"]},
    ]
}
MISTRAL_LIST = {
    "data": [
        {
            "id": "mistral-x",
            "max_context_length": 131_072,
            "capabilities": {"completion_chat": True, "function_calling": True, "vision": False},
        },
        {"id": "ocr-x", "capabilities": {"completion_chat": False}},
    ]
}


ANTHROPIC_DETAILS = {
    "data": [
        {
            "type": "model",
            "id": "claude-y",
            "max_input_tokens": 1_000_000,
            "max_tokens": 128_000,
            "capabilities": {
                "image_input": {"supported": True},
                "thinking": {"supported": False, "types": {"enabled": {"supported": False}}},
            },
        },
        {"type": "model", "id": "claude-z", "capabilities": None, "max_input_tokens": None},
    ],
    "has_more": False,
}
OPENROUTER_LIST = {
    "data": [
        {
            "id": "maker/large",
            "context_length": 200_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "pricing": {"prompt": "0.000003", "completion": "0.000015", "request": "0"},
            "supported_parameters": ["tools", "reasoning", "temperature"],
        },
        {"id": "maker/free", "pricing": {"prompt": "0", "completion": "0"}, "supported_parameters": ["temperature"]},
        {"id": "maker/auto", "pricing": {"prompt": "-1", "completion": "nan"}},
        {"id": "maker/odd", "pricing": {"prompt": "9" * 500, "completion": ["1"]}},
    ]
}


async def list_one(provider: str, path: str, answer: Any) -> tuple[tuple[ListedModel, ...], dict[str, str]]:
    """List the models of one provider, which answers with *answer*; return the models and the request's headers."""
    with json_server({f"GET {path}": answer}) as server:
        environ = {f"{provider.upper()}_API_BASE": server.url}
        models = await list_provider_models({provider: KEY}, environ)
        assert server.paths == [f"GET {path}"]
        return models, server.requests[0][3]


async def test_each_provider_is_asked_in_its_own_form_with_its_key() -> None:
    models, headers = await list_one("openai", "/models", OPENAI_LIST)
    assert models == (ListedModel(name="openai/gpt-5", provider="openai"),)
    assert headers["authorization"] == f"Bearer {KEY}"
    models, headers = await list_one("anthropic", "/v1/models?limit=1000", ANTHROPIC_LIST)
    assert [model.name for model in models] == ["anthropic/claude-x"]
    assert (headers["x-api-key"], "authorization" in headers) == (KEY, False)
    models, headers = await list_one("gemini", "/models?pageSize=1000", GEMINI_LIST)
    assert models == (
        ListedModel(name="gemini/gemini-x", provider="gemini", context_window=1_000_000, supports_reasoning=True),
    )
    assert headers["x-goog-api-key"] == KEY
    models, _headers = await list_one("mistral", "/models", MISTRAL_LIST)
    assert models == (
        ListedModel(
            name="mistral/mistral-x",
            provider="mistral",
            context_window=131_072,
            supports_tools=True,
            supports_images=False,
        ),
    )


async def test_window_and_abilities_are_read_from_the_list_of_anthropic() -> None:
    models, _headers = await list_one("anthropic", "/v1/models?limit=1000", ANTHROPIC_DETAILS)
    assert models == (
        ListedModel(
            name="anthropic/claude-y",
            provider="anthropic",
            context_window=1_000_000,
            supports_images=True,
            supports_reasoning=False,
        ),
        ListedModel(name="anthropic/claude-z", provider="anthropic"),
    )


async def test_prices_and_abilities_are_read_from_the_list_of_openrouter() -> None:
    models, _headers = await list_one("openrouter", "/models", OPENROUTER_LIST)
    large, free, auto, odd = models
    assert (large.context_window, large.supports_images) == (200_000, True)
    assert [(model.supports_tools, model.supports_reasoning) for model in models] == [
        (True, True),
        (False, False),
        (None, None),
        (None, None),
    ]
    assert (large.input_price, large.output_price) == (pytest.approx(3), pytest.approx(15))
    assert (free.input_price, free.output_price) == (0, 0)
    assert [(model.input_price, model.output_price) for model in (auto, odd)] == [(None, None)] * 2


async def test_a_key_of_openrouter_is_judged_at_an_address_that_needs_one() -> None:
    for status, verdict in ((200, "accepted"), (401, "rejected"), (404, "unknown")):
        key: Any = {"data": {"label": "k"}} if status == 200 else status
        with json_server({"GET /models": OPENROUTER_LIST, "GET /key": key}) as server:
            assert await check_key("openrouter", KEY, {"OPENROUTER_API_BASE": server.url}) == verdict
            assert server.paths == ["GET /key"]


@pytest.mark.parametrize("answer", [500, 401, b"<html>", b"[]", {"data": 3}, {"models": []}, b"x" * 5_000_000])
async def test_an_answer_in_another_form_lists_nothing(answer: Any) -> None:
    models, _headers = await list_one("openai", "/models", answer)
    assert models == ()


async def test_a_silent_provider_does_not_delay_the_others_beyond_the_limit() -> None:
    with json_server({"GET /models": OPENAI_LIST}) as server:
        environ = {"OPENAI_API_BASE": server.url, "XAI_API_BASE": "http://127.0.0.1:9"}
        models = await list_provider_models({"xai": KEY, "openai": KEY, "unheard-of": KEY}, environ)
    assert [model.name for model in models] == ["openai/gpt-5"]


async def test_a_key_is_never_sent_without_encryption_or_after_a_redirect() -> None:
    assert await list_provider_models({"openai": KEY}, {"OPENAI_API_BASE": "http://models.example.com/v1"}) == ()
    with json_server({"GET /models": OPENAI_LIST}) as other:
        models, _headers = await list_one("openai", "/models", (302, f"{other.url}/models"))
        assert (models, other.paths) == ((), [])


@pytest.mark.parametrize(
    ("provider", "status", "verdict"),
    [
        ("openai", 200, "accepted"),
        ("openai", 401, "rejected"),
        ("anthropic", 403, "rejected"),
        ("gemini", 400, "rejected"),
        ("openai", 400, "unknown"),
        ("openai", 500, "unknown"),
        ("openai", 429, "unknown"),
    ],
)
async def test_a_key_is_judged_by_the_status_of_the_list(provider: str, status: int, verdict: str) -> None:
    answer: Any = {"data": []} if status == 200 else status
    paths = ("/models", "/v1/models?limit=1000", "/models?pageSize=1000")
    with json_server({f"GET {path}": answer for path in paths}) as server:
        assert await check_key(provider, KEY, {f"{provider.upper()}_API_BASE": server.url}) == verdict
        assert len(server.requests) == 1


async def test_a_key_cannot_be_judged_without_an_answer_or_a_known_address() -> None:
    assert await check_key("openai", KEY, {"OPENAI_API_BASE": "http://127.0.0.1:9"}) == "unknown"
    assert await check_key("unheard-of", KEY, {}) == "unknown"
    assert await check_key("openai", "bad\nkey", {"OPENAI_API_BASE": "http://127.0.0.1:9"}) == "unknown"


async def test_the_key_of_a_base_url_is_sent_to_that_url_over_https_only(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}

    async def record(self: JsonClient, method: str, url: str, **more: Any) -> JsonAnswer:
        del self, method
        sent[url] = more["headers"]
        return JsonAnswer(200, {"data": [{"id": "owl"}]})

    monkeypatch.setattr(JsonClient, "request", record)
    endpoints = [
        ModelConfig(name="openai/a", api_base="https://gateway.example/v1/", api_key_env="GATEWAY_KEY"),
        ModelConfig(name="openai/b", api_base="http://gateway.example/v1", api_key_env="GATEWAY_KEY"),
        ModelConfig(name="openai/c", api_base="https://other.example/v1"),
        ModelConfig(name="ollama_chat/d", api_base="http://10.0.0.7:11434"),
    ]
    found = await list_endpoint_models(endpoints, {"GATEWAY_KEY": KEY})
    assert sent == {
        "https://gateway.example/v1/models": {"authorization": f"Bearer {KEY}"},
        "http://gateway.example/v1/models": {},
        "https://other.example/v1/models": {},
        "http://10.0.0.7:11434/v1/models": {},
    }
    assert [(endpoint.name, model.name) for endpoint, model in found] == [
        ("openai/a", "openai/owl"),
        ("openai/b", "openai/owl"),
        ("openai/c", "openai/owl"),
        ("ollama_chat/d", "ollama_chat/owl"),
    ]


async def test_a_base_url_that_does_not_answer_leaves_the_models_of_the_others() -> None:
    with json_server({"GET /v1/models": {"data": [{"id": "owl"}]}, "GET /bad/models": {"data": "x"}}) as server:
        endpoints = [
            ModelConfig(name="openai/a", api_base="http://127.0.0.1:9/v1"),
            ModelConfig(name="openai/b", api_base=f"{server.url}/bad"),
            ModelConfig(name="openai/c", api_base=f"{server.url}/v1"),
        ]
        found = await list_endpoint_models(endpoints, {})
    assert [(endpoint.name, model.name) for endpoint, model in found] == [("openai/c", "openai/owl")]
