"""Tests for `mcphost models`: API keys and model servers on this machine, and the models of a provider."""

import json
from typing import Any

import pytest

from mcphost.config.remembered_models import ToolRefusals
from tests.fakes.json_server import json_server
from tests.flows.program import CANARY, Program

OLLAMA: dict[str, Any] = {
    "GET /api/version": {"version": "1"},
    "GET /api/tags": {"models": [{"model": "qwen3"}]},
    "POST /api/show": {"capabilities": ["tools"], "model_info": {"general.architecture": "q", "q.context_length": 5}},
}
NOTHING = {"OLLAMA_HOST": "127.0.0.1:9", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}


def test_keys_and_local_models_are_listed_without_showing_a_key(program: Program) -> None:
    with json_server(OLLAMA) as ollama:
        env = {**NOTHING, "OLLAMA_HOST": ollama.url, "ANTHROPIC_API_KEY": CANARY}
        text = program.text("models", **env)
        document = json.loads(program.text("models", "--json", **env))
    assert "ANTHROPIC_API_KEY is set" in text
    assert CANARY not in text + json.dumps(document)
    models = {model["name"]: model for model in document["models"]}
    local = models["ollama_chat/qwen3"]
    assert (local["usable"], local["tools"], local["context_window"]) == (True, True, 5)
    assert local["api_base"] == ollama.url
    assert document["models"][0]["provider"] == "anthropic"


def test_a_free_and_an_unknown_price_have_one_form_each(program: Program) -> None:
    with json_server(OLLAMA) as ollama:
        assert program.text("models", "ollama", **{**NOTHING, "OLLAMA_HOST": ollama.url}).rstrip().endswith("free")
    listed = {"data": [{"id": "maker/new"}]}
    with json_server({"GET /models": listed}) as server:
        env = {**NOTHING, "OPENROUTER_API_KEY": CANARY, "OPENROUTER_API_BASE": server.url}
        assert program.text("models", "openrouter", **env).rstrip().endswith("unknown")


def test_an_embedding_model_is_not_listed(program: Program) -> None:
    kinds = {"qwen3": ["completion"], "bge-m3": ["embedding"]}
    answers = {
        **OLLAMA,
        "GET /api/tags": {"models": [{"model": name} for name in kinds]},
        "POST /api/show": lambda body: {"capabilities": kinds[body["model"]]},
    }
    with json_server(answers) as ollama:
        document = json.loads(program.text("models", "--json", **{**NOTHING, "OLLAMA_HOST": ollama.url}))
    assert [model["name"] for model in document["models"]] == ["ollama_chat/qwen3"]


def test_without_any_model_the_way_to_one_is_reported(program: Program) -> None:
    done = program.run("models", **NOTHING)
    assert done.returncode == 0
    assert "ANTHROPIC_API_KEY" in done.stderr.decode()


def test_the_models_at_the_configured_address_are_listed_and_the_selected_one_even_if_it_is_down(
    program: Program,
) -> None:
    with json_server({"GET /v1/models": {"object": "list", "data": [{"id": "owl"}, {"id": "parrot"}]}}) as server:
        program.configure()
        (program.home / "config" / "config.toml").write_text(
            f'[model]\nname = "openai/parrot"\napi_base = "{server.url}/v1"\n'
        )
        document = json.loads(program.text("models", "--json", **NOTHING))
    assert [model["name"] for model in document["models"]] == ["openai/parrot", "openai/owl"]
    done = program.run("models", **NOTHING)
    assert b"openai/parrot" in done.stdout
    assert b"No keys" not in done.stderr


def test_all_models_of_a_provider_are_listed_with_prices_and_the_missing_key(program: Program) -> None:
    document = json.loads(program.text("models", "openai", "--json", **NOTHING))
    assert len(document["models"]) > 10
    model = next(model for model in document["models"] if model["name"] == "openai/gpt-5")
    assert (model["usable"], model["key_variable"], model["tools"]) == (False, "OPENAI_API_KEY", True)
    assert model["input_price"] > 0


