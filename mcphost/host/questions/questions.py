"""Question[A] and every question with its answer type and its refusal.

A question says who asks and why; a front end shows one at a time, first come first shown. An answer that widens
what may happen later (`AllowSession`, `AllowAlways`) is a type of its own.
"""

from typing import Any, ClassVar

from mcphost.config.rules import Rule
from mcphost.host.questions.client_id_question import EnterClientId
from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.question import Question
from mcphost.host.questions.result_review_questions import ReviewResult
from mcphost.host.questions.sampling_context import LimitUsage, ModelCandidate
from mcphost.host.questions.secret_storage_questions import ChooseSecretStorage, UnlockSecrets
from mcphost.host.questions.sign_in_questions import SignInQuestion
from mcphost.llm.model import Usage
from mcphost.protocol.server_requests import Root
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import Raw, Struct


class AllowOnce(Struct, frozen=True):
    """Run this call; `arguments` replaces what the model wrote when the user edited it."""

    arguments: dict[str, Any] | None = None


class AllowSession(Struct, frozen=True):
    """Run this call and every later one of this tool until mcphost ends."""


class AllowAlways(Struct, frozen=True):
    """Run this call and every later one of this tool, as long as server and definition stay what they are."""


class AllowRule(Struct, frozen=True):
    """Run this call if the rule covers it, and every other one it covers, for as long and wherever it says.

    The rule is kept with the digests of the server and of the tools that it covers now; it must be about this server.
    A rule that does not cover this call is a refusal, and kept nowhere. `arguments` replaces what the model wrote when
    the user edited it; the rule is then about the edited call.
    """

    rule: Rule
    arguments: dict[str, Any] | None = None


class Deny(Struct, frozen=True):
    """Do not run it; `reason` is for the model to read."""

    reason: str = ""


ToolVerdict = AllowOnce | AllowSession | AllowAlways | AllowRule | Deny


class ApproveTool(Question[ToolVerdict], frozen=True, kw_only=True):
    """May this call run? Shown complete: wire names, all arguments, what the server claims about the tool.

    `account` is the name of the account it would run with; "" where nobody is signed in.
    `folder` is where the server runs, which paths in arguments are relative to; None when it runs on another machine.
    `schema` is the tool's inputSchema, for whoever edits the arguments; where they are not `editable`, edited ones are
    not taken. `fault` says what did not fit in arguments that were edited, when that is why it is asked again.
    `skill` is the address of the skill that would be loaded; "" for a tool of a server.
    """

    KIND: ClassVar[str] = "approve_tool"
    call: str
    tool: str
    arguments: dict[str, Any]
    description: str = ""
    claims: ToolAnnotations = ToolAnnotations()
    first_use: bool = True
    drifted: bool = False
    folder: str | None = None
    schema: Raw = Raw(b"{}")
    editable: bool = True
    fault: str = ""
    skill: str = ""

    def refusal(self) -> ToolVerdict:
        return Deny()


class ToolChange(Struct, frozen=True, kw_only=True):
    """One tool that is not what it was. `difference` is for people: lines marked `- `, `+ ` or two blanks, cleaned."""

    tool: str
    digest: str
    difference: tuple[str, ...]


class AcceptToolChanges(Struct, frozen=True):
    """These tools may be what they are now; every other stays held back from the model."""

    tools: tuple[str, ...] = ()


class ReviewToolChanges(Question[AcceptToolChanges], frozen=True, kw_only=True):
    """A server's tools are not what they were when they were first seen, or last kept; which may stay as they are?

    Until somebody says so they are held back: the model is not told of them, and nothing calls them.
    """

    KIND: ClassVar[str] = "tools_changed"
    changes: tuple[ToolChange, ...]

    def refusal(self) -> AcceptToolChanges:
        return AcceptToolChanges()


class TrustOnce(Struct, frozen=True):
    """Use the server in this run."""


class TrustAlways(Struct, frozen=True):
    """Use the server as long as its command or address stays what it is."""


class DoNotTrust(Struct, frozen=True):
    """Do not start or reach it."""


TrustVerdict = TrustOnce | TrustAlways | DoNotTrust


