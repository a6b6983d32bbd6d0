"""Default model of each provider with a key; each is in litellm's list and supports tools."""

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
"""Model by provider; the order is the one in which they are proposed."""

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
"""Display name by provider."""


KEY_PREFIXES: tuple[tuple[str, str], ...] = (
    ("sk-ant-", "anthropic"),
    ("sk-proj-", "openai"),
    ("sk-svcacct-", "openai"),
    ("AIza", "gemini"),
    ("gsk_", "groq"),
    ("xai-", "xai"),
    ("csk-", "cerebras"),
)
"""Beginnings of keys by which a provider is recognized; others use forms that several providers share."""


def recognize_provider(key: str) -> str:
    """Return the provider that issues keys of this form, or "" if several do."""
    return next((provider for prefix, provider in KEY_PREFIXES if key.startswith(prefix)), "")


class FoundKey(Struct, frozen=True):
    """A provider whose key was found, in the environment variable or the keyring entry named `variable`."""

    provider: str
    variable: str
    is_in_keyring: bool = False

    @property
    def title(self) -> str:
        """Display name of the provider."""
        return PROVIDER_TITLES.get(self.provider, self.provider)

    @property
    def model(self) -> str:
        """The proposed model."""
        return DEFAULT_MODELS[self.provider]


async def find_keys(
    environ: Mapping[str, str], keyring: KeyLookup | None = None, providers: Iterable[str] = DEFAULT_MODELS
) -> tuple[FoundKey, ...]:
    """Return which *providers* have a key, in the environment or else in the keyring.

    By default, all providers with a default model are looked up. A keyring that is locked or does not answer has no
    keys. May be cancelled.
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
