"""Sign-in as a question to the user: who asks, where the address leads, what it permits."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Protocol

from mcphost.host.questions.client_id_question import EnterClientId, EnteredClient
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.sign_in_questions import DeclineSignIn, PastedRedirect, SignInQuestion, SwitchSignInMethod
from mcphost.unicode_forms import split_url

OpenUrl = Callable[[str], Awaitable[bool]]
"""Opens an http(s) address in a browser and returns whether that worked."""

OPENED = "Opened in your browser. This question closes when the sign-in is complete."
NO_BROWSER = "No browser could be opened. Open the address yourself and paste the final address here."
NO_BROWSER_FOR_CODE = "No browser could be opened. Open the address yourself, on any machine."


class SignInPromptTerms(Protocol):
    """Terms of one sign-in address from auth.authorization_flow."""

    @property
    def timeout(self) -> float:
        """Seconds until the sign-in expires."""
        ...

    @property
    def verification_uri_complete(self) -> str:
        """The address with the device code in it, "" without one."""
        ...

    @property
    def poll_interval(self) -> float:
        """Seconds between polls of the authorization server."""
        ...

    @property
    def switch_method(self) -> Callable[[], None] | None:
        """Switches to the other sign-in method; None if there is none."""
        ...

    @property
    def other_accounts(self) -> tuple[str, ...]:
        """Accounts that are already signed in there."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences to show first."""
        ...


class SignInPrompts:
    """Prompts of auth.authorization_flow through the frontend and the browser."""

    def __init__(
        self,
        frontend: Frontend,
        open_url: OpenUrl | None = None,
        can_open: Callable[[], bool] = lambda: True,
    ) -> None:
        """*can_open* returns whether a browser may be available."""
        self._frontend = frontend
        self._open_url = open_url
        self._can_open = can_open

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
        terms: SignInPromptTerms,
    ) -> str | None:
        """Return None for a refusal, "" if the browser answers or the method changed, else the pasted address.

        After opening the browser, the question is asked again, so that the wait is visible and can be cancelled.
        """
        deadline = monotonic() + terms.timeout
        while True:
            now = monotonic()
            question = SignInQuestion(
                server=server,
                why=f"the server {server} wants to know who you are",
                url=url,
                host=split_url(url).netloc,
                issuer=issuer,
                scopes=scopes,
                account=account,
                code=code,
                note=note,
                whole=terms.verification_uri_complete,
                seconds=max(0.0, deadline - now),
                interval=terms.poll_interval,
                asked=now,
                other="" if terms.switch_method is None else "browser" if code else "code",
                browser=self._open_url is None or self._can_open(),
                others=terms.other_accounts,
                warnings=terms.warnings,
            )
            verdict = await self._frontend.ask(question)
            if isinstance(verdict, DeclineSignIn):
                return None
            if isinstance(verdict, PastedRedirect):
                return verdict.redirect_url
            if isinstance(verdict, SwitchSignInMethod):
                if terms.switch_method is not None:
                    terms.switch_method()
                return ""
            if self._open_url is None:
                return ""
            opened = await self._open_url(url)
            note = OPENED if opened else NO_BROWSER_FOR_CODE if code else NO_BROWSER

    async def ask_client_id(
        self, *, server: str, account: str, issuer: str, redirect_uri: str, note: str
    ) -> tuple[str, str] | None:
        """Return the client id and secret that the user entered, or None if refused or not possible."""
        if EnterClientId.KIND not in self._frontend.kinds:
            return None
        verdict = await self._frontend.ask(
            EnterClientId(
                server=server,
                why=f"the server {server} wants to know who you are",
                issuer=issuer,
                redirect_uri=redirect_uri,
                account=account,
                note=note,
            )
        )
        return (verdict.client_id, verdict.client_secret) if isinstance(verdict, EnteredClient) else None
