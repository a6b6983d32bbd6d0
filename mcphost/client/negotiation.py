"""Negotiation of the protocol revision with a server.

There are two protocol eras. In the handshake era (revisions before 2026-07-28), a connection begins with `initialize`;
in the stateless era (later revisions), it begins with `server/discover`, which is called the probe here. On a pipe,
both requests can be sent concurrently; over HTTP, they are sent one after the other.
"""

import asyncio
from typing import Literal

import anyio

from mcphost.client.capabilities import CLIENT_IMPLEMENTATION, capabilities_for, client_info
from mcphost.client.requests import RequestSender
from mcphost.client.session import RequestHandler, ServerFacts
from mcphost.errors import (
    ConnectionLost,
    MalformedMessage,
    RequestRefused,
    RequestTimeout,
    ServerError,
    StartupError,
    UnsupportedRevision,
)
from mcphost.protocol.jsonrpc import INVALID_PARAMS, STATELESS_ERRORS, JsonRpcNotification
from mcphost.protocol.lifecycle import (
    Discover,
    DiscoverMeta,
    DiscoverResult,
    Implementation,
    Initialize,
    InitializedNotification,
    ServerCapabilities,
    build_request_meta,
    parse_implementation,
)
from mcphost.protocol.revisions import (
    HANDSHAKE_REVISIONS,
    LATEST_HANDSHAKE,
    LATEST_STATELESS,
    STATELESS_REVISIONS,
    Era,
    Revision,
    ServerEras,
    parse_revision,
)
from mcphost.serialization import WireStruct, convert, decode, encode
from mcphost.transport.channel import Channel, HttpStatusError

# Delay of `initialize` in seconds after a server on a pipe has read the probe. It avoids waiting for the timeout of an
# older server that ignores unknown methods; and a server that supports both eras, but reads both requests together,
# uses the era of the later one.
HEDGE_DELAY = 0.2
# Maximum of the same delay for a server that was slow to start, which is half of its start time.
MAX_HEDGE_DELAY = 1.0
# Seconds between checks of whether the server has read the probe from the pipe.
POLL_INTERVAL = 0.02
# Seconds, after one opening request was answered, in which a response to the other can still change the outcome.
LATE_RESPONSE_TIMEOUT = 3.0
# Time limit in seconds for an HTTP server to answer the probe.
PROBE_TIMEOUT = 3.0
# Seconds after which a server that is known to answer `initialize` is also probed.
KNOWN_HANDSHAKE_DELAY = 5.0
# Seconds after which a server that is known to answer the probe is also sent `initialize`.
KNOWN_STATELESS_DELAY = 10.0
_NO_TIMEOUT = 3_600.0
# HTTP statuses of a server or gateway that is temporarily unable to handle a request.
_NOT_FOUND = 404
_PATH_HINT = "Check the address. Its path may be wrong; it is often /mcp."
_BUSY_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
# Maximum length of a server's instructions in characters; the model receives fewer.
INSTRUCTIONS_LIMIT = 32_000

NegotiationPlan = Literal["handshake", "stateless", "hedged", "handshake first", "stateless first", "anew", "in turn"]
"""The opening requests to send, and their order.

"handshake" begins with `initialize`, "stateless" and "in turn" begin with the probe; unless the era is fixed, the other
request follows after a failure. The other plans, for pipes, send both requests (see SECOND_OPENING_DELAYS).
"""


