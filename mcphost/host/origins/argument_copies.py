"""Search for text in a call's arguments that was copied from other servers or from files.

Texts are compared in folded form, which ignores differences such as case and accents; see `text_folding`.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, Literal, NamedTuple, cast

from mcphost.config.rules import OTHER_SERVERS
from mcphost.host.argument_origins import ArgumentOrigin, ArgumentOrigins, argument_path, member_path, shorten
from mcphost.host.origins.copy_index import CopyBudget
from mcphost.host.origins.encodings import DecodeBudget, decoded_texts, rotate_13
from mcphost.host.origins.outside_texts import SHORTEST_COPY, OutsideTexts
from mcphost.host.origins.text_folding import FoldedText, fold, fold_same_length, removed_spans

MAX_CHARACTERS = 1_000_000
"""Maximum total length of the arguments that are compared; anything beyond it is unchecked."""
MAX_VALUES = 10_000
MAX_SHORT_VALUES = 20_000
"""Maximum number of values in the arguments, including numbers and names too short to be copies by themselves."""
MAX_VISITED = 50_000
"""Maximum number of members of objects and lists that are visited, whatever they contain."""
MAX_COMPARISONS = 1_000_000
MAX_FOLDED = 3_000_000
"""Maximum number of characters that are compared in one call, in all encodings and in joined arguments."""
_MAX_DEPTH = 64
_MAX_PATH = 200
_MIN_NUMBER = 100
"""Smaller numbers are not compared, because lists of small numbers, such as 1, 2, 3, occur everywhere."""
_MAX_SPANS = 100
_MAX_ORIGINS = 100
_MAX_JOINED = 6
_SHORTEST_ADDITION = 8
"""Minimum length of a copy spread over several arguments, not counting copies in single arguments."""
_BORDER = 2 * SHORTEST_COPY
"""Number of characters at each end of a value that are joined with its neighbours; longer copies are found in it."""
_Kind = Literal["text", "name", "number"]
_JOINED_KINDS: tuple[tuple[_Kind, ...], ...] = (
    ("text",), ("name",), ("number",), ("text", "number"), ("name", "text"), ("name", "text", "number"),
)  # fmt: skip


class _Value(NamedTuple):
    """A string, number or member name in the arguments of a call, and the path of the argument that contains it."""

    path: str
    text: str
    kind: _Kind


class _Found(NamedTuple):
    """A copied part of an argument; `copied` is its folded text.

    `first` and `end` are the start and end of the copy in the searched text. `span` is the start and end of the copy in
    the argument itself or, if the copy was encoded, of the whole encoded part.
    """

    paths: str
    encoding: str
    server: str
    source: str
    first: int
    end: int
    span: tuple[int, int]
    copied: str


def find_origins(
    index: OutsideTexts, server: str, arguments: dict[str, Any], *, expected_names: Collection[str] = ()
) -> ArgumentOrigins:
    """Return the parts of the arguments that were copied from sources other than *server*.

    A copy must have at least 16 characters. Encoded values are also searched in decoded form, within limits. To find
    text that was split over several arguments, the joined values and the joined member names are searched, too.
    *expected_names*, the member names in the tool's schema, are not joined. Takes time linear in the size of the
    arguments.
    """
    values, is_whole = _collect(arguments)
    search = _Search(index)
    for value in values:
        search.add_value(value)
    search.add_joined([one for one in values if one.kind != "name" or one.text not in expected_names])
    unchecked = set(index.dropped) - {server}
    if not is_whole or search.is_incomplete:
        unchecked.add(OTHER_SERVERS)
    found, omitted = search.origins(server)
    return ArgumentOrigins(found=found, unchecked=frozenset(unchecked), omitted=omitted)


class ArgumentTexts:
    """The texts in a call's arguments, keyed by path, from which the copied parts are quoted."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._texts: dict[str, str] = {}
        for value in _collect(arguments)[0]:
            self._texts.setdefault(value.path, value.text)

    def copied_parts(self, origin: ArgumentOrigin) -> Iterator[str]:
        """Yield the copied parts of the argument that *origin* names, as they are written in the argument.

        Yields nothing if the argument was edited and is now too short.
        """
        text = self._texts.get(origin.argument, "")
        for start, end in origin.spans:
            if end <= len(text):
                yield text[start:end]


def member_names(arguments: dict[str, Any]) -> set[str]:
    """Return the member names of the arguments and of all objects nested in them."""
    return {value.text for value in _collect(arguments)[0] if value.kind == "name"}


