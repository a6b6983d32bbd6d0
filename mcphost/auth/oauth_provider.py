"""What a transport sees of sign-in: `headers` for every request, `recover` from a refusal, both without a person.

When only a person helps, whoever waits for an answer calls `sign_in`, outside of every deadline. One flow at a time a
server; no lock is held while requests run, and a refused request tells by what it sent whether others were quicker.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from shlex import quote

import anyio

from mcphost.auth import token_refresh
from mcphost.auth.account import EARNED, Account
from mcphost.auth.authorization_flow import SignIn
from mcphost.auth.client_grants import Machine, earn
from mcphost.auth.discovery import find_resource
from mcphost.auth.jwt_proofs import NONCE_NEEDED, Signer
from mcphost.auth.oauth_http import Requests, Unreachable
from mcphost.auth.rejected_request import Asked, Refusal, probed
from mcphost.auth.sign_in_target import Target
from mcphost.auth.stored_sign_in import SignedIn
from mcphost.auth.token_store import Keep
from mcphost.auth.tokens import split
from mcphost.auth.user_interaction import NotSignedIn, Person, Progress, Tell, unheard
from mcphost.auth.www_authenticate import ours
from mcphost.errors import McpHostError, SignInRequired
from mcphost.serialization import replace

_log = logging.getLogger(__name__)
MOST_SIGN_INS = 2
"""How often one action of the user may lead to a sign-in."""
MOST_STEP_UPS = 3
"""The same when a server wants more scopes each time."""
_FRESH = 30.0
_MOST_NAMED = 10
_PLAIN = re.compile(r"[A-Za-z0-9_][\w.:/-]{0,99}", re.ASCII)
_NONE: Mapping[str, str] = {}


class _Flight:
    """A sign-in that runs; who comes meanwhile gets its outcome."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: SignInRequired | None = None
        self.cancelled = False


