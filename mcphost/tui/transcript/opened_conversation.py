"""Display of an opened conversation in short steps, so that the event loop is not blocked for long.

The newest messages are shown first, and earlier messages are added above them. Blocks that are not messages, such as
manual tool calls, are placed among the messages according to their time.
"""

import asyncio
import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from mcphost.llm.messages import Message, TextPart
from mcphost.tui.transcript.blocks import TranscriptBlock
from mcphost.tui.transcript.streaming import LINE_COST, StreamingText, TextSplitter
from mcphost.tui.transcript.transcript import Transcript

NEWEST_MESSAGES = 300
"""Number of messages shown immediately; building the blocks of 100,000 would stop the event loop for 0.5 s."""
_PART_MESSAGES = 100
_PART_CHARACTERS = 40_000
"""Number of characters, with LINE_COST for each line, at which a part is long enough and need not have more messages.

Splitting text into blocks takes time."""
SLICE_SECONDS = 0.004
_MAX_INSERTED = 8_000
"""Maximum number of blocks collected before they are inserted; each insertion redraws the screen."""
PAUSE_SECONDS = 0.002
"""Pause after each slice, in which key presses are handled and drawn."""


def find_part(messages: Sequence[Message], end: int, count: int) -> int:
    """Return the index of the first message in the part of the conversation that ends before index *end*.

    A part has about *count* messages, or fewer if they are long. It begins with a user message, or at index 0, so that
    it can be shown independently of other parts.
    """
    start, characters = end, 0
    while start > max(0, end - count) and characters < _PART_CHARACTERS:
        start -= 1
        texts = (part.text for part in messages[start].parts if isinstance(part, TextPart))
        characters += sum(len(text) + LINE_COST * text.count("\n") for text in texts)
    while start and messages[start].role != "user":
        start -= 1
    return start


@contextmanager
def pause_garbage_collection() -> Generator[None]:
    """Pause the garbage collector inside the `with` block; then move all objects to the collector's oldest generation.

    Use this while many objects are created. The collector would otherwise traverse all of them several times, which
    takes over 0.1 s each time for 100,000 messages.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
        if was_enabled:
            gc.enable()


class EarlierMessages:
    """Builder that adds the blocks for a conversation's earlier messages to the transcript in short steps.

    The messages before index *end* are divided into parts, and the newest part is built first. *build* returns the
    blocks for one part. It may leave the end of a long text unsplit in the TextSplitter that is passed to it; this text
    is then split in further steps before the part is shown.
    """

    def __init__(
        self,
        transcript: Transcript,
        messages: Sequence[Message],
        end: int,
        build: Callable[[Sequence[Message], TextSplitter], list[TranscriptBlock]],
    ) -> None:
        self._transcript = transcript
        self._messages = messages
        self._end = end
        self._build = build
        self._waiting: list[list[TranscriptBlock]] = []  # the part that was built last has the earliest messages
        self._waiting_count = 0
        self._part: list[TranscriptBlock] = []  # the part that is being built
        self._texts: list[StreamingText] = []  # its texts that have not been split completely
        self._ended = asyncio.Event()
        self._shown = asyncio.Event()

    def start(self) -> None:
        """Add the earlier messages in the background, beginning after the newest messages are drawn.

        If the user opens another conversation, no further messages are added.
        """
        self._transcript.call_after_refresh(self._shown.set)
        self._transcript.run_worker(self._run, group="earlier messages", exclusive=True)

    async def wait(self) -> None:
        """Wait until all blocks are in the transcript, or until another conversation is opened."""
        await self._ended.wait()

    def cancel(self) -> None:
        """Stop adding blocks; called when another conversation is opened."""
        self._messages, self._end = (), 0
        self._texts.clear()
        self._waiting.clear()
        self._ended.set()

    def finish(self) -> None:
        """Add all remaining blocks immediately, for an action that needs them.

        The event loop is blocked until all blocks have been added.
        """
        while not self._is_built:
            self._build_step()
        self._insert()

    async def _run(self) -> None:
        await self._shown.wait()
        with pause_garbage_collection():
            await self._build_slices()

    async def _build_slices(self) -> None:
        while not self._ended.is_set():
            begun = perf_counter()
            self._build_step()
            while not self._is_built and perf_counter() - begun < SLICE_SECONDS:
                self._build_step()
            if self._is_built or self._waiting_count >= min(len(self._transcript.blocks), _MAX_INSERTED):
                self._insert()
            await asyncio.sleep(PAUSE_SECONDS)

    @property
    def _is_built(self) -> bool:
        return not self._end and not self._texts

    def _build_step(self) -> None:
        """Split more text of the current part or, if all of its text has been split, build the next part."""
        if self._texts:
            self._split_step(self._texts[0])
        elif self._end:
            start, splitter = find_part(self._messages, self._end, _PART_MESSAGES), TextSplitter()
            self._part = self._build(self._messages[start : self._end], splitter)
            self._end, self._texts = start, splitter.unfinished
        if not self._texts:
            self._transcript.estimate_heights(self._part)
            self._waiting.append(self._part)
            self._waiting_count += len(self._part)
            self._part = []

    def _split_step(self, stream: StreamingText) -> None:
        if stream.tail is not None:
            at = self._part.index(stream.tail) + 1
            self._part[at:at] = stream.flush()
        if not stream.has_rest:
            self._texts.pop(0)

    def _insert(self) -> None:
        blocks = [block for part in reversed(self._waiting) for block in part]
        self._waiting.clear()
        self._waiting_count = 0
        if blocks:
            self._transcript.prepend(blocks)
        if self._is_built:
            self._messages = ()
            self._ended.set()


class TimedBlock(NamedTuple):
    """A block that is not a message, and the time at which it was created, as a Unix timestamp in seconds."""

    at: float
    block: TranscriptBlock


class TimedBlocks:
    """Blocks to place in an opened conversation, each after all messages that are older than the block.

    *blocks* contains them in chronological order.
    """

    def __init__(self, blocks: Sequence[TimedBlock]) -> None:
        self._blocks = list(blocks)

    def take(self, part: Sequence[Message], *, is_first: bool) -> list[TimedBlock]:
        """Return the blocks that belong in *part* and have not been returned yet, oldest first.

        Call this for each part of the messages, from the newest to the oldest; *is_first* is true for the part that
        contains the conversation's first message.
        """
        count = next((at for at, one in enumerate(self._blocks) if is_first or part[0].at <= one.at), len(self._blocks))
        taken, self._blocks = self._blocks[count:], self._blocks[:count]
        return taken
