"""Tests that the limit on open questions, per server and in total, is checked before a question is built."""

import pytest

from mcphost.errors import MalformedMessage
from mcphost.host.questions.frontend import (
    MAX_SERVER_BYTES,
    MAX_SERVER_QUESTIONS,
    MAX_TOTAL_BYTES,
    MAX_TOTAL_QUESTIONS,
    QuestionBudget,
    TooManyQuestions,
)
from mcphost.json_limits import run_steps
from mcphost.protocol.server_requests import MAX_VALUES, CreateMessage, parse_server_request, server_request_size
from mcphost.serialization import Raw, encode


def sampling_params(content: bytes) -> Raw:
    return Raw(b'{"maxTokens":1,"messages":[{"role":"user","content":' + content + b"}]}")


def test_one_server_can_hold_a_bounded_number_of_bytes_in_open_questions() -> None:
    questions = QuestionBudget()
    with questions.reserve("a", MAX_SERVER_BYTES - 10):
        with pytest.raises(TooManyQuestions, match="of this server would exceed 32 MB"), questions.reserve("a", 11):
            pass
        with questions.reserve("a", 10), questions.reserve("b", 20):
            pass
    with questions.reserve("a", MAX_SERVER_BYTES):
        pass


def test_all_servers_together_can_hold_a_bounded_number_of_bytes() -> None:
    questions = QuestionBudget()
    with questions.reserve("a", MAX_SERVER_BYTES), questions.reserve("b", MAX_TOTAL_BYTES - MAX_SERVER_BYTES):  # noqa: SIM117
        with pytest.raises(TooManyQuestions, match="All open questions"), questions.reserve("c", 1):
            pass


def test_questions_are_counted_for_each_server_and_in_all() -> None:
    questions = QuestionBudget()
    held = [questions.reserve(f"s{number // MAX_SERVER_QUESTIONS}", 0) for number in range(MAX_TOTAL_QUESTIONS)]
    for item in held:
        item.__enter__()
    with (
        pytest.raises(TooManyQuestions, match=f"^This server already has {MAX_SERVER_QUESTIONS} open questions"),
        questions.reserve("s0", 0),
    ):
        pass
    with pytest.raises(TooManyQuestions, match=f"^{MAX_TOTAL_QUESTIONS} questions"), questions.reserve("new", 0):
        pass
    for item in held:
        item.__exit__(None, None, None)
    with questions.reserve("s0", 0):
        pass


def test_the_size_of_an_ask_counts_all_that_the_server_wrote() -> None:
    text = b'{"type":"text","text":"' + b"x" * 1_000_000 + b'"}'
    result = run_steps(parse_server_request("sampling/createMessage", sampling_params(text)))
    assert isinstance(result, CreateMessage)
    assert 1_000_000 < server_request_size(result) < 1_001_000
    form = {"message": "m" * 500, "requestedSchema": {"x": "y" * 500}}
    assert server_request_size(run_steps(parse_server_request("elicitation/create", Raw(encode(form))))) > 1_000


@pytest.mark.parametrize("item", [b"{}", b"[]", b"0", b'""', b'{"type":"text","text":"a"}'])
def test_a_request_of_very_many_values_is_refused_before_objects_are_made(item: bytes) -> None:
    with pytest.raises(MalformedMessage, match="more than 100,000 values"):
        run_steps(
            parse_server_request(
                "sampling/createMessage", sampling_params(b"[" + b",".join([item] * MAX_VALUES) + b",0]")
            )
        )


@pytest.mark.parametrize("text", ["a, b; " * 200_000, '{"a": [1, 2]}, ' * 50_000, '\\",{[' * 200_000])
def test_a_long_text_is_one_value_whatever_it_contains(text: str) -> None:
    run_steps(parse_server_request("sampling/createMessage", sampling_params(encode({"type": "text", "text": text}))))
