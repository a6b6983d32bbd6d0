"""Actions of the chat screen that summarize earlier messages, show the summary, and stop using it."""

from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.host.message_text import describe_message, shorten_middle
from mcphost.translation import _
from mcphost.tui.dialogs.review_compaction import describe_sources
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import Section, TextViewRequested

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcphost.llm.messages import Message
    from mcphost.store.compactions import Compaction
    from mcphost.tui.screens.chat import ChatScreen

_MAX_SOURCE_CHARS = 20_000
_MAX_TOTAL_CHARS = 2_000_000


async def summarize(chat: "ChatScreen", instructions: str = "", restore: "Callable[[], None] | None" = None) -> None:
    """Ask the model to summarize earlier messages, and use the summary if the user agrees.

    The model gets the user's *instructions*. Esc cancels the request. On failure, add a notice to the transcript. If
    the model is still answering, call *restore*, which puts the command back into the composer.
    """
    if chat.host.conversation.is_busy or chat.is_sending:
        chat.notify(_("Still answering. Press Esc to stop, then summarize."), markup=False, timeout=6)
        if restore is not None:
            restore()
        return
    try:
        await chat.host.conversation.compact(instructions)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
    chat.refresh_status()


async def undo_summary(chat: "ChatScreen") -> None:
    """Stop using the summary; later requests contain the summarized messages again.

    On failure, add a notice to the transcript.
    """
    try:
        await chat.host.conversation.undo_compaction()
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)


def show_summary(chat: "ChatScreen") -> None:
    """Open the current summary in the viewer; each sentence is followed by the messages it summarizes."""
    conversation = chat.host.conversation
    if conversation.compaction is None:
        chat.notify(_("No summary is in use. Make one with /compact."), markup=False, timeout=6)
        return
    sections = make_sections(conversation.compaction, conversation.numbers, conversation.messages)
    chat.post_message(TextViewRequested(_("Summary for the model"), "", sections=sections))


def make_sections(
    compaction: "Compaction", numbers: "Sequence[int]", messages: "Sequence[Message]"
) -> tuple[Section, ...]:
    """Return a viewer section for each sentence of a summary, with the messages that it summarizes.

    *numbers* are the numbers of *messages* in the conversation store. Long messages are shortened in the middle.
    Once the total length exceeds 2,000,000 characters, further messages are omitted.
    """
    by_number = dict(zip(numbers, messages, strict=True))
    left = _MAX_TOTAL_CHARS
    sections: list[Section] = []
    for sentence in compaction.sentences:
        texts: list[str] = []
        for number in sentence.sources:
            if number in by_number and left > 0:
                text = shorten_middle(describe_message(by_number[number]), min(left, _MAX_SOURCE_CHARS))
                left -= len(text)
                texts.append(
                    _("message {number}, {role}\n{text}").format(number=number, role=by_number[number].role, text=text)
                )
        heading = f"── {clean_line(sentence.text, 500)} ({clean_line(describe_sources(sentence), 200)})"
        sections.append(Section(heading, "\n\n".join(texts)))
    return tuple(sections)
