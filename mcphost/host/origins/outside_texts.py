"""What servers and files said in one conversation, indexed so that copies of it are found in tool calls."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mcphost.host.call_origins import FILES
from mcphost.host.origins.copy_index import CopyIndex
from mcphost.host.origins.encodings import decoded_source_texts
from mcphost.host.origins.text_folding import fold, keep_letters
from mcphost.llm.messages import Message, ResourcePart, TextPart, ToolReturnPart
from mcphost.serialization import Struct

MAX_CHARACTERS = 8_000_000
"""Maximum length of all indexed texts of a conversation; of more, the newest half is kept."""
MAX_TYPED = 2_000_000
SHORTEST_COPY = 16
_GRAM, _STRIDE = 10, 7
_LETTERS_GRAM, _LETTERS_STRIDE = 9, 8


class OutsideText(Struct, frozen=True):
    """A text that came from outside: its server (`FILES` for a file), the tool, resource or prompt, and the text."""

    server: str
    source: str
    text: str


class _Label(NamedTuple):
    server: str
    source: str


class OutsideTexts:
    """The indexed texts from outside, and what the user typed."""

    def __init__(self) -> None:
        self.plain = CopyIndex(_GRAM, _STRIDE)
        self.letters = CopyIndex(_LETTERS_GRAM, _LETTERS_STRIDE)
        self.typed: list[str] = []
        self.dropped: set[str] = set()
        """The servers of which texts were left out."""

        self._plain_labels: list[_Label] = []
        self._letter_labels: list[_Label] = []
        self._known: set[int] = set()
        self._typed_size = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing came from outside."""
        return not self._plain_labels and not self.dropped

    @property
    def size(self) -> int:
        """The length of the indexed texts in characters."""
        return self.plain.size

    def label(self, number: int, *, is_letters: bool) -> tuple[str, str]:
        """Return the server and the source of the text with this number in one of the indexes."""
        return (self._letter_labels if is_letters else self._plain_labels)[number]

    def add(self, outside: OutsideText) -> None:
        """Index a text, and what it contains in escapes or encodings. A text that was added before is left out."""
        key = hash((outside.server, outside.source, outside.text))
        if key in self._known:
            return
        self._known.add(key)
        label = _Label(outside.server, outside.source)
        self._add_folded(label, fold(outside.text))
        for decoded in decoded_source_texts(outside.text):
            self._add_folded(label, fold(decoded))

    def _add_folded(self, label: _Label, folded: str) -> None:
        if len(folded) < self.plain.shortest:
            return
        self.plain.add(folded, label.server)
        self._plain_labels.append(label)
        letters = keep_letters(folded)
        if len(letters) >= self.letters.shortest:
            self.letters.add(letters, label.server)
            self._letter_labels.append(label)

    def add_typed(self, text: str) -> None:
        """Add a text that the user typed."""
        if self._typed_size < MAX_TYPED:
            self.typed.append(fold(text))
            self._typed_size += len(text)

    def is_typed(self, folded: str) -> bool:
        """Return whether the user typed this folded text."""
        return any(folded in text for text in self.typed)


def outside_texts(message: Message) -> Iterator[OutsideText]:
    """Yield the texts of a message that came from outside."""
    for part in message.parts:
        match part:
            case ToolReturnPart() if part.server and part.outcome not in ("declined", "stopped", "background"):
                yield OutsideText(part.server, part.tool or part.name, part.text)
            case ResourcePart():
                yield OutsideText(part.server or FILES, part.source, part.text)
            case _:
                pass


def index_messages(index: OutsideTexts, messages: Iterable[Message], *, limit: int = MAX_CHARACTERS) -> bool:
    """Add the texts of *messages* to the index; return False as soon as it is larger than *limit*."""
    for message in messages:
        for outside in outside_texts(message):
            index.add(outside)
        if message.role == "user":
            for part in message.parts:
                if isinstance(part, TextPart):
                    index.add_typed(part.text)
        if index.size > limit:
            return False
    return True


def index_newest(messages: tuple[Message, ...], *, limit: int = MAX_CHARACTERS // 2) -> OutsideTexts:
    """Index the newest messages, up to *limit* characters; the servers of all older ones are `dropped`."""
    index = OutsideTexts()
    for number in range(len(messages) - 1, -1, -1):
        if not index_messages(index, (messages[number],), limit=limit):
            for message in messages[:number]:
                index.dropped |= {outside.server for outside in outside_texts(message)}
            break
    return index