class OAuth:
    """The Authorizer of one server. `person` None: nobody can be asked. With a `machine` nobody needs to be: its tokens
    are in memory only, since the next one can be earned whenever it is wanted, and no sign-in of a person is used.
    """

    def __init__(
        self,
        target: Target,
        requests: Requests,
        keep: Keep,
        person: Person | None,
        machine: Machine | None = None,
        told: Tell = unheard,
    ) -> None:
        self._told = told
        self._machine = machine
        self._signer: Signer | None = None
        self._signer_key = ""
        self._nonce = ""
        self._target = target
        self._requests = requests
        self._keep = keep
        self._person = person
        self._using: SignedIn | None = None
        self._tell: Callable[[Account | None], None] = lambda account: None
        self._looked = False
        self._settled = False
        self._renewing = anyio.Lock()
        self._flight: _Flight | None = None
        self._hopeless: set[tuple[str, ...]] = set()
        keep.moved.append(self._moved)

    def _moved(self) -> None:
        self._tell(self.account)

    def drop(self) -> None:
        """Nobody hears of it any more: another one takes its place. Requests that it serves still go on with it."""
        self._tell = lambda account: None
        if self._moved in self._keep.moved:
            self._keep.moved.remove(self._moved)

    @property
    def whose(self) -> str | None:
        """The account that it signs in, "" for the one without a name; None until that is known, then for ever."""
        return self._target.account if self._settled or self._target.named else None

    @property
    def account(self) -> Account | None:
        """The sign-in that requests are made with now, without its secrets."""
        return self._using and self._using.shown(self._place(self._using))

    @property
    def credential(self) -> str:
        """A digest of the token that requests are made with now, "" without one; another token has another digest."""
        signed = self._using
        return hashlib.sha256(_header(signed).encode()).hexdigest() if signed is not None else ""

    def tell(self, listener: Callable[[Account | None], None]) -> None:
        """From now on this one hears which sign-in is used, now and after each change. It must not block or raise."""
        self._tell = listener
        listener(self.account)

    @property
    def _signed(self) -> SignedIn | None:
        return self._using

    @_signed.setter
    def _signed(self, signed: SignedIn | None) -> None:
        changed = signed is not self._using
        self._using = signed
        if changed:
            self._tell(self.account)

    # -- for transports
    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        """The headers of a request; a token that is about to end is renewed first."""
        if not self._looked:
            self._looked = True
            await self._choose()
            if self._machine is None:
                self._signed = await self._keep.load(self._target.key, self._target.account)
        signed = self._signed
        if signed is not None and signed.tokens.expired():
            signed = await self._renewed(signed)
        return self._headers(signed, verb, url)

    def current_headers(self, verb: str, url: str) -> Mapping[str, str]:
        """The headers of a last request: with the token that is there, which is not renewed."""
        return self._headers(self._using, verb, url)

    def _headers(self, signed: SignedIn | None, verb: str, url: str) -> Mapping[str, str]:
        if signed is None:
            return _NONE
        headers = {"authorization": _header(signed)}
        signer = self._signer_of(signed)
        if signer is not None:
            headers["dpop"] = signer.proof(verb, url, token=signed.tokens.access, nonce=self._nonce)
        return headers

    async def recover(self, refusal: Refusal) -> bool:
        """Whether the same request may be sent again: someone else signed in, or the token could be renewed."""
        challenge = ours(refusal.www_authenticate)
        if refusal.status == 403 and challenge.get("error") != "insufficient_scope":
            return False
        if refusal.dpop_nonce and challenge.get("error") == NONCE_NEEDED and refusal.dpop_nonce != self._nonce:
            self._nonce = refusal.dpop_nonce
            return True
        if self._machine is not None:
            return refusal.status == 401 and await self._earned(self._machine, refusal)
        signed = self._signed or await self._keep.load(self._target.key, self._target.account)
        self._signed = signed
        if signed is None:
            return False
        if _header(signed) != refusal.authorization and not signed.tokens.expired():
            return True
        if refusal.status == 403 or _fresh(signed):
            return False
        renewed = await self._renewed(signed)
        return renewed is not None and _header(renewed) != refusal.authorization

    # -- for whoever waits for an answer
    async def sign_in(self, refusal: Refusal, attempt: int = 1) -> None:
        """Have a person sign in; afterwards the same request may be sent again. `attempt` counts from 1 per action.

        Raises SignInRequired. Cancelling the last one who waits ends the flow.
        """
        challenge = ours(refusal.www_authenticate)
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
            if signed is not None and (
                _header(signed) != refusal.authorization or (signed.tokens.ended() and not more)
            ):
                # One that lives shortly may be over before it was used once, or on its way; that needs nobody.
                now = await self._renewed(signed) if signed.tokens.expired() else signed
                if now is not None and _header(now) != refusal.authorization:
                    return
            flight = self._flight
            if flight is None:
                await self._fly(refusal, more=more)
                return
            if await self._joined(flight):
                return

    async def _opened(self) -> bool:
        """Whether there is a sign-in after all, in a file whose pass phrase was asked for just now."""
        if await self._keep.unlocked(self._target.key, self._target.account):
            self._signed = await self._keep.load(self._target.key, self._target.account)
        return self._signed is not None

    async def _joined(self, flight: _Flight) -> bool:
        """Wait for somebody else's sign-in; False when they gave up waiting. Raises SignInRequired."""
        await flight.over.wait()
        if flight.error is not None:
            raise NotSignedIn(flight.error.message, flight.error.hint)
        return not flight.cancelled

    async def _fly(
        self,
        refusal: Refusal,
        *,
        more: bool,
        wanted: bool = True,
        device: bool = False,
        scopes: tuple[str, ...] = (),
    ) -> None:
        if self._machine is not None:
            self._signed = await earn(self._machine, self._requests, ours(refusal.www_authenticate))
            return
        flight = self._flight = _Flight()
        try:
            if self._signed is None and not refusal.authorization and await self._opened():
                return
            if self._person is None:
                raise await self._nobody(split(ours(refusal.www_authenticate).get("scope")) if more else ())
            await self._keep.prepare()
            machine = SignIn(self._target, self._requests, self._keep, self._person, self._told)
            before = self._signed or await self._keep.load(self._target.key, self._target.account)
            self._signed = await machine.run(
                ours(refusal.www_authenticate),
                before,
                more=more or bool(scopes),
                wanted_by_server=wanted,
                device=device,
                scopes=scopes,
            )
        except SignInRequired as error:
            _log.warning("sign-in to %s: %s", self._target.server, error.message)
            error.server = error.server or self._target.server
            flight.error = error
            raise
        except BaseException:
            flight.cancelled = True
            raise
        finally:
            self._told(Progress(server=self._target.server, account=self._target.account, step="over"))
            self._flight = None
            flight.over.set()

    async def _nobody(self, more: tuple[str, ...]) -> NotSignedIn:
        """Nobody can be asked here; `more` is what the server wants besides what was given, () for nothing."""
        name = self._target.server
        if not more:
            others = () if self._target.named else await self._keep.others(self._target.key, self._target.account)
            there = (
                f". Signed in there as {', '.join(others)}: mcphost accounts use {quote(name)} NAME" if others else ""
            )
            return NotSignedIn(
                f"The server {name!r} wants you to sign in.", f"Do it with: mcphost login {quote(name)}{there}"
            )
        # What a server wrote goes into a command to copy only where no shell could take it for anything else.
        plain = len(more) <= _MOST_NAMED and all(_PLAIN.fullmatch(scope) for scope in more)
        flags = "".join(f" --scope {scope}" for scope in more) if plain else ", with --scope for each of them"
        return NotSignedIn(
            f"The server {name!r} wants more rights for this: {' '.join(more)[:200]}.",
            f"Give them with: mcphost login {quote(name)}{flags}",
        )

    # -- for the user
    async def login(self, *, device: bool = False, scopes: tuple[str, ...] = ()) -> SignedIn:
        """Sign in anew, whatever there is already, or with whoever does that already.

        With `device` the user enters a code in a browser anywhere (RFC 8628). With `scopes` those are asked for besides
        what was given before.

        Raises SignInRequired, also when the server wants no account.
        """
        if self._flight is not None:
            await self._joined(self._flight)
            if self._signed is not None:
                return self._signed
        await self._choose()
        refusal = await probed(self._requests, self._target.url)
        challenge = refusal.www_authenticate
        if self._machine is None and self._signed is None and not await self._opened():
            self._signed = await self._keep.load(self._target.key, self._target.account)
        if self._signed is not None:
            refusal = Asked(refusal.status, challenge, _header(self._signed))
        await self._fly(refusal, more=False, wanted=refusal.status == 401, device=device, scopes=scopes)
        if self._signed is None:
            raise AssertionError("signed in to nothing")
        return self._signed

    async def settled(self, signed: SignedIn) -> str:
        """Ask where to keep a sign-in that no place took, if that can be asked; the place that has it now."""
        if self._machine is None:
            await self._keep.settle()
        return self._place(signed)

    def _place(self, signed: SignedIn) -> str:
        return self._keep.kept_in(signed) if self._machine is None else EARNED

    async def logout(self) -> tuple[SignedIn | None, bool]:
        """Erase the tokens here, and revoke them where that is possible (RFC 7009): what was erased, and whether.

        Raises McpHostError when it cannot be read where it is kept; then it is still there.
        """
        if self._machine is not None:
            gone, self._signed = self._signed, None
            return gone, gone is not None and await token_refresh.revoked(self._requests, gone)
        self._signed = None
        self._looked = True
        await self._choose()
        await self._keep.unlocked(self._target.key, self._target.account)
        gone = await self._keep.forget(self._target.key, self._target.account)
        return gone, gone is not None and await token_refresh.revoked(self._requests, gone)

    async def use(self) -> None:
        """From now on the account of this sign-in is the one for its server, where the user's file names none."""
        await self._keep.choose(self._target.key, self._target.account)

    async def forget_client(self) -> bool:
        """Drop the registrations with the server's authorization servers, so that the next sign-in makes a new one.

        Whether there was one. Raises SignInRequired when the server does not say who signs for it.
        """
        named = ours((await probed(self._requests, self._target.url)).www_authenticate).get("resource_metadata")
        resource = await find_resource(self._requests, self._target.url, named)
        return any([await self._keep.forget_issuer(issuer) for issuer in resource.issuers])

    async def _choose(self) -> None:
        """Once: whoever serves a session never becomes somebody else under it."""
        if not (self._settled or self._target.named or self._target.account):
            self._target = replace(self._target, account=await self._keep.chosen(self._target.key))
        self._settled = True

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
                self._signed = await token_refresh.renewed(self._keep, self._requests, old, self._signer_of)
            except McpHostError as error:
                # Not reachable now, or busy: a token that has not ended yet still serves.
                if not old.tokens.ended():
                    return old
                raise Unreachable(error.message, error.hint) from error
        return self._signed

    async def _earned(self, machine: Machine, refusal: Refusal) -> bool:
        """A token without a person; one that was just given and is refused is not asked for again."""
        async with self._renewing:
            signed = self._signed
            if signed is not None and _header(signed) != refusal.authorization:
                return True
            if signed is not None and _fresh(signed):
                return False
            self._signed = await earn(machine, self._requests, ours(refusal.www_authenticate))
        return True

    def _signer_of(self, signed: SignedIn) -> Signer | None:
        """Whoever proves that the token is ours; None for a token that needs no proof."""
        if not signed.key:
            return None
        if self._signer is None or self._signer_key != signed.key:
            self._signer, self._signer_key = Signer.stored(signed.key), signed.key
        return self._signer


def _header(signed: SignedIn) -> str:
    return f"{signed.tokens.kind} {signed.tokens.access}"


def _fresh(signed: SignedIn) -> bool:
    """Whether its token was issued just now, so that a refusal is not about its age.

    Many servers count whole seconds: a token of one second may be over at once.
    """
    return signed.tokens.age < min(_FRESH, (signed.tokens.lifetime - 1) / 2)
