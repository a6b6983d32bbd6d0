"""Indexes of texts, used to find the parts of another text that were copied from the indexed texts."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_FIRST_SIZE = 1 << 10
_MAX_STEP = 1 << 20
_HASH_MASK = (1 << 64) - 1
_MAX_LOAD = 0.6
_MAX_UNKNOWN = 10_000


class Copy(NamedTuple):
    """A part of the searched text that was copied from an indexed text.

    `start` and `end` are positions in the searched text; `text` is the number of the indexed text.
    """

    start: int
    end: int
    text: int


class CopyBudget:
    """Limit on the number of comparisons in one search, so that repetitive text cannot make the search slow."""

    def __init__(self, comparisons: int) -> None:
        self.comparisons = comparisons

    @property
    def is_used_up(self) -> bool:
        """Whether the limit ended the search early, so that copies may be missing."""
        return self.comparisons < 0


class CopyIndex:
    """Index of n-grams taken at regular intervals (the stride) from each text.

    A copy of at least `gram + stride - 1` characters contains an indexed n-gram, wherever in the text the copy begins.
    The index takes 8 bytes for each `stride` characters of text.
    """

    def __init__(self, gram: int, stride: int) -> None:
        self._gram = gram
        self._stride = stride
        self.shortest = gram + stride - 1
        """Length in characters of the shortest copy that is found."""
        self._texts: list[str] = []
        self._groups: list[str] = []
        self._starts: list[int] = [0]
        # Entry 0 is unused; 0 marks the end of a chain of entries with the same hash.
        self._places, self._next = array("I", [0]), array("I", [0])
        self._heads = array("I", bytes(4 * _FIRST_SIZE))

    @property
    def size(self) -> int:
        """The total length of the indexed texts in characters."""
        return self._starts[-1]

    def add(self, text: str, group: str) -> int:
        """Add *text* to the index and return its number.

        If a part was copied from several texts of the same *group*, `find` yields the part only once.
        """
        number, start = len(self._texts), self._starts[-1]
        self._texts.append(text)
        self._groups.append(group)
        self._starts.append(start + len(text))
        gram, places, after = self._gram, self._places, self._next
        first = len(places)
        places.extend(range(start, start + len(text) - gram + 1, self._stride))
        after.frombytes(bytes(after.itemsize * (len(places) - first)))
        if len(places) > len(self._heads):
            self._rebuild()
            return number
        heads, mask = self._heads, len(self._heads) - 1
        for entry, place in enumerate(range(0, len(text) - gram + 1, self._stride), first):
            bucket = hash(text[place : place + gram]) & mask
            after[entry] = heads[bucket]
            heads[bucket] = entry
        return number

    def _rebuild(self) -> None:
        size = len(self._heads)
        while size < len(self._places):
            size *= 2
        heads, after, mask, gram = array("I", bytes(4 * size)), self._next, size - 1, self._gram
        entry = 1
        for text in self._texts:
            for place in range(0, len(text) - gram + 1, self._stride):
                bucket = hash(text[place : place + gram]) & mask
                after[entry] = heads[bucket]
                heads[bucket] = entry
                entry += 1
        self._heads = heads

    def find(self, text: str, budget: CopyBudget) -> Iterator[Copy]:
        """Yield the parts of *text* that were copied from indexed texts, until *budget* is used up.

        Each indexed text belongs to a group. For each group, copies are yielded in the order of their positions in
        *text*, and they do not overlap.
        """
        if not self._texts:
            return
        size, heads, mask = self._gram, self._heads, len(self._heads) - 1
        covered: dict[str, int] = {}
        unknown: set[str] = set()  # n-grams that are not indexed; repetitive text has few different ones
        for place in range(len(text) - size + 1):
            gram = text[place : place + size]
            entry = heads[hash(gram) & mask]
            if not entry or gram in unknown:
                continue
            if budget.is_used_up:
                return
            best: dict[str, Copy] = {}
            is_known = False
            while entry and not budget.is_used_up:
                budget.comparisons -= 1
                number = bisect_right(self._starts, self._places[entry]) - 1
                at = self._places[entry] - self._starts[number]
                if self._texts[number].startswith(gram, at):
                    is_known = True
                    copied = self._extend(number, at, text, place, covered)
                    group = self._groups[number]
                    if copied is not None and (group not in best or copied.end > best[group].end):
                        best[group] = copied
                entry = self._next[entry]
            if not is_known and len(unknown) < _MAX_UNKNOWN:
                unknown.add(gram)
            for group, copied in best.items():
                covered[group] = copied.end
                yield copied

    def _extend(self, number: int, at: int, text: str, place: int, covered: dict[str, int]) -> Copy | None:
        """Return the copy that contains the n-gram at *place* in *text*, or None if there is none.

        The n-gram is also at position *at* of the indexed text with this *number*. The copy is extended to the right
        until the texts differ, and to the left by at most the stride. *covered* maps each group to the end of its last
        copy, before which the new copy must not begin. Returns None if the copy would be too short, or if the n-gram is
        part of the last copy.
        """
        source, size = self._texts[number], self._gram
        done = covered.get(self._groups[number], 0)
        if place + size <= done:
            return None
        end = place + size + _common_length(source, at + size, text, place + size)
        start = place
        # The copy has no n-gram further to the left, so at most `stride` characters are missing there.
        while start > 0 and at > 0 and place - start < self._stride and source[at - 1] == text[start - 1]:
            start, at = start - 1, at - 1
        if end - start < self.shortest:
            return None
        return Copy(max(start, done), end, number)


def _common_length(one: str, one_at: int, other: str, other_at: int) -> int:
    """Return the length of the common prefix of `one[one_at:]` and `other[other_at:]`."""
    length, step, is_growing = 0, 16, True
    while step:
        at, other_place = one_at + length, other_at + length
        part = one[at : at + step]
        if len(part) == step and part == other[other_place : other_place + step]:
            length += step
        else:
            is_growing = False
        step = min(2 * step, _MAX_STEP) if is_growing else step // 2
    return length


class WindowIndex:
    """Index of all windows (substrings of a fixed length) in selected parts of texts.

    Each text belongs to a group. Equal windows in a group are stored only once, so that repetitive text, such as a run
    of spaces, neither fills the index nor slows down a search. The index is a hash table that takes at least 12 bytes
    for each window: a 64-bit hash and the number of the window's text.
    """

    def __init__(self, length: int, limit: int) -> None:
        self._length = length
        self._limit = limit
        self._groups: list[str] = []
        self._size = 0
        # A hash of 0 marks an unused slot.
        self._hashes, self._numbers = array("Q", bytes(8 * _FIRST_SIZE)), array("I", bytes(4 * _FIRST_SIZE))

    @property
    def size(self) -> int:
        """The number of stored windows."""
        return self._size

    def add(self, text: str, spans: Iterable[tuple[int, int]], group: str) -> bool:
        """Add the windows of *text* that overlap one of *spans*; return False if the index became full.

        The index is full when it contains the maximum number of windows; the remaining windows of *text* are then not
        added. Texts are numbered from 0 in the order in which they are added. A window that occurs in several texts of
        the same *group* is recorded only for the first of these texts.
        """
        number, groups = len(self._groups), self._groups
        groups.append(group)
        for _first, _last, hashed in self._windows(text, spans):
            if self._size >= self._limit:
                return False
            if self._size >= _MAX_LOAD * len(self._hashes):
                self._grow()
            hashes, numbers, mask = self._hashes, self._numbers, len(self._hashes) - 1
            slot = hashed & mask
            while (stored := hashes[slot]) and not (stored == hashed and groups[numbers[slot]] == group):
                slot = (slot + 1) & mask
            if not stored:
                hashes[slot], numbers[slot] = hashed, number
                self._size += 1
        return True

    def find(self, text: str, spans: Iterable[tuple[int, int]]) -> Iterator[Copy]:
        """Yield the parts of *text* that overlap one of *spans* and were copied from indexed texts.

        Each indexed text belongs to a group. For each group, copies are yielded in the order of their positions in
        *text*, and there is at least one character between two of them.
        """
        length, groups, hashes, numbers = self._length, self._groups, self._hashes, self._numbers
        mask = len(hashes) - 1
        latest: dict[str, list[int]] = {}  # the members of a Copy, which can be changed
        if not self._size:
            return
        for first, last, hashed in self._windows(text, spans):
            slot = hashed & mask
            while stored := hashes[slot]:
                if stored == hashed:
                    group = groups[numbers[slot]]
                    known = latest.get(group)
                    if known is not None and first <= known[1]:
                        known[1] = last + length
                    else:
                        if known is not None:
                            yield Copy(*known)
                        latest[group] = [first, last + length, numbers[slot]]
                slot = (slot + 1) & mask
        yield from (Copy(*known) for known in latest.values())

    def _windows(self, text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """Yield a (first start, last start, hash) tuple for each window that overlaps one of the sorted *spans*.

        The two starts are the same, except where one character, such as a space, is repeated: all windows there are
        equal, so that one tuple stands for all of them except the first.
        """
        length, done = self._length, 0
        for start, end in spans:
            first, stop, before = max(done, start - length + 1), min(end, len(text) - length + 1), 0
            while first < stop:
                for at in range(first, stop):
                    hashed = hash(text[at : at + length]) & _HASH_MASK or 1
                    if hashed == before:
                        last = at + 1 + _common_length(text, at, text, at + 1) - length
                        first = min(max(at, last), stop - 1) + 1
                        yield at, first - 1, hashed
                        break
                    yield at, at, hashed
                    before = hashed
                else:
                    break
            done = max(done, stop)

    def _grow(self) -> None:
        size = 2 * len(self._hashes)
        hashes, numbers, mask = array("Q", bytes(8 * size)), array("I", bytes(4 * size)), size - 1
        for hashed, number in zip(self._hashes, self._numbers, strict=True):
            if hashed:
                slot = hashed & mask
                while hashes[slot]:
                    slot = (slot + 1) & mask
                hashes[slot], numbers[slot] = hashed, number
        self._hashes, self._numbers = hashes, numbers
