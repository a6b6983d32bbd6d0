"""Signing in is a question like any other: who asks, where the address leads, and what it will permit."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from mcphost.host.front import Front
from mcphost.host.questions import NoSignIn, PastedRedirect, SignIn

OpenUrl = Callable[[str], Awaitable[bool]]
"""Shows an http(s) address in a browser; whether that worked."""

OPENED = "Your browser has the address. This question goes away when you are done there."
NO_BROWSER = "No browser could be opened here. Open the address yourself, and paste where it ended."


class SignIns:
    """The person of auth.signin: asks the front, and opens the browser when told to and `open_url` can."""

    def __init__(
        self, front: Front, open_url: OpenUrl | None = None, asking: Callable[[str], None] = lambda server: None
    ) -> None:
        """`asking` hears for which server a question is about to be asked."""
        self._front = front
        self._asking = asking
        self._open_url = open_url

    async def sign_in(
        self, *, server: str, account: str, issuer: str, url: str, scopes: tuple[str, ...], code: str, note: str
    ) -> str | None:
        """None: refused. "": a browser will answer. Else the redirect address the user pasted.

        Whoever opens the browser here asks on, so that the wait is seen and can be ended.
        """
        self._asking(server)
        while True:
            question = SignIn(
                server=server,
                why=f"the server {server} wants to know who you are",
                url=url,
                host=urlsplit(url).netloc,
                issuer=issuer,
                scopes=scopes,
                account=account,
                code=code,
                note=note,
            )
            verdict = await self._front.ask(question)
            if isinstance(verdict, NoSignIn):
                return None
            if isinstance(verdict, PastedRedirect):
                return verdict.redirect_url
            if self._open_url is None:
                return ""
            note = OPENED if await self._open_url(url) else NO_BROWSER
