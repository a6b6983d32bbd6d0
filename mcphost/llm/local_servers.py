"""Discovery of model servers on this machine (Ollama, LM Studio, llama.cpp, vLLM) and of their models.

Requests are sent only to loopback addresses and to the address of a selected Ollama model. All are GET requests, except
POST for Ollama's `/api/show`, and none of them makes a server load a model. A server is identified by its API
endpoints, never by its port alone. Sources: Ollama's API reference (`/api/version`, `/api/tags`, `/api/show`), LM
Studio's REST API (`/api/v0/models`), llama.cpp's server README (`/props`) and vLLM's OpenAI-compatible server
(`/version`, `/v1/models`).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import anyio

from mcphost.config.schema import ModelConfig
from mcphost.llm.json_requests import JsonClient, list_objects, parse_count, valid_names
from mcphost.llm.providers import OLLAMA_PROVIDERS, is_loopback, parse_ollama_host
from mcphost.serialization import Struct, replace

LocalServerKind = Literal["ollama", "lm_studio", "llama_cpp", "vllm", "openai_compatible"]

PROBE_SECONDS = 0.3
"""Time limit in seconds for finding servers; all addresses are probed concurrently."""

LATE_PROBE_SECONDS = 5.0
"""Time limit in seconds for slower servers, for example while they load a model."""

DETAILS_SECONDS = 2.0
"""Time limit in seconds for requesting the capabilities of models from Ollama."""

OLLAMA_CONTEXT = 32_768
"""Context size in tokens requested from Ollama if none is configured; a larger one takes more memory."""

MAX_MODELS = 200
MAX_DETAILED_MODELS = 50
_EMBEDDING_TYPES = frozenset({"embeddings", "embedding"})

TITLES: dict[LocalServerKind, str] = {
    "ollama": "Ollama",
    "lm_studio": "LM Studio",
    "llama_cpp": "llama.cpp",
    "vllm": "vLLM",
    "openai_compatible": "OpenAI-compatible server",
}
"""Display name of each kind of server."""

_LITELLM_PROVIDERS: dict[LocalServerKind, str] = {
    "ollama": "ollama_chat",  # not "ollama", which emulates tool calls with a prompt
    "lm_studio": "lm_studio",
    "llama_cpp": "openai",
    "vllm": "hosted_vllm",
    "openai_compatible": "openai",
}


class LocalAddress(Struct, frozen=True):
    """A URL to probe, without a trailing `/v1`, and the kind of model server that usually has this URL."""

    url: str
    kind: LocalServerKind = "openai_compatible"
    keys: tuple[tuple[str, str], ...] = ()
    """The API keys that the user's models name for this address, in the order in which to try them.

    Each is a pair of a URL and the environment variable of the key. The URL is the one in the model's settings, and the
    key is sent only to exactly this URL, because "localhost" and "127.0.0.1" may lead to different programs.
    """


class LocalModel(Struct, frozen=True, kw_only=True):
    """A model on a local server; a value of 0 or None means unknown."""

    id: str
    """Name on the server, for example `qwen3:8b`."""

    context_window: int = 0
    """Size in tokens that the server is configured to use, if the server reports it, otherwise the model's maximum.

    For Ollama without a configured size, this is the size that mcphost requests, at most OLLAMA_CONTEXT.
    """

    max_context_window: int = 0
    """The maximum context size of the model in tokens; only Ollama reports it separately."""

    can_chat: bool | None = None
    """False for a model that only computes embeddings; only Ollama reports this."""

    supports_tools: bool | None = None
    supports_images: bool | None = None
    supports_reasoning: bool | None = None


class LocalModelServer(Struct, frozen=True):
    """A running model server and its models.

    - `url`: the URL without a path.
    - `api_key_env`: the environment variable with the API key that the server required to list its models, or "" if it
      required none.
    """

    kind: LocalServerKind
    url: str
    models: tuple[LocalModel, ...]
    api_key_env: str = ""

    @property
    def title(self) -> str:
        """Display name of the server, for example "Ollama"."""
        return TITLES[self.kind]

    @property
    def chat_models(self) -> tuple[LocalModel, ...]:
        """The models that can chat, without embedding models.

        If the server does not report the kind of a model, an embedding model is recognized by its name.
        """
        return tuple(
            model
            for model in self.models
            if (model.can_chat if model.can_chat is not None else "embed" not in model.id.lower())
        )

    def model_config(self, model: LocalModel) -> ModelConfig:
        """Return the configuration for using *model* in mcphost."""
        base = self.url if self.kind == "ollama" else f"{self.url}/v1"
        name = f"{_LITELLM_PROVIDERS[self.kind]}/{model.id}"
        return ModelConfig(name=name, api_base=base, context_window=model.context_window, api_key_env=self.api_key_env)


def normalize_base(api_base: str) -> str:
    """Normalize the base URL of an API, so that different spellings of a local address are equal.

    A trailing `/` or `/v1` is removed, and the host `localhost` becomes `127.0.0.1`.
    """
    # Under the name localhost, a server would be listed twice.
    return api_base.rstrip("/").removesuffix("/v1").replace("//localhost:", "//127.0.0.1:")


def list_addresses(environ: Mapping[str, str], more: Iterable[ModelConfig] = ()) -> tuple[LocalAddress, ...]:
    """Return the addresses on this machine to probe for model servers.

    These are the usual ports, the address in `OLLAMA_HOST`, and the base URLs of the models in *more*, with the
    environment variables that these models use for their API keys. Addresses that are not on this machine are omitted.
    """
    ollama = parse_ollama_host(environ.get("OLLAMA_HOST", ""))
    addresses = [
        LocalAddress(ollama, "ollama"),
        LocalAddress("http://127.0.0.1:1234", "lm_studio"),
        LocalAddress("http://127.0.0.1:8080", "llama_cpp"),
        LocalAddress("http://127.0.0.1:8000", "vllm"),
        *(
            LocalAddress(url, keys=((url, model.api_key_env),) if model.api_key_env else ())
            for model in more
            for url in [model.api_base.rstrip("/").removesuffix("/v1")]
        ),
    ]
    unique: dict[str, LocalAddress] = {}
    for address in addresses:
        if is_loopback(address.url):
            base = normalize_base(address.url)
            known = unique.get(base, replace(address, keys=()))
            unique[base] = replace(known, keys=tuple(dict.fromkeys((*known.keys, *address.keys))))
    return tuple(unique.values())


async def find_local_servers(
    addresses: Sequence[LocalAddress], keys: Mapping[str, str] | None = None, *, seconds: float | None = None
) -> tuple[LocalModelServer, ...]:
    """Probe all addresses concurrently, and return the servers found within *seconds*, in the given order.

    *seconds* defaults to PROBE_SECONDS. Addresses that refuse the connection, do not respond in time, or send an
    unknown response are left out. Safe to cancel.

    *keys* maps environment variables to API keys. Each address is first probed without a key. If no server is
    identified, the keys whose variables are in `LocalAddress.keys` are tried with `GET /v1/models`, one after another,
    until one is accepted. A key is never sent to an address that does not name its variable.
    """
    found: dict[LocalAddress, LocalModelServer] = {}
    async with JsonClient(uses_proxies=False, timeout=max(DETAILS_SECONDS, seconds or 0)) as client:

        async def probe(address: LocalAddress) -> None:
            for identify in _identification_order(address.kind):
                server = await identify(client, address.url)
                if server is not None:
                    found[address] = server
                    return
            for url, variable in address.keys:
                key = (keys or {}).get(variable, "")
                server = await _identify_with_key(url, key) if key else None
                if server is not None:
                    found[address] = replace(server, api_key_env=variable)
                    return

        with anyio.move_on_after(PROBE_SECONDS if seconds is None else seconds):
            async with anyio.create_task_group() as tasks:
                for address in addresses:
                    tasks.start_soon(probe, address)
    return tuple(found[address] for address in addresses if address in found)


async def load_model_details(server: LocalModelServer, *, seconds: float = DETAILS_SECONDS) -> LocalModelServer:
    """Return *server* with its models' capabilities and context sizes added; only Ollama provides them.

    Other servers are returned unchanged. A model also stays unchanged if no response for it arrives within
    *seconds*.
    """
    if server.kind != "ollama":
        return server
    details: dict[str, LocalModel] = {}
    async with JsonClient(uses_proxies=False, timeout=DETAILS_SECONDS) as client:

        async def load(model: LocalModel) -> None:
            answer = (await client.request("POST", f"{server.url}/api/show", {"model": model.id})).body
            if answer is not None:
                details[model.id] = _parse_ollama_details(model, answer)

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                for model in server.models[:MAX_DETAILED_MODELS]:
                    tasks.start_soon(load, model)
    return replace(server, models=tuple(details.get(model.id, model) for model in server.models))


async def find_served_model(config: ModelConfig, environ: Mapping[str, str]) -> LocalModel | None:
    """Return the facts that a model's server reports about the model, or None if it reports none.

    *config* is the model's configuration. An Ollama server may be at any address; another server is contacted only if
    it is on this machine. No API key or configured header is sent. Waits at most DETAILS_SECONDS. Safe to cancel.
    """
    provider, _, name = config.name.partition("/")
    if provider in OLLAMA_PROVIDERS:
        base = config.api_base or environ.get("OLLAMA_API_BASE") or parse_ollama_host(environ.get("OLLAMA_HOST", ""))
        return await _find_ollama_model(base.rstrip("/"), name)
    if not is_loopback(config.api_base):
        return None
    kinds: dict[str, LocalServerKind] = {"lm_studio": "lm_studio", "hosted_vllm": "vllm"}
    address = LocalAddress(config.api_base.rstrip("/").removesuffix("/v1"), kinds.get(provider, "openai_compatible"))
    for server in await find_local_servers([address], seconds=DETAILS_SECONDS):
        if server.kind == "ollama":
            model = await _find_ollama_model(server.url, name)
            # Ollama's API in OpenAI's format has no parameter for the size, and the size in use is unknown.
            return model and replace(model, context_window=0)
        return next((model for model in server.models if model.id == name), None)
    return None


async def _find_ollama_model(url: str, name: str) -> LocalModel | None:
    unknown = LocalModel(id=name)
    (model,) = (await load_model_details(LocalModelServer("ollama", url, (unknown,)))).models
    return None if model == unknown else model


_Identify = Callable[[JsonClient, str], Awaitable[LocalModelServer | None]]


def _identification_order(kind: LocalServerKind) -> tuple[_Identify, ...]:
    """Return the functions that try to identify a server, beginning with the one for *kind*.

    The last function recognizes any OpenAI-compatible server.
    """
    checks: dict[LocalServerKind, _Identify] = {
        "ollama": _identify_ollama,
        "lm_studio": _identify_lm_studio,
        "llama_cpp": _identify_llama_cpp,
        "vllm": _identify_vllm,
    }
    first = checks.pop(kind, None)
    return (*([first] if first else []), *checks.values(), _identify_openai_compatible)


async def _identify_ollama(client: JsonClient, url: str) -> LocalModelServer | None:
    version = (await client.request("GET", f"{url}/api/version")).body
    if version is None or not isinstance(version.get("version"), str):
        return None
    tags = (await client.request("GET", f"{url}/api/tags")).body
    names = [entry.get("model") or entry.get("name") for entry in list_objects(tags, "models", MAX_MODELS)]
    return LocalModelServer("ollama", url, tuple(LocalModel(id=name) for name in valid_names(names)))


async def _identify_lm_studio(client: JsonClient, url: str) -> LocalModelServer | None:
    entries = list_objects((await client.request("GET", f"{url}/api/v0/models")).body, "data", MAX_MODELS)
    if not any("max_context_length" in entry or "state" in entry for entry in entries):
        return None
    models: list[LocalModel] = []
    for entry in entries:
        if entry.get("type") in _EMBEDDING_TYPES or not valid_names([entry.get("id")]):
            continue
        abilities = entry.get("capabilities")
        models.append(
            LocalModel(
                id=entry["id"],
                context_window=parse_count(entry.get("loaded_context_length"))
                or parse_count(entry.get("max_context_length")),
                # LM Studio describes tools in the prompt for a model that was not trained to use them.
                supports_tools=True if isinstance(abilities, list) and "tool_use" in abilities else None,
                supports_images=entry.get("type") == "vlm",
            )
        )
    return LocalModelServer("lm_studio", url, tuple(models[:MAX_MODELS]))


async def _identify_llama_cpp(client: JsonClient, url: str) -> LocalModelServer | None:
    props = (await client.request("GET", f"{url}/props")).body
    generation = None if props is None else props.get("default_generation_settings")
    if props is None or not isinstance(generation, dict):
        return None
    served = parse_count(cast("dict[str, Any]", generation).get("n_ctx"))
    template = props.get("chat_template")
    abilities = props.get("modalities")
    entries = list_objects((await client.request("GET", f"{url}/v1/models")).body, "data", MAX_MODELS)
    return LocalModelServer(
        "llama_cpp",
        url,
        tuple(
            LocalModel(
                id=name,
                context_window=served,
                # llama.cpp has a generic format for a template without tools.
                supports_tools=True if isinstance(template, str) and "tools" in template else None,
                supports_images=bool(cast("dict[str, Any]", abilities).get("vision"))
                if isinstance(abilities, dict)
                else None,
            )
            for name in valid_names([entry.get("id") for entry in entries])
        ),
    )


async def _identify_vllm(client: JsonClient, url: str) -> LocalModelServer | None:
    return _parse_openai_list(url, (await client.request("GET", f"{url}/v1/models")).body, "vllm")


async def _identify_with_key(url: str, key: str) -> LocalModelServer | None:
    """Identify a server that lists its models in OpenAI's format to clients that send *key*.

    Returns None if the server does not send a model list in this format.
    """
    if not key.isascii() or not key.isprintable():
        return None
    async with JsonClient(uses_proxies=False, timeout=LATE_PROBE_SECONDS) as client:
        answer = await client.request("GET", f"{url}/v1/models", headers={"authorization": f"Bearer {key}"})
    return _parse_openai_list(url, answer.body, "vllm") or _parse_openai_list(url, answer.body)


async def _identify_openai_compatible(client: JsonClient, url: str) -> LocalModelServer | None:
    """Identify a server that lists its models in OpenAI's format; return None if the server sends no such list."""
    return _parse_openai_list(url, (await client.request("GET", f"{url}/v1/models")).body)


