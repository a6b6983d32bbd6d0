"""One sign-in as a named state machine: resource, issuer, client, person, code, tokens; each step may end it.

Specification: basic/authorization. The steps that a person attends are in `in_browser` and `by_code`.
"""

from mcphost.auth.accounts import DiscoverySummary
from mcphost.auth.code_flow import run_code_flow
from mcphost.auth.device_flow import run_device_flow
from mcphost.auth.discovery import (
    Challenge,
    ProtectedResource,
    UntrustedMetadata,
    discover_issuer,
    discover_resource,
    summarize_discovery,
)
from mcphost.auth.dpop import JwtSigner
from mcphost.auth.interactive_flow import AuthorizationRequest, InteractiveSignIn, SignInMethodSwitched, SignInStep
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.registration import ENTERED_KIND, OAuthClient
from mcphost.auth.sign_in import ProgressCallback, SignInFailed, SignInInteraction, SignInTarget, ignore_progress
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import TokenError, TokenSet, is_scope, select_scopes
from mcphost.errors import SignInRequired

OFFLINE_ACCESS = "offline_access"


class SignInNotRequired(SignInFailed):
    """The server does not ask for an account, so there is nothing to sign in to."""


class AuthorizationFlow:
    """One run of the machine; `step` says where it is, and `tell` hears of it."""

    def __init__(
        self,
        target: SignInTarget,
        http: OAuthHttpClient,
        token_store: TokenStore,
        interaction: SignInInteraction,
        on_progress: ProgressCallback = ignore_progress,
    ) -> None:
        self._target = target
        self._http = http
        self._token_store = token_store
        self._interactive = InteractiveSignIn(target, http, token_store, interaction, on_progress)

    @property
    def step(self) -> SignInStep:
        """Where it is."""
        return self._interactive.step

    async def run(
        self,
        challenge: Challenge,
        previous: StoredSignIn | None,
        *,
        is_step_up: bool,
        is_required: bool = True,
        use_device_code: bool = False,
        scopes: tuple[str, ...] = (),
    ) -> StoredSignIn:
        """Sign in. With `more` the scopes of `before` are asked for again, besides those of the challenge and `scopes`.

        A server that did not ask for it (`wanted_by_server` false) must at least have metadata. With `device` the user
        enters a code in a browser anywhere.

        Raises SignInFailed (SignInNotRequired), Untrusted, Unsafe, Unreachable, RegistrationError, TokenError,
        InvalidScopes. Can be cancelled.
        """
        target = self._target
        self._interactive.report_step(SignInStep.RESOURCE)
        resource = await discover_resource(self._http, target.url, challenge.get("resource_metadata"))
        if resource.is_legacy and not is_required:
            raise SignInNotRequired(
                f"The server {target.server!r} does not ask for an account.", "There is nothing to do."
            )
        resource = resource.with_issuer(target.issuer)
        self._interactive.report_step(SignInStep.ISSUER)
        issuer = await self._choose_issuer(resource, previous)
        if (
            use_device_code
            and target.client_secret
            and not target.issuer
            and (previous is None or previous.issuer != issuer)
        ):
            # By a code the secret leaves before the person has seen where it goes.
            raise UntrustedMetadata(
                f"The server {target.server!r} wants a sign-in at {issuer[:200]!r}, and mcp.json does not say where "
                "its client secret belongs; nothing was sent.",
                'If that is right, enter it there: "mcphost": {"oauth": {"issuer": "…"}} for this server.',
            )
        found = await discover_issuer(self._http, issuer, is_legacy=resource.is_legacy)
        document = found.metadata
        same = previous is not None and previous.issuer == issuer
        known = (previous.asked or previous.tokens.scopes) if previous is not None and same and is_step_up else ()
        earlier = filter(is_scope, known)  # earlier versions kept whatever a server called one
        scopes = select_scopes(challenge.get("scope"), resource.scopes, (*earlier, *scopes))
        if scopes and OFFLINE_ACCESS in document.scopes_supported and OFFLINE_ACCESS not in scopes:
            scopes = (
                *scopes,
                OFFLINE_ACCESS,
            )  # otherwise no refresh token comes, and a person must sign in again and again
        # A challenge of the scheme DPoP, or its metadata, says that a token must be bound to a key (RFC 9449).
        self._interactive.signer = (
            JwtSigner.generate() if challenge.scheme == "dpop" or resource.requires_dpop else None
        )
        sought = AuthorizationRequest(resource, document, issuer, scopes)
        tokens, client = await self._obtain_tokens(sought, use_device_code=use_device_code)
        return await self._store(sought, tokens, client, summarize_discovery(resource, found))

    async def _obtain_tokens(
        self, request: AuthorizationRequest, *, use_device_code: bool
    ) -> tuple[TokenSet, OAuthClient]:
        """In a browser or with a code, as begun and as the person goes on."""
        with_code, anew = use_device_code, False
        while True:
            way = run_device_flow if with_code else run_code_flow
            try:
                return await way(self._interactive, request)
            except SignInMethodSwitched:
                with_code, self._interactive.previous_error = not with_code, ""
            except SignInRequired as error:
                # A registration the server forgot (RFC 6749, invalid_client) is made anew, once.
                stale = await self._token_store.load_client(request.issuer)
                forgot = isinstance(error, TokenError) and error.code in ("invalid_client", "unauthorized_client")
                if forgot and not anew and stale is not None and not self._target.client_id:
                    anew = True
                    await self._token_store.delete_client(stale)
                elif with_code != use_device_code and self.step is SignInStep.CLIENT:
                    # The other way could not even begin: back to the one that did, with what was said against it.
                    with_code, self._interactive.previous_error = use_device_code, error.message
                else:
                    raise

    async def _store(
        self, request: AuthorizationRequest, tokens: TokenSet, client: OAuthClient, discovery: DiscoverySummary
    ) -> StoredSignIn:
        """The end: everything that later renewals need, stored. Nothing may be awaited between the token and this."""
        self._interactive.report_step(SignInStep.DONE)
        document, signer = request.metadata, self._interactive.signer
        signed = StoredSignIn(
            server=self._target.server,
            url=self._target.canonical_url,
            issuer=request.issuer,
            resource=request.resource.identifier,
            token_endpoint=document.token_endpoint,
            revocation_endpoint=document.revocation_endpoint,
            tokens=tokens,
            client=client,
            account=self._target.account,
            asked=request.scopes,
            key=signer.export_jwk() if signer is not None and tokens.kind == "DPoP" else "",
            discovered=discovery,
        )
        await self._token_store.save(signed)
        if client.kind == ENTERED_KIND:
            await self._token_store.save_client(client)
        return signed

    async def _choose_issuer(self, resource: ProtectedResource, previous: StoredSignIn | None) -> str:
        """The configured authorization server, one that knows us, or the first. Raises UntrustedMetadata."""
        chosen = self._target.issuer
        if not chosen and previous is not None and previous.client.kind == "configured":
            # Nobody said where that client id belongs; then it belongs where it was used first.
            chosen = previous.issuer if previous.client.id == self._target.client_id else ""
        if chosen and chosen not in resource.issuers:
            raise UntrustedMetadata(
                f"The client id of the server {self._target.server!r} belongs to the authorization server "
                f"{chosen[:200]!r}, but the server names {', '.join(issuer[:200] for issuer in resource.issuers)} now.",
                "What was entered for one is not sent to another. If that is right, correct it in mcp.json.",
            )
        if chosen:
            return chosen
        if previous is not None and previous.issuer in resource.issuers:
            return previous.issuer
        for issuer in resource.issuers:
            if await self._token_store.load_client(issuer) is not None:
                return issuer
        return resource.issuers[0]
