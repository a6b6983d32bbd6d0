"""Connection to a configured server: transport, sign-in, and negotiation of the protocol revision."""

import functools
import hashlib
import math
import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from mcphost.client.account_manager import RegistryAccountManager, observed_provider
from mcphost.client.capabilities import read_trace_context
from mcphost.client.negotiation import Negotiation, NegotiationPlan, choose_plan
from mcphost.client.pre_init import PreInitHandler
from mcphost.client.requests import RequestSender
from mcphost.client.result_cache import no_credential
from mcphost.client.session import (
    EraStore,
    PrepareFn,
    RequestHandler,
    ServerFacts,
    Session,
    SessionObserver,
    prepare_nothing,
)
from mcphost.client.timeouts import Timeouts, time_limit
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConnectionLost, RequestNotSent, RequestTimeout, ServerError, StartupError
from mcphost.protocol.revisions import ServerEras
from mcphost.serialization import encode
from mcphost.transport.channel import CancellingTaskGroup, Channel, Connector, HttpStatusError, Unauthorized
from mcphost.transport.line_reader import MESSAGE_LIMIT

if TYPE_CHECKING:
    from mcphost.auth.oauth_provider import OAuthProvider
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.client.handshake_session import HandshakeSession
    from mcphost.client.stateless_session import StatelessSession
    from mcphost.transport.watchdog import Watchdog

_NO_MCP_HINT = "Check the address: it may not be that of an MCP server."
_SSE_FALLBACK_STATUSES = frozenset({400, 404, 405})
_MAX_QUOTED_LINE = 200
"""Maximum length, in characters, of a line of a server's output that an error message quotes."""


