"""A provider's answer as bytes, before anything reads it."""

import json

import pytest

from mcphost.llm import response_bounds
from mcphost.llm.answer_limits import AnswerTooLong
from mcphost.llm.response_bounds import MAX_EVENT, MAX_OBJECTS, LineMeter

CALLS = b'data: {"tool_calls":[' + b",".join([b'{"function":{}}'] * MAX_OBJECTS) + b"]}\n\n"


def fed(data: bytes, step: int) -> None:
    meter = LineMeter()
    for start in range(0, len(data), step):
        meter.feed(data[start : start + step])


@pytest.mark.parametrize("step", [1_000, 64 * 1024, len(CALLS)])
def test_an_event_of_very_many_objects_is_refused_before_it_is_whole(step: int) -> None:
    with pytest.raises(AnswerTooLong, match="more than 4,000 objects"):
        fed(CALLS, step)


@pytest.mark.parametrize("step", [1_000, 64 * 1024, 10**7])
def test_braces_in_texts_and_many_small_events_are_fine(step: int) -> None:
    text = json.dumps({"delta": {"content": '{"a": {}}, ' * 20_000}}).encode()
    fed(b"data: " + text + b"\n\n", step)
    fed(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 5_000, step)


def test_an_event_without_end_is_refused() -> None:
    with pytest.raises(AnswerTooLong, match="passed 16 MB"):
        fed(b"data: " + b"a" * (MAX_EVENT + 1), 64 * 1024)


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_bounds, "MAX_ANSWER", 1_000_000)
    with pytest.raises(AnswerTooLong, match="passed 1 MB"):
        fed(b": nothing\n" * 200_000, 64 * 1024)
