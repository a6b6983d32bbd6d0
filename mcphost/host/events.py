"""Events of the host as immutable values; their tags are the event names of `mcphost pipe`.

Texts from servers and models are unsanitized: a frontend must sanitize them before display.
"""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any, Literal

import anyio
import anyio.lowlevel

from mcphost.errors import McpHostError
from mcphost.llm.messages import ImagePart, Message
from mcphost.llm.model import Usage
from mcphost.serialization import Struct, field, replace
from mcphost.sign_in import SignInProgress

ServerStateName = Literal[
    "waiting", "untrusted", "connecting", "silent", "ready", "sign_in", "failed", "stopped", "disabled"
]


class HostEvent(Struct, frozen=True, tag_field="event"):
    """The base class of all host events; `AnyEvent` is their union."""


class ServerState(HostEvent, frozen=True, tag="server_state"):
    """The current state of a server; `detail` describes it in one sentence, `hint` suggests what the user can do.

    `tools`, `resources` and `prompts` are counts. `account` is the signed-in account, "" for none. `quarantined` is the
    number of changed tools that wait for the user's review.
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


class CatalogChanged(HostEvent, frozen=True, tag="tools_changed"):
    """The tools of a server changed: the names of the added, removed and changed ones."""

    server: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class ToolToggled(HostEvent, frozen=True, tag="tool_switched"):
    """The user switched a tool on or off for the model."""

    server: str
    tool: str
    on: bool


class AutoApprovalChanged(HostEvent, frozen=True, tag="autonomy", kw_only=True):
    """The auto-approve mode was turned on or off, or approved a call; `why` is the reason it was turned off.

    While it is on, it covers this number of `tools` of these `servers`, and `calls_left`, `seconds_left` and
    `tokens_left` remain of the budget; `calls` is the number of calls in the whole budget.
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
    """A folder that may be shared with servers; `uri` is empty if it cannot be shared now.

    `source` is where it was configured, `keep` the scope of the user's edit, "" for none. `why` explains why it is
    unavailable, `warning` why sharing it is a risk; the fields are those of
    `host.server_requests.root_list.RootFolder`.
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
    """The list of shareable folders changed: the user edited it, or a folder appeared or vanished."""

    folders: tuple[FolderInfo, ...]


class RootsShared(HostEvent, frozen=True, tag="roots_told"):
    """The folders that a server has received, as file: URIs; `refused` if the user declined its last request."""

    server: str
    uris: tuple[str, ...]
    refused: bool = False


class ServerLog(HostEvent, frozen=True, tag="log"):
    """A log line about a server: its own message, a warning of mcphost ("client"), or its error output ("stderr").

    `logger` is the logger name that the server gave; `call` is the id of the tool call that the line belongs to, "" if
    unknown.
    """

    server: str
    level: str
    text: str
    source: Literal["server", "client", "stderr"] = "server"
    logger: str = ""
    call: str = ""


class ResourceChanged(HostEvent, frozen=True, tag="resource_updated"):
    """A subscribed resource, or one below it, changed. Its content was not read again."""

    server: str
    uri: str


class TurnStarted(HostEvent, frozen=True, tag="turn_started"):
    """A turn began; `message` is the saved user message.

    `again` means that no message was added: the model is asked again about the last one.
    """

    turn: int
    message: Message
    again: bool = False


class RoundStarted(HostEvent, frozen=True, tag="round_started"):
    """A request to the model begins; `number` counts from 1 in each turn."""

    turn: int
    number: int
    model: str
    label: str


class TextDeltaEvent(HostEvent, frozen=True, tag="text_delta"):
    """A chunk of the model's text; chunks are merged while the consumer is slow."""

    turn: int
    text: str


class ThinkingDeltaEvent(HostEvent, frozen=True, tag="thinking_delta"):
    """A chunk of the model's reasoning; chunks are merged while the consumer is slow."""

    turn: int
    text: str


class ServersAwaited(HostEvent, frozen=True, tag="servers_awaited"):
    """The turn waits for these servers, which are starting, before it asks the model."""

    servers: tuple[str, ...]


class ModelRetrying(HostEvent, frozen=True, tag="model_retrying"):
    """A request to the model failed with `reason` and will be retried after `seconds`."""

    turn: int
    seconds: float
    reason: str
    attempt: int


