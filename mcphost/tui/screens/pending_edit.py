"""State of editing an earlier message; Esc can cancel the edit until something is sent."""

from typing import TYPE_CHECKING, NamedTuple

from mcphost.translation import N_
from mcphost.tui.widgets.composer import Draft

if TYPE_CHECKING:
    from mcphost.llm.messages import Part

EDITING = N_("Editing an earlier message. Enter sends it; Esc returns to the conversation as it was.")


class PendingEdit(NamedTuple):
    """An earlier message that is being edited, with the data to cancel the edit.

    `kept` is the number of messages before it. `branch_end` is the store's number of the last message of the previous
    branch. `before` and `after` are the composer's drafts before and after the message was inserted.
    """

    conversation_id: str
    kept: int
    branch_end: int
    before: Draft
    after: Draft
    attachments: "tuple[Part, ...]"

    def fits(self, conversation_id: str, count: int) -> bool:
        """Return whether the edit belongs to this conversation and nothing was sent since it began."""
        return (self.conversation_id, self.kept) == (conversation_id, count)
