"""Era and revision negotiation: both openings side by side on a pipe, one after the other over HTTP."""

import asyncio
from typing import Literal

import anyio

from mcphost.client.client_info import US, capabilities_for, client_info
from mcphost.client.requests import Caller
from mcphost.client.session import Responder, ServerFacts
from mcphost.errors import (
    CannotStart,
    ConnectionLost,
    DeadlinePassed,
    MalformedMessage,
    Refused,
    ServerError,
    UnsupportedRevision,
)
from mcphost.protocol.jsonrpc import INVALID_PARAMS, STATELESS_ERRORS, Notification
from mcphost.protocol.lifecycle import (
    Discover,
    DiscoverMeta,
    DiscoverResult,
    Implementation,
    Initialize,
    Initialized,
    ServerCapabilities,
    implementation,
)
from mcphost.protocol.meta import stamp
from mcphost.protocol.revisions import (
    HANDSHAKE_REVISIONS,
    LATEST_HANDSHAKE,
    LATEST_STATELESS,
    STATELESS_REVISIONS,
    Era,
    Revision,
    ServerEras,
    known,
)
from mcphost.serialization import Wire, convert, decode, encode
from mcphost.transport.channel import Channel, HttpStatus

# Seconds that a server on a pipe has for the probe before `initialize` follows, counted from when it read the probe:
# a server of the handshake era that ignores unknown methods must not cost a timeout, and one of both eras that reads
# both at once obeys the later one.
HEDGE = 0.2
# The same for a server that was slow to start: half of what it took, and at most this.
HEDGE_MAX = 1.0
# How often a pipe is asked whether the server has read the probe.
POLL = 0.02
# How long an unanswered opening may still change the outcome after the other one was answered.
LAST_CHANCE = 3.0
# How long an HTTP server may be silent on the probe.
PROBE = 3.0
# How long a server that spoke the handshake last time may think about it before it is probed beside.
REMEMBERED = 5.0
# How long a server that answered the probe last time may think about it before `initialize` follows.
REMEMBERED_PROBE = 10.0
_FOREVER = 3_600.0
# HTTP statuses that come from a server, or a gateway before it, which cannot answer now.
_BUSY = frozenset({408, 425, 429, 502, 503, 504})
# Characters kept of what a server says about itself; the model gets fewer.
INSTRUCTIONS_LIMIT = 32_000

Plan = Literal["handshake", "stateless", "hedged", "handshake first", "stateless first", "anew", "in turn"]


