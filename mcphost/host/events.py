"""Events of the host as immutable values; their tags are the event names of `mcphost pipe`.

Texts of servers and models are unchanged: a frontend sanitizes them before display.
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
    """The base class of events; `AnyEvent` is the union of all."""


class ServerState(HostEvent, frozen=True, tag="server_state"):
    """The state of a server; `detail` is one sentence for people, `hint` the next step.

    `account` is the signed-in account, "" for none. `quarantined` counts changed tools in quarantine.
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
    """The tools of a server changed; counts as in ServerState."""

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
    """The auto-approve mode changed (`on`, or off with `why`) or approved a call."""

    on: bool
    why: str = ""
    tools: int = 0
    servers: tuple[str, ...] = ()
    calls_left: int = 0
    calls: int = 0
    seconds_left: int = 0
    tokens_left: int = 0


class FolderInfo(Struct, frozen=True, kw_only=True):
    """A folder of `host.server_requests.root_list`; `uri` is empty unless it is available to servers."""

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
    """The list of shared folders changed, because the user edited it or because a folder appeared or vanished."""

    folders: tuple[FolderInfo, ...]


class RootsShared(HostEvent, frozen=True, tag="roots_told"):
    """A server received these folders as file: URIs, or was `refused` and keeps what it had."""

    server: str
    uris: tuple[str, ...]
    refused: bool = False


class ServerLog(HostEvent, frozen=True, tag="log"):
    """A log message, a warning of the host (`source` "client") or a line of error output ("stderr").

    `logger` is the server's own name; `call` is the call it belongs to, if known.
    """

    server: str
    level: str
    text: str
    source: Literal["server", "client", "stderr"] = "server"
    logger: str = ""
    call: str = ""


class ResourceChanged(HostEvent, frozen=True, tag="resource_updated"):
    """A subscribed resource, or something below it, changed; its content was not read again."""

    server: str
    uri: str


class TurnStarted(HostEvent, frozen=True, tag="turn_started"):
    """A turn began with this saved message. `again` means that the model is asked a second time about it."""

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
    """The next piece of the model's text; pieces are joined when the reader is slow."""

    turn: int
    text: str


class ThinkingDeltaEvent(HostEvent, frozen=True, tag="thinking_delta"):
    """The next piece of the model's reasoning, joined in the same way."""

    turn: int
    text: str


class ModelRetrying(HostEvent, frozen=True, tag="model_retrying"):
    """The model request will be retried after `seconds`."""

    turn: int
    seconds: float
    reason: str
    attempt: int


class MessageFinished(HostEvent, frozen=True, tag="message_finished"):
    """The model's message of this round is saved; it is complete, or marked as cut off."""

    turn: int
    message: Message
    usage: Usage


class ToolProposed(HostEvent, frozen=True, tag="tool_proposed"):
    """The model proposed this call, and consent comes next. `call` is an id, unique in the conversation."""

    call: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    raw: str = ""


class ToolStarted(HostEvent, frozen=True, tag="tool_started"):
    """An approved call (`by`: once, session, always, rule, user) was sent with these arguments.

    `by` "earlier": an earlier run made the call, and its task, which continued at the server, is followed from now on.
    """

    call: str
    server: str
    tool: str
    arguments: dict[str, Any]
    by: str


class ToolProgress(HostEvent, frozen=True, tag="progress"):
    """Progress of a call; only the latest value is kept when the reader is slow."""

    call: str
    server: str
    progress: float
    total: float | None = None
    message: str = ""


