"""The default model for each provider, and the chat models in litellm's model table.

The table is read without importing litellm.
"""

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcphost.config.schema import ModelConfig
from mcphost.sanitize import is_sanitized
from mcphost.serialization import Struct, loads

DEFAULT_MODELS: dict[str, str] = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
    "gemini": "gemini/gemini-pro-latest",
    "mistral": "mistral/mistral-large-latest",
    "groq": "groq/openai/gpt-oss-120b",
    "deepseek": "deepseek/deepseek-chat",
    "xai": "xai/grok-4.5-latest",
    "cerebras": "cerebras/gpt-oss-120b",
    "moonshot": "moonshot/kimi-k3",
    "zai": "zai/glm-5.2",
    "dashscope": "dashscope/qwen3.8-max",
    "sambanova": "sambanova/DeepSeek-V3.2",
    "minimax": "minimax/MiniMax-M3",
}
"""Default models, keyed by provider, in the order of proposal; all are in litellm's table and support tools."""

FIRST_PARTY_PROVIDERS = (
    "openai",
    "anthropic",
    "gemini",
    "mistral",
    "deepseek",
    "xai",
    "moonshot",
    "zai",
    "dashscope",
    "minimax",
    "cohere_chat",
    "meta_llama",
    "amazon_nova",
)
"""Providers of their own models, in the order of listing; all other providers are listed after them."""

PROVIDER_TITLES: dict[str, str] = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "gemini": "Google Gemini",
    "mistral": "Mistral",
    "groq": "Groq",
    "deepseek": "DeepSeek",
    "xai": "xAI",
    "cerebras": "Cerebras",
    "moonshot": "Moonshot",
    "zai": "Z.ai",
    "dashscope": "Alibaba Cloud",
    "sambanova": "SambaNova",
    "minimax": "MiniMax",
    "openrouter": "OpenRouter",
}
"""Display names, keyed by provider."""

_TABLE = "model_prices_and_context_window_backup.json"
_CHAT_MODES = frozenset({"chat", "responses"})
_LOCAL_PROVIDERS = frozenset({"ollama", "ollama_chat", "lm_studio", "hosted_vllm", "lemonade"})
"""Providers whose models depend on what the user has installed; see `local_servers`."""

_CANONICAL_PROVIDERS = {"bedrock_converse": "bedrock"}
_MAX_TABLE_BYTES = 50_000_000


class CatalogModel(Struct, frozen=True, kw_only=True):
    """A chat model as described in litellm's model table; a value of 0 or None means unknown."""

    name: str
    """The model's name in litellm, `provider/model`."""

    provider: str
    context_window: int = 0
    """Maximum number of input tokens."""

    supports_tools: bool = False
    supports_images: bool = False
    supports_reasoning: bool = False
    input_price: float | None = None
    """US dollars per million input tokens."""

    output_price: float | None = None
    """US dollars per million output tokens."""

    @property
    def provider_title(self) -> str:
        """Display name of the provider."""
        return PROVIDER_TITLES.get(self.provider, self.provider)


class PricedModel(NamedTuple):
    """A model with its prices in US dollars per token."""

    config: ModelConfig
    input_price: float
    output_price: float


def find_prices(configs: Iterable[ModelConfig]) -> tuple[PricedModel, ...]:
    """Return the models in *configs* whose prices are known.

    - Configured prices take precedence.
    - Local models are free.
    - For other models without a configured URL, the prices are in litellm's table.

    Call this in a worker thread, because it may have to read the table with `load_catalog`.
    """
    listed = {model.name: model for model in load_catalog()}
    priced: list[PricedModel] = []
    for config in configs:
        model = listed.get(config.name)
        if config.input_price is not None and config.output_price is not None:
            priced.append(PricedModel(config, config.input_price / 1e6, config.output_price / 1e6))
        elif config.name.partition("/")[0] in _LOCAL_PROVIDERS:
            priced.append(PricedModel(config, 0.0, 0.0))
        elif model is not None and not config.api_base and None not in (model.input_price, model.output_price):
            priced.append(PricedModel(config, (model.input_price or 0) / 1e6, (model.output_price or 0) / 1e6))
    return tuple(priced)


@cache
def load_catalog() -> tuple[CatalogModel, ...]:
    """Return the chat models in litellm's table, sorted by provider and name, or () if the table is missing.

    The first call takes about 0.2 s, so call it in a worker thread.
    """
    spec = find_spec("litellm")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    path = next((path for folder in folders if (path := Path(folder) / _TABLE).is_file()), None)
    if path is None or path.stat().st_size > _MAX_TABLE_BYTES:
        return ()
    table = cast("dict[str, Any]", loads(path.read_bytes(), "table of models of litellm"))
    models = {model.name: model for key, entry in table.items() if (model := _parse(key, entry)) is not None}
    return tuple(sorted(models.values(), key=lambda model: (model.provider, model.name)))


def _parse(key: str, entry: object) -> CatalogModel | None:
    if not isinstance(entry, dict):
        return None
    facts = cast("dict[str, Any]", entry)
    provider = facts.get("litellm_provider")
    if facts.get("mode") not in _CHAT_MODES or not isinstance(provider, str) or not is_sanitized(key):
        return None
    if provider in _LOCAL_PROVIDERS:
        return None
    provider = _CANONICAL_PROVIDERS.get(provider, provider.partition("-")[0] if "vertex_ai" in provider else provider)
    return CatalogModel(
        name=key if key.startswith(f"{provider}/") else f"{provider}/{key}",
        provider=provider,
        context_window=_count(facts.get("max_input_tokens") or facts.get("max_tokens")),
        supports_tools=facts.get("supports_function_calling") is True,
        supports_images=facts.get("supports_vision") is True,
        supports_reasoning=facts.get("supports_reasoning") is True,
        input_price=_price(facts.get("input_cost_per_token")),
        output_price=_price(facts.get("output_cost_per_token")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _price(value: object) -> float | None:
    return value * 1e6 if isinstance(value, int | float) and not isinstance(value, bool) else None