class Negotiation:
    """One attempt on one channel; the caller sets the overall deadline by cancelling."""

    def __init__(self, channel: Channel, caller: Caller, responder: Responder) -> None:
        self._channel = channel
        self._caller = caller
        self._responder = responder
        self._refusals: list[str] = []
        self._insisted: set[Revision] = set()
        self._only: Revision | None = None
        self._probe_silent = False
        self._probe_failed = False  # what came of it says nothing about the server's era
        self._discovered = False  # a usable answer to `server/discover` came

    async def run(self, plan: Plan, *, pinned: bool, only: Revision | None = None) -> ServerFacts:
        """Agree on a revision. `pinned` forbids the other era, `only` every other revision.

        Raises UnsupportedRevision, Refused, MalformedMessage, ConnectionLost, SignInNeeded.
        """
        self._only = only
        if plan in _HEAD_STARTS:
            facts = await _Race(self, self._channel, self._caller.server).run(plan)
        elif plan == "handshake":
            facts = await self._handshake_first(pinned)
        else:
            # Over HTTP the two cannot be sent at once; a pinned server may take as long as the connection may.
            found = await self.discover(patience=_FOREVER if pinned else PROBE)
            if found is None and pinned:
                raise self._no_common(())
            facts = found or await self._initialize_last()
        self._channel.speak(facts.revision)
        if facts.era == "handshake":
            try:
                await self._channel.send(Notification(Initialized.METHOD))
            except HttpStatus as error:
                # It answered `initialize`, so it is no server of another transport.
                raise ConnectionLost(error.message, error.hint, server=self._caller.server) from error
        return facts

    def next_plan(self, plan: Plan) -> Plan:
        """The plan for a server that was started again because the connection was lost during `plan`."""
        if self._discovered:
            return "stateless first"
        # It may have died of the probe; or of the handshake that it spoke last time.
        return "anew" if plan == "handshake first" else "handshake"

    def eras(self, facts: ServerFacts, known: ServerEras | None) -> ServerEras | None:
        """Return what to remember of a server that `facts` were agreed with; `known` was remembered before.

        A server that was too slow or too busy for the probe may speak both eras; it is probed again the next time.
        """
        if facts.era == "stateless":
            return "dual" if known == "dual" else "stateless"
        if self._probe_failed and not self._discovered:
            return known
        return "dual" if self._discovered else "handshake"

    async def discover(
        self, revision: Revision = LATEST_STATELESS, *, patience: float = _FOREVER
    ) -> ServerFacts | None:
        """The facts of a stateless server; None when it is not one and `initialize` should be tried."""
        self._channel.speak(revision)
        capabilities = capabilities_for(revision, self._responder.capabilities)
        members = encode(stamp(revision, US, capabilities))[1:-1]
        try:
            raw = await self._caller.raw_call(Discover(), stamp=members, deadline=patience)
            result = decode(raw, DiscoverResult, "result of server/discover")
            meta = decode(raw, DiscoverMeta, "result of server/discover")
        except Refused as error:
            if error.code not in STATELESS_ERRORS:
                self._probe_failed = isinstance(error, HttpStatus) and error.status in _BUSY
                self._refusals.append(f"server/discover: {error.said}")
                return None
            theirs = _supported(error)
            if not theirs:
                raise
            if revision.value in theirs and revision not in self._insisted:
                # Refused and offered in one breath: said once more, as somebody would who misheard.
                self._insisted.add(revision)
                return await self.discover(revision, patience=patience)
            return await self._choose(theirs, revision)
        except (MalformedMessage, DeadlinePassed) as error:
            self._probe_silent = self._probe_failed = isinstance(error, DeadlinePassed)
            self._refusals.append(f"server/discover: {error.message}")
            return None
        if not result.supported_versions:
            return None  # an answer to anything at all, not a discovery
        if revision.value not in result.supported_versions:
            return await self._choose(result.supported_versions, revision)
        self._discovered = True
        return self._facts(revision, meta.info, result.capabilities, result.instructions)

    async def initialize(self, offer: Revision | None = None) -> ServerFacts:
        """The handshake, up to but without notifications/initialized."""
        offer = offer or self._only or LATEST_HANDSHAKE
        self._channel.speak(offer)
        call = Initialize(offer.value, capabilities_for(offer, self._responder.capabilities), client_info(offer))
        try:
            result = await self._caller.call(call, deadline=_FOREVER)
        except Refused as error:
            theirs = _supported(error)
            common = _best(theirs, HANDSHAKE_REVISIONS)
            if error.code in {INVALID_PARAMS, *STATELESS_ERRORS} and theirs:
                if common is not None and common != offer and self._only is None:
                    return await self.initialize(common)
                raise self._no_common(theirs) from error
            raise
        revision = known(result.protocol_version)
        if revision is None or revision.era != "handshake" or self._only not in (None, revision):
            raise self._no_common((result.protocol_version[:100],))
        return self._facts(revision, implementation(result.server_info), result.capabilities, result.instructions)

    @staticmethod
    def _facts(
        revision: Revision, info: Implementation, capabilities: ServerCapabilities, instructions: str | None
    ) -> ServerFacts:
        return ServerFacts(revision, info, capabilities, (instructions or "")[:INSTRUCTIONS_LIMIT])

    async def _initialize_last(self) -> ServerFacts:
        """The handshake after a refused probe; when it is refused too, the error tells of both."""
        try:
            return await self.initialize()
        except (UnsupportedRevision, Refused) as error:
            # A server of the stateless era that was only slow to wake up.
            found = await self.discover() if self._probe_silent else None
            if found is not None:
                return found
            if not isinstance(error, HttpStatus):
                raise
            tried = "; ".join([*self._refusals, f"initialize: {error.message}"])
            raise CannotStart(
                f"No way to speak to the server {self._caller.server!r} was found. Tried {tried}",
                "Check the address.",
            ) from error

    async def _handshake_first(self, pinned: bool) -> ServerFacts:
        try:
            return await self.initialize()
        except (Refused, UnsupportedRevision, MalformedMessage):
            found = None if pinned else await self.discover()
            if found is None:
                raise
            return found

    async def _choose(self, theirs: tuple[str, ...], tried: Revision) -> ServerFacts | None:
        common = _best(theirs, STATELESS_REVISIONS)
        if common is not None and common != tried:
            return await self.discover(common)
        if _best(theirs, HANDSHAKE_REVISIONS) is not None:
            return None
        raise self._no_common(theirs)

    def _no_common(self, theirs: tuple[str, ...]) -> UnsupportedRevision:
        ours = tuple(revision.value for revision in (Revision if self._only is None else (self._only,)))
        spoken = ", ".join(theirs) if theirs else "no revision we know"
        demanded = "" if self._only is None else " here, as its configuration demands"
        error = UnsupportedRevision(
            f"The server {self._caller.server!r} speaks {spoken}; mcphost speaks {', '.join(ours)}{demanded}.",
            "Update the server or mcphost." if self._only is None else "Remove the revision from its configuration.",
            theirs=theirs,
            ours=ours,
        )
        error.server = self._caller.server
        return error


# Seconds between the openings on a pipe, for each plan that sends both.
_HEAD_STARTS: dict[Plan, float] = {
    "hedged": HEDGE,
    "anew": LAST_CHANCE,
    "stateless first": REMEMBERED_PROBE,
    "handshake first": REMEMBERED,
}


