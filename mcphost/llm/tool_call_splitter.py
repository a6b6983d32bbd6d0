"""Separation of the tool calls in a streamed answer if several of them have the same index.

In the Chat Completions format, all pieces of a call have the call's index. However, some servers send several complete
calls, all with index 0. If an Ollama server sends its calls one at a time, litellm gives index 0 to all these calls,
and an id only to calls that have arguments. This module runs in the worker process.
"""

from collections.abc import Iterable, Iterator

from mcphost.llm.worker_protocol import WorkerEvent, WorkerToolCallDelta
from mcphost.serialization import loads_or_none, replace

_MAX_CHECKS = 16
"""Maximum number of times that the arguments of one call are parsed; each time parses all of them."""
_MAX_CHECKED_LENGTH = 64 * 1024
"""Maximum characters of arguments that are parsed; longer ones are treated as incomplete."""


class ToolCallSplitter:
    """Converter that gives each tool call of one answer its own index, in the order in which the calls begin."""

    def __init__(self) -> None:
        self._calls: dict[int, _CurrentCall] = {}
        """The newest call of each index that the server uses."""

        self._calls_by_id: dict[tuple[int, str], _CurrentCall] = {}
        """The calls that have an id, by index and id."""

        self._count = 0

    def split(self, events: Iterable[WorkerEvent]) -> Iterator[WorkerEvent]:
        """Yield the events, with new indexes in the pieces of tool calls."""
        for event in events:
            yield self._split_piece(event) if isinstance(event, WorkerToolCallDelta) else event

    def _split_piece(self, piece: WorkerToolCallDelta) -> WorkerToolCallDelta:
        call = self._calls_by_id.get((piece.index, piece.tool_call_id)) or self._calls.get(piece.index)
        if call is None or call.is_followed_by(piece):
            call = _CurrentCall(self._count)
            self._count += 1
        self._calls[piece.index] = call
        call.add(piece)
        if call.id and piece.tool_call_id == call.id:
            self._calls_by_id.setdefault((piece.index, call.id), call)
        return piece if piece.index == call.index else replace(piece, index=call.index)


class _CurrentCall:
    """A tool call that is being received."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = self._name = ""
        self._pieces: list[str] = []
        self._length = self._checks = 0

    def add(self, piece: WorkerToolCallDelta) -> None:
        self.id = self.id or piece.tool_call_id
        self._name = self._name or piece.name
        self._length += len(piece.text)
        if piece.text.strip() and self._length <= _MAX_CHECKED_LENGTH:
            self._pieces.append(piece.text)

    def is_followed_by(self, piece: WorkerToolCallDelta) -> bool:
        """Return whether *piece*, which has the same index as this call, begins another call."""
        if not (self._name and piece.name):
            return False
        if self.id and piece.tool_call_id:
            return self.id != piece.tool_call_id or (piece.name != self._name and self._is_complete())
        if piece.name == self._name:  # some servers repeat the name with each piece
            return bool(piece.text.strip()) and self._is_complete()
        return not self._pieces or self._is_complete()

    def _is_complete(self) -> bool:
        self._checks += 1
        # Limited, because a server could make each piece look like the end of the arguments.
        if self._checks > _MAX_CHECKS or self._length > _MAX_CHECKED_LENGTH:
            return False
        return isinstance(loads_or_none("".join(self._pieces)), dict)
