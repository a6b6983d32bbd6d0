"""All questions that the host asks the user, with their possible answers.

An answer that also covers later calls, such as `AllowSession` or `AllowAlways`, has its own type.
"""

from typing import Any, ClassVar

from mcphost.config.rules import Rule
from mcphost.config.schema import HookSettings
from mcphost.errors import MalformedMessage
from mcphost.host.argument_origins import ArgumentOrigin, MediaOrigin
from mcphost.host.questions import kinds
from mcphost.host.questions.compaction import OfferCompaction, ReviewCompaction
from mcphost.host.questions.cost import ApproveCost
from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.sign_in import ChooseSecretStorage, EnterClientId, SignInQuestion, UnlockSecrets
from mcphost.host.questions.tool_changes import ReviewToolChanges
from mcphost.llm.messages import ImagePart
from mcphost.llm.model import Usage
from mcphost.protocol.server_requests import Root
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import Raw, Struct, field, loads


class ModelCandidate(Struct, frozen=True, kw_only=True):
    """A model that could answer a sampling request; None and 0 mean unknown.

    `input_price` and `output_price` are in US dollars per token. `speed` is in tokens per second, measured in this run.
    `ceiling` is the highest estimated cost of this request in US dollars. `rank` is the model's position in the user's
    list of models; the first model of this list is the most capable.
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
    """One part of a tool result, as the model receives it.

    `kind` is "text", "image", "audio", "link", "resource", "structured" (JSON), "other", "error" (the text of a failed
    call) or "note" (a remark by mcphost). `size` is the size of the original data in bytes. `for_user` means that the
    server intended the part only for the user.
    """

    kind: str
    text: str
    image: ImagePart | None = None
    mime_type: str = ""
    size: int = 0
    for_user: bool = False


class PassResult(Struct, frozen=True):
    """Answer to ReviewResult that passes the tool's result to the model unchanged."""


class PassEditedResult(Struct, frozen=True):
    """Answer to ReviewResult that passes edited text to the model instead of the result.

    `texts` contains the new text of each part of the result, in order; None omits the part, including its image.
    """

    texts: tuple[str | None, ...]


class WithholdResult(Struct, frozen=True):
    """Answer to ReviewResult that withholds the result.

    The model receives a note that the result was withheld, with `reason` unless it is empty.
    """

    reason: str = ""


ResultVerdict = PassResult | PassEditedResult | WithholdResult


class ReviewResult(Question[ResultVerdict], frozen=True, kw_only=True):
    """Question that asks whether the model may receive the result of a tool call, a resource or a skill.

    `parts` are all parts that the model would receive, in order. `tool` is the tool that was called with `arguments`,
    `resources/read` for a resource that the user attached, or `load_skill` for a skill. `is_error` means that the tool
    reported a failure.
    """

    KIND: ClassVar[str] = kinds.REVIEW_RESULT
    call: str
    tool: str
    arguments: dict[str, Any]
    parts: tuple[ResultPart, ...]
    is_error: bool = False

    def refusal(self) -> ResultVerdict:
        """Return an answer that withholds the result."""
        return WithholdResult()


def edited_texts_error(question: ReviewResult, texts: tuple[str | None, ...]) -> str:
    """Return an error message if these texts cannot replace the result's parts, or "" if they can.

    The message is one sentence.
    """
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
    """Return the parts that the model receives after this answer.

    Returns no parts if the answer withholds the result or is invalid.
    """
    if isinstance(answer, PassResult):
        return question.parts
    if not isinstance(answer, PassEditedResult) or edited_texts_error(question, answer.texts):
        return ()
    pairs = zip(question.parts, answer.texts, strict=True)
    return tuple(ResultPart(kind=part.kind, text=text, image=part.image) for part, text in pairs if text is not None)


class AllowOnce(Struct, frozen=True):
    """Answer that allows this call; if the user edited the arguments, `arguments` replaces them."""

    arguments: dict[str, Any] | None = None


class AllowSession(Struct, frozen=True):
    """Answer that allows this call and later calls of the tool until mcphost exits."""


