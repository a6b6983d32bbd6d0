"""What happens to a sign-in after it was made: renewed under one lock of all processes, and revoked at its end."""

from collections.abc import Callable

import anyio

from mcphost.auth.discovery import IssuerDocument
from mcphost.auth.jwt_proofs import Signer
from mcphost.auth.oauth_http import Requests, Unreachable
from mcphost.auth.stored_sign_in import SignedIn
from mcphost.auth.token_store import Keep
from mcphost.auth.tokens import TokenRefused, authentication, refreshed
from mcphost.errors import SignInRequired
from mcphost.serialization import replace

_DEAD = ("invalid_grant", "invalid_client", "unauthorized_client")


async def renewed(
    keep: Keep, requests: Requests, old: SignedIn, signer_of: Callable[[SignedIn], Signer | None]
) -> SignedIn | None:
    """The sign-in with a new token, also when another process got it; None when a person must sign in again.

    What another process stored meanwhile is never deleted. Raises McpHostError when the authorization server cannot be
    reached or another process holds the lock for too long.
    """
    async with keep.lock(old.url, old.account):
        stored = await keep.load(old.url, old.account, again=True)
        if stored is None or not stored.tokens.refresh:
            return stored  # signed out by another process, or in anew with a token that cannot be renewed
        if stored.tokens.access != old.tokens.access and not stored.tokens.expired():
            return stored
        document = IssuerDocument(issuer=stored.issuer, token_endpoint=stored.token_endpoint)
        # The old refresh token may be dead as soon as the request arrives: what comes back must be stored.
        with anyio.CancelScope(shield=True):
            try:
                tokens = await refreshed(
                    requests, document, stored.client, stored.resource, stored.tokens, signer=signer_of(stored)
                )
            except Unreachable:
                raise
            except TokenRefused as error:
                if error.code in _DEAD:
                    await keep.forget(old.url, old.account, only=stored)
                return None
            new = replace(stored, tokens=tokens)
            await keep.save(new)
            return new


async def revoked(requests: Requests, gone: SignedIn) -> bool:
    """Whether the authorization server took all of its tokens back (RFC 7009). Never raises McpHostError."""
    if not gone.revocation_endpoint:
        return False
    tokens = ((gone.tokens.refresh, "refresh_token"), (gone.tokens.access, "access_token"))
    return all([await _revoked(requests, gone, token, kind) for token, kind in tokens if token])


async def _revoked(requests: Requests, gone: SignedIn, token: str, kind: str) -> bool:
    form = {"token": token, "token_type_hint": kind}
    headers = authentication(gone.client, form)
    try:
        reply = await requests.post_form(gone.revocation_endpoint, form, "revocation endpoint", headers)
    except SignInRequired:
        return False
    return reply.ok
