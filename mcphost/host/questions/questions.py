"""All questions to the user, with their answers and refusals.

A frontend shows one question at a time, in order of arrival. An answer that also allows later calls, such as
`AllowSession` or `AllowAlways`, has its own type.
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
    """A model that could answer a sampling request; None and 0 mean unknown.

    Prices are in US dollars per token. `speed` is in tokens per second, measured in this run. `ceiling` is the
    estimated highest cost of this request in US dollars. `rank` is the position in the user's list of models, the most
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
    """How much of a limit is used, such as 3 of 10 "requests this minute"."""

    label: str = field(name="what")
    used: int
    limit: int = field(name="most")


class ResultPart(Struct, frozen=True, kw_only=True):
    """One part of a result, as the model receives it.

    `kind` is text, image, audio, link, resource, structured (JSON), other, error (a failed call) or note (a remark of
    mcphost). `size` is the size of the original data in bytes. `for_user`: the server meant the part only for the user.
    """

    kind: str
    text: str
    image: ImagePart | None = None
    mime_type: str = ""
    size: int = 0
    for_user: bool = False


class PassResult(Struct, frozen=True):
    """Answer: give the model the result as shown."""


class PassEditedResult(Struct, frozen=True):
    """Answer: give the model these texts, one for each part in order; None omits the part and its image."""

    texts: tuple[str | None, ...]


class WithholdResult(Struct, frozen=True):
    """Answer: withhold the result; the model receives `reason` instead."""

    reason: str = ""


ResultVerdict = PassResult | PassEditedResult | WithholdResult


class ReviewResult(Question[ResultVerdict], frozen=True, kw_only=True):
    """The question of whether the model may receive a result; `parts` is everything that it would receive, in order.

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
        """Return an answer that withholds the result."""
        return WithholdResult()


def edited_texts_error(question: ReviewResult, texts: tuple[str | None, ...]) -> str:
    """Return a sentence on why these texts cannot replace the parts of the result; "" if they can."""
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
    """Return the parts that the answer gives to the model; none if it withholds the result or is invalid."""
    if isinstance(answer, PassResult):
        return question.parts
    if not isinstance(answer, PassEditedResult) or edited_texts_error(question, answer.texts):
        return ()
    pairs = zip(question.parts, answer.texts, strict=True)
    return tuple(ResultPart(kind=part.kind, text=text, image=part.image) for part, text in pairs if text is not None)


class AllowOnce(Struct, frozen=True):
    """Answer: allow this call; `arguments` replaces the arguments if the user edited them."""

    arguments: dict[str, Any] | None = None


class AllowSession(Struct, frozen=True):
    """Answer: allow this call and later calls of the tool until mcphost exits."""


class AllowAlways(Struct, frozen=True):
    """Answer: allow this call and later calls of the tool, also after a restart.

    The permission ends when the server's command or address, or the tool's definition, changes.
    """


class AllowRule(Struct, frozen=True):
    """Answer: allow this call and all later calls that match a rule.

    The rule must be about this server and match this call; otherwise the call is refused and the rule is not stored. It
    is stored with the digests of the server and of the tools that it matches now. `arguments` replaces the arguments if
    the user edited them; the rule must then match the edited call.
    """

    rule: Rule
    arguments: dict[str, Any] | None = None


class Deny(Struct, frozen=True):
    """Answer: refuse the request; the model receives `reason`."""

    reason: str = ""


ToolVerdict = AllowOnce | AllowSession | AllowAlways | AllowRule | Deny


class ApproveTool(Question[ToolVerdict], frozen=True, kw_only=True):
    """The question of whether a tool call may run; the frontend shows all arguments.

    `claims` are the tool's annotations, which are unverified. `account` is the account that the call uses, "" for none.
    `folder` is the server's working directory, to which paths in arguments are relative, None if it runs on another
    machine. `schema` is the tool's input schema for editing the arguments; edits are refused unless `editable`.
    `arguments_error` is the error in edited arguments when the question is repeated. `skill` is the URI of a skill to
    load, "" for a server's tool.
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
        """Return an answer that denies the call."""
        return Deny()


class ToolChange(Struct, frozen=True, kw_only=True):
    """A changed tool. `difference` has sanitized lines that begin with "- ", "+ " or two spaces."""

    tool: str
    digest: str
    difference: tuple[str, ...]


