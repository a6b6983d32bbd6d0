"""One sign-in as a named state machine: resource, issuer, client, person, code, tokens; each step may end it.

Specification: basic/authorization. Nothing of a redirect is used, or shown, before `state` and `iss` fit (RFC 9207).
"""

import secrets
from contextlib import AsyncExitStack
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlencode, urlsplit

import anyio

from mcphost.auth.callback import Callback, Redirect, listening, redirect_of
from mcphost.auth.challenge import Challenge
from mcphost.auth.device import poll, start
from mcphost.auth.keep import Keep, SignedIn
from mcphost.auth.metadata import IssuerDocument, Resource, Untrusted, check_pkce, find_issuer, find_resource
from mcphost.auth.pkce import Attempt
from mcphost.auth.proofs import Signer
from mcphost.auth.registration import Client, configured, published, registered
from mcphost.auth.requests import Requests, Unreachable
from mcphost.auth.tokens import TokenRefused, Tokens, exchange, wanted
from mcphost.auth.urls import canonical, checked
from mcphost.clean import visible
from mcphost.data import Data
from mcphost.errors import SignInNeeded
from mcphost.redact import register

SECONDS = 300.0
"""How long a person may take."""
OFFLINE = "offline_access"
PATH = "/callback"
"""The path of clients that were registered before we came: by hand, or in our metadata document."""


class Step(StrEnum):
    """Where a sign-in is."""

    RESOURCE = "asking the server who signs for it"
    ISSUER = "asking the authorization server what it can do"
    CLIENT = "introducing mcphost to the authorization server"
    PERSON = "waiting for you to sign in"
    CODE = "exchanging the code"
    DONE = "signed in"


class Target(Data, frozen=True, kw_only=True):
    """What to sign in to, and what the user configured for it."""

    server: str
    url: str
    account: str = ""
    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    port: int = 0
    document_url: str = ""
    """Where our client metadata document is published; "" for nowhere."""

    def __repr__(self) -> str:
        return f"Target({self.server!r})"

    @property
    def key(self) -> str:
        """The canonical URI of the server, under which its tokens are kept."""
        return canonical(self.url)


class Person(Protocol):
    """Whoever can sign in."""

    async def sign_in(
        self, *, server: str, account: str, issuer: str, url: str, scopes: tuple[str, ...], code: str, note: str
    ) -> str | None:
        """Show the address, and where it leads. None: refused. "": the browser has it, wait for its answer.

        With a `code` the user enters that at the address, anywhere, and there is nothing to paste. Anything else is
        the redirect address the user pasted. `note` says what was wrong with the last one. Cancelled when the browser's
        answer comes first.
        """
        ...


class NotSignedIn(SignInNeeded):
    """The person, or the authorization server, said no; or nobody did anything in time."""


