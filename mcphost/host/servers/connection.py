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

from mcphost.client.session import Account, ServerFacts, Session, SessionOpener
from mcphost.config.approval_digest import server_digest
from mcphost.config.loader import name_file
from mcphost.config.schema import ServerConfig
from mcphost.errors import (
    STDERR_TAIL_LINES,
    ConfigError,
    ConnectionLost,
    ConsentDenied,
    McpHostError,
    RequestTimeout,
    ServerError,
    SignInRequired,
    UnsupportedRevision,
    UsageError,
    describe_stderr_tail,
)
from mcphost.host.event_queue import EventBus
from mcphost.host.events import CallEnded, CatalogChanged, ServerState, SignInUpdated
from mcphost.host.server_requests.request_handler import ServerRequestHandlerFactory
from mcphost.host.servers.approval import ServerApprovals
from mcphost.host.servers.catalog import ServerListing, ToolDefinition, diff_tools
from mcphost.host.servers.change_watcher import ChangeWatcher
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.server_log import ServerLogBuffer
from mcphost.host.servers.status import ServerStatus
from mcphost.host.servers.tool_changes import ToolChangeTrackerFactory
from mcphost.host.views import ServerView
from mcphost.protocol.notifications import LoggingMessageNotification

_log = logging.getLogger(__name__)
BACK_OFF = (1, 2, 4, 8, 16)
STEADY_SECONDS = 60
SILENT_SECONDS = 3.0
LOGGED_LINES = 40
LOGGED_LINE_LENGTH = 400
LOGGED_SIZE = 7_000
"""How much of a failed server's error output the log file gets: lines, characters of each and of all."""
_PERMANENT_ERRORS = (SignInRequired, UnsupportedRevision, ConfigError)


