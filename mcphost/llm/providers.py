"""Facts about model providers, such as the environment variables for their API keys, and the lookup of keys."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError, ModelError
from mcphost.redact import register_secret
from mcphost.serialization import Struct, replace
from mcphost.unicode_forms import is_loopback_host, split_url

KeyLookup = Callable[[str], Awaitable[str | None]]
"""Function that looks up the keyring entry for an environment variable; returns None if there is none."""

OFFICIAL_HOSTS = ("api.openai.com", "openai.azure.com", "cognitiveservices.azure.com")
"""Hosts that, like their subdomains, provide the Responses API."""

API_ADDRESSES: dict[str, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "mistral": "https://api.mistral.ai/v1",
    "groq": "https://api.groq.com/openai/v1",
    "deepseek": "https://api.deepseek.com",
    "xai": "https://api.x.ai/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "moonshot": "https://api.moonshot.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
"""API addresses, keyed by provider; the variable `PROVIDER_API_BASE` or `PROVIDER_BASE_URL` overrides them."""

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
"""Environment variables for API keys, keyed by provider, the usual one first; litellm reads the same variables."""

LOCAL_PROVIDERS = frozenset({"ollama", "ollama_chat", "lm_studio", "hosted_vllm", "llamafile", "xinference"})
"""Providers that are self-hosted servers, which need no key unless one is configured."""

OLLAMA_PROVIDERS = ("ollama", "ollama_chat")
"""Providers for which requests are sent in Ollama's own format, which can specify the context size."""

CREDENTIAL_CHAIN_PROVIDERS = frozenset(
    {"bedrock", "bedrock_converse", "sagemaker", "vertex_ai", "azure", "azure_ai", "watsonx"}
)
"""Providers whose client libraries can find credentials other than an API key, for example in a file."""

PLACEHOLDER_KEY = "none"
"""Key sent to servers that need none, because the OpenAI client requires one."""

RESULT_IMAGE_PROVIDERS = frozenset({"anthropic", "gemini", "ollama_chat"})
"""Providers that accept images in tool results (measured); for others, images follow in a user message."""

THINKING_REPLAY_PROVIDERS = frozenset({"anthropic"})
"""Providers that accept their own reasoning blocks in later requests (measured)."""


REASONING_TEXT_PROVIDERS = LOCAL_PROVIDERS | {"deepseek", "moonshot", "zai"}
"""Providers that accept the text of their own reasoning in later requests.

DeepSeek and Moonshot reject a tool result without the reasoning that led to the call.
"""


def accepts_reasoning_text(config: ModelConfig) -> bool:
    """Return whether a provider accepts the text of a model's earlier reasoning in later requests.

    The result is True for an unknown OpenAI-compatible server, which only gets back text that it sent itself, and False
    for OpenAI, whose models do not disclose the text of their reasoning.
    """
    provider = parse_provider(config.name)
    return provider in REASONING_TEXT_PROVIDERS or (provider == "openai" and bool(config.api_base))


class ProviderKey(Struct, frozen=True):
    """The API key to send to a provider ("" for none), and the environment variable in which users set the key."""

    value: str
    variable: str


def parse_provider(model: str) -> str:
    """Return the provider that a model name contains (`openai/gpt-4o`) or implies (`gpt-4o`), otherwise ""."""
    head, slash, _rest = model.partition("/")
    if slash:
        return head
    if model.startswith(("gpt-", "o1", "o3", "o4", "chatgpt-")):
        return "openai"
    return "anthropic" if model.startswith("claude") else ""


def is_known_provider(provider: str) -> bool:
    """Return whether mcphost has its own information about the provider.

    litellm supports many more providers.
    """
    return provider in KEY_VARIABLES or provider in LOCAL_PROVIDERS or provider in CREDENTIAL_CHAIN_PROVIDERS


def add_default_provider(config: ModelConfig) -> ModelConfig:
    """Add `openai/` to a model name without a provider, if a base URL is configured for the model.

    Most servers at configured URLs are OpenAI-compatible.
    """
    if config.api_base and "/" not in config.name and not parse_provider(config.name):
        return replace(config, name=f"openai/{config.name}")
    return config


def add_local_address(config: ModelConfig, environ: Mapping[str, str]) -> ModelConfig:
    """Add the URL in `OLLAMA_HOST` to an Ollama model for which no base URL is configured.

    The URL must be added because litellm does not read `OLLAMA_HOST`, only `OLLAMA_API_BASE`.
    """
    host = environ.get("OLLAMA_HOST", "").strip()
    is_ollama = parse_provider(config.name) in OLLAMA_PROVIDERS
    if not is_ollama or not host or config.api_base or environ.get("OLLAMA_API_BASE"):
        return config
    return replace(config, api_base=parse_ollama_host(host))


def parse_ollama_host(text: str) -> str:
    """Convert the value of `OLLAMA_HOST`, which may lack a scheme or port, to a URL.

    An empty value becomes Ollama's default URL. The address 0.0.0.0, at which a server listens on all interfaces,
    becomes 127.0.0.1.
    """
    host = text.strip().rstrip("/")
    if not host:
        return "http://127.0.0.1:11434"
    if "://" not in host:
        host = f"http://{host}"
    scheme, _, rest = host.partition("://")
    rest = rest.partition("/")[0].replace("0.0.0.0", "127.0.0.1", 1)  # noqa: S104 - replaced, not bound
    if rest.startswith(":"):
        rest = f"127.0.0.1{rest}"
    has_port = ":" in rest.rpartition("]")[2]
    return f"{scheme}://{rest}" if has_port or scheme == "https" else f"{scheme}://{rest}:11434"


