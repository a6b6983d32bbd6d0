"""State of one server with its message, hint and account; every change is published as an event."""

import time
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING

import anyio

from mcphost.client.session import ServerFacts
from mcphost.config.schema import ServerConfig
from mcphost.config.server_restrictions import is_installer
from mcphost.config.variable_references import resolve_target
from mcphost.errors import ConsentDenied, McpHostError, SignInRequired, StartupError, UsageError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ServerState, ServerStateName
from mcphost.host.server_views import Catalog
from mcphost.host.servers.reconnect_schedule import MAX_UNREACHABLE_DELAY, Retry
from mcphost.llm.providers import is_loopback
from mcphost.serialization import replace
from mcphost.sign_in_types import SignInProgress

if TYPE_CHECKING:
    from mcphost.client.session import Account

RESTART_HINT = "Fix the cause and restart the server."
"""The hint for a server that failed with an error without a hint."""
WATCHED_HINT = "It restarts when you save one of its watched files."
"""The beginning of the hint for a server with watched files that failed."""
NEW_START_WORDS = "start mcphost again"
"""Words in the hint if restarting the server cannot help, for example because an environment variable is missing."""
_RECONNECT_HINT = "mcphost reconnects automatically as soon as the server answers."
StatusInputs = tuple[Catalog, int, ServerFacts | None]
"""The server's catalog, the number of its quarantined tools, and its facts (None unless it is ready)."""


