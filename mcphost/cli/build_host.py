"""Composition root: builds the Host and everything it needs from the command-line options."""

import logging
import os
import sys
from collections import ChainMap
from collections.abc import AsyncGenerator, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcphost import paths
from mcphost.auth.session_secrets import SessionSecrets
from mcphost.cli.parser import Options
from mcphost.cli.server_session_opener import LazySessionOpener
from mcphost.config.loader import LOCAL_FILE, PROJECT_FILE, SERVERS_FILE, SETTINGS_FILE, ConfigSources, load_config
from mcphost.config.project_texts import ProjectPlaces
from mcphost.config.schema import AuditConfig, HostConfig, ModelConfig, SecretStore, ServerConfig
from mcphost.config.settings import Overrides
from mcphost.errors import ConfigError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.bootstrap import SetupParts, build_host
from mcphost.host.event_bus import EventBus
from mcphost.host.host import Host
from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Frontend
from mcphost.host.servers.server_approval import load_approved_project
from mcphost.llm.model import ChatModel
from mcphost.serialization import replace
from mcphost.sign_in_types import SignInProgress
from mcphost.store.audit_store import AuditRecord, AuditStore
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from mcphost.store.large_results import ResultStore
from mcphost.translation import N_

if TYPE_CHECKING:
    from mcphost.auth.keyring_backend import SecretBackend
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.config.hooks import HookOutput
    from mcphost.config.remembered_models import ToolRefusals
    from mcphost.host.questions.sign_in import OpenUrl, SecretStoragePrompts
    from mcphost.llm.worker_client import WorkerProcess
    from mcphost.transport.hook_process import HookRunner


_log = logging.getLogger(__name__)
AUDIT_FILE = "ledger.db"
AUDIT_CHECKPOINT_FILE = "ledger.head"
RESULTS_DIR = "results"
DEMO_SERVER = ServerConfig(
    name="demo", command=sys.executable, args=("-P", "-m", "mcphost.demo.server"), source="demo", file="the demo"
)


@asynccontextmanager
async def open_host(
    options: Options,
    frontend: Frontend,
    *,
    adjust_config: Callable[[HostConfig], HostConfig] = lambda config: config,
    open_url: "OpenUrl | None" = None,
) -> AsyncGenerator[Host]:
    """Build a Host and enter its context, without starting any server.

    On exit, everything is stopped and the database is closed. *adjust_config* is called with the loaded configuration
    and returns the one to use, for example with a single server or without a model. *open_url* opens a URL in a
    browser; if it is None, users must open URLs themselves. Raises the errors of `load_configuration`.
    """
    events = EventBus()
    database = Database(paths.database_file(), events.report_store_error, companion=audit_files()[1])
    grants = GrantStore(database)
    models = ModelFactory(options.timeout)
    opener: LazySessionOpener | None = None
    hooks = LazyHookRunner()
    try:
        config = adjust_config(await load_configuration(options, grants))
        secrets = models.secrets = create_secrets(config.secret_store)
        audit = AuditLog(open_audit_store(database, events.report_store_error), config.audit)
        results = ResultStore(paths.data_dir() / RESULTS_DIR, config.results)
        audited_frontend, audited_open = audit.wrap_frontend(frontend), audit.wrap_open_url(open_url)

        opener = LazySessionOpener(config.limits, grants)
        host = build_host(
            config, store=database, opener=opener, model_factory=models.create, frontend=frontend, open_url=open_url,
            audit=audit, results=results, events=events,
            setup=None if options.demo else _setup_parts(options, models, grants, adjust_config),
            project=None if options.demo else await _project_places(options), run_hook=hooks.run,
        )  # fmt: skip
        opener.limits = lambda: host.settings.limits
        if not config.secret_store and kinds.KEEP_SECRETS in frontend.kinds:
            secrets.ask_file = partial(_ask_secret_file, options, audited_frontend, host.settings.note_secret_store)
        async with anyio.create_task_group() as tasks:

            def create_registry() -> "OAuthRegistry":
                registry = create_oauth_registry(
                    options, audited_frontend, config.secret_store, audited_open, host.servers.update_sign_in,
                    partial(events.notify, "warning"), host.settings.note_secret_store,
                )  # fmt: skip
                tasks.start_soon(registry.token_store.watch_pending)
                return registry

            opener.account_manager.enable_sign_in(create_registry)
            tasks.start_soon(results.delete_expired, name="old results")
            async with host:
                yield host
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            if opener is not None:
                await opener.close()
            await models.close()
            await hooks.close()
            await database.close()
        for notice in events.take_unseen():
            _print_store_error(notice.text, notice.hint)


