"""Questions about summaries: whether to make one before a conversation is too long, and whether to use it."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from mcphost.host.questions.frontend import Question
from mcphost.llm.messages import Usage
from mcphost.serialization import Struct
from mcphost.store.compactions import MAX_SENTENCE_CHARS, MAX_SENTENCES, SummarySentence


class SummarySource(Struct, frozen=True):
    """A message that a sentence stands for; a long `text` is without its middle."""

    number: int
    role: str
    text: str


class OfferCompaction(Question[bool], frozen=True, kw_only=True):
    """Asks whether to summarize the first `messages` messages, because the next request would hardly fit.

    `tokens` is the estimated size of that request, and `window` the model's; 0 if it is unknown. `model` writes the
    summary, which costs about `cost` US dollars; None if unknown. The summary is shown before it is used.
    """

    KIND: ClassVar[str] = "offer_compaction"
    messages: int
    tokens: int
    window: int
    model: str
    cost: float | None = None

    def refusal(self) -> bool:
        """Return False, which sends all messages."""
        return False


class UseSummary(Struct, frozen=True):
    """Answer that uses these sentences instead of the messages; those that the user wrote are marked as such."""

    sentences: tuple[SummarySentence, ...]


class KeepMessages(Struct, frozen=True):
    """Answer that uses no summary, and sends the messages as before."""


CompactionVerdict = UseSummary | KeepMessages


class ReviewCompaction(Question[CompactionVerdict], frozen=True, kw_only=True):
    """Asks whether a summary may stand for the first `messages` messages in requests to the model.

    `numbers` are those of the messages, and `sources` the ones that sentences lead to. The summary was written by
    `model` with `usage`, and takes `tokens_after` tokens instead of `tokens_before`, both estimated.
    """

    KIND: ClassVar[str] = "review_compaction"
    sentences: tuple[SummarySentence, ...]
    numbers: tuple[int, ...]
    sources: tuple[SummarySource, ...]
    messages: int
    model: str
    usage: Usage = Usage()
    tokens_before: int = 0
    tokens_after: int = 0

    def refusal(self) -> CompactionVerdict:
        """Return an answer that keeps the messages."""
        return KeepMessages()


def mark_edited(
    sentences: Sequence[SummarySentence], shown: Collection[SummarySentence]
) -> tuple[SummarySentence, ...]:
    """Return the sentences of an answer, in one line each; those that were not *shown* are marked as the user's."""
    cleaned = (SummarySentence(" ".join(one.text.split()), one.sources, one.by_user) for one in sentences)
    return tuple(one if one in shown else SummarySentence(one.text, one.sources, by_user=True) for one in cleaned)


def summary_error(question: ReviewCompaction, sentences: Sequence[SummarySentence]) -> str:
    """Return why these sentences cannot be the summary, as a sentence; "" if they can."""
    if not sentences:
        return "The summary has no sentence."
    if len(sentences) > MAX_SENTENCES:
        return f"The summary has more than {MAX_SENTENCES} sentences."
    known = frozenset(question.numbers)
    for sentence in sentences:
        if not 0 < len(sentence.text.strip()) <= MAX_SENTENCE_CHARS:
            return f"A sentence has 1 to {MAX_SENTENCE_CHARS:,} characters."
        if wrong := [number for number in sentence.sources if number not in known]:
            return f"Message {wrong[0]} is not among those that are summarized."
    return ""