class ToolFinished(HostEvent, frozen=True, tag="tool_finished"):
    """A call ended; `text` is the bounded result for people, `seconds` the time since it was sent.

    `stored_file` is the file with the whole result when the model received only its beginning. `images` are verified
    images for people, within the total limit for the model.
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
    """A call ended while the server's requests with this `number` are still open.

    They stay open until they are answered or the server cancels them.
    """

    server: str
    number: int


class ResultReviewed(HostEvent, frozen=True, tag="result_reviewed"):
    """The user decided what the model receives of a result: `text`, "" when it is withheld.

    `stored_file` is as in ToolFinished.
    """

    call: str
    server: str
    tool: str
    outcome: Literal["passed", "changed", "withheld"]
    text: str = ""
    stored_file: str = field(default="", name="kept")


class TurnFinished(HostEvent, frozen=True, tag="turn_finished"):
    """A turn ended. `usage` is the sum of its rounds; `error` and `hint` describe a failure."""

    turn: int
    outcome: Literal["done", "stopped", "failed", "rounds"]
    usage: Usage = Usage()
    error: str = ""
    hint: str = ""


NoticeLevel = Literal["info", "warning", "error"]


class NoticeEvent(HostEvent, frozen=True, tag="told"):
    """A sentence for the user, with the next step."""

    level: NoticeLevel
    text: str
    hint: str = ""


class ModelChanged(HostEvent, frozen=True, tag="model_changed"):
    """Another model was selected; `state` is its readiness."""

    name: str
    label: str
    state: Literal["none", "loading", "ready", "failed"]
    detail: str = ""


class ConversationOpened(HostEvent, frozen=True, tag="conversation_opened"):
    """Another conversation was opened; its messages are in `host.conversation`."""

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
    """Consecutive pieces of text, joined only when they are read."""

    __slots__ = ("first", "parts")

    def __init__(self, first: TextDeltaEvent | ThinkingDeltaEvent) -> None:
        self.first = first
        self.parts = [first.text]

    def event(self) -> AnyEvent:
        return self.first if len(self.parts) == 1 else replace(self.first, text="".join(self.parts))


class _Slot:
    """A place in a queue for an event that a newer one may replace."""

    __slots__ = ("value",)

    def __init__(self, value: AnyEvent) -> None:
        self.value = value

    def event(self) -> AnyEvent:
        return self.value


_EVENTS_PER_YIELD = 64


class EventQueue:
    """A queue of events for one reader, from its creation until it is closed or the host ends."""

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
        """Add an event; never blocks."""
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
        """End the iteration after the queued events."""
        self._closed = True
        self._open_queues.discard(self)
        self._ready.set()

    def drain(self) -> list[AnyEvent]:
        """Return everything queued now, without waiting."""
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
    """Publishes each event to all open queues."""

    def __init__(self) -> None:
        self._queues: set[EventQueue] = set()

    def subscribe(self) -> EventQueue:
        """Return a new queue of all events from now on."""
        return EventQueue(self._queues)

    def publish(self, event: AnyEvent) -> None:
        """Add an event to every queue."""
        for queue in tuple(self._queues):
            queue.put(event)

    def notify(self, level: NoticeLevel, text: str, hint: str = "") -> None:
        """Publish one sentence for the user."""
        self.publish(NoticeEvent(level, text, hint))

    def report_error(self, error: McpHostError) -> None:
        """Publish an error after which everything continues, such as one of the store."""
        self.notify("error", error.message, error.hint)

    def close(self) -> None:
        """Close every queue."""
        for queue in tuple(self._queues):
            queue.close()


class EventDispatcher:
    """Handlers of host events; the handlers of a type run in the order in which they were added."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], list[Callable[[Any], None]]] = {}

    def add(self, handler: Callable[[Any], None], *types: type[AnyEvent]) -> None:
        """Add a handler of events of *types*."""
        for event_type in types:
            self._handlers.setdefault(event_type, []).append(handler)

    def add_all(self, handlers: Mapping[type[AnyEvent], Callable[[Any], None]]) -> None:
        """Add one handler for each type."""
        for event_type, handler in handlers.items():
            self.add(handler, event_type)

    async def run(self, feed: AsyncIterable[AnyEvent]) -> None:
        """Dispatch events until the feed ends; yield so that a burst does not block key handling. May be cancelled."""
        count = 0
        async for event in feed:
            for handler in self._handlers.get(type(event), ()):
                handler(event)
            count += 1
            if count % _EVENTS_PER_YIELD == 0:
                await anyio.lowlevel.checkpoint()
