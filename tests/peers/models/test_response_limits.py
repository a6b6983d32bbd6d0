"""Tests for the real worker with endless answers, absurd token counts and very many tool calls."""

import gzip
from typing import Any

import pytest

from mcphost.llm.answer_limits import MAX_ANSWER_LENGTH, MAX_TOOL_CALLS
from mcphost.llm.model import TextDelta
from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import ask_model, create_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
FINE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def stream_chunk(delta: dict[str, Any], reason: str | None = None, **members: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **members}


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 1.5, "completion_tokens": 2.25, "total_tokens": 3.75}, (1, 2)),
        ({"prompt_tokens": -5, "completion_tokens": -2, "total_tokens": -7}, (0, 0)),
        ({**FINE, "prompt_tokens": 10**30}, (0, 4)),
        ({**FINE, "prompt_tokens": float("inf")}, (0, 4)),
        ({**FINE, "prompt_tokens": "many"}, (0, 4)),
        ({**FINE, "prompt_tokens_details": {"cached_tokens": 1.5}}, (3, 4)),
        ({**FINE, "prompt_tokens_details": {"cached_tokens": -1, "audio_tokens": "x"}}, (3, 4)),
        ({**FINE, "cost": "free"}, (3, 4)),
    ],
)
async def test_usage_that_makes_no_sense_never_fails_an_answer(
    usage: dict[str, Any], counted: tuple[int, int], worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [
        stream_chunk({"content": "hello"}),
        stream_chunk({}, "stop"),
        stream_chunk({}, usage=usage) | {"choices": []},
    ]
    reply = await ask_model(create_model("openai", base, worker), "hi")
    assert reply.text == "hello"
    result = reply.finished.usage
    assert (result.input_tokens, result.output_tokens) == counted
    assert result.cost is None or result.cost >= 0


async def test_an_answer_that_never_ends_is_stopped_and_kept_so_far(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [stream_chunk({"content": f"{number} " + "word " * 20_000}) for number in range(40)]
    reply = await ask_model(create_model("openai", base, worker), "hi")
    assert reply.error is not None
    assert "1,000,000 characters" in reply.error.message
    assert (
        MAX_ANSWER_LENGTH < sum(len(event.text) for event in reply.events_of(TextDelta)) < MAX_ANSWER_LENGTH + 200_000
    )


async def test_too_many_calls_stop_the_answer_and_none_of_them_runs(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider

    def call(number: int) -> dict[str, Any]:
        function = {"name": "fs__read", "arguments": "{}"}
        return {"index": number, "id": f"a{number}", "type": "function", "function": function}

    ours.script = [stream_chunk({"tool_calls": [call(number)]}) for number in range(MAX_TOOL_CALLS + 1)]
    reply = await ask_model(create_model("openai", base, worker), "hi")
    assert reply.error is not None
    assert f"more than {MAX_TOOL_CALLS} tool calls" in reply.error.message
    assert reply.uses == []


async def test_an_event_of_very_many_tool_calls_stops_the_answer_before_they_are_built(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [stream_chunk({"content": "so far"}), stream_chunk({"tool_calls": [{"function": {}}] * 100_000})]
    reply = await ask_model(create_model("openai", base, worker), "hi")
    assert reply.error is not None
    assert "more than 4,000 objects" in reply.error.message
    assert reply.uses == []
    assert reply.text == "so far"


async def test_pieces_that_arrive_together_reach_the_host_together(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    words = [f"w{number} " for number in range(2_000)]
    ours.script = [*(stream_chunk({"content": word}) for word in words), stream_chunk({}, "stop")]
    reply = await ask_model(create_model("openai", base, worker), "hi")
    assert reply.text == "".join(words)
    assert len(reply.events_of(TextDelta)) < len(words) / 2


async def test_a_compressed_stream_of_comments_is_stopped(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words = 0
    ours.raw = (b"content-encoding: gzip\r\n", gzip.compress(b":\n" * 50_000_000))
    reply = await ask_model(create_model("openai", base, worker), "hi")
    assert reply.error is not None
    assert "almost empty lines" in reply.error.message
    assert "accept-encoding: identity" in ours.heads[-1].lower()
