"""All questions with their answer types and refusals.

A frontend shows one question at a time, in order of arrival. Answers that grant more than this call (`AllowSession`,
`AllowAlways`) are types of their own.
"""

from typing import Any, ClassVar

from mcphost.config.rules import Rule
from mcphost.errors import MalformedMessage
from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.sign_in import ChooseSecretStorage, EnterClientId, SignInQuestion, UnlockSecrets
from mcphost.llm.messages import ImagePart
from mcphost.llm.model import Usage
from mcphost.protocol.server_requests import Root
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import Raw, Struct, field, loads


class ModelCandidate(Struct, frozen=True, kw_only=True):
    """A model that may answer; None and 0 mean unknown.

    Prices are US dollars per token, `speed` is in tokens per second as measured in this run. `ceiling` is the
    approximate maximum cost of this request in US dollars; `rank` is the place among the user's models, the most
    capable first.
    """

    name: str
    label: str
    input_price: float | None = None
    output_price: float | None = None
    context_window: int = 0
    speed: float | None = None
    rank: int | None = None
    ceiling: float | None = None


class LimitUsage(Struct, frozen=True):
    """Usage of one limit, such as 3 of 10 "requests this minute"."""

    label: str = field(name="what")
    used: int
    limit: int = field(name="most")


class ResultPart(Struct, frozen=True, kw_only=True):
    """One part of a result, as the model receives it.

    `kind`: text, image, audio, link, resource, structured (JSON), other, error (a failed call) or note (from mcphost).
    `text` is for the model; `image` accompanies it. `size` is the size of the underlying data in bytes. `for_user`: the
    server meant it only for the user.
    """

    kind: str
    text: str
    image: ImagePart | None = None
    mime_type: str = ""
    size: int = 0
    for_user: bool = False


class PassResult(Struct, frozen=True):
    """Pass the result to the model as shown."""


class PassEditedResult(Struct, frozen=True):
    """Pass these texts to the model, one for each part in order; None omits the part and its image."""

    texts: tuple[str | None, ...]


class WithholdResult(Struct, frozen=True):
    """Withhold the result; the model reads `reason`."""

    reason: str = ""


ResultVerdict = PassResult | PassEditedResult | WithholdResult


class ReviewResult(Question[ResultVerdict], frozen=True, kw_only=True):
    """Review of a result: `parts` is everything that the model would receive, in order.

    `tool` was called with `arguments`; it is `resources/read` for a resource that the user attached and `load_skill`
    for a skill. `is_error`: the tool reported a failure.
    """

    KIND: ClassVar[str] = "review_result"
    call: str
    tool: str
    arguments: dict[str, Any]
    parts: tuple[ResultPart, ...]
    is_error: bool = False

    def refusal(self) -> ResultVerdict:
        """Return the answer that refuses."""
        return WithholdResult()


def edited_texts_error(question: ReviewResult, texts: tuple[str | None, ...]) -> str:
    """Return why these texts cannot replace the parts, as a sentence; "" if they can."""
    if len(texts) != len(question.parts):
        return f"There are {len(question.parts)} parts, but {len(texts)} texts."
    for part, text in zip(question.parts, texts, strict=True):
        if part.kind == "structured" and text is not None and text != part.text:
            try:
                loads(text, "structured content")
            except MalformedMessage as error:
                return error.message
    return ""


def passed_parts(question: ReviewResult, answer: object) -> tuple[ResultPart, ...]:
    """Return the parts for the model; none if withheld, or if the answer is invalid."""
    if isinstance(answer, PassResult):
        return question.parts
    if not isinstance(answer, PassEditedResult) or edited_texts_error(question, answer.texts):
        return ()
    pairs = zip(question.parts, answer.texts, strict=True)
    return tuple(ResultPart(kind=part.kind, text=text, image=part.image) for part, text in pairs if text is not None)


class AllowOnce(Struct, frozen=True):
    """Permission for this call; `arguments` replaces the model's if the user edited them."""

    arguments: dict[str, Any] | None = None


class AllowSession(Struct, frozen=True):
    """Permission for this and every later call of the tool until mcphost exits."""


class AllowAlways(Struct, frozen=True):
    """Permission for this and every later call of the tool.

    It is valid while the server and the definition are unchanged.
    """


class AllowRule(Struct, frozen=True):
    """Permission for this call if the rule covers it, and for every later call it covers.

    The rule is stored with the digests of the server and of the tools that it covers now; it must be about this server.
    A rule that does not cover this call is a refusal and is not stored. `arguments` replaces the model's if the user
    edited them; the rule then applies to the edited call.
    """

    rule: Rule
    arguments: dict[str, Any] | None = None