class Negotiation:
    """Negotiation of the protocol revision on one channel, without a time limit; the caller can cancel it."""

    def __init__(self, channel: Channel, sender: RequestSender, handler: RequestHandler) -> None:
        self._channel = channel
        self._sender = sender
        self._handler = handler
        self._refusals: list[str] = []
        self._retried_revisions: set[Revision] = set()
        self._required_revision: Revision | None = None
        self._has_probe_timed_out = False
        self._is_probe_inconclusive = False  # the probe failed without revealing the server's era
        self._has_discovered = False  # `server/discover` returned a usable result

    async def run(self, plan: NegotiationPlan, *, is_era_fixed: bool, required: Revision | None = None) -> ServerFacts:
        """Negotiate a revision according to *plan*, and return the facts that the server declared.

        If *is_era_fixed* is true, only revisions of the plan's era are tried; if *required* is given, only that
        revision is tried.

        Raises StartupError if both `initialize` and `server/discover` fail over HTTP. Other failures raise
        UnsupportedRevision, RequestRefused, MalformedMessage, ConnectionLost or SignInRequired.
        """
        self._required_revision = required
        if plan in SECOND_OPENING_DELAYS:
            facts = await HedgedOpening(self, self._channel, self._sender.server).run(plan)
        elif plan == "handshake":
            facts = await self._handshake_first(is_era_fixed)
        else:
            # Over HTTP, one request at a time. If the era is fixed, only the connect timeout limits the probe.
            discovered = await self.discover(timeout=_NO_TIMEOUT if is_era_fixed else PROBE_TIMEOUT)
            if discovered is None and is_era_fixed:
                raise self._unsupported_revision(())
            facts = discovered or await self._initialize_after_probe()
        self._channel.set_revision(facts.revision)
        if facts.era == "handshake":
            try:
                await self._channel.send(JsonRpcNotification(InitializedNotification.METHOD))
            except HttpStatusError as error:
                # The server answered `initialize`, so the transport is the right one.
                raise ConnectionLost(error.message, error.hint, server=self._sender.server) from error
        return facts

    def next_plan(self, plan: NegotiationPlan) -> NegotiationPlan:
        """Return the plan for reconnecting to a local server after the connection was lost during *plan*."""
        if self._has_discovered:
            return "stateless first"
        # The probe, or the handshake of the last connection, may have crashed the server.
        return "anew" if plan == "handshake first" else "handshake"

    def eras_to_store(self, facts: ServerFacts, known: ServerEras | None) -> ServerEras | None:
        """Return the protocol eras that the server supports, to be stored for the next connection.

        *facts* is the result of the negotiation, and *known* contains the eras that were stored before, or is None.
        If the server was too slow or too busy to answer the probe, *known* is returned, so that the next connection
        sends the probe again.
        """
        if facts.era == "stateless":
            return "dual" if known == "dual" else "stateless"
        if self._is_probe_inconclusive and not self._has_discovered:
            return known
        return "dual" if self._has_discovered else "handshake"

    async def discover(
        self, revision: Revision = LATEST_STATELESS, *, timeout: float = _NO_TIMEOUT
    ) -> ServerFacts | None:
        """Send `server/discover` with *revision*; return None if `initialize` should be tried instead.

        The result is None if the server rejects the request, sends an invalid response, does not respond within
        *timeout* seconds, or has only handshake revisions in common with the client. Raises UnsupportedRevision if
        client and server have no revision in common. Raises RequestRefused if the error code is one that only stateless
        servers send, but the error does not list the server's revisions.
        """
        self._channel.set_revision(revision)
        capabilities = capabilities_for(revision, self._handler.capabilities)
        members = encode(build_request_meta(revision, CLIENT_IMPLEMENTATION, capabilities))[1:-1]
        try:
            raw = await self._sender.send_raw(Discover(), meta=members, deadline=timeout)
            result = decode(raw, DiscoverResult, "result of server/discover")
            meta = decode(raw, DiscoverMeta, "result of server/discover")
        except RequestRefused as error:
            if error.code not in STATELESS_ERRORS:
                self._is_probe_inconclusive = isinstance(error, HttpStatusError) and error.status in _BUSY_STATUSES
                self._refusals.append(f"server/discover: {error.server_message}")
                return None
            supported = _supported_versions(error)
            if not supported:
                raise
            if revision.value in supported and revision not in self._retried_revisions:
                # The server refused a revision that it lists as supported; try again once.
                self._retried_revisions.add(revision)
                return await self.discover(revision, timeout=timeout)
            return await self._retry_with_common_revision(supported, revision)
        except (MalformedMessage, RequestTimeout) as error:
            self._has_probe_timed_out = self._is_probe_inconclusive = isinstance(error, RequestTimeout)
            self._refusals.append(f"server/discover: {error.message}")
            return None
        if not result.supported_versions:
            return None  # the server answers unknown methods with an unrelated result
        if revision.value not in result.supported_versions:
            return await self._retry_with_common_revision(result.supported_versions, revision)
        self._has_discovered = True
        return self._server_facts(revision, meta.info, result.capabilities, result.instructions)

    async def initialize(self, offer: Revision | None = None) -> ServerFacts:
        """Send `initialize` with the revision *offer*, and return the facts that the server declared.

        By default, the latest handshake revision is offered, or the one that `run` requires. The caller must then send
        `notifications/initialized`. Raises UnsupportedRevision if client and server have no revision in common, and
        RequestRefused if the server rejects the request for another reason.
        """
        offer = offer or self._required_revision or LATEST_HANDSHAKE
        self._channel.set_revision(offer)
        call = Initialize(offer.value, capabilities_for(offer, self._handler.capabilities), client_info(offer))
        try:
            result = await self._sender.send(call, deadline=_NO_TIMEOUT)
        except RequestRefused as error:
            supported = _supported_versions(error)
            common = _latest_common(supported, HANDSHAKE_REVISIONS)
            if error.code in {INVALID_PARAMS, *STATELESS_ERRORS} and supported:
                if common is not None and common != offer and self._required_revision is None:
                    return await self.initialize(common)
                raise self._unsupported_revision(supported) from error
            raise
        revision = parse_revision(result.protocol_version)
        if revision is None or revision.era != "handshake" or self._required_revision not in (None, revision):
            raise self._unsupported_revision((result.protocol_version[:100],))
        return self._server_facts(
            revision, parse_implementation(result.server_info), result.capabilities, result.instructions
        )

    @staticmethod
    def _server_facts(
        revision: Revision, info: Implementation, capabilities: ServerCapabilities, instructions: str | None
    ) -> ServerFacts:
        return ServerFacts(revision, info, capabilities, (instructions or "")[:INSTRUCTIONS_LIMIT])

    async def _initialize_after_probe(self) -> ServerFacts:
        """Send `initialize` after the probe has failed, and return the facts that the server declared.

        If `initialize` is rejected, and the probe had timed out, the probe is sent again, because the server may only
        have been slow to start. If no attempt succeeds, the error of `initialize` is raised. If that error is an
        HttpStatusError, a StartupError that describes all attempts is raised instead.
        """
        try:
            return await self.initialize()
        except (UnsupportedRevision, RequestRefused) as error:
            # It may be a stateless server that was only slow to start.
            discovered = await self.discover() if self._has_probe_timed_out else None
            if discovered is not None:
                return discovered
            if not isinstance(error, HttpStatusError):
                raise
            refusals = [
                one
                for one in self._refusals
                if one.replace("server/discover", "initialize") != (f"initialize: {error.message}")
            ]
            last = "initialize" if refusals or not self._refusals else "server/discover and initialize"
            attempts = "; ".join([*refusals, f"{last}: {error.message}"]).rstrip(".")
            raise StartupError(
                f"Could not connect to the server {self._sender.server!r}. Tried {attempts}.",
                error.hint or (_PATH_HINT if error.status == _NOT_FOUND else "Check the address."),
            ) from error

    async def _handshake_first(self, is_era_fixed: bool) -> ServerFacts:
        try:
            return await self.initialize()
        except (RequestRefused, UnsupportedRevision, MalformedMessage):
            discovered = None if is_era_fixed else await self.discover()
            if discovered is None:
                raise
            return discovered

    async def _retry_with_common_revision(
        self, server_revisions: tuple[str, ...], tried: Revision
    ) -> ServerFacts | None:
        common = _latest_common(server_revisions, STATELESS_REVISIONS)
        if common is not None and common != tried:
            return await self.discover(common)
        if _latest_common(server_revisions, HANDSHAKE_REVISIONS) is not None:
            return None
        raise self._unsupported_revision(server_revisions)

    def _unsupported_revision(self, server_revisions: tuple[str, ...]) -> UnsupportedRevision:
        client_revisions = tuple(
            revision.value for revision in (Revision if self._required_revision is None else (self._required_revision,))
        )
        supported = ", ".join(server_revisions) if server_revisions else "no revision we know"
        configured = "" if self._required_revision is None else " here, as its configuration demands"
        error = UnsupportedRevision(
            f"The server {self._sender.server!r} speaks {supported}; "
            f"mcphost speaks {', '.join(client_revisions)}{configured}.",
            "Update the server or mcphost."
            if self._required_revision is None
            else "Remove the revision from its configuration.",
            server_revisions=server_revisions,
            client_revisions=client_revisions,
        )
        error.server = self._sender.server
        return error


