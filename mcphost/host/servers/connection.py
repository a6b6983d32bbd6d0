"""One server's life as one task: trust, connect, list, watch, reconnect, close.

The task enters and leaves its own contexts; nobody else ever closes them. Others see `view` and wait in `session()`.
"""

import asyncio
import logging
import os
import time
from collections import Counter, deque
from contextlib import suppress
from shlex import quote
from typing import cast

import anyio

from mcphost.client.session import Account, Opener, ServerFacts, Session
from mcphost.config.approval_digest import server_digest
from mcphost.config.loader import name_file
from mcphost.config.schema import ServerConfig
from mcphost.errors import (
    LAST_LINES,
    ConfigError,
    ConnectionLost,
    DeadlinePassed,
    Declined,
    McpHostError,
    ServerError,
    SignInNeeded,
    UnsupportedRevision,
    UsageError,
    last_words,
)
from mcphost.host.event_queue import Feeds
from mcphost.host.events import CallOver, CatalogChanged, ServerState, SigningIn
from mcphost.host.server_requests.request_handler import Desks
from mcphost.host.servers.approval import Trusting
from mcphost.host.servers.catalog import ListedTool, Offers, difference
from mcphost.host.servers.change_watcher import Watching
from mcphost.host.servers.orphaned_tasks import LeftTasks
from mcphost.host.servers.server_log import Log
from mcphost.host.servers.status import Condition
from mcphost.host.servers.tool_changes import Drifts
from mcphost.host.views import ServerView
from mcphost.protocol.notifications import LogMessage

