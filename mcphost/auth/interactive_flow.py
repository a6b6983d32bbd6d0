"""What both ways to sign in share: what is sought, where it is, the person who is asked, and how they say no."""

from enum import StrEnum
from shlex import quote
from typing import Any

from mcphost.auth.client_identity import ClientResolver
from mcphost.auth.discovery import AuthorizationServerMetadata, ProtectedResource
from mcphost.auth.jwt_proofs import JwtSigner
from mcphost.auth.oauth_http import REQUEST_TIMEOUT as LONGEST
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.sign_in_target import SignInTarget
from mcphost.auth.sign_in_warnings import sign_in_warnings
from mcphost.auth.token_store import TokenStore
from mcphost.auth.user_interaction import ProgressCallback, SignInFailed, SignInInteraction, SignInProgress, SignInTerms
from mcphost.serialization import Struct, replace


class SignInStep(StrEnum):
    """Where a sign-in is."""

    RESOURCE = "asking the server who signs for it"
    ISSUER = "asking the authorization server what it can do"
    CLIENT = "introducing mcphost to the authorization server"
    PERSON = "waiting for you"
    CODE = "exchanging the code for a token"
    DONE = "signed in"


FOREIGN_RESPONSE = (
    "an answer that does not belong to this sign-in (its state is missing or wrong) came and was not used"
)


class SignInMethodSwitched(Exception):
    """The person wants a code instead of a browser, or a browser instead of a code."""


class AuthorizationRequest(Struct, frozen=True):
    """Which rights to what are sought, and who gives them; `document` is what the issuer says of itself."""

    resource: ProtectedResource
    metadata: AuthorizationServerMetadata
    issuer: str
    scopes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"AuthorizationRequest({self.issuer!r})"


class InteractiveSignIn:
    """One sign-in that a person attends; `step` says where it is, and `tell` hears of it."""

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
        """What was said against the way that was tried before."""
        self.is_client_registered = False
        """Whether the authorization server was told of us earlier, and may have forgotten that."""
        self._has_foreign_response = False
        self._token_store = token_store
        self._interaction = interaction
        self._on_progress = on_progress

    def report_step(self, step: SignInStep, **more: Any) -> None:
        """It is there now; `more` are other fields of Progress."""
        self.step = step
        seconds = (
            LONGEST if step in (SignInStep.RESOURCE, SignInStep.ISSUER, SignInStep.CLIENT, SignInStep.CODE) else 0.0
        )
        progress = SignInProgress(server=self.target.server, account=self.target.account, step=step.name.lower(),
                            text=step.value, seconds=seconds)  # fmt: skip
        self._on_progress(replace(progress, **more))

    async def ask_person(
        self, request: AuthorizationRequest, url: str, terms: SignInTerms, *, note: str, code: str = ""
    ) -> str | None:
        """See Person.sign_in."""
        resource, server_url = request.resource.identifier, self.target.url
        warnings = sign_in_warnings(url, request.issuer, resource, server_url, has_code=bool(code))
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
        """The accounts that are signed in there and could be chosen instead, where the user named none."""
        target = self.target
        return (
            ()
            if target.is_account_configured
            else await self._token_store.other_accounts(target.canonical_url, target.account)
        )

    def refusal_error(self) -> SignInFailed:
        """The person said no."""
        name = self.target.server
        return SignInFailed(f"You did not sign in to {name!r}.", f"Do it with: mcphost login {quote(name)}")

    def report_foreign_response(self, seconds: float) -> None:
        """Tell, once, of an answer that was not used; anybody can send one. `seconds` are left for the right one."""
        if not self._has_foreign_response:
            self._has_foreign_response = True
            self.report_step(SignInStep.PERSON, seconds=seconds, text=f"{SignInStep.PERSON.value}; {FOREIGN_RESPONSE}")

    def timeout_error(self) -> SignInFailed:
        """Nobody did anything in time."""
        name = self.target.server
        # A client that was deleted there is told of on a page in the browser, and nobody comes back from that.
        forget = f"\nIf the page did not know mcphost: mcphost logout {quote(name)} --forget-client"
        gone = forget if self.is_client_registered else ""
        more = f" {FOREIGN_RESPONSE[0].upper()}{FOREIGN_RESPONSE[1:]}." if self._has_foreign_response else ""
        return SignInFailed(
            f"Nobody signed in to {name!r} within {_format_duration(self.target.timeout)}.{more}",
            f"Try again with: mcphost login {quote(name)}{gone}",
        )


def _format_duration(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