def _collect(arguments: dict[str, Any]) -> tuple[list[_Value], bool]:
    """Return strings, member names and numbers in the arguments, and whether the list is complete."""
    values: list[_Value] = []
    room, texts, visited = MAX_CHARACTERS, 0, 0
    waiting: list[Iterator[tuple[str, Any]]] = [iter([("", arguments)])]
    is_whole = True
    while waiting:
        member = next(waiting[-1], None)
        if member is None:
            waiting.pop()
            continue
        visited += 1
        if visited > MAX_VISITED:
            return values, False
        path, value = member
        if isinstance(value, dict | list):
            if len(waiting) > _MAX_DEPTH:
                is_whole = False
            else:
                waiting.append(_members(path, cast("Any", value)))
            continue
        kind, text = _read_value(value)
        if not text:
            continue
        texts += kind == "text" or len(text) >= SHORTEST_COPY
        if room <= 0 or texts > MAX_VALUES or len(values) >= MAX_SHORT_VALUES:
            return values, False
        is_whole = is_whole and len(text) <= room
        values.append(_Value(path, text[:room], kind))
        room -= len(text)
    return values, is_whole


class _Name(str):
    """The name of a JSON object's member; this type distinguishes it from a string value."""

    __slots__ = ()


def _members(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in cast("dict[str, Any]", value).items():
            inner = member_path(path, name[:_MAX_PATH]) if path else argument_path(name[:_MAX_PATH])
            yield f"name of {inner}"[:_MAX_PATH], _Name(name)
            yield inner[:_MAX_PATH], member
    else:
        items = cast("list[Any]", value)
        beginning = items[:MAX_VISITED]
        if len(items) >= SHORTEST_COPY and all(type(item) is int and 9 <= item < 256 for item in beginning):
            yield path, ",".join(map(str, beginning))
        for number, item in enumerate(items):
            yield f"{path}[{number}]", item


def _read_value(value: Any) -> tuple[_Kind, str]:
    """Return the kind and text of a value; the text is "" for a small number, a boolean or None."""
    if isinstance(value, str):
        return "name" if isinstance(value, _Name) else "text", value
    return "number", str(value) if isinstance(value, int | float) and abs(value) >= _MIN_NUMBER else ""


class _Segment:
    """Folded text of consecutive values that are searched as one text.

    `places` contains the position of each character in the concatenation of all values.
    """

    def __init__(self) -> None:
        self.places: list[int] = []
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def add(self, text: str, places: Sequence[int], start: int) -> None:
        """Append folded text of a value; runs of white space become one space.

        *start* is the position of the value in the concatenation of all values, and *places* are the positions of the
        characters within the value.
        """
        if text.startswith(" ") and self._parts and self._parts[-1].endswith(" "):
            text, places = text[1:], places[1:]
        if text:
            self._parts.append(text)
            self.places += [start + place for place in places]


class _Spans:
    """Ranges of characters in a text, for example those that were copied from one server.

    Overlapping and touching ranges are merged and sorted, so that a search among many ranges is fast.
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self.merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if self.merged and start <= self.merged[-1][1]:
                self.merged[-1] = (self.merged[-1][0], max(end, self.merged[-1][1]))
            else:
                self.merged.append((start, end))

    def count_common(self, first: int, end: int) -> int:
        """Return how many characters from *first* to *end* (exclusive) are in these ranges."""
        count = 0
        for at in range(max(0, bisect_right(self.merged, first, key=itemgetter(0)) - 1), len(self.merged)):
            start, stop = self.merged[at]
            if start >= end:
                break
            count += max(0, min(end, stop) - max(first, start))
        return count

    def contains(self, first: int, end: int) -> bool:
        """Return whether one of these ranges contains all characters from *first* to *end* (exclusive)."""
        at = bisect_right(self.merged, first, key=itemgetter(0)) - 1
        return at >= 0 and end <= self.merged[at][1]


_NO_SPANS = _Spans(())


class _Search:
    """Search for copies in the arguments of one call; it collects the copies found."""

    def __init__(self, index: OutsideTexts) -> None:
        self._index = index
        self._found: list[_Found] = []
        self._budget = CopyBudget(MAX_COMPARISONS)
        self._decoding = DecodeBudget()
        self._folded_left = MAX_FOLDED
        self._folded: dict[_Value, FoldedText] = {}
        self._known_pieces: set[int] = set()
        self._alone: dict[tuple[str, str], _Spans] = {}
        self._is_cut = False

    @property
    def is_incomplete(self) -> bool:
        """Whether a limit was reached, so that copies may be missing."""
        return self._budget.is_used_up or self._decoding.is_used_up or self._is_cut

    def _fold(self, text: str) -> FoldedText:
        folded = FoldedText(text, self._folded_left)
        self._folded_left -= len(folded.text)
        self._is_cut |= folded.is_cut
        return folded

    def add_value(self, value: _Value) -> None:
        """Search one value, including any encoded text that it contains."""
        folded = self._folded[value] = self._fold(value.text)
        if len(value.text) < SHORTEST_COPY:
            return
        self._search_folded(value.path, "", value.text, folded, None)
        for decoded in decoded_texts(value.text, self._decoding):
            region = decoded.start, decoded.end
            self._search_folded(value.path, decoded.encoding, decoded.text, self._fold(decoded.text), region)

    def _search_folded(
        self, path: str, encoding: str, text: str, folded: FoldedText, region: tuple[int, int] | None
    ) -> None:
        """Search a text for copies, including those written backwards or in ROT13.

        *path* is the path of the argument. *text* is the argument's value or was decoded from it; *encoding* is the
        name of the encoding, "" for none, and *region* is the start and end of the encoded part in the argument, None
        for none. *folded* is *text* after folding. Copies that would be shorter than 16 characters after folding are
        found in *text* itself.
        """
        found = self._search(path, encoding, folded.text, folded.places, region, is_letters=False)
        letters = self._search(path, encoding, folded.letters, folded.letter_places, region, is_letters=True)
        found += _without_known(letters, found)
        found += _without_known(list(self._search_windows(path, encoding, text, region)), found)
        if not encoding:
            places = folded.letter_places
            rotation = rotate_13(folded.letters)
            is_same = rotation == folded.letters  # without Latin letters
            rotated = [] if is_same else self._search(path, "ROT13", rotation, places, region, is_letters=True)
            backwards = folded.letters[::-1]
            is_same = backwards == folded.letters
            turned = [] if is_same else self._search(path, "reversed", backwards, places[::-1], region, is_letters=True)
            # Digits stay the same under ROT13, and some texts are the same in both directions.
            found += _without_known(rotated + turned, found)
        self._found += found

    def _search_windows(self, path: str, encoding: str, text: str, region: tuple[int, int] | None) -> Iterator[_Found]:
        """Yield copies that contain characters which folding removes, such as the second of two spaces.

        See `_search_folded` for the parameters.
        """
        for copy in self._index.windows.find(fold_same_length(text), removed_spans(text)):
            server, source = self._index.window_label(copy.text)
            original = text[copy.start : copy.end]
            copied, span = fold(original).strip(" ") or original, region or (copy.start, copy.end)
            yield _Found(path, encoding, server, source, copy.start, copy.end, span, copied)

    def _search(
        self, path: str, encoding: str, text: str, places: Sequence[int], region: tuple[int, int] | None, *,
        is_letters: bool,
    ) -> list[_Found]:  # fmt: skip
        found: list[_Found] = []
        for copy in (self._index.letters if is_letters else self._index.plain).find(text, self._budget):
            server, source = self._index.label(copy.text, is_letters=is_letters)
            # A space at either end is compared, but does not add to the length.
            copied = text[copy.start : copy.end]
            start = copy.start + len(copied) - len(copied.lstrip(" "))
            copied = copied.strip(" ")
            first, last = sorted((places[start], places[start + len(copied) - 1]))
            span = region or (first, last + 1)
            found.append(_Found(path, encoding, server, source, first, last + 1, span, copied))
        return found

    def add_joined(self, values: Sequence[_Value]) -> None:
        """Search for text that is split over several of *values*, in the given or in reverse order.

        Call this after `add_value` has been called for each value. The texts, member names and numbers are each joined
        separately, and also in combinations such as texts with numbers.
        """
        alone: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for found in self._found:
            alone.setdefault((found.paths, found.server), []).append(found.span)
        self._alone = {key: _Spans(spans) for key, spans in alone.items()}
        searched: list[list[_Value]] = []
        for kinds in _JOINED_KINDS:
            chosen = [value for value in values if value.kind in kinds]
            if len(chosen) > 1 and chosen not in searched:
                searched.append(chosen)
                self._search_joined(chosen)
                self._search_joined(chosen[::-1])

    def _search_joined(self, values: Sequence[_Value]) -> None:
        starts = list(accumulate((len(value.text) for value in values), initial=0))
        found = self._search_segments(values, starts, is_letters=False)
        found += _without_known(self._search_segments(values, starts, is_letters=True), found)
        for part in found:
            one, last = bisect_right(starts, part.first) - 1, bisect_right(starts, part.end - 1) - 1
            pieces = [
                (value.path, max(part.first - start, 0), min(part.end - start, len(value.text)))
                for value, start in zip(values[one : last + 1], starts[one : last + 1], strict=True)
                if value.text
            ]
            key = hash((part.server, part.source, tuple(pieces)))
            if key in self._known_pieces:
                continue
            self._known_pieces.add(key)
            if len(pieces) > 1 and self._count_new(part.server, pieces) >= _SHORTEST_ADDITION:
                paths = [path for path, _, _ in pieces]
                joined = " + ".join(paths[:_MAX_JOINED]) + (" + …" if len(paths) > _MAX_JOINED else "")
                self._found.append(part._replace(paths=joined))

    def _search_segments(self, values: Sequence[_Value], starts: Sequence[int], *, is_letters: bool) -> list[_Found]:
        """Search the joined values for copies, and return the copies found.

        If *is_letters* is true, only letters and digits are compared. *starts* contains the position of each value in
        the concatenation of all *values*; the positions in the result refer to this concatenation. Of a long value,
        only the beginning and the end are joined with other values.
        """
        found: list[_Found] = []
        segments: list[_Segment] = [_Segment()]
        for value, start in zip(values, starts, strict=False):
            folded = self._folded[value]
            text, places = (folded.letters, folded.letter_places) if is_letters else (folded.text, folded.places)
            if len(text) <= 2 * _BORDER:
                segments[-1].add(text, places, start)
            else:
                segments[-1].add(text[:_BORDER], places[:_BORDER], start)
                segments.append(_Segment())
                segments[-1].add(text[-_BORDER:], places[-_BORDER:], start)
        for segment in segments:
            found += self._search("", "split", segment.text, segment.places, (0, 0), is_letters=is_letters)
        return found

    def _count_new(self, server: str, pieces: Sequence[tuple[str, int, int]]) -> int:
        """Return how many characters of a split copy were not already found in one argument alone.

        *pieces* are the parts of the copy, as (path, start, end): the path of an argument, and a range of characters in
        its value. *server* is the server from which the text was copied.
        """
        return sum(
            end - first - self._alone.get((path, server), _NO_SPANS).count_common(first, end)
            for path, first, end in pieces
        )

    def origins(self, callee: str) -> tuple[tuple[ArgumentOrigin, ...], int]:
        """Return the copies found, grouped by argument and source, and the number of groups that were left out.

        Copies from *callee*, the server to be called, are ignored. If there are too many groups, some are left out, but
        each server keeps at least one.
        """
        groups: dict[tuple[str, str, str], list[_Found]] = {}
        own: dict[str, list[tuple[int, int]]] = {}
        for found in self._found:
            if found.server == callee:
                own.setdefault(found.paths, []).append((found.first, found.end))
            else:
                groups.setdefault((found.paths, found.server, found.source), []).append(found)
        kept = shorten([group[0] for group in groups.values()], _MAX_ORIGINS)
        own_spans = {path: _Spans(spans) for path, spans in own.items()}
        origins = tuple(
            self._to_origin(groups[first.paths, first.server, first.source], own_spans.get(first.paths, _NO_SPANS))
            for first in kept
        )
        return origins, len(groups) - len(kept)

    def _to_origin(self, group: list[_Found], own: _Spans) -> ArgumentOrigin:
        first = group[0]
        same = [found for found in group if found.encoding == first.encoding]
        copied = "\n".join(dict.fromkeys(found.copied for found in same))
        spans = _Spans(found.span for found in same).merged
        return ArgumentOrigin(
            argument=first.paths,
            server=first.server,
            source=first.source,
            characters=sum(end - start for start, end in _Spans((found.first, found.end) for found in same).merged),
            encoding=first.encoding,
            spans=tuple(span for span in spans[:_MAX_SPANS] if span[1]),
            digest=hashlib.sha256(copied.encode("utf-8", "surrogatepass")).hexdigest(),
            is_typed=all(self._index.is_typed(found.copied) for found in same),
            is_own=any(own.count_common(found.first, found.end) for found in same),
        )


def _without_known(found: list[_Found], known: list[_Found]) -> list[_Found]:
    """Return the copies in *found*, except those inside a copy in *known* from the same server."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for part in known:
        spans.setdefault(part.server, []).append((part.first, part.end))
    covered = {server: _Spans(parts) for server, parts in spans.items()}
    return [part for part in found if not covered.get(part.server, _NO_SPANS).contains(part.first, part.end)]
