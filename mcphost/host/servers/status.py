"""How one server is: its state in words, who is signed in to it; told with every change, and waited for."""

import time
from collections.abc import Callable
from shlex import quote

import anyio

from mcphost.client.session import Account, ServerFacts
from mcphost.config.package_runners import is_installer
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConsentDenied, McpHostError, SignInRequired, StartupError, UsageError
from mcphost.host.event_queue import EventBus
from mcphost.host.events import ServerState, ServerStateName, SignInUpdated
from mcphost.host.views import Catalog
from mcphost.serialization import replace

StatusInputs = tuple[Catalog, int, ServerFacts | None]
"""What a server has now: its lists, how many tools are held back, and what was learnt while it is ready."""


class ServerStatus:
    """The state of one server. Only its connection changes it; every change is told to the feeds."""

    def __init__(self, server: ServerConfig, events: EventBus, inputs: Callable[[], StatusInputs]) -> None:
        self._config = server
        self._events = events
        self._inputs = inputs
        self._connecting_since: float | None = None
        self.state: ServerStateName = "disabled" if server.disabled else "waiting"
        self.detail = ""
        self.hint = ""
        self.sign_in_status = ""
        """Where a sign-in is, in words; "" while there is none."""
        self.error: McpHostError | None = None
        self.starting_since: float | None = None
        """The loop time at which the present start began; trying again after a failure is no new start."""
        self.account: Account | None = None
        self._changed = anyio.Event()

    @property
    def account_name(self) -> str:
        """Of the account that is signed in; "" for none."""
        return self.account.name if self.account else ""

    def set_state(self, state: ServerStateName, detail: str = "", hint: str = "") -> None:
        """From now on it is like this."""
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
        """For how many seconds it has been starting; 0 when it is not."""
        return 0.0 if self._connecting_since is None else time.monotonic() - self._connecting_since

    def set_failed(self, error: McpHostError) -> None:
        """It is over until somebody restarts it, or the connection tries again."""
        self.error = error
        state = "sign_in" if isinstance(error, SignInRequired) else "failed"
        self.set_state(state, error.message, error.hint or "Restart it when the cause is gone.")

    def update_sign_in(self, event: SignInUpdated) -> None:
        """Where signing in is: until that is done it waits for nobody else."""
        before, self.sign_in_status = self.sign_in_status, event.text
        if self.state in ("connecting", "silent") and event.text != before:
            self.set_state("connecting", f"Signing in: {event.text}." if event.text else "")
        self._events.publish(event)

    def set_silent(self, seconds: float) -> None:
        """Say that it did not answer for so long, unless it is known why: an installer may still be fetching."""
        if self.state != "connecting" or self.detail:
            return
        if is_installer(self._config.argv):
            self.set_state("connecting", f"{self._config.command} may still be fetching the program.", "Or restart it.")
        else:
            self.set_state("silent", f"It has not answered for {seconds:g} s; still waiting.", "Or restart it.")

    def set_account(self, account: Account | None) -> None:
        """Which sign-in is used; told, so that whoever shows it stays true."""
        if account != self.account:
            self.account = account
            self._events.publish(self.event())

    @property
    def is_starting(self) -> bool:
        """Whether it may become ready without its user doing anything."""
        return self.starting_since is not None and self.state in ("waiting", "connecting", "silent")

    def begin_start(self) -> None:
        """The start begins now."""
        self.starting_since = anyio.current_time()

    async def wait_for_change(self) -> None:
        """Wait until it is different. Raises ServerError, Declined, UsageError when it stays as it is without its user.

        May be cancelled.
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
        """The state as an event."""
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
            held=held,
        )
        return replace(event, revision=facts.revision.value, era=facts.era) if facts is not None else event
