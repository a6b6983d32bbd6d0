"""ServerConfig to Dialer to negotiated Session: where transports and, later, sign-in meet."""

import functools
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from mcphost.client.negotiation import Negotiation, Plan, plan_for
from mcphost.client.pre_init import Early
from mcphost.client.requests import Caller
from mcphost.client.result_cache import no_credential
from mcphost.client.session import (
    Account,
    EraMemory,
    Kept,
    Observer,
    Prepare,
    Responder,
    ServerFacts,
    Session,
    nothing_to_prepare,
)
from mcphost.client.timeouts import Patience, limited
from mcphost.client.trace_context import trace_of
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import CannotStart, ConfigError, ConnectionLost, DeadlinePassed, ServerError, SignInNeeded
from mcphost.protocol.revisions import ServerEras
from mcphost.serialization import encode
from mcphost.transport.channel import Channel, Dialer, HttpStatus, Unauthorized
from mcphost.transport.line_splitter import MESSAGE_LIMIT
from mcphost.transport.task_group import Tasks

if TYPE_CHECKING:
    from mcphost.auth.oauth_provider import OAuth
    from mcphost.auth.oauth_registry import Identities
    from mcphost.client.handshake_session import HandshakeSession
    from mcphost.client.stateless_session import StatelessSession
    from mcphost.transport.watchdog import Guardian

_SSE_STATUS = frozenset({400, 404, 405})


