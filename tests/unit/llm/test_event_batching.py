"""Tests that the worker process sends the pieces of an answer to the host in batches."""

import asyncio

import pytest

from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import AnswerTooLong
from mcphost.llm.worker_protocol import MAX_BATCH_LENGTH, EventBatch

pytestmark = pytest.mark.anyio


async def test_the_first_piece_leaves_at_once_and_those_of_the_same_turn_together() -> None:
    sent: list[worker_protocol.WorkerEvent] = []
    batch = EventBatch(sent.append)
    batch.put(worker_protocol.WorkerTextDelta(1, "a"))
    assert sent == [worker_protocol.WorkerTextDelta(1, "a")]
    for letter in "bcd":
        batch.put(worker_protocol.WorkerTextDelta(1, letter))
    assert len(sent) == 1
    await asyncio.sleep(0)
    assert sent == [worker_protocol.WorkerTextDelta(1, "a"), worker_protocol.WorkerTextDelta(1, "bcd")]
    batch.put(worker_protocol.WorkerTextDelta(1, "e"))
    await asyncio.sleep(0)
    assert sent[2:] == [worker_protocol.WorkerTextDelta(1, "e")]


async def test_pieces_of_different_kinds_keep_their_order_and_nothing_is_lost() -> None:
    sent: list[worker_protocol.WorkerEvent] = []
    batch = EventBatch(sent.append)
    notes: list[worker_protocol.WorkerEvent] = [
        worker_protocol.WorkerThinkingDelta(1, "t", ({"a": 1},)),
        worker_protocol.WorkerThinkingDelta(1, "u", ({"b": 2},)),
        worker_protocol.WorkerThinkingDelta(1, "v"),
        worker_protocol.WorkerTextDelta(1, "x"),
        worker_protocol.WorkerToolCallDelta(1, 0, "id", "tool", "{"),
        worker_protocol.WorkerToolCallDelta(1, 0, "", "", '"a":'),
        worker_protocol.WorkerToolCallDelta(1, 0, "", "", "1}"),
        worker_protocol.WorkerToolCallDelta(1, 1, "", "", "{}"),
        worker_protocol.WorkerToolCallDelta(1, 1, "other", "tool", "{}"),
    ]
    for note in notes:
        batch.put(note)
    batch.flush()
    assert sent == [
        worker_protocol.WorkerThinkingDelta(1, "t", ({"a": 1},)),
        worker_protocol.WorkerThinkingDelta(1, "uv", ({"b": 2},)),
        worker_protocol.WorkerTextDelta(1, "x"),
        worker_protocol.WorkerToolCallDelta(1, 0, "id", "tool", '{"a":1}'),
        worker_protocol.WorkerToolCallDelta(1, 1, "", "", "{}"),
        worker_protocol.WorkerToolCallDelta(1, 1, "other", "tool", "{}"),
    ]


async def test_a_batch_that_grows_long_leaves_before_the_turn_is_over() -> None:
    sent: list[worker_protocol.WorkerEvent] = []
    batch = EventBatch(sent.append)
    for _ in range(3):
        batch.put(worker_protocol.WorkerTextDelta(1, "a" * MAX_BATCH_LENGTH))
    assert len(sent) >= 2
    batch.discard()
    await asyncio.sleep(0)
    assert len(sent) < 4


async def test_a_bound_that_is_passed_between_two_pieces_is_raised_with_the_next() -> None:
    def send(note: worker_protocol.WorkerEvent) -> None:
        if "b" in getattr(note, "text", ""):
            raise AnswerTooLong("It was stopped.")

    batch = EventBatch(send)
    batch.put(worker_protocol.WorkerTextDelta(1, "a"))
    batch.put(worker_protocol.WorkerTextDelta(1, "b"))
    await asyncio.sleep(0)
    with pytest.raises(AnswerTooLong, match="It was stopped"):
        batch.put(worker_protocol.WorkerFinished(call_id=1))
