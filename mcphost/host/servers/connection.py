"""Connection to one server, run by one task: approve, connect, list, watch, reconnect, close.

Only this task enters and leaves the session. Other code reads `view()` and waits in `session()`.
"""

import asyncio
import logging
import os
import time
from collections import Counter
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

import anyio

from mcphost.client.session import ServerFacts, Session, SessionOpener
from mcphost.config import server_restrictions
from mcphost.config.approval_digest import server_digest
from mcphost.config.loader import add_file_name
from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import resolve_target
from mcphost.errors import (
    ConnectionLost,
    ConsentDenied,
    McpHostError,
    RequestTimeout,
    ServerError,
    SignInRequired,
    UsageError,
)
from mcphost.host.event_bus import EventBus
from mcphost.host.events import CallEnded, CatalogChanged, ServerState
from mcphost.host.server_requests.request_handler import ServerRequestHandlerFactory
from mcphost.host.server_views import ServerView
from mcphost.host.servers.catalog import KnownInstructions, ServerListing, ToolDefinition, diff_tools
from mcphost.host.servers.change_watcher import ChangeWatcher, ServerChanges
from mcphost.host.servers.connection_record import ConnectionRecorder
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.reconnect_schedule import ReconnectSchedule, Retry
from mcphost.host.servers.rule_notices import NeverRuleNotices
from mcphost.host.servers.server_approval import ServerApprovals
from mcphost.host.servers.server_log import ServerLogBuffer
from mcphost.host.servers.status import ServerStatus
from mcphost.host.servers.tool_changes import ToolChangeTrackerFactory
from mcphost.log import to_mcphost_error
from mcphost.protocol.notifications import LoggingMessageNotification
from mcphost.sanitize import sanitize_line
from mcphost.sign_in_types import SignInProgress

if TYPE_CHECKING:
    from mcphost.client.session import Account
    from mcphost.message_log import MessageLog

_log = logging.getLogger(__name__)
INSTALL_SECONDS, SILENT_SECONDS = 3.0, 10.0  # of a local server, and of one with a URL
_RESTARTABLE_STATES = frozenset({"waiting", "connecting", "silent", "ready", "unreachable", "failed"})


class ConnectionParts(NamedTuple):
    """Objects that all connections share."""

    opener: SessionOpener
    approvals: ServerApprovals
    events: EventBus
    handler_factory: ServerRequestHandlerFactory
    orphaned_tasks: OrphanedTasks
    tracker_factory: ToolChangeTrackerFactory
    rule_notices: NeverRuleNotices
    instructions: KnownInstructions