async def _project_places(options: Options) -> ProjectPlaces:
    """Return the folders to search for instructions, custom commands and hooks, and how their files are approved.

    In the TUI, the user is asked to approve project files. Other commands use only files that are already approved.
    With `--trust-project`, the files are approved with their current content. If they change during the run, they are
    not used, because the model may have written them.
    """
    approval = "stored" if options.one_shot else "ask"
    places = ProjectPlaces(config_dir=paths.config_dir(options.config_dir), folder=Path.cwd(), approval=approval)
    if not options.trust_project:
        return places
    from mcphost.config.hooks import approve_current_files

    return await anyio.to_thread.run_sync(approve_current_files, places)


def _setup_parts(
    options: Options, models: "ModelFactory", grants: GrantStore, adjust_config: Callable[[HostConfig], HostConfig]
) -> SetupParts:
    config_dir, folder = paths.config_dir(options.config_dir), Path.cwd()
    places = paths.SetupPlaces(
        config_dir, paths.state_dir(), Path.home(), folder, models.environ, paths.data_dir(), paths.cache_dir()
    )

    async def load_again(profile: str | None) -> HostConfig:
        return adjust_config(await load_configuration(options, grants, profile))

    files = tuple(Path(os.path.expanduser(file)) for file in options.mcp_config) or (
        config_dir / SERVERS_FILE,
        config_dir / LOCAL_FILE,
    )
    files = (config_dir / SETTINGS_FILE, *files, *(() if options.mcp_config else (folder / PROJECT_FILE,)))
    sources = ConfigSources(load_again, files)
    return SetupParts(places, models.secrets, sources)


class LazyHookRunner:
    """Hook runner that imports its modules when the first hook runs."""

    def __init__(self) -> None:
        self._runner: HookRunner | None = None

    async def run(self, command: Sequence[str], folder: str, document: bytes, seconds: float) -> "HookOutput":
        """Run one hook; see `HookRunner.run`."""
        if self._runner is None:
            from mcphost.transport.hook_process import HookRunner

            self._runner = HookRunner()
        return await self._runner.run(command, folder, document, seconds)

    async def close(self) -> None:
        """Close the hook runner, if any hook has run."""
        if self._runner is not None:
            await self._runner.close()


def create_secrets(store: SecretStore) -> SessionSecrets:
    """Return the store for secrets of servers and model providers.

    Secrets are kept in the plain-text file if *store* is `file`, otherwise in the keyring.
    """
    return SessionSecrets(partial(open_secret_backend, store), "file" if store == "file" else "keyring")


def open_secret_backend(store: str) -> "SecretBackend":
    """Return the storage backend for secrets: the plain-text file if *store* is `file`, otherwise the keyring."""
    from mcphost.auth.keyring_backend import KeyringBackend
    from mcphost.auth.secret_store import NamedSecrets
    from mcphost.cli.printing import print_note

    return NamedSecrets(KeyringBackend(), paths.data_dir(), is_file=store == "file", warn=print_note)


async def _ask_secret_file(
    options: Options, frontend: Frontend, on_saved: Callable[[SecretStore], None], server: str, reason: str
) -> "SecretBackend | None":
    """Ask whether to store the secrets of *server* in a plain-text file; save the choice in config.toml.

    *reason* explains why no keyring can be used. *on_saved* is called with the new storage setting after it has
    been saved. Returns the storage backend for the file, or None if the user declines. Raises ConfigError if the
    choice cannot be saved.
    """
    from mcphost.auth.file_backend import PLAIN_FILE
    from mcphost.config.settings_edits import save_secret_store
    from mcphost.host.questions.sign_in import ChooseSecretStorage, KeepInPlainFile

    verdict = await frontend.ask(
        ChooseSecretStorage(
            server="", why=N_("its entry has a secret, and no keyring can store it"), servers=(server,), reason=reason,
            plain_file=str(paths.data_dir() / PLAIN_FILE), sealed_file="",
        )
    )  # fmt: skip
    if not isinstance(verdict, KeepInPlainFile):
        return None
    await anyio.to_thread.run_sync(save_secret_store, paths.config_dir(options.config_dir) / SETTINGS_FILE, "file")
    on_saved("file")
    return open_secret_backend("file")


