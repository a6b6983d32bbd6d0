"""HostEvent: everything that happened, as frozen values; their tags are the event names of `mcphost pipe`.

All text that came from a server or a model is as it came: a front end cleans it before it shows it.
"""

from typing import Any, Literal

from mcphost.llm.messages import ImagePart, Message
from mcphost.llm.model import Usage
from mcphost.serialization import Struct

ServerStateName = Literal[
    "waiting", "untrusted", "connecting", "silent", "ready", "sign_in", "failed", "stopped", "disabled"
]


class HostEvent(Struct, frozen=True, tag_field="event"):
    """The base of every event."""


class ServerState(HostEvent, frozen=True, tag="server_state"):
    """A server's state changed; `detail` is one sentence for people, `hint` what to do.

    `account` is the name of the account that is signed in to it; "" for none.
    `held` counts tools that changed and are held back until the user has seen how.
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
    held: int = 0


class SignInUpdated(HostEvent, frozen=True, tag="signing_in", kw_only=True):
    """Where a sign-in is; fields and steps as in auth.user_interaction.Progress, "over" whichever way it ended."""

    server: str
    step: str
    text: str = ""
    account: str = ""
    seconds: float = 0
    polls: int = 0
    interval: float = 0
    slowed: bool = False


class CatalogChanged(HostEvent, frozen=True, tag="tools_changed"):
    """A server's lists are new; counts as in ServerState."""

    server: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class ToolToggled(HostEvent, frozen=True, tag="tool_switched"):
    """The user switched a tool on or off: whether the model is told of it from now on."""

    server: str
    tool: str
    on: bool


class AutoApprovalChanged(HostEvent, frozen=True, tag="autonomy", kw_only=True):
    """Picked tools run unasked in this conversation (`on`), or not any more: `why`. Told with each such call, too."""

    on: bool
    why: str = ""
    tools: int = 0
    servers: tuple[str, ...] = ()
    calls_left: int = 0
    calls: int = 0
    seconds_left: int = 0
    tokens_left: int = 0


class FolderInfo(Struct, frozen=True, kw_only=True):
    """A folder of the list (`host.server_requests.root_list`). `uri` is empty unless it is shared with servers now."""

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
    """The list of folders that servers may be told of is new: edited, or one came or went on the disk."""

    folders: tuple[FolderInfo, ...]


class RootsShared(HostEvent, frozen=True, tag="roots_told"):
    """A server was told these folders, as file: addresses; or it was `refused` and knows what it knew before."""

    server: str
    uris: tuple[str, ...]
    refused: bool = False


class ServerLog(HostEvent, frozen=True, tag="log"):
    """A log message, a warning of ours (`source` "client") or a line of error output ("stderr").

    `logger` is the server's own word; `call` is the call it was said in, as far as that is known.
    """

    server: str
    level: str
    text: str
    source: Literal["server", "client", "stderr"] = "server"
    logger: str = ""
    call: str = ""


class ResourceChanged(HostEvent, frozen=True, tag="resource_updated"):
    """A resource that is subscribed to, or something below it, is not what it was; its content was not read again."""

    server: str
    uri: str


class TurnStarted(HostEvent, frozen=True, tag="turn_started"):
    """A turn began with this user message (already saved); `again`: the model is asked once more about it."""

    turn: int
    message: Message
    again: bool = False


class RoundStarted(HostEvent, frozen=True, tag="round_started"):
    """The model is asked; `number` counts from 1 in each turn."""

    turn: int
    number: int
    model: str
    label: str


class TextDeltaEvent(HostEvent, frozen=True, tag="text_delta"):
    """More text of the model; consecutive ones merge when the reader is slow."""

    turn: int
    text: str


class ThinkingDeltaEvent(HostEvent, frozen=True, tag="thinking_delta"):
    """More reasoning; merges likewise."""

    turn: int
    text: str


class ModelRetrying(HostEvent, frozen=True, tag="model_retrying"):
    """The model call will be tried again after `seconds`."""

    turn: int
    seconds: float
    reason: str
    attempt: int


class MessageFinished(HostEvent, frozen=True, tag="message_finished"):
    """The model's message of this round is complete (or cut) and saved."""

    turn: int
    message: Message
    usage: Usage


class ToolProposed(HostEvent, frozen=True, tag="tool_proposed"):
    """The model wants this call; consent comes next. `call` is unique in the conversation."""

    call: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    raw: str = ""


class ToolStarted(HostEvent, frozen=True, tag="tool_started"):
    """The call was allowed (`by`: once, session, always, rule, user) and was sent with these arguments.

    `by` "earlier": an earlier run made the call, and its task, which went on at the server, is followed from now on.
    """

    call: str
    server: str
    tool: str
    arguments: dict[str, Any]
    by: str


class ToolProgress(HostEvent, frozen=True, tag="progress"):
    """Progress of a call; the last value wins when the reader is slow."""

    call: str
    server: str
    progress: float
    total: float | None = None
    message: str = ""


class ToolFinished(HostEvent, frozen=True, tag="tool_finished"):
    """A call ended. `text` is what people see of the result (bounded), `seconds` the time since it was sent.

    `kept` is the file that holds all of a result of which the model got the beginning only. `images` are the pictures
    for people, each what it says it is, all of them together within the bound for the model.
    """

    call: str
    server: str
    tool: str
    outcome: Literal["ok", "error", "declined", "failed", "stopped"]
    text: str
    seconds: float = 0.0
    kept: str = ""
    images: tuple[ImagePart, ...] = ()


class CallEnded(HostEvent, frozen=True, tag="call_over"):
    """A call is over, and the server still waits for what it asked for it: questions of that server with that `number`.

    They stay open until they are answered or the server takes them back.
    """

    server: str
    number: int


class ResultReviewed(HostEvent, frozen=True, tag="result_reviewed"):
    """The user decided what the model gets of a call that ended: `text` is that; "" when it is withheld.

    `kept` is as in ToolFinished.
    """

    call: str
    server: str
    tool: str
    outcome: Literal["passed", "changed", "withheld"]
    text: str = ""
    kept: str = ""


class TurnFinished(HostEvent, frozen=True, tag="turn_finished"):
    """A turn ended. `usage` adds up its rounds; `error`, `hint` say why a failed one failed."""

    turn: int
    outcome: Literal["done", "stopped", "failed", "rounds"]
    usage: Usage = Usage()
    error: str = ""
    hint: str = ""


class NoticeEvent(HostEvent, frozen=True, tag="told"):
    """One sentence the user should see, with the next step."""

    level: Literal["info", "warning", "error"]
    text: str
    hint: str = ""


class ModelChanged(HostEvent, frozen=True, tag="model_changed"):
    """Another model answers from now on; `state` says whether it is ready to."""

    name: str
    label: str
    state: Literal["none", "loading", "ready", "failed"]
    detail: str = ""


class ConversationOpened(HostEvent, frozen=True, tag="conversation_opened"):
    """Another conversation is shown; its messages are in `host.conversation`."""

    id: str
    title: str
    messages: int


AnyEvent = (
    ServerState
    | SignInUpdated
    | CatalogChanged
    | ToolToggled
    | RootsChanged
    | RootsShared
    | ServerLog
    | ResourceChanged
    | TurnStarted
    | RoundStarted
    | TextDeltaEvent
    | ThinkingDeltaEvent
    | ModelRetrying
    | MessageFinished
    | ToolProposed
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | CallEnded
    | ResultReviewed
    | TurnFinished
    | NoticeEvent
    | ModelChanged
    | ConversationOpened
)
