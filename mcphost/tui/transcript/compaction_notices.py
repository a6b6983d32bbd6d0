"""Notices in the transcript about conversation summaries.

In requests to the model, a summary replaces the messages that it summarizes.
"""

from mcphost.host.events import SummaryProgress
from mcphost.pluralize import translate_count
from mcphost.translation import N_, _
from mcphost.tui.transcript.blocks import NoticeBlock
from mcphost.tui.transcript.transcript import Transcript

_ENDINGS = {
    "done": N_("A summary of {messages} was written."),
    "failed": N_("Summarizing {messages} failed."),
    "stopped": N_("Summarizing {messages} was stopped; nothing has changed."),
}


class SummarizingNotice:
    """Notice shown while a model summarizes messages; its text is replaced by the outcome at the end."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._block: NoticeBlock | None = None

    def show(self, event: SummaryProgress) -> None:
        """Append the notice if it is not shown yet; if the summarization has ended, show its outcome instead."""
        messages = translate_count(event.messages, "message")
        if event.planned and self._block is None:
            self._block = NoticeBlock(
                "info", _("Summarizing {messages}…").format(messages=messages), _("Esc stops it.")
            )
            self._transcript.add(self._block)
        elif not event.planned and self._block is not None:
            self._block.text, self._block.hint = _(_ENDINGS[event.outcome]).format(messages=messages), ""
            self._transcript.update_block(self._block)
            self._block = None


def build_compaction_notice(messages: int, sentences: int, unknown: int) -> NoticeBlock:
    """Return a notice that a summary replaces earlier messages in requests to the model.

    *messages* is the number of messages that are replaced, counted from the beginning of the conversation; if it is
    0, the notice states that the summary is no longer used. *sentences* is the number of sentences in the summary,
    and *unknown* the number of those sentences without a known source.
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