def open_audit_store(database: Database, on_error: Callable[[str, str], None]) -> AuditStore:
    """Open the audit store.

    If there is no audit log yet, the new log begins with one record for each permission that *database* already
    contains. If the log cannot be used, *on_error* is called with a warning for the user and a hint.
    """

    async def load_initial() -> tuple[AuditRecord, ...]:
        from mcphost.store.audit_store import load_legacy_records  # needed only once per installation

        return await load_legacy_records(database)

    return AuditStore(*audit_files(), warn=on_error, initial_records=load_initial)


def audit_files() -> tuple[Path, Path]:
    """Return the paths of the audit database and of its checkpoint."""
    return paths.data_dir() / AUDIT_FILE, paths.state_dir() / AUDIT_CHECKPOINT_FILE


async def load_approved_configuration(options: Options) -> HostConfig:
    """Load the configuration, using the approvals stored in the database; see `load_configuration`."""
    async with open_grants() as grants:
        return await load_configuration(options, grants)


async def load_configuration(options: Options, grants: GrantStore, profile: str | None = None) -> HostConfig:
    """Load the configuration; *profile* overrides `--profile`.

    A project's `.mcp.json` is used only if *grants* contains the user's approval of it. Raises ConfigError if the
    configuration cannot be read, and UsageError if there is no such profile.
    """
    if options.demo:
        return HostConfig(servers=(DEMO_SERVER,), model=ModelConfig(name="demo"))
    project, problem = (None, "") if options.mcp_config else await load_approved_project(grants)
    # In a thread, because a slow file system must not block the event loop.
    read = partial(
        load_config,
        paths.config_dir(options.config_dir),
        files=options.mcp_config,
        project=project,
        overrides=Overrides(
            model=options.model, profile=options.profile if profile is None else profile, api_base=options.api_base,
            api_key_env=options.api_key_env, era=options.era, timeout=options.timeout, max_rounds=options.max_rounds,
            max_cost=options.max_cost,
        ),
        environ=os.environ,
        strict=options.one_shot,
        is_diagnosis=options.is_diagnosis,
    )  # fmt: skip
    config = await anyio.to_thread.run_sync(read)
    return replace(config, problems=(*config.problems, problem)) if problem else config


class ModelFactory:
    """Factory for models; all models that use litellm share one worker process, which starts on first use."""

    def __init__(self, timeout: float | None = None) -> None:
        """Create a factory for models.

        *timeout* is the total time limit of a model request in seconds; None keeps the default time limits.
        """
        self._worker: WorkerProcess | None = None
        self._timeout = timeout
        self.secrets = create_secrets("")
        """Storage of model providers' API keys: the keyring, unless the configuration selects the file."""
        self.environ: MutableMapping[str, str] = ChainMap({}, os.environ)
        """Environment variables with API keys; a key that the user has replaced is hidden here, not in `os.environ`."""

    def create(self, config: ModelConfig) -> ChatModel:
        """Return the model for *config*; an unknown name causes an error only when the model is prepared or used."""
        if config.name == "demo":
            from mcphost.llm.demo_model import DemoModel

            return DemoModel()
        from mcphost.llm.litellm_model import LiteLlmModel, ModelDeadlines
        from mcphost.llm.worker_client import WorkerProcess

        if self._worker is None:
            self._worker = WorkerProcess(_log.info)
        deadlines = ModelDeadlines() if self._timeout is None else ModelDeadlines(total=self._timeout)
        return LiteLlmModel(
            config, self._worker, environ=self.environ, keyring=self.secrets.get, deadlines=deadlines,
            load_refusals=_load_refusals,
        )  # fmt: skip

    async def close(self) -> None:
        """Stop the worker process if it is running."""
        if self._worker is not None:
            await self._worker.close()


