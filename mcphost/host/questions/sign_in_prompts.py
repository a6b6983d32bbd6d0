"""Signing in is a question like any other: who asks, where the address leads, and what it will permit."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Protocol

from mcphost.host.questions.client_id_question import EnterClientId, EnteredClient
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.sign_in_questions import DeclineSignIn, PastedRedirect, SignInQuestion, SwitchSignInMethod
from mcphost.unicode_forms import split_url

OpenUrl = Callable[[str], Awaitable[bool]]
"""Shows an http(s) address in a browser; whether that worked."""

OPENED = "Your browser has the address. This question goes away when you are done there."
NO_BROWSER = "No browser could be opened here. Open the address yourself, and paste where it ended."
NO_BROWSER_FOR_CODE = "No browser could be opened here. Open the address yourself, on any machine."


class SignInPromptTerms(Protocol):
    """What auth.authorization_flow tells of one address: for how long, and whether there is another way."""

    @property
    def seconds(self) -> float: ...

    @property
    def whole(self) -> str: ...

    @property
    def interval(self) -> float: ...

    @property
    def switch(self) -> Callable[[], None] | None: ...

    @property
    def others(self) -> tuple[str, ...]: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...


class SignInPrompts:
    """The person of auth.authorization_flow: asks the front, and opens the browser when told to and `open_url` can."""

    def __init__(
        self,
        frontend: Frontend,
        open_url: OpenUrl | None = None,
        can_open: Callable[[], bool] = lambda: True,
    ) -> None:
        """`can_open`: is there hope of a browser?"""
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
        """None: refused. "": a browser will answer, or the other way was taken. Else the redirect address pasted.

        Whoever opens the browser here asks on, so that the wait is seen and can be ended.
        """
        until = monotonic() + terms.seconds
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
                whole=terms.whole,
                seconds=max(0.0, until - now),
                interval=terms.interval,
                asked=now,
                other="" if terms.switch is None else "browser" if code else "code",
                browser=self._open_url is None or self._can_open(),
                others=terms.others,
                warnings=terms.warnings,
            )
            verdict = await self._frontend.ask(question)
            if isinstance(verdict, DeclineSignIn):
                return None
            if isinstance(verdict, PastedRedirect):
                return verdict.redirect_url
            if isinstance(verdict, SwitchSignInMethod):
                if terms.switch is not None:
                    terms.switch()
                return ""
            if self._open_url is None:
                return ""
            opened = await self._open_url(url)
            note = OPENED if opened else NO_BROWSER_FOR_CODE if code else NO_BROWSER

    async def ask_client_id(
        self, *, server: str, account: str, issuer: str, redirect_uri: str, note: str
    ) -> tuple[str, str] | None:
        """The client id and the secret that the user entered; None: refused, or nobody can be asked for that."""
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