def test_an_unknown_provider_is_refused_with_similar_names_or_some_known_ones(program: Program) -> None:
    told = program.error("models", "nosuch", code=2, **NOTHING)
    assert "anthropic" in told
    assert len(told) < 300, "not all 90 providers"
    assert "Similar: anthropic." in program.error("models", "antropic", code=2, **NOTHING)


@pytest.mark.parametrize("provider", ["ollama_chat", "ollama", "Ollama"])
def test_the_local_models_of_a_provider_are_listed_by_the_name_of_their_provider_or_server(
    program: Program, provider: str
) -> None:
    with json_server(OLLAMA) as ollama:
        env = {**NOTHING, "OLLAMA_HOST": ollama.url}
        document = json.loads(program.text("models", provider, "--json", **env))
    assert [model["name"] for model in document["models"]] == ["ollama_chat/qwen3"]


def test_a_provider_with_a_key_is_asked_for_its_models(program: Program) -> None:
    listed = {"data": [{"id": "maker/new", "context_length": 9_000, "supported_parameters": ["tools"]}]}
    with json_server({"GET /models": listed}) as server, json_server({"GET /models": listed}) as other:
        env = {**NOTHING, "OPENROUTER_API_KEY": CANARY, "OPENROUTER_API_BASE": server.url}
        env |= {"OPENAI_API_KEY": CANARY, "OPENAI_API_BASE": other.url}
        document = json.loads(program.text("models", "openrouter", "--json", **env))
        assert other.paths == [], "no other provider is asked"
    assert [(one["name"], one["tools"]) for one in document["models"]] == [("openrouter/maker/new", True)]
    assert document["models"][0]["origin"] == "OPENROUTER_API_KEY is set"


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        ("openrouter", "No models of openrouter are known, and no key to ask it for them was found."),
        ("openrouter", "Set OPENROUTER_API_KEY"),
        ("lm_studio", "No models of lm_studio were found on this machine."),
        ("ollama_chat", "Start its server"),
        ("llama_cpp", "Start its server"),
        ("huggingface", "There is no list of the models of huggingface."),
        ("huggingface", "mcphost --model huggingface/NAME"),
    ],
)
def test_a_known_provider_without_a_list_says_briefly_why(program: Program, provider: str, reason: str) -> None:
    told = program.error("models", provider, code=2, **NOTHING)
    assert reason in told
    assert len(told) < 300


def test_a_provider_that_does_not_list_its_models_is_named(program: Program) -> None:
    env = {**NOTHING, "OPENROUTER_API_KEY": CANARY, "OPENROUTER_API_BASE": "http://127.0.0.1:9"}
    assert "openrouter did not list its models." in program.error("models", "openrouter", code=2, **env)


def test_the_demo_model_is_listed_by_its_name(program: Program) -> None:
    (model,) = json.loads(program.text("models", "demo", "--json", **NOTHING))["models"]
    assert (model["name"], model["usable"], model["tools"], model["key_variable"]) == ("demo", True, True, "")
    assert "not an AI" in program.text("models", "demo", **NOTHING)


def test_tools_are_offered_again_to_models_that_refused_them(program: Program) -> None:
    ToolRefusals(program.home / "state").record("openai/gpt-5", "", "no tools")
    document = json.loads(program.text("models", "openai", "--json", **NOTHING))
    assert next(model for model in document["models"] if model["name"] == "openai/gpt-5")["tools"] is False
    assert "offers tools again to 1 model" in program.text("models", "--retry-tools", **NOTHING)
    document = json.loads(program.text("models", "openai", "--json", **NOTHING))
    assert next(model for model in document["models"] if model["name"] == "openai/gpt-5")["tools"] is True
    assert "No model refused tools" in program.text("models", "--retry-tools", **NOTHING)
