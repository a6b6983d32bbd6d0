"""Bounds of one answer, in the worker and in the host."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.errors import ModelError
from mcphost.llm import answer_limits, worker_protocol
from mcphost.llm.answer_limits import MAX_BYTES, MAX_CALLS, count_of
from mcphost.llm.chat_completions import Gathering
from mcphost.llm.errors import Where, explain, worth_another_try
from mcphost.llm.model import ModelEvent, ThinkingDelta
from mcphost.llm.worker import KEPT_CHUNKS, Notes, Worker, forget_chunks
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw

pytestmark = pytest.mark.anyio


class Endless:
    """A stream of litellm that says the same delta for ever, and keeps it, as litellm does."""

    def __init__(self, delta: Any, usage: Any = None) -> None:
        choice = SimpleNamespace(delta=delta, finish_reason=None)
        self.chunk = SimpleNamespace(choices=[choice], usage=usage)
        self.chunks: list[Any] = []
        self.is_closed = False
        self.most_kept = 0

    def __aiter__(self) -> "Endless":
        return self

    async def __anext__(self) -> Any:
        await anyio.lowlevel.checkpoint()
        self.chunks.append(self.chunk)
        self.most_kept = max(self.most_kept, len(self.chunks))
        return self.chunk

    async def aclose(self) -> None:
        self.is_closed = True


async def notes_of_call(stream: Endless, path: Path) -> list[worker_protocol.Note]:
    async def acompletion(**_: Any) -> Endless:
        return stream

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    send, receive = anyio.create_memory_object_stream[bytes](1)
    call = worker_protocol.Completion(model="openai/x", messages=Raw(b"[]"))
    with anyio.fail_after(30):
        async with send:
            await send.send(worker_protocol.line_of(worker_protocol.Command(op="stream", id=7, call=call)))
        async with receive:
            await Worker(SimpleNamespace(acompletion=acompletion), Notes(descriptor)).serve(receive)
    os.close(descriptor)
    return [worker_protocol.read_note(line) for line in (await anyio.Path(path).read_bytes()).splitlines()]


DELTAS = {
    "text": SimpleNamespace(content="x"),
    "thinking": SimpleNamespace(reasoning_content="x"),
    "arguments": SimpleNamespace(tool_calls=[SimpleNamespace(index=0, function=SimpleNamespace(arguments="x"))]),
    "nothing": SimpleNamespace(content=None),
}


@pytest.mark.parametrize("kind", DELTAS)
async def test_a_stream_without_end_is_stopped_in_the_worker_which_keeps_little_of_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_limits, "MAX_DELTAS", 2_000)
    stream = Endless(DELTAS[kind])
    *_, last = await notes_of_call(stream, tmp_path / "notes")
    assert isinstance(last, worker_protocol.Failed)
    error = explain(last.failure, Where(model="m", provider="p"))
    assert error.message == "The answer came in more than 2,000 pieces and was stopped."
    assert not worth_another_try(last.failure)
    assert stream.is_closed
    assert stream.most_kept <= 4 * KEPT_CHUNKS


async def test_a_steady_answer_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.llm.worker.MAX_SECONDS", 0.05)
    *_, last = await notes_of_call(Endless(DELTAS["nothing"]), tmp_path / "notes")
    assert isinstance(last, worker_protocol.Failed)
    assert "took longer than" in last.failure.message


async def test_one_giant_piece_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    stream = Endless(SimpleNamespace(content="x" * (answer_limits.MAX_LINE + 1)))
    (only,) = await notes_of_call(stream, tmp_path / "notes")
    assert isinstance(only, worker_protocol.Failed)


async def test_the_host_drops_a_call_whose_notes_pass_the_bound_although_nobody_reads_them() -> None:
    worker = WorkerProcess(lambda _: None)
    call = worker.begin()
    for _ in range(20):
        call.put(worker_protocol.Text(call.number, "x"), MAX_BYTES // 8)
    notes = [await call.get(1) for _ in range(9)]
    assert isinstance(notes[-1], worker_protocol.Failed)
    assert all(isinstance(note, worker_protocol.Text) for note in notes[:-1])


def test_what_litellm_keeps_is_cut_to_both_ends_and_the_latest_usage() -> None:
    chunks = [SimpleNamespace(number=number, usage=None) for number in range(1_000)]
    chunks[500].usage = "early"
    chunks[600].usage = "late"
    stream = SimpleNamespace(chunks=list(chunks), response_uptil_now="long")
    assert forget_chunks(stream)
    assert stream.chunks == [*chunks[:KEPT_CHUNKS], chunks[600], *chunks[-KEPT_CHUNKS:]]
    assert not forget_chunks(stream)


@pytest.mark.parametrize("value", [-1, 10**13, float("nan"), float("inf"), "3", None, True, [1]])
def test_a_number_of_tokens_that_makes_no_sense_is_none(value: Any) -> None:
    assert count_of(value) == 0
    assert count_of(2.7) == 2


def test_more_tool_calls_than_are_taken_are_refused_in_words() -> None:
    gathering = Gathering("openai")
    for number in range(MAX_CALLS):
        list(gathering.take(worker_protocol.ToolPiece(1, number, f"id{number}", "tool", "{}")))
    with pytest.raises(ModelError, match=f"more than {MAX_CALLS} tool calls"):
        list(gathering.take(worker_protocol.ToolPiece(1, MAX_CALLS, "one more", "tool", "{}")))


def test_signed_reasoning_is_written_out_a_few_times_however_often_it_comes() -> None:
    gathering = Gathering("anthropic")
    events: list[ModelEvent] = []
    for number in range(1_000):
        block = {"type": "thinking", "thinking": f"{number}", "signature": "S"}
        events += [
            *gathering.take(worker_protocol.Thinking(1, "", (block,))),
            *gathering.take(worker_protocol.Text(1, "x")),
        ]
    events += gathering.take(worker_protocol.Done(id=1))
    replays = [event.replay for event in events if isinstance(event, ThinkingDelta)]
    assert len(replays) < 20
    assert replays[-1].count('"signature"') == 1_000
    assert gathering.size > 1_000 * 40
