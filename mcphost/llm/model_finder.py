"""Search for available models: by API key, on local model servers, and in litellm's model table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import anyio
import anyio.to_thread

from mcphost.config.remembered_models import RememberedModel, ToolRefusals
from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError
from mcphost.llm.local_servers import (
    LATE_PROBE_SECONDS,
    LocalModel,
    LocalModelServer,
    find_local_servers,
    list_addresses,
    load_model_details,
    normalize_base,
)
from mcphost.llm.model_catalog import (
    DEFAULT_MODELS,
    FIRST_PARTY_PROVIDERS,
    PROVIDER_TITLES,
    CatalogModel,
    load_catalog,
)
from mcphost.llm.provider_models import (
    LISTING_PROVIDERS,
    ListedModel,
    list_endpoint_models,
    list_provider_models,
)
from mcphost.llm.providers import (
    KEY_VARIABLES,
    LOCAL_PROVIDERS,
    KeyLookup,
    add_default_provider,
    add_local_address,
    is_loopback,
    key_variables,
    parse_ollama_host,
    parse_provider,
)
from mcphost.redact import register_secret
from mcphost.serialization import Struct, replace

KEYRING_SECONDS = 2.0
"""Time limit in seconds for reading API keys from the keyring; after that, only the environment is used."""

DEMO = "demo"
"""Name of the built-in demo model and of its provider."""

MAX_PROPOSED_MODELS = 20
"""Maximum number of models on this machine's servers that are proposed when mcphost is started for the first time."""

_OPENAI_FORMAT_PROVIDERS = LOCAL_PROVIDERS | {"openai", "litellm_proxy"}
"""Providers of models with a configured base URL whose servers list their models in OpenAI's format."""


