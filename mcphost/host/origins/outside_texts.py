"""Index of the texts from servers and files in one conversation, to find copies in tool calls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mcphost.config.rules import FILES
from mcphost.host.argument_origins import EARLIER_PREFIX, MediaKind, MediaOrigin
from mcphost.host.origins.copy_index import CopyIndex, WindowIndex
from mcphost.host.origins.encodings import DecodeBudget, decoded_source_texts
from mcphost.host.origins.text_folding import fold, fold_same_length, keep_letters, removed_spans
from mcphost.llm.messages import (
    FilePart,
    FromServer,
    ImagePart,
    Message,
    Part,
    ResourcePart,
    TextPart,
    ToolReturnPart,
    find_target,
)
from mcphost.serialization import Struct, replace

MAX_CHARACTERS = 8_000_000
"""Maximum total length of a conversation's indexed texts; if it is exceeded, only the newest half is kept."""
MAX_TYPED = 2_000_000
SHORTEST_COPY = 16
_NO_TARGETS: Mapping[str, str] = MappingProxyType({})
_NOT_RECEIVED = ("declined", "stopped", "background")
_GRAM, _STRIDE = 10, 7
_LETTERS_GRAM, _LETTERS_STRIDE = 9, 8
_MAX_WINDOWS = 2_000_000
_WINDOW_WEIGHT = 4
"""Number of characters of folded text that take as much memory as one window."""


class OutsideText(Struct, frozen=True):
    """Text from a server, or from a file if `server` is FILES; `source` names the tool or resource it came from.

    `target` is the digest of the program or URL that the server had when it sent the text (see `Message.servers`). It
    is "" if the digest is unknown, or if `server` is a name that `origin_name` returned.
    """

    server: str
    source: str
    text: str
    target: str = ""


class _Label(NamedTuple):
    server: str
    source: str


class OutsideTexts:
    """Index of texts that came from servers and files, with a list of the texts that the user typed."""

    def __init__(self, targets: Mapping[str, str] = _NO_TARGETS) -> None:
        """Create an empty index; *targets* are the current targets of the servers (see `Message.servers`).

        If a server's name now refers to another program or URL than when a text was received, the text counts as text
        from a different server.
        """
        self.targets = targets
        self.plain = CopyIndex(_GRAM, _STRIDE)
        self.letters = CopyIndex(_LETTERS_GRAM, _LETTERS_STRIDE)
        self.windows = WindowIndex(SHORTEST_COPY, _MAX_WINDOWS)
        """Index of the 16-character parts of texts that folding makes shorter, such as parts with runs of spaces."""

        self.typed: list[str] = []
        self.incomplete: set[str] = set()
        """The servers of texts that are not indexed, or whose encoded parts are not all indexed."""

        self.media: set[MediaOrigin] = set()
        """The images, PDF files and audio, which cannot be compared."""

        self.unsent_media: frozenset[MediaKind] = frozenset()
        """The kinds of media that were not sent to the model."""

        self._plain_labels: list[_Label] = []
        self._letter_labels: list[_Label] = []
        self._window_labels: list[_Label] = []
        self._known: set[int] = set()
        self._typed_size = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing from a server or file was added."""
        return not self._window_labels and not self.dropped

    @property
    def dropped(self) -> set[str]:
        """The servers whose texts or media were sent to the model but could not be compared completely."""
        return self.incomplete | {media.server for media in self.sent_media}

    @property
    def sent_media(self) -> list[MediaOrigin]:
        """The images, PDF files and audio that were sent to the model, sorted by server and kind."""
        sent = (media for media in self.media if media.kind not in self.unsent_media)
        return sorted(sent, key=lambda media: (media.server, media.kind))

    @property
    def size(self) -> int:
        """The total length of the indexed texts in characters.

        Each entry of the index `windows` is counted as several characters.
        """
        return self.plain.size + _WINDOW_WEIGHT * self.windows.size

    def label(self, number: int, *, is_letters: bool) -> tuple[str, str]:
        """Return the server and source of the text with this number.

        If *is_letters* is true, *number* refers to the index `letters`, otherwise to the index `plain`.
        """
        return (self._letter_labels if is_letters else self._plain_labels)[number]

    def window_label(self, number: int) -> tuple[str, str]:
        """Return the server and source of the text with this number in the index of windows."""
        return self._window_labels[number]

    def add(self, outside: OutsideText) -> None:
        """Index the text and everything decoded from it, unless it was added before."""
        key = hash((outside.server, outside.source, outside.text))
        if key in self._known:
            return
        self._known.add(key)
        label = _Label(outside.server, outside.source)
        self._add_text(label, outside.text)
        budget = DecodeBudget()
        for decoded in decoded_source_texts(outside.text, budget):
            self._add_text(label, decoded)
        if budget.is_used_up:
            self.incomplete.add(outside.server)

    def _add_text(self, label: _Label, text: str) -> None:
        if len(text) < SHORTEST_COPY:
            return
        self._window_labels.append(label)
        if not self.windows.add(fold_same_length(text), removed_spans(text), label.server):
            self.incomplete.add(label.server)
        folded = fold(text)
        if len(folded) < self.plain.shortest:
            return
        self.plain.add(folded, label.server)
        self._plain_labels.append(label)
        letters = keep_letters(folded)
        if len(letters) >= self.letters.shortest:
            self.letters.add(letters, label.server)
            self._letter_labels.append(label)

    def add_typed(self, text: str) -> None:
        """Add text that the user typed."""
        if self._typed_size < MAX_TYPED:
            self.typed.append(fold(text))
            self._typed_size += len(text)

    def is_typed(self, folded: str) -> bool:
        """Return whether the user typed this text, or a longer one that contains it; *folded* must be folded."""
        return any(folded in text for text in self.typed)


def outside_texts(message: Message, targets: Mapping[str, str] = _NO_TARGETS) -> Iterator[OutsideText]:
    """Yield the texts in a message that came from servers or files; see `OutsideTexts` for *targets*."""
    for part in message.parts:
        match part:
            case ToolReturnPart() if part.server and part.outcome not in _NOT_RECEIVED:
                yield OutsideText(_origin(part, message, targets), part.tool or part.name, part.text)
            case ResourcePart():
                yield OutsideText(_origin(part, message, targets), part.source, part.whole or part.text)
            case TextPart() if message.prompt is not None:
                server = _origin(message.prompt, message, targets)
                yield OutsideText(server, f"prompt {message.prompt.name}", part.text)
            case TextPart():
                for copied in part.copies:
                    server = _origin(copied, message, targets)
                    for start, end in copied.spans:
                        yield OutsideText(server, copied.source, part.text[start:end])
            case _:
                pass


def _origin(part: FromServer, message: Message, targets: Mapping[str, str]) -> str:
    """Return the name of the origin of a message part; a part whose `server` is "" is a local file."""
    server = part.server
    return origin_name(server, find_target(part, message), targets) if server else FILES


def origin_name(server: str, target: str, targets: Mapping[str, str]) -> str:
    """Return the name of the origin of a text that *server* sent.

    *target* is the server's target when it sent the text, "" if unknown. If *target* differs from the server's current
    target in *targets*, the name begins with EARLIER_PREFIX.
    """
    is_earlier = bool(target) and targets.get(server, target) != target
    return f"{EARLIER_PREFIX}{server}" if is_earlier else server


def name_earlier_servers(message: Message, targets: Mapping[str, str]) -> Message:
    """Return *message* as it must be stored when the user sends it again.

    The new copy of the message is stored with the current targets of the servers. If a server's name now refers to
    another program or URL, the server is renamed in the result (see `origin_name`), so that its old text does not count
    as text from the current server.
    """

    def rename(part: Part) -> Part:
        if isinstance(part, TextPart):
            copies = tuple(replace(one, server=_origin(one, message, targets), target="") for one in part.copies)
            return replace(part, copies=copies) if part.copies else part
        if isinstance(part, ResourcePart | ImagePart | FilePart) and part.server:
            return replace(part, server=_origin(part, message, targets), target="")
        return part

    prompt = message.prompt
    if prompt is not None:
        prompt = replace(prompt, server=_origin(prompt, message, targets))
    return replace(message, parts=tuple(map(rename, message.parts)), prompt=prompt)


def _unknown_copies(message: Message, targets: Mapping[str, str]) -> Iterator[str]:
    """Yield the servers from which the user's text may have been copied, because it was not compared completely."""
    for part in message.parts:
        if isinstance(part, TextPart):
            yield from (_origin(copied, message, targets) for copied in part.copies if not copied.spans)


