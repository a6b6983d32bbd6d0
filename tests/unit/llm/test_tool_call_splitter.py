"""Tests that the tool calls of a streamed answer are told apart when they have the same index."""

import time

import pytest

from mcphost.llm.tool_call_splitter import ToolCallSplitter
from mcphost.llm.worker_protocol import WorkerEvent, WorkerTextDelta, WorkerToolCallDelta


def make_piece(text: str = "", name: str = "", call: str = "", index: int = 0) -> WorkerToolCallDelta:
    return WorkerToolCallDelta(1, index, call, name, text)


def split(*pieces: WorkerEvent) -> list[int]:
    """Return the new index of each piece of a tool call."""
    events = ToolCallSplitter().split(pieces)
    return [event.index for event in events if isinstance(event, WorkerToolCallDelta)]


def test_complete_calls_with_other_ids_are_other_calls() -> None:
    assert split(make_piece("{}", "one", "a"), make_piece("{}", "two", "b"), make_piece("{}", "one", "c")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (make_piece('{"steps": 60}', "slow", "a"), make_piece("", "list_notes")),
        (make_piece('{"steps": 60}', "slow", "a"), make_piece("{}", "list_notes")),
        (make_piece("", "list_notes"), make_piece('{"name": "x"}', "hello", "a")),
        (make_piece("{}", "list_notes"), make_piece('{"name": "x"}', "hello", "a")),
        (make_piece("", "list_notes"), make_piece("", "list_tags")),
        (make_piece('{"id": 1}', "read"), make_piece('{"id": 2}', "read")),
    ],
)
def test_a_name_after_a_complete_call_begins_another_call(first: WorkerEvent, second: WorkerEvent) -> None:
    assert split(first, second) == [0, 1]


@pytest.mark.parametrize(
    "pieces",
    [
        [make_piece("", "read", "a"), make_piece('{"id"'), make_piece(": 1}")],
        [make_piece('{"id"', "read", "a"), make_piece(": {}", "read", "a"), make_piece("}", "read", "a")],
        [make_piece('{"id"', "read"), make_piece(": 1}", "read"), make_piece("", "read")],
        [make_piece('{"id"'), make_piece(": 1}", "read", "a")],
    ],
)
def test_the_pieces_of_one_call_stay_together(pieces: list[WorkerEvent]) -> None:
    assert split(*pieces) == [0] * len(pieces)


def test_calls_keep_their_pieces_when_indexes_are_used_again() -> None:
    assert split(
        make_piece("{}", "one", "a"),
        make_piece("{}", "two", "b"),
        make_piece('{"x"', "three", "c", index=1),
        make_piece(": 1}", index=1),
    ) == [0, 1, 2, 2]


def test_other_events_stay_as_they_are() -> None:
    text = WorkerTextDelta(1, "hi")
    assert list(ToolCallSplitter().split([text])) == [text]


def test_pieces_that_all_look_like_the_last_one_take_linear_time() -> None:
    started_at = time.process_time()
    pieces = [make_piece('{"a":"' + "x" * 60_000, "read"), *[make_piece("}", "read")] * 200_000]
    assert set(split(*pieces)) == {0}
    assert time.process_time() - started_at < 5


def test_pieces_with_the_id_of_an_earlier_call_belong_to_it() -> None:
    starts = [make_piece("", "read", "a"), make_piece("", "get", "b")]
    rests = [make_piece('{"id"', call="a"), make_piece(": 1}"), make_piece("{}", call="b")]
    assert split(*starts, *rests) == [0, 1, 0, 0, 1]


def test_pieces_with_new_ids_and_no_name_belong_to_the_newest_call() -> None:
    """Some servers make up an id for each piece."""
    assert split(make_piece("", "read", "a"), make_piece('{"id"', call="b"), make_piece(": 1}", call="c")) == [0, 0, 0]


def test_another_name_with_a_repeated_id_begins_another_call() -> None:
    calls = [make_piece("{}", "read", "a"), make_piece("{}", "get", "b"), make_piece("{}", "list", "a")]
    assert split(*calls) == [0, 1, 2]
    assert split(make_piece("{}", "read", "a"), make_piece("{}", "get", "a")) == [0, 1]