class FoundKey(Struct, frozen=True):
    """A provider whose API key was found in the environment variable or keyring entry named `variable`."""

    provider: str
    variable: str
    is_in_keyring: bool = False
    is_session_only: bool = False
    """Whether the key could not be stored, so that it is lost when mcphost quits."""

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
    """Return the *providers* whose API key is in the environment or, if not there, in the keyring.

    By default, every provider with a default model is checked. A keyring that is locked or does not respond is treated
    as empty. Safe to cancel.
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


class AvailableModel(Struct, frozen=True, kw_only=True):
    """A model that the user can choose, with the facts known about it; a value of 0 or None means unknown."""

    config: ModelConfig
    provider: str
    provider_title: str
    origin: str = ""
    """Why the model can be used now, such as "ANTHROPIC_API_KEY is set"; empty if its provider's key is missing."""

    key_variable: str = ""
    context_window: int = 0
    supports_tools: bool | None = None
    tools_refused_at: float = 0
    """When the provider last rejected tools, in seconds since 1970, or 0 if it has not done so recently."""

    supports_images: bool | None = None
    supports_reasoning: bool | None = None
    input_price: float | None = None
    """US dollars per million input tokens."""

    output_price: float | None = None
    """US dollars per million output tokens."""

    is_favorite: bool = False
    is_recent: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether the model can be used now, without adding an API key."""
        return bool(self.origin)


def make_demo_model() -> AvailableModel:
    """Return the built-in demo model, which is never suggested, but can be selected by its name."""
    return AvailableModel(
        config=ModelConfig(name=DEMO),
        provider=DEMO,
        provider_title=DEMO,
        origin="built in, not an AI",
        supports_tools=True,
        supports_images=False,
        supports_reasoning=False,
        input_price=0,
        output_price=0,
    )


def insert_usable_models(
    models: Sequence[AvailableModel], found: Sequence[AvailableModel]
) -> tuple[AvailableModel, ...]:
    """Return *models*, with the new models in *found* inserted after the last model that can be used now."""
    known = {_full_name(model.config) for model in models}
    found = [model for model in found if _full_name(model.config) not in known]
    first = max((at for at, model in enumerate(models, 1) if model.is_usable), default=0)
    return (*models[:first], *found, *models[first:])


class ModelFinder:
    """Finder for models that the user can choose; it starts no server and loads no model."""

    def __init__(
        self,
        environ: Mapping[str, str],
        keyring: KeyLookup | None,
        is_session_only: Callable[[str], bool] = lambda name: False,
        refusals: ToolRefusals | None = None,
        probe_seconds: float | None = None,
    ) -> None:
        """Create a finder that reads API keys from *environ* and *keyring*.

        - *is_session_only*: called with the name of a keyring entry; returns whether its API key is kept only in memory
          until mcphost quits.
        - *refusals*: the models whose provider rejected tools; they are shown as not supporting tools.
        - *probe_seconds*: the number of seconds to wait for model servers on this machine; the default is
          PROBE_SECONDS.
        """
        self._refusals = refusals
        self._probe_seconds = probe_seconds
        self._environ = environ
        self._keyring = keyring
        self._is_session_only = is_session_only

    async def find_proposed(self, selected: ModelConfig | None = None) -> tuple[AvailableModel, ...]:
        """Return the default model of each provider with an API key, followed by local models.

        Local models that support tools come before other local models. The *selected* model comes first, even if its
        server does not respond. Safe to cancel.
        """
        first = _as_remembered(selected)
        keys, local, catalog = await self._search([item.config for item in first])
        by_name = {model.name: model for model in catalog}
        found = [_make_proposed(key, by_name) for key in keys]
        local = await self._mark_refused(local)
        local.sort(key=lambda model: (model.supports_tools is False, model.supports_tools is None))
        names = {self._endpoint(item.config) for item in first}
        found += [
            one for at, one in enumerate(local) if at < MAX_PROPOSED_MODELS or self._endpoint(one.config) in names
        ]
        origins = await self._describe_keys(keys, first)
        listed = [by_name[item.config.name] for item in first if item.config.name in by_name]
        found += [_from_catalog(model, origins.get(model.provider, "")) for model in listed]
        return tuple(await self._mark_refused(self._put_first(first, found, origins)))

    async def find_late(self, known: Sequence[AvailableModel]) -> tuple[AvailableModel, ...]:
        """Return local models that are not in *known*, waiting a few seconds for slow servers.

        The addresses of the *known* models are probed too. Safe to cancel.
        """
        endpoints = {self._endpoint(model.config) for model in known}
        local = await self._search_local(LATE_PROBE_SECONDS, [model.config for model in known if model.config.api_base])
        return tuple(await self._mark_refused([one for one in local if self._endpoint(one.config) not in endpoints]))

    async def list_all(
        self, remembered: Sequence[RememberedModel] = (), selected: ModelConfig | None = None
    ) -> tuple[AvailableModel, ...]:
        """Return all models: remembered models, models with an API key, local models, and then all others.

        Remembered models are favorites or were used recently; they have the parameters with which they were used last.
        If the *selected* model is not remembered, it follows the remembered models. Safe to cancel.
        """
        remembered = (
            *remembered,
            *(item for item in _as_remembered(selected) if all(item.key != one.key for one in remembered)),
        )
        keys, local, catalog = await self._search([item.config for item in remembered])
        origins = await self._describe_keys(keys, remembered)
        models = [_from_catalog(model, origins.get(model.provider, "")) for model in catalog]
        models.sort(key=_listing_order)
        usable = [model for model in models if model.is_usable]
        found = (*usable, *local, *models[len(usable) :])
        return tuple(await self._mark_refused(self._put_first(remembered, found, origins)))

    def _put_first(
        self, remembered: Sequence[RememberedModel], found: Sequence[AvailableModel], origins: Mapping[str, str]
    ) -> list[AvailableModel]:
        """Return the *remembered* models with their settings, followed by the other models in *found*.

        *origins* maps each provider whose API key was found to a description of where it was found.
        """
        others = {self._endpoint(model.config): model for model in reversed(found)}
        own: dict[tuple[str, str], RememberedModel] = {}
        for item in remembered:
            own.setdefault(_full_name(item.config), item)
        first: list[AvailableModel] = []
        for item in own.values():
            model = others.pop(self._endpoint(item.config), None) or self._make_unlisted(item.config, origins)
            first.append(_mark_remembered(model, item, origins))
        return [*first, *(model for model in found if self._endpoint(model.config) in others)]

    def _endpoint(self, config: ModelConfig) -> tuple[str, str]:
        """Return a key that is equal for two configurations of the same model on the same server.

        The key consists of the model's name and the base URL. If the base URL is unknown, "" is used instead, and the
        name includes the provider.
        """
        base = config.api_base
        if not base and parse_provider(config.name) in ("ollama", "ollama_chat"):
            base = parse_ollama_host(self._environ.get("OLLAMA_HOST", ""))
        return (config.name.partition("/")[2] or config.name if base else config.name), normalize_base(base)

    async def list_provider(
        self, provider: str, selected: ModelConfig | None = None
    ) -> tuple[tuple[AvailableModel, ...], tuple[str, ...]]:
        """Return all models of *provider*, and the names of all providers that have models.

        The models come from `list_all` and, if an API key of the provider was found, from the provider's own list.
        *provider* may also be the prefix of the names of local models. Safe to cancel.
        """
        models = await self.list_all(selected=selected)
        if provider in LISTING_PROVIDERS:
            models = insert_usable_models(models, await self._find_listed_by_providers((provider,), models))
        found = tuple(
            model
            for model in models
            if provider == model.provider
            or (provider in LOCAL_PROVIDERS and provider == parse_provider(model.config.name))
        )
        return found, tuple(sorted({model.provider for model in models}))

    async def find_listed(self, known: Sequence[AvailableModel]) -> tuple[AvailableModel, ...]:
        """Request the model lists of providers with an API key; return the models that are not in *known*.

        The lists of remote servers at the base URLs of the *known* models are requested as well; for servers on
        this machine, use `find_late`. Safe to cancel.
        """
        found = await self._find_listed_by_providers(LISTING_PROVIDERS, known)
        return tuple(await self._mark_refused([*found, *await self._list_own_endpoints(known)]))

    async def _find_listed_by_providers(
        self, providers: Iterable[str], known: Sequence[AvailableModel]
    ) -> list[AvailableModel]:
        """Request the model lists of *providers* with an API key; return the models that are not in *known*."""
        keys = await self._find_keys(providers)
        secrets = {key.provider: await self._read_key(key) for key in keys}
        origins = {key.provider: describe_key(key) for key in keys}
        names = {model.config.name for model in known}
        listed = await list_provider_models(secrets, self._environ)
        return [_from_list(model, origins[model.provider]) for model in listed if model.name not in names]

    async def _list_own_endpoints(self, known: Sequence[AvailableModel]) -> list[AvailableModel]:
        """Request the model lists of remote servers; return the models that are not in *known*.

        A list is requested from each server at the base URL of a *known* model, if the server is not on this
        machine and uses OpenAI's format.
        """
        endpoints = {
            (config.api_base.rstrip("/"), config.api_key_env): config
            for config in (add_default_provider(model.config) for model in reversed(known))
            if config.api_base
            and not is_loopback(config.api_base)
            and parse_provider(config.name) in _OPENAI_FORMAT_PROVIDERS
        }
        if not endpoints:
            return []
        keys = await self._read_named_keys({variable for _url, variable in endpoints} - {""})
        names = {self._endpoint(model.config) for model in known}
        found: list[AvailableModel] = []
        for own, model in await list_endpoint_models(tuple(endpoints.values()), keys):
            config = ModelConfig(
                name=model.name,
                api_base=own.api_base,
                api_key_env=own.api_key_env,
                context_window=model.context_window,
                headers=own.headers,
            )
            if self._endpoint(config) not in names:
                listed = _from_list(model, f"at {own.api_base.partition('://')[2]}")
                found.append(replace(listed, config=config, key_variable=own.api_key_env))
        return found

    async def _mark_refused(self, models: list[AvailableModel]) -> list[AvailableModel]:
        """Return *models*; those whose provider has rejected tools are marked as not supporting tools."""
        if self._refusals is None:
            return models
        refused = await anyio.to_thread.run_sync(self._refusals.load)
        times = {(one.model, one.api_base.rstrip("/")): one.refused_at for one in refused}
        if not times:
            return models

        def mark(model: AvailableModel) -> AvailableModel:
            used = add_local_address(add_default_provider(model.config), self._environ)
            refused_at = times.get((used.name, used.api_base.rstrip("/")), 0)
            if not refused_at or model.config.tools != "auto":
                return model
            return replace(model, supports_tools=False, tools_refused_at=refused_at)

        return [mark(model) for model in models]

    async def _find_keys(self, providers: Iterable[str] = DEFAULT_MODELS) -> tuple[FoundKey, ...]:
        """Search the environment and the keyring for API keys of *providers*.

        A keyring that takes too long to respond is ignored.
        """
        found: tuple[FoundKey, ...] = await find_keys(self._environ, None, providers)
        with anyio.move_on_after(KEYRING_SECONDS):
            found = await find_keys(self._environ, self._keyring, providers)
        return tuple(
            replace(key, is_session_only=key.is_in_keyring and self._is_session_only(key.variable)) for key in found
        )

    async def _read_key(self, key: FoundKey) -> str:
        if not key.is_in_keyring or self._keyring is None:
            return self._environ[key.variable].strip()
        return (await self._keyring(key.variable) or "").strip()

    async def _describe_keys(self, keys: Sequence[FoundKey], remembered: Sequence[RememberedModel]) -> dict[str, str]:
        """Return descriptions of where API keys were found, such as "KEY is set".

        A description is keyed by the provider or, if the settings of a remembered model name the key's variable, by
        that variable.
        """
        origins = {key.provider: describe_key(key) for key in keys}
        names = {item.config.api_key_env for item in remembered} - {""}
        for name in await self._read_named_keys(names):
            is_in_keyring = not self._environ.get(name, "").strip()
            origins[name] = describe_key(
                FoundKey("", name, is_in_keyring, is_in_keyring and self._is_session_only(name))
            )
        return origins

    async def _read_named_keys(self, names: Iterable[str]) -> dict[str, str]:
        """Return the API keys that were found in the environment or the keyring, keyed by variable.

        The keys are registered for redaction.
        """
        found = {name: value for name in names if (value := self._environ.get(name, "").strip())}
        with anyio.move_on_after(KEYRING_SECONDS), suppress(McpHostError):
            for name in sorted(set(names) - found.keys()):
                if self._keyring is not None and (value := (await self._keyring(name) or "").strip()):
                    found[name] = value
        for value in found.values():
            register_secret(value)
        return found

    def _make_unlisted(self, config: ModelConfig, origins: Mapping[str, str]) -> AvailableModel:
        """Return a remembered model that is neither in litellm's table nor on a local server.

        The model is considered usable if an address is configured for it, if its API key was found, or if its
        provider needs no key. *origins* maps each provider whose key was found to a description of where it was
        found.
        """
        provider = parse_provider(config.name)
        variable = next(iter(key_variables(config)), "")
        origin = origins.get(provider, "")
        if config.api_base:
            origin = f"at {config.api_base.partition('://')[2]}"
        elif variable and self._environ.get(variable, "").strip():
            origin = f"{variable} is set"
        elif provider in LOCAL_PROVIDERS:
            origin = "needs no key"
        return AvailableModel(
            config=config,
            provider=provider,
            provider_title=PROVIDER_TITLES.get(provider, provider),
            origin=origin,
            key_variable=variable,
            context_window=config.context_window,
        )

    async def _search(
        self, own: Sequence[ModelConfig] = ()
    ) -> tuple[tuple[FoundKey, ...], list[AvailableModel], tuple[CatalogModel, ...]]:
        """Find API keys, local models and the models in litellm's table concurrently.

        The addresses of the user's *own* models are also probed if they are on this machine.
        """
        keys: tuple[FoundKey, ...] = ()
        local: list[AvailableModel] = []
        catalog: tuple[CatalogModel, ...] = ()

        async def search_keys() -> None:
            nonlocal keys
            keys = await self._find_keys()

        async def search_local() -> None:
            local.extend(await self._search_local(self._probe_seconds, own))

        async def load() -> None:
            nonlocal catalog
            catalog = await anyio.to_thread.run_sync(load_catalog)

        async with anyio.create_task_group() as tasks:
            for search in (search_keys, search_local, load):
                tasks.start_soon(search)
        return keys, local, catalog

    async def _search_local(
        self, seconds: float | None = None, own: Sequence[ModelConfig] = ()
    ) -> list[AvailableModel]:
        addresses = list_addresses(self._environ, [model for model in own if model.api_base])
        keys = await self._read_named_keys({name for one in addresses for _url, name in one.keys})
        servers = await find_local_servers(addresses, keys, seconds=seconds)
        detailed = [await load_model_details(server) for server in servers]
        return [_from_server(server, model) for server in detailed for model in server.chat_models]


def _full_name(config: ModelConfig) -> tuple[str, str]:
    """Return the model's name with its provider, and its base URL; this pair identifies a model in a list."""
    return add_default_provider(config).name, normalize_base(config.api_base)