class MessageFinished(HostEvent, frozen=True, tag="message_finished"):
    """The model's message of this round was saved, either complete or marked as cut off."""

    turn: int
    message: Message
    usage: Usage


class ToolProposed(HostEvent, frozen=True, tag="tool_proposed"):
    """The model proposed a tool call, which may still need approval.

    `call` is the call's id, unique in the conversation. `arguments` is None if `raw`, the model's text, is not a JSON
    object.
    """

    call: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    raw: str = ""


class ToolStarted(HostEvent, frozen=True, tag="tool_started"):
    """An approved call was sent with these arguments; `by` is the `source` of its Approval.

    `by` is "user" for a call that the user made without the model. "earlier" means that an earlier run sent the call,
    and its unfinished task is now followed again.
    """

    call: str
    server: str
    tool: str
    arguments: dict[str, Any]
    by: str


class ToolProgress(HostEvent, frozen=True, tag="progress"):
    """Progress of a call; while the consumer is slow, only the latest value of each call is kept."""

    call: str
    server: str
    progress: float
    total: float | None = None
    message: str = ""


class ToolFinished(HostEvent, frozen=True, tag="tool_finished"):
    """A call ended; `text` is its result as text for the user, `seconds` its duration.

    `stored_file` is the file with the whole result if the model received only the beginning, else "". `images` are the
    images whose bytes were verified and which fit into the size limit.
    """

    call: str
    server: str
    tool: str
    outcome: Literal["ok", "error", "declined", "failed", "stopped"]
    text: str
    seconds: float = 0.0
    stored_file: str = field(default="", name="kept")
    images: tuple[ImagePart, ...] = ()


class CallEnded(HostEvent, frozen=True, tag="call_over"):
    """A call ended, but requests that the server made during it and that have this `number` are still open.

    They stay open until the user answers them or the server cancels them.
    """

    server: str
    number: int


class ResultReviewed(HostEvent, frozen=True, tag="result_reviewed"):
    """The user reviewed a result; `text` is what the model receives, "" if it was withheld.

    `stored_file` is as in ToolFinished.
    """

    call: str
    server: str
    tool: str
    outcome: Literal["passed", "changed", "withheld"]
    text: str = ""
    stored_file: str = field(default="", name="kept")


class TurnFinished(HostEvent, frozen=True, tag="turn_finished"):
    """A turn ended; "rounds" means that the limit of tool rounds was reached.

    `usage` is the sum over its rounds; `error` and `hint` describe a failure.
    """

    turn: int
    outcome: Literal["done", "stopped", "failed", "rounds"]
    usage: Usage = Usage()
    error: str = ""
    hint: str = ""


NoticeLevel = Literal["info", "warning", "error"]


class NoticeEvent(HostEvent, frozen=True, tag="told"):
    """A notice for the user: one sentence, and a hint on what to do."""

    level: NoticeLevel
    text: str
    hint: str = ""


class ModelChanged(HostEvent, frozen=True, tag="model_changed"):
    """Another model was selected, or the state of the selected one changed; `detail` explains a failure."""

    name: str
    label: str
    state: Literal["none", "loading", "ready", "failed"]
    detail: str = ""


class ConversationOpened(HostEvent, frozen=True, tag="conversation_opened"):
    """Another conversation was opened; `messages` is their number, the messages are in `host.conversation`."""

    id: str
    title: str
    messages: int


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
    | RoundStarted
    | TextDeltaEvent
    | ThinkingDeltaEvent
    | ServersAwaited
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


MAX_LOGS = 1_000


class _MergedDeltas:
    """Consecutive chunks of text, joined when they are read."""

    __slots__ = ("first", "parts")

    def __init__(self, first: TextDeltaEvent | ThinkingDeltaEvent) -> None:
        self.first = first
        self.parts = [first.text]

    def event(self) -> AnyEvent:
        return self.first if len(self.parts) == 1 else replace(self.first, text="".join(self.parts))


class _Slot:
    """Queue entry whose event can be replaced by a newer one."""

    __slots__ = ("value",)

    def __init__(self, value: AnyEvent) -> None:
        self.value = value

    def event(self) -> AnyEvent:
        return self.value


_EVENTS_PER_YIELD = 64


