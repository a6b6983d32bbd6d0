"""Cache of values computed from messages; a value is dropped together with its message."""

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from mcphost.llm.messages import Message

T = TypeVar("T")


class MessageCache(Generic[T]):
    """Cache keyed by the identity of messages, because comparing long messages would be too slow."""

    def __init__(self, compute: Callable[[Message], T]) -> None:
        self._compute = compute
        self._values: dict[int, tuple[weakref.ref[Message], T]] = {}

    def get(self, message: Message) -> T:
        """Return the value for a message, computing it on first use."""
        key = id(message)
        found = self._values.get(key)
        if found is not None and found[0]() is message:
            return found[1]
        values = self._values  # without self, so that a message does not keep this cache alive
        value = self._compute(message)
        values[key] = weakref.ref(message, lambda _: values.pop(key, None)), value
        return value
