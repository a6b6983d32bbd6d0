"""Tests for errors that a provider sends in a stream after status 200, with the real worker.

The formats are those of vLLM and OpenRouter (`error` in a chunk; openrouter.ai/docs, "Errors"), Ollama (a line with
`error`; docs/errors.mdx), Anthropic (the event `error`) and Gemini (`finishReason`).
"""

from typing import Any

import pytest

from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import ask_model, create_model
from tests.peers.models.raw_provider import Json, RawProvider, chunk, gemini_chunk, ollama_chunk

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
MEMORY = "model requires more system memory (5.6 GiB) than is available (3.1 GiB)"
STARTED: Json = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "usage": {}},
}
OLLAMA_ERROR = {**ollama_chunk(), "error": MEMORY}
ERRORS: dict[str, tuple[str, list[Json], str, str]] = {
    "a status in a chunk": (
        "compatible",
        [{"error": {"message": "No capacity", "code": 502}}],
        "overloaded",
        "has a problem (status 502). The provider said: No capacity.",
    ),
    "an exceeded rate": (
        "compatible",
        [{"error": {"message": "Slow down", "code": 429}}],
        "quota",
        "limits the rate of requests. The provider said: Slow down.",
    ),
    "a refused request": (
        "compatible",
        [{"error": {"message": "This model's maximum context length is 4096 tokens", "code": 400}}],
        "context",
        "The conversation is longer than",
    ),
    "an error after text": (
        "compatible",
        [chunk({"content": "Hel"}), {"error": {"message": "upstream timed out", "type": "timeout"}}],
        "overloaded",
        "has a problem (status 500). The provider said: upstream timed out.",
    ),
    "only text": (
        "compatible",
        [{"error": "CUDA out of memory"}],
        "overloaded",
        "has a problem (status 500). The provider said: CUDA out of memory.",
    ),
    "Ollama": ("ollama", [OLLAMA_ERROR], "overloaded", f"The provider said: {MEMORY}."),
    "Anthropic overloaded": (
        "anthropic",
        [STARTED, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}],
        "overloaded",
        "has a problem (status 500). The provider said: Overloaded. Try",
    ),
    "Anthropic broken": (
        "anthropic",
        [STARTED, {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}],
        "overloaded",
        "has a problem (status 500). The provider said: Internal server error. Try",
    ),
    "an answer that litellm does not understand": (
        "gemini",
        [{"candidates": [{"content": {"parts": [7]}, "index": 0}]}],
        "other",
        "sent an answer that cannot be read",
    ),
}


