"""State of one server and the account that is signed in; each change is published as an event."""

import time
from collections.abc import Callable
from shlex import quote

import anyio

from mcphost.client.session import Account, ServerFacts
from mcphost.config.references import resolve_target
from mcphost.config.restrictions import is_installer
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConsentDenied, McpHostError, SignInRequired, StartupError, UsageError
from mcphost.host.events import EventBus, ServerState, ServerStateName
from mcphost.host.views import Catalog
from mcphost.serialization import replace
from mcphost.sign_in import SignInProgress

StatusInputs = tuple[Catalog, int, ServerFacts | None]
"""The server's catalog, the number of quarantined tools, and its facts while it is ready."""


class ServerStatus:
    """State of one server; only its connection changes it."""

    def __init__(self, server: ServerConfig, events: EventBus, inputs: Callable[[], StatusInputs]) -> None:
        self._config = server
        self._events = events
        self._inputs = inputs
        self._connecting_since: float | None = None
        self.state: ServerStateName = "disabled" if server.disabled else "waiting"
        self.detail = ""
        self.hint = ""
        self.sign_in_status = ""
        """Progress of a sign-in; "" without one."""
        self.error: McpHostError | None = None
        self.starting_since: float | None = None
        """Loop time at which the present start began; a retry after a failure is not a new start."""
        self.account: Account | None = None
        self._changed = anyio.Event()

    @property
    def account_name(self) -> str:
        """Name of the account that is signed in, or ""."""
        return self.account.name if self.account else ""

    def set_state(self, state: ServerStateName, detail: str = "", hint: str = "") -> None:
        """Set and publish the state."""
        if state == "ready":
            self.starting_since = None
        elif state == "waiting" or (state == "connecting" and self.state == "waiting") or self.starting_since is None:
            self.starting_since = anyio.current_time()
        if state not in ("connecting", "silent"):
            self._connecting_since = None
        elif self._connecting_since is None:
            self._connecting_since = time.monotonic()
        self.state, self.detail, self.hint = state, detail, hint
        self._events.publish(self.event())
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def starting_seconds(self) -> float:
        """Seconds since the start of the server began, 0 if it is not starting."""
        return 0.0 if self._connecting_since is None else time.monotonic() - self._connecting_since

    def set_failed(self, error: McpHostError) -> None:
        """Set the state to failed, until the connection is restarted or tried again."""
        self.error = error
        state = "sign_in" if isinstance(error, SignInRequired) else "failed"
        self.set_state(state, error.message, error.hint or "Fix the cause and restart the server.")

    def update_sign_in(self, event: SignInProgress) -> None:
        """Show a step of the sign-in; until it is done, the server waits only for the user."""
        before, self.sign_in_status = self.sign_in_status, event.text
        if self.state in ("connecting", "silent") and event.text != before:
            self.set_state("connecting", f"Signing in: {event.text}." if event.text else "")
        self._events.publish(event)

    def set_silent(self, seconds: float) -> None:
        """Note that the server has not answered for *seconds*, unless an installer may still be downloading it."""
        if self.state != "connecting" or self.detail:
            return
        server = resolve_target(self._config)
        if is_installer(server.argv):
            self.set_state(
                "connecting",
                f"{server.command} may still be downloading the program.",
                "Wait or restart the server.",
            )
        else:
            self.set_state("silent", f"No response for {seconds:g} s; still waiting.", "Wait or restart the server.")

    def set_account(self, account: Account | None) -> None:
        """Set the account in use and publish the change."""
        if account != self.account:
            self.account = account
            self._events.publish(self.event())

    @property
    def is_starting(self) -> bool:
        """Whether the server may become ready without an action of the user."""
        return self.starting_since is not None and self.state in ("waiting", "connecting", "silent")

    def begin_start(self) -> None:
        """Note that the start begins now."""
        self.starting_since = anyio.current_time()

    async def wait_for_change(self) -> None:
        """Wait for a change of the state. May be cancelled.

        Raises ServerError, ConsentDenied or UsageError if only the user can change it.
        """
        name = self._config.name
        match self.state:
            case "failed" | "stopped" | "sign_in":
                raise self.error or StartupError(f"The server {name!r} is not running.")
            case "untrusted":
                raise ConsentDenied(
                    f"The server {name!r} is not approved.", f"Approve it with: mcphost servers trust {quote(name)}"
                )
            case "disabled":
                raise UsageError(
                    f"The server {name!r} is disabled.", f'Set "disabled" to false in {self._config.file}.'
                )
            case _:
                await self._changed.wait()

    def event(self) -> ServerState:
        """Return the state as an event of the host."""
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
        )
        return replace(event, revision=facts.revision.value, era=facts.era) if facts is not None else event
