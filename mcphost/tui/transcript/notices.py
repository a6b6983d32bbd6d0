"""Transcript notices about summaries, turns that ended without a complete response, and changed resources.

In requests to the model, a summary replaces the messages that it summarizes.
"""

from collections.abc import Callable, Sequence

from mcphost.host.events import ResourceChanged, SummaryProgress, TurnFinished
from mcphost.llm.messages import Message
from mcphost.pluralize import translate_count
from mcphost.protocol.resources import UriIndex
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import clean_line
from mcphost.tui.transcript.blocks import NoticeBlock
from mcphost.tui.transcript.transcript import Transcript

_ENDINGS = {
    "done": N_("A summary of {messages} was written."),
    "failed": N_("Summarizing {messages} failed."),
    "stopped": N_("Summarizing {messages} was stopped; nothing has changed."),
}
_CONTINUE = N_("Press {continue_turn} to continue.")
_UNANSWERED = N_("There is no answer yet. Press {continue_turn} to ask the model again.")
OUTDATED_HINT = N_(
    "The model has an older version. To attach what changed, press Shift+Tab, then {attachments-refresh} on its row."
)
_MAX_NOTICES = 20


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
    """Return a notice that a summary replaces the first *messages* messages in requests to the model.

    If *messages* is 0, the notice states that the summary is no longer used. *sentences* is the number of sentences in
    the summary, and *unknown* the number of those for which it is not known which messages they summarize.
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


def build_ending_notice(
    event: TurnFinished, fill: Callable[[str], str], *, is_incomplete: bool, can_edit: bool
) -> NoticeBlock | None:
    """Return a notice that explains why the turn ended, or None if no explanation is needed.

    A notice is returned if the turn failed, was stopped by the limit on tool rounds or by the budget, or ended with an
    incomplete answer. *fill* replaces names of actions in braces with their keys. *is_incomplete* is true if the last
    answer was cut off, and *can_edit* is true if the conversation ends with a user message.
    """
    if event.outcome == "failed":
        again = _(_CONTINUE) if is_incomplete else _("Press {continue_turn} to retry.")
        if can_edit:
            again = _("Press {continue_turn} to retry, or Up to edit your message.")
        text = translate_sentence(event.error or _("The turn failed."))
        return NoticeBlock("error", text, translate_sentence(f"{event.hint} {fill(again)}".strip()))
    if event.outcome == "rounds":
        return NoticeBlock("warning", _("Stopped at the tool round limit."), _("Write 'go on' to continue."))
    if event.outcome == "budget":
        text = _("Stopped before the next request. {error}").format(error=translate_sentence(event.error))
        return NoticeBlock("warning", text, translate_sentence(event.hint))
    return NoticeBlock("info", fill(_(_CONTINUE))) if is_incomplete else None


def build_unanswered_notice(messages: Sequence[Message], fill: Callable[[str], str]) -> NoticeBlock | None:
    """Return a notice if the last of *messages* is unanswered or is an incomplete answer; otherwise None.

    *fill* replaces names of actions in braces with their keys.
    """
    if messages and messages[-1].role == "assistant" and messages[-1].cut:
        return NoticeBlock("info", fill(_(_CONTINUE)))
    if not messages or messages[-1].role == "assistant" or messages[-1].late_result is not None:
        return None
    return NoticeBlock("info", fill(_(_UNANSWERED)))


class ResourceChangeNotices:
    """Notices about changed resources: one for each resource in each turn, with the number of changes."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._shown: dict[ResourceChanged, tuple[NoticeBlock, int]] = {}

    def start_turn(self) -> None:
        """Begin a new turn; later changes are reported in new notices."""
        self._shown.clear()

    def show(self, event: ResourceChanged, attached: UriIndex) -> None:
        """Add a notice about the change or, if this turn already has one about the resource, count the change in it.

        *attached* contains the URIs of the server's resources that the user has attached. If the changed resource is
        one of them, a new notice includes a hint that the attachment is outdated.
        """
        name = f"{clean_line(event.server, 60)} · {clean_line(event.uri, 300)}"
        if event in self._shown:
            block, times = self._shown[event]
            self._shown[event] = (block, times + 1)
            block.text = _("{name} has changed {times} times.").format(name=name, times=times + 1)
            self._transcript.update_block(block)
        elif len(self._shown) < _MAX_NOTICES:
            hint = fill_keys(self._transcript, _(OUTDATED_HINT)) if attached.find(event.uri) else ""
            block = NoticeBlock("info", _("{name} has changed.").format(name=name), hint)
            self._shown[event] = (block, 1)
            self._transcript.add(block)
