"""Tests for providers' API keys: environment variables, which one wins, and when none is needed or sent."""

import pytest

from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError, ModelError
from mcphost.llm.providers import (
    PLACEHOLDER_KEY,
    add_local_address,
    find_key,
    has_list_prices,
    is_loopback,
    is_own_server,
    key_variables,
    parse_provider,
)
from mcphost.llm.worker_client import worker_environment

pytestmark = pytest.mark.anyio


async def read_keyring(name: str) -> str | None:
    return {"OPENAI_API_KEY": "from-ring", "MINE": "mine-from-ring"}.get(name)


async def locked_keyring(name: str) -> str | None:
    raise McpHostError("The keyring is locked.", "Unlock it.")


async def test_the_environment_takes_precedence_over_the_keyring() -> None:
    config = ModelConfig(name="openai/gpt-4o")
    assert (await find_key(config, {"OPENAI_API_KEY": "env"}, read_keyring)).value == "env"
    assert (await find_key(config, {}, read_keyring)).value == "from-ring"


async def test_only_the_named_variable_is_read() -> None:
    config = ModelConfig(name="openai/gpt-4o", api_key_env="MINE")
    assert (await find_key(config, {"OPENAI_API_KEY": "no", "MINE": "yes"}, None)).value == "yes"
    assert (await find_key(config, {"OPENAI_API_KEY": "no"}, read_keyring)).value == "mine-from-ring"
    with pytest.raises(ModelError, match="MINE"):
        await find_key(config, {"OPENAI_API_KEY": "no"}, None)


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai/x", "OPENAI_API_KEY"), ("gpt-4o", "OPENAI_API_KEY"), ("anthropic/x", "ANTHROPIC_API_KEY"),
     ("gemini/x", "GEMINI_API_KEY"), ("newcomer/x", "NEWCOMER_API_KEY")],
)  # fmt: skip
async def test_a_missing_key_is_reported_before_anything_starts(name: str, variable: str) -> None:
    with pytest.raises(ModelError, match=variable) as exc_info:
        await find_key(ModelConfig(name=name), {}, None)
    assert exc_info.value.model_kind == "auth"


async def test_a_locked_keyring_is_reported_as_such() -> None:
    with pytest.raises(ModelError, match="locked"):
        await find_key(ModelConfig(name="openai/x"), {}, locked_keyring)


async def test_local_servers_need_no_key_and_get_none_by_accident() -> None:
    environ = {"OPENAI_API_KEY": "precious"}
    assert (await find_key(ModelConfig(name="ollama_chat/llama3"), environ, read_keyring)).value == ""
    unencrypted = ("http://192.168.0.7:8080/v1", "HTTP://models.example/v1")
    for base in ("http://127.0.0.1:1234/v1", "http://localhost:1234/v1", "https://[::1]:1/v1", *unencrypted):
        assert (
            await find_key(ModelConfig(name="openai/x", api_base=base), environ, read_keyring)
        ).value == PLACEHOLDER_KEY
    named = ModelConfig(name="openai/x", api_base="http://127.0.0.1:1/v1", api_key_env="OPENAI_API_KEY")
    assert (await find_key(named, environ, read_keyring)).value == "precious"


@pytest.mark.parametrize(
    ("name", "variable", "base", "is_sent"),
    [
        ("openai/x", "OPENAI_BASE_URL", "http://203.0.113.9:8080/v1", False),
        ("openai/x", "OPENAI_API_BASE", "HTTP://models.example/v1", False),
        ("openai/x", "OPENAI_BASE_URL", "https://models.example/v1", True),
        ("openai/x", "OPENAI_BASE_URL", "http://127.0.0.1:4000", True),
        ("openai/x", "ANTHROPIC_BASE_URL", "http://203.0.113.9", True),
        ("anthropic/x", "ANTHROPIC_BASE_URL", "http://203.0.113.9", False),
    ],
)
async def test_no_key_is_sent_without_encryption_to_an_address_from_the_environment(
    name: str, variable: str, base: str, is_sent: bool
) -> None:
    environ = {"OPENAI_API_KEY": "precious", "ANTHROPIC_API_KEY": "precious", variable: base}
    assert (await find_key(ModelConfig(name=name), environ, None)).value == ("precious" if is_sent else PLACEHOLDER_KEY)
    own = ModelConfig(name=name, api_base="https://own.example", api_key_env="OPENAI_API_KEY")
    assert (await find_key(own, environ, None)).value == "precious"


@pytest.mark.parametrize("host", ["127.evil.example", "127.0.0.1.evil.example", "x.localhost", "127.1.evil", ""])
def test_a_name_that_only_looks_like_this_machine_is_another_one(host: str) -> None:
    assert not is_loopback(f"http://{host}:8080/v1")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost", "LOCALHOST"])
def test_this_machine_is_known_by_its_addresses_and_its_name(host: str) -> None:
    assert is_loopback(f"http://{host}:8080/v1")


async def test_a_gateway_without_a_key_gets_a_placeholder() -> None:
    config = ModelConfig(name="openai/x", api_base="https://gateway.example/v1")
    assert (await find_key(config, {}, None)).value == PLACEHOLDER_KEY
    assert (await find_key(config, {"OPENAI_API_KEY": "env"}, None)).value == "env"


async def test_routes_with_their_own_credentials_need_no_key() -> None:
    assert (await find_key(ModelConfig(name="bedrock/x"), {}, None)).value == ""


