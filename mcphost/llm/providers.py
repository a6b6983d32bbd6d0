"""What is known of providers before the first call: which key they want, which roads carry what, local or not."""

from collections.abc import Awaitable, Callable, Mapping

from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError, ModelError
from mcphost.redact import register_secret
from mcphost.serialization import Struct, replace
from mcphost.unicode_forms import split_url

KeyLookup = Callable[[str], Awaitable[str | None]]
"""Asks a vault for the secret stored under a variable's name."""

KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "azure": ("AZURE_API_KEY",),
    "azure_ai": ("AZURE_AI_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "cohere_chat": ("COHERE_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "zai": ("ZAI_API_KEY",),
    "dashscope": ("DASHSCOPE_API_KEY",),
    "nvidia_nim": ("NVIDIA_NIM_API_KEY",),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "huggingface": ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "minimax": ("MINIMAX_API_KEY",),
    "volcengine": ("VOLCENGINE_API_KEY",),
    "replicate": ("REPLICATE_API_KEY",),
}
"""Which environment variables name a provider's key, the usual one first (litellm's names)."""

LOCAL_PROVIDERS = frozenset({"ollama", "ollama_chat", "lm_studio", "hosted_vllm", "llamafile", "xinference"})
"""Servers people run themselves: no key unless one is given."""

CREDENTIAL_CHAIN_PROVIDERS = frozenset(
    {"bedrock", "bedrock_converse", "sagemaker", "vertex_ai", "azure", "azure_ai", "watsonx"}
)
"""Roads that can sign in without an API key, with what their libraries find."""

PLACEHOLDER_KEY = "none"
"""The OpenAI road refuses to start without a key even where the server wants none."""

RESULT_IMAGE_PROVIDERS = frozenset({"anthropic", "gemini", "ollama_chat"})
"""Roads measured to carry an image inside a tool's result; elsewhere it follows in a user message."""

THINKING_REPLAY_PROVIDERS = frozenset({"anthropic"})
"""Roads measured to take their own reasoning blocks back."""


class ProviderKey(Struct, frozen=True):
    """The key to send, empty for none, and the variable a user would set."""

    value: str
    variable: str


def parse_provider(model: str) -> str:
    """What stands before the first slash; litellm knows bare names of the big providers by their beginning."""
    head, slash, _rest = model.partition("/")
    if slash:
        return head
    if model.startswith(("gpt-", "o1", "o3", "o4", "chatgpt-")):
        return "openai"
    return "anthropic" if model.startswith("claude") else ""


def is_known_provider(provider: str) -> bool:
    """Whether its keys are known here; litellm knows many more."""
    return provider in KEY_VARIABLES or provider in LOCAL_PROVIDERS or provider in CREDENTIAL_CHAIN_PROVIDERS


def add_default_provider(config: ModelConfig) -> ModelConfig:
    """A bare name at an own address is an OpenAI-compatible server: nearly all of them are."""
    if config.api_base and "/" not in config.name and not parse_provider(config.name):
        return replace(config, name=f"openai/{config.name}")
    return config


def unknown_provider_error(model: str) -> ModelError:
    """What to say about a name that nobody serves."""
    return ModelError(
        f"The model name {model!r} has no provider that is known.",
        "Write it as provider/model, for example openai/gpt-4o or ollama_chat/llama3.1.",
        model_kind="bad_request",
    )


def key_variables(config: ModelConfig) -> tuple[str, ...]:
    """Where the key may lie, best first."""
    provider = parse_provider(config.name)
    if config.api_key_env:
        return (config.api_key_env,)
    return KEY_VARIABLES.get(provider) or ((f"{provider.upper()}_API_KEY",) if provider else ())


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine."""
    try:
        host = split_url(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.endswith(".localhost") or host.startswith("127.")


async def find_key(config: ModelConfig, environ: Mapping[str, str], keyring: KeyLookup | None) -> ProviderKey:
    """Environment first, then the keyring. Raises ModelError(auth) naming the variable when a key is needed.

    A provider's usual variable is not sent to a server on this machine: only a variable that was named for it is.
    """
    provider = parse_provider(config.name)
    names = key_variables(config)
    first = names[0] if names else ""
    if not config.api_key_env and (provider in LOCAL_PROVIDERS or is_loopback(config.api_base)):
        return ProviderKey("" if provider in LOCAL_PROVIDERS and provider != "hosted_vllm" else PLACEHOLDER_KEY, first)
    for name in names:
        if value := environ.get(name, "").strip():
            register_secret(value)
            return ProviderKey(value, name)
    value, trouble = await _find_in_keyring(names, keyring)
    if value:
        register_secret(value)
        return ProviderKey(value, first)
    if trouble and not config.api_base:
        raise ModelError(
            f"The key for {config.name} could not be read. {trouble.message}", trouble.hint, model_kind="auth"
        ) from trouble
    if not first:
        raise unknown_provider_error(config.name)
    if config.api_key_env:
        raise ModelError(
            f"{config.api_key_env} is not set, and it was named as the key of {config.name}.",
            f"Set {config.api_key_env} in the environment and start again.",
            model_kind="auth",
        )
    if config.api_base:
        return ProviderKey(PLACEHOLDER_KEY, first)
    if provider in CREDENTIAL_CHAIN_PROVIDERS:
        return ProviderKey("", first)
    raise ModelError(
        f"{config.name} needs a key, and none was found.",
        f"Set {first} in the environment, or name another variable with --api-key-env.",
        model_kind="auth",
    )


async def _find_in_keyring(names: tuple[str, ...], keyring: KeyLookup | None) -> tuple[str, McpHostError | None]:
    if keyring is None:
        return "", None
    try:
        for name in names:
            if value := (await keyring(name) or "").strip():
                return value, None
    except McpHostError as error:
        return "", error
    return "", None
