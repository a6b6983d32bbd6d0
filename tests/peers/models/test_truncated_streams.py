"""Tests for streamed answers that end early or take too long."""

import time
from typing import Any

import pytest

from mcphost.llm.model import RetryScheduled
from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import API_ROUTES, ask_model, create_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]


@pytest.mark.parametrize("ending", ["polite", "middle"])
@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_stream_without_a_finish_reason_is_no_complete_answer(
    api_route: str, ending: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.ending, ours.pause = 3, ending, 0
    reply = await ask_model(create_model(api_route, base, worker), "hi")
    assert reply.text == "w0 w1 w2 "
    assert reply.error is not None or reply.finished.reason == "unknown"


def gemini(text: str, **more: Any) -> dict[str, Any]:
    """Return one chunk of an answer in Gemini's streaming format."""
    return {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **more}]}


USAGE = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}}
CALL = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "fs__read", "args": {}}}]}, "index": 0}]}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([gemini("a"), gemini("b", finishReason="STOP")], "stop"),
        ([gemini("a"), {"candidates": [{"finishReason": "STOP", "index": 0}], **USAGE}], "stop"),
        ([gemini("a", finishReason="STOP"), USAGE], "stop"),
        ([gemini("a", finishReason="MAX_TOKENS")], "length"),
        ([CALL, gemini("", finishReason="STOP")], "tool_calls"),
        ([gemini("a"), gemini("b")], "unknown"),
        ([gemini("a"), {**gemini("b"), **USAGE}], "unknown"),
        ([CALL], "unknown"),
    ],
)
async def test_an_answer_of_gemini_is_complete_only_with_a_finish_reason(
    script: list[dict[str, Any]], reason: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = script
    reply = await ask_model(create_model("gemini", base, worker), "hi")
    assert reply.finished.reason == reason


@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_stream_without_choices_is_no_empty_answer(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.ending = 0, "no choices"
    reply = await ask_model(create_model(api_route, base, worker), "hi")
    assert reply.text == ""
    assert reply.error is not None or reply.finished.reason == "unknown"


async def test_an_answer_ends_at_its_deadline_whatever_still_comes(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    _ours, base = raw_provider
    started_at = time.monotonic()
    reply = await ask_model(create_model("openai", base, worker, total=2), "hi")
    assert time.monotonic() - started_at < 20  # a thousand words take 50 s
    assert reply.text.startswith("w0 ")
    assert reply.error is not None
    assert "did not finish its answer within 2 s" in reply.error.message


async def test_no_further_attempt_starts_that_could_not_end_in_time(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status, ours.headers = 503, b"retry-after: 20\r\n"
    reply = await ask_model(create_model("openai", base, worker, total=10), "hi")
    assert reply.error is not None
    assert (len(ours.bodies), reply.events_of(RetryScheduled)) == (1, [])