class AllowAlways(Struct, frozen=True):
    """Answer that allows this call and later calls of the tool, even after a restart.

    The permission ends when the server's command or URL, or the tool's definition, changes.
    """


class AllowRule(Struct, frozen=True):
    """Answer that allows this call and all later calls that match a rule.

    If the user edited the arguments, `arguments` contains the edited ones. The rule must be for this server and match
    the call with these arguments; otherwise, the call is denied and the rule is not stored. The rule applies only while
    the server's settings and the definitions of the tools that it covers stay unchanged.
    """

    rule: Rule
    arguments: dict[str, Any] | None = None


class Deny(Struct, frozen=True):
    """Answer that refuses the request; the model, or the server that made the request, receives `reason`.

    `is_by_user` is False if the user was not asked, because a rule refused the request or no user is present.
    """

    reason: str = ""
    is_by_user: bool = True


ToolVerdict = AllowOnce | AllowSession | AllowAlways | AllowRule | Deny


class ApproveTool(Question[ToolVerdict], frozen=True, kw_only=True):
    """Consent prompt for a tool call; the frontend shows all arguments.

    - `claims`: the tool's annotations from the server, which are unverified.
    - `account`: the account that the call uses, "" for none.
    - `folder`: the server's working directory, to which paths are relative; None if the server is remote.
    - `schema`: the tool's input schema, for editing the arguments; edits are refused unless `editable` is true.
    - `arguments_error`: what is wrong with edited arguments, if the question is asked again because of them.
    - `has_server_changed`: the user's grants are for an earlier command or URL of the server and do not apply.
    - `skill`: the URI of the skill to load, "" for a tool.
    - `origins`: parts of the arguments that came from other servers or files, at least one for each server.
    - `omitted_origins`: the number of origins left out of `origins`.
    - `are_origins_complete`: whether all texts from servers and files could be compared with the arguments.
    - `media_origins`: images, PDF files and audio that the model received from other servers or from files; they cannot
      be compared with the arguments.
    - `recorded_at`: if not 0, the tool is not called. Instead, the user is asked whether to give the model the result
      of an identical call made at this time, in seconds since 1970.
    """

    KIND: ClassVar[str] = kinds.APPROVE_TOOL
    call: str
    tool: str
    arguments: dict[str, Any]
    description: str = ""
    claims: ToolAnnotations = ToolAnnotations()
    first_use: bool = True
    has_changed: bool = field(default=False, name="drifted")
    has_server_changed: bool = False
    folder: str | None = None
    schema: Raw = Raw(b"{}")
    editable: bool = True
    arguments_error: str = field(default="", name="fault")
    skill: str = ""
    origins: tuple[ArgumentOrigin, ...] = ()
    omitted_origins: int = 0
    are_origins_complete: bool = True
    media_origins: tuple[MediaOrigin, ...] = ()
    recorded_at: float = 0.0

    def refusal(self) -> ToolVerdict:
        """Return an answer that denies the call."""
        return Deny()


class TrustOnce(Struct, frozen=True):
    """Answer that trusts the server until mcphost exits."""


class TrustAlways(Struct, frozen=True):
    """Answer that trusts the server until its command or URL changes."""


class DoNotTrust(Struct, frozen=True):
    """Answer that refuses to start the server or connect to it."""


TrustVerdict = TrustOnce | TrustAlways | DoNotTrust


class TrustServer(Question[TrustVerdict], frozen=True, kw_only=True):
    """Consent prompt for starting or connecting to a server; the frontend shows every field untruncated.

    Likely secrets are shown as "[hidden]". If a change of the secret would require a new approval, its fingerprint is
    shown as well.

    - `env_file`: the path and digest of a file with more environment variables.
    - `sign_in`: the OAuth settings.
    - `filled_in`: the local values that the server receives, such as "header Authorization: ${keyring:work}".
    - `expansion`: the current value of each `${…}` reference in the command, the folder and the URL.
    - `file`: the configuration file that contains the server.
    - `trusts_claims`: whether calls of tools that the server declares read-only need no approval.
    - `restrictions`: the limits on a server that is defined by a project.
    - `changed`: a diff from the configuration approved earlier; its lines begin with "- ", "+ " or two spaces.
    - `warnings`: the risks of the command and the variables, one sentence each.
    """

    KIND: ClassVar[str] = kinds.TRUST_SERVER
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


