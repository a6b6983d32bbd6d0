"""Requests that list a provider's models or check an API key; each is a single GET.

Sources: the API references of Anthropic (`GET /v1/models`), OpenAI (`GET /v1/models`), Google (`GET
/v1beta/models`), Mistral, Groq, DeepSeek, xAI, Cerebras, Moonshot and OpenRouter (OpenAI's format with
additional members).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import anyio

from mcphost.config.schema import ModelConfig
from mcphost.llm.json_requests import JsonAnswer, JsonClient, list_objects, parse_count, valid_names
from mcphost.llm.providers import API_ADDRESSES, is_loopback, parse_provider
from mcphost.serialization import Struct, as_object

LIST_SECONDS = 5.0
"""Time limit in seconds for all requests for model lists, which are sent concurrently."""

MAX_LISTED_MODELS = 1_000
MAX_ENDPOINTS = 10
"""Maximum number of configured base URLs from which model lists are requested."""

_MAX_LIST_BYTES = 4_000_000
LISTING_PROVIDERS = tuple(API_ADDRESSES)
"""The providers with an API that lists their models."""

_NO_CHAT = re.compile(
    r"embed|whisper|tts|dall-e|moderation|transcri|realtime|image|audio|sora|davinci|babbage|rerank|guard|aqa|veo|imagen",
    re.IGNORECASE,
)
"""Pattern that matches the names of models that cannot chat; OpenAI's list does not say what a model is for."""


_CONTEXT_KEYS = ("context_length", "context_window", "max_context_length", "inputTokenLimit", "max_input_tokens")
_MAX_PRICE = 100_000
"""Higher prices, in US dollars per million tokens, are mistakes."""


class ListedModel(Struct, frozen=True, kw_only=True):
    """A model in a provider's list; a value of 0 or None means that the list does not contain that value."""

    name: str
    """Name for litellm, `provider/model`."""

    provider: str
    context_window: int = 0
    supports_tools: bool | None = None
    supports_images: bool | None = None
    supports_reasoning: bool | None = None
    input_price: float | None = None
    """US dollars per million input tokens; only OpenRouter lists prices."""

    output_price: float | None = None


KeyVerdict = Literal["accepted", "rejected", "unknown"]


async def list_provider_models(keys: Mapping[str, str], environ: Mapping[str, str]) -> tuple[ListedModel, ...]:
    """Request the model lists of several providers concurrently; *keys* maps each provider to its API key.

    A provider that does not respond within LIST_SECONDS, or whose response is invalid, contributes no models. Safe
    to cancel.
    """
    found: dict[str, tuple[ListedModel, ...]] = {}

    async def ask(provider: str, key: str) -> None:
        answer = await _request_models(provider, key, environ)
        found[provider] = _parse_models(provider, answer.body)

    with anyio.move_on_after(LIST_SECONDS):
        async with anyio.create_task_group() as tasks:
            for provider, key in keys.items():
                if provider in API_ADDRESSES:
                    tasks.start_soon(ask, provider, key)
    return tuple(model for provider in keys for model in found.get(provider, ()))


async def list_endpoint_models(
    endpoints: Sequence[ModelConfig], keys: Mapping[str, str]
) -> tuple[tuple[ModelConfig, ListedModel], ...]:
    """Request the model lists of the servers at the base URLs of *endpoints* concurrently.

    The servers must use OpenAI's format. Returns a pair for each model: the endpoint that offers it, and the
    model, whose name begins with the endpoint's provider. *keys* maps variables to API keys; a key is sent only
    to an endpoint that names the key's variable and has an https URL. A server that does not respond within
    LIST_SECONDS, or whose response is invalid, contributes no models. Safe to cancel.
    """
    found: dict[int, tuple[ListedModel, ...]] = {}

    async def ask(at: int, endpoint: ModelConfig) -> None:
        base, key = endpoint.api_base.rstrip("/"), keys.get(endpoint.api_key_env, "")
        provider = parse_provider(endpoint.name)
        url = f"{base}/v1/models" if provider in ("ollama", "ollama_chat") else f"{base}/models"
        is_sent = key.isascii() and key.isprintable() and base.startswith("https://")
        headers = {"authorization": f"Bearer {key}"} if key and is_sent else {}
        async with JsonClient(uses_proxies=not is_loopback(base), timeout=LIST_SECONDS) as client:
            answer = await client.request("GET", url, headers=headers, limit=_MAX_LIST_BYTES)
        found[at] = _parse_models(provider, answer.body)

    with anyio.move_on_after(LIST_SECONDS):
        async with anyio.create_task_group() as tasks:
            for at, endpoint in enumerate(endpoints[:MAX_ENDPOINTS]):
                tasks.start_soon(ask, at, endpoint)
    return tuple((endpoint, model) for at, endpoint in enumerate(endpoints) for model in found.get(at, ()))