def _listing_order(model: AvailableModel) -> tuple[object, ...]:
    """Return a sort key for models from litellm's table.

    Models that can be used now come first, beginning with those that support tools. Within each group, providers that
    offer their own models come before resellers. Within a provider, the default model is the first, and templates for
    fine-tuned models are the last.
    """
    is_own = model.provider in FIRST_PARTY_PROVIDERS
    return (
        not model.is_usable,
        model.is_usable and not model.supports_tools,
        FIRST_PARTY_PROVIDERS.index(model.provider) if is_own else len(FIRST_PARTY_PROVIDERS),
        model.provider,
        DEFAULT_MODELS.get(model.provider) != model.config.name,
        "/ft:" in model.config.name,
    )


def _as_remembered(selected: ModelConfig | None) -> tuple[RememberedModel, ...]:
    """Return a tuple with the selected model as a RememberedModel.

    The tuple is empty if no model or the demo model is selected.
    """
    return () if selected is None or selected.name in ("", DEMO) else (RememberedModel(config=selected),)


def _mark_remembered(model: AvailableModel, item: RememberedModel, origins: Mapping[str, str]) -> AvailableModel:
    """Return *model* with the settings of the remembered model *item*.

    If the settings name an environment variable for the API key, the model is usable only if that key was found.
    """
    variable = item.config.api_key_env
    input_price, output_price = _find_prices(model, item.config)
    return replace(
        model,
        config=item.config,
        input_price=input_price,
        output_price=output_price,
        origin=origins.get(variable, "") if variable else model.origin,
        key_variable=variable or model.key_variable,
        is_favorite=item.is_favorite,
        is_recent=item.used_at > 0,
    )


