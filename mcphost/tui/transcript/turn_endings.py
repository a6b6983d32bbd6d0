"""Notices in the transcript about turns that ended without a complete answer."""

from collections.abc import Callable, Sequence

from mcphost.host.events import TurnFinished
from mcphost.llm.messages import Message
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.transcript.blocks import NoticeBlock

_CONTINUE = N_("Press {continue_turn} to continue.")
_UNANSWERED = N_("There is no answer yet. Press {continue_turn} to ask the model again.")


def build_ending_notice(
    event: TurnFinished, fill_keys: Callable[[str], str], *, is_incomplete: bool, can_edit: bool
) -> NoticeBlock | None:
    """Return a notice that explains why the turn ended, or None if no explanation is needed.

    A notice is returned if the turn failed, was stopped by the limit on tool rounds or by the budget, or ended with a
    part of an answer.
    *fill_keys* replaces names of actions in braces with their keys. *is_incomplete* is true if the last answer was
    cut off, and *can_edit* is true if the conversation ends with a user message.
    """
    if event.outcome == "failed":
        again = _(_CONTINUE) if is_incomplete else _("Press {continue_turn} to retry.")
        if can_edit:
            again = _("Press {continue_turn} to retry, or Up to edit your message.")
        text = translate_sentence(event.error or _("The turn failed."))
        return NoticeBlock("error", text, translate_sentence(f"{event.hint} {fill_keys(again)}".strip()))
    if event.outcome == "rounds":
        return NoticeBlock("warning", _("Stopped at the tool round limit."), _("Write 'go on' to continue."))
    if event.outcome == "budget":
        text = _("Stopped before the next request. {error}").format(error=translate_sentence(event.error))
        return NoticeBlock("warning", text, translate_sentence(event.hint))
    return NoticeBlock("info", fill_keys(_(_CONTINUE))) if is_incomplete else None


def build_unanswered_notice(messages: Sequence[Message], fill_keys: Callable[[str], str]) -> NoticeBlock | None:
    """Return a notice if the last of *messages* has no answer yet, or is a part of an answer; otherwise None.

    *fill_keys* replaces names of actions in braces with their keys.
    """
    if messages and messages[-1].role == "assistant" and messages[-1].cut:
        return NoticeBlock("info", fill_keys(_(_CONTINUE)))
    if not messages or messages[-1].role == "assistant" or messages[-1].late_result is not None:
        return None
    return NoticeBlock("info", fill_keys(_(_UNANSWERED)))
