"""Who we are to an issuer, and the listener for its answer: configured, known, published, registered, or asked for.

Specification: basic/authorization, client registration approaches, in their order.
"""

import secrets
from contextlib import AsyncExitStack

import anyio

from mcphost.auth.callback_server import CallbackServer, run_callback_server
from mcphost.auth.client_registration import (
    ENTERED_KIND,
    OAuthClient,
    RegistrationError,
    make_configured_client,
    make_entered_client,
    make_metadata_document_client,
    register_client,
)
from mcphost.auth.discovery import AuthorizationServerMetadata
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.sign_in_target import SignInTarget
from mcphost.auth.token_store import TokenStore
from mcphost.auth.user_interaction import SignInFailed, SignInInteraction
from mcphost.unicode_forms import split_url

CALLBACK_PATH = "/callback"
"""The path of clients that were registered by hand, or in our metadata document."""
MANUAL_REGISTRATION_FACTOR = 6
"""So many times longer than for a sign-in a person may take to register mcphost by hand."""
_MAX_ATTEMPTS = 3


class ClientResolver:
    """How mcphost introduces itself for one sign-in."""

    def __init__(
        self, target: SignInTarget, http: OAuthHttpClient, token_store: TokenStore, interaction: SignInInteraction
    ) -> None:
        self._target = target
        self._http = http
        self._token_store = token_store
        self._interaction = interaction
        self._entered_client: OAuthClient | None = None

    async def resolve(
        self, stack: AsyncExitStack, document: AuthorizationServerMetadata, issuer: str, scopes: tuple[str, ...]
    ) -> tuple[CallbackServer, OAuthClient]:
        """Who we are there, and the open listener whose address was registered for it; it closes with `stack`.

        Raises SignInFailed, RegistrationError, Unsafe, Unreachable.
        """
        target = self._target
        if target.client_id:
            client = make_configured_client(document, issuer, target.client_id, target.client_secret)
            return await self._start_callback_server(stack, target.port, CALLBACK_PATH), client
        known = self._entered_client or await self._token_store.load_client(issuer)
        if known is not None and known.can_request(scopes):
            where = split_url(known.redirect_uri)
            try:
                return await stack.enter_async_context(run_callback_server(where.port or 0, where.path)), known
            except OSError:
                # Another program has that port now. A new registration brings a new address; for one that was made by
                # hand the authorization server should take any port of this machine (RFC 8252, section 7.3).
                if known.kind == ENTERED_KIND:
                    return await self._start_callback_server(stack, 0, where.path), known
        if document.client_id_metadata_document_supported and target.client_metadata_url:
            return await self._start_callback_server(stack, 0, CALLBACK_PATH), make_metadata_document_client(
                issuer, target.client_metadata_url
            )
        if not document.registration_endpoint:
            refusal = RegistrationError(
                f"The authorization server {issuer[:200]} registers nobody by itself.",
                'Register mcphost there and enter its id: "mcphost": {"oauth": {"clientId": "…"}} in mcp.json.',
            )
            return await self._ask_for_client(stack, document, issuer, refusal)
        callback = await self._start_callback_server(stack, 0, f"{CALLBACK_PATH}/{secrets.token_urlsafe(12)}")
        try:
            client = await register_client(self._http, document, issuer, callback.redirect_uri, scopes)
        except RegistrationError as error:
            return await self._ask_for_client(stack, document, issuer, error)
        await self._token_store.save_client(client)
        return callback, client

    async def _ask_for_client(
        self, stack: AsyncExitStack, document: AuthorizationServerMetadata, issuer: str, error: RegistrationError
    ) -> tuple[CallbackServer, OAuthClient]:
        """A client that the user registered by hand; it is kept once a sign-in worked with it. Raises `refusal`."""
        target = self._target
        callback = await self._start_callback_server(stack, target.port, CALLBACK_PATH)
        note = error.message
        with anyio.move_on_after(target.timeout * MANUAL_REGISTRATION_FACTOR):
            for _ in range(_MAX_ATTEMPTS):
                given = await self._interaction.ask_client_id(
                    server=target.server,
                    account=target.account,
                    issuer=issuer,
                    redirect_uri=callback.redirect_uri,
                    note=note,
                )
                if given is None:
                    raise error
                client = make_entered_client(document, issuer, *given, callback.redirect_uri)
                if client is not None:
                    self._entered_client = client
                    return callback, client
                note = "A client id, and a secret, are printable characters without spaces. Copy them once more."
        raise error

    async def _start_callback_server(self, stack: AsyncExitStack, port: int, path: str) -> CallbackServer:
        try:
            return await stack.enter_async_context(run_callback_server(port, path))
        except OSError as error:
            where = f"port {port}" if port else "any port"
            raise SignInFailed(f"mcphost cannot listen on {where} of this machine: {error.strerror}.") from error
