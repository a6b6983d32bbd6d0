"""Queue of the messages that the user writes while the model is answering."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcphost.tui.widget_messages import QueueRow
from mcphost.tui.widgets.draft import Draft, join_drafts

if TYPE_CHECKING:
    from mcphost.llm.messages import Part

MAX_QUEUED = 20


@dataclass(eq=False)
class QueuedMessage:
    """A message that is waiting to be sent to the model.

    - `is_steering`: whether it is sent with the next tool results instead of after the current response.
    - `is_for_new_model`: whether it was written during a switch to another model.
    """

    draft: Draft
    attachments: "Sequence[Part]" = ()
    is_steering: bool = False
    is_for_new_model: bool = False


class MessageQueue:
    """Queue of at most MAX_QUEUED messages to be sent, oldest first."""

    def __init__(self) -> None:
        self._messages: list[QueuedMessage] = []

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether the queue already contains MAX_QUEUED messages."""
        return len(self._messages) >= MAX_QUEUED

    def add(self, message: QueuedMessage) -> None:
        """Append a message to the queue."""
        self._messages.append(message)

    def take_next(self) -> QueuedMessage | None:
        """Remove and return the oldest message, or return None if the queue is empty.

        Call this after an answer has ended. Messages that were passed to that answer but not delivered remain in the
        queue, and are sent like any other message.
        """
        for one in self._messages:
            one.is_steering = False
        return self._messages.pop(0) if self._messages else None

    def take_last(self) -> QueuedMessage | None:
        """Remove and return the newest message that has not yet been passed to the running answer.

        Return None if there is no such message.
        """
        found = next((one for one in reversed(self._messages) if not one.is_steering), None)
        if found is not None:
            self._messages.remove(found)
        return found

    def take(self, place: tuple[int, str] | None) -> QueuedMessage | None:
        """Remove and return the message at *place*, which is a pair of the message's position and its text.

        Return None if the message at this position has a different text, or has been passed to the running answer. If
        *place* is None, behave like `take_last`.
        """
        if place is None:
            return self.take_last()
        index, text = place
        found = self._messages[index] if 0 <= index < len(self._messages) else None
        if found is None or found.draft.text != text or found.is_steering:
            return None
        return self._messages.pop(index)

    @property
    def sources(self) -> list[str]:
        """The names of the servers whose prompts the queued messages contain."""
        return [source for one in self._messages for source in one.draft.sources]

    @property
    def attachments(self) -> "tuple[Part, ...]":
        """The attachments of all queued messages."""
        return tuple(part for one in self._messages for part in one.attachments)

    def describe(self) -> list[QueueRow]:
        """Return a row for each message, for display in the list of queued messages."""
        return [QueueRow(one.draft.text, one.is_steering, bool(one.attachments)) for one in self._messages]

    def steer(self, send: "Callable[[str, Sequence[Part]], bool]", *, newest: bool = False) -> None:
        """Pass the oldest message that the running turn has not received to *send*, with its attachments.

        *send* returns False if no turn is running. If it accepts the message, the message is marked with `is_steering`,
        moves ahead of the unmarked messages, and remains in the queue until `mark_delivered` is called. If *newest* is
        true, only the newest message is considered.
        """
        considered = self._messages[-1:] if newest else self._messages
        found = next((one for one in considered if not one.is_steering), None)
        if found is not None and send(found.draft.text, found.attachments):
            found.is_steering = True
            self._messages.sort(key=lambda one: not one.is_steering)  # stable: those sent are delivered in this order

    def mark_delivered(self) -> None:
        """Remove the oldest message with `is_steering` set, because it is now part of the turn."""
        found = next((one for one in self._messages if one.is_steering), None)
        if found is not None:
            self._messages.remove(found)

    def take_all(self) -> "tuple[Draft, tuple[Part, ...]]":
        """Remove all messages; return their texts, joined into one draft, and all their attachments."""
        return self._take(self._messages)

    def take_for_new_model(self) -> "tuple[Draft, tuple[Part, ...]]":
        """Remove the messages written during a switch to another model; return their joined texts and attachments.

        Messages that were passed to the running answer stay in the queue.
        """
        return self._take([one for one in self._messages if one.is_for_new_model and not one.is_steering])

    def _take(self, taken: list[QueuedMessage]) -> "tuple[Draft, tuple[Part, ...]]":
        self._messages = [one for one in self._messages if one not in taken]
        return join_drafts(*(one.draft for one in taken)), tuple(part for one in taken for part in one.attachments)
