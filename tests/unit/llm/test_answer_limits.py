"""Tests for the size limits of a model's answer, enforced in the worker process and in the host."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import Mock

import anyio
import anyio.lowlevel
import pytest

from mcphost.errors import ModelError
from mcphost.llm import answer_limits, worker_protocol
from mcphost.llm.answer_limits import MAX_ANSWER_BYTES, MAX_TOOL_CALLS, parse_token_count
from mcphost.llm.chat_completions import AnswerAssembler
from mcphost.llm.errors import ErrorContext, is_retryable, make_model_error
from mcphost.llm.model import ModelEvent, ThinkingDelta
from mcphost.llm.stream_events import RETAINED_CHUNKS, trim_chunks
from mcphost.llm.worker import EventWriter, LiteLlmWorker
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw

pytestmark = pytest.mark.anyio


class EndlessStream:
    """A litellm stream that sends the same delta forever and, like litellm, appends each one to `chunks`."""

    def __init__(self, delta: Any, usage: Any = None) -> None:
        choice = SimpleNamespace(delta=delta, finish_reason=None)
        self.chunk = SimpleNamespace(choices=[choice], usage=usage)
        self.chunks: list[Any] = []
        self.is_closed = False
        self.most_kept = 0

    def __aiter__(self) -> "EndlessStream":
        return self

    async def __anext__(self) -> Any:
        await anyio.lowlevel.checkpoint()
        self.chunks.append(self.chunk)
        self.most_kept = max(self.most_kept, len(self.chunks))
        return self.chunk

    async def aclose(self) -> None:
        self.is_closed = True


def fake_litellm(stream: Any, **members: Any) -> SimpleNamespace:
    """Return an object with the functions of litellm that a worker calls; *members* replace some of them."""

    async def acompletion(**_: Any) -> Any:
        return stream

    known: dict[str, Any] = {
        "acompletion": acompletion,
        "exceptions": SimpleNamespace(BadRequestError=KeyError, ModelNotMappedError=LookupError),
        "get_llm_provider": Mock(return_value=("x", "groq", None, None)),
        "get_model_info": Mock(return_value={"max_input_tokens": 5}),
        "cost_per_token": Mock(return_value=(0.25, 0.5)),
    }
    return SimpleNamespace(**known | members)


async def notes_of_call(
    stream: Any, path: Path, *, op: Literal["stream", "facts"] = "stream", **members: Any
) -> list[worker_protocol.WorkerEvent]:
    """Return the events of one command to a worker whose litellm answers with *stream*."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    send, receive = anyio.create_memory_object_stream[bytes](1)
    call = worker_protocol.CompletionRequest(model="openai/x", messages=Raw(b"[]"))
    with anyio.fail_after(30):
        async with send:
            await send.send(
                worker_protocol.encode_line(
                    worker_protocol.WorkerCommand(op=op, call_id=7, model=call.model, request=call)
                )
            )
        async with receive:
            await LiteLlmWorker(fake_litellm(stream, **members), EventWriter(descriptor)).serve(receive)
    os.close(descriptor)
    return [worker_protocol.decode_event(line) for line in (await anyio.Path(path).read_bytes()).splitlines()]


async def brief_stream() -> AsyncGenerator[Any]:
    """Yield an answer of one word, and the tokens that it used."""
    choice = SimpleNamespace(delta=SimpleNamespace(content="hi"), finish_reason="stop")
    yield SimpleNamespace(choices=[choice], usage=SimpleNamespace(prompt_tokens=3, completion_tokens=2))


def break_function(*_: Any, **__: Any) -> None:
    raise TypeError("got an unexpected keyword argument")


@pytest.mark.parametrize("op", ["stream", "facts"])
async def test_a_function_that_litellm_no_longer_has_is_reported(
    op: Literal["stream", "facts"], tmp_path: Path
) -> None:
    (failed,) = await notes_of_call(brief_stream(), tmp_path / "notes", op=op, get_llm_provider=break_function)
    assert isinstance(failed, worker_protocol.WorkerFailed)
    assert "unexpected keyword" in failed.failure.message


