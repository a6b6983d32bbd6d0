"""Tests for converting a model's settings to the text of form fields, and back."""

import pytest

from mcphost.config.model_form_text import InvalidModelFields, format_fields, parse_fields
from mcphost.config.schema import ModelConfig
from mcphost.errors import UsageError


def test_settings_survive_the_way_to_texts_and_back() -> None:
    config = ModelConfig(
        name="openai/x", api_base="https://example.com/v1", api_key_env="K", temperature=0.5, top_p=1.0,
        max_output_tokens=8_000, context_window=200_000, reasoning_effort="low", tools="never", api="responses",
        headers={"X-A": "a: b", "X-B": "${env:B}"},
    )  # fmt: skip
    assert parse_fields(format_fields(config)) == config
    assert parse_fields({"name": "openai/x", "max_output_tokens": "8,000"}).max_output_tokens == 8_000
    assert set(format_fields(ModelConfig(name="a/b")).values()) == {"a/b", ""}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({}, "needs a name"),
        ({"name": "bare"}, "needs a name"),
        ({"api_base": "http://127.0.0.1:8080/v1"}, "Write the name that the server at this address uses."),
        ({"name": "a/b", "temperature": "3"}, "temperature: '3' is not between 0 and 2"),
        ({"name": "a/b", "temperature": "warm"}, "temperature: 'warm' is not a number"),
        ({"name": "a/b", "temperature": "nan"}, "temperature"),
        ({"name": "a/b", "top_p": "0"}, "top_p"),
        ({"name": "a/b", "tools": "maybe"}, "tools: 'maybe' is not one of auto, always, never"),
        ({"name": "a/b", "api_base": "file:///etc"}, "http"),
        ({"name": "a/b", "headers": "no colon"}, "NAME: VALUE"),
        ({"name": "a" * 1_000 + "/b"}, "over"),
        ({"name": "a/b", "temperature": "hot", "context_window": "8k"}, "temperature: 'hot' is not a number. context"),
        ({"name": "a/b", "temperature": "hot", "context_window": "8k"}, "tokens: '8k' is not a number."),
    ],
)
def test_a_wrong_text_is_an_error_that_names_the_field(texts: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as exc_info:
        parse_fields(texts)
    assert words in str(exc_info.value)


@pytest.mark.parametrize(
    ("texts", "keys"),
    [
        ({}, ("name",)),
        ({"name": "bare", "temperature": "hot"}, ("name", "temperature")),
        ({"name": "a/b", "api_base": "file:///etc", "headers": "no colon"}, ("api_base", "headers")),
        ({"name": "bare", "api_base": "localhost:1"}, ("api_base",)),
    ],
)
def test_all_fields_with_a_wrong_text_are_named_in_their_order(texts: dict[str, str], keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidModelFields) as exc_info:
        parse_fields(texts)
    assert exc_info.value.keys == keys
