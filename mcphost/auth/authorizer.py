"""What a transport sees of sign-in: `headers` for every request, `recover` from a refusal, both without a person.

When only a person helps, whoever waits for an answer calls `sign_in`, outside of every deadline. One flow at a time a
server; no lock is held while requests run, and a refused request tells by what it sent whether others were quicker.
"""

import logging
import time
from collections.abc import Mapping
from typing import Protocol

import anyio

from mcphost.auth.challenge import ours
from mcphost.auth.keep import Keep, SignedIn
from mcphost.auth.machine import Machine, earn
from mcphost.auth.metadata import IssuerDocument
from mcphost.auth.proofs import NONCE_NEEDED, Signer
from mcphost.auth.requests import Requests, Unreachable
from mcphost.auth.signin import NotSignedIn, Person, SignIn, Target
from mcphost.auth.tokens import TokenRefused, authentication, refreshed, split
from mcphost.data import Data, replace
from mcphost.errors import McpHostError, SignInNeeded

_log = logging.getLogger(__name__)
MOST_SIGN_INS = 2
"""How often one action of the user may lead to a sign-in."""
MOST_STEP_UPS = 3
"""The same when a server wants more scopes each time."""
_FRESH = 30.0
_PROBE = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_NONE: Mapping[str, str] = {}


class Refusal(Protocol):
    """A 401 or 403, as the transport saw it; `sent` is the Authorization header of the refused request."""

    @property
    def status(self) -> int: ...

    @property
    def challenge(self) -> str: ...

    @property
    def sent(self) -> str: ...

    @property
    def nonce(self) -> str: ...


class _Asked(Data, frozen=True):
    """The refusal of a question that we asked to be refused."""

    status: int
    challenge: str
    sent: str
    nonce: str = ""