async def check_key(provider: str, key: str, environ: Mapping[str, str]) -> KeyVerdict:
    """Check an API key with a request to the provider; return "accepted", "rejected" or "unknown".

    OpenRouter lists its models without a valid key, so its keys are checked with `GET /key`. The result is "unknown" if
    the provider does not respond in time, or responds with an unrelated error. Safe to cancel.
    """
    status = 0
    if provider in API_ADDRESSES:
        with anyio.move_on_after(LIST_SECONDS):
            path = "/key" if provider == "openrouter" else "/models"
            status = (await _request_models(provider, key, environ, path)).status
    # Google responds with 400 (API_KEY_INVALID) to a key that does not exist.
    if status in (401, 403) or (status == 400 and provider == "gemini"):
        return "rejected"
    return "accepted" if status == 200 else "unknown"


async def _request_models(provider: str, key: str, environ: Mapping[str, str], path: str = "/models") -> JsonAnswer:
    base = _find_address(provider, environ)
    if not base or not key.isascii() or not key.isprintable():
        return JsonAnswer()
    url, headers = f"{base}{path}", {"authorization": f"Bearer {key}"}
    if provider == "anthropic":
        url = f"{base.removesuffix('/v1')}/v1/models?limit=1000"
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    elif provider == "gemini":
        url, headers = f"{base}/models?pageSize=1000", {"x-goog-api-key": key}
    # A redirect is not followed: the key is for this address only.
    async with JsonClient(uses_proxies=not is_loopback(base), timeout=LIST_SECONDS) as client:
        return await client.request("GET", url, headers=headers, limit=_MAX_LIST_BYTES)


def _find_address(provider: str, environ: Mapping[str, str]) -> str:
    """Return the base URL of a provider's API, or "" if the configured URL is neither https nor on this machine."""
    prefix = provider.upper()
    own = environ.get(f"{prefix}_API_BASE", "") or environ.get(f"{prefix}_BASE_URL", "")
    base = (own or API_ADDRESSES[provider]).strip().rstrip("/")
    return base if base.startswith("https://") or is_loopback(base) else ""


def _parse_models(provider: str, answer: Mapping[str, Any] | None) -> tuple[ListedModel, ...]:
    """Return the chat models in *answer*, a provider's list of models, in the order of the list."""
    entries = list_objects(answer, "models" if provider == "gemini" else "data", MAX_LISTED_MODELS)
    return tuple(
        _parse_model(provider, name.removeprefix("models/"), entry)
        for entry in entries
        for name in valid_names([entry.get("name" if provider == "gemini" else "id")])
        if not _NO_CHAT.search(name) and _can_chat(entry)
    )


def _can_chat(entry: Mapping[str, Any]) -> bool:
    """Return whether a model can chat; True if the provider's list does not contain this information.

    Google and Mistral list each model's capabilities, and Groq lists whether the model is active.
    """
    methods, abilities = entry.get("supportedGenerationMethods"), entry.get("capabilities")
    if isinstance(methods, list) and "generateContent" not in methods:
        return False
    if isinstance(abilities, dict) and cast("dict[str, Any]", abilities).get("completion_chat") is False:
        return False
    return entry.get("active") is not False


def _parse_model(provider: str, name: str, entry: Mapping[str, Any]) -> ListedModel:
    abilities = as_object(entry.get("capabilities"))
    inputs = as_object(entry.get("architecture")).get("input_modalities")
    parameters = entry.get("supported_parameters")
    tools = abilities.get("function_calling", _contains(parameters, "tools"))
    images = abilities.get("vision", _supported(abilities, "image_input", _contains(inputs, "image")))
    reasoning = _supported(abilities, "thinking", entry.get("thinking", _contains(parameters, "reasoning")))
    prices = as_object(entry.get("pricing"))
    sizes = [parse_count(entry.get(key)) for key in _CONTEXT_KEYS]
    return ListedModel(
        name=f"{provider}/{name}",
        provider=provider,
        context_window=max(sizes),
        supports_tools=_truth(tools),
        supports_images=_truth(images),
        supports_reasoning=_truth(reasoning),
        input_price=_parse_price(prices.get("prompt")),
        output_price=_parse_price(prices.get("completion")),
    )


def _supported(abilities: Mapping[str, Any], name: str, otherwise: object) -> object:
    """Return the `supported` flag of a capability in Anthropic's list, or *otherwise* if it is missing."""
    return as_object(abilities.get(name)).get("supported", otherwise)


def _parse_price(value: object) -> float | None:
    """Convert a price per token, given as a decimal string, to a price per million tokens.

    Returns None if *value* is not a valid price. OpenRouter uses -1 for a price that varies, which is not valid either.
    """
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        price = float(value) * 1_000_000
    except ValueError:
        return None
    return round(price, 6) if 0 <= price <= _MAX_PRICE else None


def _contains(value: object, item: str) -> bool | None:
    return item in cast("list[Any]", value) if isinstance(value, list) else None


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
