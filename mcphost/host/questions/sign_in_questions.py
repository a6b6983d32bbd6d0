"""Asking the user to sign in to a server, in a browser or with a code, and the answers to it."""

from typing import ClassVar, Literal

from mcphost.host.questions.question import Question
from mcphost.serialization import Struct


class OpenInBrowser(Struct, frozen=True):
    """The address is, or will be, open in a browser; its answer comes by itself."""


class PastedRedirect(Struct, frozen=True):
    """The address at which the sign-in ended, copied from a browser that could not come back to us."""

    redirect_url: str

    def __repr__(self) -> str:
        return "PastedRedirect(…)"


class SwitchSignInMethod(Struct, frozen=True):
    """Rather with a code than in a browser, or the other way round; see `SignIn.other`."""


class DeclineSignIn(Struct, frozen=True):
    """Do not sign in."""


SignInVerdict = OpenInBrowser | PastedRedirect | SwitchSignInMethod | DeclineSignIn


class SignInQuestion(Question[SignInVerdict], frozen=True, kw_only=True):
    """Sign in to a server? `url` is complete, `host` the part of it that says where it leads; `issuer` is who signs.

    `note` says why it is asked again. It is withdrawn when a browser brings the answer, and after `seconds`; `asked` is
    when it was asked, on this machine's monotonic clock. `browser` False: no browser can open on this machine.

    With a `code` the user enters that at the address, in any browser, and there is nothing to paste; `whole` is the
    address with the code in it ("" for none), and the authorization server is asked each `interval` seconds. `other`
    is the other way there is: "code", "browser", or "" for none. `others` are accounts that are signed in there
    already: whoever would rather use one of them refuses, and chooses it. `warnings` are sentences to show first.
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
        return DeclineSignIn()