class ServerConnection:
    """One configured server. `run` is its task; everything else may be called from any task of the host."""

    def __init__(
        self,
        server: ServerConfig,
        *,
        opener: SessionOpener,
        approvals: ServerApprovals,
        events: EventBus,
        handler_factory: ServerRequestHandlerFactory,
        orphaned_tasks: OrphanedTasks,
        tracker_factory: ToolChangeTrackerFactory,
    ) -> None:
        self._orphaned_tasks = orphaned_tasks
        self.tool_changes = tracker_factory.create(server, self._on_changes_accepted)
        self.config = server
        self._request_handler = handler_factory.create(
            server.name, server.sampling, lambda: self.account, lambda: self.digest
        )
        self.is_started = False
        self.listing = ServerListing()
        self._opener = opener
        self._approvals = approvals
        self._events = events
        self._session: Session | None = None
        self._status = ServerStatus(
            server, events, lambda: (self.listing.catalog, len(self.tool_changes.quarantined), self._facts)
        )
        self._log = ServerLogBuffer(server.name, events)
        self._log.level = server.log_level
        self._watched_uris: dict[str, None] = {}
        self._watcher: ChangeWatcher | None = None
        self._counts: Counter[str] = Counter()  # of sessions that are over
        self._restart = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._last_errors: deque[str] = deque(maxlen=STDERR_TAIL_LINES)

    # -- what others see
    @property
    def digest(self) -> str:
        """The digest of what would run or be reached."""
        return server_digest(self.config)

    @property
    def account(self) -> str:
        """The name of the account that calls are made with; "" while nobody is signed in, or nobody needs to be."""
        return self._status.account_name

    @property
    def identity(self) -> str:
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
        return self.is_started and self._status.is_starting

    async def wait_for_start(self, seconds: float) -> None:
        """Return once it is ready or needs its user, at the latest so many seconds after its start began."""
        began = self._status.starting_since
        if not self.is_starting or began is None:
            return
        with suppress(McpHostError), anyio.move_on_after(max(0.0, began + seconds - anyio.current_time())):
            await self.session()

    @property
    def _facts(self) -> ServerFacts | None:
        return self._session.facts if self._session else None

    def view(self) -> ServerView:
        """The server now."""
        now = self._status
        return ServerView(
            self.config,
            now.state,
            now.detail,
            now.hint,
            self._facts,
            self.listing.catalog,
            self._log.lines(),
            dict(self._total_counts()),
            now.account,
            tuple(sorted(self.tool_changes.quarantined)),
            self._request_handler.root_sharing.known_roots,
            now.sign_in_status,
            now.starting_seconds,
        )

    def _total_counts(self) -> Counter[str]:
        now = self._session.anomaly_counts if self._session else Counter[str]()
        return self._counts + now + Counter({"log lines left out": self._log.dropped})

    def tool(self, name: str) -> ToolDefinition | None:
        """A tool as last listed."""
        return self.listing.tools.get(name)

    async def session(self) -> Session:
        """Wait until it is ready. Raises ServerError when it failed, Declined when it is not trusted.

        One that just died, which its task may not have noticed yet, is waited for like one that is being opened.
        """
        while self._session is None or self._session.is_closed:
            await self._status.wait_for_change()
        return self._session

    async def sign_in(self, account: str | None = None) -> None:
        """Have the user sign in anew, and connect with that; with `account` under that name, used from then on.

        Raises ServerError, Declined, ConfigError, UsageError.
        """
        if self.config.is_stdio:
            raise UsageError(f"{self.config.name!r} is a program on this machine; there is nothing to sign in to.")
        held = await self._approvals.authorize(self.config)
        if held is None:
            raise ConsentDenied(f"The server {self.config.name!r} is not approved.")
        if account is not None and self.is_started and not self.is_ready:
            self._fail(SignInRequired("You are signing in under another name.", "Restart it to go on without that."))
        try:
            await self._opener.sign_in(held, self, account)
        except McpHostError as error:
            name_file(error, self.config)
            raise
        self._reconnect_as(account)

    async def use_account(self, account: str) -> None:
        """Connect anew as that account, which somebody signed in to before. Raises UsageError."""
        await self._opener.use_account(self.config, account)
        self._reconnect_as(account)

    def _reconnect_as(self, account: str | None) -> None:
        now = self._status.account
        if account is not None and not (now and now.is_called(account)):
            self._watched_uris.clear()  # what one account watches is nothing that another one should ask for
        self.restart()

    async def is_approved(self) -> bool:
        """Whether it may be started or reached without a question. Raises StoreError."""
        return await self._approvals.is_approved(self.config)

    async def sign_out(self, hint: str = "") -> bool:
        """Erase the sign-in and close what it opened; whether it was revoked. Raises McpHostError.

        `instead` says what the user may do then, besides signing in again.
        """
        revoked = await self._opener.sign_out(await self._approvals.approved_config(self.config), self)
        self._session = None
        self._fail(SignInRequired("You signed out.", hint or "Sign in again, or restart it."))
        return revoked

    def _fail(self, why: McpHostError) -> None:
        if self._scope is not None:
            self._scope.cancel()
        self._status.set_failed(why)

    def restart(self) -> None:
        """Close the connection and open it again; who asks for the session from now on waits for the new one."""
        self._session = self._watcher = None
        if self.is_started:
            self._status.set_state("waiting")
        self._restart.set()
        if self._scope is not None:
            self._scope.cancel()

    # -- Observer
    def stderr(self, line: str) -> None:
        """One line of error output."""
        self._log.add("info", line, "stderr")
        if line.strip():
            self._last_errors.append(line)

    def log(self, message: LoggingMessageNotification, call: str = "") -> None:
        """What the server logs; `call` when it belongs to one."""
        self._log.add_message(message, call)

    def warn(self, text: str) -> None:
        """Something odd the session survived; the same words again within ten minutes are not noted again."""
        self._log.add_once("warning", text, "client")

    def on_account_changed(self, account: Account | None) -> None:
        """Which sign-in is used; told, so that whoever shows it stays true."""
        self._status.set_account(account)

    def on_call_ended(self, number: int) -> None:
        """A call is over while the server still waits for what it asked for it; told, so that questions say so."""
        self._events.publish(CallEnded(self.config.name, self._request_handler.call_number(number)))

    # -- the task
    async def run(self) -> None:
        """Live until cancelled."""
        failures, was_ready = 0, False
        self._status.begin_start()
        while True:
            self._restart = anyio.Event()
            ready_at = 0.0
            with anyio.CancelScope() as scope:
                self._scope = scope
                ready_at = await self._connect_and_serve()
            self._scope = None
            if self._restart.is_set():
                failures, was_ready = 0, False
                continue
            if ready_at and time.monotonic() - ready_at > STEADY_SECONDS:
                failures = 0
            # What worked once is tried again while it comes back; what never did needs its user.
            was_ready = was_ready or ready_at > 0
            now = self._status
            again = was_ready and now.state == "failed" and not isinstance(now.error, _PERMANENT_ERRORS)
            wait = BACK_OFF[failures] if again and failures < len(BACK_OFF) else None
            failures += 1
            await self._wait_for_retry(wait)

    async def _wait_for_retry(self, seconds: float | None) -> None:
        if seconds is None:
            await self._restart.wait()
            return
        now = self._status
        now.set_state("connecting", f"{now.detail} Trying again in {seconds:g} s.", now.hint)
        with anyio.move_on_after(seconds):
            await self._restart.wait()

    async def _connect_and_serve(self) -> float:
        """From trust to loss; returns when it was ready (monotonic seconds), 0 when it never was."""
        ready_at = 0.0
        quiet: asyncio.TimerHandle | None = None
        live: Session | None = None
        try:
            held = await self._approvals.authorize(self.config)
            if held is None:
                self._status.set_state(
                    "untrusted", "Not approved yet.", f"mcphost servers trust {quote(self.config.name)}"
                )
                return 0.0
            self._last_errors.clear()
            self._status.set_state("connecting")
            quiet = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._status.set_silent, SILENT_SECONDS)
            opened = self._opener.open(held, self._request_handler, self, self._prepare)
            async with self._approvals.record_connection(held), opened as session:
                watching = self._create_watcher(session)
                self.listing = await watching.list_all()
                await self.tool_changes.compare_first(self.listing)
                for problem in self.listing.catalog.left_out:
                    self.warn(problem)
                ready_at = time.monotonic()
                quiet.cancel()
                self._request_handler.root_sharing.mark_ready()
                live = self._session = session
                self._watcher = watching
                self._status.set_state("ready")
                await self._serve(session, watching)
                why = await session.wait_closed()
            raise why
        except Exception as caught:  # noqa: BLE001
            # The boundary of a connection: neither a server nor a bug in talking to it may take the host along.
            self._session = None
            error = self._add_last_errors(_to_mcphost_error(caught))
            name_file(error, self.config)
            self._log_last_errors()
            self._status.set_failed(error)
        finally:
            self._session = self._watcher = None
            if quiet is not None:
                quiet.cancel()
            if live is not None:
                self._counts += live.anomaly_counts
        return ready_at

    async def _prepare(self) -> None:
        """Read what the first requests need from the store, while the program starts. Raises StoreError."""
        await self._request_handler.root_sharing.begin_connection()
        await self.tool_changes.load()

    def _log_last_errors(self) -> None:
        """Write the newest error output to the log file: a command has no other place that outlives it."""
        lines = [line.text[:LOGGED_LINE_LENGTH] for line in self._log.lines() if line.source == "stderr"][
            -LOGGED_LINES:
        ]
        if lines:
            _log.error("the server %r failed; its error output:\n%s", self.config.name, "\n".join(lines)[-LOGGED_SIZE:])

    def _add_last_errors(self, error: McpHostError) -> McpHostError:
        """Add what a program last said to the error that it did not answer: the cause is there, or nowhere."""
        if isinstance(error, RequestTimeout) and self.config.is_stdio and not self.is_ready:
            error.message = f"{error.message.rstrip('.')}{describe_stderr_tail(self._last_errors)}."
        return error

    def update_sign_in(self, event: SignInUpdated) -> None:
        """Where signing in to it is."""
        self._status.update_sign_in(event)

    def cancel_sign_in(self) -> bool:
        """End the sign-in that the connection itself wants; whether there is one."""
        if self.is_ready or not self._status.sign_in_status:
            return False
        self._fail(SignInRequired("You stopped signing in.", "Sign in again, or restart it."))
        return True

    def _create_watcher(self, session: Session) -> ChangeWatcher:
        name, uris = self.config.name, self._watched_uris
        return ChangeWatcher(
            name, session, watched_uris=uris, events=self._events, warn=self.warn, on_listing=self._on_listing
        )

    async def _serve(self, session: Session, watcher: ChangeWatcher) -> None:
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
                tasks.start_soon(self._request_handler.root_sharing.send_list_changes, session, self.warn)
                tasks.start_soon(self._orphaned_tasks.resume, self.identity, session)
                tasks.start_soon(self.tool_changes.run)
                await watcher.run()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self.tool_changes.save()

    async def _on_listing(self, offers: ServerListing) -> None:
        """The server was listed anew."""
        before = self.listing
        # Definitions may have megabytes; what is offered changes in the same turn in which it is judged.
        digests = await self.tool_changes.compute_digests(offers)
        changed = await anyio.to_thread.run_sync(diff_tools, before, offers)
        self.listing = offers
        self.tool_changes.compare(offers, digests)
        if changed:
            self._events.publish(CatalogChanged(self.config.name, changed.added, changed.removed, changed.changed))
        if changed or before.catalog != offers.catalog:
            self._status.set_state("ready")

    def _on_changes_accepted(self) -> None:
        """Tools that were held back are offered again."""
        if self._session is not None:
            self._status.set_state("ready")

    # -- what keeps it true
    async def get_watcher(self) -> ChangeWatcher:
        """Of the session that is ready; waits and raises as `session` does."""
        while True:
            await self.session()
            if self._watcher is not None:
                return self._watcher

    def watched_uris(self) -> tuple[str, ...]:
        """The resources that are watched, also while the server is away."""
        return tuple(self._watched_uris)

    def mark_stale(self) -> None:
        """A call was refused for what it asks; see Watching."""
        if self._watcher is not None:
            self._watcher.mark_stale()

    async def refresh_if_stale(self) -> None:
        """Before a call; see Watching."""
        if self._watcher is not None:
            await self._watcher.refresh_if_stale()

    @property
    def is_listing_current(self) -> bool:
        """Whether its tools were listed after the last change of them that it told of; see Watching."""
        return self._watcher is None or self._watcher.is_listing_current

    async def wait_for_listing(self) -> None:
        """Before a call, wait for that; see Watching. Raises ServerError."""
        if self._watcher is not None:
            await self._watcher.wait_for_listing()

    async def relist(self) -> None:
        """Before a call is sent again; see Watching."""
        if self._watcher is not None:
            await self._watcher.relist()

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
        return self._status.event()


def _to_mcphost_error(caught: Exception) -> McpHostError:
    """Our own error, alone or inside what a task group raised; anything else is a bug, and logged."""
    inner = caught
    while isinstance(inner, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", inner).exceptions[0]
    if isinstance(inner, McpHostError):
        return inner
    _log.error("a connection broke", exc_info=caught)
    return McpHostError(f"mcphost made a mistake: {type(inner).__name__}: {inner}.", "The log has the details.")
