"""Events published by the host: immutable structs whose type tags are the event names in the output of `mcphost pipe`.

Text from servers and models is not sanitized in events; a frontend must sanitize it before display.
"""

from typing import Any, Literal

from mcphost.llm.messages import ImagePart, Message
from mcphost.llm.model import TokenShare, Usage
from mcphost.serialization import Struct, field
from mcphost.sign_in_types import SignInProgress

ServerStateName = Literal[
    "waiting", "untrusted", "connecting", "silent", "ready", "unreachable", "sign_in", "failed", "stopped", "disabled"
]
CallOutcome = Literal["ok", "error", "declined", "failed", "stopped"]
TurnOutcome = Literal["done", "stopped", "failed", "rounds", "budget"]


class HostEvent(Struct, frozen=True, tag_field="event"):
    """Base class of all host events; `AnyEvent` is their union."""


class ServerState(HostEvent, frozen=True, tag="server_state"):
    """Event published when the state of a server changes.

    - `detail` describes the state in one sentence, and `hint` suggests what the user can do.
    - `revision` is the protocol revision, and `era` is "handshake" for revisions before 2026-07-28, else
      "stateless". Both are "" until the server is ready.
    - `tools`, `resources` and `prompts` are counts.
    - `account` is the signed-in account, "" for none.
    - `quarantined` is the number of changed tools that are waiting for the user's review.
    - `retry_seconds` is the time after which a failed server will be restarted, 0 if it will not.
    - `by_user` means that the user caused the state, for example by signing out, so that it is not an error.
    """

    server: str
    state: ServerStateName
    detail: str = ""
    hint: str = ""
    revision: str = ""
    era: str = ""
    tools: int = 0
    resources: int = 0
    prompts: int = 0
    account: str = ""
    quarantined: int = field(default=0, name="held")
    retry_seconds: float = 0.0
    by_user: bool = False


class CatalogChanged(HostEvent, frozen=True, tag="tools_changed"):
    """Event published when the tools of a server change.

    `added`, `removed` and `changed` contain the names of the tools.
    """

    server: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class ToolToggled(HostEvent, frozen=True, tag="tool_switched"):
    """Event published when the user turns a tool on or off.

    A tool that is turned off is not offered to the model.
    """

    server: str
    tool: str
    on: bool


class AutoApprovalChanged(HostEvent, frozen=True, tag="autonomy", kw_only=True):
    """Event published when auto-approve mode is turned on or off, or approves a call.

    If the mode is off, `why` is the reason for turning it off. The other fields apply if it is on:

    - `tools` is the number of tools that run without asking, and `servers` names their servers.
    - `calls_left`, `seconds_left` and `tokens_left` are the remaining budget.
    - `calls` is the number of calls in the full budget.
    """

    on: bool
    why: str = ""
    tools: int = 0
    servers: tuple[str, ...] = ()
    calls_left: int = 0
    calls: int = 0
    seconds_left: int = 0
    tokens_left: int = 0


class FolderInfo(Struct, frozen=True, kw_only=True):
    """A folder in the list of those that may be shared with servers.

    - `uri` is "" if the folder cannot be shared now; `why` is the reason.
    - `source` describes where the folder was configured.
    - `keep` says where the user's addition or removal of the folder applies: "run" (only this run), "project" (all
      runs started in this folder) or "user" (all runs). It is "" if the user neither added nor removed the folder.
    - `warning` is a sentence about the risk of sharing the folder, "" if there is none.

    See `host.server_requests.root_folders.RootFolder`, where `keep` is called `scope`.
    """

    path: str
    name: str
    uri: str
    source: str
    file: str
    keep: str
    state: str
    why: str
    warning: str


class RootsChanged(HostEvent, frozen=True, tag="roots"):
    """Event published when the folders that may be shared with servers change.

    This happens when the user edits them, or when one of the folders appears or disappears.
    """

    folders: tuple[FolderInfo, ...]


class RootsShared(HostEvent, frozen=True, tag="roots_told"):
    """Event published when a server receives the user's folders, or the user refuses to share folders.

    `uris` are the file: URIs that were last sent to the server; `refused` means that the user's latest answer was a
    refusal.
    """

    server: str
    uris: tuple[str, ...]
    refused: bool = False


class ServerLog(HostEvent, frozen=True, tag="log"):
    """A log line about a server.

    - `source` is "server" for a log message sent by the server, "client" for a warning from mcphost, and "stderr"
      for a line of the server's standard error.
    - `logger` is the logger name given by the server.
    - `call` is the id of the tool call that the line belongs to, "" if unknown.
    """

    server: str
    level: str
    text: str
    source: Literal["server", "client", "stderr"] = "server"
    logger: str = ""
    call: str = ""


class ResourceChanged(HostEvent, frozen=True, tag="resource_updated"):
    """Event published when a subscribed resource, or one below it in the hierarchy, changes.

    mcphost does not read the resource automatically.
    """

    server: str
    uri: str


