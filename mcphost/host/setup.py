"""The first steps of a new user: models and servers that are on this machine already, and putting them to use."""

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcphost.config.foreign.hosts import find_foreign_servers, find_places
from mcphost.config.loader import SERVERS_FILE, SETTINGS_FILE
from mcphost.config.schema import ModelConfig
from mcphost.config.settings_edits import save_model
from mcphost.errors import McpHostError, UsageError
from mcphost.host.model_selection import ModelSelection
from mcphost.host.servers.approval import server_warnings
from mcphost.host.servers.import_plan import ImportCandidate, plan_import
from mcphost.host.servers.server_editor import SecretEntries, ServerEditor
from mcphost.host.servers.servers import Servers
from mcphost.llm.default_models import DEFAULT_MODELS, FoundKey, find_keys, recognize_provider
from mcphost.llm.local_servers import find_local_servers, list_addresses, load_model_details
from mcphost.llm.model_catalog import CatalogModel, load_catalog
from mcphost.llm.providers import key_variables
from mcphost.paths import SetupPlaces, make_private_directory
from mcphost.redact import register_secret
from mcphost.serialization import Struct

if TYPE_CHECKING:
    from mcphost.llm.local_servers import LocalModel, LocalModelServer

KEYRING_SECONDS = 2.0
_MAX_LOCAL_MODELS = 20
_MARK_FILE = "start-card-shown"


class ModelOffer(Struct, frozen=True):
    """A model that can be used now; `origin` says why, such as "ANTHROPIC_API_KEY is set"."""

    config: ModelConfig
    origin: str
    supports_tools: bool | None = None


class ModelEntry(Struct, frozen=True, kw_only=True):
    """A model on the models page; 0 and None mean unknown. `origin` is empty if its provider's key is missing."""

    config: ModelConfig
    provider: str
    provider_title: str
    origin: str = ""
    key_variable: str = ""
    context_window: int = 0
    supports_tools: bool | None = None
    supports_images: bool | None = None
    supports_reasoning: bool | None = None
    input_price: float | None = None
    """US dollars for a million input tokens."""

    output_price: float | None = None
    """US dollars for a million output tokens."""

    @property
    def is_usable(self) -> bool:
        """Whether nothing is missing to use it now."""
        return bool(self.origin)


class SetupOffers(Struct, frozen=True):
    """What was found; the best model is the first."""

    models: tuple[ModelOffer, ...] = ()
    servers: tuple[ImportCandidate, ...] = ()


