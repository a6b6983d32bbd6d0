"""The open conversation: its messages, saved as it grows, or in memory if saving fails."""

import secrets
import time
from collections.abc import Callable

from mcphost.errors import StoreError
from mcphost.llm.messages import Message
from mcphost.serialization import replace
from mcphost.store.conversations import ConversationStore

TITLE_CHARS = 80


class Conversation:
    """One conversation, which grows only by `append`."""

    def __init__(self, store: ConversationStore, on_store_error: Callable[[StoreError], None]) -> None:
        self.id = ""
        self.title = ""
        self.messages: list[Message] = []
        self._store = store
        self._on_store_error = on_store_error
        self._unsaved: list[tuple[Message, str]] = []
        self._is_failing = False

    @classmethod
    async def load(
        cls, store: ConversationStore, on_store_error: Callable[[StoreError], None], ident: str
    ) -> "Conversation | None":
        """Return a stored conversation, or None for an unknown id. Raises StoreError."""
        messages = await store.load(ident)
        if messages is None:
            return None
        conversation = cls(store, on_store_error)
        conversation.id = ident
        conversation.messages = list(messages)
        first = next((message for message in messages if message.role == "user"), None)
        conversation.title = _title(first) if first else ""
        return conversation

    async def append(self, message: Message, model: str = "") -> Message:
        """Add a message; on return it is on disk, or the user was notified that it is not."""
        message = message if message.at else replace(message, at=time.time())
        if not self.id:
            self.id = secrets.token_hex(6)
            self.title = _title(message)
        self.messages.append(message)
        self._unsaved.append((message, model))
        try:
            while self._unsaved:
                first, first_model = self._unsaved[0]
                await self._store.append(self.id, first, title=self.title, model=first_model)
                del self._unsaved[0]
            self._is_failing = False
        except StoreError as error:
            if not self._is_failing:
                self._on_store_error(error)
            self._is_failing = True
        return message

    async def save_draft(self, message: Message) -> None:
        """Save an unfinished answer, so that a crash loses at most a second of it."""
        if self._is_failing or self._unsaved:
            return
        try:
            await self._store.save_draft(self.id, message)
        except StoreError as error:
            self._is_failing = True
            self._on_store_error(error)


def _title(message: Message) -> str:
    line = next((line.strip() for line in message.text.splitlines() if line.strip()), "Untitled")
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…"