def _find_prices(model: AvailableModel, config: ModelConfig) -> tuple[float | None, float | None]:
    """Return the input and output price of *model* in US dollars per token; None means unknown.

    If *config*, the user's settings for the model, contains both prices, they are used. If *config* has a base URL, and
    also headers or a variable for an API key, the prices are unknown, because the server at that URL may charge for
    requests. In all other cases, the prices of *model* are used.
    """
    if config.input_price is not None and config.output_price is not None:
        return config.input_price, config.output_price
    if config.api_base and (config.api_key_env or config.headers):
        return None, None
    return model.input_price, model.output_price


def describe_key(key: FoundKey) -> str:
    """Describe where an API key was found, such as "OPENAI_API_KEY is set"."""
    if key.is_session_only:
        return f"{key.variable} is in memory"
    if key.is_in_keyring:
        return f"{key.variable} is in the keyring"
    return f"{key.variable} is set"


def proposed_model(key: FoundKey) -> AvailableModel | None:
    """Return the default model of the provider whose key was found.

    Returns None if the provider has no default model.
    """
    return _make_proposed(key, {}) if key.provider in DEFAULT_MODELS else None


def _make_proposed(key: FoundKey, catalog: Mapping[str, CatalogModel]) -> AvailableModel:
    known = catalog.get(key.model)
    if known is not None:
        return _from_catalog(known, describe_key(key))
    return AvailableModel(
        config=ModelConfig(name=key.model),
        provider=key.provider,
        provider_title=key.title,
        origin=describe_key(key),
        key_variable=key.variable,
        supports_tools=True,
    )


