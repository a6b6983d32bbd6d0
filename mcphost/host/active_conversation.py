"""The open conversation with its unsaved messages; another conversation can be opened in its place."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

import anyio

from mcphost.errors import StoreError, UsageError
from mcphost.host.conversation_messages import Conversation, FindCopiesFn
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ConversationOpened
from mcphost.host.lifetime import Lazy
from mcphost.host.page_contexts import PageContexts
from mcphost.llm.messages import Message
from mcphost.pluralize import pluralize

if TYPE_CHECKING:
    from mcphost.store.conversations import ConversationStore
    from mcphost.store.manual_calls import AddManualCallFn, StoredManualCall
    from mcphost.store.page_results import StoredPageCall

_RETRY_SECONDS = 5.0


class CallContext(NamedTuple):
    """The conversation in which the model made a tool call, and its messages at that time."""

    conversation: Conversation
    messages: Sequence[Message]


call_context: ContextVar[CallContext | None] = ContextVar("call context", default=None)
"""The context of the call by the model that the current task runs; None if it runs none.

A background call keeps its own context even if the user has opened another conversation in the meantime.
"""


class ActiveConversation:
    """Holder for the currently open conversation, shared by all parts of the host.

    Another conversation can be opened in its place, but only while no turn is running.
    """

    def __init__(self, store: "Lazy[ConversationStore]", events: EventBus) -> None:
        self._store = store
        self._events = events
        self._listeners: list[Callable[[], object]] = []
        self._rewind_listeners: list[Callable[[], object]] = []
        self._left: list[Conversation] = []  # conversations replaced before all their messages were saved
        self._has_unsaved = anyio.Event()
        self._has_failed = False  # whether the user was told that saving failed
        self.current = Conversation(store, self._handle_store_error)
        self.current.on_shared = self._handle_shared
        self._find_copies: FindCopiesFn | None = None
        self.page_contexts = PageContexts(events)
        self.is_busy = False  # whether a turn is running

    @property
    def id(self) -> str:
        """The id of the open conversation; "" until it has a message."""
        return self.current.id

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the open conversation, oldest first; each is decoded when it is first accessed."""
        return self.current.messages.snapshot()

    @property
    def for_call(self) -> CallContext:
        """The conversation of the tool call that the current task handles, and its messages at the time of the call.

        In a task that handles no tool call, these are the open conversation and its messages.
        """
        return call_context.get() or CallContext(self.current, self.messages)

    def has_images(self) -> bool:
        """Return whether any message contains an image; call this in a worker thread, because it reads all messages."""
        return any(message.has_images for message in self.messages)

    def require_idle(self) -> None:
        """Raise UsageError if a turn is running."""
        if self.is_busy:
            raise UsageError("The model is still answering.", "Press Esc to stop it first.")

    def on_replaced(self, listener: Callable[[], object]) -> None:
        """Register *listener* to be called each time another conversation is opened."""
        self._listeners.append(listener)

    def on_rewound(self, listener: Callable[[], object]) -> None:
        """Register *listener* to be called when messages are removed, or another branch or conversation is opened."""
        self._listeners.append(listener)
        self._rewind_listeners.append(listener)

    async def rewind(self, count: int) -> None:
        """Shorten the open conversation to its first *count* messages.

        The later messages are kept in the store as a branch. Raises UsageError while a turn is running. Errors raised
        by `Conversation.rewind` are passed on.
        """
        self.require_idle()
        if count != len(self.messages):
            await self.current.rewind(count)
            self._publish_rewound()

    async def switch_branch(self, number: int) -> None:
        """Switch to the branch of the conversation that ends with message *number*.

        Unsaved messages are saved first. See `ConversationStore.list_branches`. Raises UsageError while a turn is
        running or if messages cannot be saved, and StoreError if the store cannot be read or written.
        """
        self.require_idle()
        await self.current.require_saved()
        await self._store.get().rewind(self.current.id, number)
        conversation = await Conversation.load(self._store, self._handle_store_error, self.current.id)
        if conversation is not None:
            self._keep_unsaved()
            self._set_current(conversation)
            self._publish_rewound()

    def _publish_rewound(self) -> None:
        for listener in self._rewind_listeners:
            listener()
        self._publish_opened()

    async def open(self, conversation_id: str) -> None:
        """Open a stored conversation.

        Raises UsageError if the id is unknown or a turn is running, and StoreError if the conversation cannot be
        loaded.
        """
        self.require_idle()
        conversation = next((one for one in self._left if one.id == conversation_id), None)
        if conversation is None:
            conversation = await Conversation.load(self._store, self._handle_store_error, conversation_id)
        if conversation is None:
            raise UsageError(f"There is no conversation {conversation_id!r}.", "List them with: mcphost sessions")
        self._replace(conversation)

    def open_new(self) -> None:
        """Open a new, empty conversation. Raises UsageError while a turn is running."""
        self._replace(Conversation(self._store, self._handle_store_error))

    def handle_rename(self, conversation_id: str, title: str) -> None:
        """Update the open conversation's title after a rename in the store; do nothing for other conversations."""
        if self.id == conversation_id:
            self.current.title = title

    def _replace(self, conversation: Conversation) -> None:
        self.require_idle()
        self._keep_unsaved()
        self._set_current(conversation)
        for listener in self._listeners:
            listener()
        self._publish_opened()

    def _keep_unsaved(self) -> None:
        """Keep the current conversation in memory if it has unsaved messages, because it is about to be replaced.

        `run` or `close` saves these messages.
        """
        if self.current.unsaved_count and self.current not in self._left:
            self._left.append(self.current)
            self._has_unsaved.set()

    def _set_current(self, conversation: Conversation) -> None:
        conversation.server_targets = self.current.server_targets
        self.current = conversation
        conversation.on_shared = self._handle_shared
        conversation.find_copies = self._find_copies

    def set_copy_finder(self, find_copies: FindCopiesFn) -> None:
        """Set the function that finds the parts of a user message that were copied from text of servers.

        *find_copies* is called with each message that the user types, in any conversation, before the message is
        added. It returns the message with `TextPart.copies` filled in.
        """
        self._find_copies = self.current.find_copies = find_copies

    def _handle_shared(self, text: str) -> None:
        self._events.notify("warning", text)

    # -- saving

    def start_manual_call(self) -> "AddManualCallFn":
        """Return a function that adds a tool call made by the user to the conversation that is open now.

        Call the function when the tool call has finished. It adds the tool call to this conversation even if another
        conversation has been opened since, and returns the conversation's id. The tool call is saved in the background,
        so cancelling the caller does not interrupt saving.
        """
        conversation = self.current

        def add(call: "StoredManualCall", page: "StoredPageCall | None" = None) -> str:
            conversation.add_manual_call(call, page)
            if conversation is not self.current and conversation not in self._left:
                self._left.append(conversation)
            self._has_unsaved.set()
            return conversation.id

        return add

    def _handle_store_error(self, error: StoreError) -> None:
        self._has_failed = True
        text = f"{error.message} New messages are kept in memory and saved as soon as that works."
        self._events.report_error(StoreError(text, error.hint))
        self._has_unsaved.set()

    async def run(self) -> None:
        """Save unsaved messages until cancelled; retry every five seconds after a failure."""
        while True:
            await self._has_unsaved.wait()
            self._has_unsaved = anyio.Event()
            if not await self._save_all():
                self._has_unsaved.set()
                await anyio.sleep(_RETRY_SECONDS)
            elif self._has_failed:
                self._has_failed = False
                self._events.notify("info", "The conversation can be saved again; all of its messages were saved.")

    async def close(self) -> None:
        """Try once more to save all messages; notify the user if some could not be saved."""
        if not await self._save_all():
            count = sum(one.unsaved_count for one in (*self._left, self.current))
            self._events.report_store_error(
                f"{pluralize(count, 'message')} of this conversation could not be saved, because its store cannot be "
                "written.",
                "Free disk space before you use mcphost again.",
            )

    async def _save_all(self) -> bool:
        for one in tuple(self._left):
            if await one.save() and one in self._left:
                self._left.remove(one)
        return await self.current.save() and not self._left

    def _publish_opened(self) -> None:
        now = self.current
        self._events.publish(ConversationOpened(now.id, now.title, len(now.messages)))