class TurnStarted(HostEvent, frozen=True, tag="turn_started"):
    """Event published when a turn begins; `message` is the user message, which is already saved.

    `again` means that no new message was added: the model responds to the last user message once more.
    """

    turn: int
    message: Message
    again: bool = False


class UserMessageAdded(HostEvent, frozen=True, tag="user_message_added"):
    """Event published when a user message is added to a running turn, after the tool results.

    `message` is already saved.
    """

    turn: int
    message: Message


class RoundStarted(HostEvent, frozen=True, tag="round_started"):
    """Event published before each request to the model; `number` is the number of the request in the turn, from 1.

    `shares` are the estimated input tokens of each part of the request.
    """

    turn: int
    number: int
    model: str
    label: str
    shares: tuple[TokenShare, ...] = ()


class ToolsSelected(HostEvent, frozen=True, tag="tools_selected"):
    """Event published when the selection of tools for model requests changes.

    `sent` is the number of tools whose definitions are sent, and `deferred` the number that the model must search
    for.
    """

    sent: int
    deferred: int


class TextDeltaEvent(HostEvent, frozen=True, tag="text_delta"):
    """A chunk of the model's response; while the consumer is slow, consecutive chunks are merged."""

    turn: int
    text: str


class ThinkingDeltaEvent(HostEvent, frozen=True, tag="thinking_delta"):
    """A chunk of the model's reasoning; while the consumer is slow, consecutive chunks are merged."""

    turn: int
    text: str


class ServersAwaited(HostEvent, frozen=True, tag="servers_awaited"):
    """Event published when a turn waits for servers to start before its first model request.

    `servers` contains the names of these servers.
    """

    servers: tuple[str, ...]


class ModelRetrying(HostEvent, frozen=True, tag="model_retrying"):
    """Event published when a request to the model fails and will be retried after `seconds` seconds.

    `reason` explains the failure.
    """

    turn: int
    seconds: float
    reason: str
    attempt: int


class MessageFinished(HostEvent, frozen=True, tag="message_finished"):
    """Event published when a response of the model is saved, either complete or marked as cut off."""

    turn: int
    message: Message
    usage: Usage


class ToolProposed(HostEvent, frozen=True, tag="tool_proposed"):
    """Event published when the model proposes a tool call, which may still need approval.

    - `call` is an id that is unique in the conversation.
    - `raw` is the text of the arguments as sent by the model.
    - `arguments` is None if this text is not a JSON object.
    """

    call: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    raw: str = ""


class ToolStarted(HostEvent, frozen=True, tag="tool_started"):
    """Event published immediately before an approved tool call is sent.

    The event is published again if the approval is found to be void at this point and the user approves the call again.

    `by` is what approved the call (see `Approval.source`), or one of these:

    - "user": the user made the call without the model
    - "page": a server's page made the call
    - "earlier": an earlier run of mcphost sent the call, and this run resumes its unfinished MCP task
    """

    call: str
    server: str
    tool: str
    arguments: dict[str, Any]
    by: str


class ToolProgress(HostEvent, frozen=True, tag="progress"):
    """Progress of a tool call; while the consumer is slow, only the latest progress of each call is kept."""

    call: str
    server: str
    progress: float
    total: float | None = None
    message: str = ""


class ToolFinished(HostEvent, frozen=True, tag="tool_finished"):
    """Event published once for each tool call, when it ends.

    - `text` is the result as text for the user, and `seconds` is the duration.
    - `stored_file` is the file with the complete result if the model received only its beginning, else "".
    - `images` are the valid images in the result that do not exceed the size limit.
    """

    call: str
    server: str
    tool: str
    outcome: CallOutcome
    text: str
    seconds: float = 0.0
    stored_file: str = field(default="", name="kept")
    images: tuple[ImagePart, ...] = ()
    reused_at: float = 0.0
    """The time of the earlier call, in seconds since 1970, if its result was reused; otherwise 0."""

    arguments: dict[str, Any] | None = None
    """The arguments of a call that was not sent, if the user or a hook changed them; otherwise None."""


class PageOffered(HostEvent, frozen=True, tag="page_offered"):
    """Event published when a tool that has an interactive page is called, if the frontend can show pages."""

    call: str
    server: str
    tool: str


class PagesChanged(HostEvent, frozen=True, tag="pages_changed"):
    """Event published when a page is opened or closed, or when a browser begins or stops showing it.

    If mcphost closed a page without a request by the user, `closed_server` is the page's server, and `reason` says why.
    Otherwise, both are "".
    """

    closed_server: str = ""
    reason: str = ""


class PageContextsChanged(HostEvent, frozen=True, tag="page_contexts_changed"):
    """Event published when the page contexts that will be sent with the next user message change, or were sent.

    `count` is the number of contexts that are waiting to be sent.
    """

    count: int = 0


class PageDrafted(HostEvent, frozen=True, tag="page_drafted"):
    """Event published when the user agrees to use a text from a server's page as a draft of a message."""

    server: str
    text: str


class ToolBackgrounded(HostEvent, frozen=True, tag="tool_backgrounded"):
    """Event published when the user sends a running call to the background.

    The turn continues, and a ToolFinished event for the call follows later.
    """

    call: str
    server: str
    tool: str


