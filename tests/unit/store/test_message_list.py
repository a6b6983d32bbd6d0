"""Tests for the messages of a conversation in memory: each is decoded when first read, and shared by snapshots."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mcphost.llm.messages import Message, TextPart
from mcphost.serialization import encode
from mcphost.store import message_list
from mcphost.store.message_list import DAMAGED_TEXT, MessageList


def say(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text),))


def stored(*texts: str) -> MessageList:
    return MessageList([encode(say(text)) for text in texts])


def texts(messages: MessageList) -> list[str]:
    return [message.text for message in messages]


def test_only_the_messages_that_are_read_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    decode = message_list.decode_message

    def count(body: bytes) -> Message | None:
        decoded.append(body)
        return decode(body)

    monkeypatch.setattr(message_list, "decode_message", count)
    messages = stored("a", "b", "c", "d")
    assert len(messages) == 4
    assert decoded == []
    assert messages[-1].text == "d"
    assert [message.text for message in messages[-2:]] == ["c", "d"]
    assert len(decoded) == 2
    assert texts(messages.snapshot()) == texts(messages) == ["a", "b", "c", "d"]
    assert len(decoded) == 4


def test_a_message_is_the_same_object_in_each_snapshot_and_thread() -> None:
    messages = stored(*map(str, range(2_000)))
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda number: list(messages.snapshot() if number % 2 else messages), range(8)))
    assert all(one is other for read in seen[1:] for one, other in zip(seen[0], read, strict=True))


def test_a_snapshot_does_not_change_with_the_list() -> None:
    messages = stored("a", "b", "c")
    before = messages.snapshot()
    messages.append(say("d"))
    longer = messages.snapshot()
    messages.truncate(1)
    messages.append(say("other"))
    assert texts(messages) == ["a", "other"]
    assert texts(before) == ["a", "b", "c"]
    assert texts(longer) == ["a", "b", "c", "d"]


def test_it_equals_a_tuple_of_the_same_messages() -> None:
    assert stored("a", "b") == (say("a"), say("b"))
    assert stored("a") != (say("b"),)
    assert stored("a") != (say("a"), say("a"))


def test_an_index_outside_raises_as_that_of_a_list() -> None:
    messages = stored("a", "b")
    messages.truncate(1)
    with pytest.raises(IndexError):
        messages[1]
    with pytest.raises(IndexError):
        messages[-2]
    assert messages[5:] == ()


@pytest.mark.parametrize(("body", "role"), [(b'{"role":"user","par', "user"), (b"\xff\x00", "assistant")])
def test_a_damaged_message_says_so_and_hides_no_other(body: bytes, role: str) -> None:
    messages = MessageList([encode(say("before")), body, encode(say("after"))])
    assert texts(messages) == ["before", DAMAGED_TEXT, "after"]
    assert messages[1].role == role