def _parse_openai_list(
    url: str, answer: dict[str, Any] | None, kind: Literal["vllm", "openai_compatible"] = "openai_compatible"
) -> LocalModelServer | None:
    """Return the server that sent *answer*; None if *answer* is not a model list in OpenAI's format.

    If *kind* is "vllm", *answer* must name "vllm" as the owner of the first model.
    """
    owner = "vllm" if kind == "vllm" else ""
    entries = list_objects(answer, "data", MAX_MODELS)
    if answer is None or answer.get("object") != "list" or not entries or entries[0].get("owned_by", "") != owner != "":
        return None
    models = [
        LocalModel(id=entry["id"], context_window=parse_count(entry.get("max_model_len")))
        for entry in entries
        if valid_names([entry.get("id")])
    ]
    return LocalModelServer(kind, url, tuple(models[:MAX_MODELS]))


def _parse_ollama_details(model: LocalModel, answer: Mapping[str, Any]) -> LocalModel:
    info = answer.get("model_info")
    window = 0
    if isinstance(info, dict):
        members = cast("dict[str, Any]", info)
        window = parse_count(members.get(f"{members.get('general.architecture')}.context_length"))
    model = replace(
        model,
        context_window=_parse_num_ctx(answer.get("parameters")) or min(window, OLLAMA_CONTEXT),
        max_context_window=window,
    )
    abilities = answer.get("capabilities")
    if not isinstance(abilities, list):
        return model
    return replace(
        model,
        can_chat="completion" in abilities or "embedding" not in abilities,
        supports_tools="tools" in abilities,
        supports_images="vision" in abilities,
        supports_reasoning="thinking" in abilities,
    )


def _parse_num_ctx(parameters: object) -> int:
    """Return the context size that a Modelfile sets with `num_ctx`, or 0 if it sets none.

    *parameters* is text with one name and value per line. Ollama uses this size unless a request specifies
    another one.
    """
    lines = parameters.splitlines() if isinstance(parameters, str) else []
    values = [words[1] for line in lines if len(words := line.split()) == 2 and words[0] == "num_ctx"]
    return parse_count(int(values[-1])) if values and len(values[-1]) < 10 and values[-1].isdecimal() else 0
