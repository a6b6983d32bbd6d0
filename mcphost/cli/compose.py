"""The composition root: configuration, store, opener, models and Host, built from what the command line said."""

import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from mcphost import paths
from mcphost.clean import whole
from mcphost.cli.opening import ReadyOpener
from mcphost.cli.options import Options
from mcphost.config.load import ProjectFile, load, project_file
from mcphost.config.schema import HostConfig, ModelConfig, ServerConfig
from mcphost.config.settings import Overrides
from mcphost.data import replace
from mcphost.errors import ConfigError, StoreError
from mcphost.host.front import Front
from mcphost.host.host import Host
from mcphost.host.questions import SignIn
from mcphost.host.sign_in import OpenUrl, SignIns
from mcphost.llm.model import ChatModel
from mcphost.store.database import Database
from mcphost.store.grants import Grants, Trust

if TYPE_CHECKING:
    from mcphost.auth.identities import Identities
    from mcphost.llm.process import WorkerProcess

_log = logging.getLogger(__name__)
DATABASE = "mcphost.db"
DEMO_SERVER = ServerConfig(
    name="demo", command=sys.executable, args=("-P", "-m", "mcphost.demo.server"), source="demo", file="the demo"
)


@asynccontextmanager
async def open_host(
    options: Options,
    front: Front,
    *,
    only: Callable[[HostConfig], HostConfig] = lambda config: config,
    open_url: OpenUrl | None = None,
) -> AsyncGenerator[Host]:
    """A Host that is entered and not started. Leaving ends everything it started and closes the store.

    `only` may narrow the configuration (one server, no model). `open_url` shows an address in a browser; None: whoever
    is behind the front does that. Raises ConfigError.
    """
    told: list[Callable[[str, str], None]] = []
    hosts: list[Host] = []

    def asking(server: str) -> None:
        for host in hosts:
            host.signing_in(server)

    def tell(text: str, hint: str) -> None:
        for listener in told:
            listener(text, hint)

    database = Database(paths.data_dir() / DATABASE, tell)
    grants = Grants(database)
    models = Models()
    opener: ReadyOpener | None = None
    try:
        config = only(await configuration(options, grants))
        opener = ReadyOpener(config.limits, grants, lambda: identities(front, open_url, asking))
        host = Host(config, store=database, opener=opener, models=models.model, front=front, open_url=open_url)
        hosts.append(host)
        told.append(lambda text, hint: host.tell("error", text, hint))
        async with host:
            yield host
    finally:
        with anyio.CancelScope(shield=True):
            if opener is not None:
                await opener.close()
            await models.close()
            await database.close()


async def configuration(options: Options, grants: Grants) -> HostConfig:
    """Everything the user wrote, for this run. Raises ConfigError."""
    if options.demo:
        return HostConfig(servers=(DEMO_SERVER,), model=ModelConfig(name="demo"))
    project, problem = (None, "") if options.mcp_config else await _project(grants)
    config = load(
        paths.config_dir(options.config_dir),
        files=options.mcp_config,
        project=project,
        overrides=Overrides(
            model=options.model, api_base=options.api_base, api_key_env=options.api_key_env, era=options.era,
            timeout=options.timeout, max_rounds=options.max_rounds,
        ),
        environ=os.environ,
        strict=options.one_shot,
    )  # fmt: skip
    return replace(config, problems=(*config.problems, problem)) if problem else config


async def approve_project(grants: Grants, project: ProjectFile) -> None:
    """Trust exactly this content of a folder's `.mcp.json`. Raises StoreError."""
    await grants.approve(Trust(whole(project.path), project.digest, whole(project.path)))


async def _project(grants: Grants) -> tuple[ProjectFile | None, str]:
    """The folder's own file when exactly this content was approved, and else what to say about it."""
    try:
        project = project_file(Path.cwd())
        if project is None:
            return None, ""
        known = await grants.trust(whole(project.path))
    except (ConfigError, StoreError, OSError) as error:
        return None, str(error)
    if known is not None and known.digest == project.digest:
        return project, ""
    changed = "changed since it was approved" if known else "was not approved yet"
    return None, f"{project.path} is not used: it {changed}. Read it, then: mcphost servers trust .mcp.json"


class Models:
    """Makes models; all that need litellm share one worker process, which is started when the first one prepares."""

    def __init__(self) -> None:
        self._worker: WorkerProcess | None = None

    def model(self, config: ModelConfig) -> ChatModel:
        """The model of that name; a name that is none shows when it is prepared or asked."""
        if config.name == "demo":
            from mcphost.llm.demo import DemoModel

            return DemoModel()
        from mcphost.llm.process import WorkerProcess
        from mcphost.llm.remote import RemoteModel

        if self._worker is None:
            self._worker = WorkerProcess(_log.info)
        return RemoteModel(config, self._worker, environ=os.environ, keyring=_key_in_keyring)

    async def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            await self._worker.close()


def identities(
    front: Front, open_url: OpenUrl | None = None, asking: Callable[[str], None] = lambda server: None
) -> "Identities":
    """Who signs in to HTTP servers: tokens in the keyring, the list of them beside the database.

    A front that cannot put the question to anybody signs in nowhere.
    """
    from mcphost.auth.identities import Identities
    from mcphost.auth.keep import Keep
    from mcphost.auth.vault import KeyringVault

    person = SignIns(front, open_url, asking) if SignIn.KIND in front.kinds else None
    return Identities(Keep(KeyringVault(), paths.data_dir()), person)


async def _key_in_keyring(name: str) -> str | None:
    from mcphost.auth.vault import KeyringVault

    return await KeyringVault().get(name)