def _from_catalog(model: CatalogModel, origin: str) -> AvailableModel:
    return _make_available(model, ModelConfig(name=model.name), model.provider_title, origin)


def _from_list(model: ListedModel, origin: str) -> AvailableModel:
    config = ModelConfig(name=model.name, context_window=model.context_window)
    return _make_available(model, config, PROVIDER_TITLES.get(model.provider, model.provider), origin)


def _make_available(model: CatalogModel | ListedModel, config: ModelConfig, title: str, origin: str) -> AvailableModel:
    return AvailableModel(
        config=config,
        provider=model.provider,
        provider_title=title,
        origin=origin,
        key_variable=next(iter(key_variables(config)), ""),
        context_window=model.context_window,
        supports_tools=model.supports_tools,
        supports_images=model.supports_images,
        supports_reasoning=model.supports_reasoning,
        input_price=model.input_price,
        output_price=model.output_price,
    )


def _from_server(server: LocalModelServer, model: LocalModel) -> AvailableModel:
    price = None if server.api_key_env else 0.0  # a server that requires a key may pass requests on to a provider
    return AvailableModel(
        config=server.model_config(model),
        provider=server.kind,
        provider_title=server.title,
        origin=f"{server.title} at {server.url.partition('://')[2]}",
        key_variable=server.api_key_env,
        context_window=model.context_window,
        supports_tools=model.supports_tools,
        supports_images=model.supports_images,
        supports_reasoning=model.supports_reasoning,
        input_price=price,
        output_price=price,
    )
