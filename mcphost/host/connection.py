"""One server's life as one task: trust, connect, list, watch, reconnect, close.

The task enters and leaves its own contexts; nobody else ever closes them. Others see `view` and wait in `session()`.
"""

import asyncio
import logging
import time
from collections import Counter
from typing import cast

import anyio

from mcphost.client.session import Opener, Session
from mcphost.config.digest import server_digest
from mcphost.config.schema import ServerConfig
from mcphost.data import replace
from mcphost.errors import (
    CannotStart,
    ConfigError,
    ConnectionLost,
    Declined,
    McpHostError,
    ServerError,
    SignInNeeded,
    UnsupportedRevision,
    UsageError,
)
from mcphost.host.catalog import ListedTool, Offers, difference
from mcphost.host.desk import Desks
from mcphost.host.events import CatalogChanged, ServerState, ServerStateName
from mcphost.host.feed import Feeds
from mcphost.host.left_tasks import LeftTasks
from mcphost.host.server_log import Log
from mcphost.host.trust import Trusting
from mcphost.host.views import ServerView
from mcphost.host.watching import Watching
from mcphost.protocol.notices import LogMessage, RootsListChanged

_log = logging.getLogger(__name__)
BACK_OFF = (1, 2, 4, 8, 16)
STEADY_SECONDS = 60
NOT_ANSWERING = 3.0
_HOPELESS = (SignInNeeded, UnsupportedRevision, ConfigError)


