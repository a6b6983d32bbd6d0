"""Notice in the transcript that a summary replaces earlier messages in requests to the model."""

from collections.abc import Sequence
from typing import NamedTuple

from mcphost.llm.messages import Message
from mcphost.pluralize import translate_count
from mcphost.translation import _
from mcphost.tui.transcript.blocks import NoticeBlock


class TimedNotice(NamedTuple):
    """A notice and when it was given, in seconds since 1970."""

    at: float
    block: NoticeBlock


class NoticePlace:
    """Place of a notice in an opened conversation: after the messages that are older than the notice."""

    def __init__(self, notice: TimedNotice | None) -> None:
        self._notice = notice

    def take(self, part: Sequence[Message], *, is_first: bool) -> TimedNotice | None:
        """Return the notice if it belongs in this part of the messages, but only once.

        Parts are given from the newest to the oldest; *is_first* says that no other part comes before this one.
        """
        notice = self._notice
        if notice is None or not (is_first or part[0].at <= notice.at):
            return None
        self._notice = None
        return notice


def build_compaction_notice(messages: int, sentences: int, unknown: int) -> NoticeBlock:
    """Return the notice that a summary of *sentences* sentences replaces the first *messages* messages.

    *unknown* counts the sentences of unknown source; 0 messages means that the summary was removed.
    """
    if not messages:
        return NoticeBlock("info", _("The model gets the messages themselves again."))
    more = _(", {unknown} of unknown source").format(unknown=unknown) if unknown else ""
    return NoticeBlock(
        "info",
        _("The model gets messages 1 to {messages} as {sentences}{unknown}.").format(
            messages=messages, sentences=translate_count(sentences, "sentence"), unknown=more
        ),
        _("/summary shows them with the messages; /undo-summary removes it."),
    )
