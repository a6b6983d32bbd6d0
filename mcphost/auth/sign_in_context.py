"""Code shared by the browser and device-code sign-in flows.

It chooses the OAuth client and asks the user to sign in.
"""

import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from enum import StrEnum
from shlex import quote
from typing import Any, Protocol

import anyio

from mcphost.auth.accounts import hide_query
from mcphost.auth.callback_server import CallbackServer, run_callback_server
from mcphost.auth.discovery import AuthorizationServerMetadata, ProtectedResource
from mcphost.auth.dpop import JwtSigner
from mcphost.auth.oauth_http import REQUEST_TIMEOUT, OAuthHttpClient
from mcphost.auth.registration import (
    ENTERED_KIND,
    OAuthClient,
    RegistrationError,
    make_configured_client,
    make_entered_client,
    make_metadata_document_client,
    register_client,
)
from mcphost.auth.token_store import TokenStore
from mcphost.auth.url_policy import canonical_url, resource_covers, url_origin
from mcphost.errors import SignInRequired, SignInUnchanged
from mcphost.serialization import Struct, replace
from mcphost.sign_in_types import SignInProgress, SignInTerms
from mcphost.unicode_forms import split_url

DEFAULT_TIMEOUT = 300.0
"""Default time limit for a sign-in, in seconds."""


class SignInTarget(Struct, frozen=True, kw_only=True):
    """The server to sign in to, and the user's settings for it."""

    server: str
    url: str
    account: str = ""
    is_account_configured: bool = False
    """Whether the configuration names the account; otherwise, it is the one last selected for this server."""

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    port: int = 0
    client_metadata_url: str = ""
    """URL of mcphost's client metadata document, or "" if it is not published."""

    timeout: float = DEFAULT_TIMEOUT
    """Time limit for the sign-in, in seconds."""

    def __repr__(self) -> str:
        return f"SignInTarget({self.server!r})"

    @property
    def canonical_url(self) -> str:
        """The canonical URI of the server, under which its tokens are stored."""
        return canonical_url(self.url)


ProgressCallback = Callable[[SignInProgress], None]
"""Called for every step of a sign-in; must return immediately and must not raise."""


def ignore_progress(progress: SignInProgress) -> None:
    """Do nothing; the default ProgressCallback."""
    del progress


class SignInInteraction(Protocol):
    """Interface for asking the user to sign in."""

    async def sign_in(
        self,
        *,
        server: str,
        account: str,
        issuer: str,
        url: str,
        scopes: tuple[str, ...],
        code: str,
        note: str,
        terms: SignInTerms,
    ) -> str | None:
        """Show the sign-in URL and wait for the user.

        Return None if the user declines, the redirect URL if the user pastes it, or "" if the browser will deliver the
        response. The call is cancelled when the browser delivers the response.

        - *code*: a code to enter at the URL, on any device; "" if the user signs in without one.
        - *note*: what was wrong with the user's previous answer, or "".
        - *terms*: further details to show, such as the time limit and any warnings.
        """
        ...

    async def ask_client_id(
        self, *, server: str, account: str, issuer: str, redirect_uri: str, note: str
    ) -> tuple[str, str] | None:
        """Ask for the id and secret of an OAuth client registered for *redirect_uri*.

        Return None if the user declines. The secret is "" if the client has none. *note* says why the user is asked.
        Can be cancelled.
        """
        ...


class SignInFailed(SignInRequired):
    """Raised when the user declines the sign-in, the authorization server rejects it, or time runs out."""


