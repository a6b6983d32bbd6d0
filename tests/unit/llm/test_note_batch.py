"""Pieces of an answer on their way out of the worker."""

import asyncio

import pytest

from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import AnswerTooLong
from mcphost.llm.event_batching import BATCH_CHARS, NoteBatch

pytestmark = pytest.mark.anyio


async def test_the_first_piece_leaves_at_once_and_those_of_the_same_turn_together() -> None:
    sent: list[worker_protocol.Note] = []
    batch = NoteBatch(sent.append)
    batch.put(worker_protocol.Text(1, "a"))
    assert sent == [worker_protocol.Text(1, "a")]
    for letter in "bcd":
        batch.put(worker_protocol.Text(1, letter))
    assert len(sent) == 1
    await asyncio.sleep(0)
    assert sent == [worker_protocol.Text(1, "a"), worker_protocol.Text(1, "bcd")]
    batch.put(worker_protocol.Text(1, "e"))
    await asyncio.sleep(0)
    assert sent[2:] == [worker_protocol.Text(1, "e")]


async def test_pieces_of_different_things_keep_their_order_and_nothing_is_lost() -> None:
    sent: list[worker_protocol.Note] = []
    batch = NoteBatch(sent.append)
    notes: list[worker_protocol.Note] = [
        worker_protocol.Thinking(1, "t", ({"a": 1},)),
        worker_protocol.Thinking(1, "u", ({"b": 2},)),
        worker_protocol.Thinking(1, "v"),
        worker_protocol.Text(1, "x"),
        worker_protocol.ToolPiece(1, 0, "id", "tool", "{"),
        worker_protocol.ToolPiece(1, 0, "", "", '"a":'),
        worker_protocol.ToolPiece(1, 0, "", "", "1}"),
        worker_protocol.ToolPiece(1, 1, "", "", "{}"),
        worker_protocol.ToolPiece(1, 1, "other", "tool", "{}"),
    ]
    for note in notes:
        batch.put(note)
    batch.flush()
    assert sent == [
        worker_protocol.Thinking(1, "t", ({"a": 1},)),
        worker_protocol.Thinking(1, "uv", ({"b": 2},)),
        worker_protocol.Text(1, "x"),
        worker_protocol.ToolPiece(1, 0, "id", "tool", '{"a":1}'),
        worker_protocol.ToolPiece(1, 1, "", "", "{}"),
        worker_protocol.ToolPiece(1, 1, "other", "tool", "{}"),
    ]


async def test_a_batch_that_grows_long_leaves_before_the_turn_is_over() -> None:
    sent: list[worker_protocol.Note] = []
    batch = NoteBatch(sent.append)
    for _ in range(3):
        batch.put(worker_protocol.Text(1, "a" * BATCH_CHARS))
    assert len(sent) >= 2
    batch.drop()
    await asyncio.sleep(0)
    assert len(sent) < 4


async def test_a_bound_that_is_passed_between_two_pieces_is_raised_with_the_next() -> None:
    def send(note: worker_protocol.Note) -> None:
        if "b" in getattr(note, "text", ""):
            raise AnswerTooLong("It was stopped.")

    batch = NoteBatch(send)
    batch.put(worker_protocol.Text(1, "a"))
    batch.put(worker_protocol.Text(1, "b"))
    await asyncio.sleep(0)
    with pytest.raises(AnswerTooLong, match="It was stopped"):
        batch.put(worker_protocol.Done(id=1))