_log = logging.getLogger(__name__)
BACK_OFF = (1, 2, 4, 8, 16)
STEADY_SECONDS = 60
NOT_ANSWERING = 3.0
LOGGED_LINES = 40
LAST_WORDS = 400
LAST_SIZE = 7_000
"""How much of a failed server's error output the log file gets: lines, characters of each and of all."""
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
        drifts: Drifts,
    ) -> None:
        self._left = left
        self.drift = drifts.of(server, self._kept)
        self.config = server
        self._desk = desks.desk(server.name, server.sampling, lambda: self.account, lambda: self.digest)
        self.started = False
        self.offers = Offers()
        self._opener = opener
        self._trusting = trusting
        self._feeds = feeds
        self._session: Session | None = None
        self._condition = Condition(server, feeds, lambda: (self.offers.catalog, len(self.drift.held), self._facts))
        self._log = Log(server.name, feeds)
        self._log.level = server.log_level
        self._uris: dict[str, None] = {}
        self._watching: Watching | None = None
        self._counts: Counter[str] = Counter()  # of sessions that are over
        self._restart = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._last_errors: deque[str] = deque(maxlen=LAST_LINES)

    # -- what others see
    @property
    def digest(self) -> str:
        """The digest of what would run or be reached."""
        return server_digest(self.config)

    @property
    def account(self) -> str:
        """The name of the account that calls are made with; "" while nobody is signed in, or nobody needs to be."""
        return self._condition.account_name

    @property
    def whose(self) -> str:
        """What would run or be reached, and with whose account: for what one account must not hear of another."""
        return f"{self.digest} {self.account}".strip()

    @property
    def folder(self) -> str | None:
        """Where its program runs; None for a server that is somewhere else."""
        return (self.config.cwd or os.getcwd()) if self.config.is_stdio else None

    @property
    def is_ready(self) -> bool:
        """Whether calls can be made right now."""
        return self._session is not None

    @property
    def is_starting(self) -> bool:
        """Whether it may become ready without its user doing anything."""
        return self.started and self._condition.is_starting

    async def wait_for_start(self, seconds: float) -> None:
        """Return once it is ready or needs its user, at the latest so many seconds after its start began."""
        began = self._condition.starting_since
        if not self.is_starting or began is None:
            return
        with suppress(McpHostError), anyio.move_on_after(max(0.0, began + seconds - anyio.current_time())):
            await self.session()

    @property
    def _facts(self) -> ServerFacts | None:
        return self._session.facts if self._session else None

    def view(self) -> ServerView:
        """The server now."""
        now = self._condition
        return ServerView(
            self.config,
            now.state,
            now.detail,
            now.hint,
            self._facts,
            self.offers.catalog,
            self._log.lines(),
            dict(self._counted()),
            now.account,
            tuple(sorted(self.drift.held)),
            self._desk.sharing.heard,
            now.signing,
            now.starting,
        )

    def _counted(self) -> Counter[str]:
        now = self._session.counts if self._session else Counter[str]()
        return self._counts + now + Counter({"log lines left out": self._log.left_out})

    def tool(self, name: str) -> ListedTool | None:
        """A tool as last listed."""
        return self.offers.tools.get(name)

    async def session(self) -> Session:
        """Wait until it is ready. Raises ServerError when it failed, Declined when it is not trusted.

        One that just died, which its task may not have noticed yet, is waited for like one that is being opened.
        """
        while self._session is None or self._session.is_over:
            await self._condition.change()
        return self._session

    async def login(self, account: str | None = None) -> None:
        """Have the user sign in anew, and connect with that; with `account` under that name, used from then on.

        Raises ServerError, Declined, ConfigError, UsageError.
        """
        if self.config.is_stdio:
            raise UsageError(f"{self.config.name!r} is a program on this machine; there is nothing to sign in to.")
        held = await self._trusting.admit(self.config)
        if held is None:
            raise Declined(f"The server {self.config.name!r} is not approved.")
        if account is not None and self.started and not self.is_ready:
            self._give_up(SignInNeeded("You are signing in under another name.", "Restart it to go on without that."))
        try:
            await self._opener.sign_in(held, self, account)
        except McpHostError as error:
            name_file(error, self.config)
            raise
        self._as(account)

    async def use(self, account: str) -> None:
        """Connect anew as that account, which somebody signed in to before. Raises UsageError."""
        await self._opener.use(self.config, account)
        self._as(account)

    def _as(self, account: str | None) -> None:
        now = self._condition.account
        if account is not None and not (now and now.is_called(account)):
            self._uris.clear()  # what one account watches is nothing that another one should ask for
        self.restart()

    async def is_approved(self) -> bool:
        """Whether it may be started or reached without a question. Raises StoreError."""
        return await self._trusting.knows(self.config)

    async def logout(self, instead: str = "") -> bool:
        """Erase the sign-in and close what it opened; whether it was revoked. Raises McpHostError.

        `instead` says what the user may do then, besides signing in again.
        """
        revoked = await self._opener.sign_out(await self._trusting.held(self.config), self)
        self._session = None
        self._give_up(SignInNeeded("You signed out.", instead or "Sign in again, or restart it."))
        return revoked

    def _give_up(self, why: McpHostError) -> None:
        if self._scope is not None:
            self._scope.cancel()
        self._condition.failed(why)

    def restart(self) -> None:
        """Close the connection and open it again; who asks for the session from now on waits for the new one."""
        self._session = self._watching = None
        if self.started:
            self._condition.set("waiting")
        self._restart.set()
        if self._scope is not None:
            self._scope.cancel()

    # -- Observer
    def stderr(self, line: str) -> None:
        """One line of error output."""
        self._log.add("info", line, "stderr")
        if line.strip():
            self._last_errors.append(line)

    def log(self, message: LogMessage, call: str = "") -> None:
        """What the server logs; `call` when it belongs to one."""
        self._log.message(message, call)

    def warn(self, text: str) -> None:
        """Something odd the session survived; the same words again within ten minutes are not noted again."""
        self._log.once("warning", text, "client")

    def signed_in(self, account: Account | None) -> None:
        """Which sign-in is used; told, so that whoever shows it stays true."""
        self._condition.signed_in(account)

    def call_over(self, number: int) -> None:
        """A call is over while the server still waits for what it asked for it; told, so that questions say so."""
        self._feeds.put(CallOver(self.config.name, self._desk.number(number)))

    # -- the task
    async def run(self) -> None:
        """Live until cancelled."""
        failures, was_ready = 0, False
        self._condition.begin()
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
            now = self._condition
            again = was_ready and now.state == "failed" and not isinstance(now.error, _HOPELESS)
            wait = BACK_OFF[failures] if again and failures < len(BACK_OFF) else None
            failures += 1
            await self._pause(wait)

    async def _pause(self, seconds: float | None) -> None:
        if seconds is None:
            await self._restart.wait()
            return
        now = self._condition
        now.set("connecting", f"{now.detail} Trying again in {seconds:g} s.", now.hint)
        with anyio.move_on_after(seconds):
            await self._restart.wait()

    async def _live(self) -> float:
        """From trust to loss; returns when it was ready (monotonic seconds), 0 when it never was."""
        ready_at = 0.0
        quiet: asyncio.TimerHandle | None = None
        live: Session | None = None
        try:
            held = await self._trusting.admit(self.config)
            if held is None:
                self._condition.set(
                    "untrusted", "Not approved yet.", f"mcphost servers trust {quote(self.config.name)}"
                )
                return 0.0
            self._last_errors.clear()
            self._condition.set("connecting")
            quiet = asyncio.get_running_loop().call_later(NOT_ANSWERING, self._condition.silent, NOT_ANSWERING)
            opened = self._opener.open(held, self._desk, self, self._prepare)
            async with self._trusting.recorded(held), opened as session:
                watching = self._watch_over(session)
                self.offers = await watching.first()
                await self.drift.first(self.offers)
                for problem in self.offers.catalog.left_out:
                    self.warn(problem)
                ready_at = time.monotonic()
                quiet.cancel()
                self._desk.sharing.ready()
                live = self._session = session
                self._watching = watching
                self._condition.set("ready")
                await self._keep(session, watching)
                why = await session.closed()
            raise why
        except Exception as caught:  # noqa: BLE001
            # The boundary of a connection: neither a server nor a bug in talking to it may take the host along.
            self._session = None
            error = self._with_last_words(_ours(caught))
            name_file(error, self.config)
            self._keep_last_words()
            self._condition.failed(error)
        finally:
            self._session = self._watching = None
            if quiet is not None:
                quiet.cancel()
            if live is not None:
                self._counts += live.counts
        return ready_at

    async def _prepare(self) -> None:
        """Read what the first requests need from the store, while the program starts. Raises StoreError."""
        await self._desk.sharing.begin()
        await self.drift.recall()

    def _keep_last_words(self) -> None:
        """Write the newest error output to the log file: a command has no other place that outlives it."""
        lines = [line.text[:LAST_WORDS] for line in self._log.lines() if line.source == "stderr"][-LOGGED_LINES:]
        if lines:
            _log.error("the server %r failed; its error output:\n%s", self.config.name, "\n".join(lines)[-LAST_SIZE:])

    def _with_last_words(self, error: McpHostError) -> McpHostError:
        """Add what a program last said to the error that it did not answer: the cause is there, or nowhere."""
        if isinstance(error, DeadlinePassed) and self.config.is_stdio and not self.is_ready:
            error.message = f"{error.message.rstrip('.')}{last_words(self._last_errors)}."
        return error

    def signing_in(self, event: SigningIn) -> None:
        """Where signing in to it is."""
        self._condition.signing_in(event)

    def stop_signing_in(self) -> bool:
        """End the sign-in that the connection itself wants; whether there is one."""
        if self.is_ready or not self._condition.signing:
            return False
        self._give_up(SignInNeeded("You stopped signing in.", "Sign in again, or restart it."))
        return True

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

        try:
            async with anyio.create_task_group() as tasks:
                if self._log.level:
                    tasks.start_soon(ask_for_logs)
                tasks.start_soon(self._desk.sharing.keep_told, session, self.warn)
                tasks.start_soon(self._left.resume, self.whose, session)
                tasks.start_soon(self.drift.run)
                await watching.run()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self.drift.save()

    async def _took(self, offers: Offers) -> None:
        """The server was listed anew."""
        before = self.offers
        # Definitions may have megabytes; what is offered changes in the same turn in which it is judged.
        digests = await self.drift.study(offers)
        changed = await anyio.to_thread.run_sync(difference, before, offers)
        self.offers = offers
        self.drift.look(offers, digests)
        if changed:
            self._feeds.put(CatalogChanged(self.config.name, changed.added, changed.removed, changed.changed))
        if changed or before.catalog != offers.catalog:
            self._condition.set("ready")

    def _kept(self) -> None:
        """Tools that were held back are offered again."""
        if self._session is not None:
            self._condition.set("ready")

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

    @property
    def is_settled(self) -> bool:
        """Whether its tools were listed after the last change of them that it told of; see Watching."""
        return self._watching is None or self._watching.is_settled

    async def settle(self) -> None:
        """Before a call, wait for that; see Watching. Raises ServerError."""
        if self._watching is not None:
            await self._watching.settle()

    async def relist(self) -> None:
        """Before a call is sent again; see Watching."""
        if self._watching is not None:
            await self._watching.relist()

    async def set_log_level(self, level: str) -> None:
        """Now and after each reconnect. Raises ServerError, and then it is as before."""
        before, self._log.level = self._log.level, level
        try:
            await (await self.session()).set_log_level(level)
        except BaseException:
            self._log.level = before
            raise

    def event(self) -> ServerState:
        """The state as an event."""
        return self._condition.event()


def _ours(caught: Exception) -> McpHostError:
    """Our own error, alone or inside what a task group raised; anything else is a bug, and logged."""
    inner = caught
    while isinstance(inner, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", inner).exceptions[0]
    if isinstance(inner, McpHostError):
        return inner
    _log.error("a connection broke", exc_info=caught)
    return McpHostError(f"mcphost made a mistake: {type(inner).__name__}: {inner}.", "The log has the details.")