async def test_an_answer_whose_price_cannot_be_computed_is_complete_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    *_, priced = await notes_of_call(brief_stream(), tmp_path / "notes")
    *_, last = await notes_of_call(brief_stream(), tmp_path / "more", cost_per_token=break_function)
    assert isinstance(priced, worker_protocol.WorkerFinished)
    assert isinstance(last, worker_protocol.WorkerFinished)
    assert (priced.cost, last.cost, last.reason) == (0.75, None, "stop")
    assert "unexpected keyword" in caplog.text


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
    stream = EndlessStream(DELTAS[kind])
    *_, last = await notes_of_call(stream, tmp_path / "notes")
    assert isinstance(last, worker_protocol.WorkerFailed)
    error = make_model_error(last.failure, ErrorContext(model="m", provider="p"))
    assert error.message == "The answer came in more than 2,000 pieces and was stopped."
    assert not is_retryable(last.failure)
    assert stream.is_closed
    assert stream.most_kept <= 4 * RETAINED_CHUNKS


async def test_a_steady_answer_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.llm.worker.MAX_ANSWER_SECONDS", 0.05)
    *_, last = await notes_of_call(EndlessStream(DELTAS["nothing"]), tmp_path / "notes")
    assert isinstance(last, worker_protocol.WorkerFailed)
    assert "took longer than" in last.failure.message


async def test_one_giant_piece_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    stream = EndlessStream(SimpleNamespace(content="x" * (answer_limits.MAX_LINE_BYTES + 1)))
    (only,) = await notes_of_call(stream, tmp_path / "notes")
    assert isinstance(only, worker_protocol.WorkerFailed)


async def test_a_call_with_too_many_unread_worker_events_is_dropped() -> None:
    worker = WorkerProcess(lambda _: None)
    call = worker.open_call()
    for _ in range(20):
        call.put(worker_protocol.WorkerTextDelta(call.call_id, "x"), MAX_ANSWER_BYTES // 8)
    notes = [await call.get(1) for _ in range(9)]
    assert isinstance(notes[-1], worker_protocol.WorkerFailed)
    assert all(isinstance(note, worker_protocol.WorkerTextDelta) for note in notes[:-1])


def test_what_litellm_keeps_is_cut_to_both_ends_and_the_latest_usage() -> None:
    chunks = [SimpleNamespace(number=number, usage=None) for number in range(1_000)]
    chunks[500].usage = "early"
    chunks[600].usage = "late"
    stream = SimpleNamespace(chunks=list(chunks), response_uptil_now="long")
    assert trim_chunks(stream)
    assert stream.chunks == [*chunks[:RETAINED_CHUNKS], chunks[600], *chunks[-RETAINED_CHUNKS:]]
    assert not trim_chunks(stream)


@pytest.mark.parametrize("value", [-1, 10**13, float("nan"), float("inf"), "3", None, True, [1]])
def test_an_invalid_token_count_is_dropped(value: Any) -> None:
    assert parse_token_count(value) == 0
    assert parse_token_count(2.7) == 2


def test_too_many_tool_calls_are_refused_with_a_message() -> None:
    gathering = AnswerAssembler("openai")
    for number in range(MAX_TOOL_CALLS):
        list(gathering.feed(worker_protocol.WorkerToolCallDelta(1, number, f"id{number}", "tool", "{}")))
    with pytest.raises(ModelError, match=f"more than {MAX_TOOL_CALLS} tool calls"):
        list(gathering.feed(worker_protocol.WorkerToolCallDelta(1, MAX_TOOL_CALLS, "one more", "tool", "{}")))


def test_signed_reasoning_is_written_out_a_few_times_however_often_it_comes() -> None:
    gathering = AnswerAssembler("anthropic")
    events: list[ModelEvent] = []
    for number in range(1_000):
        block = {"type": "thinking", "thinking": f"{number}", "signature": "S"}
        events += [
            *gathering.feed(worker_protocol.WorkerThinkingDelta(1, "", (block,))),
            *gathering.feed(worker_protocol.WorkerTextDelta(1, "x")),
        ]
    events += gathering.feed(worker_protocol.WorkerFinished(call_id=1))
    replays = [event.replay for event in events if isinstance(event, ThinkingDelta)]
    assert len(replays) < 20
    assert replays[-1].count('"signature"') == 1_000
    assert gathering.char_count > 1_000 * 40