class NoMemory:
    """An EraMemory that forgets."""

    def get(self, server: str, digest: str) -> ServerEras | None:
        """Nothing."""
        return None

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Nothing."""


def server_digest(server: ServerConfig) -> str:
    """What identifies a server for the era memory: command, arguments, folder and address; no values of secrets."""
    return hashlib.sha256(encode((server.argv, server.cwd, server.url))).hexdigest()


class SessionOpener:
    """The Opener of the product. `expand` resolves `${…}` references and raises ConfigError.

    `message_limit` in bytes: a server that sends one message larger than that is stopped. `guardian` ends local
    servers when this process is killed; whoever made it closes it.
    """

    def __init__(
        self,
        *,
        expand: Callable[[str], str],
        limits: Limits | None = None,
        eras: EraMemory | None = None,
        message_limit: int = MESSAGE_LIMIT,
        guardian: "Guardian | None" = None,
        identities: "Identities | None" = None,
    ) -> None:
        self._expand = expand
        self._identities = identities
        self._guardian = guardian
        self._limits = limits or Limits()
        self._eras = eras or NoMemory()
        self._message_limit = message_limit
        self._trace = trace_of(os.environ)

    @asynccontextmanager
    async def open(
        self, server: ServerConfig, responder: Responder, observer: Observer, prepare: Prepare = nothing_to_prepare
    ) -> AsyncGenerator[Session]:
        """See Opener."""
        digest = server_digest(server)
        if self._identities is not None and not server.is_stdio:
            await self._identities.follow(server)
        oauth = self._identity(server, observer)
        dialer = self._dialer(server, observer)
        tried: ServerError | None = None
        until = anyio.current_time() + self._limits.connect_timeout
        only = server.revision
        again = False
        known: ServerEras | None = None
        plan: Plan | None = None
        pinned = False
        attempts = 0
        while True:
            async with _dialled(dialer, tried, oauth) as channel, Tasks() as tasks:
                await prepare()
                if plan is None:
                    known = self._eras.get(server.name, digest)
                    plan, pinned = self._plan(server, known)
                early = Early(channel, observer, tasks)
                caller = Caller(channel, server.name, self._patience(server), early.take, observer.warn)
                negotiation = Negotiation(channel, caller, responder)
                try:
                    async with Tasks() as reading:
                        reading.start_soon(early.serve)
                        facts = await self._negotiate(negotiation.run(plan, pinned=pinned, only=only), until, server)
                except ConnectionLost as error:
                    if not (again or pinned) and server.is_stdio:
                        again, plan = True, negotiation.next_plan(plan)
                        continue
                    raise CannotStart(error.message, error.hint, server=server.name) from error
                except Unauthorized as error:
                    if oauth is None:
                        raise
                    attempts += 1
                    await oauth.sign_in(error.refusal, attempts)
                    until = anyio.current_time() + self._limits.connect_timeout
                    continue
                except (CannotStart, HttpStatus) as error:
                    if tried is not None or not _may_be_sse(server, error):
                        raise
                    tried, plan, pinned = error, "handshake", True
                    dialer = self._http_dialer(server, observer, sse=True)
                    continue
                if (eras := negotiation.eras(facts, known)) is not None:
                    self._eras.put(server.name, digest, eras)
                caller.sign_in = oauth.sign_in if oauth is not None else None
                session = self._session(server, facts, channel, caller, responder, observer, tasks, oauth)
                caller.stray = session.stray
                for message, context in early.held:
                    session.stray(message, context)
                tasks.start_soon(session.serve)
                yield session
                return

    def _plan(self, server: ServerConfig, known: ServerEras | None) -> tuple[Plan, bool]:
        """Return which openings to send first, and whether the other era is forbidden."""
        if server.transport == "sse":
            return "handshake", True  # that transport carries nothing else
        only = server.revision
        return plan_for(only.era if only else server.era, known, is_pipe=server.is_stdio)

    async def sign_in(self, server: ServerConfig, observer: Observer, account: str | None = None) -> None:
        """See Opener."""
        from mcphost.transport.proxies import proxy_for

        oauth = self._identity(server, observer)
        if oauth is None:
            raise SignInNeeded(
                f"The server {server.name!r} has an Authorization header of its own, or nobody can sign in here.",
                "Remove the header in mcp.json to sign in instead.",
                server=server.name,
            )
        if account is None or self._identities is None:
            await oauth.login()
        else:
            await self._identities.sign_in(server, account, warn=observer.warn, proxy_for=proxy_for)

    async def sign_out(self, server: ServerConfig, observer: Observer) -> bool:
        """See Opener."""
        oauth = self._identity(server, observer)
        if oauth is None or self._identities is None:
            return False
        return await self._identities.sign_out(server, oauth)

    async def accounts(self, servers: Sequence[ServerConfig]) -> tuple[Kept, ...]:
        """See Opener."""
        return () if self._identities is None else await self._identities.kept(servers)

    async def use(self, server: ServerConfig, account: str) -> None:
        """See Opener."""
        if self._identities is not None:
            await self._identities.use(server, account)

    async def sign_out_kept(self, account: Account, server: ServerConfig | None) -> bool:
        """See Opener."""
        if self._identities is None:
            return False
        from mcphost.transport.proxies import proxy_for

        return (await self._identities.sign_out_kept(account, server, proxy_for=proxy_for))[1]

    def _session(
        self,
        server: ServerConfig,
        facts: ServerFacts,
        channel: Channel,
        caller: Caller,
        responder: Responder,
        observer: Observer,
        tasks: TaskGroup,
        oauth: "OAuth | None",
    ) -> "HandshakeSession | StatelessSession":
        if facts.era == "handshake":
            from mcphost.client.handshake_session import HandshakeSession  # each with the first server of its era

            return HandshakeSession(
                channel,
                caller,
                facts,
                responder,
                observer,
                tasks,
                ping_interval=self._limits.ping_interval,
                renew=functools.partial(self._renew, Negotiation(channel, caller, responder), server),
            )
        from mcphost.client.stateless_session import StatelessSession

        return StatelessSession(
            channel,
            caller,
            facts,
            responder,
            observer,
            mirrors=not server.is_stdio,
            trace=self._trace,
            credential=no_credential if oauth is None else lambda: oauth.credential,
        )

    async def _renew(self, negotiation: Negotiation, server: ServerConfig) -> ServerFacts:
        until = anyio.current_time() + self._limits.connect_timeout
        renewing = negotiation.run("handshake", pinned=True, only=server.revision)
        return await self._negotiate(renewing, until, server)

    async def _negotiate(self, negotiating: Awaitable[ServerFacts], until: float, server: ServerConfig) -> ServerFacts:
        try:
            with limited(max(0.0, until - anyio.current_time())):
                return await negotiating
        except ServerError as error:
            error.server = error.server or server.name
            raise
        raise DeadlinePassed(
            f"The server {server.name!r} did not answer within {self._limits.connect_timeout:.0f} s.",
            "Look at its log, or restart it.",
            server=server.name,
        )

    def _patience(self, server: ServerConfig) -> Patience:
        base = server.timeout or self._limits.request_timeout
        return Patience(
            base,
            max(base, self._limits.request_timeout_max),
            max(base, self._limits.task_timeout),
            hard=self._limits.hard,
        )

    def _identity(self, server: ServerConfig, observer: Observer) -> "OAuth | None":
        """Who signs in to it; nobody for a program, or where the user wrote the Authorization header."""
        if self._identities is None or server.is_stdio:
            return None
        from mcphost.transport.proxies import proxy_for  # 3 MB, which a program on a pipe does not need

        return self._identities.of(server, warn=observer.warn, proxy_for=proxy_for, signed=observer.signed_in)

    def _dialer(self, server: ServerConfig, observer: Observer) -> Dialer:
        if server.is_stdio:
            from mcphost.transport.stdio import StdioDialer

            environment = self._expanded(server.env, server.name)
            return StdioDialer(
                server.name,
                server.argv,
                environment,
                server.cwd,
                on_stderr=observer.stderr,
                warn=observer.warn,
                message_limit=self._message_limit,
                guardian=self._guardian,
            )
        return self._http_dialer(server, observer, sse=server.transport == "sse")

    def _http_dialer(self, server: ServerConfig, observer: Observer, *, sse: bool) -> Dialer:
        if sse:
            from mcphost.transport.legacy_sse import SseDialer as MadeBy
        else:
            from mcphost.transport.http import HttpDialer as MadeBy

        headers = self._expanded(server.headers, server.name)
        return MadeBy(
            server.name,
            server.url,
            headers,
            warn=observer.warn,
            authorizer=self._identity(server, observer),
            message_limit=self._message_limit,
            ca_file=server.ca_file,
            ca_digest=server.ca_digest,
        )

    def _expanded(self, values: dict[str, str], name: str) -> dict[str, str]:
        try:
            return {key: self._expand(value) for key, value in values.items()}
        except ConfigError as error:
            raise ConfigError(f"The server {name!r} was not started. {error.message}", error.hint) from error


def _may_be_sse(server: ServerConfig, error: ServerError) -> bool:
    """Whether a refused `initialize` leads on to HTTP+SSE (specification 2025-11-25, basic/transports)."""
    refusal = error if isinstance(error, HttpStatus) else error.__cause__
    return (
        not server.is_stdio
        and server.transport == "auto"
        and server.era != "stateless"
        and isinstance(refusal, HttpStatus)
        and refusal.status in _SSE_STATUS
    )


@asynccontextmanager
async def _dialled(dialer: Dialer, tried: ServerError | None, oauth: "OAuth | None") -> AsyncGenerator[Channel]:
    """The channel; when that fails, too, one error says all that was tried."""
    async with AsyncExitStack() as stack:
        try:
            channel = await _dial(stack, dialer, oauth)
        except CannotStart as error:
            if tried is None:
                raise
            message = f"{tried.message}; HTTP+SSE: {error.message}"
            raise CannotStart(message, tried.hint, server=error.server) from error
        yield channel


async def _dial(stack: AsyncExitStack, dialer: Dialer, oauth: "OAuth | None") -> Channel:
    """The channel; HTTP+SSE may want a sign-in before there is one."""
    attempt = 0
    while True:
        try:
            return await stack.enter_async_context(dialer.dial())
        except Unauthorized as error:
            if oauth is None:
                raise
            attempt += 1
            await oauth.sign_in(error.refusal, attempt)