class EventQueue:
    """Queue of the events published since its creation, for one consumer; iteration ends when it is closed."""

    def __init__(self, open_queues: "set[EventQueue]") -> None:
        self._open_queues = open_queues
        self._queue: deque[_MergedDeltas | _Slot] = deque()
        self._progress: dict[str, _Slot] = {}
        self._logs: deque[_Slot] = deque()
        self._updated_resources: set[ResourceChanged] = set()
        self._ready = anyio.Event()
        self._closed = False
        open_queues.add(self)

    def put(self, event: AnyEvent) -> None:
        """Add an event without blocking; merge or replace queued text, progress and resource events."""
        if self._closed:
            return
        last = self._queue[-1] if self._queue else None
        if isinstance(event, TextDeltaEvent | ThinkingDeltaEvent):
            if isinstance(last, _MergedDeltas) and type(last.first) is type(event) and last.first.turn == event.turn:
                last.parts.append(event.text)
            else:
                self._queue.append(_MergedDeltas(event))
        elif isinstance(event, ToolProgress) and event.call in self._progress:
            self._progress[event.call].value = event
        elif isinstance(event, ResourceChanged) and event in self._updated_resources:
            return
        else:
            self._queue.append(slot := _Slot(event))
            if isinstance(event, ToolProgress):
                self._progress[event.call] = slot
            elif isinstance(event, ServerLog):
                self._limit_logs(slot)
            elif isinstance(event, ResourceChanged):
                self._updated_resources.add(event)
        self._ready.set()

    def _limit_logs(self, slot: _Slot) -> None:
        self._logs.append(slot)
        if len(self._logs) > MAX_LOGS:
            self._queue.remove(self._logs.popleft())

    def close(self) -> None:
        """Close the queue; iteration ends after the events that are already queued."""
        self._closed = True
        self._open_queues.discard(self)
        self._ready.set()

    def drain(self) -> list[AnyEvent]:
        """Remove and return all queued events without waiting."""
        events: list[AnyEvent] = [slot.event() for slot in self._queue]
        self._queue.clear()
        self._progress.clear()
        self._logs.clear()
        self._updated_resources.clear()
        return events

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        while True:
            for event in self.drain():
                yield event
            if self._queue:
                continue
            if self._closed:
                return
            self._ready = anyio.Event()
            await self._ready.wait()


class EventBus:
    """Publisher that copies each event to all open queues."""

    def __init__(self) -> None:
        self._queues: set[EventQueue] = set()

    def subscribe(self) -> EventQueue:
        """Return a new queue that receives every event published from now on."""
        return EventQueue(self._queues)

    def publish(self, event: AnyEvent) -> None:
        """Add an event to every queue."""
        for queue in tuple(self._queues):
            queue.put(event)

    def notify(self, level: NoticeLevel, text: str, hint: str = "") -> None:
        """Publish a NoticeEvent for the user."""
        self.publish(NoticeEvent(level, text, hint))

    def report_error(self, error: McpHostError) -> None:
        """Publish an error that does not interrupt anything, such as a failed save."""
        self.notify("error", error.message, error.hint)

    def close(self) -> None:
        """Close every queue."""
        for queue in tuple(self._queues):
            queue.close()


class EventDispatcher:
    """Registry that calls handlers by event type; the handlers of one type run in order of registration."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], list[Callable[[Any], None]]] = {}

    def add(self, handler: Callable[[Any], None], *types: type[AnyEvent]) -> None:
        """Register a handler for events of *types*."""
        for event_type in types:
            self._handlers.setdefault(event_type, []).append(handler)

    def add_all(self, handlers: Mapping[type[AnyEvent], Callable[[Any], None]]) -> None:
        """Register one handler for each event type."""
        for event_type, handler in handlers.items():
            self.add(handler, event_type)

    async def run(self, feed: AsyncIterable[AnyEvent]) -> None:
        """Dispatch events until *feed* ends.

        Other tasks may run after every 64 events, so that a burst does not block key handling. May be cancelled.
        """
        count = 0
        async for event in feed:
            for handler in self._handlers.get(type(event), ()):
                handler(event)
            count += 1
            if count % _EVENTS_PER_YIELD == 0:
                await anyio.lowlevel.checkpoint()