class Connection:
    """One configured server. `run` is its task; everything else may be called from any task of the host."""

    def __init__(
        self,
        server: ServerConfig,
        *,
        opener: Opener,
        trusting: Trusting,
        feeds: Feeds,
        desks: Desks,
        left: LeftTasks,
    ) -> None:
        self._left = left
        self.config = server
        self._desk = desks.desk(server.name)
        self._roots = desks.roots
        self.started = False
        self.offers = Offers()
        self._opener = opener
        self._trusting = trusting
        self._feeds = feeds
        self._state: ServerStateName = "disabled" if server.disabled else "waiting"
        self._detail = ""
        self._hint = ""
        self._error: McpHostError | None = None
        self._session: Session | None = None
        self._log = Log(server.name, feeds)
        self._log.level = server.log_level
        self._uris: dict[str, None] = {}
        self._watching: Watching | None = None
        self._counts: Counter[str] = Counter()  # of sessions that are over
        self._changed = anyio.Event()
        self._restart = anyio.Event()
        self._scope: anyio.CancelScope | None = None

    # -- what others see
    @property
    def digest(self) -> str:
        """The digest of what would run or be reached."""
        return server_digest(self.config)

    @property
    def is_ready(self) -> bool:
        """Whether calls can be made right now."""
        return self._session is not None

    def view(self) -> ServerView:
        """The server now."""
        return ServerView(
            self.config,
            self._state,
            self._detail,
            self._hint,
            self._session.facts if self._session else None,
            self.offers.catalog,
            self._log.lines(),
            dict(self._counted()),
        )

    def _counted(self) -> Counter[str]:
        now = self._session.counts if self._session else Counter[str]()
        return self._counts + now + Counter({"log lines left out": self._log.left_out})

    def tool(self, name: str) -> ListedTool | None:
        """A tool as last listed."""
        return self.offers.tools.get(name)

    async def session(self) -> Session:
        """Wait until it is ready. Raises ServerError when it failed, Declined when it is not trusted."""
        while True:
            if self._session is not None:
                return self._session
            match self._state:
                case "failed" | "stopped" | "sign_in":
                    raise self._error or CannotStart(f"The server {self.config.name!r} is not running.")
                case "untrusted":
                    raise Declined(
                        f"The server {self.config.name!r} is not approved.",
                        f"Approve it with: mcphost servers trust {self.config.name}",
                    )
                case "disabled":
                    raise UsageError(
                        f"The server {self.config.name!r} is disabled.",
                        f'Set "disabled" to false in {self.config.file}.',
                    )
                case _:
                    await self._changed.wait()

    async def login(self) -> None:
        """Have the user sign in anew, and connect with that. Raises ServerError, Declined, ConfigError, UsageError."""
        if self.config.is_stdio:
            raise UsageError(f"{self.config.name!r} is a program on this machine; there is nothing to sign in to.")
        if not await self._trusting.allows(self.config):
            raise Declined(f"The server {self.config.name!r} is not approved.")
        await self._opener.sign_in(self.config, self)
        self.restart()

    def restart(self) -> None:
        """Close the connection and open it again; who asks for the session from now on waits for the new one."""
        self._session = self._watching = None
        if self.started:
            self._set("waiting")
        self._restart.set()
        if self._scope is not None:
            self._scope.cancel()

    # -- Observer
    def stderr(self, line: str) -> None:
        """One line of error output."""
        self._log.add("info", line, "stderr")

    def log(self, message: LogMessage, call: str = "") -> None:
        """What the server logs; `call` when it belongs to one."""
        self._log.message(message, call)

    def warn(self, text: str) -> None:
        """Something odd the session survived; the same words again within ten minutes are not noted again."""
        self._log.once("warning", text, "client")

    # -- the task
    async def run(self) -> None:
        """Live until cancelled."""
        failures, was_ready = 0, False
        while True:
            self._restart = anyio.Event()
            ready_at = 0.0
            with anyio.CancelScope() as scope:
                self._scope = scope
                ready_at = await self._live()
            self._scope = None
            if self._restart.is_set():
                failures, was_ready = 0, False
                continue
            if ready_at and time.monotonic() - ready_at > STEADY_SECONDS:
                failures = 0
            # What worked once is tried again while it comes back; what never did needs its user.
            was_ready = was_ready or ready_at > 0
            again = was_ready and self._state == "failed" and not isinstance(self._error, _HOPELESS)
            wait = BACK_OFF[failures] if again and failures < len(BACK_OFF) else None
            failures += 1
            await self._pause(wait)

    async def _pause(self, seconds: float | None) -> None:
        if seconds is None:
            await self._restart.wait()
            return
        self._set("connecting", f"{self._detail} Trying again in {seconds:g} s.", self._hint)
        with anyio.move_on_after(seconds):
            await self._restart.wait()

    async def _live(self) -> float:
        """From trust to loss; returns when it was ready (monotonic seconds), 0 when it never was."""
        ready_at = 0.0
        quiet: asyncio.TimerHandle | None = None
        live: Session | None = None
        try:
            if not await self._trusting.allows(self.config):
                self._set("untrusted", "Not approved yet.", f"mcphost servers trust {self.config.name}")
                return 0.0
            self._set("connecting")
            quiet = asyncio.get_running_loop().call_later(NOT_ANSWERING, self._not_answering)
            async with self._opener.open(self.config, self._desk, self) as session:
                watching = self._watch_over(session)
                self.offers = await watching.first()
                for problem in self.offers.catalog.left_out:
                    self.warn(problem)
                ready_at = time.monotonic()
                quiet.cancel()
                live = self._session = session
                self._watching = watching
                self._set("ready")
                await self._keep(session, watching)
                why = await session.closed()
            raise why
        except Exception as caught:  # noqa: BLE001
            # The boundary of a connection: neither a server nor a bug in talking to it may take the host along.
            self._session = None
            self._error = error = _ours(caught)
            state = "sign_in" if isinstance(error, SignInNeeded) else "failed"
            self._set(state, error.message, error.hint or "Restart it when the cause is gone.")
        finally:
            self._session = self._watching = None
            if quiet is not None:
                quiet.cancel()
            if live is not None:
                self._counts += live.counts
        return ready_at

    def signing_in(self) -> None:
        """The user is asked to sign in to it: until that is done it waits for nobody else."""
        if self._state in ("connecting", "silent"):
            self._set("connecting", "Waiting for you to sign in.")

    def _not_answering(self) -> None:
        if self._state == "connecting" and not self._detail:
            self._set("silent", f"It has not answered for {NOT_ANSWERING:g} s; still waiting.", "Or restart it.")

    def _watch_over(self, session: Session) -> Watching:
        name, uris = self.config.name, self._uris
        return Watching(name, session, uris=uris, feeds=self._feeds, warn=self.warn, took=self._took)

    async def _keep(self, session: Session, watching: Watching) -> None:
        """All that goes on while the server is there."""

        async def ask_for_logs() -> None:
            try:
                await session.set_log_level(self._log.level)
            except ConnectionLost:
                return  # whoever watches the session hears of it
            except ServerError as error:
                self.warn(f"No log messages were asked for: {error.message}")

        async with anyio.create_task_group() as tasks:
            if self._log.level:
                tasks.start_soon(ask_for_logs)
            tasks.start_soon(self._tell_roots, session)
            tasks.start_soon(self._left.resume, self.digest, session)
            await watching.run()
            tasks.cancel_scope.cancel()

    async def _tell_roots(self, session: Session) -> None:
        """Tell a server of the handshake era that the roots changed; the others ask when they want to know."""
        if session.facts.era != "handshake" or "roots" not in self._desk.capabilities:
            return
        while True:
            await self._roots.changed()
            try:
                await session.tell(RootsListChanged())
            except McpHostError as error:
                self.warn(f"It could not be told that the folders changed: {error.message}")

    def _took(self, offers: Offers) -> None:
        """The server was listed anew."""
        before, self.offers = self.offers, offers
        changed = difference(before, offers)
        if changed:
            self._feeds.put(CatalogChanged(self.config.name, changed.added, changed.removed, changed.changed))
        if changed or before.catalog != offers.catalog:
            self._set("ready")

    # -- what keeps it true
    async def watching(self) -> Watching:
        """Of the session that is ready; waits and raises as `session` does."""
        while True:
            await self.session()
            if self._watching is not None:
                return self._watching

    def watched(self) -> tuple[str, ...]:
        """The resources that are watched, also while the server is away."""
        return tuple(self._uris)

    def doubt(self) -> None:
        """A call was refused for what it asks; see Watching."""
        if self._watching is not None:
            self._watching.doubt()

    async def freshen(self) -> None:
        """Before a call; see Watching."""
        if self._watching is not None:
            await self._watching.freshen()

    async def set_log_level(self, level: str) -> None:
        """Now and after each reconnect. Raises ServerError, and then it is as before."""
        before, self._log.level = self._log.level, level
        try:
            await (await self.session()).set_log_level(level)
        except BaseException:
            self._log.level = before
            raise

    # -- telling
    def _set(self, state: ServerStateName, detail: str = "", hint: str = "") -> None:
        self._state, self._detail, self._hint = state, detail, hint
        self._feeds.put(self.event())
        self._changed.set()
        self._changed = anyio.Event()

    def event(self) -> ServerState:
        """The state as an event."""
        catalog = self.offers.catalog
        event = ServerState(
            self.config.name,
            self._state,
            self._detail,
            self._hint,
            tools=len(catalog.tools),
            resources=len(catalog.resources),
            prompts=len(catalog.prompts),
        )
        if self._session is not None:
            event = replace(event, revision=self._session.facts.revision.value, era=self._session.facts.era)
        return event


def _ours(caught: Exception) -> McpHostError:
    """Our own error, alone or inside what a task group raised; anything else is a bug, and logged."""
    inner = caught
    while isinstance(inner, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", inner).exceptions[0]
    if isinstance(inner, McpHostError):
        return inner
    _log.error("a connection broke", exc_info=caught)
    return McpHostError(f"mcphost made a mistake: {type(inner).__name__}: {inner}.", "The log has the details.")