class SetupResult(Struct, frozen=True):
    """What was put to use, and a sentence for each part that was not."""

    model: str = ""
    servers: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Setup:
    """Finds models and servers, and puts the chosen ones to use: saved, approved and started."""

    def __init__(
        self,
        places: SetupPlaces,
        servers: Servers,
        model_selection: ModelSelection,
        editor: ServerEditor,
        secrets: SecretEntries,
    ) -> None:
        self._places = places
        self._servers = servers
        self._model_selection = model_selection
        self._editor = editor
        self._secrets = secrets

    @property
    def is_first_run(self) -> bool:
        """Whether there is no model and no server, and the start card was never shown."""
        has_anything = self._model_selection.model is not None or any(True for _ in self._servers)
        return not has_anything and not (self._places.state_dir / _MARK_FILE).exists()

    def mark_shown(self) -> None:
        """Remember that the start card was shown, so that it never opens again by itself."""
        try:
            (make_private_directory(self._places.state_dir) / _MARK_FILE).touch(mode=0o600)
        except OSError:
            return  # it will be shown again, which is the lesser harm

    async def find(self) -> SetupOffers:
        """Search for keys, local model servers and servers of other hosts, at the same time; start nothing.

        May be cancelled.
        """
        models: list[ModelOffer] = []
        local: list[ModelOffer] = []
        servers: tuple[ImportCandidate, ...] = ()

        async def find_models() -> None:
            models.extend(await self._find_keyed_models())

        async def find_local() -> None:
            local.extend(await self._find_local_models())

        async def find_servers() -> None:
            nonlocal servers
            servers = await anyio.to_thread.run_sync(self._find_servers)

        async with anyio.create_task_group() as tasks:
            for search in (find_models, find_local, find_servers):
                tasks.start_soon(search)
        return SetupOffers((*models, *local), servers)

    async def apply(
        self, model: ModelConfig | None, servers: Sequence[ImportCandidate], seen: Set[str] = frozenset()
    ) -> SetupResult:
        """Save and select the model; add and start the servers.

        A server in *seen*, whose whole command line or URL the user has read, is approved, unless its entry has a
        risk that the approval question warns of. The others ask for their approval when they start. A part that fails
        is a problem of the result, and the others are done.
        """
        problems: list[str] = []
        added: list[str] = []
        for candidate in servers:
            try:
                is_approved = candidate.name in seen and not _has_risks(candidate)
                saved = await self._editor.add(candidate.name, candidate.entry, is_approved=is_approved)
            except McpHostError as error:
                problems.append(f"{candidate.name} was not added. {error}")
                continue
            if saved.server is not None:
                self._servers.add(saved.server)
                added.append(candidate.name)
        if model is not None:
            try:
                self._model_selection.select(model)
                await anyio.to_thread.run_sync(save_model, self._places.config_dir / SETTINGS_FILE, model)
            except McpHostError as error:
                problems.append(f"{model.name} is used until mcphost ends, and was not saved. {error}")
        return SetupResult(model.name if model is not None else "", tuple(added), tuple(problems))

    async def list_models(self) -> tuple[ModelEntry, ...]:
        """Return all models: local ones and those of providers with a key first. May be cancelled."""
        found: list[ModelEntry] = []
        keys: tuple[FoundKey, ...] = ()
        catalog: tuple[CatalogModel, ...] = ()

        async def find_local() -> None:
            for server in await self._find_local_servers():
                found.extend(_local_entry(server, model) for model in server.models)

        async def find_keyed() -> None:
            nonlocal keys
            keys = await self._find_keys()

        async def load() -> None:
            nonlocal catalog
            catalog = await anyio.to_thread.run_sync(load_catalog)

        async with anyio.create_task_group() as tasks:
            for search in (find_local, find_keyed, load):
                tasks.start_soon(search)
        origins = {key.provider: _describe_key(key) for key in keys}
        entries = [_catalog_entry(model, origins.get(model.provider, "")) for model in catalog]
        # Stable: a provider's models stay together; those that use tools come first.
        entries.sort(key=lambda entry: (not entry.is_usable, entry.is_usable and not entry.supports_tools))
        return (
            *(entry for entry in entries if entry.is_usable),
            *found,
            *(one for one in entries if not one.is_usable),
        )

    async def use_model(self, model: ModelConfig, *, is_default: bool) -> None:
        """Select a model for this run, and save it with *is_default*. Raises McpHostError."""
        self._model_selection.select(model)
        if is_default:
            await anyio.to_thread.run_sync(save_model, self._places.config_dir / SETTINGS_FILE, model)

    async def store_key(self, key: str, provider: str = "") -> ModelOffer | None:
        """Store a provider's key in the keyring; return the proposed model of that provider, if there is one.

        Raises UsageError if no *provider* is given and it cannot be told from the key, and McpHostError if the keyring
        is not usable.
        """
        key = key.strip()
        provider = provider or recognize_provider(key)
        if not provider:
            raise UsageError(
                "The provider cannot be told from this key.",
                "Set it in the environment, for example OPENAI_API_KEY, and start again.",
            )
        register_secret(key)
        variable = key_variables(ModelConfig(name=f"{provider}/"))[0]
        try:
            await self._secrets.set(variable, key)
        except McpHostError as error:
            raise McpHostError(
                f"The key was not stored. {error.message}", f"Set {variable} in the environment, and start again."
            ) from error
        key_found = FoundKey(provider, variable, is_in_keyring=True)
        return _keyed_offer(key_found) if provider in DEFAULT_MODELS else None

    async def _find_keyed_models(self) -> list[ModelOffer]:
        return [_keyed_offer(key) for key in await self._find_keys()]

    async def _find_keys(self) -> tuple[FoundKey, ...]:
        environ = self._places.environ
        with anyio.move_on_after(KEYRING_SECONDS):
            return await find_keys(environ, self._secrets.get)
        return await find_keys(environ)

    async def _find_local_models(self) -> list[ModelOffer]:
        offers: list[ModelOffer] = []
        for server in await self._find_local_servers():
            offers += [_local_offer(server, model) for model in server.models[:_MAX_LOCAL_MODELS]]
        # Models that take tools first, the unknown ones next.
        return sorted(offers, key=lambda offer: (offer.supports_tools is False, offer.supports_tools is None))

    async def _find_local_servers(self) -> "list[LocalModelServer]":
        found = await find_local_servers(list_addresses(self._places.environ))
        return [await load_model_details(server) for server in found]

    def _find_servers(self) -> tuple[ImportCandidate, ...]:
        places = self._places
        found = find_foreign_servers(find_places(places.home, places.folder, places.environ))
        configured = [connection.config for connection in self._servers]
        return plan_import(found, configured, places.config_dir / SERVERS_FILE)


def _has_risks(candidate: ImportCandidate) -> bool:
    return candidate.server is None or bool(server_warnings(candidate.server))


def _keyed_offer(key: FoundKey) -> ModelOffer:
    return ModelOffer(ModelConfig(name=key.model), _describe_key(key), supports_tools=True)


def _describe_key(key: FoundKey) -> str:
    return f"{key.variable} is {'in the keyring' if key.is_in_keyring else 'set'}"


def _catalog_entry(model: CatalogModel, origin: str) -> ModelEntry:
    config = ModelConfig(name=model.name)
    return ModelEntry(
        config=config,
        provider=model.provider,
        provider_title=model.provider_title,
        origin=origin,
        key_variable=next(iter(key_variables(config)), ""),
        context_window=model.context_window,
        supports_tools=model.supports_tools,
        supports_images=model.supports_images,
        supports_reasoning=model.supports_reasoning,
        input_price=model.input_price,
        output_price=model.output_price,
    )


def _local_entry(server: "LocalModelServer", model: "LocalModel") -> ModelEntry:
    offer = _local_offer(server, model)
    return ModelEntry(
        config=offer.config,
        provider=server.kind,
        provider_title=server.title,
        origin=offer.origin,
        context_window=model.context_window,
        supports_tools=model.supports_tools,
        supports_images=model.supports_images,
        supports_reasoning=model.supports_reasoning,
        input_price=0.0,
        output_price=0.0,
    )


def _local_offer(server: "LocalModelServer", model: "LocalModel") -> ModelOffer:
    host = server.url.partition("://")[2]
    return ModelOffer(server.model_config(model), f"{server.title} at {host}", model.supports_tools)
