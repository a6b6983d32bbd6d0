"""What open questions may hold: per server and in all, counted before anything is built."""

import pytest

from mcphost.errors import MalformedMessage
from mcphost.host.questions.question_budget import (
    ALL_BYTES,
    ALL_QUESTIONS,
    SERVER_BYTES,
    SERVER_QUESTIONS,
    OpenQuestions,
    TooManyQuestions,
)
from mcphost.json_limits import finished
from mcphost.protocol.server_requests import MAX_VALUES, CreateMessage, asking, size_of
from mcphost.serialization import Raw, encode


def sampling(content: bytes) -> Raw:
    return Raw(b'{"maxTokens":1,"messages":[{"role":"user","content":' + content + b"}]}")


def test_one_server_can_hold_only_so_many_bytes_in_open_questions() -> None:
    questions = OpenQuestions()
    with questions.hold("a", SERVER_BYTES - 10):
        with pytest.raises(TooManyQuestions, match="of this server hold more than 32 MB"), questions.hold("a", 11):
            pass
        with questions.hold("a", 10), questions.hold("b", 20):
            pass
    with questions.hold("a", SERVER_BYTES):
        pass


def test_all_servers_together_can_hold_only_so_many_bytes() -> None:
    questions = OpenQuestions()
    with questions.hold("a", SERVER_BYTES), questions.hold("b", ALL_BYTES - SERVER_BYTES):  # noqa: SIM117
        with pytest.raises(TooManyQuestions, match="All open questions"), questions.hold("c", 1):
            pass


def test_questions_are_counted_for_each_server_and_in_all() -> None:
    questions = OpenQuestions()
    held = [questions.hold(f"s{number // SERVER_QUESTIONS}", 0) for number in range(ALL_QUESTIONS)]
    for one in held:
        one.__enter__()
    with (
        pytest.raises(TooManyQuestions, match=f"^{SERVER_QUESTIONS} questions of this server"),
        questions.hold("s0", 0),
    ):
        pass
    with pytest.raises(TooManyQuestions, match=f"^{ALL_QUESTIONS} questions"), questions.hold("new", 0):
        pass
    for one in held:
        one.__exit__(None, None, None)
    with questions.hold("s0", 0):
        pass


def test_the_size_of_an_ask_counts_all_that_the_server_wrote() -> None:
    text = b'{"type":"text","text":"' + b"x" * 1_000_000 + b'"}'
    got = finished(asking("sampling/createMessage", sampling(text)))
    assert isinstance(got, CreateMessage)
    assert 1_000_000 < size_of(got) < 1_001_000
    form = {"message": "m" * 500, "requestedSchema": {"x": "y" * 500}}
    assert size_of(finished(asking("elicitation/create", Raw(encode(form))))) > 1_000


@pytest.mark.parametrize("item", [b"{}", b"[]", b"0", b'""', b'{"type":"text","text":"a"}'])
def test_a_request_of_very_many_values_is_refused_before_objects_are_made(item: bytes) -> None:
    with pytest.raises(MalformedMessage, match="more than 100,000 values"):
        finished(asking("sampling/createMessage", sampling(b"[" + b",".join([item] * MAX_VALUES) + b",0]")))


@pytest.mark.parametrize("text", ["a, b; " * 200_000, '{"a": [1, 2]}, ' * 50_000, '\\",{[' * 200_000])
def test_a_long_text_is_one_value_whatever_it_holds(text: str) -> None:
    finished(asking("sampling/createMessage", sampling(encode({"type": "text", "text": text}))))
