"""Who we are to an issuer, and the listener for its answer: configured, known, published, registered, or asked for.

Specification: basic/authorization, client registration approaches, in their order.
"""

import secrets
from contextlib import AsyncExitStack

import anyio

from mcphost.auth.callback_server import Callback, listening
from mcphost.auth.client_registration import (
    ENTERED,
    Client,
    RegistrationRefused,
    configured,
    entered,
    published,
    registered,
)
from mcphost.auth.discovery import IssuerDocument
from mcphost.auth.oauth_http import Requests
from mcphost.auth.sign_in_target import Target
from mcphost.auth.token_store import Keep
from mcphost.auth.user_interaction import NotSignedIn, Person
from mcphost.unicode_forms import split_url

PATH = "/callback"
"""The path of clients that were registered by hand, or in our metadata document."""
LONGER = 6
"""So many times longer than for a sign-in a person may take to register mcphost by hand."""
_TRIES = 3


class Introduction:
    """How mcphost introduces itself for one sign-in."""

    def __init__(self, target: Target, requests: Requests, keep: Keep, person: Person) -> None:
        self._target = target
        self._requests = requests
        self._keep = keep
        self._person = person
        self._entered: Client | None = None

    async def client(
        self, stack: AsyncExitStack, document: IssuerDocument, issuer: str, scopes: tuple[str, ...]
    ) -> tuple[Callback, Client]:
        """Who we are there, and the open listener whose address was registered for it; it closes with `stack`.

        Raises NotSignedIn, RegistrationRefused, Unsafe, Unreachable.
        """
        target = self._target
        if target.client_id:
            client = configured(document, issuer, target.client_id, target.client_secret)
            return await self._listen(stack, target.port, PATH), client
        known = self._entered or await self._keep.client(issuer)
        if known is not None and known.may_ask(scopes):
            where = split_url(known.redirect_uri)
            try:
                return await stack.enter_async_context(listening(where.port or 0, where.path)), known
            except OSError:
                # Another program has that port now. A new registration brings a new address; for one that was made by
                # hand the authorization server should take any port of this machine (RFC 8252, section 7.3).
                if known.kind == ENTERED:
                    return await self._listen(stack, 0, where.path), known
        if document.client_id_metadata_document_supported and target.document_url:
            return await self._listen(stack, 0, PATH), published(issuer, target.document_url)
        if not document.registration_endpoint:
            refusal = RegistrationRefused(
                f"The authorization server {issuer[:200]} registers nobody by itself.",
                'Register mcphost there and enter its id: "mcphost": {"oauth": {"clientId": "…"}} in mcp.json.',
            )
            return await self._asked(stack, document, issuer, refusal)
        callback = await self._listen(stack, 0, f"{PATH}/{secrets.token_urlsafe(12)}")
        try:
            client = await registered(self._requests, document, issuer, callback.redirect_uri, scopes)
        except RegistrationRefused as error:
            return await self._asked(stack, document, issuer, error)
        await self._keep.save_client(client)
        return callback, client

    async def _asked(
        self, stack: AsyncExitStack, document: IssuerDocument, issuer: str, refusal: RegistrationRefused
    ) -> tuple[Callback, Client]:
        """A client that the user registered by hand; it is kept once a sign-in worked with it. Raises `refusal`."""
        target = self._target
        callback = await self._listen(stack, target.port, PATH)
        note = refusal.message
        with anyio.move_on_after(target.seconds * LONGER):
            for _ in range(_TRIES):
                given = await self._person.ask_client_id(
                    server=target.server,
                    account=target.account,
                    issuer=issuer,
                    redirect_uri=callback.redirect_uri,
                    note=note,
                )
                if given is None:
                    raise refusal
                client = entered(document, issuer, *given, callback.redirect_uri)
                if client is not None:
                    self._entered = client
                    return callback, client
                note = "A client id, and a secret, are printable characters without spaces. Copy them once more."
        raise refusal

    async def _listen(self, stack: AsyncExitStack, port: int, path: str) -> Callback:
        try:
            return await stack.enter_async_context(listening(port, path))
        except OSError as error:
            where = f"port {port}" if port else "any port"
            raise NotSignedIn(f"mcphost cannot listen on {where} of this machine: {error.strerror}.") from error
