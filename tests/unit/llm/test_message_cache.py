"""Tests for values that are computed once per message and forgotten with it."""

import gc

from mcphost.llm.message_cache import MessageCache
from mcphost.llm.messages import Message, TextPart


def test_a_value_is_computed_once_for_each_message_object() -> None:
    computed: list[str] = []

    def compute(message: Message) -> int:
        computed.append(message.text)
        return len(message.text)

    cache = MessageCache(compute)
    first, twin = (Message(role="user", parts=(TextPart("word"),)) for _ in range(2))

    assert [cache.get(first), cache.get(first), cache.get(twin)] == [4, 4, 4]
    assert computed == ["word", "word"]


def test_a_message_takes_its_value_with_it() -> None:
    class Value:
        pass

    cache = MessageCache(lambda _: Value())
    message = Message(role="user", parts=(TextPart("short lived"),))
    cache.get(message)
    del message
    gc.collect()

    assert not [one for one in gc.get_objects() if isinstance(one, Value)]
