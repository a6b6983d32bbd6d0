"""List of the messages in a conversation; each stored message is decoded when it is first accessed.

Decoding 100,000 messages takes half a second, but only the last few are shown when a conversation is opened.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import cast, overload

from mcphost.llm.messages import Message, TextPart
from mcphost.serialization import decode_or_none

DAMAGED_TEXT = "[mcphost: this message is damaged and cannot be read]"


def decode_message(body: object) -> Message | None:
    """Decode a stored message, or return None if it is damaged; in a damaged file, *body* may have any type."""
    return decode_or_none(body, Message) if isinstance(body, bytes) else None


class MessageList(Sequence[Message]):
    """The messages of a conversation, oldest first.

    A list and its snapshots share the decoded messages, so that each message is decoded only once, on any thread. A
    damaged message is replaced with a message that reports the damage.
    """

    def __init__(self, bodies: Sequence[bytes] = ()) -> None:
        """Create a list of stored messages; *bodies* contains each message as JSON."""
        self._entries: list[bytes | Message] = list(bodies)
        self._count = len(self._entries)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self._read(at) for at in range(*index.indices(self._count)))
        return self._read(range(self._count)[index])

    def __iter__(self) -> Iterator[Message]:
        return (self._read(at) for at in range(self._count))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageList | tuple | list):
            return NotImplemented
        return tuple(self) == tuple(cast("Sequence[object]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as of a list

    def __repr__(self) -> str:
        return f"MessageList({list(self)!r})"

    def append(self, message: Message) -> None:
        """Add a message at the end."""
        if len(self._entries) > self._count:  # snapshots still contain the removed messages
            self._entries = self._entries[: self._count]
        self._entries.append(message)
        self._count += 1

    def truncate(self, count: int) -> None:
        """Remove all but the first *count* messages."""
        self._count = min(self._count, count)

    def snapshot(self) -> "MessageList":
        """Return a copy of the list that does not change when the original does."""
        copy = MessageList()
        copy._entries, copy._count, copy._lock = self._entries, self._count, self._lock
        return copy

    def _read(self, at: int) -> Message:
        entry = self._entries[at]
        return entry if isinstance(entry, Message) else self._decode(at)

    def _decode(self, at: int) -> Message:
        # Caches are keyed by the identity of messages, so two threads must not decode the same message.
        with self._lock:
            entry = self._entries[at]
            if not isinstance(entry, Message):
                entry = self._entries[at] = decode_message(entry) or _replace_damaged(entry)
            return entry


def _replace_damaged(body: bytes) -> Message:
    role = "user" if b'"role":"user"' in body[:64] else "assistant"
    return Message(role=role, parts=(TextPart(DAMAGED_TEXT),))
