"""The edit of an earlier message, which Esc undoes until something is sent."""

from typing import TYPE_CHECKING, NamedTuple

from mcphost.tui.widgets.composer import Draft

if TYPE_CHECKING:
    from mcphost.llm.messages import Part

EDITING = "Editing an earlier message. Enter sends it; Esc returns to the conversation as it was."


class PendingEdit(NamedTuple):
    """An earlier message that is being edited, and what undoes the going back to it.

    `kept` is the number of messages before it, `branch_end` the store's number of the last message of the branch that
    was left. `before` and `after` are the composer's draft before and after the message was put into it.
    """

    conversation_id: str
    kept: int
    branch_end: int
    before: Draft
    after: Draft
    attachments: "tuple[Part, ...]"

    def fits(self, conversation_id: str, count: int) -> bool:
        """Return whether a conversation with *count* messages is still the one that is being edited."""
        return (self.conversation_id, self.kept) == (conversation_id, count)
