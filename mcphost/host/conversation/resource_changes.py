"""Detection of attached resources that changed after they were read, and creation of updates for the model."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from mcphost.bounded_diff import compare_lines, group_opcodes
from mcphost.host.message_text import clean_text
from mcphost.llm.messages import FilePart, ImagePart, Message, Part, ResourcePart, resource_key
from mcphost.protocol.resources import UriIndex
from mcphost.serialization import replace

MAX_TRACKED = 1_000
"""Maximum number of changes, and of read times, that are remembered."""
MAX_SEARCHED = 2_000
"""Maximum number of messages that are searched for attached resources, newest first."""
MAX_COMPARED_CHARACTERS = 1_000_000
_CONTEXT_LINES = 3


class SentResource(NamedTuple):
    """The last version of a resource sent to the model, with the time and index of its message."""

    part: ResourcePart | ImagePart | FilePart
    at: float
    position: int


class ResourceVersions:
    """Times at which resources changed, as reported by servers, and times at which they were read."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._changed: dict[tuple[str, str], float] = {}
        self._read: dict[tuple[tuple[str, str], int], float] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no server has reported a change."""
        return not self._changed

    def note_change(self, server: str, uri: str) -> None:
        """Remember that a server reported a change of the resource with this URI."""
        _remember(self._changed, (server, uri), self._clock())

    def note_read(self, part: Part) -> None:
        """Record that the resource version in *part* was read now.

        This method is also called when the user dismisses the notice of a change, so that the version in *part* no
        longer counts as outdated.
        """
        if (key := resource_key(part)) is not None:
            _remember(self._read, (key, hash(part)), self._clock())

    def find_changed(self, parts: Iterable[tuple[Part, float]]) -> list[bool]:
        """Return, for each part, whether its resource changed after it was read.

        Each part is paired with the time at which it was sent, in seconds since 1970. If the time of reading is
        unknown, the time of sending is used instead.
        """
        parts = list(parts)
        keys = [resource_key(part) for part, _ in parts]
        changed = self._find_times(key for key in keys if key is not None)
        return [
            key in changed and changed[key] > self._read.get((key, hash(part)), sent_at)
            for key, (part, sent_at) in zip(keys, parts, strict=True)
        ]

    def _find_times(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Return when each of these resources last changed, if known; keys are server name and URI.

        The URIs are indexed first, so that each reported change need not be compared with every resource.
        """
        found: dict[tuple[str, str], float] = {}
        if self.is_empty:
            return found
        uris: dict[str, UriIndex] = {}
        for server, uri in keys:
            uris.setdefault(server, UriIndex()).add(uri)
        for (server, changed), at in self._changed.items():  # oldest first
            if server in uris:
                found.update({(server, uri): at for uri in uris[server].find(changed)})
        return found

    def is_changed(self, part: Part, sent_at: float = 0.0) -> bool:
        """Return whether a part's resource changed after it was read, or after *sent_at* if that time is unknown."""
        return self.find_changed([(part, sent_at)])[0]

    def find_outdated(self, messages: Sequence[Message]) -> tuple[SentResource, ...]:
        """Return the resources that changed after they were sent to the model, in the order of their messages."""
        sent = () if self.is_empty else tuple(find_sent(messages).values())
        changed = self.find_changed((one.part, one.at) for one in sent)
        return tuple(compress(sent, changed))


def find_sent(messages: Sequence[Message]) -> dict[tuple[str, str], SentResource]:
    """Return the last sent version of each resource, keyed by server and URI.

    Only the newest MAX_SEARCHED messages are searched.
    """
    found: dict[tuple[str, str], SentResource] = {}
    first = max(0, len(messages) - MAX_SEARCHED)
    for position, message in enumerate(messages[first:], first):
        for part in message.parts:
            if isinstance(part, ResourcePart | ImagePart | FilePart) and (key := resource_key(part)) is not None:
                found.pop(key, None)
                found[key] = SentResource(part, message.at, position)
    return found


def _remember(times: dict[Any, float], key: Any, at: float) -> None:
    times.pop(key, None)
    times[key] = at
    if len(times) > MAX_TRACKED:
        del times[next(iter(times))]


def make_update(sent: SentResource, newer: Part, covered: int) -> Part:
    """Return an update for the model: a diff from the last version sent, or the newer version in full.

    The newer version is returned in full if it is shorter than the diff. *covered* is the number of messages that a
    summary replaces. If one of these messages contains the last version sent, the model no longer receives that
    version, so the newer version is returned in full. May take a tenth of a second, so call it in a worker thread.
    """
    known = sent.part
    if not (isinstance(known, ResourcePart) and isinstance(newer, ResourcePart)):
        return newer
    if sent.position < covered or (covered and known.whole):
        return newer
    text = clean_text(newer.text)  # as the known version was sent
    difference = unified_diff(known.whole or known.text, text)
    if not difference or len(difference) >= len(text):
        return newer
    return replace(newer, text=difference, whole=text)


def unified_diff(before: str, after: str) -> str:
    """Return a unified diff without file names, or "" if the texts are equal or comparing them takes too long."""
    if before == after or max(len(before), len(after)) > MAX_COMPARED_CHARACTERS:
        return ""
    old, new = before.split("\n"), after.split("\n")
    compared = compare_lines(old, new)
    if not compared.is_exact:
        return ""
    rows: list[str] = []
    for group in group_opcodes(compared.opcodes, _CONTEXT_LINES):
        first, last = group[0], group[-1]
        rows.append(f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@")
        for kind, a, b, c, d in group:
            if kind == "equal":
                rows += [f" {line}" for line in new[c:d]]
            else:
                rows += [*(f"-{line}" for line in old[a:b]), *(f"+{line}" for line in new[c:d])]
    return "\n".join(rows)