class _Race:
    """Both openings on one pipe, one with a head start.

    Once `initialize` was sent its answer decides, whatever `server/discover` said: a server of both eras goes on in
    the era of the last opening that it read.
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
        self._probe_over, self._handshake_over = anyio.Event(), anyio.Event()
        self._read_or_answered = anyio.Event()

    async def run(self, plan: Plan) -> ServerFacts:
        """Send both openings as `plan` says. Raises ConnectionLost when another attempt may do better."""
        is_handshake_first = plan == "handshake first"
        async with anyio.create_task_group() as group:
            first, second = (self._handshake, self._probe) if is_handshake_first else (self._probe, self._handshake)
            group.start_soon(first, group.cancel_scope, 0.0)
            group.start_soon(second, group.cancel_scope, _HEAD_STARTS[plan])
        if self._initialized is not None:
            return self._initialized
        error = self._handshake_error
        if self._discovered is not None:
            if not self._is_initialize_sent or _is_refusal(error):
                return self._discovered
            if isinstance(error, ConnectionLost):
                raise error
            # Nobody knows which era the server is in now.
            raise ConnectionLost(
                f"The server {self._server!r} answered server/discover and gave no useful answer to initialize.",
                "Set its era in mcp.json.",
                server=self._server,
            ) from error
        raise error or self._probe_error or DeadlinePassed("The server did not answer.")

    async def _probe(self, scope: anyio.CancelScope, head_start: float) -> None:
        if head_start:
            await self._wait(head_start, self._handshake_over)
        try:
            self._discovered = await self._negotiation.discover()
        except ServerError as error:
            self._probe_error = error
            # Only a server of the stateless era refuses the probe with an error that `discover` raises.
            is_final = isinstance(error, UnsupportedRevision | Refused) and not self._is_initialize_sent
            if is_final or isinstance(error, ConnectionLost):
                scope.cancel()
        finally:
            self._probe_over.set()
            self._read_or_answered.set()
        if self._discovered is not None:
            if self._is_initialize_sent:
                await _up_to(LAST_CHANCE, self._handshake_over)
            scope.cancel()

    async def _handshake(self, scope: anyio.CancelScope, head_start: float) -> None:
        if head_start:
            await self._wait(head_start, self._probe_over)
        if self._discovered is not None:
            return
        self._is_initialize_sent = True
        try:
            self._initialized = await self._negotiation.initialize()
        except ServerError as error:
            self._handshake_error = error
            self._handshake_over.set()
            self._read_or_answered.set()
            if not isinstance(error, ConnectionLost):
                await _up_to(LAST_CHANCE, self._probe_over)
        scope.cancel()

    async def _wait(self, seconds: float, answered: anyio.Event) -> None:
        """Wait until the server has had the first opening for that long, or has answered it."""
        begun = anyio.current_time()
        await self._until_read(answered)
        start = anyio.current_time() - begun
        await _up_to(max(seconds, min(start / 2, HEDGE_MAX)), answered)

    async def _until_read(self, answered: anyio.Event) -> None:
        """Wait until the server has read what was written to it, or has answered.

        A callback looks, and those of all servers at the same ticks: a task with a cancel scope costs ten times as
        much, and a tick of its own for each wakes the process hundreds of times just when ten servers start.
        """
        loop = asyncio.get_running_loop()

        def look() -> None:
            nonlocal timer
            if self._channel.is_drained:
                self._read_or_answered.set()
            else:
                timer = loop.call_at(_tick(loop.time()), look)

        timer = loop.call_at(_tick(loop.time()), look)
        try:
            if not answered.is_set():
                await self._read_or_answered.wait()
        finally:
            timer.cancel()


def _tick(now: float) -> float:
    """Return the first multiple of POLL that is at least POLL away."""
    return POLL * (int(now / POLL) + 2)


def _is_refusal(error: ServerError | None) -> bool:
    return isinstance(error, Refused) or (error is not None and isinstance(error.__cause__, Refused))


async def _up_to(seconds: float, event: anyio.Event) -> None:
    with anyio.move_on_after(seconds):
        await event.wait()


def _best(theirs: tuple[str, ...], ours: tuple[Revision, ...]) -> Revision | None:
    common = [revision for revision in ours if revision.value in theirs]
    return max(common) if common else None


class _Versions(Wire, frozen=True):
    supported: tuple[str, ...] = ()


def _supported(error: Refused) -> tuple[str, ...]:
    try:
        versions = convert(error.data, _Versions).supported
    except MalformedMessage:
        return ()
    return tuple(version[:100] for version in versions[:50])


def plan_for(era: Era | Literal["auto"], remembered: ServerEras | None, *, is_pipe: bool) -> tuple[Plan, bool]:
    """Which plan to follow, and whether the configuration forbids the other era.

    A server of both eras gets the probe alone: it would obey an `initialize` that comes behind it.
    """
    if era != "auto":
        return era, True
    if not is_pipe:
        return ("handshake" if remembered == "handshake" else "in turn"), False
    if remembered is None:
        return "hedged", False
    return ("handshake first" if remembered == "handshake" else "stateless first"), False
