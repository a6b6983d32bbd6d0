"""Model servers on this machine (Ollama, LM Studio, llama.cpp, vLLM): finding them and listing their models.

Only loopback addresses are asked, with GET requests and Ollama's `/api/show`, none of which loads a model. A server
is identified by an endpoint of its own API, never by its port alone. Sources: Ollama's API reference (`/api/version`,
`/api/tags`, `/api/show`), LM Studio's REST API (`/api/v0/models`), llama.cpp's server README (`/props`) and vLLM's
OpenAI-compatible server (`/version`, `/v1/models`).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
import anyio.to_thread

from mcphost.config.schema import ModelConfig
from mcphost.errors import MalformedMessage
from mcphost.llm.providers import is_loopback
from mcphost.sanitize import is_sanitized
from mcphost.serialization import Struct, loads, replace

if TYPE_CHECKING:
    import httpx

LocalServerKind = Literal["ollama", "lm_studio", "llama_cpp", "vllm", "openai_compatible"]

PROBE_SECONDS = 0.3
"""Time limit of finding all servers, which are asked at the same time."""

DETAILS_SECONDS = 2.0
"""Time limit of asking Ollama about the abilities of its models."""

MAX_MODELS = 200
MAX_DETAILED_MODELS = 50
_MAX_BODY_BYTES = 1_000_000
_MAX_NAME_LENGTH = 200
_MAX_CONTEXT_WINDOW = 10**9
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
    """An address to ask, without a path, and the kind of server that usually has its port."""

    url: str
    kind: LocalServerKind = "openai_compatible"


class LocalModel(Struct, frozen=True, kw_only=True):
    """A model of a local server; 0 and None mean unknown."""

    id: str
    """Name at the server, for example `qwen3:8b`."""

    context_window: int = 0
    """Tokens: what the server serves if it says so, else what the model was made for."""

    supports_tools: bool | None = None
    supports_images: bool | None = None
    supports_reasoning: bool | None = None


class LocalModelServer(Struct, frozen=True):
    """A running model server and its models; `url` has no path."""

    kind: LocalServerKind
    url: str
    models: tuple[LocalModel, ...]

    @property
    def title(self) -> str:
        """Display name, for example "Ollama"."""
        return TITLES[self.kind]

    def model_config(self, model: LocalModel) -> ModelConfig:
        """Return the settings that make mcphost use *model*."""
        base = self.url if self.kind == "ollama" else f"{self.url}/v1"
        name = f"{_LITELLM_PROVIDERS[self.kind]}/{model.id}"
        return ModelConfig(name=name, api_base=base, context_window=model.context_window)


def list_addresses(environ: Mapping[str, str], more: Iterable[str] = ()) -> tuple[LocalAddress, ...]:
    """Return the addresses to ask: usual ports, `OLLAMA_HOST`, and *more* URLs from the settings.

    Addresses on other machines are left out.
    """
    ollama = _parse_ollama_host(environ.get("OLLAMA_HOST", ""))
    addresses = [
        LocalAddress(ollama, "ollama"),
        LocalAddress("http://127.0.0.1:1234", "lm_studio"),
        LocalAddress("http://127.0.0.1:8080", "llama_cpp"),
        LocalAddress("http://127.0.0.1:8000", "vllm"),
        *(LocalAddress(url.rstrip("/").removesuffix("/v1")) for url in more),
    ]
    unique = {address.url: address for address in reversed(addresses) if is_loopback(address.url)}
    return tuple(reversed(unique.values()))


def _parse_ollama_host(text: str) -> str:
    """Return the URL of `OLLAMA_HOST`, which may lack scheme and port; the usual URL if it is empty.

    A server that listens on all addresses (0.0.0.0) is asked over loopback.
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


async def find_local_servers(
    addresses: Sequence[LocalAddress], *, seconds: float = PROBE_SECONDS
) -> tuple[LocalModelServer, ...]:
    """Return the servers that answer within *seconds*, in the order of *addresses*; may be cancelled.

    Addresses that refuse, are slow or answer something else are left out.
    """
    found: dict[LocalAddress, LocalModelServer] = {}
    await anyio.to_thread.run_sync(import_module, "httpx")  # takes about 0.1 s
    async with _open_client() as client:

        async def probe(address: LocalAddress) -> None:
            for identify in _identification_order(address.kind):
                server = await identify(client, address.url)
                if server is not None:
                    found[address] = server
                    return

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                for address in addresses:
                    tasks.start_soon(probe, address)
    return tuple(found[address] for address in addresses if address in found)


async def load_model_details(server: LocalModelServer, *, seconds: float = DETAILS_SECONDS) -> LocalModelServer:
    """Return the server with the abilities and context sizes of Ollama's models; other kinds are returned as they are.

    Models that are not answered for within *seconds* keep their unknown values.
    """
    if server.kind != "ollama":
        return server
    details: dict[str, LocalModel] = {}
    await anyio.to_thread.run_sync(import_module, "httpx")
    async with _open_client() as client:

        async def load(model: LocalModel) -> None:
            answer = await _request_json(client, "POST", f"{server.url}/api/show", {"model": model.id})
            if answer is not None:
                details[model.id] = _parse_ollama_details(model, answer)

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                for model in server.models[:MAX_DETAILED_MODELS]:
                    tasks.start_soon(load, model)
    return replace(server, models=tuple(details.get(model.id, model) for model in server.models))


_Identify = Callable[["httpx.AsyncClient", str], Awaitable[LocalModelServer | None]]


def _identification_order(kind: LocalServerKind) -> tuple[_Identify, ...]:
    """Return the checks for an address, the one of its usual kind first and the generic one last."""
    checks: dict[LocalServerKind, _Identify] = {
        "ollama": _identify_ollama,
        "lm_studio": _identify_lm_studio,
        "llama_cpp": _identify_llama_cpp,
        "vllm": _identify_vllm,
    }
    first = checks.pop(kind, None)
    return (*([first] if first else []), *checks.values(), _identify_openai_compatible)


