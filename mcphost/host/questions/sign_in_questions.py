"""The sign-in question, with a browser or a device code, and its answers."""

from typing import ClassVar, Literal

from mcphost.host.questions.question import Question
from mcphost.serialization import Struct


class OpenInBrowser(Struct, frozen=True):
    """The address is, or will be, open in a browser; the redirect arrives automatically."""


class PastedRedirect(Struct, frozen=True):
    """The final address of the sign-in, pasted from a browser that could not reach mcphost."""

    redirect_url: str

    def __repr__(self) -> str:
        return "PastedRedirect(…)"


class SwitchSignInMethod(Struct, frozen=True):
    """Use a device code instead of a browser, or the reverse; see `SignInQuestion.other`."""


class DeclineSignIn(Struct, frozen=True):
    """Do not sign in."""


SignInVerdict = OpenInBrowser | PastedRedirect | SwitchSignInMethod | DeclineSignIn


class SignInQuestion(Question[SignInVerdict], frozen=True, kw_only=True):
    """A sign-in at *issuer*; `url` is complete, `host` is its host.

    `note` says why the question is repeated. It is withdrawn when the browser's redirect arrives, and after `seconds`;
    `asked` is when it was asked, on this machine's monotonic clock. `browser` False: no browser can open on this
    machine.

    With a `code`, the user enters it at the address in any browser, and nothing is pasted. `whole` is the address with
    the code in it ("" for none); the authorization server is polled every `interval` seconds. `other` is the
    alternative method: "code", "browser", or "" for none. `others` are accounts already signed in there: to use one of
    them, the user refuses and selects it. `warnings` are sentences to show first.
    """

    KIND: ClassVar[str] = "sign_in"
    url: str
    host: str
    issuer: str
    scopes: tuple[str, ...] = ()
    code: str = ""
    note: str = ""
    whole: str = ""
    seconds: float = 0
    interval: float = 0
    asked: float = 0
    other: Literal["", "code", "browser"] = ""
    browser: bool = True
    others: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def refusal(self) -> SignInVerdict:
        """Return the answer that refuses."""
        return DeclineSignIn()