class NullEraStore:
    """An EraStore that stores nothing, so that each connection determines the server's protocol era again.

    The protocol eras are handshake (revisions before 2026-07-28) and stateless (later revisions).
    """

    def get(self, server: str, digest: str) -> ServerEras | None:
        """Return None, because nothing is stored."""
        return None

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Do nothing."""


def endpoint_digest(server: ServerConfig) -> str:
    """Return a digest of the command, arguments, working directory and URL of a server.

    The digest is stored, and anyone who can read it can test guesses of these values. The values must therefore contain
    no secrets: pass the result of `resolve_target`, which replaces references to secrets such as `${keyring:NAME}` with
    empty text.
    """
    return hashlib.sha256(encode((server.argv, server.cwd, server.url))).hexdigest()


class ClientSessionOpener:
    """A SessionOpener that connects to real servers.

    The `${…}` references in a server's configuration must already be expanded. A server that sends a message of more
    than *message_limit* bytes is disconnected. *watchdog*, which the caller must close, ends local servers if this
    process is killed. *accounts* is the OAuth registry; without it, users cannot sign in.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        eras: EraStore | None = None,
        message_limit: int = MESSAGE_LIMIT,
        watchdog: "Watchdog | None" = None,
        accounts: "OAuthRegistry | None" = None,
        digest: str = "",
    ) -> None:
        """Create an opener.

        *eras* stores which protocol eras each server supports; by default, nothing is stored. *digest* identifies the
        opened server in *eras*; if it is "", the server's `endpoint_digest` is used.
        """
        self.account_manager = RegistryAccountManager(accounts)
        self._digest = digest
        self._watchdog = watchdog
        self._limits = limits or Limits()
        self._eras = eras or NullEraStore()
        self._message_limit = message_limit
        self._trace = read_trace_context(os.environ)

    @asynccontextmanager
    async def open(
        self, server: ServerConfig, responder: RequestHandler, observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AsyncGenerator[Session]:  # fmt: skip
        """Connect to a server and yield its session; see `SessionOpener.open`."""
        digest = self._digest or endpoint_digest(server)
        if (registry := self.account_manager.registry) is not None and not server.is_stdio:
            await registry.apply_account_choice(server)
        oauth = observed_provider(registry, server, observer)
        connector = self._create_connector(server, observer, oauth)
        first_error: ServerError | None = None
        deadline = anyio.current_time() + self._limits.connect_timeout
        is_restarted = is_era_fixed = False
        known_eras: ServerEras | None = None
        plan: NegotiationPlan | None = None
        attempts = 0
        while True:
            async with _open_channel(connector, first_error, oauth) as (channel, pause), CancellingTaskGroup() as tasks:
                deadline += pause
                await prepare()
                if plan is None:
                    known_eras = self._eras.get(server.name, digest)
                    plan, is_era_fixed = self._choose_plan(server, known_eras)
                pre_init = PreInitHandler(channel, observer, tasks)
                sender = RequestSender(channel, server.name, self._timeouts(server), pre_init.handle, observer.warn)
                negotiation = Negotiation(channel, sender, responder)
                try:
                    async with CancellingTaskGroup() as read_group:
                        read_group.start_soon(pre_init.serve)
                        run = negotiation.run(plan, is_era_fixed=is_era_fixed, required=server.revision)
                        facts = await self._negotiate(run, deadline, server, channel)
                except ConnectionLost as error:
                    if not (is_restarted or is_era_fixed) and server.is_stdio and channel.may_have_been_read:
                        is_restarted, plan = True, negotiation.next_plan(plan)
                        _warn_of_restart(observer, server.name, plan)
                        continue
                    raise StartupError(error.message, _hint_of(server, error), server=server.name) from error
                except Unauthorized as error:
                    if oauth is None:
                        raise
                    attempts += 1
                    await oauth.sign_in(error.challenge, attempts)
                    deadline = anyio.current_time() + self._limits.connect_timeout
                    continue
                except (StartupError, HttpStatusError) as error:
                    if first_error is not None or not _may_be_sse(server, error):
                        raise
                    first_error, plan, is_era_fixed = error, "handshake", True
                    connector = self._create_http_connector(server, observer, oauth, sse=True, deadline=deadline)
                    continue
                if (eras := negotiation.eras_to_store(facts, known_eras)) is not None:
                    self._eras.put(server.name, digest, eras)
                sender.sign_in = oauth.sign_in_for_session if oauth is not None else None
                session = self._create_session(server, facts, channel, sender, responder, observer, tasks, oauth)
                sender.on_unsolicited = session.handle_unsolicited
                for message, context in pre_init.pending:
                    session.handle_unsolicited(message, context)
                tasks.start_soon(session.serve)
                yield session
                return

    def _choose_plan(self, server: ServerConfig, known: ServerEras | None) -> tuple[NegotiationPlan, bool]:
        """Return the negotiation plan for a server, and whether only that plan's protocol era is allowed.

        The protocol eras are handshake (revisions before 2026-07-28) and stateless (later revisions). *known* contains
        the eras that the server supported at its last connection, or is None.
        """
        if server.transport == "sse":
            return "handshake", True  # HTTP+SSE exists only in revisions before 2026-07-28
        only = server.revision
        return choose_plan(only.era if only else server.era, known, is_pipe=server.is_stdio)

    def _create_session(
        self,
        server: ServerConfig,
        facts: ServerFacts,
        channel: Channel,
        sender: RequestSender,
        handler: RequestHandler,
        observer: SessionObserver,
        tasks: TaskGroup,
        oauth: "OAuthProvider | None",
    ) -> "HandshakeSession | StatelessSession":
        sender.era = facts.era
        if facts.era == "handshake":
            from mcphost.client.handshake_session import (
                HandshakeSession,
            )  # imported with the first server that needs it

            return HandshakeSession(
                channel,
                sender,
                facts,
                handler,
                observer,
                tasks,
                ping_interval=self._limits.ping_interval,
                renew=functools.partial(self._renew, Negotiation(channel, sender, handler), server, channel),
            )
        from mcphost.client.stateless_session import StatelessSession

        return StatelessSession(
            channel,
            sender,
            facts,
            handler,
            observer,
            has_parameter_headers=not server.is_stdio,
            trace=self._trace,
            credential=no_credential if oauth is None else lambda: oauth.credential_digest,
        )

    async def _renew(self, negotiation: Negotiation, server: ServerConfig, channel: Channel) -> ServerFacts:
        deadline = anyio.current_time() + self._limits.connect_timeout
        negotiating = negotiation.run("handshake", is_era_fixed=True, required=server.revision)
        return await self._negotiate(negotiating, deadline, server, channel)

    async def _negotiate(
        self, negotiation: Awaitable[ServerFacts], deadline: float, server: ServerConfig, channel: Channel
    ) -> ServerFacts:
        try:
            with time_limit(max(0.0, deadline - anyio.current_time())):
                return await negotiation
        except ServerError as error:
            error.server = error.server or server.name
            raise
        raise _no_answer_error(server.name, self._limits.connect_timeout, channel)

    def _timeouts(self, server: ServerConfig) -> Timeouts:
        base = server.timeout or self._limits.request_timeout
        return Timeouts(
            base,
            max(base, self._limits.request_timeout_max),
            max(base, self._limits.task_timeout),
            includes_user_time=self._limits.includes_user_time,
        )

    def _create_connector(
        self, server: ServerConfig, observer: SessionObserver, oauth: "OAuthProvider | None"
    ) -> Connector:
        if server.is_stdio:
            from mcphost.transport.stdio import StdioConnector

            connector = StdioConnector(
                server.name,
                server.argv,
                server.env,
                server.cwd,
                on_stderr=observer.stderr,
                warn=observer.warn,
                message_limit=self._message_limit,
                watchdog=self._watchdog,
            )
            connector.message_log = observer.message_log
            return connector
        return self._create_http_connector(server, observer, oauth, sse=server.transport == "sse")

    def _create_http_connector(
        self,
        server: ServerConfig,
        observer: SessionObserver,
        oauth: "OAuthProvider | None",
        *,
        sse: bool,
        deadline: float = math.inf,
    ) -> Connector:
        if sse:
            from mcphost.transport.legacy_sse import SseConnector as MadeBy
        else:
            from mcphost.transport.streamable_http import HttpConnector as MadeBy

        connector = MadeBy(
            server.name,
            server.url,
            server.headers,
            warn=observer.warn,
            authorizer=oauth,
            message_limit=self._message_limit,
            ca_file=server.ca_file,
            ca_digest=server.ca_digest,
        )
        connector.on_reachability_changed = observer.on_reachability_changed
        connector.message_log = observer.message_log
        # The deadline is that of an attempt that began with another transport.
        seconds_left = max(0.0, deadline - anyio.current_time())
        connector.connect_timeout = min(self._limits.connect_timeout, seconds_left)
        return connector


def _no_answer_error(server: str, connect_timeout: float, channel: Channel) -> RequestTimeout:
    """Return the error to raise if a server did not respond within *connect_timeout* seconds.

    If the server has printed output that is not an MCP message, the error message quotes its first line or says that it
    is JSON over several lines.
    """
    from mcphost.transport.multiplexer import Multiplexer

    lines = channel.malformed_lines if isinstance(channel, Multiplexer) else []
    if not lines:
        text = f"The server {server!r} did not answer within {connect_timeout:.0f} s."
        return RequestTimeout(text, "Check its log.", server=server)
    if lines[0] in ("{", "["):
        return RequestTimeout(
            f"The server {server!r} did not answer within {connect_timeout:.0f} s; it prints JSON over several lines.",
            "It must print each message on a line of its own, without line breaks in it.",
            server=server,
        )
    printed = lines[0][:_MAX_QUOTED_LINE]
    return RequestTimeout(
        f"The server {server!r} did not answer within {connect_timeout:.0f} s; it printed a line on standard output "
        f"that is not a message: {printed!r}.",
        "Only MCP messages may be printed there: logs and banners belong on standard error.",
        server=server,
    )


def _hint_of(server: ServerConfig, error: ConnectionLost) -> str:
    """Return the hint for the user about a connection that was lost before the session was open.

    If an HTTP server may have received a request, the hint says that the server may not be an MCP server.
    """
    return error.hint if server.is_stdio or isinstance(error, RequestNotSent) else _NO_MCP_HINT


def _warn_of_restart(observer: SessionObserver, name: str, plan: NegotiationPlan) -> None:
    if plan == "handshake":
        observer.warn(
            f"The server {name!r} ended during its first request. "
            "It is started again, for the handshake of older revisions."
        )
    else:
        observer.warn(f"The server {name!r} ended during its first request. It is started again.")


def _may_be_sse(server: ServerConfig, error: ServerError) -> bool:
    """Return whether to try HTTP+SSE after a server rejected `initialize` with *error*.

    See specification 2025-11-25, basic/transports, "Backwards Compatibility".
    """
    refusal = error if isinstance(error, HttpStatusError) else error.__cause__
    return (
        not server.is_stdio
        and server.transport == "auto"
        and server.era != "stateless"
        and isinstance(refusal, HttpStatusError)
        and refusal.status in _SSE_FALLBACK_STATUSES
    )


@asynccontextmanager
async def _open_channel(
    connector: Connector, first_error: ServerError | None, oauth: "OAuthProvider | None"
) -> AsyncGenerator[tuple[Channel, float]]:
    """Open a channel to a server with *connector*.

    Yields the channel, and the number of seconds that the user took to sign in. *first_error* is the error of
    an earlier attempt with another transport, or None if this is the first attempt. If the server cannot be
    started or reached, the StartupError that is raised also describes *first_error*.
    """
    async with AsyncExitStack() as stack:
        try:
            opened = await _connect(stack, connector, oauth)
        except StartupError as error:
            if first_error is None:
                raise
            first, (_asked, _with, answer) = first_error.message.rstrip("."), error.message.rpartition(" with HTTP ")
            same = bool(answer) and first.endswith(f" with HTTP {answer.rstrip('.')}")
            message = f"{first}; HTTP+SSE: {'the same' if same else error.message.rstrip('.')}."
            raise StartupError(message, first_error.hint, server=error.server) from error
        yield opened


async def _connect(stack: AsyncExitStack, connector: Connector, oauth: "OAuthProvider | None") -> tuple[Channel, float]:
    """Open a channel, and let the user sign in if an HTTP+SSE server requires it.

    After the sign-in, the channel is opened again. Returns the channel, and the number of seconds that the user
    took to sign in.
    """
    attempt = 0
    sign_in_seconds = 0.0
    while True:
        try:
            return await stack.enter_async_context(connector.connect()), sign_in_seconds
        except Unauthorized as error:
            if oauth is None:
                raise
            attempt += 1
            started = anyio.current_time()
            await oauth.sign_in(error.challenge, attempt)
            sign_in_seconds += anyio.current_time() - started
