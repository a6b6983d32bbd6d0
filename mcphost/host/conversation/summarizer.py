"""Summarization by a model: messages are summarized in chunks, and then the summaries are merged."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from mcphost.errors import ModelError
from mcphost.host.active_conversation import Conversation
from mcphost.host.conversation.summary_format import (
    MAX_SUMMARY_CHARS,
    build_summary_prompt,
    encode_message,
    encode_sentence,
    parse_summary,
)
from mcphost.host.spending import OpenSpending
from mcphost.llm import model as llm
from mcphost.llm.messages import Message, TextPart, Usage
from mcphost.llm.token_estimate import estimate_text_tokens
from mcphost.store.compactions import MAX_SENTENCES, Compaction, SummarySentence

UNKNOWN_WINDOW = 32_000
MAX_PIECES = 100
_INPUT_SHARE = 0.5
_SUMMARY_SHARE = 0.1
_MIN_SUMMARY, _MAX_SUMMARY = 150, 4_000
_MIN_PIECE = 300
_MERGE_PASSES = 3
_WORDS_PER_TOKEN = 0.6


class _Piece(NamedTuple):
    """Input of one request to the model: JSON lines, and the message numbers that the answer may cite."""

    text: str
    numbers: frozenset[int]


ProgressCallback = Callable[[int, int], None]
TrackFn = Callable[[int], AbstractAsyncContextManager[OpenSpending]]
"""Returns a context manager that records the cost of a request with this estimated number of input tokens."""


class Summarizer:
    """Summarizer that uses one model; `usage` counts the tokens of all requests, even after a failure."""

    def __init__(self, model: llm.ChatModel, instructions: str, on_progress: ProgressCallback, track: TrackFn) -> None:
        """Create a summarizer that uses *model*; *instructions* are added to its prompt.

        *on_progress* is called before each request with the number of finished and of planned requests. *track* records
        the cost of each request.
        """
        self._model, self._instructions, self._on_progress = model, instructions, on_progress
        self._track = track
        self._window = model.facts.context_window or UNKNOWN_WINDOW
        self._target = int(min(max(self._window * _SUMMARY_SHARE, _MIN_SUMMARY), _MAX_SUMMARY))
        self._done = 0
        self.usage = Usage()

    async def summarize(self, conversation: Conversation, count: int) -> Compaction:
        """Return a summary of the first *count* messages; it is neither stored nor used yet.

        All of these messages must be stored. Sentences that the user wrote in the current summary are kept unchanged.
        Raises ModelError; may be cancelled.
        """
        covered = conversation.covered
        earlier = conversation.compaction.sentences if conversation.compaction is not None else ()
        numbers = conversation.numbers[covered:count]
        new = list(zip(numbers, conversation.messages[covered:count], strict=True))
        budget = max(_MIN_PIECE, int(self._window * _INPUT_SHARE))
        while True:
            try:
                written = await self._summarize_messages(new, budget)
                break
            except ModelError as error:
                if error.model_kind != "context" or budget <= _MIN_PIECE:
                    raise
                budget = max(_MIN_PIECE, budget // 2)
        own = tuple(one for one in earlier if one.by_user)
        written = (*(one for one in earlier if not one.by_user), *written)
        written = await self._merge(written, budget, MAX_SENTENCES - len(own))
        if not written:
            raise ModelError(f"{self._model.name} wrote no summary.", "Try again, or choose another model.")
        return Compaction(
            last=conversation.numbers[count - 1],
            messages=count,
            sentences=(*own, *written),
            model=self._model.name,
            at=time.time(),
            usage=self.usage,
        )

    async def _summarize_messages(
        self, messages: Sequence[tuple[int, Message]], budget: int
    ) -> tuple[SummarySentence, ...]:
        limit = budget // 2
        lines = ((encode_message(number, message, limit), (number,)) for number, message in messages)
        pieces = list(_split(lines, budget))
        if len(pieces) > MAX_PIECES:
            raise ModelError(
                f"A summary would take {len(pieces)} requests to {self._model.name}.",
                "Choose a model with a larger context for it: model under [compaction] in config.toml.",
            )
        return await self._request_all(pieces, self._target // len(pieces))

    async def _merge(
        self, sentences: tuple[SummarySentence, ...], budget: int, most: int
    ) -> tuple[SummarySentence, ...]:
        """Let the model shorten the sentences until they fit, or until it no longer makes them shorter."""
        size = _count_tokens(sentences)
        for _ in range(_MERGE_PASSES):
            if len(sentences) <= most and size <= self._target * 1.5:
                break
            lines = ((encode_sentence(one), one.sources) for one in sentences)
            pieces = list(_split(lines, budget))
            shorter = await self._request_all(pieces, self._target // len(pieces))
            size, previous = _count_tokens(shorter), size
            if not shorter or size >= previous:
                break
            sentences = shorter
        return sentences[:most]

    async def _request_all(self, pieces: Sequence[_Piece], tokens: int) -> tuple[SummarySentence, ...]:
        prompt = build_summary_prompt(self._instructions, max(40, int(tokens * _WORDS_PER_TOKEN)))
        planned, found = self._done + len(pieces), list[SummarySentence]()
        for piece in pieces:
            self._on_progress(self._done, planned)
            found.extend(parse_summary(await self._request(piece.text, prompt), piece.numbers))
            self._done += 1
        return tuple(found)

    async def _request(self, text: str, prompt: str) -> str:
        request = llm.ModelRequest(messages=(Message(role="user", parts=(TextPart(text),)),), system=prompt)
        answer: list[str] = []
        chars, finish = 0, "unknown"
        tokens = estimate_text_tokens(prompt) + estimate_text_tokens(text)
        async with self._track(tokens) as spending, self._model.stream(request) as events:
            async for event in events:
                match event:
                    case llm.TextDelta():
                        answer.append(event.text)
                        spending.received_characters = chars = chars + len(event.text)
                        if chars > MAX_SUMMARY_CHARS:
                            raise ModelError(
                                f"{self._model.name} wrote more than {MAX_SUMMARY_CHARS:,} characters as a summary.",
                                "Choose another model for summaries: model under [compaction] in config.toml.",
                            )
                    case llm.StreamFinished():
                        self.usage += event.usage
                        spending.usage = event.usage
                        finish = event.reason
                    case _:
                        pass
        text = "".join(answer)
        if finish in ("unknown", "content_filter"):
            raise ModelError(f"{self._model.name} did not finish the summary.", "Try again, or choose another model.")
        return text.rpartition("\n")[0] if finish == "length" else text  # the last line may be incomplete


def _split(lines: Iterator[tuple[str, tuple[int, ...]]], budget: int) -> Iterator[_Piece]:
    """Group lines, each with its message numbers, into chunks of at most *budget* estimated tokens.

    A line that is longer than that becomes a chunk of its own.
    """
    texts, numbers, size = list[str](), set[int](), 0
    for text, sources in lines:
        tokens = estimate_text_tokens(text)
        if texts and size + tokens > budget:
            yield _Piece("\n".join(texts), frozenset(numbers))
            texts, numbers, size = list[str](), set[int](), 0
        texts.append(text)
        numbers.update(sources)
        size += tokens
    if texts:
        yield _Piece("\n".join(texts), frozenset(numbers))


def _count_tokens(sentences: Sequence[SummarySentence]) -> int:
    return sum(estimate_text_tokens(one.text) + 6 for one in sentences)
