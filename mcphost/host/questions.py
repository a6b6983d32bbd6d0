"""Question[A] and every question with its answer type and its refusal.

A question says who asks and why; a front end shows one at a time, first come first shown. An answer that widens
what may happen later (`AllowSession`, `AllowAlways`) is a type of its own.
"""

from typing import Any, ClassVar, Generic, TypeVar

from mcphost.data import Data
from mcphost.host.forms import Field
from mcphost.protocol.asks import Root
from mcphost.protocol.tools import ToolAnnotations

A_co = TypeVar("A_co", covariant=True)


class Question(Data, Generic[A_co], frozen=True, kw_only=True):
    """The base: `server` asks (empty: mcphost itself), `why` says on whose behalf, in one short sentence."""

    KIND: ClassVar[str]
    server: str
    why: str

    def refusal(self) -> A_co:
        """The answer when nobody answers."""
        raise NotImplementedError


class AllowOnce(Data, frozen=True):
    """Run this call; `arguments` replaces what the model wrote when the user edited it."""

    arguments: dict[str, Any] | None = None


class AllowSession(Data, frozen=True):
    """Run this call and every later one of this tool until mcphost ends."""


class AllowAlways(Data, frozen=True):
    """Run this call and every later one of this tool, as long as server and definition stay what they are."""


class Deny(Data, frozen=True):
    """Do not run it; `reason` is for the model to read."""

    reason: str = ""


ToolVerdict = AllowOnce | AllowSession | AllowAlways | Deny


class ApproveTool(Question[ToolVerdict], frozen=True, kw_only=True):
    """May this call run? Shown complete: wire names, all arguments, what the server claims about the tool."""

    KIND: ClassVar[str] = "approve_tool"
    call: str
    tool: str
    arguments: dict[str, Any]
    description: str = ""
    claims: ToolAnnotations = ToolAnnotations()
    first_use: bool = True
    drifted: bool = False

    def refusal(self) -> ToolVerdict:
        return Deny()


class TrustOnce(Data, frozen=True):
    """Use the server in this run."""


class TrustAlways(Data, frozen=True):
    """Use the server as long as its command or address stays what it is."""


class DoNotTrust(Data, frozen=True):
    """Do not start or reach it."""


TrustVerdict = TrustOnce | TrustAlways | DoNotTrust


class TrustServer(Question[TrustVerdict], frozen=True, kw_only=True):
    """May this server be started or reached? Shown untruncated; values of env and headers are never shown.

    `changed` is what an earlier approval covered, when there was one.
    """

    KIND: ClassVar[str] = "trust_server"
    command: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    env_names: tuple[str, ...] = ()
    header_names: tuple[str, ...] = ()
    file: str = ""
    changed: str = ""

    def refusal(self) -> TrustVerdict:
        return DoNotTrust()


class ContinueTurn(Question[bool], frozen=True, kw_only=True):
    """The model used up its rounds of tool calls; may it go on for as many again?"""

    KIND: ClassVar[str] = "continue_turn"
    rounds: int

    def refusal(self) -> bool:
        return False


class AsShown(Data, frozen=True):
    """Go on with exactly what was shown."""


class EditedRequest(Data, frozen=True, kw_only=True):
    """Ask the model this instead; None keeps what was shown. `max_tokens` can only be lowered."""

    messages: tuple[dict[str, Any], ...] | None = None
    system: str | None = None
    max_tokens: int | None = None


SamplingVerdict = AsShown | EditedRequest | Deny


class ReviewSampling(Question[SamplingVerdict], frozen=True, kw_only=True):
    """A server wants the user's model to answer this; may it? Shown complete, in the words of the wire.

    `messages`, `tools` and `preferences` are what the server sent; `model` is who would answer, `label` how it is
    shown; `max_tokens` is the most it may write. `include_context` is what the server wished to have added from the
    conversation, which is never done.
    """

    KIND: ClassVar[str] = "review_sampling"
    messages: tuple[dict[str, Any], ...]
    model: str
    label: str
    max_tokens: int
    system: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str = "auto"
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    preferences: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    include_context: str = "none"

    def refusal(self) -> SamplingVerdict:
        return Deny()


class EditedReply(Data, frozen=True):
    """Send these content blocks instead."""

    content: tuple[dict[str, Any], ...]


ReplyVerdict = AsShown | EditedReply | Deny