class SignIn:
    """One run of the machine; `step` says where it is."""

    def __init__(self, target: Target, requests: Requests, keep: Keep, person: Person) -> None:
        self.step = Step.RESOURCE
        self._target = target
        self._requests = requests
        self._keep = keep
        self._person = person
        self._signer: Signer | None = None

    async def run(
        self,
        challenge: Challenge,
        before: SignedIn | None,
        *,
        more: bool,
        wanted_by_server: bool = True,
        device: bool = False,
    ) -> SignedIn:
        """Sign in. With `more` the scopes of `before` are asked for again, besides those of the challenge.

        A server that did not ask for it (`wanted_by_server` false) must at least have metadata. With `device` the user
        enters a code in a browser anywhere.

        Raises NotSignedIn, Untrusted, Unsafe, Unreachable, RegistrationRefused, TokenRefused. Can be cancelled.
        """
        target = self._target
        resource = await find_resource(self._requests, target.url, challenge.get("resource_metadata"))
        if resource.legacy and not wanted_by_server:
            raise NotSignedIn(f"The server {target.server!r} does not ask for an account.", "There is nothing to do.")
        self.step = Step.ISSUER
        issuer = await self._issuer(resource, before)
        document = await find_issuer(self._requests, issuer, legacy=resource.legacy)
        authorize = self._by_device if device else self._authorized
        if not device:
            check_pkce(document, legacy=resource.legacy)
            if not document.authorization_endpoint:
                raise Unreachable(f"The authorization server {issuer[:200]} has no authorization endpoint.")
            await self._requests.judge(document.authorization_endpoint, "authorization endpoint")
        same = before is not None and before.issuer == issuer
        earlier = (before.asked or before.tokens.scopes) if before is not None and same and more else ()
        scopes = wanted(challenge.get("scope"), resource.scopes, earlier)
        if scopes and OFFLINE in document.scopes_supported and OFFLINE not in scopes:
            scopes = (*scopes, OFFLINE)  # otherwise no refresh token comes, and a person must sign in again and again
        # A challenge of the scheme DPoP, or its metadata, says that a token must be bound to a key (RFC 9449).
        self._signer = Signer.fresh() if challenge.scheme == "dpop" or resource.dpop else None
        try:
            tokens, client = await authorize(resource, document, issuer, scopes)
        except TokenRefused as error:
            # A registration the server forgot (RFC 6749, invalid_client) is made anew, once.
            stale = await self._keep.client(issuer)
            if error.code not in ("invalid_client", "unauthorized_client") or stale is None or self._target.client_id:
                raise
            await self._keep.forget_client(stale)
            tokens, client = await authorize(resource, document, issuer, scopes)
        return await self._kept(resource, document, issuer, tokens, client, scopes)

    async def _kept(
        self,
        resource: Resource,
        document: IssuerDocument,
        issuer: str,
        tokens: Tokens,
        client: Client,
        scopes: tuple[str, ...],
    ) -> SignedIn:
        """The end: everything that later renewals need, stored. Nothing may be awaited between the token and this."""
        self.step = Step.DONE
        signed = SignedIn(
            server=self._target.server,
            url=self._target.key,
            issuer=issuer,
            resource=resource.identifier,
            token_endpoint=document.token_endpoint,
            revocation_endpoint=document.revocation_endpoint,
            tokens=tokens,
            client=client,
            account=self._target.account,
            asked=scopes,
            key=self._signer.jwk() if self._signer is not None and tokens.kind == "DPoP" else "",
        )
        await self._keep.save(signed)
        return signed

    async def _issuer(self, resource: Resource, before: SignedIn | None) -> str:
        """The configured authorization server, one that knows us, or the first. Raises Untrusted."""
        chosen = self._target.issuer
        if not chosen and before is not None and before.client.kind == "configured":
            # Nobody said where that client id belongs; then it belongs where it was used first.
            chosen = before.issuer if before.client.id == self._target.client_id else ""
        if chosen and chosen not in resource.issuers:
            raise Untrusted(
                f"The client id of the server {self._target.server!r} belongs to the authorization server "
                f"{chosen[:200]!r}, but the server names {', '.join(issuer[:200] for issuer in resource.issuers)} now.",
                "What was entered for one is not sent to another. If that is right, correct it in mcp.json.",
            )
        if chosen:
            return chosen
        if before is not None and before.issuer in resource.issuers:
            return before.issuer
        for issuer in resource.issuers:
            if await self._keep.client(issuer) is not None:
                return issuer
        return resource.issuers[0]

    async def _authorized(
        self, resource: Resource, document: IssuerDocument, issuer: str, scopes: tuple[str, ...]
    ) -> tuple[Tokens, Client]:
        self.step = Step.CLIENT
        async with AsyncExitStack() as stack:
            callback, client = await self._client(stack, document, issuer, scopes)
            attempt = Attempt()
            parameters = {
                "response_type": "code",
                "client_id": client.id,
                "redirect_uri": callback.redirect_uri,
                "state": attempt.state,
                "code_challenge": attempt.challenge,
                "code_challenge_method": attempt.METHOD,
                "resource": resource.identifier,
            }
            if scopes:
                parameters["scope"] = " ".join(scopes)
            url = _with_query(document.authorization_endpoint, parameters)
            self.step = Step.PERSON
            redirect = await self._redirect(callback, attempt, url, issuer, scopes)
        code = self._code(redirect, document, issuer)
        self.step = Step.CODE
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        # The code works once: what it buys must arrive, and is stored before anybody may cancel.
        with anyio.CancelScope(shield=True):
            tokens = await exchange(self._requests, document, client, resource.identifier, form, signer=self._signer)
            return tokens, client
        raise AssertionError("a shield stops nothing")

    async def _by_device(
        self, resource: Resource, document: IssuerDocument, issuer: str, scopes: tuple[str, ...]
    ) -> tuple[Tokens, Client]:
        self.step = Step.CLIENT
        async with AsyncExitStack() as stack:
            _, client = await self._client(stack, document, issuer, scopes)
        code = await start(self._requests, document, client, resource.identifier, scopes)
        self.step = Step.PERSON
        outcome: list[Tokens | SignInNeeded] = []

        async def ask() -> None:
            said = await self._person.sign_in(
                server=self._target.server,
                account=self._target.account,
                issuer=issuer,
                url=code.address,
                scopes=scopes,
                code=code.user_code,
                note="",
            )
            if said is None:
                outcome.append(self._refused())
                tasks.cancel_scope.cancel()

        with anyio.move_on_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                try:
                    signer = self._signer
                    outcome.append(
                        await poll(self._requests, document, client, resource.identifier, code, signer=signer)
                    )
                except SignInNeeded as error:
                    outcome.append(error)
                tasks.cancel_scope.cancel()
        came = next((one for one in outcome if isinstance(one, Tokens)), outcome[0] if outcome else self._nobody())
        if isinstance(came, Tokens):
            return came, client
        raise came

    def _refused(self) -> NotSignedIn:
        name = self._target.server
        return NotSignedIn(f"You did not sign in to {name!r}.", f"Do it with: mcphost login {name}")

    def _nobody(self) -> NotSignedIn:
        name = self._target.server
        return NotSignedIn(
            f"Nobody signed in to {name!r} within {SECONDS / 60:g} minutes.", f"Try again with: mcphost login {name}"
        )

    async def _client(
        self, stack: AsyncExitStack, document: IssuerDocument, issuer: str, scopes: tuple[str, ...]
    ) -> tuple[Callback, Client]:
        """Who we are there, and the listener whose address was registered for it."""
        target = self._target
        if target.client_id:
            client = configured(document, issuer, target.client_id, target.client_secret)
            return await self._listen(stack, target.port, PATH), client
        known = await self._keep.client(issuer)
        if known is not None and known.may_ask(scopes):
            where = urlsplit(known.redirect_uri)
            try:
                return await stack.enter_async_context(listening(where.port or 0, where.path)), known
            except OSError:
                pass  # another program has that port now; a new registration brings a new address
        if document.client_id_metadata_document_supported and target.document_url:
            return await self._listen(stack, 0, PATH), published(issuer, target.document_url)
        if not document.registration_endpoint:
            raise NotSignedIn(
                f"The authorization server {issuer[:200]} registers nobody by itself.",
                'Register mcphost there and enter its id: "mcphost": {"oauth": {"clientId": "…"}} in mcp.json.',
            )
        callback = await self._listen(stack, 0, f"{PATH}/{secrets.token_urlsafe(12)}")
        client = await registered(self._requests, document, issuer, callback.redirect_uri, scopes)
        await self._keep.save_client(client)
        return callback, client

    async def _listen(self, stack: AsyncExitStack, port: int, path: str) -> Callback:
        try:
            return await stack.enter_async_context(listening(port, path))
        except OSError as error:
            where = f"port {port}" if port else "any port"
            raise NotSignedIn(f"mcphost cannot listen on {where} of this machine: {error.strerror}.") from error

    async def _redirect(
        self, callback: Callback, attempt: Attempt, url: str, issuer: str, scopes: tuple[str, ...]
    ) -> Redirect:
        """The first answer with our state, from the browser or from the person."""
        found: list[Redirect] = []
        refused = False

        def fits(redirect: Redirect) -> bool:
            return secrets.compare_digest(redirect.get("state").encode(), attempt.state.encode())

        async def ask() -> None:
            nonlocal refused
            note = ""
            while True:
                said = await self._person.sign_in(
                    server=self._target.server,
                    account=self._target.account,
                    issuer=issuer,
                    url=url,
                    scopes=scopes,
                    code="",
                    note=note,
                )
                if said is None:
                    refused = True
                    tasks.cancel_scope.cancel()
                if not said:
                    return
                pasted = redirect_of(said)
                if fits(pasted):
                    found.append(pasted)
                    tasks.cancel_scope.cancel()
                    return
                note = "That is not the address that this sign-in ended at."

        callback.expect(fits)
        with anyio.move_on_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                found.append(await callback.wait())
                tasks.cancel_scope.cancel()
        if found:
            return found[0]
        raise self._refused() if refused else self._nobody()

    def _code(self, redirect: Redirect, document: IssuerDocument, issuer: str) -> str:
        """The code, once the answer is known to come from the server we asked. Raises Untrusted, NotSignedIn."""
        if "iss" in redirect.params:
            if redirect.params["iss"] != document.issuer:
                raise Untrusted(f"The answer to the sign-in does not come from {issuer[:200]}; it was not used.")
        elif document.authorization_response_iss_parameter_supported:
            raise Untrusted(
                f"The answer to the sign-in does not say that it comes from {issuer[:200]}; it was not used."
            )
        if error := redirect.get("error"):
            words = [visible(word[:300], keep_newlines=False) for word in (error, redirect.get("error_description"))]
            said = ": ".join(word for word in words if word)
            raise NotSignedIn(f"The authorization server {issuer[:200]} said: {said}.", "Sign in again.")
        code = redirect.get("code")
        if not code:
            raise NotSignedIn(f"The authorization server {issuer[:200]} sent neither a code nor an error.")
        register(code)
        return code


def _with_query(endpoint: str, parameters: dict[str, str]) -> str:
    joint = "&" if urlsplit(endpoint).query else "?"
    return checked(f"{endpoint}{joint}{urlencode(parameters)}", "authorization endpoint")