class Deny(Struct, frozen=True):
    """Refusal of a request; the model reads `reason`."""

    reason: str = ""


ToolVerdict = AllowOnce | AllowSession | AllowAlways | AllowRule | Deny


class ApproveTool(Question[ToolVerdict], frozen=True, kw_only=True):
    """Approval of one tool call, shown with wire names, all arguments and the server's claims.

    `account` is the account that the call uses, "" when nobody is signed in. `folder` is where the server runs, to
    which paths in arguments are relative, None on another machine. `schema` is the tool's inputSchema for editing the
    arguments; edits are refused unless `editable`. `arguments_error` names the problem of edited arguments when
    the question is repeated. `skill` is the address of the skill to load, "" for a server's tool.
    """

    KIND: ClassVar[str] = "approve_tool"
    call: str
    tool: str
    arguments: dict[str, Any]
    description: str = ""
    claims: ToolAnnotations = ToolAnnotations()
    first_use: bool = True
    has_changed: bool = field(default=False, name="drifted")
    folder: str | None = None
    schema: Raw = Raw(b"{}")
    editable: bool = True
    arguments_error: str = field(default="", name="fault")
    skill: str = ""

    def refusal(self) -> ToolVerdict:
        """Return the answer that refuses."""
        return Deny()


class ToolChange(Struct, frozen=True, kw_only=True):
    """A changed tool. `difference` has sanitized lines that begin with `- `, `+ ` or two blanks."""

    tool: str
    digest: str
    difference: tuple[str, ...]


class AcceptToolChanges(Struct, frozen=True):
    """The tools whose changes are accepted; all others stay in quarantine."""

    tools: tuple[str, ...] = ()


class ReviewToolChanges(Question[AcceptToolChanges], frozen=True, kw_only=True):
    """Review of tools that changed since they were first seen or last accepted.

    Until the answer they are quarantined: not offered to the model and not called.
    """

    KIND: ClassVar[str] = "tools_changed"
    changes: tuple[ToolChange, ...]

    def refusal(self) -> AcceptToolChanges:
        """Return the answer that refuses."""
        return AcceptToolChanges()


class TrustOnce(Struct, frozen=True):
    """Approval of the server for this run."""


class TrustAlways(Struct, frozen=True):
    """Approval of the server while its command or address is unchanged."""


class DoNotTrust(Struct, frozen=True):
    """Refusal to start or reach the server."""


TrustVerdict = TrustOnce | TrustAlways | DoNotTrust


class TrustServer(Question[TrustVerdict], frozen=True, kw_only=True):
    """Approval of a server before it is started or reached, shown untruncated.

    `changed` is the difference from an earlier approval: every line, "- " removed, "+ " added, " " unchanged.
    `trusts_claims`: the user's file auto-approves tools that the server claims are read-only. `filled_in` names the
    values of this machine that the server receives, such as "header Authorization: ${keyring:work}". `warnings` are
    sentences about risks of its command and variables. `environment`, `headers` and `sign_in` (`mcphost.oauth`) have
    the values by name; likely secrets are "[hidden]", with a fingerprint where a change asks again. `restrictions` has
    a line for each restriction of a project's server, from its file or the user's entry for the same server.
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
        """Return the answer that refuses."""
        return DoNotTrust()


class ContinueTurn(Question[bool], frozen=True, kw_only=True):
    """Approval of another series of tool rounds after the limit was reached."""

    KIND: ClassVar[str] = "continue_turn"
    rounds: int

    def refusal(self) -> bool:
        """Return the answer that refuses."""
        return False


class ApproveUnchanged(Struct, frozen=True):
    """Approval of exactly what was shown."""


class EditedRequest(Struct, frozen=True, kw_only=True):
    """An edited sampling request; None keeps what was shown.

    `max_tokens` can only be lowered, `model` is one of the offered models, and `context` adds the conversation as
    shown.
    """

    messages: tuple[dict[str, Any], ...] | None = None
    system: str | None = None
    max_tokens: int | None = None
    model: str | None = None
    context: bool = False


SamplingVerdict = ApproveUnchanged | EditedRequest | Deny


class ReviewSampling(Question[SamplingVerdict], frozen=True, kw_only=True):
    """Review of a server's sampling request, shown completely in wire format.

    `messages`, `tools` and `preferences` are from the server. `model` is the model that would answer, `label` its
    display name, `reason` why it was selected from `models`; `max_tokens` limits its output, `tokens` is the
    approximate input. `budget` is the server's usage so far. `include_context` is the context that the server
    requested; `conversation` is that text, added only if the answer says so, "" if it is not available.
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
        """Return the answer that refuses."""
        return Deny()