@pytest.mark.parametrize("case", list(ERRORS))
async def test_an_error_in_the_stream_is_reported_in_the_providers_words(
    case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    route, ours.script, kind, told = ERRORS[case]
    reply = await ask_model(create_model(route, base, worker), "hi")
    assert reply.error is not None
    assert reply.error.model_kind == kind, (reply.error, reply.error.details)
    assert told in str(reply.error)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
async def test_a_call_in_the_wrong_form_is_no_normal_end(
    reason: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    usage = {"usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}}
    ours.script = [gemini_chunk({"text": "Well"}), gemini_chunk(finishReason=reason) | usage]
    reply = await ask_model(create_model("gemini", base, worker), "hi")
    assert (reply.text, reply.finished.reason) == ("Well", "malformed_call")


def tool_call(**members: Any) -> Json:
    function = {"name": "fs__read", "arguments": '{"path": "a"}'}
    return {"index": 0, "id": "c0", "type": "function", "function": function} | members


@pytest.mark.parametrize(
    "members", [{"index": "first"}, {"index": 0.5}, {"index": "1"}, {"index": {}}, {"id": 7}, {"type": 5}], ids=str
)
async def test_a_tool_call_with_an_invalid_index_id_or_type_is_not_lost(
    members: Json, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    second = tool_call(id="c1", function={"name": "web__get", "arguments": '{"url": "b"}'}) | members
    calls = [chunk({"tool_calls": [tool_call()]}), chunk({"tool_calls": [second]})]
    ours.script = [*calls, chunk({}, reason="tool_calls")]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert [(use.name, use.arguments) for use in reply.uses] == [
        ("fs__read", {"path": "a"}),
        ("web__get", {"url": "b"}),
    ]
    assert reply.finished.reason == "tool_calls"


@pytest.mark.parametrize(
    "delta",
    [
        {"tool_calls": [tool_call(), None]},
        {"tool_calls": [tool_call(function={"name": 7, "arguments": "{}"})]},
        {"tool_calls": [tool_call(function={"arguments": "{}"})]},
        {"tool_calls": [tool_call(function=None)]},
        {"tool_calls": "fs__read"},
        {"tool_calls": ["fs__read"]},
        {"function_call": {"name": "fs__read", "arguments": "{}"}},
        {"content": "I will read it."},
    ],
    ids=str,
)
async def test_an_answer_whose_tool_call_cannot_be_read_does_not_seem_complete(
    delta: Json, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [chunk(delta), chunk({}, reason="tool_calls")]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert reply.finished.reason == "lost_call"


async def test_a_call_without_a_name_does_not_seem_complete_after_a_normal_end(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [chunk({"tool_calls": [tool_call(function=None)]}), chunk({}, reason="stop")]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert reply.finished.reason == "lost_call"


REST = {"index": 0, "function": {"arguments": '"a"}'}}
END = chunk({}, reason="tool_calls")


@pytest.mark.parametrize(
    "deltas",
    [
        [{"tool_calls": [tool_call()], "function_call": {}}, {"function_call": {}}],
        [{"tool_calls": [tool_call()]}, {"tool_calls": [{"index": 0}]}],
        [{"tool_calls": [tool_call()]}, {"tool_calls": [{"index": 0, "id": "c0", "type": "function"}]}],
        [{"tool_calls": [tool_call()]}, {"tool_calls": [{"index": 0, "id": "", "function": None}]}],
        [{"tool_calls": [tool_call()]}, {"tool_calls": ""}],
        [{"tool_calls": {}}, {"tool_calls": [tool_call()]}],
        [{"tool_calls": [tool_call(function={"name": "fs__read", "arguments": '{"path": '})]}, {"tool_calls": [REST]}],
        [{"tool_calls": [tool_call(type=None)]}],
        [{"tool_calls": [tool_call(index=None)]}],
    ],
    ids=str,
)
async def test_a_call_is_read_in_spite_of_empty_members_and_pieces(
    deltas: list[Json], worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [*map(chunk, deltas), END]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert [(use.name, use.arguments) for use in reply.uses] == [("fs__read", {"path": "a"})]
    assert reply.finished.reason == "tool_calls"


async def test_the_mixed_pieces_of_calls_with_fractional_indexes_stay_apart(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    """Some servers write numbers as 0.0 and 1.0."""
    ours, base = raw_provider
    starts = [
        tool_call(index=0.0, function={"name": "fs__read", "arguments": ""}),
        tool_call(index=1.0, id="c1", function={"name": "web__get", "arguments": ""}),
    ]
    rests = [
        {"index": 0.0, "function": {"arguments": '{"path": "a"}'}},
        {"index": 1.0, "function": {"arguments": '{"url": "b"}'}},
    ]
    ours.script = [chunk({"tool_calls": [call]}) for call in (*starts, *rests)] + [END]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert [(use.name, use.arguments) for use in reply.uses] == [
        ("fs__read", {"path": "a"}),
        ("web__get", {"url": "b"}),
    ]


async def test_the_mixed_pieces_of_calls_without_an_index_are_joined_by_id(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    pieces = [
        {"id": "c0", "function": {"name": "fs__read", "arguments": '{"path": '}},
        {"id": "c1", "function": {"name": "web__get", "arguments": '{"url": '}},
        {"id": "c0", "function": {"arguments": '"a"}'}},
        {"id": "c1", "function": {"arguments": '"b"}'}},
    ]
    ours.script = [chunk({"tool_calls": [piece]}) for piece in pieces] + [END]
    reply = await ask_model(create_model("compatible", base, worker), "hi")
    assert [(use.name, use.arguments) for use in reply.uses] == [
        ("fs__read", {"path": "a"}),
        ("web__get", {"url": "b"}),
    ]
