"""Questions about summarizing a long conversation: whether to write a summary, and whether to use it."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Question
from mcphost.llm.messages import Usage
from mcphost.serialization import Struct
from mcphost.store.compactions import MAX_SENTENCE_CHARS, MAX_SENTENCES, SummarySentence


class SummarySource(Struct, frozen=True):
    """A message that a sentence of the summary cites; long text is shortened in the middle."""

    number: int
    role: str
    text: str


class OfferCompaction(Question[bool], frozen=True, kw_only=True):
    """Question that asks whether to summarize the first `messages` messages of the conversation.

    The question is asked when the next request nearly fills the context window. If the answer is True, the user reviews
    the summary before it is used.

    - `tokens`: the estimated size of the request.
    - `tokens_after`: the estimated size of the request with a summary, 0 if unknown.
    - `window`: the size of the model's context window in tokens, 0 if unknown.
    - `model`: the model that would write the summary.
    - `cost`: the estimated cost of writing it in US dollars, None if unknown.
    """

    KIND: ClassVar[str] = kinds.OFFER_COMPACTION
    messages: int
    tokens: int
    window: int
    model: str
    cost: float | None = None
    tokens_after: int = 0

    def refusal(self) -> bool:
        """Return False, the answer that declines to summarize; all messages are then sent."""
        return False


class UseSummary(Struct, frozen=True):
    """Answer that accepts the summary, which then replaces the messages in requests to the model.

    `sentences` is the summary to use; sentences that the user wrote or edited are marked.
    """

    sentences: tuple[SummarySentence, ...]


class KeepMessages(Struct, frozen=True):
    """Answer that rejects the summary, so that all messages are sent."""


CompactionVerdict = UseSummary | KeepMessages


class ReviewCompaction(Question[CompactionVerdict], frozen=True, kw_only=True):
    """Question that asks whether a summary may replace the first `messages` messages in model requests.

    - `numbers`: the numbers under which these messages are stored.
    - `sources`: the messages that the summary cites.
    - `model`: the model that wrote the summary, using `usage` tokens.
    - `instructions`: the user's instructions for the summary, "" for none.
    - `tokens_before`: the estimated size of the messages.
    - `tokens_after`: the estimated size of the summary.
    """

    KIND: ClassVar[str] = kinds.REVIEW_COMPACTION
    sentences: tuple[SummarySentence, ...]
    numbers: tuple[int, ...]
    sources: tuple[SummarySource, ...]
    messages: int
    model: str
    usage: Usage = Usage()
    tokens_before: int = 0
    tokens_after: int = 0
    instructions: str = ""

    def refusal(self) -> CompactionVerdict:
        """Return an answer that rejects the summary."""
        return KeepMessages()


def mark_edited(
    sentences: Sequence[SummarySentence], shown: Collection[SummarySentence]
) -> tuple[SummarySentence, ...]:
    """Return the sentences of the user's answer without line breaks, with edited sentences marked.

    A sentence that is not in *shown*, the summary shown to the user, is marked as written by the user.
    """
    cleaned = (SummarySentence(" ".join(one.text.split()), one.sources, one.by_user) for one in sentences)
    return tuple(one if one in shown else SummarySentence(one.text, one.sources, by_user=True) for one in cleaned)


def summary_error(question: ReviewCompaction, sentences: Sequence[SummarySentence]) -> str:
    """Return an error message if the sentences are not a valid summary, or "" if they are valid.

    The message is one sentence.
    """
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