class TrustServer(Question[TrustVerdict], frozen=True, kw_only=True):
    """May this server be started or reached? Shown untruncated.

    `changed` compares with what an earlier approval covered, when there was one: every line, "- " before what is gone,
    "+ " before what is new, "  " before what stayed. `trusts_claims`: the user's file says that tools which the server
    claims only to read run unasked. `filled_in`: which values of this machine it is given where, such as
    "header Authorization: ${keyring:work}". `warnings`: sentences about what is dangerous in its command and its
    variables. `environment`, `headers` and `sign_in` (`mcphost.oauth`) have the values, by name; what looks like a
    secret is "[hidden]" there, with a fingerprint when a change of it asks again. `restrictions`: a line for each thing
    that restricts a project's server, because its file or the user's entry for the same server says so.
    """

    KIND: ClassVar[str] = "trust_server"
    command: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    ca_file: str = ""
    env_names: tuple[str, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    header_names: tuple[str, ...] = ()
    headers: dict[str, str] = {}  # noqa: RUF012
    sign_in: dict[str, str] = {}  # noqa: RUF012
    filled_in: tuple[str, ...] = ()
    file: str = ""
    trusts_claims: bool = False
    restrictions: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def refusal(self) -> TrustVerdict:
        return DoNotTrust()


class ContinueTurn(Question[bool], frozen=True, kw_only=True):
    """The model used up its rounds of tool calls; may it go on for as many again?"""

    KIND: ClassVar[str] = "continue_turn"
    rounds: int

    def refusal(self) -> bool:
        return False


class ApproveUnchanged(Struct, frozen=True):
    """Go on with exactly what was shown."""


class EditedRequest(Struct, frozen=True, kw_only=True):
    """Ask the model this instead; None keeps what was shown. `max_tokens` can only be lowered, `model` is one of those
    on offer, and `context` adds the conversation as it was shown."""

    messages: tuple[dict[str, Any], ...] | None = None
    system: str | None = None
    max_tokens: int | None = None
    model: str | None = None
    context: bool = False


SamplingVerdict = ApproveUnchanged | EditedRequest | Deny


class ReviewSampling(Question[SamplingVerdict], frozen=True, kw_only=True):
    """A server wants the user's model to answer this; may it? Shown complete, in the words of the wire.

    `messages`, `tools` and `preferences` are what the server sent; `model` is who would answer, `label` how it is
    shown, `reason` why it was chosen of `models`; `max_tokens` is the most it may write, `tokens` about what goes in.
    `budget` is what the server used so far. `include_context` is what the server wished to have added from the
    conversation; `conversation` is that text, added only where the answer says so, and "" where it is not on offer.
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
    conversation: str = ""
    reason: str = ""
    models: tuple[ModelCandidate, ...] = ()
    budget: tuple[LimitUsage, ...] = ()
    tokens: int = 0

    def refusal(self) -> SamplingVerdict:
        return Deny()


class EditedReply(Struct, frozen=True):
    """Send these content blocks instead."""

    content: tuple[dict[str, Any], ...]


ReplyVerdict = ApproveUnchanged | EditedReply | Deny


class ReviewReply(Question[ReplyVerdict], frozen=True, kw_only=True):
    """This is what the model answered; may the server have it? Tool calls in it are run by the server, not by us."""

    KIND: ClassVar[str] = "review_reply"
    content: tuple[dict[str, Any], ...]
    model: str
    stop_reason: str
    usage: Usage = Usage()

    def refusal(self) -> ReplyVerdict:
        return Deny()


class Accept(Struct, frozen=True):
    """Send this content; a field that was left out has its default, a null leaves it empty."""

    content: dict[str, Any] = {}  # noqa: RUF012


class Decline(Struct, frozen=True):
    """The user said no."""


class Cancel(Struct, frozen=True):
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


class AcceptUrl(Struct, frozen=True):
    """The user agreed, and whoever answered opened the address in the user's browser."""


UrlVerdict = AcceptUrl | Decline | Cancel


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


class ShareOnce(Struct, frozen=True):
    """Tell the server now; ask again next time."""


class ShareSession(Struct, frozen=True):
    """Tell the server whenever it asks, until mcphost ends."""


class ShareAlways(Struct, frozen=True):
    """Tell the server of these folders whenever it asks, as long as its command or address stays what it is."""


class DoNotShare(Struct, frozen=True):
    """Tell it nothing."""


class NeverShare(Struct, frozen=True):
    """Tell it nothing of these folders, now and whenever it asks, as long as it stays what it is."""


class SharePerServer(Struct, frozen=True):
    """For each server of a question about several: "once", "session", "always", "never" or "deny" (as without one)."""

    choices: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults


RootsVerdict = ShareOnce | ShareSession | ShareAlways | DoNotShare | NeverShare | SharePerServer


class RequestingServer(Struct, frozen=True, kw_only=True):
    """One of several servers that want to know folders: `roots` are those that it would be told."""

    server: str
    why: str
    account: str = ""
    roots: tuple[Root, ...] = ()


class ShareRoots(Question[RootsVerdict], frozen=True, kw_only=True):
    """A server wants to know the user's folders. It is told where they are, not given their content.

    `gone` are folders that are in the list and are left out because they cannot be read now. `origins` says of each
    root where it comes from, `warnings` why one may not want to tell of it, in a sentence or not at all. Where several
    servers wait, `askers` are all of them, and the answer is a SharePerServer; any other refuses all but the first.
    """

    KIND: ClassVar[str] = "share_roots"
    roots: tuple[Root, ...]
    gone: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    askers: tuple[RequestingServer, ...] = ()

    def refusal(self) -> RootsVerdict:
        return DoNotShare()


AnyQuestion = (
    ApproveTool
    | ReviewToolChanges
    | TrustServer
    | ContinueTurn
    | ReviewSampling
    | ReviewReply
    | FillForm
    | VisitUrl
    | RetryCall
    | ShareRoots
    | SignInQuestion
    | ChooseSecretStorage
    | UnlockSecrets
    | EnterClientId
    | ReviewResult
)