def media_origins(message: Message, targets: Mapping[str, str] = _NO_TARGETS) -> Iterator[MediaOrigin]:
    """Yield the origin and kind of each media part from a server or file in a message.

    See `OutsideTexts` for *targets*.
    """
    for part in message.parts:
        match part:
            case ToolReturnPart() if part.images and part.server and part.outcome not in _NOT_RECEIVED:
                yield MediaOrigin(_origin(part, message, targets), "image")
            case ImagePart():
                yield MediaOrigin(_origin(part, message, targets), "image")
            case FilePart():
                kind: MediaKind = "pdf" if part.mime_type == "application/pdf" else "audio"
                yield MediaOrigin(_origin(part, message, targets), kind)
            case _:
                pass


def _add_uncompared(index: OutsideTexts, message: Message) -> None:
    """Record the servers whose content in a message, such as an image, cannot be compared."""
    index.media.update(media_origins(message, index.targets))
    index.incomplete.update(_unknown_copies(message, index.targets))


def index_messages(index: OutsideTexts, messages: Iterable[Message], *, limit: int = MAX_CHARACTERS) -> bool:
    """Add the texts and media of *messages* to the index, including the texts that the user typed.

    When the index exceeds *limit* characters, stop and return False; otherwise, return True.
    """
    for message in messages:
        for outside in outside_texts(message, index.targets):
            index.add(outside)
        _add_uncompared(index, message)
        if message.is_typed:
            for part in message.parts:
                if isinstance(part, TextPart):
                    index.add_typed(part.text)
        if index.size > limit:
            return False
    return True


def index_newest(
    messages: Sequence[Message], *, limit: int = MAX_CHARACTERS // 2, targets: Mapping[str, str] = _NO_TARGETS
) -> OutsideTexts:
    """Index messages, newest first, until the index exceeds *limit* characters.

    The index's `incomplete` then names the servers whose texts are in older messages. See `OutsideTexts` for *targets*.
    """
    index = OutsideTexts(targets)
    for number in range(len(messages) - 1, -1, -1):
        if not index_messages(index, (messages[number],), limit=limit):
            for message in messages[:number]:
                index.incomplete |= {outside.server for outside in outside_texts(message, targets)}
                _add_uncompared(index, message)
            break
    return index
