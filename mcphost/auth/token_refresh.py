"""Refresh and revocation of an account's stored tokens."""

from collections.abc import Callable
from functools import partial

from mcphost.auth.cancellation_grace import finish_despite_cancellation
from mcphost.auth.discovery import AuthorizationServerMetadata
from mcphost.auth.dpop import JwtSigner
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import TokenError, authenticate_client, request_tokens
from mcphost.errors import SignInRequired
from mcphost.serialization import replace

_FATAL_ERRORS = ("invalid_grant", "invalid_client", "unauthorized_client")


async def refresh_sign_in(
    token_store: TokenStore,
    http: OAuthHttpClient,
    old: StoredSignIn,
    get_signer: Callable[[StoredSignIn], JwtSigner | None],
) -> StoredSignIn | None:
    """Refresh the tokens of *old*; return the new tokens, or None if the user must sign in again.

    If another process has stored newer tokens that need no refresh, those newer tokens are returned. *get_signer*
    returns the signer for DPoP proofs, or None if the tokens are not bound to a key. If the old tokens were bound to a
    key and the new ones are not, the new ones are rejected, and None is returned. The stored tokens are deleted if the
    authorization server rejects the refresh token or the client.

    Raises McpHostError if the authorization server cannot be reached, or if another process locks the tokens for too
    long.
    """
    async with token_store.lock(old.url, old.account):
        stored = await token_store.load(old.url, old.account, reload=True)
        if stored is None or not stored.tokens.refresh:
            return stored  # another process signed out, or signed in again without receiving a refresh token
        if stored.tokens.access != old.tokens.access and not stored.tokens.needs_refresh():
            return stored
        # The request may invalidate the old refresh token, so its response must be stored.
        return await finish_despite_cancellation(
            partial(_refresh_stored, token_store, http, stored, get_signer(stored))
        )


async def _refresh_stored(
    token_store: TokenStore, http: OAuthHttpClient, stored: StoredSignIn, signer: JwtSigner | None
) -> StoredSignIn | None:
    """Refresh the tokens of *stored* as `refresh_sign_in` does; the caller holds their lock."""
    document = AuthorizationServerMetadata(issuer=stored.issuer, token_endpoint=stored.token_endpoint)
    form = {"grant_type": "refresh_token", "refresh_token": stored.tokens.refresh}
    try:
        tokens = await request_tokens(http, document, stored.client, stored.resource, form, signer=signer)
    except EndpointUnreachable:
        raise
    except TokenError as error:
        if error.code in _FATAL_ERRORS:
            await token_store.delete(stored.url, stored.account, only=stored)
        return None
    previous = stored.tokens
    if stored.dpop_key and tokens.kind != previous.kind:
        return None  # a token that is not bound to the key could be used by whoever reads it (RFC 9449)
    tokens = replace(tokens, refresh=tokens.refresh or previous.refresh, scopes=tokens.scopes or previous.scopes)
    new = replace(stored, tokens=tokens)
    await token_store.save(new)
    return new


async def revoke_tokens(http: OAuthHttpClient, sign_in: StoredSignIn) -> bool:
    """Revoke the access and refresh tokens in *sign_in* (RFC 7009).

    Returns whether the server confirmed every revocation. Never raises McpHostError.
    """
    if not sign_in.revocation_endpoint:
        return False
    tokens = ((sign_in.tokens.refresh, "refresh_token"), (sign_in.tokens.access, "access_token"))
    return all([await _revoke_token(http, sign_in, token, kind) for token, kind in tokens if token])


async def _revoke_token(http: OAuthHttpClient, sign_in: StoredSignIn, token: str, kind: str) -> bool:
    form = {"token": token, "token_type_hint": kind}
    headers = authenticate_client(sign_in.client, form)
    try:
        reply = await http.post_form(sign_in.revocation_endpoint, form, "revocation endpoint", headers)
    except SignInRequired:
        return False
    return reply.is_success
