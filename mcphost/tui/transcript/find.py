"""Search in the transcript's blocks, in short slices so that the event loop is not blocked."""

import asyncio
import re
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from mcphost.tui.transcript.blocks import TranscriptBlock

MAX_MATCHES = 10_000
"""Maximum number of matches that are counted."""
MAX_QUERY = 200
"""Maximum number of characters of a query."""
_SLICE_SECONDS = 0.004
_BLOCKS_PER_CHECK = 32


class FindMatch(NamedTuple):
    """A match of a search in a block.

    `place` is the number of the match among the matches in the block, counting from 0.
    """

    block: TranscriptBlock
    place: int


class FindQuery:
    """Text to search for, ignoring case."""

    def __init__(self, text: str) -> None:
        self.text = text[:MAX_QUERY]
        self.pattern = re.compile(re.escape(self.text), re.IGNORECASE)
        self._lower = self.text.lower()

    def count(self, text: str) -> int:
        """Return the number of times the query occurs in *text*."""
        if self._lower not in text.lower():  # this is much faster than the pattern
            return 0
        return sum(1 for _ in self.pattern.finditer(text))


class FindResult:
    """The matches of a query that have been found so far, in display order."""

    def __init__(self, query: FindQuery) -> None:
        self.query = query
        self.matches: list[FindMatch] = []
        self.is_complete = False

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of matches has been found, so that the search has stopped."""
        return len(self.matches) >= MAX_MATCHES

    def index(self, match: FindMatch | None) -> int:
        """Return the index of *match* in the list of matches, or -1 if *match* is None or not in the list."""
        return self.matches.index(match) if match is not None and match in self.matches else -1

    async def search(self, blocks: Sequence[TranscriptBlock]) -> None:
        """Search all blocks, yielding to other tasks every few milliseconds."""
        begun = perf_counter()
        for number, block in enumerate(blocks):
            self._add(block)
            if self.is_full:
                break
            if number % _BLOCKS_PER_CHECK == 0 and perf_counter() - begun > _SLICE_SECONDS:
                await asyncio.sleep(0)
                begun = perf_counter()
        self.is_complete = True

    def _add(self, block: TranscriptBlock) -> None:
        count = self.query.count(block.search_text())
        self.matches.extend(FindMatch(block, place) for place in range(min(count, MAX_MATCHES - len(self.matches))))