def unknown_provider_error(model: str) -> ModelError:
    """Return the error for a model name without a known provider."""
    return ModelError(
        f"The model name {model!r} has no known provider.",
        "Write it as provider/model, for example openai/gpt-4o or ollama_chat/llama3.1.",
        model_kind="bad_request",
    )


def key_variables(config: ModelConfig) -> tuple[str, ...]:
    """Return the environment variables that may contain a model's API key, the preferred one first."""
    provider = parse_provider(config.name)
    if config.api_key_env:
        return (config.api_key_env,)
    return KEY_VARIABLES.get(provider) or ((f"{provider.upper()}_API_KEY",) if provider else ())


def is_own_server(config: ModelConfig) -> bool:
    """Return whether a model runs on this machine at no cost.

    The URL must be a loopback address, and the configuration must contain no API key, headers or prices for the model.
    If it contains one of these, the server may pass requests on to a provider that charges for them.
    """
    is_priced = config.input_price is not None or config.output_price is not None
    return is_loopback(config.api_base) and not (config.api_key_env or config.headers or is_priced)


def is_official_base(base: str) -> bool:
    """Return whether *base* is a URL of OpenAI or Azure, or is "", which means the provider's default URL."""
    try:
        host = (split_url(base.strip()).hostname or "").lower()
    except ValueError:
        return False
    return not base.strip() or any(host == name or host.endswith(f".{name}") for name in OFFICIAL_HOSTS)


def has_list_prices(config: ModelConfig) -> bool:
    """Return whether litellm's list prices apply to a model.

    The list prices apply only to requests that are sent to the provider itself, because other servers may have other
    prices.
    """
    provider = parse_provider(config.name)
    if is_official_base(config.api_base):
        return True
    try:
        host = split_url(config.api_base.strip()).hostname
    except ValueError:
        return False
    if provider == "azure_ai":  # its models always have an address of their own
        return host is not None and host.endswith(".ai.azure.com")
    return host is not None and host == split_url(API_ADDRESSES.get(provider, "")).hostname


def is_loopback(url: str) -> bool:
    """Return whether a URL always refers to this machine."""
    try:
        return is_loopback_host(split_url(url).hostname or "")
    except ValueError:
        return False


def has_own_server(config: ModelConfig) -> bool:
    """Return whether the model runs on Ollama or on this machine, so that its server can report facts."""
    return parse_provider(config.name) in OLLAMA_PROVIDERS or is_loopback(config.api_base)


def _needs_named_key(url: str) -> bool:
    return is_loopback(url) or (bool(url) and not url.lower().startswith("https://"))


def _has_unencrypted_base(provider: str, key_names: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether an environment variable sets the provider's base URL to a remote URL without TLS.

    The variables that litellm and the provider's library read are checked, such as `OPENAI_BASE_URL`.
    """
    prefixes = {provider.upper(), *(name.removesuffix("_API_KEY") for name in key_names)}
    names = {f"{prefix}_{ending}" for prefix in prefixes for ending in ("API_BASE", "BASE_URL")}
    bases = (value.strip() for name, value in environ.items() if name.upper() in names)
    return any(base and _needs_named_key(base) and not is_loopback(base) for base in bases)


async def find_key(config: ModelConfig, environ: Mapping[str, str], keyring: KeyLookup | None) -> ProviderKey:
    """Return the API key for a model from the environment or, if it is not set there, from the keyring.

    A model server on this machine, or one without TLS, receives a key only if the model's configuration names the key's
    variable. The exception is a server on this machine whose URL is set in an environment variable such as
    `OPENAI_BASE_URL`. Raises ModelError (auth) if a required key is missing.
    """
    provider = parse_provider(config.name)
    names = key_variables(config)
    first = names[0] if names else ""
    if not config.api_key_env and (
        provider in LOCAL_PROVIDERS
        or _needs_named_key(config.api_base)
        or (not config.api_base and _has_unencrypted_base(provider, names, environ))
    ):
        return ProviderKey("" if provider in LOCAL_PROVIDERS and provider != "hosted_vllm" else PLACEHOLDER_KEY, first)
    for name in names:
        if value := environ.get(name, "").strip():
            register_secret(value)
            return ProviderKey(value, name)
    value, error = await _find_in_keyring(names, keyring)
    if value:
        register_secret(value)
        return ProviderKey(value, first)
    if error and not config.api_base:
        raise ModelError(
            f"The key for {config.name} could not be read. {error.message}", error.hint, model_kind="auth"
        ) from error
    if not first:
        raise unknown_provider_error(config.name)
    if config.api_key_env:
        raise ModelError(
            f"{config.api_key_env}, the configured key variable of {config.name}, is not set.",
            f"Choose the model on the Models page, which asks for the key, or set {first} in the environment.",
            model_kind="auth",
        )
    if config.api_base:
        return ProviderKey(PLACEHOLDER_KEY, first)
    if provider in CREDENTIAL_CHAIN_PROVIDERS:
        return ProviderKey("", first)
    raise ModelError(
        f"{config.name} needs a key, and none was found.",
        f"Choose the model on the Models page, which asks for the key, or set {first} in the environment.",
        model_kind="auth",
    )


async def find_missing_key(config: ModelConfig, environ: Mapping[str, str], keyring: KeyLookup | None) -> str:
    """Return the variable in which to set a model's missing API key, or "" if no key is missing.

    A key that cannot be read from the keyring counts as missing.
    """
    try:
        await find_key(config, environ, keyring)
    except ModelError as error:
        if error.model_kind == "auth":
            return next(iter(key_variables(config)), "")
    return ""


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