# Seconds between the two opening requests on a pipe, for each plan that sends both.
SECOND_OPENING_DELAYS: dict[NegotiationPlan, float] = {
    "hedged": HEDGE_DELAY,
    "anew": LATE_RESPONSE_TIMEOUT,
    "stateless first": KNOWN_STATELESS_DELAY,
    "handshake first": KNOWN_HANDSHAKE_DELAY,
}


class HedgedOpening:
    """Opening of a connection on a pipe with `server/discover` and `initialize`, in either order.

    The second request is sent only if the first has not succeeded after a delay. If both succeed, the result of
    `initialize` is used: it is normally sent second, and a server that supports both protocol eras (handshake before
    revision 2026-07-28, stateless since then) uses the era of the request that it read last.
    """

    def __init__(self, negotiation: Negotiation, channel: Channel, server: str) -> None:
        self._negotiation = negotiation
        self._channel = channel
        self._server = server
        self._discovered: ServerFacts | None = None
        self._initialized: ServerFacts | None = None
        self._is_initialize_sent = False
        self._probe_error: ServerError | None = None
        self._handshake_error: ServerError | None = None
        self._probe_done, self._handshake_done = anyio.Event(), anyio.Event()
        self._read_or_answered = anyio.Event()

    async def run(self, plan: NegotiationPlan) -> ServerFacts:
        """Send the opening requests in the order of *plan*, and return the facts that the server declared.

        If neither request succeeds, the error of `initialize` is raised or, if it was not sent, the error of
        `server/discover`. If `server/discover` succeeds, but `initialize` was also sent and received no valid response,
        it is unknown which era the server uses. ConnectionLost is then raised, because restarting the server may help.
        """
        is_handshake_first = plan == "handshake first"
        async with anyio.create_task_group() as group:
            first, second = (self._handshake, self._probe) if is_handshake_first else (self._probe, self._handshake)
            group.start_soon(first, group.cancel_scope, 0.0)
            group.start_soon(second, group.cancel_scope, SECOND_OPENING_DELAYS[plan])
        if self._initialized is not None:
            return self._initialized
        error = self._handshake_error
        if self._discovered is not None:
            if not self._is_initialize_sent or _is_refusal(error):
                return self._discovered
            if isinstance(error, ConnectionLost):
                raise error
            # The server's current era is unknown.
            raise ConnectionLost(
                f"The server {self._server!r} answered server/discover but sent no valid response to initialize.",
                "Set its era in mcp.json.",
                server=self._server,
            ) from error
        raise error or self._probe_error or RequestTimeout("The server did not answer.")

    async def _probe(self, scope: anyio.CancelScope, delay: float) -> None:
        if delay:
            await self._wait_for_first(delay, self._handshake_done)
        try:
            self._discovered = await self._negotiation.discover()
        except ServerError as error:
            self._probe_error = error
            # `discover` raises these errors only for a server of the stateless era.
            is_final = isinstance(error, UnsupportedRevision | RequestRefused) and not self._is_initialize_sent
            if is_final or isinstance(error, ConnectionLost):
                scope.cancel()
        finally:
            self._probe_done.set()
            self._read_or_answered.set()
        if self._discovered is not None:
            if self._is_initialize_sent:
                await _wait_up_to(LATE_RESPONSE_TIMEOUT, self._handshake_done)
            scope.cancel()

    async def _handshake(self, scope: anyio.CancelScope, delay: float) -> None:
        if delay:
            await self._wait_for_first(delay, self._probe_done)
        if self._discovered is not None:
            return
        self._is_initialize_sent = True
        try:
            self._initialized = await self._negotiation.initialize()
        except ServerError as error:
            self._handshake_error = error
            self._handshake_done.set()
            self._read_or_answered.set()
            if not isinstance(error, ConnectionLost):
                await _wait_up_to(LATE_RESPONSE_TIMEOUT, self._probe_done)
        scope.cancel()

    async def _wait_for_first(self, seconds: float, answered: anyio.Event) -> None:
        """Wait until the server has read the first opening request, and then give it time to respond.

        The time to respond is *seconds* or, if this is longer, half of the time that the server took to read the
        request (at most MAX_HEDGE_DELAY). Returns early if *answered* is set, which means that the first request has
        ended.
        """
        begun = anyio.current_time()
        await self._until_read(answered)
        start = anyio.current_time() - begun
        await _wait_up_to(max(seconds, min(start / 2, MAX_HEDGE_DELAY)), answered)

    async def _until_read(self, answered: anyio.Event) -> None:
        """Wait until the server has read all data that was written, or *answered* is set.

        This polls in timer callbacks, which are ten times cheaper than a task with a cancel scope. The polls of all
        servers happen at the same times, so that starting many servers does not wake the process more often.
        """
        loop = asyncio.get_running_loop()

        def look() -> None:
            nonlocal timer
            if self._channel.is_drained:
                self._read_or_answered.set()
            else:
                timer = loop.call_at(_next_tick(loop.time()), look)

        timer = loop.call_at(_next_tick(loop.time()), look)
        try:
            if not answered.is_set():
                await self._read_or_answered.wait()
        finally:
            timer.cancel()