class EditedReply(Struct, frozen=True):
    """Content blocks to send instead."""

    content: tuple[dict[str, Any], ...]


ReplyVerdict = ApproveUnchanged | EditedReply | Deny


class ReviewReply(Question[ReplyVerdict], frozen=True, kw_only=True):
    """Review of the model's answer before the server receives it.

    The server, not mcphost, runs the tool calls in it.
    """

    KIND: ClassVar[str] = "review_reply"
    content: tuple[dict[str, Any], ...]
    model: str
    stop_reason: str
    usage: Usage = Usage()

    def refusal(self) -> ReplyVerdict:
        """Return the answer that refuses."""
        return Deny()


class Accept(Struct, frozen=True):
    """Content to send; a field that is absent has its default, a null leaves it empty."""

    content: dict[str, Any] = {}  # noqa: RUF012


class Decline(Struct, frozen=True):
    """The user declined."""


class Cancel(Struct, frozen=True):
    """The user dismissed the question without an answer."""


FormVerdict = Accept | Decline | Cancel


class FillForm(Question[FormVerdict], frozen=True, kw_only=True):
    """A form of a server. `message` is the server's text; `warnings` are from mcphost.

    All texts of the server are shown as plain text: addresses in them must not be clickable.
    """

    KIND: ClassVar[str] = "fill_form"
    message: str
    fields: tuple[Field, ...]
    warnings: tuple[str, ...] = ()

    def refusal(self) -> FormVerdict:
        """Return the answer that refuses."""
        return Cancel()


class AcceptUrl(Struct, frozen=True):
    """The user agreed, and the frontend opened the address in the user's browser."""


UrlVerdict = AcceptUrl | Decline | Cancel


class VisitUrl(Question[UrlVerdict], frozen=True, kw_only=True):
    """A server's request to visit an address, of which nothing was fetched.

    `url` is complete, `host` is its host. `elicitation` is the server's id (2025-11-25 only); `warnings` name what is
    unusual about the address.
    """

    KIND: ClassVar[str] = "visit_url"
    message: str
    url: str
    host: str
    elicitation: str = ""
    warnings: tuple[str, ...] = ()

    def refusal(self) -> UrlVerdict:
        """Return the answer that refuses."""
        return Cancel()


class RetryCall(Question[bool], frozen=True, kw_only=True):
    """Whether to repeat a call that waits for the user at these addresses (True), or to give up.

    It is withdrawn and the call repeated when the server reports that all are complete.
    """

    KIND: ClassVar[str] = "retry_call"
    urls: tuple[str, ...]

    def refusal(self) -> bool:
        """Return the answer that refuses."""
        return False


class ShareOnce(Struct, frozen=True):
    """Share now; ask again next time."""


class ShareSession(Struct, frozen=True):
    """Share on every request until mcphost exits."""


class ShareAlways(Struct, frozen=True):
    """Share these folders on every request while the server's command or address is unchanged."""


class DoNotShare(Struct, frozen=True):
    """Share nothing."""


class NeverShare(Struct, frozen=True):
    """Share nothing of these folders, now or later, while the server is unchanged."""


class SharePerServer(Struct, frozen=True):
    """The choice for each server: "once", "session", "always", "never" or "deny" (the default)."""

    choices: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults


RootsVerdict = ShareOnce | ShareSession | ShareAlways | DoNotShare | NeverShare | SharePerServer


class RequestingServer(Struct, frozen=True, kw_only=True):
    """One of several servers that request folders; `roots` are the ones it would receive."""

    server: str
    why: str
    account: str = ""
    roots: tuple[Root, ...] = ()


class ShareRoots(Question[RootsVerdict], frozen=True, kw_only=True):
    """A server's request for the user's folders: it receives their paths, not their content.

    `gone` are listed folders that are omitted because they cannot be read now. `origins` names the source of each root,
    `warnings` why sharing it may be a risk, each a sentence or "". If several servers wait, `askers` has all of them
    and the answer is a SharePerServer; any other answer refuses all but the first.
    """

    KIND: ClassVar[str] = "share_roots"
    roots: tuple[Root, ...]
    gone: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    askers: tuple[RequestingServer, ...] = ()

    def refusal(self) -> RootsVerdict:
        """Return the answer that refuses."""
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
