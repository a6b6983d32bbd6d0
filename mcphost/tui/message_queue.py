"""Messages written while the model answers: they wait in order, and can be taken back or sent into the answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcphost.tui.widgets.composer import Draft, join_drafts

if TYPE_CHECKING:
    from mcphost.llm.messages import Part

MAX_QUEUED = 20


@dataclass(eq=False)
class QueuedMessage:
    """A message that waits for the end of the answer or, with `is_steering`, for the next results of tools."""

    draft: Draft
    attachments: "Sequence[Part]" = ()
    is_steering: bool = False


class MessageQueue:
    """The messages that are sent next, oldest first; at most MAX_QUEUED."""

    def __init__(self) -> None:
        self._messages: list[QueuedMessage] = []

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether no further message can wait."""
        return len(self._messages) >= MAX_QUEUED

    def add(self, message: QueuedMessage) -> None:
        """Append a message."""
        self._messages.append(message)

    def take_next(self) -> QueuedMessage | None:
        """Remove and return the oldest message, or None if there is none.

        The answer that others were to join has ended, so they wait for the end of the next one.
        """
        for one in self._messages:
            one.is_steering = False
        return self._messages.pop(0) if self._messages else None

    def take_last(self) -> QueuedMessage | None:
        """Remove and return the newest message that is not on its way into the answer, or None."""
        found = next((one for one in reversed(self._messages) if not one.is_steering), None)
        if found is not None:
            self._messages.remove(found)
        return found

    def describe(self) -> list[tuple[str, bool]]:
        """Return the text of each message, and whether it joins the running answer."""
        return [(one.draft.text, one.is_steering) for one in self._messages]

    def steer(self, send: Callable[[str], bool]) -> None:
        """Send the oldest message without attachments into the running answer; *send* returns whether one runs."""
        found = next((one for one in self._messages if not one.is_steering and not one.attachments), None)
        if found is not None and send(found.draft.text):
            found.is_steering = True

    def mark_delivered(self) -> None:
        """Remove the oldest message that was sent into the answer, because it arrived there."""
        found = next((one for one in self._messages if one.is_steering), None)
        if found is not None:
            self._messages.remove(found)

    def take_all(self) -> "tuple[Draft, tuple[Part, ...]]":
        """Remove all messages; return their texts as one draft, and all their attachments."""
        taken, self._messages = self._messages, []
        parts = tuple(part for one in taken for part in one.attachments)
        return join_drafts(*(one.draft for one in taken)), parts
