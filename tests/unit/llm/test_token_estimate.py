"""Tests for estimating tokens: close to real tokenizers for Latin and Chinese text, and computed once per message."""

import gc
import weakref

import pytest

from mcphost.llm.messages import ImagePart, Message, TextPart, ThinkingPart, ToolReturnPart, ToolUsePart, Usage
from mcphost.llm.model import ModelRequest, ToolSpec
from mcphost.llm.token_estimate import (
    IMAGE_TOKENS,
    MessageCache,
    estimate_message_tokens,
    estimate_request_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
)
from mcphost.serialization import Raw

ENGLISH = "The quick brown fox jumps over the lazy dog, and then it reads the minutes of the meeting. " * 20
CHINESE = "会议记录已经保存在服务器上，请在明天之前阅读并回复。" * 20
RUSSIAN = "Протокол собрания сохранён на сервере, прочитайте его до завтра. " * 20


@pytest.mark.parametrize(
    ("text", "low", "high"), [(ENGLISH, 0.2, 0.3), (CHINESE, 0.6, 1.1), (RUSSIAN, 0.25, 0.6), ("", 0, 0)]
)
def test_a_text_takes_as_many_tokens_a_character_as_its_script_does(text: str, low: float, high: float) -> None:
    assert low * len(text) <= estimate_text_tokens(text) <= high * len(text)


def test_text_with_a_lone_surrogate_is_estimated() -> None:
    assert estimate_text_tokens("a\ud800b") > 0


def test_the_size_of_a_picture_does_not_matter() -> None:
    small, big = (Message(role="user", parts=(ImagePart("image/png", "A" * size),)) for size in (10, 5_000_000))

    assert estimate_message_tokens(small) == estimate_message_tokens(big) >= IMAGE_TOKENS


def test_results_arguments_and_pictures_of_results_count() -> None:
    arguments = {"text": "x" * 4_000}
    call = Message(role="assistant", parts=(ToolUsePart("1", "files__read", arguments),))
    plain = Message(role="tool", parts=(ToolReturnPart("1", "files__read", "y" * 4_000),))
    pictures = (ImagePart("image/png", "A"),) * 2
    with_images = Message(role="tool", parts=(ToolReturnPart("1", "files__read", "y" * 4_000, images=pictures),))

    assert estimate_message_tokens(call) > 1_000
    assert estimate_message_tokens(plain) > 1_000
    assert estimate_message_tokens(with_images) == estimate_message_tokens(plain) + 2 * IMAGE_TOKENS


def test_reasoning_that_is_not_sent_back_takes_nothing() -> None:
    shown, replayed = (
        Message(role="assistant", parts=(ThinkingPart("hm " * 1_000, replay),)) for replay in ("", '{"blocks": []}')
    )

    assert estimate_message_tokens(shown) < 10
    assert estimate_message_tokens(replayed) > 500


def test_all_reasoning_of_an_answer_counts_if_one_part_has_the_data_to_send_back() -> None:
    parts = (ThinkingPart("hm " * 1_000, '{"blocks": []}'), ThinkingPart("hm " * 1_000))

    assert estimate_message_tokens(Message(role="assistant", parts=parts)) > 1_000


def test_a_message_is_estimated_once_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message(role="user", parts=(TextPart("long " * 100_000),))
    first = estimate_message_tokens(message)

    def refuse(_part: object) -> int:
        raise AssertionError("the message was estimated again")

    monkeypatch.setattr("mcphost.llm.token_estimate.estimate_part_tokens", refuse)

    assert estimate_message_tokens(message) == first


def test_an_estimate_does_not_keep_the_message_in_memory() -> None:
    message = Message(role="user", parts=(TextPart("short lived"),))
    estimate_message_tokens(message)
    reference = weakref.ref(message)

    del message
    gc.collect()

    assert reference() is None


def test_a_definition_takes_tokens_for_its_description_and_its_schema() -> None:
    small = ToolSpec("files__read", "Read a file.", Raw(b"{}"))
    long_text = ToolSpec("files__read", "Read a file." * 100, Raw(b"{}"))
    long_schema = ToolSpec("files__read", "Read a file.", Raw(b'{"description": "' + b"x" * 4_000 + b'"}'))

    assert estimate_tool_tokens(small) < 20
    assert estimate_tool_tokens(long_text) > 250
    assert estimate_tool_tokens(long_schema) > 1_000


def test_a_request_is_estimated_from_the_last_count_of_the_provider() -> None:
    question = Message(role="user", parts=(TextPart("word " * 4_000),), at=1)
    answer = Message(role="assistant", parts=(TextPart("ok"),), at=2, usage=Usage(input_tokens=3_900, output_tokens=50))
    result = Message(role="user", parts=(TextPart("word " * 400),), at=3)
    request = ModelRequest(messages=(question, answer, result), system="word " * 400)

    assert estimate_request_tokens(request, since=1.5) == 3_950 + estimate_message_tokens(result)
    assert estimate_request_tokens(request, since=2.5) == 500 + sum(map(estimate_message_tokens, request.messages))


def test_a_count_that_leaves_out_what_was_cached_is_not_used() -> None:
    question = Message(role="user", parts=(TextPart("a few words " * 4_000),), at=1)
    answer = Message(role="assistant", parts=(TextPart("ok"),), at=2, usage=Usage(input_tokens=900, output_tokens=5))
    request = ModelRequest(messages=(question, answer), system="Answer briefly.")

    assert estimate_request_tokens(request, since=0) > 10_000


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