class _Flight:
    """A sign-in that runs; who comes meanwhile gets its outcome."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: SignInNeeded | None = None
        self.cancelled = False


class OAuth:
    """The Authorizer of one server. `person` None: nobody can be asked. With a `machine` nobody needs to be."""

    def __init__(
        self, target: Target, requests: Requests, keep: Keep, person: Person | None, machine: Machine | None = None
    ) -> None:
        self._machine = machine
        self._signer: Signer | None = None
        self._signer_key = ""
        self._nonce = ""
        self._target = target
        self._requests = requests
        self._keep = keep
        self._person = person
        self._signed: SignedIn | None = None
        self._looked = False
        self._renewing = anyio.Lock()
        self._flight: _Flight | None = None
        self._hopeless: set[tuple[str, ...]] = set()

    # -- for transports
    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        """The headers of a request; a token that is about to end is renewed first."""
        if not self._looked:
            self._looked = True
            self._signed = await self._keep.load(self._target.key, self._target.account)
        signed = self._signed
        if signed is not None and signed.tokens.expired():
            signed = await self._renewed(signed)
        if signed is None:
            return _NONE
        headers = {"authorization": _header(signed)}
        signer = self._signer_of(signed)
        if signer is not None:
            headers["dpop"] = signer.proof(verb, url, token=signed.tokens.access, nonce=self._nonce)
        return headers

    async def recover(self, refusal: Refusal) -> bool:
        """Whether the same request may be sent again: someone else signed in, or the token could be renewed."""
        challenge = ours(refusal.challenge)
        if refusal.status == 403 and challenge.get("error") != "insufficient_scope":
            return False
        if refusal.nonce and challenge.get("error") == NONCE_NEEDED and refusal.nonce != self._nonce:
            self._nonce = refusal.nonce
            return True
        if self._machine is not None:
            return refusal.status == 401 and await self._earned(self._machine, refusal)
        signed = self._signed or await self._keep.load(self._target.key, self._target.account)
        self._signed = signed
        if signed is None:
            return False
        if _header(signed) != refusal.sent and not signed.tokens.expired():
            return True
        if refusal.status == 403 or _fresh(signed):
            return False
        renewed = await self._renewed(signed)
        return renewed is not None and _header(renewed) != refusal.sent

    # -- for whoever waits for an answer
    async def sign_in(self, refusal: Refusal, attempt: int = 1) -> None:
        """Have a person sign in; afterwards the same request may be sent again. `attempt` counts from 1 per action.

        Raises SignInNeeded. Cancelling the last one who waits ends the flow.
        """
        challenge = ours(refusal.challenge)
        more = refusal.status == 403
        scopes = split(challenge.get("scope"))
        if self._machine is not None or (more and challenge.get("error") != "insufficient_scope"):
            raise NotSignedIn(
                f"The server {self._target.server!r} does not permit this to the account (HTTP {refusal.status})."
            )
        if more and attempt > MOST_STEP_UPS:
            self._hopeless.add(scopes)
        if more and scopes in self._hopeless:
            raise NotSignedIn(
                f"The server {self._target.server!r} keeps asking for more rights, though they were given: "
                f"{' '.join(scopes)[:200]}.",
                "Its operator must correct that. mcphost asks again after a restart.",
            )
        if not more and attempt > MOST_SIGN_INS:
            raise NotSignedIn(f"The server {self._target.server!r} refuses the account it was just given.")
        while True:
            signed = self._signed
            if signed is not None and _header(signed) != refusal.sent and not signed.tokens.expired():
                return
            flight = self._flight
            if flight is None:
                await self._fly(refusal, more=more)
                return
            if await self._joined(flight):
                return

    async def _joined(self, flight: _Flight) -> bool:
        """Wait for somebody else's sign-in; False when they gave up waiting. Raises SignInNeeded."""
        await flight.over.wait()
        if flight.error is not None:
            raise NotSignedIn(flight.error.message, flight.error.hint)
        return not flight.cancelled

    async def _fly(self, refusal: Refusal, *, more: bool, wanted: bool = True, device: bool = False) -> None:
        if self._machine is not None:
            self._signed = await earn(self._machine, self._requests, ours(refusal.challenge))
            return
        if self._person is None:
            raise NotSignedIn(
                f"The server {self._target.server!r} wants you to sign in.",
                f"Do it with: mcphost login {self._target.server}",
            )
        flight = self._flight = _Flight()
        try:
            machine = SignIn(self._target, self._requests, self._keep, self._person)
            before = self._signed or await self._keep.load(self._target.key, self._target.account)
            self._signed = await machine.run(
                ours(refusal.challenge), before, more=more, wanted_by_server=wanted, device=device
            )
        except SignInNeeded as error:
            _log.warning("sign-in to %s: %s", self._target.server, error.message)
            error.server = error.server or self._target.server
            flight.error = error
            raise
        except BaseException:
            flight.cancelled = True
            raise
        finally:
            self._flight = None
            flight.over.set()

    # -- for the user
    async def login(self, *, device: bool = False) -> SignedIn:
        """Sign in anew, whatever there is already, or with whoever does that already.

        With `device` the user enters a code in a browser anywhere (RFC 8628).

        Raises SignInNeeded, also when the server wants no account.
        """
        if self._flight is not None:
            await self._joined(self._flight)
            if self._signed is not None:
                return self._signed
        headers = {"accept": "application/json, text/event-stream"}
        reply = await self._requests.post_json(self._target.url, _PROBE, "MCP server", headers)
        challenge = reply.headers.get("www-authenticate", "") if reply.status == 401 else ""
        refusal = _Asked(reply.status, challenge, "")
        if self._signed is None:
            self._signed = await self._keep.load(self._target.key, self._target.account)
        if self._signed is not None:
            refusal = _Asked(reply.status, challenge, _header(self._signed))
        await self._fly(refusal, more=False, wanted=reply.status == 401, device=device)
        if self._signed is None:
            raise AssertionError("signed in to nothing")
        return self._signed

    def kept(self, signed: SignedIn) -> bool:
        """Whether a sign-in outlives this process."""
        return self._keep.kept(signed)

    async def logout(self) -> tuple[SignedIn | None, bool]:
        """Erase the tokens here, and revoke them where that is possible (RFC 7009): what was erased, and whether."""
        self._signed = None
        self._looked = True
        gone = await self._keep.forget(self._target.key, self._target.account)
        if gone is None or not gone.revocation_endpoint:
            return gone, False
        revoked = True
        for token, kind in ((gone.tokens.refresh, "refresh_token"), (gone.tokens.access, "access_token")):
            if token:
                revoked = await self._revoked(gone, token, kind) and revoked
        return gone, revoked

    async def _revoked(self, gone: SignedIn, token: str, kind: str) -> bool:
        form = {"token": token, "token_type_hint": kind}
        headers = authentication(gone.client, form)
        try:
            reply = await self._requests.post_form(gone.revocation_endpoint, form, "revocation endpoint", headers)
        except SignInNeeded:
            return False
        return reply.ok

    # -- inside
    async def _renewed(self, old: SignedIn) -> SignedIn | None:
        """The sign-in with a new token; None when a person must sign in again. One at a time, in all processes."""
        async with self._renewing:
            if self._signed is not old:
                return self._signed
            if not old.tokens.refresh:
                self._signed = None
                return None
            try:
                async with self._keep.lock(old.url, old.account):
                    self._signed = await self._renew(old)
            except McpHostError as error:
                # Not reachable now, or busy: a token that has not ended yet still serves.
                if time.time() < old.tokens.expires:
                    return old
                raise Unreachable(error.message, error.hint) from error
        return self._signed

    async def _earned(self, machine: Machine, refusal: Refusal) -> bool:
        """A token without a person; one that was just given and is refused is not asked for again."""
        async with self._renewing:
            signed = self._signed
            if signed is not None and _header(signed) != refusal.sent:
                return True
            if signed is not None and _fresh(signed):
                return False
            self._signed = await earn(machine, self._requests, ours(refusal.challenge))
        return True

    def _signer_of(self, signed: SignedIn) -> Signer | None:
        """Whoever proves that the token is ours; None for a token that needs no proof."""
        if not signed.key:
            return None
        if self._signer is None or self._signer_key != signed.key:
            self._signer, self._signer_key = Signer.stored(signed.key), signed.key
        return self._signer

    async def _renew(self, old: SignedIn) -> SignedIn | None:
        stored = await self._keep.load(old.url, old.account, again=True)
        if stored is None or stored.issuer != old.issuer:
            return stored  # signed out, or in elsewhere, by another process
        if stored.tokens.access != old.tokens.access and not stored.tokens.expired():
            return stored
        document = IssuerDocument(issuer=stored.issuer, token_endpoint=stored.token_endpoint)
        # The old refresh token may be dead as soon as the request arrives: what comes back must be stored.
        with anyio.CancelScope(shield=True):
            try:
                tokens = await refreshed(
                    self._requests,
                    document,
                    stored.client,
                    stored.resource,
                    stored.tokens,
                    signer=self._signer_of(stored),
                )
            except Unreachable:
                raise
            except TokenRefused as error:
                if error.code in ("invalid_grant", "invalid_client", "unauthorized_client"):
                    await self._keep.forget(old.url, old.account, only=stored)
                return None
            renewed = replace(stored, tokens=tokens)
            await self._keep.save(renewed)
            return renewed


def _header(signed: SignedIn) -> str:
    return f"{signed.tokens.kind} {signed.tokens.access}"


def _fresh(signed: SignedIn) -> bool:
    """Whether its token was issued just now, so that a refusal is not about its age."""
    tokens = signed.tokens
    lifetime = tokens.expires - tokens.issued if tokens.expires else _FRESH * 2
    return time.time() - tokens.issued < min(_FRESH, lifetime / 2)
