"""Tests for answers of a provider that are not valid HTTP or JSON, or that end early, with the real worker."""

import pytest

from mcphost.llm.model import RetryScheduled
from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import ask_model, create_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: "
EVENTS = HEAD + b"text/event-stream\r\n"
CLOSED = "closed the connection before its answer was complete"
NOT_JSON = "sent an answer that is not valid JSON"
COMPRESSED = "must answer without content-encoding"
CALLS = b'{"message": {"tool_calls": [{"function": {"name": "fs__read", "arguments": %b}}]}, "done": false}'
ANSWERS = {
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", "sent an answer that is not valid HTTP", False),
    "a header that is too long": (
        EVENTS + b"x: " + b"a" * 100_000 + b"\r\n\r\n",
        "sent an answer that is not valid HTTP",
        False,
    ),
    "half a body": (EVENTS + b"content-length: 500\r\n\r\ndata: ", CLOSED, True),
    "half a chunk": (EVENTS + b"transfer-encoding: chunked\r\n\r\n40\r\ndata: ", CLOSED, True),
    "no JSON": (EVENTS + b"\r\ndata: {not json}\n\n", NOT_JSON, False),
    "no UTF-8": (EVENTS + b'\r\ndata: {"id": "\xff"}\n\n', NOT_JSON, False),
    "an error as JSON": (HEAD + b'application/json\r\n\r\n{"error": {"message": "Loading"}}', "failed: Loading", False),
    "an error with a status": (
        HEAD + b'application/json\r\n\r\n{"error": {"message": "Busy", "code": 503}}',
        "(status 503). The provider said: Busy.",
        True,
    ),
    "a whole answer": (
        HEAD + b'application/json\r\n\r\n{"object": "chat.completion", "choices": [{"message": {"content": "Hi"}}]}',
        "sent its answer as one JSON object, not as a stream of events",
        False,
    ),
    "a list as an event": (EVENTS + b"\r\ndata: []\n\n", "sent an answer that cannot be read", False),
    "no gzip": (EVENTS + b"content-encoding: gzip\r\n\r\nno gzip", COMPRESSED, False),
    "an unknown encoding": (EVENTS + b"content-encoding: br\r\n\r\nx", COMPRESSED, False),
}


@pytest.mark.parametrize("case", list(ANSWERS))
async def test_an_answer_that_cannot_be_read_is_reported_with_its_reason(
    case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.whole, told, is_retried = ANSWERS[case]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert reply.error is not None
    assert told in str(reply.error), (reply.error, reply.error.details)
    assert "Cannot connect" not in str(reply.error)
    assert bool(reply.events_of(RetryScheduled)) is is_retried


LONG_BODIES = {
    "a long line": b'{"error": {"message": "Bad input. ' + b"E" * 20_000_000 + b'"}}',
    "very many objects": b"[" + b"{}," * 5000 + b"{}]",
    "very many lines": b"\n" * 50_000,
}


@pytest.mark.parametrize("body", list(LONG_BODIES))
@pytest.mark.parametrize(("status", "told"), [(400, "did not understand the request"), (401, "rejected the key")])
async def test_a_failed_request_with_a_body_over_a_limit_is_reported_by_its_status(
    body: str, status: int, told: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.whole = HEAD.replace(b"200 OK", b"%d no" % status) + b"application/json\r\n\r\n" + LONG_BODIES[body]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert reply.error is not None
    assert told in reply.error.message
    assert "answer so far" not in str(reply.error)
    assert len(reply.error.message) < 2_000


@pytest.mark.parametrize("lines", [b'{"message": null, "done": false}', CALLS % b"[1]", CALLS % b"[{}]"])
async def test_a_line_of_ollama_that_has_another_form_is_reported_without_python_text(
    lines: bytes, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.whole = HEAD + b"application/x-ndjson\r\n\r\n" + lines + b"\n"
    reply = await ask_model(create_model("ollama", base, worker), "hi")
    assert reply.error is not None
    assert "sent an answer that cannot be read" in reply.error.message, reply.error.details
    assert reply.events_of(RetryScheduled) == []


async def test_a_character_whose_halves_arrive_in_two_events_is_joined(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    halves = [{"content": "a\ud83d"}, {"content": "\ude00b"}, {"content": "\ud83d"}, {"content": "c"}]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in halves]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    envelope = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    ours.script = [{**envelope, "choices": [choice]} for choice in choices]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert reply.text == "a\U0001f600b\ufffdc"