def test_a_name_without_a_provider_has_no_variable() -> None:
    assert parse_provider("mystery") == ""
    assert key_variables(ModelConfig(name="mystery")) == ()


def test_the_worker_sees_proxies_and_clouds_but_no_keys() -> None:
    environ = {
        "PATH": "/bin",
        "https_proxy": "http://p",
        "SSL_CERT_FILE": "/c",
        "AWS_REGION": "eu",
        "LC_ALL": "C.UTF-8",
        "OPENAI_API_KEY": "k",
        "AZURE_API_KEY": "k",
        "GOOGLE_API_KEY": "k",
        "GITHUB_TOKEN": "k",
        "LITELLM_LOG": "DEBUG",
        "OPENAI_BASE_URL": "http://b",
        "DATABASE_URL": "postgres://u:p@h",
    }
    kept = worker_environment(environ)
    proxies = {"https_proxy", "no_proxy", "NO_PROXY"}
    assert set(kept) == {"PATH", "SSL_CERT_FILE", "AWS_REGION", "LC_ALL", "OPENAI_BASE_URL"} | proxies


@pytest.mark.parametrize(
    ("environ", "bypassed"),
    [
        ({"HTTPS_PROXY": "http://p"}, "localhost,127.0.0.1,::1"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "a.test"}, "a.test,localhost,127.0.0.1,::1"),
        ({"all_proxy": "http://p", "NO_PROXY": "a.test", "no_proxy": "b.test"}, "b.test,localhost,127.0.0.1,::1"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, "*"),
        ({}, None),
    ],
)
def test_the_worker_reaches_this_machine_without_a_proxy(environ: dict[str, str], bypassed: str | None) -> None:
    kept = worker_environment(environ)
    assert (kept.get("NO_PROXY"), kept.get("no_proxy")) == (bypassed, bypassed)


@pytest.mark.parametrize(
    ("name", "environ", "address"),
    [
        ("ollama_chat/x", {"OLLAMA_HOST": "127.0.0.1:9"}, "http://127.0.0.1:9"),
        ("ollama/x", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434"),
        ("ollama_chat/x", {"OLLAMA_HOST": "https://models.example"}, "https://models.example"),
        ("ollama_chat/x", {"OLLAMA_HOST": "127.0.0.1:9", "OLLAMA_API_BASE": "http://127.0.0.1:8"}, ""),
        ("ollama_chat/x", {}, ""),
        ("openai/x", {"OLLAMA_HOST": "127.0.0.1:9"}, ""),
    ],
)
async def test_a_model_of_ollama_is_reached_at_ollama_host(name: str, environ: dict[str, str], address: str) -> None:
    assert add_local_address(ModelConfig(name=name), environ).api_base == address


async def test_a_configured_address_counts_more_than_ollama_host() -> None:
    config = ModelConfig(name="ollama_chat/x", api_base="http://127.0.0.1:7")
    assert add_local_address(config, {"OLLAMA_HOST": "127.0.0.1:9"}) == config


@pytest.mark.parametrize(
    ("config", "is_own"),
    [
        (ModelConfig(name="openai/a", api_base="http://127.0.0.1:8123/v1"), True),
        (ModelConfig(name="openai/a", api_base="http://localhost:8123/v1"), True),
        (ModelConfig(name="openai/a", api_base="http://127.0.0.1:8123/v1", api_key_env="GATEWAY_KEY"), False),
        (ModelConfig(name="openai/a", api_base="http://127.0.0.1:8123/v1", headers={"X-Key": "k"}), False),
        (ModelConfig(name="openai/a", api_base="http://127.0.0.1:8123/v1", input_price=3.0), False),
        (ModelConfig(name="openai/a", api_base="http://127.0.0.1:8123/v1", output_price=3.0), False),
        (ModelConfig(name="openai/a", api_base="https://gateway.example.com/v1"), False),
        (ModelConfig(name="openai/a"), False),
    ],
)
def test_only_a_server_on_this_machine_without_a_key_is_free(config: ModelConfig, is_own: bool) -> None:
    assert is_own_server(config) is is_own


@pytest.mark.parametrize(
    ("base", "has_prices"),
    [
        ("", True),
        ("https://api.openai.com/v1", True),
        ("https://mine.openai.azure.com", True),
        ("https://gateway.example/v1", False),
        ("http://127.0.0.1:8000/v1", False),
    ],
)
def test_list_prices_are_those_of_the_providers_own_address(base: str, has_prices: bool) -> None:
    assert has_list_prices(ModelConfig(name="openai/gpt-5", api_base=base)) is has_prices


@pytest.mark.parametrize(
    ("name", "base", "has_prices"),
    [
        ("anthropic/claude-sonnet-4-5", "https://api.anthropic.com", True),
        ("openrouter/openai/gpt-5", "https://OpenRouter.ai/api/v1/", True),
        ("azure_ai/grok-3", "https://mine.services.ai.azure.com/models", True),
        ("anthropic/claude-sonnet-4-5", "https://api.anthropic.com.example", False),
        ("anthropic/claude-sonnet-4-5", "https://openrouter.ai/api/v1", False),
        ("azure_ai/grok-3", "https://ai.azure.com.example", False),
        ("hosted_vllm/x", "http://[", False),
    ],
)
def test_list_prices_apply_also_if_the_providers_own_address_is_configured(
    name: str, base: str, has_prices: bool
) -> None:
    assert has_list_prices(ModelConfig(name=name, api_base=base)) is has_prices