class ServerConnection:
    """Connection to one configured server, kept open by the task that calls `run`.

    Every other method may be called from any task.
    """

    def __init__(self, server: ServerConfig, parts: ConnectionParts) -> None:
        events = parts.events
        self._orphaned_tasks = parts.orphaned_tasks
        self.tool_changes = parts.tracker_factory.create(server, self._on_changes_accepted)
        self.config = server
        self.approved_config: ServerConfig | None = None
        """The configuration of the last start, with digests of the files that its approval covers."""

        self.request_handler = parts.handler_factory.create(
            server.name, server.sampling_limits, lambda: self.account, lambda: self.digest
        )
        self.is_started = False
        self.target = ""  # as in `Servers.targets`, once the connection is started
        self.was_added = False  # by the user in this run
        self.listing = ServerListing()
        self.changes = ServerChanges(self.session)
        self._opener = parts.opener
        self._approvals = parts.approvals
        self._recorder = ConnectionRecorder(parts.approvals)
        self._events = events
        self._session: Session | None = None
        self._status = ServerStatus(
            server, events, lambda: (self.listing.catalog, len(self.tool_changes.quarantined), self._facts)
        )
        self.message_log: MessageLog | None = None
        """The log of the messages exchanged with the server, or None if they are not logged."""

        self.log_buffer = ServerLogBuffer(server.name, events)
        self.log_buffer.level = server.log_level
        self._counts: Counter[str] = Counter()  # total of closed sessions
        self._restart = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._is_withdrawn = self._is_stopped = False
        self._attempts = 0
        self._is_begun = False  # whether the process runs, or the address answered
        self._schedule = ReconnectSchedule(server.url)
        self._told_drift = ""
        self._rule_notices = parts.rule_notices
        self._known_instructions = parts.instructions

    # -- public state
    @property
    def digest(self) -> str:
        """The digest of the server's settings that decide what is started or contacted; approvals are bound to it."""
        return server_digest(self.config)

    @property
    def account(self) -> str:
        """The name of the signed-in account; "" if no account is signed in."""
        return self._status.account_name

    @property
    def identity(self) -> str:
        """The key for stored data that accounts must not share: the digest, followed by the account name."""
        return f"{self.digest} {self.account}".strip()

    @property
    def folder(self) -> str | None:
        """The working directory of a local server, None for a remote one."""
        return (resolve_target(self.config).cwd or os.getcwd()) if self.config.is_stdio else None

    @property
    def is_ready(self) -> bool:
        """Whether the session is open and requests can be sent."""
        return self._session is not None

    @property
    def is_starting(self) -> bool:
        """Whether the server is starting and may become ready without action by the user."""
        return self.is_started and self._status.is_starting

    async def is_first_start(self) -> bool:
        """Return whether this start may take a long time because the program may have to be installed first.

        Only the first start in this run can take long: if the server was added in this run, or if its command installs
        programs (as `uvx` does) and mcphost has never connected to it before. Raises StoreError.
        """
        if self._attempts > 1:
            return False
        is_installer = server_restrictions.is_installer(self.config.argv) and self.config.is_stdio
        return self.was_added or (is_installer and not await self._approvals.has_connected(self.config))

    async def wait_for_start(self, seconds: float) -> None:
        """Wait until the server is ready, the user must act, or *seconds* seconds have passed since its start."""
        began = self._status.starting_since
        if not self.is_starting or began is None:
            return
        with suppress(McpHostError), anyio.move_on_after(max(0.0, began + seconds - anyio.current_time())):
            await self.session()

    @property
    def _facts(self) -> ServerFacts | None:
        return self._session.facts if self._session else None

    def view(self) -> ServerView:
        """Return a snapshot of the server's state."""
        now = self._status
        return ServerView(
            self.config,
            now.state,
            now.detail,
            now.hint,
            self._facts,
            self.listing.catalog,
            self.log_buffer.lines(),
            dict(self._total_counts()),
            now.account,
            tuple(sorted(self.tool_changes.quarantined)),
            self.request_handler.root_sharing.known_roots,
            now.sign_in_status,
            now.starting_seconds,
            retry_seconds=now.retry_seconds,
        )

    def _total_counts(self) -> Counter[str]:
        now = self._session.anomaly_counts if self._session else Counter[str]()
        return self._counts + now + Counter({"log lines left out": self.log_buffer.dropped})

    def tool(self, name: str) -> ToolDefinition | None:
        """Return the tool with this name from the latest listing, or None."""
        return self.listing.tools.get(name)

    async def session(self) -> Session:
        """Wait until the server is ready and return its session.

        Raises ServerError if the server failed, ConsentDenied if it is not approved, UsageError if it is disabled. If
        the session is already closed, this waits for the next one.
        """
        while self._session is None or self._session.is_closed:
            await self._status.wait_for_change()
        return self._session

    async def sign_in(self, account: str | None = None) -> None:
        """Sign in again and reconnect.

        If *account* is given, the new tokens are stored under this name, which becomes the selected account. Raises
        UsageError for a local server. Other failures raise ServerError, ConsentDenied or ConfigError.
        """
        if self.config.is_stdio:
            raise UsageError(f"{self.config.name!r} is a local server and needs no sign-in.")
        approved = await self._approvals.authorize(self.config)
        if approved is None:
            raise ConsentDenied(f"The server {self.config.name!r} is not approved.")
        pending = SignInRequired("Sign-in with another account in progress.", "Restart the server to cancel it.")
        if account is not None and self.is_started and not self.is_ready:
            self._end_by_user(pending)
        try:
            await self._opener.account_manager.sign_in(approved, self, account)
        except BaseException as caught:
            error = (
                to_mcphost_error(caught, _log, "a connection broke")
                if isinstance(caught, Exception)
                else _sign_in_cancelled()
            )
            add_file_name(error, self.config)
            if self._status.state == "sign_in" and self._status.error is pending:
                self._status.set_failed(SignInRequired(error.message, error.hint), by_user=True)
            raise
        self._reconnect_as(account)

    async def use_account(self, account: str) -> None:
        """Select another stored account of this server and reconnect. Raises UsageError if there is no such account."""
        await self._opener.account_manager.use_account(self.config, account)
        self._reconnect_as(account)

    def _reconnect_as(self, account: str | None) -> None:
        current = self._status.account
        if account is not None and not (current and current.has_name(account)):
            self.changes.watched_uris.clear()  # subscriptions belong to one account
        self.restart()

    async def is_approved(self) -> bool:
        """Return whether the user has approved this server as configured. Raises StoreError."""
        return await self._approvals.is_approved(self.config)

    async def sign_out(self, hint: str = "") -> bool:
        """Delete and revoke the selected account's tokens, and close the connection.

        Returns whether the authorization server revoked the tokens. *hint* is shown to the user instead of the hint to
        sign in again. Raises McpHostError if the tokens could not be deleted.
        """
        revoked = await self._opener.account_manager.sign_out(await self._approvals.approved_config(self.config), self)
        self._session = None
        self._end_by_user(SignInRequired("You signed out.", hint or "Sign in again or restart the server."))
        return revoked

    def _end_by_user(self, why: SignInRequired) -> None:
        if self._scope is not None:
            self._scope.cancel()
        self._status.set_failed(why, by_user=True)

    def restart(self, why: str = "") -> None:
        """Close the connection and open a new one, for which `session` waits; *why* is shown as the reason."""
        self._is_stopped = False
        self._forget_session()
        if self.is_started:
            self._status.set_state("waiting", why)
        self._restart.set()
        if self._scope is not None:
            self._scope.cancel()

    def log_messages(self) -> "MessageLog":
        """Start logging the messages of this connection when it next starts; return the log."""
        from mcphost.message_log import MessageLog  # only for developers of servers

        self.message_log = self.message_log or MessageLog()
        return self.message_log

    def withdraw(self, why: ServerError) -> None:
        """Close the connection permanently after the server was removed or its configuration changed.

        Callers that are still waiting in `session` receive the error *why*.
        """
        self._is_withdrawn = True
        self._close()
        self._status.set_withdrawn(why)

    def stop(self) -> None:
        """Close the connection until `restart` is called; for a local server, also end its process.

        Callers that are still waiting in `session` receive a ServerError.
        """
        self._is_stopped = True
        self._close()
        self._status.set_stopped(ServerError(f"{self.config.name} was stopped.", "Start it: F3, then r."))

    def _close(self) -> None:
        self._forget_session()
        self._restart.set()
        if self._scope is not None:
            self._scope.cancel()

    def _forget_session(self) -> None:
        self._session = None
        self.changes.use(None)

    # -- Observer
    def stderr(self, line: str) -> None:
        """Log one line that a local server wrote to stderr."""
        self.log_buffer.add_stderr(line)

    def log(self, message: LoggingMessageNotification, call: str = "") -> None:
        """Log a message sent by the server; *call* is the id of the tool call it belongs to, "" for none."""
        self.log_buffer.add_message(message, call)

    def warn(self, text: str) -> None:
        """Log a warning that does not end the session; the same text is logged at most once every ten minutes."""
        self.log_buffer.warn_once(text)

    def on_account_changed(self, account: "Account | None") -> None:
        """Store the account in use and publish the new state."""
        self._status.set_account(account)

    def on_reachability_changed(self, error: ServerError | None) -> None:
        """Mark the server as unreachable because of *error*; if *error* is None, mark it as reachable again."""
        if self._session is not None:
            self._status.set_reachable(error)
            if error is None:
                self.changes.list_again()

    def on_call_ended(self, number: int) -> None:
        """Publish `CallEnded`, after a request to the server ended while a question that it caused is still open.

        *number* is the `call_number` of the request's ServerRequestContext.
        """
        self._events.publish(CallEnded(self.config.name, self.request_handler.call_number(number)))

    # -- the task
    async def run(self, *, retry_unreachable: bool = False) -> None:
        """Connect, serve and reconnect until cancelled; restart the server when a watched file changes.

        If *retry_unreachable* is true, an unreachable HTTP server is retried until it can be reached, even if it was
        never reached before.
        """
        self._schedule.retry_unreachable = retry_unreachable
        try:
            await self._run()
        finally:
            self._recorder.finish()

    async def _run(self) -> None:
        if not self.config.watched_files:
            await self._keep_connected()
            return
        from mcphost.host.servers.file_watcher import watch_files

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                watch_files, self.config.watched_folder, self.config.watched_files, self._restart_for_files
            )
            await self._keep_connected()
            tasks.cancel_scope.cancel()

    def _restart_for_files(self, changed: str) -> None:
        """Restart after a watched file changed, unless the server is waiting for the user's approval or sign-in."""
        if self._status.state in _RESTARTABLE_STATES:
            name = sanitize_line(changed, 200)
            self.log_buffer.add("info", f"Restarting, because {name} changed.", "client")
            self.restart(f"mcphost restarted the server {self.config.name!r}, because {name} changed.")

    async def _keep_connected(self) -> None:
        self._schedule.reset()
        self._status.begin_start()
        while not self._is_withdrawn:
            self._restart = anyio.Event()
            if self._is_stopped:
                await self._restart.wait()
                continue
            retry: Retry | None = None
            with anyio.CancelScope() as scope:
                self._scope = scope
                retry = await self._connect_and_serve()
            self._scope = None
            if self._is_withdrawn:
                return
            if self._restart.is_set():
                self._schedule.reset()
            else:
                await self._wait_for_retry(retry)
            if self._restart.is_set():
                self._recorder.finish()

    async def _wait_for_retry(self, retry: Retry | None) -> None:
        if retry is None:
            self._recorder.finish()
            await self._restart.wait()
            return
        status = self._status
        if retry.attempts:
            status.set_state("connecting", f"{status.detail} Retrying in {retry.seconds:g} s.", status.hint)
        with anyio.move_on_after(retry.seconds):
            await self._restart.wait()

    async def _connect_and_serve(self) -> Retry | None:
        """Connect and run the session until it ends; return the next attempt, None if the user must act."""
        ready_at = 0.0
        silence_timer: asyncio.TimerHandle | None = None
        ready_session: Session | None = None
        try:
            self.approved_config = None
            approved = self.approved_config = await self._approvals.authorize(self.config)
            if approved is None:
                self._status.set_state(
                    "untrusted", "Not approved yet.", f"mcphost servers trust {quote(self.config.name)}"
                )
                return None
            await self.tool_changes.project_lock.load()
            self.log_buffer.begin_attempt()
            self._attempts += 1
            self._is_begun = False
            self._status.begin_attempt()
            silent = INSTALL_SECONDS if self.config.is_stdio else SILENT_SECONDS
            silence_timer = asyncio.get_running_loop().call_later(silent, self._status.set_silent, silent)
            opened = self._opener.open(approved, self.request_handler, self, self._prepare)
            async with self._recorder.record(approved, lambda: self._is_begun), opened as session:
                self._is_begun = True
                await self._recorder.handle_connected()
                watcher = self._create_watcher(session)
                self.listing = await watcher.list_all()
                await self.tool_changes.compare_first(self.listing)
                for problem in self.listing.catalog.left_out:
                    self.warn(problem)
                await self._report_drift(session.facts)
                ready_at = time.monotonic()
                silence_timer.cancel()
                self.request_handler.root_sharing.mark_ready()
                ready_session = self._session = session
                self.remember_instructions()
                self.changes.use(watcher)
                self._status.set_state("ready")
                self._rule_notices.handle_tools(self.config.name, self.listing.tools)
                await self._serve(session, watcher)
                loss = await session.wait_closed()
            raise loss
        except Exception as caught:  # noqa: BLE001
            # Catch everything at the boundary of a connection: no server and no bug in the client may end the host.
            self._session = None
            error = self._add_last_errors(to_mcphost_error(caught, _log, "a connection broke"))
            add_file_name(error, self.config)
            self.log_buffer.write_stderr_to_file()
            return self._set_failed(error, ready_at)
        finally:
            self._forget_session()
            self.request_handler.root_sharing.end_connection()
            self.log_buffer.end_attempt()
            if silence_timer is not None:
                silence_timer.cancel()
            if ready_session is not None:
                self._counts += ready_session.anomaly_counts

    def _set_failed(self, error: McpHostError, ready_at: float) -> Retry | None:
        """Show the error and whether mcphost will reconnect; return the next attempt, None if there is none.

        *ready_at* is the monotonic time in seconds at which the server became ready, 0 if it never did.
        """
        retry = self._schedule.next_retry(error, ready_at)
        if retry is not None and not retry.attempts:
            self._status.set_unreachable(error, retry)
        elif retry is not None:
            self._status.set_retrying(error, retry)
        elif self._schedule.has_given_up:
            self._status.set_given_up(error, self._schedule.attempts)
        else:
            self._status.set_failed(error)
        return retry

    async def _report_drift(self, facts: ServerFacts) -> None:
        """Notify the user, once for each difference, if the server differs from the project's lock file."""
        lock = self.tool_changes.project_lock
        if lock.locked is None and not lock.problem:
            return
        from mcphost.host.servers.lock_drift import describe_drift  # imported only for projects with a lock file

        drift = await describe_drift(lock, facts, self.listing.tools)
        if drift and drift != self._told_drift:
            self._told_drift = drift
            name = self.config.name
            self._events.notify("warning", f"{name}: {drift}", f"The differences: mcphost servers verify {quote(name)}")

    async def _prepare(self) -> None:
        """Load the stored data that the first requests need; called while the server's program starts.

        Raises StoreError.
        """
        self._is_begun = self.config.is_stdio
        await self.request_handler.root_sharing.begin_connection()
        await self.tool_changes.load()

    def _add_last_errors(self, error: McpHostError) -> McpHostError:
        """Append the last stderr lines of a local server to *error* if its startup timed out."""
        if isinstance(error, RequestTimeout) and self.config.is_stdio and not self.is_ready:
            error.message = f"{error.message.rstrip('.')}{self.log_buffer.describe_stderr()}."
        return error

    def update_sign_in(self, event: SignInProgress) -> None:
        """Show the progress of a sign-in in the server's status."""
        self._status.update_sign_in(event)

    def cancel_sign_in(self) -> bool:
        """Cancel the sign-in that this connection is waiting for; return False if there is none."""
        if self.is_ready or not self._status.sign_in_status:
            return False
        self._end_by_user(_sign_in_cancelled())
        return True

    def _create_watcher(self, session: Session) -> ChangeWatcher:
        name, uris = self.config.name, self.changes.watched_uris
        return ChangeWatcher(
            name, session, watched_uris=uris, events=self._events, warn=self.warn, on_listing=self._on_listing
        )

    async def _serve(self, session: Session, watcher: ChangeWatcher) -> None:
        """Run the background tasks of a ready session until it ends; then save the tool fingerprints."""

        async def ask_for_logs() -> None:
            try:
                await session.set_log_level(self.log_buffer.level)
            except ConnectionLost:
                return  # the watcher handles this error
            except ServerError as error:
                self.warn(f"The log level could not be set: {error.message}")

        try:
            async with anyio.create_task_group() as tasks:
                if self.log_buffer.level:
                    tasks.start_soon(ask_for_logs)
                tasks.start_soon(self.request_handler.root_sharing.send_list_changes, session, self.warn)
                tasks.start_soon(self._orphaned_tasks.resume, self.identity, session)
                tasks.start_soon(self.tool_changes.run)
                await watcher.run()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self.tool_changes.save()

    async def _on_listing(self, offers: ServerListing) -> None:
        """Store a new listing, compare its tools with the remembered definitions and publish the differences."""
        before = self.listing
        # Digest first: the listing and its quarantine must change together, without an await between them.
        digests = await self.tool_changes.compute_digests(offers)
        changed = await anyio.to_thread.run_sync(diff_tools, before, offers)
        self.listing = offers
        self.remember_instructions()  # after a session is renewed, they may be different
        self.tool_changes.compare(offers, digests)
        if changed:
            self._events.publish(CatalogChanged(self.config.name, changed.added, changed.removed, changed.changed))
        if changed or before.catalog != offers.catalog:
            self._status.set_state("ready")

    def remember_instructions(self) -> None:
        """Remember the server's instructions, which remain part of earlier model requests after the session ends."""
        if self._facts is not None and self._facts.instructions:
            self._known_instructions.remember(self.config, self._facts.instructions)

    def _on_changes_accepted(self) -> None:
        """Publish the server's state, because the user accepted quarantined tools, which are now available."""
        if self._session is not None:
            self._events.publish(self.event())

    def active_uris(self) -> tuple[str, ...]:
        """Return the URIs of the resources whose changes the server announces; () unless the server is ready."""
        return self.changes.announced_uris() if self._status.state == "ready" else ()

    async def set_log_level(self, level: str) -> None:
        """Set the server's log level now and after each reconnect.

        If the server refuses, the previous level is kept and ServerError is raised.
        """
        before, self.log_buffer.level = self.log_buffer.level, level
        try:
            await (await self.session()).set_log_level(level)
        except BaseException:
            self.log_buffer.level = before
            raise

    def event(self) -> ServerState:
        """Return the current state as a `ServerState` event."""
        return self._status.event()


def _sign_in_cancelled() -> SignInRequired:
    return SignInRequired("You cancelled the sign-in.", "Sign in again or restart the server.")
