"""Description of a user message that does not fit into the context window of the model."""

from mcphost.host.active_conversation import Conversation
from mcphost.llm.messages import FilePart, ImagePart, Message, Part, ResourcePart
from mcphost.llm.token_estimate import estimate_part_tokens
from mcphost.sanitize import sanitize

SEND_LESS = "Send less of it, or choose a model with a larger context window: /model."
_MAX_NAME = 200


def find_last_user_message(conversation: Conversation) -> int | None:
    """Return the index of the last user message that no summary replaces, or None if there is none."""
    messages = conversation.messages
    places = range(len(messages) - 1, conversation.covered - 1, -1)
    return next((at for at in places if messages[at].role == "user"), None)


def describe_largest_part(message: Message) -> str:
    """Return a sentence that names the largest part of a user message: an attachment, or the text itself."""
    largest = max(message.parts, key=estimate_part_tokens)
    size = estimate_part_tokens(largest)
    if name := _name_attachment(largest):
        return f"The largest part of it is {name}, with about {size:,} tokens."
    return f"The largest part of it is its text, with about {size:,} tokens."


def _name_attachment(part: Part) -> str:
    match part:
        case ResourcePart():
            name = part.source
        case ImagePart() | FilePart():
            name = part.name or part.mime_type
        case _:
            return ""
    return sanitize(name[:_MAX_NAME], keep_newlines=False)