class AcceptToolChanges(Struct, frozen=True):
    """Answer: accept the changes of these tools; all others stay in quarantine."""

    tools: tuple[str, ...] = ()


class ReviewToolChanges(Question[AcceptToolChanges], frozen=True, kw_only=True):
    """The question of which changed tools to accept.

    They changed since they were first seen or last accepted. Until the answer they are quarantined: neither offered to
    the model nor called.
    """

    KIND: ClassVar[str] = "tools_changed"
    changes: tuple[ToolChange, ...]

    def refusal(self) -> AcceptToolChanges:
        """Return an answer that accepts no change."""
        return AcceptToolChanges()


class TrustOnce(Struct, frozen=True):
    """Answer: trust the server until mcphost exits."""


class TrustAlways(Struct, frozen=True):
    """Answer: trust the server as long as its command or address is unchanged."""


class DoNotTrust(Struct, frozen=True):
    """Answer: do not start the server or connect to it."""


TrustVerdict = TrustOnce | TrustAlways | DoNotTrust


class TrustServer(Question[TrustVerdict], frozen=True, kw_only=True):
    """The question of whether to start a server or connect to it; the frontend shows everything untruncated.

    `file` is the configuration file, `env_file` a file with more variables, and its digest. `env_names` and
    `header_names` are the names, `environment` and `headers` the values of variables and HTTP headers; `sign_in`
    has the settings for OAuth. Likely secrets are "[hidden]", with a fingerprint if a changed value needs a new
    approval. `filled_in` names the local values that the server receives, such as "header Authorization:
    ${keyring:work}". `expansion` is what the references in the command, the folder and the address stand for now,
    by their text.

    `changed` has the lines of the difference from an earlier approval: "- " removed, "+ " added, " " unchanged.
    `trusts_claims`: the user's configuration approves tools automatically if the server claims that they are read-only.
    `restrictions` are the restrictions on a project's server, and `warnings` the risks of its command and variables,
    one sentence each.
    """

    KIND: ClassVar[str] = "trust_server"
    command: tuple[str, ...] = ()
    cwd: str = ""
    env_file: str = ""
    url: str = ""
    ca_file: str = ""
    env_names: tuple[str, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    header_names: tuple[str, ...] = ()
    headers: dict[str, str] = {}  # noqa: RUF012
    sign_in: dict[str, str] = {}  # noqa: RUF012
    filled_in: tuple[str, ...] = ()
    expansion: dict[str, str] = {}  # noqa: RUF012
    file: str = ""
    trusts_claims: bool = False
    restrictions: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def refusal(self) -> TrustVerdict:
        """Return an answer that does not trust the server."""
        return DoNotTrust()


class ContinueTurn(Question[bool], frozen=True, kw_only=True):
    """The question of whether to continue a turn that used its limit of tool rounds; True allows as many again."""

    KIND: ClassVar[str] = "continue_turn"
    rounds: int

    def refusal(self) -> bool:
        """Return False, which ends the turn."""
        return False


class ApproveUnchanged(Struct, frozen=True):
    """Answer: send exactly what was shown."""


class EditedRequest(Struct, frozen=True, kw_only=True):
    """Answer: use an edited sampling request; a value that is None is unchanged.

    `max_tokens` can only be lowered. `model` is the name of one of the offered models. `context` adds the conversation
    that was shown.
    """

    messages: tuple[dict[str, Any], ...] | None = None
    system: str | None = None
    max_tokens: int | None = None
    model: str | None = None
    context: bool = False


SamplingVerdict = ApproveUnchanged | EditedRequest | Deny


class ReviewSampling(Question[SamplingVerdict], frozen=True, kw_only=True):
    """The question of whether the model may answer a sampling request, shown in its wire format.

    `messages`, `tools`, `preferences` and `include_context` are from the server. `model` would answer; `label` is its
    display name, and `reason` explains why it was selected from `models`. `max_tokens` limits the output, and `tokens`
    estimates the input. `budget` is how much of its limits the server has used. `conversation` is the text that the
    server requested with `include_context`, "" if there is none; it is sent only if the answer says so.
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
        """Return an answer that denies the request."""
        return Deny()


class EditedReply(Struct, frozen=True):
    """Answer: send these content blocks instead of the model's."""

    content: tuple[dict[str, Any], ...]


ReplyVerdict = ApproveUnchanged | EditedReply | Deny


class ReviewReply(Question[ReplyVerdict], frozen=True, kw_only=True):
    """The question of whether a server may receive the model's answer to its sampling request.

    Tool calls in the answer are run by the server, not by mcphost.
    """

    KIND: ClassVar[str] = "review_reply"
    content: tuple[dict[str, Any], ...]
    model: str
    stop_reason: str
    usage: Usage = Usage()

    def refusal(self) -> ReplyVerdict:
        """Return an answer that sends no reply to the server."""
        return Deny()


class Accept(Struct, frozen=True):
    """Answer: send this content of a form; a missing field gets its default, a null omits the field."""

    content: dict[str, Any] = {}  # noqa: RUF012


class Decline(Struct, frozen=True):
    """Answer: the user declined the form or the address."""


class Cancel(Struct, frozen=True):
    """Answer: the user dismissed the question without a decision."""


FormVerdict = Accept | Decline | Cancel


class FillForm(Question[FormVerdict], frozen=True, kw_only=True):
    """The question with a form of a server; `message` is the server's text, and `warnings` are from mcphost.

    All texts of the server must be shown as plain text, so that addresses in them are not clickable.
    """

    KIND: ClassVar[str] = "fill_form"
    message: str
    fields: tuple[Field, ...]
    warnings: tuple[str, ...] = ()

    def refusal(self) -> FormVerdict:
        """Return an answer that cancels the elicitation."""
        return Cancel()


class AcceptUrl(Struct, frozen=True):
    """Answer: the user agreed, and the frontend opened the address in a browser."""


UrlVerdict = AcceptUrl | Decline | Cancel


class VisitUrl(Question[UrlVerdict], frozen=True, kw_only=True):
    """The question of whether to open an address for a server.

    Nothing was requested from the address yet. `url` is the complete address, and `host` its host. `elicitation` is the
    server's id of the request (2025-11-25 only), else "". `warnings` are sentences on what is unusual about the
    address.
    """

    KIND: ClassVar[str] = "visit_url"
    message: str
    url: str
    host: str
    elicitation: str = ""
    warnings: tuple[str, ...] = ()

    def refusal(self) -> UrlVerdict:
        """Return an answer that cancels the elicitation."""
        return Cancel()


class RetryCall(Question[bool], frozen=True, kw_only=True):
    """The question of whether to repeat a call after the user has visited these addresses.

    False gives up the call. When the server reports that the user has completed all of them, the question is withdrawn
    and the call repeated.
    """

    KIND: ClassVar[str] = "retry_call"
    urls: tuple[str, ...]

    def refusal(self) -> bool:
        """Return False, which gives up the call."""
        return False


class ShareOnce(Struct, frozen=True):
    """Answer: share the folders now, and ask again at the next request."""


class ShareSession(Struct, frozen=True):
    """Answer: share the folders at every request until mcphost exits."""


class ShareAlways(Struct, frozen=True):
    """Answer: share these folders at every request as long as the server's command or address is unchanged."""


class DoNotShare(Struct, frozen=True):
    """Answer: share no folder, and ask again at a later request."""


class NeverShare(Struct, frozen=True):
    """Answer: never share these folders as long as the server's command or address is unchanged."""


class SharePerServer(Struct, frozen=True):
    """Answers by server name: "once", "session", "always", "never" or "deny"; a missing server means "deny"."""

    choices: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults


RootsVerdict = ShareOnce | ShareSession | ShareAlways | DoNotShare | NeverShare | SharePerServer


class RequestingServer(Struct, frozen=True, kw_only=True):
    """One of several servers that request folders at the same time; `roots` are those that it would receive."""

    server: str
    why: str
    account: str = ""
    roots: tuple[Root, ...] = ()


class ShareRoots(Question[RootsVerdict], frozen=True, kw_only=True):
    """The question of whether a server may receive the paths of the user's folders, not their content.

    `gone` are the configured folders that cannot be read now and are omitted. For each of `roots`, `origins` has its
    source and `warnings` a sentence on the risk of sharing it, or "". If several servers wait, they are in `askers` and
    the answer is a SharePerServer; any other answer refuses all but the first.
    """

    KIND: ClassVar[str] = "share_roots"
    roots: tuple[Root, ...]
    gone: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    askers: tuple[RequestingServer, ...] = ()

    def refusal(self) -> RootsVerdict:
        """Return an answer that shares no folder."""
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