class ShownText(Struct, frozen=True):
    """A file whose text is shown for approval; the frontend sanitizes it.

    `changed` contains a diff from the text approved earlier, with lines as in `TrustServer`; it is empty if no text was
    approved. `hooks` contains the hooks of a hooks file, because its text alone can hide which programs they start.
    """

    path: str
    text: str
    changed: tuple[str, ...] = ()
    hooks: tuple[HookSettings, ...] = ()


class TrustProject(Question[TrustVerdict], frozen=True, kw_only=True):
    """Consent prompt for using a project's files, which shows their full text.

    `purpose` is "instructions" (part of the system prompt), "command" (a message to the model) or "hooks" (programs
    that run before or after tool calls).
    """

    KIND: ClassVar[str] = kinds.TRUST_PROJECT
    purpose: str
    texts: tuple[ShownText, ...]

    def refusal(self) -> TrustVerdict:
        """Return an answer that does not allow the files to be used."""
        return DoNotTrust()


class ContinueTurn(Question[bool], frozen=True, kw_only=True):
    """Question that asks whether to continue a turn that reached its limit of tool rounds.

    If the answer is True, the turn may run for the same number of rounds again.
    """

    KIND: ClassVar[str] = kinds.CONTINUE_TURN
    rounds: int

    def refusal(self) -> bool:
        """Return False, which ends the turn."""
        return False


class ApproveUnchanged(Struct, frozen=True):
    """Answer that sends exactly what was shown."""


class EditedRequest(Struct, frozen=True, kw_only=True):
    """Answer with an edited sampling request; values that are None stay unchanged.

    `max_tokens` can only be lowered. `model` is the name of one of the offered models. If `context` is
    true, the conversation shown to the user is added to the request.
    """

    messages: tuple[dict[str, Any], ...] | None = None
    system: str | None = None
    max_tokens: int | None = None
    model: str | None = None
    context: bool = False


SamplingVerdict = ApproveUnchanged | EditedRequest | Deny


class ReviewSampling(Question[SamplingVerdict], frozen=True, kw_only=True):
    """Consent prompt for a server's sampling request, shown as the server sent it.

    - `messages`, `tools`, `preferences`, `include_context`: as received from the server.
    - `model`, `label`: the model that would answer and its display name; `reason` is why it was selected.
    - `models`: the models that the user can choose from.
    - `max_tokens`: the limit on the output; `tokens` is the estimated size of the input.
    - `budget`: how much of its limits the server has used.
    - `conversation`: the text that the server requested with `include_context`, "" for none. This text is sent only if
      the user's answer allows it.
    """

    KIND: ClassVar[str] = kinds.REVIEW_SAMPLING
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
    """Answer that sends these content blocks to the server instead of the blocks that the model wrote."""

    content: tuple[dict[str, Any], ...]


ReplyVerdict = ApproveUnchanged | EditedReply | Deny


class ReviewReply(Question[ReplyVerdict], frozen=True, kw_only=True):
    """Consent prompt for sending a server the model's response to its sampling request.

    Tool calls in the response are run by the server, not by mcphost.
    """

    KIND: ClassVar[str] = kinds.REVIEW_REPLY
    content: tuple[dict[str, Any], ...]
    model: str
    stop_reason: str
    usage: Usage = Usage()

    def refusal(self) -> ReplyVerdict:
        """Return an answer that sends no reply to the server."""
        return Deny()


class Accept(Struct, frozen=True):
    """Answer that submits the form with this content.

    A field of the form that `content` does not contain gets its default; a field whose value is None is omitted.
    """

    content: dict[str, Any] = {}  # noqa: RUF012


class Decline(Struct, frozen=True):
    """Answer that declines to fill in the form or to open the URL."""


class Cancel(Struct, frozen=True):
    """Answer that dismisses the question without accepting or declining."""


FormVerdict = Accept | Decline | Cancel