def _load_refusals() -> "ToolRefusals":
    from mcphost.config.remembered_models import ToolRefusals

    return ToolRefusals(paths.state_dir())


def create_oauth_registry(
    options: Options,
    frontend: Frontend,
    storage: SecretStore,
    open_url: "OpenUrl | None" = None,
    on_progress: "Callable[[SignInProgress], None] | None" = None,
    warn: Callable[[str], None] | None = None,
    on_place_saved: "Callable[[SecretStore], None] | None" = None,
) -> "OAuthRegistry":
    """Create the OAuth registry for HTTP servers, which stores tokens in the configured *storage*.

    If *frontend* cannot ask the user to sign in, interactive sign-in is disabled. If it cannot ask for the passphrase
    of the file with tokens, the passphrase is read from the terminal.

    - *open_url* opens a URL in a browser.
    - *on_progress* is called with each step of a sign-in.
    - *warn* is called with warnings about the storage of secrets. If it is None, they are printed to stderr.
    - *on_place_saved* is called with the new storage location for tokens when the user has chosen one and it has been
      saved in config.toml.
    """
    from mcphost.auth.browser import can_open_browser
    from mcphost.auth.keyring_backend import KeyringBackend
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.auth.secret_store import SecretStorage
    from mcphost.auth.sign_in_context import ignore_progress
    from mcphost.auth.token_store import TokenStore
    from mcphost.cli.printing import print_note
    from mcphost.host.questions.sign_in import SignInPrompts

    can_ask = kinds.KEEP_SECRETS in frontend.kinds

    async def save_choice(place: SecretStore) -> str:
        from mcphost.config.settings_edits import save_secret_store

        path = paths.config_dir(options.config_dir) / SETTINGS_FILE
        try:
            await anyio.to_thread.run_sync(save_secret_store, path, place)
        except ConfigError as error:
            return f"The choice applies to this run only. {error}"
        if on_place_saved is not None:
            on_place_saved(place)
        return f'Saved: secrets.store = "{place}" in {path}.'

    places = SecretStorage(
        KeyringBackend(),
        paths.data_dir(),
        configured_place=storage,
        interaction=_secret_storage_prompts(frontend),
        can_ask_place=can_ask,
        save_choice=save_choice,
    )
    person = SignInPrompts(frontend, open_url, can_open_browser) if kinds.SIGN_IN in frontend.kinds else None
    token_store = TokenStore(places, paths.data_dir(), warn or print_note)
    return OAuthRegistry(token_store, person, on_progress=on_progress or ignore_progress, max_timeout=options.timeout)


def _secret_storage_prompts(frontend: Frontend) -> "SecretStoragePrompts | None":
    """Return prompts for the passphrase of the secret storage, or None if the user cannot be asked.

    The prompts are shown by *frontend* or, if it cannot ask for a passphrase, on an interactive terminal.
    """
    from mcphost.cli.terminal_frontend import TerminalFrontend, is_interactive
    from mcphost.host.questions.sign_in import SecretStoragePrompts

    if kinds.UNLOCK_SECRETS in frontend.kinds:
        return SecretStoragePrompts(frontend)
    return SecretStoragePrompts(TerminalFrontend()) if is_interactive() else None


@asynccontextmanager
async def open_grants() -> AsyncGenerator[GrantStore]:
    """Open the store of server approvals and granted permissions; errors of the store are printed to stderr."""
    async with open_grants_and_audit() as (grants, _):
        yield grants


@asynccontextmanager
async def open_grants_and_audit() -> AsyncGenerator[tuple[GrantStore, AuditLog]]:
    """Open the store of approvals and permissions, together with the audit log.

    Used by commands that change approvals or permissions, or write to the audit log.
    """
    database = Database(paths.database_file(), _print_store_error, companion=audit_files()[1])
    audit = AuditLog(open_audit_store(database, _print_store_error), AuditConfig())
    try:
        yield GrantStore(database), audit
    finally:
        await audit.close()
        await database.close()


def _print_store_error(text: str, hint: str) -> None:
    from mcphost.cli.printing import print_note

    print_note(f"{text} {hint}".strip())
