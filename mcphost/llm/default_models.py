"""Default models of providers that require an API key, and the search for those keys.

Every default model is in litellm's list and supports tools.
"""

from collections.abc import Iterable, Mapping

from mcphost.errors import McpHostError
from mcphost.llm.providers import KEY_VARIABLES, KeyLookup
from mcphost.serialization import Struct

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
"""Default models, keyed by provider, in the order in which they are proposed."""

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


KEY_PREFIXES: tuple[tuple[str, str], ...] = (
    ("sk-ant-", "anthropic"),
    ("sk-proj-", "openai"),
    ("sk-svcacct-", "openai"),
    ("AIza", "gemini"),
    ("gsk_", "groq"),
    ("xai-", "xai"),
    ("csk-", "cerebras"),
)
"""Prefixes of API keys that identify a provider; other providers use prefixes that several of them share."""


def recognize_provider(key: str) -> str:
    """Return the provider whose API keys begin like this key, or "" if none is known."""
    return next((provider for prefix, provider in KEY_PREFIXES if key.startswith(prefix)), "")


class FoundKey(Struct, frozen=True):
    """A provider whose API key was found in the environment variable or keyring entry named `variable`."""

    provider: str
    variable: str
    is_in_keyring: bool = False
    is_session_only: bool = False
    """Whether the key is kept in memory until mcphost quits, because it could not be stored."""

    @property
    def title(self) -> str:
        """Display name of the provider."""
        return PROVIDER_TITLES.get(self.provider, self.provider)

    @property
    def model(self) -> str:
        """The provider's default model."""
        return DEFAULT_MODELS[self.provider]


async def find_keys(
    environ: Mapping[str, str], keyring: KeyLookup | None = None, providers: Iterable[str] = DEFAULT_MODELS
) -> tuple[FoundKey, ...]:
    """Return the *providers* that have an API key in the environment or else in the keyring.

    By default, every provider with a default model is checked. A keyring that is locked or does not respond is treated
    as empty. May be cancelled.
    """
    found: list[FoundKey] = []
    for provider in providers:
        variables = KEY_VARIABLES[provider]
        set_variable = next((name for name in variables if environ.get(name, "").strip()), "")
        if set_variable:
            found.append(FoundKey(provider, set_variable))
        elif keyring is not None:
            try:
                if await keyring(variables[0]):
                    found.append(FoundKey(provider, variables[0], is_in_keyring=True))
            except McpHostError:
                keyring = None
    return tuple(found)