class ReviewReply(Question[ReplyVerdict], frozen=True, kw_only=True):
    """This is what the model answered; may the server have it? Tool calls in it are run by the server, not by us."""

    KIND: ClassVar[str] = "review_reply"
    content: tuple[dict[str, Any], ...]
    model: str
    stop_reason: str

    def refusal(self) -> ReplyVerdict:
        return Deny()


class Accept(Data, frozen=True):
    """Send this content; a field that was left out has its default, a null leaves it empty."""

    content: dict[str, Any] = {}  # noqa: RUF012


class Decline(Data, frozen=True):
    """The user said no."""


class Cancel(Data, frozen=True):
    """The user went away without an answer."""


FormVerdict = Accept | Decline | Cancel


class FillForm(Question[FormVerdict], frozen=True, kw_only=True):
    """A server wants these fields filled in. `message` is its own; `warnings` are ours.

    Everything the server wrote is shown as text: no address in it may be clickable.
    """

    KIND: ClassVar[str] = "fill_form"
    message: str
    fields: tuple[Field, ...]
    warnings: tuple[str, ...] = ()

    def refusal(self) -> FormVerdict:
        return Cancel()


class Visited(Data, frozen=True):
    """The user agreed, and whoever answered opened the address in the user's browser."""


UrlVerdict = Visited | Decline | Cancel


class VisitUrl(Question[UrlVerdict], frozen=True, kw_only=True):
    """A server wants the user to go to this address. Nothing of it was fetched; `url` is whole, `host` where it leads.

    `elicitation` is the server's id for it (2025-11-25 only); `warnings` say what is odd about the address.
    """

    KIND: ClassVar[str] = "visit_url"
    message: str
    url: str
    host: str
    elicitation: str = ""
    warnings: tuple[str, ...] = ()

    def refusal(self) -> UrlVerdict:
        return Cancel()


class RetryCall(Question[bool], frozen=True, kw_only=True):
    """A call waits until the user is done at these addresses; repeat it now (True), or give it up?

    It is withdrawn, and the call repeated, when the server says that all of it is done.
    """

    KIND: ClassVar[str] = "retry_call"
    urls: tuple[str, ...]

    def refusal(self) -> bool:
        return False


class ShareOnce(Data, frozen=True):
    """Tell the server now; ask again next time."""


class ShareSession(Data, frozen=True):
    """Tell the server whenever it asks, until mcphost ends."""


class DoNotShare(Data, frozen=True):
    """Tell it nothing."""


RootsVerdict = ShareOnce | ShareSession | DoNotShare


class ShareRoots(Question[RootsVerdict], frozen=True, kw_only=True):
    """A server wants to know the user's folders. It is told where they are, not given their content.

    `gone` are folders that are configured and are left out because they cannot be read now.
    """

    KIND: ClassVar[str] = "share_roots"
    roots: tuple[Root, ...]
    gone: tuple[str, ...] = ()

    def refusal(self) -> RootsVerdict:
        return DoNotShare()


class InBrowser(Data, frozen=True):
    """The address is, or will be, open in a browser; its answer comes by itself."""


class PastedRedirect(Data, frozen=True):
    """The address at which the sign-in ended, copied from a browser that could not come back to us."""

    redirect_url: str

    def __repr__(self) -> str:
        return "PastedRedirect(…)"


class NoSignIn(Data, frozen=True):
    """Do not sign in."""


SignInVerdict = InBrowser | PastedRedirect | NoSignIn


class SignIn(Question[SignInVerdict], frozen=True, kw_only=True):
    """Sign in to a server? `url` is complete, `host` the part of it that says where it leads; `issuer` is who signs.

    `note` says why it is asked again. It is withdrawn when a browser brings the answer. With a `code` the user enters
    that at the address, in any browser, and there is nothing to paste.
    """

    KIND: ClassVar[str] = "sign_in"
    url: str
    host: str
    issuer: str
    scopes: tuple[str, ...] = ()
    account: str = ""
    code: str = ""
    note: str = ""

    def refusal(self) -> SignInVerdict:
        return NoSignIn()


AnyQuestion = (
    ApproveTool
    | TrustServer
    | ContinueTurn
    | ReviewSampling
    | ReviewReply
    | FillForm
    | VisitUrl
    | RetryCall
    | ShareRoots
    | SignIn
)