async def _identify_ollama(client: "httpx.AsyncClient", url: str) -> LocalModelServer | None:
    version = await _request_json(client, "GET", f"{url}/api/version")
    if version is None or not isinstance(version.get("version"), str):
        return None
    tags = await _request_json(client, "GET", f"{url}/api/tags")
    names = [entry.get("model") or entry.get("name") for entry in _list_objects(tags, "models")]
    return LocalModelServer("ollama", url, tuple(LocalModel(id=name) for name in _valid_names(names)))


async def _identify_lm_studio(client: "httpx.AsyncClient", url: str) -> LocalModelServer | None:
    entries = _list_objects(await _request_json(client, "GET", f"{url}/api/v0/models"), "data")
    if not any("max_context_length" in entry or "state" in entry for entry in entries):
        return None
    models: list[LocalModel] = []
    for entry in entries:
        if entry.get("type") in _EMBEDDING_TYPES or not _valid_names([entry.get("id")]):
            continue
        abilities = entry.get("capabilities")
        models.append(
            LocalModel(
                id=entry["id"],
                context_window=_parse_count(entry.get("loaded_context_length"))
                or _parse_count(entry.get("max_context_length")),
                supports_tools="tool_use" in abilities if isinstance(abilities, list) else None,
                supports_images=entry.get("type") == "vlm",
            )
        )
    return LocalModelServer("lm_studio", url, tuple(models[:MAX_MODELS]))


async def _identify_llama_cpp(client: "httpx.AsyncClient", url: str) -> LocalModelServer | None:
    props = await _request_json(client, "GET", f"{url}/props")
    generation = None if props is None else props.get("default_generation_settings")
    if props is None or not isinstance(generation, dict):
        return None
    served = _parse_count(cast("dict[str, Any]", generation).get("n_ctx"))
    template = props.get("chat_template")
    abilities = props.get("modalities")
    entries = _list_objects(await _request_json(client, "GET", f"{url}/v1/models"), "data")
    return LocalModelServer(
        "llama_cpp",
        url,
        tuple(
            LocalModel(
                id=name,
                context_window=served,
                supports_tools="tools" in template if isinstance(template, str) else None,
                supports_images=bool(cast("dict[str, Any]", abilities).get("vision"))
                if isinstance(abilities, dict)
                else None,
            )
            for name in _valid_names([entry.get("id") for entry in entries])
        ),
    )


async def _identify_vllm(client: "httpx.AsyncClient", url: str) -> LocalModelServer | None:
    server = await _identify_openai_compatible(client, url, owner="vllm")
    return None if server is None else replace(server, kind="vllm")


async def _identify_openai_compatible(
    client: "httpx.AsyncClient", url: str, owner: str = ""
) -> LocalModelServer | None:
    """Return a server that lists models in OpenAI's form; with *owner*, only if the first one is owned by it."""
    answer = await _request_json(client, "GET", f"{url}/v1/models")
    entries = _list_objects(answer, "data")
    if answer is None or answer.get("object") != "list" or not entries or entries[0].get("owned_by", "") != owner != "":
        return None
    models = [
        LocalModel(id=entry["id"], context_window=_parse_count(entry.get("max_model_len")))
        for entry in entries
        if _valid_names([entry.get("id")])
    ]
    return LocalModelServer("openai_compatible", url, tuple(models[:MAX_MODELS]))


def _parse_ollama_details(model: LocalModel, answer: Mapping[str, Any]) -> LocalModel:
    info = answer.get("model_info")
    window = 0
    if isinstance(info, dict):
        members = cast("dict[str, Any]", info)
        window = _parse_count(members.get(f"{members.get('general.architecture')}.context_length"))
    abilities = answer.get("capabilities")
    if not isinstance(abilities, list):
        return replace(model, context_window=window)
    return replace(
        model,
        context_window=window,
        supports_tools="tools" in abilities,
        supports_images="vision" in abilities,
        supports_reasoning="thinking" in abilities,
    )


def _list_objects(answer: Mapping[str, Any] | None, key: str) -> list[dict[str, Any]]:
    entries = None if answer is None else answer.get(key)
    if not isinstance(entries, list):
        return []
    listed = cast("list[Any]", entries)[:MAX_MODELS]
    return [cast("dict[str, Any]", entry) for entry in listed if isinstance(entry, dict)]


def _valid_names(names: Iterable[object]) -> list[str]:
    """Return the names that can be shown and configured as they are."""
    return [
        name
        for name in names
        if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_LENGTH and name.isprintable() and is_sanitized(name)
    ]


def _parse_count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_CONTEXT_WINDOW
    return cast("int", value) if is_count else 0


def _open_client() -> "httpx.AsyncClient":
    import httpx

    # Without the environment: a proxy must not be asked for an address of this machine.
    return httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=DETAILS_SECONDS)


async def _request_json(
    client: "httpx.AsyncClient", method: str, url: str, body: dict[str, str] | None = None
) -> Mapping[str, Any] | None:
    """Return the JSON object of a successful answer of at most _MAX_BODY_BYTES, or None."""
    import httpx

    with suppress(httpx.HTTPError, httpx.InvalidURL, MalformedMessage, ValueError):
        async with client.stream(method, url, json=body, headers={"accept-encoding": "identity"}) as response:
            if response.status_code != 200 or "content-encoding" in response.headers:
                return None
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > _MAX_BODY_BYTES:
                    return None
        answer = loads(bytes(content), "answer of a local server")
        return cast("dict[str, Any]", answer) if isinstance(answer, dict) else None
    return None
