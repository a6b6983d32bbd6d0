"""First-run setup, which finds models and servers on this computer and starts using the chosen ones."""

import os
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcphost.config.host_formats import find_places
from mcphost.config.loader import SERVERS_FILE, SETTINGS_FILE
from mcphost.config.other_hosts import find_foreign_servers, find_project_files
from mcphost.config.remembered_models import RememberedModels, ToolRefusals
from mcphost.config.schema import ModelConfig, ServerConfig, find_unread_settings
from mcphost.config.secrets import find_plaintext_secrets, keyring_entry_name, replace_in_config
from mcphost.config.settings_edits import save_model
from mcphost.errors import McpHostError
from mcphost.host.api_keys import ApiKeys, SessionSecretEntries
from mcphost.host.events import NoticeLevel
from mcphost.host.model_selection import ModelSelection
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.import_plan import ImportCandidate, plan_import
from mcphost.host.servers.server_approval import server_warnings
from mcphost.host.servers.server_editor import ServerEditor
from mcphost.host.servers.server_file_editor import ServerFileEditor, describe_missing_input
from mcphost.host.servers.servers import Servers
from mcphost.llm.model_catalog import PricedModel, find_prices
from mcphost.llm.model_finder import AvailableModel, ModelFinder
from mcphost.llm.providers import (
    add_default_provider,
    add_local_address,
    parse_provider,
)
from mcphost.paths import BUNDLES_FOLDER, SetupPlaces, make_private_directory
from mcphost.redact import register_secret
from mcphost.serialization import Struct, replace

if TYPE_CHECKING:
    from mcphost.host.config_change_detector import ConfigChangeDetector
    from mcphost.host.servers.registry_installer import RegistryInstaller

_MARK_FILE = "start-card-shown"


class SetupOffers(Struct, frozen=True):
    """The models and servers found on this computer, with the best model first."""

    models: tuple[AvailableModel, ...] = ()
    servers: tuple[ImportCandidate, ...] = ()
    project_files: tuple[tuple[str, str], ...] = ()
    """Files of other hosts in the current folder, which are not read, each with the id of its host."""


