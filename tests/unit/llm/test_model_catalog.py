"""Tests for reading litellm's table of models without importing litellm."""

import pytest

from mcphost.llm.api_key_formats import is_api_key, recognize_provider
from mcphost.llm.model_catalog import DEFAULT_MODELS, PROVIDER_TITLES, CatalogModel, load_catalog
from mcphost.llm.model_finder import find_keys
from mcphost.llm.providers import KEY_VARIABLES


@pytest.fixture(scope="module")
def catalog() -> dict[str, CatalogModel]:
    return {model.name: model for model in load_catalog()}


@pytest.mark.parametrize("provider", DEFAULT_MODELS)
def test_every_proposed_model_exists_and_uses_tools(provider: str, catalog: dict[str, CatalogModel]) -> None:
    model = catalog[DEFAULT_MODELS[provider]]
    assert model.supports_tools
    assert model.provider == provider
    assert provider in KEY_VARIABLES
    assert provider in PROVIDER_TITLES


def test_facts_of_a_model_are_those_of_the_table(catalog: dict[str, CatalogModel]) -> None:
    model = catalog["anthropic/claude-sonnet-4-5"]
    assert (model.context_window, model.supports_images, model.supports_reasoning) == (200_000, True, True)
    assert (model.input_price, model.output_price) == pytest.approx((3, 15))


def test_only_chat_models_of_remote_providers_are_listed(catalog: dict[str, CatalogModel]) -> None:
    assert len(catalog) > 1_000
    assert not any("embedding" in name for name in catalog if name.startswith("openai/"))
    assert not any(model.provider.startswith(("ollama", "vertex_ai-")) for model in catalog.values())


@pytest.mark.anyio
async def test_the_usual_variable_of_each_provider_is_found() -> None:
    environ = {KEY_VARIABLES[provider][0]: "x" for provider in DEFAULT_MODELS}
    assert [key.provider for key in await find_keys(environ)] == list(DEFAULT_MODELS)
    assert await find_keys({"ANTHROPIC_API_KEY": "  "}) == ()


@pytest.mark.parametrize(
    ("key", "provider"),
    [
        ("sk-ant-api03-x", "anthropic"),
        ("sk-proj-x", "openai"),
        ("AIzaSyx", "gemini"),
        ("gsk_x", "groq"),
        ("sk-or-v1-x", "openrouter"),
        ("sk-x", ""),
    ],
)
def test_a_provider_is_recognized_only_by_a_form_of_key_of_its_own(key: str, provider: str) -> None:
    assert recognize_provider(key) == provider


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" sk-ant-api03-abcdefghij0123\n", True),
        ("sk-abcdefghij0123456789", True),
        ("AIzaSyA-abcdefghij0123456789", True),
        ("sk-ant-api03-abcdefghij0123 is my key", False),
        ("sk-learn", False),
        ("https://example.com/abcdefghij0123", False),
        ("", False),
    ],
)
def test_only_a_text_that_is_nothing_but_a_long_word_with_a_known_prefix_is_an_api_key(
    text: str, expected: bool
) -> None:
    assert is_api_key(text) is expected