def sign_in_warnings(
    url: str,
    issuer: str,
    resource: str,
    server_url: str,
    *,
    has_code: bool,
    previous_issuer: str = "",
    token_endpoint: str = "",
) -> tuple[str, ...]:
    """Return the warnings to show with the sign-in page *url*.

    The user is warned in three cases:

    - The page is on another host or port than *issuer*; a subdomain of the issuer's host is accepted. A malicious
      issuer can send the user to the page of another issuer to obtain the code issued there (a mix-up attack, RFC 9700,
      section 4.4). If the user enters a device code (*has_code*), the code may have been issued to another program (RFC
      8628, section 5.4). The rule is stricter if *issuer* has a path, because several issuers may then share its host:
      a subdomain is not accepted, and the page must also be on the host of *token_endpoint*, which receives the code.
    - The *resource* covers more than the MCP server at *server_url*.
    - *issuer* differs from *previous_issuer*, the issuer of the last sign-in ("" if there was none). An attacker who
      has taken over the server can name an issuer that imitates the previous one.
    """
    warnings: list[str] = []
    if previous_issuer not in ("", issuer):
        warnings.append(
            f"The server now names another issuer. Before, you signed in at {previous_issuer[:300]}: continue only if "
            "you expect this."
        )
    has_path = split_url(issuer).path not in ("", "/")
    is_split = has_path and token_endpoint != "" and url_origin(url)[1] != url_origin(token_endpoint)[1]
    recipient = token_endpoint if is_split else issuer
    (_, host, port), (_, recipient_host, recipient_port) = url_origin(url), url_origin(recipient)
    is_subdomain = host.endswith(f".{recipient_host}") and not has_path
    if port != recipient_port or (host != recipient_host and not is_subdomain):
        risk = (
            "The code may be from someone else's sign-in and would give them access"
            if has_code
            else "The result may be passed on to someone else"
        )
        shown, shown_recipient = split_url(url).netloc, split_url(recipient).netloc
        warnings.append(
            f"You sign in at {shown}, and {shown_recipient} gets the result. {risk}: continue only if you expect this."
        )
    if resource_covers(resource, server_url) and canonical_url(resource).rstrip("/") != canonical_url(
        server_url
    ).rstrip("/"):
        warnings.append(f"This grants access to everything below {resource[:300]}, not only to this server.")
    return tuple(warnings)


PUBLISH_HINT = 'Or publish a client metadata document, and enter its address as "clientMetadataUrl" there.'
CALLBACK_PATH = "/callback"
"""The path of the redirect URI, for clients registered manually or by mcphost's client metadata document."""
MANUAL_REGISTRATION_FACTOR = 6
"""Factor by which the time limit is extended while the user registers mcphost manually."""
_MAX_ATTEMPTS = 3


class ClientResolver:
    """Resolver that chooses the OAuth client for one sign-in.

    Clients are tried in the specification's order (basic/authorization, client registration approaches): a configured
    client, a stored client, the client metadata document, dynamic registration, a client that the user enters.
    """

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
        """Choose the OAuth client; return a running listener for its redirect URI, and the client.

        The listener runs until *stack* is closed. Raises SignInFailed, RegistrationError, UnsafeUrl or
        EndpointUnreachable.
        """
        target = self._target
        if target.client_id:
            client = make_configured_client(document, issuer, target.client_id, target.client_secret)
            return await self._start_callback_server(stack, target.port, CALLBACK_PATH), client
        known = self._entered_client or await self._token_store.load_client(issuer)
        if known is not None and known.can_request(scopes):
            uri = split_url(known.redirect_uri)
            try:
                return await stack.enter_async_context(run_callback_server(uri.port or 0, uri.path)), known
            except OSError:
                # Another program uses the port. A new dynamic registration gets a new redirect URI; for a manual
                # one, the authorization server should accept any loopback port (RFC 8252, section 7.3).
                if known.kind == ENTERED_KIND:
                    return await self._start_callback_server(stack, 0, uri.path), known
        if document.client_id_metadata_document_supported and target.client_metadata_url:
            # The document may list a redirect URI with a port, for an authorization server that compares it.
            return await self._start_callback_server(stack, target.port, CALLBACK_PATH), make_metadata_document_client(
                issuer, target.client_metadata_url
            )
        if not document.registration_endpoint:
            hint = 'Register mcphost there and enter its id: "mcphost": {"oauth": {"clientId": "…"}} in mcp.json.'
            if document.client_id_metadata_document_supported:
                hint = f"{hint} {PUBLISH_HINT}"
            unsupported = RegistrationError(
                f"The authorization server {issuer[:200]} does not register clients automatically.", hint
            )
            return await self._ask_for_client(stack, document, issuer, unsupported)
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
        """Ask the user to enter an OAuth client that they registered.

        Returns a running listener for the redirect URI, and the client. The listener runs until *stack* is closed.
        The client is stored after a successful sign-in. Raises *error* if the user declines or does not enter a
        valid client in time.
        """
        target = self._target
        callback = await self._start_callback_server(stack, target.port, CALLBACK_PATH)
        note = error.message
        with anyio.move_on_after(target.timeout * MANUAL_REGISTRATION_FACTOR):
            for _ in range(_MAX_ATTEMPTS):
                entered = await self._interaction.ask_client_id(
                    server=target.server,
                    account=target.account,
                    issuer=issuer,
                    redirect_uri=callback.redirect_uri,
                    note=note,
                )
                if entered is None:
                    raise error
                client = make_entered_client(document, issuer, *entered, callback.redirect_uri)
                if client is not None:
                    self._entered_client = client
                    return callback, client
                note = "Client IDs and secrets have printable characters only, without spaces. Copy them again."
        raise error

    async def _start_callback_server(self, stack: AsyncExitStack, port: int, path: str) -> CallbackServer:
        try:
            return await stack.enter_async_context(run_callback_server(port, path))
        except OSError as error:
            where = f"port {port}" if port else "any port"
            raise SignInFailed(f"mcphost cannot listen on {where} of this machine: {error.strerror}.") from error