def _next_tick(now: float) -> float:
    """Return the first multiple of POLL_INTERVAL that is at least POLL_INTERVAL seconds after *now*."""
    return POLL_INTERVAL * (int(now / POLL_INTERVAL) + 2)


def _is_refusal(error: ServerError | None) -> bool:
    return isinstance(error, RequestRefused) or (error is not None and isinstance(error.__cause__, RequestRefused))


async def _wait_up_to(seconds: float, event: anyio.Event) -> None:
    with anyio.move_on_after(seconds):
        await event.wait()


def _latest_common(server_revisions: tuple[str, ...], client_revisions: tuple[Revision, ...]) -> Revision | None:
    common = [revision for revision in client_revisions if revision.value in server_revisions]
    return max(common) if common else None


class _SupportedVersions(WireStruct, frozen=True):
    supported: tuple[str, ...] = ()


def _supported_versions(error: RequestRefused) -> tuple[str, ...]:
    try:
        versions = convert(error.data, _SupportedVersions).supported
    except MalformedMessage:
        return ()
    return tuple(version[:100] for version in versions[:50])


def choose_plan(
    era: Era | Literal["auto"], remembered: ServerEras | None, *, is_pipe: bool
) -> tuple[NegotiationPlan, bool]:
    """Return the negotiation plan for a server, and whether only that plan's protocol era is allowed.

    The protocol eras are handshake (revisions before 2026-07-28) and stateless (later revisions). *era* is the
    configured era, and *remembered* contains the eras that the server supported at its last connection.

    For a server on a pipe that supports both eras, the plan begins with `server/discover`. If the server responds in
    time, `initialize` is not sent, because it would switch the server to the handshake era.
    """
    if era != "auto":
        return era, True
    if not is_pipe:
        return ("handshake" if remembered == "handshake" else "in turn"), False
    if remembered is None:
        return "hedged", False
    return ("handshake first" if remembered == "handshake" else "stateless first"), False