class SetupResult(Struct, frozen=True):
    """The model and servers now in use, and one sentence for each problem."""

    model: str = ""
    servers: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Setup:
    """First-run setup that finds models and servers, and saves, approves and starts those that the user chooses."""

    def __init__(
        self,
        places: SetupPlaces,
        servers: Servers,
        model_selection: ModelSelection,
        editor: ServerFileEditor,
        secrets: SessionSecretEntries,
        settings: RuntimeSettings,
        config_change_detector: "ConfigChangeDetector | None" = None,
        notify: Callable[[NoticeLevel, str, str], None] = lambda level, text, hint: None,
    ) -> None:
        self._places = places
        self._servers = servers
        self._model_selection = model_selection
        self._editor = editor
        editor.prepare_secrets = secrets.prepare
        self._secrets = secrets
        self.api_keys = ApiKeys(places.environ, secrets, notify)
        self.server_editor = ServerEditor(editor, servers, places.data_dir / BUNDLES_FOLDER)
        self._settings = settings
        self._registry: RegistryInstaller | None = None
        self._detector = config_change_detector
        self._refusals = ToolRefusals(places.state_dir)
        self._finder = ModelFinder(places.environ, secrets.get, secrets.is_session_only, self._refusals)
        self._remembered = RememberedModels(places.state_dir)

    @property
    def registry(self) -> "RegistryInstaller":
        """Installer that finds and installs servers from the registry that is currently configured."""
        from mcphost.host.servers.registry_installer import RegistryInstaller

        url = self._settings.registry.url
        if self._registry is None or self._registry.place != url:
            self._registry = RegistryInstaller(url, self._places, self._servers, self._editor, self.server_editor)
        return self._registry

    @property
    def is_first_run(self) -> bool:
        """Whether no model is configured, no server was given by a flag, and the first-run screen was never shown.

        False if config.toml could not be read, because it may name a model.
        """
        if self._detector is not None and find_unread_settings(self._detector.config.problems):
            return False
        if self._model_selection.model is not None or any(one.config.source == "flag" for one in self._servers):
            return False
        return not os.path.exists(self._places.state_dir / _MARK_FILE)

    def mark_shown(self) -> None:
        """Remember that the first-run screen was shown, so that it does not open automatically again."""
        try:
            (make_private_directory(self._places.state_dir) / _MARK_FILE).touch(mode=0o600)
        except OSError:
            return  # at worst, the start card is shown again

    async def find(self) -> SetupOffers:
        """Search for API keys, local model servers, and MCP servers configured in other hosts; start no server.

        If no model is selected, the best one found is loaded in the background. Safe to cancel.
        """
        models: tuple[AvailableModel, ...] = ()
        servers: tuple[ImportCandidate, ...] = ()

        async def find_models() -> None:
            nonlocal models
            models = await self._finder.find_proposed()

        async def find_servers() -> None:
            nonlocal servers
            servers = await anyio.to_thread.run_sync(self._find_servers)

        async with anyio.create_task_group() as tasks:
            for search in (find_models, find_servers):
                tasks.start_soon(search)
        self._preload(models)
        return SetupOffers(models, servers, await anyio.to_thread.run_sync(self._find_project_files))

    async def find_late_models(self, known: Sequence[AvailableModel]) -> tuple[AvailableModel, ...]:
        """Return the local models that are not in *known*, after giving slow model servers a few seconds to respond.

        Safe to cancel.
        """
        models = await self._finder.find_late(known)
        if not known:
            self._preload(models)
        return models

    def _preload(self, models: Sequence[AvailableModel]) -> None:
        """Start loading the best model while the user reads the setup screen, so that the model responds sooner."""
        if models and self._model_selection.model is None:
            self._model_selection.preload(models[0].config)

    async def release_models(self) -> None:
        """Close the preloaded model if the user has left the setup without selecting a model."""
        if self._model_selection.model is None:
            await self._model_selection.discard_preloaded()

    async def apply(
        self, model: ModelConfig | None, servers: Sequence[ImportCandidate], seen: Set[str] = frozenset()
    ) -> SetupResult:
        """Save and select the model; add and start the servers.

        *seen* names the servers whose complete command line or URL the user has read. They are approved without
        another question, unless they have a risk of which the approval question would warn. The user is asked to
        approve the other servers when they start. If one of the steps fails, the result describes the problem, and
        the other steps are still done.
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
                problems += await self._describe_missing_inputs(saved.server)
        if model is not None:
            try:
                self._model_selection.select(model)
                await anyio.to_thread.run_sync(self._remember, model)
                await anyio.to_thread.run_sync(save_model, self._places.config_dir / SETTINGS_FILE, model)
            except McpHostError as error:
                problems.append(f"{model.name} is used until mcphost quits, and was not saved. {error}")
            await self.release_models()
        return SetupResult(model.name if model is not None else "", tuple(added), tuple(problems))

    async def _describe_missing_inputs(self, server: ServerConfig) -> list[str]:
        return [describe_missing_input(server, one) for one in server.inputs if not await self._editor.has_input(one)]

    async def list_models(self) -> tuple[AvailableModel, ...]:
        """Return all models: favorites first, then recent ones, those that can be used now, and the others.

        Safe to cancel.
        """
        selected = self._resolve(self._model_selection.config)
        return await self._finder.list_all(await anyio.to_thread.run_sync(self._remembered.load), selected)

    async def find_models(self, provider: str = "") -> tuple[AvailableModel, ...]:
        """Return the models that can be used now or, if *provider* is not "", all models of that provider.

        Raises UsageError if no model of the provider is known. Safe to cancel.
        """
        from mcphost.llm.model_listing import list_models

        selected, secrets = self._model_selection.config, self._secrets
        environ = self._places.environ
        return await list_models(provider, selected, environ, secrets.get, self._refusals, secrets.is_session_only)

    async def list_remembered(self) -> tuple[PricedModel, ...]:
        """Return the favorite and recent models whose prices are known, without sending a request to any provider.

        Safe to cancel.
        """
        remembered = await anyio.to_thread.run_sync(self._remembered.load)
        return await anyio.to_thread.run_sync(find_prices, [model.config for model in remembered])

    async def find_listed_models(self, known: Sequence[AvailableModel]) -> tuple[AvailableModel, ...]:
        """Return the models in the providers' online lists that are not in *known*. Safe to cancel."""
        return await self._finder.find_listed(known)

    async def toggle_favorite(self, model: ModelConfig) -> bool:
        """Add a model to the favorites or remove it; return whether it is a favorite afterwards.

        Raises McpHostError if the favorites cannot be saved.
        """
        try:
            return await anyio.to_thread.run_sync(self._remembered.toggle_favorite, model)
        except OSError as error:
            raise McpHostError(
                f"The favorites cannot be saved: {error.strerror}.", f"Check {self._places.state_dir}."
            ) from error

    async def retry_tools(self, model: ModelConfig) -> None:
        """Offer tools to a model again, even though its provider rejected them before.

        Raises McpHostError if the record of the rejection cannot be deleted.
        """
        used = self._resolve(model)
        try:
            await anyio.to_thread.run_sync(self._refusals.forget, used.name, used.api_base)
        except OSError as error:
            raise McpHostError(
                f"The refusal cannot be forgotten: {error.strerror}.", f"Check {self._places.state_dir}."
            ) from error
        current = self._model_selection.config
        selected = self._resolve(current)
        if (selected.name, selected.api_base) == (used.name, used.api_base):
            self._model_selection.select(current)  # create the model again, without the refusal

    def _resolve(self, model: ModelConfig) -> ModelConfig:
        return add_local_address(add_default_provider(model), self._places.environ)

    async def protect_headers(self, model: ModelConfig) -> ModelConfig:
        """Move plaintext secrets from a model's headers to the keyring; return the model with references to them.

        Raises McpHostError if the keyring cannot be used.
        """
        place = model.api_base.partition("://")[2] or parse_provider(model.name)
        holder = ServerConfig(name=f"model-{place}", headers=model.headers)
        for plaintext in find_plaintext_secrets(holder):
            register_secret(plaintext.expanded)
            entry = keyring_entry_name(holder.name, plaintext)
            await self._secrets.set(entry, plaintext.expanded)
            holder = replace_in_config(holder, plaintext, entry)
        return replace(model, headers=holder.headers)

    async def use_model(self, model: ModelConfig, *, is_default: bool) -> str:
        """Select a model for this run, and save it for later runs if *is_default* is true.

        The model is saved as the default model. If the profile in use sets a model, however, the new model is saved
        in the profile, because the profile would override the default. Returns a phrase that names where the model
        was saved, or "" if it was not. Raises McpHostError.
        """
        self._model_selection.select(model)
        await anyio.to_thread.run_sync(self._remember, model)
        if not is_default:
            return ""
        profile = self._profile_with_model()
        await anyio.to_thread.run_sync(save_model, self._places.config_dir / SETTINGS_FILE, model, profile)
        return f"the model of the profile {profile}" if profile else "your default"

    def _profile_with_model(self) -> str:
        config = self._detector.config if self._detector is not None else None
        profiles = config.profiles if config is not None else ()
        chosen = config.profile if config is not None else ""
        return next((one.name for one in profiles if one.name == chosen and one.model is not None), "")

    def _remember(self, model: ModelConfig) -> None:
        with suppress(OSError, McpHostError):  # only a convenience; the model works without this
            self._remembered.record_use(model)

    def _find_servers(self) -> tuple[ImportCandidate, ...]:
        places = self._places
        found = find_foreign_servers(find_places(places.home, places.folder, places.environ))
        configured = [connection.config for connection in self._servers]
        return plan_import(found, configured, places.config_dir / SERVERS_FILE, places.folder)

    def _find_project_files(self) -> tuple[tuple[str, str], ...]:
        folder = self._places.folder
        found = find_project_files(find_places(self._places.home, folder, self._places.environ))
        return tuple((str(file.relative_to(folder)), host.id) for host, file in found)


def _has_risks(candidate: ImportCandidate) -> bool:
    server = candidate.server
    # The names in an environment file are shown only by the approval question.
    return server is None or bool(server.env_file) or bool(server_warnings(server))
