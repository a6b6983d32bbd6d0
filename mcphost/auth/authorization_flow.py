"""The sign-in of a user: discover, register, authorize, exchange, store; each step may end it.

Specification: basic/authorization. The steps with the user are in `code_flow` and `device_flow`.
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
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import TokenError, TokenSet, is_scope, select_scopes
from mcphost.auth.user_interaction import (
    ProgressCallback,
    SignInFailed,
    SignInInteraction,
    SignInTarget,
    ignore_progress,
)
from mcphost.errors import SignInRequired

OFFLINE_ACCESS = "offline_access"


class SignInNotRequired(SignInFailed):
    """The server does not require an account."""


class AuthorizationFlow:
    """One sign-in of a user; `step` is the current step, and *on_progress* receives each."""

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
        """The current step."""
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
        """Sign in and return what was stored; can be cancelled.

        With *is_step_up* the scopes of *previous* are requested again, in addition to those of the challenge and
        *scopes*. Unless *is_required*, the server must at least have metadata. With *use_device_code* the user enters a
        code in a browser on any machine.

        Raises SignInFailed (SignInNotRequired), UntrustedMetadata, UnsafeUrl, EndpointUnreachable, RegistrationError,
        TokenError, InvalidScopes.
        """
        target = self._target
        self._interactive.report_step(SignInStep.RESOURCE)
        resource = await discover_resource(self._http, target.url, challenge.get("resource_metadata"))
        if resource.is_legacy and not is_required:
            raise SignInNotRequired(
                f"The server {target.server!r} does not require an account.", "There is nothing to do."
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
            # With a device code the secret is sent before the user has seen where it goes.
            raise UntrustedMetadata(
                f"The server {target.server!r} requires a sign-in at {issuer[:200]!r}, but mcp.json names no issuer "
                "for its client secret; nothing was sent.",
                'If that is right, add "mcphost": {"oauth": {"issuer": "…"}} to this server.',
            )
        discovered = await discover_issuer(self._http, issuer, is_legacy=resource.is_legacy)
        document = discovered.metadata
        if previous is not None and previous.issuer == issuer and is_step_up:
            granted = previous.requested_scopes or previous.tokens.scopes
            # Earlier versions stored scopes without checking them.
            scopes = (*filter(is_scope, granted), *scopes)
        scopes = select_scopes(challenge.get("scope"), resource.scopes, scopes)
        if scopes and OFFLINE_ACCESS in document.scopes_supported and OFFLINE_ACCESS not in scopes:
            scopes = (*scopes, OFFLINE_ACCESS)  # otherwise no refresh token is issued
        # A DPoP challenge, or the metadata, requires that the token is bound to a key (RFC 9449).
        self._interactive.signer = (
            JwtSigner.generate() if challenge.scheme == "dpop" or resource.requires_dpop else None
        )
        request = AuthorizationRequest(resource, document, issuer, scopes)
        tokens, client = await self._obtain_tokens(request, use_device_code=use_device_code)
        return await self._store(request, tokens, client, summarize_discovery(resource, discovered))

    async def _obtain_tokens(
        self, request: AuthorizationRequest, *, use_device_code: bool
    ) -> tuple[TokenSet, OAuthClient]:
        """Authorize in a browser or with a device code; the user may switch between them."""
        with_code, has_registered_again = use_device_code, False
        while True:
            run_flow = run_device_flow if with_code else run_code_flow
            try:
                return await run_flow(self._interactive, request)
            except SignInMethodSwitched:
                with_code, self._interactive.previous_error = not with_code, ""
            except SignInRequired as error:
                # If the server deleted the registration (RFC 6749, invalid_client), register again, once.
                client = await self._token_store.load_client(request.issuer)
                is_unknown = isinstance(error, TokenError) and error.code in ("invalid_client", "unauthorized_client")
                if is_unknown and not has_registered_again and client is not None and not self._target.client_id:
                    has_registered_again = True
                    await self._token_store.delete_client(client)
                elif with_code != use_device_code and self.step is SignInStep.CLIENT:
                    # The other method could not start: return to the first one, with the reason.
                    with_code, self._interactive.previous_error = use_device_code, error.message
                else:
                    raise

    async def _store(
        self, request: AuthorizationRequest, tokens: TokenSet, client: OAuthClient, discovery: DiscoverySummary
    ) -> StoredSignIn:
        """Store everything that a refresh needs. Nothing may be awaited between the token and this."""
        self._interactive.report_step(SignInStep.DONE)
        document, signer = request.metadata, self._interactive.signer
        sign_in = StoredSignIn(
            server=self._target.server,
            url=self._target.canonical_url,
            issuer=request.issuer,
            resource=request.resource.identifier,
            token_endpoint=document.token_endpoint,
            revocation_endpoint=document.revocation_endpoint,
            tokens=tokens,
            client=client,
            account=self._target.account,
            requested_scopes=request.scopes,
            dpop_key=signer.export_jwk() if signer is not None and tokens.kind == "DPoP" else "",
            discovery=discovery,
        )
        await self._token_store.save(sign_in)
        if client.kind == ENTERED_KIND:
            await self._token_store.save_client(client)
        return sign_in

    async def _choose_issuer(self, resource: ProtectedResource, previous: StoredSignIn | None) -> str:
        """Return the configured issuer, one that knows mcphost, or the first. Raises UntrustedMetadata."""
        configured = self._target.issuer
        if not configured and previous is not None and previous.client.kind == "configured":
            # A client id that is configured without an issuer belongs to the one that it was first used with.
            configured = previous.issuer if previous.client.id == self._target.client_id else ""
        if configured and configured not in resource.issuers:
            raise UntrustedMetadata(
                f"The client id of the server {self._target.server!r} belongs to the authorization server "
                f"{configured[:200]!r}, but the server now names {', '.join(name[:200] for name in resource.issuers)}.",
                "Credentials of one are not sent to another. If the change is right, correct mcp.json.",
            )
        if configured:
            return configured
        if previous is not None and previous.issuer in resource.issuers:
            return previous.issuer
        for issuer in resource.issuers:
            if await self._token_store.load_client(issuer) is not None:
                return issuer
        return resource.issuers[0]