class SignInStep(StrEnum):
    """A step of an interactive sign-in; the value is the text shown to the user."""

    RESOURCE = "reading the server's metadata"
    ISSUER = "reading the authorization server's metadata"
    CLIENT = "registering mcphost with the authorization server"
    PERSON = "waiting for you"
    CODE = "requesting the token"
    DONE = "signed in"


FOREIGN_RESPONSE = "a response with a missing or wrong state was ignored"


class SignInMethodSwitched(Exception):
    """Raised when the user switches between the two methods of signing in: browser and device code."""


class AuthorizationRequest(Struct, frozen=True):
    """The scopes and the resource to request from an issuer, and the issuer's metadata.

    `previous_issuer` is the issuer that the user signed in with before, or "" if there is none.
    """

    resource: ProtectedResource
    metadata: AuthorizationServerMetadata
    issuer: str
    scopes: tuple[str, ...]
    previous_issuer: str = ""

    def __repr__(self) -> str:
        return f"AuthorizationRequest({self.issuer!r})"


class SignInContext:
    """State of one interactive sign-in, shared by the code flow and the device flow."""

    def __init__(
        self,
        target: SignInTarget,
        http: OAuthHttpClient,
        token_store: TokenStore,
        interaction: SignInInteraction,
        on_progress: ProgressCallback,
    ) -> None:
        self.step = SignInStep.RESOURCE
        self.target = target
        self.http = http
        self.client_resolver = ClientResolver(target, http, token_store, interaction)
        self.signer: JwtSigner | None = None
        self.previous_error = ""
        """Error of the sign-in method (browser or device code) that was tried before, or ""."""
        self.is_client_registered = False
        """Whether the client was registered earlier, so that the server may have deleted it since."""
        self.is_step_up = False
        """Whether the user is signed in and is asked for more scopes."""
        self.is_new_account = False
        """Whether nobody has signed in with this account before."""
        self._has_foreign_response = False
        self._token_store = token_store
        self._interaction = interaction
        self._on_progress = on_progress

    def begin(self, *, has_previous: bool, is_step_up: bool) -> None:
        """Report the first step of the sign-in.

        *has_previous* is true if the user has signed in with this account before, and *is_step_up* is true if the
        server requires more scopes.
        """
        self.is_step_up, self.is_new_account = has_previous and is_step_up, not has_previous
        self.report_step(SignInStep.RESOURCE)

    def report_step(self, step: SignInStep, **more: Any) -> None:
        """Set the current step and report it; *more* contains further fields of SignInProgress."""
        self.step = step
        seconds = (
            REQUEST_TIMEOUT
            if step in (SignInStep.RESOURCE, SignInStep.ISSUER, SignInStep.CLIENT, SignInStep.CODE)
            else 0.0
        )
        progress = SignInProgress(server=self.target.server, account=self.target.account, step=step.name.lower(),
                            text=step.value, seconds=seconds)  # fmt: skip
        self._on_progress(replace(progress, **more))

    async def ask_user(
        self, request: AuthorizationRequest, url: str, terms: SignInTerms, *, note: str, code: str = ""
    ) -> str | None:
        """Ask the user to sign in at *url*, and show any warnings.

        For *terms*, *note*, *code* and the result, see `SignInInteraction.sign_in`.
        """
        resource, server_url = request.resource.identifier, self.target.url
        warnings = sign_in_warnings(
            url,
            request.issuer,
            resource,
            server_url,
            has_code=bool(code),
            previous_issuer=request.previous_issuer,
            token_endpoint=request.metadata.token_endpoint,
        )
        return await self._interaction.sign_in(
            server=self.target.server,
            account=self.target.account,
            issuer=request.issuer,
            url=url,
            scopes=request.scopes,
            code=code,
            note=note,
            terms=replace(terms, warnings=warnings),
        )

    async def other_accounts(self) -> tuple[str, ...]:
        """Return the names of the other accounts that the user can select for this server.

        Returns an empty tuple if the server's configuration sets the account to use.
        """
        target = self.target
        return (
            ()
            if target.is_account_configured
            else await self._token_store.other_accounts(target.canonical_url, target.account)
        )

    async def _find_account_in_use(self) -> str:
        """Return the display name of the selected account if the user is signed in to it and now signs in to another.

        Returns "" in all other cases, for example if the server's configuration sets the account to use.
        """
        target = self.target
        chosen = await self._token_store.chosen_account(target.canonical_url)
        if target.is_account_configured or chosen == target.account:
            return ""
        stored = await self._token_store.accounts()
        identity = hide_query(target.canonical_url), chosen
        return next((one.name for one in stored if one.identity == identity), "")

    async def refusal_error(self) -> SignInFailed | SignInUnchanged:
        """Create the error to raise if the user declines the sign-in.

        Returns SignInUnchanged if the user stays signed in as before, otherwise SignInFailed.
        """
        name = self.target.server
        if self.is_step_up:
            return SignInUnchanged(
                f"You declined to give mcphost more rights on {name!r}.", "The existing sign-in stays as it was."
            )
        account_in_use = await self._find_account_in_use() if self.is_new_account else ""
        if account_in_use:
            return SignInUnchanged(
                f"You did not sign in to {name!r} with another account.",
                f"The existing sign-in stays: {account_in_use}.",
            )
        return SignInFailed(f"You did not sign in to {name!r}.", f"Sign in: mcphost login {quote(name)}")

    def report_foreign_response(self, seconds: float) -> None:
        """Report, once per sign-in, that a response with a wrong `state` was ignored.

        Any web page can cause such responses. *seconds* is the time left to receive the expected response.
        """
        if not self._has_foreign_response:
            self._has_foreign_response = True
            self.report_step(SignInStep.PERSON, seconds=seconds, text=f"waiting for you; {FOREIGN_RESPONSE}")

    def timeout_error(self) -> SignInFailed:
        """Create the error to raise if the sign-in takes too long."""
        name = self.target.server
        # If the authorization server deleted the client, it says so in the browser and does not redirect.
        forget_hint = f"\nIf the page did not recognize mcphost, run: mcphost logout {quote(name)} --forget-client"
        hint = forget_hint if self.is_client_registered else ""
        note = " A response with a missing or wrong state was ignored." if self._has_foreign_response else ""
        return SignInFailed(
            f"Nobody signed in to {name!r} within {_format_duration(self.target.timeout)}.{note}",
            f"Try again: mcphost login {quote(name)}{hint}",
        )


def _format_duration(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