class ServerStatus:
    """The state of one server; only its connection changes it, and each change is published as an event."""

    def __init__(self, server: ServerConfig, events: EventBus, inputs: Callable[[], StatusInputs]) -> None:
        self._config = server
        self._events = events
        self._inputs = inputs
        self._connecting_since: float | None = None
        self._retry_seconds = self._retry_at = 0.0
        self._is_by_user = self._is_final = False
        self.state: ServerStateName = "disabled" if server.disabled else "waiting"
        self.detail = ""
        self.hint = ""
        self.sign_in_status = ""
        """Progress of the current sign-in; "" if there is none."""
        self.error: McpHostError | None = None
        self.is_down = False
        """Whether no session exists because the server cannot be reached; mcphost keeps trying."""

        self.starting_since: float | None = None
        """Event loop time in seconds at which the current start began; a retry is not a new start."""
        self.account: Account | None = None
        self._changed = anyio.Event()

    @property
    def account_name(self) -> str:
        """The name of the signed-in account; "" if no account is signed in."""
        return self.account.name if self.account else ""

    def set_state(
        self,
        state: ServerStateName,
        detail: str = "",
        hint: str = "",
        *,
        retry_seconds: float = 0.0,
        by_user: bool = False,
    ) -> None:
        """Set the state, its message (*detail*) and its hint, and publish a `ServerState` event.

        See `ServerState` for *retry_seconds* and *by_user*. Does nothing after `set_withdrawn`.
        """
        if self._is_final:
            return
        self.is_down = self.is_down and state == "unreachable"
        if state in ("ready", "unreachable"):
            self.starting_since = None
        elif state == "waiting" or (state == "connecting" and self.state == "waiting") or self.starting_since is None:
            self.starting_since = anyio.current_time()
        if state not in ("connecting", "silent"):
            self._connecting_since = None
        elif self._connecting_since is None:
            self._connecting_since = time.monotonic()
        self.state, self.detail, self.hint = state, detail, hint
        self._retry_seconds, self._is_by_user = retry_seconds, by_user
        self._events.publish(self.event())
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def starting_seconds(self) -> float:
        """Seconds since the server began to connect; 0 if it is not connecting."""
        return 0.0 if self._connecting_since is None else time.monotonic() - self._connecting_since

    def set_failed(self, error: McpHostError, *, by_user: bool = False) -> None:
        """Set the state "failed" (for SignInRequired, "sign_in") with the error's message and hint.

        *by_user* means that the user caused the state, for example by signing out.
        """
        self._set_error(error)
        state = "sign_in" if isinstance(error, SignInRequired) else "failed"
        hint = self._failure_hint(error) if state == "failed" else error.hint or RESTART_HINT
        self.set_state(state, error.message, hint, by_user=by_user)

    def _failure_hint(self, error: McpHostError) -> str:
        if self._config.watched_files and NEW_START_WORDS not in error.hint:
            return f"{WATCHED_HINT} {error.hint}".rstrip()
        return error.hint or RESTART_HINT

    def set_retrying(self, error: McpHostError, retry: Retry) -> None:
        """Set the state "failed", with a hint that mcphost will start or contact the server again.

        *retry* is the next automatic attempt; the hint states when mcphost makes it.
        """
        self._set_error(error)
        seconds, attempt, attempts = retry
        hint = (
            f"mcphost starts it again in {seconds:g} s (attempt {attempt} of {attempts})."
            if self._config.is_stdio
            else f"mcphost connects again in {seconds:g} s (attempt {attempt} of {attempts})."
        )
        self.set_state("failed", error.message, f"{hint} {error.hint}".rstrip(), retry_seconds=retry.seconds)

    @property
    def retry_seconds(self) -> float:
        """Seconds until the next attempt to reach an unreachable server; 0 if none is planned or one is in progress."""
        is_waiting = self.is_down and self.state == "unreachable"
        return max(0.0, self._retry_at - time.monotonic()) if is_waiting else 0.0

    def set_unreachable(self, error: McpHostError, retry: Retry) -> None:
        """Set the state "unreachable" while mcphost keeps trying to reach a server that has no session.

        *retry* is the next attempt. *error* is raised in code that waits for the server. The state stays "unreachable"
        until the server is ready or fails in another way.
        """
        self._set_error(error)
        self._retry_at = time.monotonic() + retry.seconds
        if not (self.is_down and self.detail == error.message):
            self.is_down = True
            hint = (
                f"mcphost tries again every {retry.seconds:g} s."
                if is_loopback(self._config.url)
                else f"mcphost tries again automatically, at least every {MAX_UNREACHABLE_DELAY:g} s."
            )
            self.set_state("unreachable", error.message, f"{error.hint} {hint}".lstrip())

    def begin_attempt(self) -> None:
        """Set the state "connecting"; a server in the state "unreachable" keeps this state during the attempt."""
        if not self.is_down:
            self.set_state("connecting")

    def set_given_up(self, error: McpHostError, attempts: int) -> None:
        """Set the state "failed" after the last of *attempts* automatic attempts; mcphost no longer retries."""
        self._set_error(error)
        detail = f"{error.message} mcphost gave up after {attempts} attempts."
        self.set_state("failed", detail, self._failure_hint(error))

    def set_stopped(self, error: McpHostError) -> None:
        """Set the state "stopped" at the user's request.

        *error* is raised in code that is waiting for the server.
        """
        self._set_error(error)
        self.set_state("stopped", error.message, error.hint, by_user=True)

    def set_withdrawn(self, error: McpHostError) -> None:
        """Set the final state "stopped" because the server was removed or replaced.

        Later changes of the state have no effect. In particular, an error that occurs while the server's connection is
        closed is not shown, because the user can no longer act on it.
        """
        self.set_stopped(error)
        self._is_final = True

    def _set_error(self, error: McpHostError) -> None:
        if not self._is_final:
            self.error = error

    def set_reachable(self, error: McpHostError | None) -> None:
        """Set whether the server of an open session can be reached: the state "ready" if *error* is None.

        Otherwise, the state is "unreachable", with the message of *error*. Does nothing if the current state is neither
        "ready" nor "unreachable".
        """
        if error is None and self.state == "unreachable":
            self.set_state("ready")
        elif error is not None and self.state == "ready":
            self.set_state("unreachable", error.message, _RECONNECT_HINT)

    def update_sign_in(self, event: SignInProgress) -> None:
        """Show the progress of a sign-in and publish *event*; an event with an empty text ends the display."""
        before, self.sign_in_status = self.sign_in_status, event.text
        if (self.is_down or self.state in ("connecting", "silent")) and event.text != before:
            self.set_state("connecting", f"Signing in: {event.text}." if event.text else "")
        self._events.publish(event)

    def set_silent(self, seconds: float) -> None:
        """Show that a server that is being connected to has not responded for *seconds*.

        A remote server gets the state "silent". If a local server's command is an installer such as `npx`, its state
        stays "connecting", with the message that the program may still be downloading. Does nothing for other local
        servers, if the server is not connecting, or if its status already has a message.
        """
        if self.state != "connecting" or self.detail:
            return
        server = resolve_target(self._config)
        if is_installer(server.argv):
            self.set_state(
                "connecting",
                f"{server.command} may still be downloading the program.",
                "Wait or restart the server.",
            )
        elif not self._config.is_stdio:
            self.set_state("silent", f"No response for {seconds:g} s; still waiting.", "Wait or restart the server.")

    def set_account(self, account: "Account | None") -> None:
        """Store the account in use and publish the state if the account changed."""
        if account != self.account:
            self.account = account
            self._events.publish(self.event())

    @property
    def is_starting(self) -> bool:
        """Whether the server is starting and may become ready without action by the user."""
        return self.starting_since is not None and self.state in ("waiting", "connecting", "silent")

    def begin_start(self) -> None:
        """Record that the server is beginning to start now."""
        self.starting_since = anyio.current_time()

    async def wait_for_change(self) -> None:
        """Wait until the state changes. Safe to cancel.

        Raises ServerError, ConsentDenied or UsageError if the state does not change without action by the user, or if
        the server is unreachable.
        """
        name = self._config.name
        match self.state:
            case "failed" | "stopped" | "sign_in":
                raise self.error or StartupError(f"The server {name!r} is not running.")
            case "untrusted":
                raise ConsentDenied(
                    f"The server {name!r} is not approved.", f"Approve it with: mcphost servers trust {quote(name)}"
                )
            case "unreachable" if self.is_down and self.error is not None:
                raise self.error
            case "disabled" if profile := self._config.excluded_by:
                raise UsageError(
                    f"The server {name!r} is not in the profile {profile!r}.",
                    "Add it to its servers in config.toml, or use another profile.",
                )
            case "disabled":
                raise UsageError(
                    f"The server {name!r} is disabled.", f'Set "disabled" to false in {self._config.file}.'
                )
            case _:
                await self._changed.wait()

    def event(self) -> ServerState:
        """Return the current state as a `ServerState` event."""
        catalog, held, facts = self._inputs()
        event = ServerState(
            self._config.name,
            self.state,
            self.detail,
            self.hint,
            tools=len(catalog.tools),
            resources=len(catalog.resources),
            prompts=len(catalog.prompts),
            account=self.account_name,
            quarantined=held,
            retry_seconds=self._retry_seconds,
            by_user=self._is_by_user,
        )
        return replace(event, revision=facts.revision.value, era=facts.era) if facts is not None else event