class FillForm(Question[FormVerdict], frozen=True, kw_only=True):
    """Form that the user is asked to fill in for a server.

    `message` is text from the server, and `warnings` are from mcphost. The server's text must be shown as plain
    text, so that URLs in it are not clickable.
    """

    KIND: ClassVar[str] = kinds.FILL_FORM
    message: str
    fields: tuple[Field, ...]
    warnings: tuple[str, ...] = ()

    def refusal(self) -> FormVerdict:
        """Return an answer that cancels the form."""
        return Cancel()


class AcceptUrl(Struct, frozen=True):
    """Answer that agrees to open the URL in a browser.

    If mcphost cannot open a browser, the answer means that the user opens the URL without mcphost.
    """


UrlVerdict = AcceptUrl | Decline | Cancel


class VisitUrl(Question[UrlVerdict], frozen=True, kw_only=True):
    """Consent prompt for opening a URL that a server requested; mcphost itself has not contacted the URL.

    `url` is the complete URL, and `host` its host. `warnings` are sentences about unusual properties of the URL.
    `elicitation` is the id that the server gave to the elicitation; "" except in protocol version 2025-11-25.
    `is_browser_missing` is true if the user has already agreed, but no browser could be opened. The user can then open
    the URL on any machine.
    """

    KIND: ClassVar[str] = kinds.VISIT_URL
    message: str
    url: str
    host: str
    is_browser_missing: bool = False
    elicitation: str = ""
    warnings: tuple[str, ...] = ()

    def refusal(self) -> UrlVerdict:
        """Return an answer that cancels the server's request."""
        return Cancel()


class RetryCall(Question[bool], frozen=True, kw_only=True):
    """Question that asks whether to retry a tool call after the user has visited the URLs in `urls`.

    The answer False abandons the call. If the server reports that the interaction at every URL is complete, the
    question is withdrawn and the call is retried.
    """

    KIND: ClassVar[str] = kinds.RETRY_CALL
    urls: tuple[str, ...]

    def refusal(self) -> bool:
        """Return False, which abandons the call."""
        return False


class ShareOnce(Struct, frozen=True):
    """Answer that shares the folders now; the user is asked again when the server next requests them."""


class ShareSession(Struct, frozen=True):
    """Answer that shares the folders at every request until mcphost exits."""


class ShareAlways(Struct, frozen=True):
    """Answer that shares these folders at every request until the server's command or URL changes."""


class DoNotShare(Struct, frozen=True):
    """Answer that shares no folders now; the user is asked again when the server next requests them."""


class NeverShare(Struct, frozen=True):
    """Answer that refuses to share these folders at every request, until the server's command or URL changes."""


class SharePerServer(Struct, frozen=True):
    """Answer for several servers: maps each server's name to "once", "session", "always", "never" or "deny".

    A server that is not in the mapping counts as "deny".
    """

    choices: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults


RootsVerdict = ShareOnce | ShareSession | ShareAlways | DoNotShare | NeverShare | SharePerServer


class RequestingServer(Struct, frozen=True, kw_only=True):
    """A server that is waiting for the user to decide about sharing folders.

    `roots` are the folders that it would receive.
    """

    server: str
    why: str
    account: str = ""
    roots: tuple[Root, ...] = ()


class ShareRoots(Question[RootsVerdict], frozen=True, kw_only=True):
    """Consent prompt for sending a server the paths, not the content, of the user's folders.

    - `roots`: the folders to share.
    - `origins`, `warnings`: for each folder in `roots`, where it was configured, and the risk of sharing it.
    - `gone`: configured folders that are not in `roots` because they cannot be read now.
    - `askers`: the waiting servers, if there are several. The answer is then a SharePerServer; any other answer applies
      only to the first server, and the requests of the others are refused.
    """

    KIND: ClassVar[str] = kinds.SHARE_ROOTS
    roots: tuple[Root, ...]
    gone: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    askers: tuple[RequestingServer, ...] = ()

    def refusal(self) -> RootsVerdict:
        """Return an answer that shares no folders."""
        return DoNotShare()


AnyQuestion = (
    ApproveTool
    | ReviewToolChanges
    | TrustServer
    | TrustProject
    | ContinueTurn
    | ApproveCost
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
    | OfferCompaction
    | ReviewCompaction
)
