"""Results of background tool calls, which are added to their conversation as separate messages."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import anyio.to_thread

from mcphost.errors import McpHostError, StoreError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.events import BackgroundCallEnded, BackgroundResultAdded
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import ImagePart, Message, ResourcePart, ToolReturnPart, make_result_part
from mcphost.serialization import replace

if TYPE_CHECKING:
    from mcphost.store.conversations import ConversationStore

LOST_TEXT = (
    "its result is not in this conversation, because mcphost ended before the result arrived, or because the user went "
    "back or copied the conversation. The tool may have run."
)
_INTRODUCTION = "The background call {id} of the tool {tool} has ended: {outcome}"


def make_result_message(part: ToolReturnPart) -> Message:
    """Return the message that adds the result of a background call to a conversation."""
    outcome = "its result follows" if part.outcome == "ok" else part.outcome or "error"
    head = _INTRODUCTION.format(id=part.use_id, tool=part.tool or part.name, outcome=f"{outcome}.")
    resource = make_result_part(part.server, part.tool or part.name, f"{head}\n\n{part.text}", part.target)
    resource = replace(resource, use_id=part.use_id, kept=part.kept)
    name = f"{part.tool} result"
    images = (ImagePart(one.mime_type, one.data, name, part.server, part.target) for one in part.images)
    return Message(role="user", parts=(resource, *images))


def find_failure(part: ResourcePart) -> str:
    """Return the outcome of a background call that failed, was declined or was stopped, such as "failed".

    *part* is the message part with the call's result. The outcome is read from the sentence that mcphost wrote before
    the result, never from the result itself. Returns "" if the call succeeded or its result is lost.
    """
    head = _INTRODUCTION.format(id=part.use_id, tool=part.source, outcome="")
    outcome = part.text.removeprefix(head).split(".", 1)[0] if part.text.startswith(head) else ""
    return outcome if outcome in {"error", "failed", "declined", "stopped"} else ""


def make_lost_message(part: ToolReturnPart) -> Message:
    """Return the message that tells the model that the result of a background call is lost."""
    head = _INTRODUCTION.format(id=part.use_id, tool=part.tool or part.name, outcome=LOST_TEXT)
    resource = make_result_part(part.server, part.tool or part.name, head)
    return Message(role="user", parts=(replace(resource, use_id=part.use_id),))


def find_awaited(messages: Iterable[Message]) -> dict[str, ToolReturnPart]:
    """Return the placeholder results of background calls that have no real result yet, keyed by call id."""
    awaited: dict[str, ToolReturnPart] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and part.outcome == "background":
                awaited[part.use_id] = part
            elif isinstance(part, ResourcePart) and part.use_id:
                awaited.pop(part.use_id, None)
    return awaited


class BackgroundResults:
    """Results of background tool calls that are waiting to be added to their conversation.

    While a turn is running in the conversation, a result waits until the turn ends. A result is added to the current
    branch of the conversation if this branch contains the call, otherwise to the newest branch that does.
    """

    def __init__(
        self,
        active: ActiveConversation,
        store: "Lazy[ConversationStore]",
        events: EventBus,
        list_running: Callable[[], frozenset[str]],
    ) -> None:
        self._active = active
        self._store = store
        self._events = events
        self._list_running = list_running
        self._waiting: dict[str, dict[str, ToolReturnPart]] = {}
        self._may_have_lost = True
        active.on_rewound(self._handle_rewound)

    def _handle_rewound(self) -> None:
        self._may_have_lost = True

    async def add(self, conversation_id: str, part: ToolReturnPart) -> None:
        """Accept the result of a background call, publish an event, and add the result to its conversation.

        A result that cannot be added yet keeps waiting; see `deliver` and `deliver_in_turn`.
        """
        self._waiting.setdefault(conversation_id, {})[part.use_id] = part
        outcome = part.outcome or "error"
        is_awaited = self._active.id == conversation_id and part.use_id in find_awaited(self._active.messages)
        self._may_have_lost |= self._active.id != conversation_id  # the open conversation may be a copy with the call
        self._events.publish(BackgroundCallEnded(part.use_id, part.server, part.tool or part.name, outcome, is_awaited))
        if self._active.id != conversation_id:
            await self._deliver_to_stored(conversation_id)
        else:
            await self.deliver()

    async def deliver(self) -> None:
        """Add the waiting results to the open conversation; do nothing while a turn is running."""
        # Check before each result: a running turn must not get a message between a tool call and its result.
        while not self._active.is_busy and await self._deliver_next(self._active.current):
            pass

    async def deliver_in_turn(self) -> None:
        """Add the waiting results at the start of a turn, and tell the model which results are lost.

        A result is lost if the call is no longer running and its result never arrived, for example because mcphost
        exited.
        """
        conversation = self._active.current
        while await self._deliver_next(conversation):
            pass
        if self._may_have_lost:
            self._may_have_lost = False
            running = self._list_running()
            for use_id, part in find_awaited(conversation.messages).items():
                if use_id not in running:
                    await self._append(conversation, make_lost_message(part))

    async def _append(self, conversation: Conversation, message: Message) -> None:
        added = await conversation.append(message)
        if conversation is self._active.current:
            self._events.publish(BackgroundResultAdded(added))

    async def _deliver_to_stored(self, conversation_id: str) -> None:
        """Add the waiting results to a conversation that is not open; drop them if the conversation was deleted.

        Results that cannot be stored keep waiting, and are added when the conversation has been opened and a turn
        begins.
        """
        try:
            conversation = await Conversation.load(self._store, self._events.report_error, conversation_id)
        except McpHostError as error:
            self._events.report_error(error)
            return
        if conversation is not None:
            # All messages are searched for the call; decoding many would stop the event loop.
            await anyio.to_thread.run_sync(list, conversation.messages)
        if conversation is None:
            self._waiting.pop(conversation_id, None)
        elif self._active.id == conversation_id:  # the user has opened it in the meantime
            await self.deliver()
        else:
            while await self._deliver_next(conversation):
                pass

    async def _deliver_next(self, conversation: Conversation) -> bool:
        """Add the next waiting result to the conversation; return False if there is none or it cannot be stored.

        A result of a call that no branch of the conversation contains is dropped.
        """
        waiting = self._waiting.get(conversation.id)
        if not waiting:
            self._waiting.pop(conversation.id, None)
            return False
        use_id = next(iter(waiting))
        part = waiting.pop(use_id)
        if use_id in find_awaited(conversation.messages):
            await self._append(conversation, make_result_message(part))
            return True
        try:
            for branch in await self._store.get().list_mentions(conversation.id, use_id):
                if use_id in find_awaited(branch.messages):
                    await conversation.append_to_branch(make_result_message(part), branch.number)
                    break
        except StoreError as error:
            self._waiting.setdefault(conversation.id, {})[use_id] = part
            self._events.report_error(error)
            return False
        return True