class BackgroundCallEnded(HostEvent, frozen=True, tag="background_ended"):
    """Event published when a background call has ended and any required review is complete.

    The result is then added to the conversation to which the call belongs. `in_open_conversation` is False if that
    is not the open conversation, or if the call is not on its current branch.
    """

    call: str
    server: str
    tool: str
    outcome: str
    in_open_conversation: bool = True


class MessagesInserted(HostEvent, frozen=True, tag="messages_inserted"):
    """Event published when the messages of an MCP prompt are added to the end of the open conversation.

    The messages are already saved.
    """

    messages: tuple[Message, ...]


class BackgroundResultAdded(HostEvent, frozen=True, tag="background_result"):
    """Event published when the result of a background call is added to the open conversation.

    `message` is already saved.
    """

    message: Message


class CallEnded(HostEvent, frozen=True, tag="call_over"):
    """Event published when a request to a server, such as a tool call, ends while questions from the server are open.

    The server asked these questions during the request; `number` is their `Question.number`. They stay open until
    the user answers them or the server cancels its requests.
    """

    server: str
    number: int


class ResultReviewed(HostEvent, frozen=True, tag="result_reviewed"):
    """Event published when the user has reviewed a tool result.

    `text` is what the model receives, "" if the result was withheld. `stored_file` has the same meaning as in
    ToolFinished.
    """

    call: str
    server: str
    tool: str
    outcome: Literal["passed", "changed", "withheld"]
    text: str = ""
    stored_file: str = field(default="", name="kept")


class TurnFinished(HostEvent, frozen=True, tag="turn_finished"):
    """Event published when a turn ends.

    - `outcome` is the reason: "rounds" means that the turn reached the limit on model requests with tool calls, and
      "budget" that its next model request would have exceeded a spending limit.
    - `usage` is the sum over all requests of the turn.
    - `error` and `hint` describe a failure or the exceeded budget.
    """

    turn: int
    outcome: TurnOutcome
    usage: Usage = Usage()
    error: str = ""
    hint: str = ""


class SpendingChanged(HostEvent, frozen=True, tag="spent"):
    """Event published when the cost of a finished model request is recorded.

    - `conversation` is the id of the request's conversation, "" if there is none.
    - `cost` is the cost of the request in US dollars, or None if it is unknown.
    - `total` is the cost of the whole conversation in US dollars, including all of its branches.
    """

    conversation: str
    cost: float | None
    total: float = 0.0


NoticeLevel = Literal["info", "warning", "error"]


class NoticeEvent(HostEvent, frozen=True, tag="told"):
    """A notice for the user: one sentence, and optionally a hint on what to do."""

    level: NoticeLevel
    text: str
    hint: str = ""


class ModelChanged(HostEvent, frozen=True, tag="model_changed"):
    """Event published when another model is selected, or the state of the selected model changes.

    If `state` is "failed", `detail` is the reason.
    """

    name: str
    label: str
    state: Literal["none", "loading", "ready", "failed"]
    detail: str = ""


class ConversationOpened(HostEvent, frozen=True, tag="conversation_opened"):
    """Event published when another conversation is opened (see `host.conversation`).

    `messages` is the number of messages in the conversation.
    """

    id: str
    title: str
    messages: int


class SummaryProgress(HostEvent, frozen=True, tag="summary_progress"):
    """Progress in summarizing the first `messages` messages: `done` of `planned` model requests are finished.

    The event that reports the end of summarizing has `planned` 0 and an `outcome`; its `usage` is the total usage of
    all requests.
    """

    messages: int
    done: int
    planned: int
    usage: Usage = Usage()
    outcome: Literal["", "done", "failed", "stopped"] = ""


class CompactionChanged(HostEvent, frozen=True, tag="compaction_changed"):
    """Event published when a summary starts or stops replacing messages in model requests.

    The summary replaces the first `messages` messages; 0 means that no summary is used. `sentences` is the number
    of its sentences, and `unknown` the number of those that do not cite any message.
    """

    messages: int = 0
    sentences: int = 0
    unknown: int = 0


AnyEvent = (
    ServerState
    | SignInProgress
    | CatalogChanged
    | ToolToggled
    | AutoApprovalChanged
    | RootsChanged
    | RootsShared
    | ServerLog
    | ResourceChanged
    | TurnStarted
    | UserMessageAdded
    | RoundStarted
    | ToolsSelected
    | TextDeltaEvent
    | ThinkingDeltaEvent
    | ServersAwaited
    | ModelRetrying
    | MessageFinished
    | ToolProposed
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | PageOffered
    | PagesChanged
    | PageContextsChanged
    | PageDrafted
    | ToolBackgrounded
    | BackgroundCallEnded
    | BackgroundResultAdded
    | MessagesInserted
    | CallEnded
    | ResultReviewed
    | TurnFinished
    | SpendingChanged
    | NoticeEvent
    | ModelChanged
    | ConversationOpened
    | SummaryProgress
    | CompactionChanged
)
