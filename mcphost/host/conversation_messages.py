"""The messages of one conversation; each is saved when it is added, or later if saving fails."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio

from mcphost.errors import StoreError, UsageError
from mcphost.host.conversation_titles import make_title, title_call
from mcphost.host.fork_point import ForkPoint
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import Message, with_targets
from mcphost.pluralize import pluralize
from mcphost.serialization import replace
from mcphost.store.message_list import MessageList

if TYPE_CHECKING:
    from mcphost.store.compactions import Compaction
    from mcphost.store.conversations import ConversationStore
    from mcphost.store.manual_calls import StoredManualCall
    from mcphost.store.page_results import StoredPageCall

FindCopiesFn = Callable[[Message], Awaitable[Message]]
"""Returns a user's message with `TextPart.copies` filled in."""
_DELETED_TEXT = "Another mcphost deleted this conversation. You can continue here, but only new messages are saved."


class Conversation:
    """The messages of one conversation, in memory and in the store; only `append` adds a message."""

    def __init__(self, store: "Lazy[ConversationStore]", on_store_error: Callable[[StoreError], None]) -> None:
        self.id = ""
        self._reserved_id = ""
        self.title = ""
        self.title_prefix = ""
        """The beginning of the title that the first message will give the conversation."""

        self.messages = MessageList()
        self.compaction: Compaction | None = None
        """The summary that replaces the beginning of this branch in model requests; None if there is none."""

        self.beginning_changed_at = 0.0
        """When a summary or shortened results last changed the beginning of requests, in seconds since 1970.

        The sizes of earlier requests are not comparable with later ones.
        """

        self.forked: ForkPoint | None = None
        """The point at which the conversation was copied in this run; None if it was not."""

        self.is_newly_titled = False
        """Whether the title is the first line of a message added in this run, and may be replaced with a better one."""

        self.manual_calls: list[StoredManualCall] = []
        """Tool calls that the user made on this branch, oldest first; they are not sent to the model."""

        self._unsaved_calls: list[tuple[StoredManualCall, StoredPageCall | None]] = []
        self._system_prompts: list[str] = []  # set by the user, oldest first
        self._unsaved_prompts: list[str] = []  # the newest prompts, until the conversation is stored
        self._compactions: list[Compaction] = []  # summaries of all branches
        self._numbers: list[int] = []  # the store's number of each message; 0 for an unsaved message
        self._last_number = 0  # the highest number in the store, on any branch
        self.on_shared: Callable[[str], object] = lambda text: None
        """Called with a message for the user when another mcphost process has changed this conversation."""

        self.find_copies: FindCopiesFn | None = None
        """Called with each typed message before it is added."""

        self.server_targets: Mapping[str, str] = {}
        """The current targets of all servers that were started, keyed by name; stored with each message."""

        self._store = store
        self._on_store_error = on_store_error
        self._unsaved: list[tuple[Message, str]] = []
        self._unsaved_draft: Message | None = None
        self._is_failing = self._is_run_continued = False
        self._save_lock = anyio.Lock(fast_acquire=True)  # background results may arrive at any time

    @classmethod
    async def load(
        cls, store: "Lazy[ConversationStore]", on_store_error: Callable[[StoreError], None], conversation_id: str
    ) -> "Conversation | None":
        """Load a stored conversation; return None if *conversation_id* is unknown. Raises StoreError."""
        loader = store.get()
        stored = await loader.load_bodies(conversation_id)
        if stored is None:
            return None
        conversation = cls(store, on_store_error)
        conversation.id = conversation_id
        conversation.messages = MessageList(stored.bodies)
        conversation._numbers = stored.numbers
        conversation._last_number = await loader.find_last_number(conversation_id)
        conversation.title = await loader.find_title(conversation_id)
        conversation._system_prompts = list(await loader.system_prompts.load(conversation_id))
        conversation._compactions = list(await loader.compactions.load(conversation_id))
        conversation.manual_calls = list(await loader.manual_calls.load(conversation_id, stored.numbers))
        conversation._choose_compaction()
        conversation.beginning_changed_at = conversation.compaction.at if conversation.compaction else 0.0
        return conversation

    @property
    def reserved_id(self) -> str:
        """The id of the conversation, or the id that it will get when its first message is added."""
        if not self.id and not self._reserved_id:
            self._reserved_id = secrets.token_hex(6)
        return self.id or self._reserved_id

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the messages in the store, in order; the number of an unsaved message is 0."""
        return self._numbers

    @property
    def covered(self) -> int:
        """The number of leading messages that a summary replaces in model requests; 0 without a summary."""
        return 0 if self.compaction is None else self._numbers.index(self.compaction.last) + 1

    # -- summaries

    async def add_compaction(self, compaction: "Compaction") -> "Compaction":
        """Store a summary that replaces earlier messages in model requests, and return it as stored.

        The messages themselves are not changed. Raises StoreError.
        """
        stored = await self._store.get().compactions.add(self.id, compaction)
        self._compactions.append(stored)
        self._choose_compaction()
        self.beginning_changed_at = time.time()
        return stored

    async def undo_compaction(self) -> "Compaction | None":
        """Stop using the current summary and return it; return None if there is none. Raises StoreError.

        If it replaced an earlier summary, the earlier one is used again.
        """
        undone = self.compaction
        if undone is not None:
            await self._store.get().compactions.undo(undone.number)
            self._compactions.remove(undone)
            self._choose_compaction()
            self.beginning_changed_at = time.time()
        return undone

    def _choose_compaction(self) -> None:
        self.compaction = None
        if self._compactions and self._numbers:
            from mcphost.store.compactions import find_active_compaction  # few conversations have a summary

            self.compaction = find_active_compaction(self._compactions, frozenset(self._numbers))

    # -- system prompt

    @property
    def system_prompt(self) -> str:
        """The system prompt that the user set for this conversation; "" if the configured one is used."""
        return self._system_prompts[-1] if self._system_prompts else ""

    @property
    def previous_system_prompt(self) -> str:
        """The system prompt that `undo_system_prompt` restores; "" means the configured one."""
        return self._system_prompts[-2] if len(self._system_prompts) > 1 else ""

    @property
    def can_undo_system_prompt(self) -> bool:
        """Whether the user has changed the system prompt of this conversation."""
        return bool(self._system_prompts)

    @property
    def is_stored(self) -> bool:
        """Whether at least one message or manual call is in the store."""
        unsaved = len(self._unsaved) + len(self._unsaved_calls)
        return bool(self.id) and not (unsaved and unsaved == len(self.messages) + len(self.manual_calls))

    async def set_system_prompt(self, text: str) -> None:
        """Set the system prompt for all later requests; "" selects the configured one. Raises StoreError.

        If nothing of the conversation is stored yet, the prompt is stored together with the first message.
        """
        if self.is_stored:
            await self._store.get().system_prompts.add(self.id, text)
        else:
            self._unsaved_prompts.append(text)
        self._system_prompts.append(text)
        self.beginning_changed_at = time.time()

    async def undo_system_prompt(self) -> None:
        """Undo the last change of the system prompt; do nothing if there was none. Raises StoreError."""
        if not self._system_prompts:
            return
        if self._unsaved_prompts:
            self._unsaved_prompts.pop()
        else:
            await self._store.get().system_prompts.remove_last(self.id)
        self._system_prompts.pop()
        self.beginning_changed_at = time.time()

    # -- adding and saving messages

    async def append(self, message: Message, model: str = "") -> Message:
        """Add a message, save it, and return it; a message without a time gets the current time.

        *model* is the name of the model in use, which is stored with the conversation. If saving fails, the message
        stays in memory, and the next call to `append` or `save` tries again.
        """
        from mcphost.store.conversations import RUN_PREFIX

        if self.find_copies is not None and message.is_typed:
            message = await self.find_copies(message)
        message = with_targets(message, self.server_targets)
        message = message if message.at else replace(message, at=time.time())
        if not self.id or self._is_titled_by_call():
            self.id = self.reserved_id
            self.title = f"{self.title_prefix}{make_title(message.text)}"
            self.is_newly_titled = not self.title_prefix
        elif message.role == "user" and self.title.startswith(RUN_PREFIX) and not self.title_prefix:
            self._is_run_continued = True
        self._queue_draft(model)
        self.messages.append(message)
        self._numbers.append(0)
        self._unsaved.append((message, model))
        self._unsaved_draft = None
        await self.save()
        return message

    def _queue_draft(self, model: str = "") -> None:
        """Queue the last message for `save` if it is a draft left by a crash.

        `save` then stores it as a message and deletes the draft. *model* is stored as the model that wrote it; ""
        stands for the model named in the draft.
        """
        if not (self._unsaved or all(self._numbers[-1:])) and any(self._numbers):
            self._unsaved.append((self.messages[-1], model or self.messages[-1].model))  # saving it deletes the draft

    async def replace_title(self, title: str) -> None:
        """Replace the automatic title, unless the user has set a title in the meantime. Raises StoreError.

        If nothing of the conversation is stored yet, it will be stored with the new title. If another process has
        deleted the conversation, the title is not changed.
        """
        async with self._save_lock:
            if not self._last_number:
                self.title = title
            elif stored := await self._store.get().change_title(self.id, lambda _: title):
                self.title = stored

    async def append_to_branch(self, message: Message, after: int) -> None:
        """Store a message on another branch of this conversation, after message number *after*. Raises StoreError."""
        message = with_targets(message, self.server_targets)
        message = message if message.at else replace(message, at=time.time())
        async with self._save_lock:
            self._notice_others(await self._store.get().append_to_branch(self.id, message, after=after))

    def add_manual_call(self, call: "StoredManualCall", page: "StoredPageCall | None") -> None:
        """Add a tool call that the user made, and its *page*; `save` stores both.

        The model never receives the call. In an empty conversation, the title is set to the names of the server and
        the tool.
        """
        at, after = call.at or time.time(), self._find_saved_number(len(self._numbers))
        call = replace(call, after=after, at=at, page=call.page if page else "")
        self.manual_calls.append(call)
        self._unsaved_calls.append((call, page))
        if not self.id:
            self.id = self.reserved_id
            self.title = title_call(call)

    def _is_titled_by_call(self) -> bool:
        calls = self.manual_calls
        return bool(calls) and not self._last_number and not self.messages and self.title == title_call(calls[0])

    @property
    def unsaved_count(self) -> int:
        """The number of messages and manual calls that are still to be saved."""
        return len(self._unsaved) + len(self._unsaved_calls)

    async def save(self) -> bool:
        """Try to save all unsaved messages and an unsaved draft; return whether that succeeded.

        A failure is reported once; further failures are not reported until saving has succeeded again.
        """
        store = self._store.get()
        async with self._save_lock:
            try:
                while self._unsaved:
                    first, first_model = self._unsaved[0]
                    after = self._find_saved_number(len(self._numbers) - len(self._unsaved))
                    # Used only if the store has no such conversation: if it was deleted, its title is deleted as well.
                    title = make_title(first.text) if self._last_number else self.title
                    number = await store.append(self.id, first, title=title, model=first_model, after=after)
                    if self._notice_others(number):
                        self.title = title
                    self._numbers[len(self._numbers) - len(self._unsaved)] = number
                    del self._unsaved[0]
                while self._unsaved_calls:
                    is_new = not self._last_number and len(self._unsaved_calls) == len(self.manual_calls)
                    await store.manual_calls.add(self.id, *self._unsaved_calls[0], title=self.title * is_new)
                    del self._unsaved_calls[0]
                if self._is_run_continued:
                    self.title = await store.remove_run_prefix(self.id)
                    self._is_run_continued = False
                while self._unsaved_prompts and self.messages:
                    await store.system_prompts.add(self.id, self._unsaved_prompts[0])
                    del self._unsaved_prompts[0]
                if self._unsaved_draft is not None:
                    await store.save_draft(self.id, self._unsaved_draft)
                    self._unsaved_draft = None
                self._is_failing = False
            except StoreError as error:
                if not self._is_failing:
                    self._is_failing = True
                    self._on_store_error(error)
        return not self._is_failing

    def _notice_others(self, number: int) -> bool:
        """Notify the user if another process added messages to the conversation or deleted it.

        *number* is the number that the store gave to the message just saved. It is higher than expected if messages
        were added, and lower if the conversation was deleted. Returns True if the conversation was deleted.
        """
        before, self._last_number = self._last_number, number
        if number > before + 1:
            self.on_shared(
                f"Another mcphost added {pluralize(number - before - 1, 'message')} to this conversation. "
                "Both versions are stored: /rewind opens the other one as a branch."
            )
        elif number <= before:
            self._numbers = [0] * len(self._numbers)
            self.on_shared(_DELETED_TEXT)
            return True
        return False

    async def require_saved(self) -> None:
        """Save everything, including a draft left by a crash. Raises UsageError if a message cannot be saved."""
        self._queue_draft()
        await self.save()
        if self._unsaved:
            raise UsageError(
                "The last messages are not saved yet.", "Free disk space; mcphost then saves them within seconds."
            )

    # -- branches

    async def rewind(self, count: int) -> None:
        """Shorten the conversation to its first *count* messages.

        The later messages are kept in the store as a branch. Raises UsageError if there are fewer than *count*
        messages, or if some are unsaved. Raises StoreError if the change cannot be stored.
        """
        if not 0 <= count <= len(self.messages):
            raise UsageError(f"The conversation has only {len(self.messages)} messages.")
        await self.require_saved()
        if count == len(self.messages):
            return
        await self._store.get().rewind(self.id, self._find_saved_number(count))
        self.messages.truncate(count)
        del self._numbers[count:]
        known = {0, *self._numbers} if self.manual_calls else set[int]()
        self.manual_calls = [call for call in self.manual_calls if call.after in known]
        self._choose_compaction()

    async def fork(self, count: int, mark: str = "copy") -> ForkPoint:
        """Copy the first *count* messages to a new conversation, and return the point at which the copy branches off.

        *mark* is added to the title of the copy. Raises UsageError if a message is unsaved, if *count* is out of
        range, or if there is nothing to copy. Raises StoreError if the copy cannot be stored.
        """
        if self._unsaved or not 0 < count <= len(self.messages):
            raise UsageError("There are no saved messages to copy.", "Write a message first.")
        await self.require_saved()
        new_id = secrets.token_hex(6)
        numbers = [number for number in self._numbers[:count] if number]
        await self._store.get().fork(self.id, numbers, new_id=new_id, at=time.time(), mark=mark)
        return ForkPoint(new_id, self.id, numbers[-1], count)

    def _find_saved_number(self, count: int) -> int:
        """Return the number under which the last saved one of the first *count* messages is stored; 0 for none."""
        return next((number for at in range(count - 1, -1, -1) if (number := self._numbers[at])), 0)

    # -- the answer being written

    async def save_draft(self, message: Message) -> None:
        """Save the model's unfinished response as a draft, so that a crash does not lose it.

        If saving fails, or has failed before, the draft is saved by the next call to `save`.
        """
        if self._is_failing or self._unsaved:
            self._unsaved_draft = message
            return
        try:
            await self._store.get().save_draft(self.id, message)
        except StoreError as error:
            self._unsaved_draft = message
            self._is_failing = True
            self._on_store_error(error)
