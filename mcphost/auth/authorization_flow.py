"""One sign-in as a named state machine: resource, issuer, client, person, code, tokens; each step may end it.

Specification: basic/authorization. The steps that a person attends are in `in_browser` and `by_code`.
"""

from mcphost.auth.account import Discovered
from mcphost.auth.client_registration import ENTERED, Client
from mcphost.auth.code_flow import in_browser
from mcphost.auth.device_flow import by_code
from mcphost.auth.discovery import Resource, Untrusted, discovered, find_issuer, find_resource
from mcphost.auth.interactive_flow import Attended, OtherWay, Sought, Step
from mcphost.auth.jwt_proofs import Signer
from mcphost.auth.oauth_http import Requests
from mcphost.auth.sign_in_target import Target
from mcphost.auth.stored_sign_in import SignedIn
from mcphost.auth.token_store import Keep
from mcphost.auth.tokens import TokenRefused, Tokens, is_scope, wanted
from mcphost.auth.user_interaction import NotSignedIn, Person, Tell, unheard
from mcphost.auth.www_authenticate import Challenge
from mcphost.errors import SignInRequired

OFFLINE = "offline_access"


class NotWanted(NotSignedIn):
    """The server does not ask for an account, so there is nothing to sign in to."""


class SignIn:
    """One run of the machine; `step` says where it is, and `tell` hears of it."""

    def __init__(self, target: Target, requests: Requests, keep: Keep, person: Person, tell: Tell = unheard) -> None:
        self._target = target
        self._requests = requests
        self._keep = keep
        self._run = Attended(target, requests, keep, person, tell)

    @property
    def step(self) -> Step:
        """Where it is."""
        return self._run.step

    async def run(
        self,
        challenge: Challenge,
        before: SignedIn | None,
        *,
        more: bool,
        wanted_by_server: bool = True,
        device: bool = False,
        scopes: tuple[str, ...] = (),
    ) -> SignedIn:
        """Sign in. With `more` the scopes of `before` are asked for again, besides those of the challenge and `scopes`.

        A server that did not ask for it (`wanted_by_server` false) must at least have metadata. With `device` the user
        enters a code in a browser anywhere.

        Raises NotSignedIn (NotWanted), Untrusted, Unsafe, Unreachable, RegistrationRefused, TokenRefused,
        ScopesRefused. Can be cancelled.
        """
        target = self._target
        self._run.at(Step.RESOURCE)
        resource = await find_resource(self._requests, target.url, challenge.get("resource_metadata"))
        if resource.legacy and not wanted_by_server:
            raise NotWanted(f"The server {target.server!r} does not ask for an account.", "There is nothing to do.")
        resource = resource.at(target.issuer)
        self._run.at(Step.ISSUER)
        issuer = await self._issuer(resource, before)
        if device and target.client_secret and not target.issuer and (before is None or before.issuer != issuer):
            # By a code the secret leaves before the person has seen where it goes.
            raise Untrusted(
                f"The server {target.server!r} wants a sign-in at {issuer[:200]!r}, and mcp.json does not say where "
                "its client secret belongs; nothing was sent.",
                'If that is right, enter it there: "mcphost": {"oauth": {"issuer": "…"}} for this server.',
            )
        found = await find_issuer(self._requests, issuer, legacy=resource.legacy)
        document = found.document
        same = before is not None and before.issuer == issuer
        known = (before.asked or before.tokens.scopes) if before is not None and same and more else ()
        earlier = filter(is_scope, known)  # earlier versions kept whatever a server called one
        scopes = wanted(challenge.get("scope"), resource.scopes, (*earlier, *scopes))
        if scopes and OFFLINE in document.scopes_supported and OFFLINE not in scopes:
            scopes = (*scopes, OFFLINE)  # otherwise no refresh token comes, and a person must sign in again and again
        # A challenge of the scheme DPoP, or its metadata, says that a token must be bound to a key (RFC 9449).
        self._run.signer = Signer.fresh() if challenge.scheme == "dpop" or resource.dpop else None
        sought = Sought(resource, document, issuer, scopes)
        tokens, client = await self._tokens(sought, device=device)
        return await self._kept(sought, tokens, client, discovered(resource, found))

    async def _tokens(self, sought: Sought, *, device: bool) -> tuple[Tokens, Client]:
        """In a browser or with a code, as begun and as the person goes on."""
        with_code, anew = device, False
        while True:
            way = by_code if with_code else in_browser
            try:
                return await way(self._run, sought)
            except OtherWay:
                with_code, self._run.note = not with_code, ""
            except SignInRequired as error:
                # A registration the server forgot (RFC 6749, invalid_client) is made anew, once.
                stale = await self._keep.client(sought.issuer)
                forgot = isinstance(error, TokenRefused) and error.code in ("invalid_client", "unauthorized_client")
                if forgot and not anew and stale is not None and not self._target.client_id:
                    anew = True
                    await self._keep.forget_client(stale)
                elif with_code != device and self.step is Step.CLIENT:
                    # The other way could not even begin: back to the one that did, with what was said against it.
                    with_code, self._run.note = device, error.message
                else:
                    raise

    async def _kept(self, sought: Sought, tokens: Tokens, client: Client, found: Discovered) -> SignedIn:
        """The end: everything that later renewals need, stored. Nothing may be awaited between the token and this."""
        self._run.at(Step.DONE)
        document, signer = sought.document, self._run.signer
        signed = SignedIn(
            server=self._target.server,
            url=self._target.key,
            issuer=sought.issuer,
            resource=sought.resource.identifier,
            token_endpoint=document.token_endpoint,
            revocation_endpoint=document.revocation_endpoint,
            tokens=tokens,
            client=client,
            account=self._target.account,
            asked=sought.scopes,
            key=signer.jwk() if signer is not None and tokens.kind == "DPoP" else "",
            discovered=found,
        )
        await self._keep.save(signed)
        if client.kind == ENTERED:
            await self._keep.save_client(client)
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
