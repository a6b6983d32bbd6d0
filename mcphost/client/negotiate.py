"""Finds the era of a server: hedged probe on a pipe, one after the other over HTTP; remembers nothing."""

from typing import Literal

import anyio

from mcphost.client.calls import Caller
from mcphost.client.identity import US, capabilities_for, client_info
from mcphost.client.session import Responder, ServerFacts
from mcphost.data import Wire, convert, decode, encode
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
    known,
)
from mcphost.transport.channel import Channel, HttpStatus

# A server of the handshake era that ignores unknown methods must not cost a timeout.
HEDGE = 0.2
# How long an unanswered probe may still change the outcome after `initialize` was refused.
LAST_CHANCE = 3.0
# How long an HTTP server may be silent on the probe.
PROBE = 3.0
# How long a server that spoke the handshake last time may think about it before it is probed beside.
REMEMBERED = 5.0
_FOREVER = 3_600.0
# Characters kept of what a server says about itself; the model gets fewer.
INSTRUCTIONS_LIMIT = 32_000

Plan = Literal["handshake", "stateless", "hedged", "remembered", "anew", "in turn"]


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

    async def run(self, plan: Plan, *, pinned: bool, only: Revision | None = None) -> ServerFacts:
        """Agree on a revision. `pinned` forbids the other era, `only` every other revision.

        Raises UnsupportedRevision, Refused, MalformedMessage, ConnectionLost, SignInNeeded.
        """
        self._only = only
        if plan in ("hedged", "remembered", "anew"):
            # A server that died of the handshake it spoke last time gets time to answer the probe before the next one.
            hedge = LAST_CHANCE if plan == "anew" else HEDGE
            facts = await self._hedged(hedge, handshake_first=plan == "remembered")
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
            self._probe_silent = isinstance(error, DeadlinePassed)
            self._refusals.append(f"server/discover: {error.message}")
            return None
        if not result.supported_versions:
            return None  # an answer to anything at all, not a discovery
        if revision.value not in result.supported_versions:
            return await self._choose(result.supported_versions, revision)
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

    async def _hedged(self, hedge: float, *, handshake_first: bool) -> ServerFacts:
        """Both at once, one with a head start (`hedge` seconds for the probe); the answer that comes first decides."""
        outcome: list[ServerFacts] = []
        failures: list[ServerError] = []
        probe_over, handshake_over = anyio.Event(), anyio.Event()

        async with anyio.create_task_group() as group:

            def decided(facts: ServerFacts) -> None:
                if not outcome:
                    outcome.append(facts)
                group.cancel_scope.cancel()

            async def probe() -> None:
                await _up_to(REMEMBERED if handshake_first else 0, handshake_over)
                try:
                    facts = await self.discover()
                    if facts is not None:
                        decided(facts)
                except ServerError as error:
                    failures.append(error)
                    if isinstance(error, ConnectionLost | UnsupportedRevision):
                        group.cancel_scope.cancel()
                finally:
                    probe_over.set()

            async def handshake() -> None:
                await _up_to(0 if handshake_first else hedge, probe_over)
                try:
                    decided(await self.initialize())
                except ServerError as error:
                    failures.append(error)
                    handshake_over.set()
                    if not isinstance(error, ConnectionLost):
                        await _up_to(LAST_CHANCE, probe_over)
                    group.cancel_scope.cancel()

            group.start_soon(probe)
            group.start_soon(handshake)
        if outcome:
            return outcome[0]
        raise failures[-1] if failures else DeadlinePassed("The server did not answer.")

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


def plan_for(era: Era | Literal["auto"], remembered: Era | None, *, is_pipe: bool) -> tuple[Plan, bool]:
    """Which plan to follow, and whether the configuration forbids the other era.

    Only a remembered handshake saves anything: a stateless server answers the probe, which tells what it offers.
    """
    if era != "auto":
        return era, True
    if remembered == "handshake":
        return ("remembered" if is_pipe else "handshake"), False
    return ("hedged" if is_pipe else "in turn"), False
