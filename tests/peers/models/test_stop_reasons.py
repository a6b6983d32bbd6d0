"""Tests that each reason why an answer ended, as each API names it, is one of the reasons that the host knows.

The names are those of the API references of Anthropic ("Handling stop reasons"), Google (`FinishReason` and
`promptFeedback`) and Ollama (`done_reason`). The two APIs of OpenAI are in test_openai_apis.py.
"""

import pytest

from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import ask_model, create_model
from tests.peers.models.raw_provider import Json, RawProvider, chunk, gemini_chunk, ollama_chunk

pytestmark = [pytest.mark.anyio, pytest.mark.peer]


def anthropic_answer(reason: str) -> list[Json]:
    """Return the events of an answer of Anthropic's Messages API that ends for this reason."""
    message: Json = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x"}
    usage = {"input_tokens": 3, "output_tokens": 1}
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]


def gemini_answer(reason: str) -> list[Json]:
    """Return the chunks of an answer of Gemini that ends for this reason."""
    usage = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}}
    return [gemini_chunk({"text": "so"}), gemini_chunk(finishReason=reason) | usage]


def ollama_answer(reason: str) -> list[Json]:
    """Return the lines of an answer of Ollama that ends for this reason."""
    return [ollama_chunk(content="so"), {**ollama_chunk(done=True), "done_reason": reason}]


def compatible_answer(reason: str) -> list[Json]:
    """Return the chunks of an answer in OpenAI's format that ends for this reason."""
    return [chunk({"content": "so"}), chunk({}, reason)]


ANSWERS = {
    "anthropic": anthropic_answer, "gemini": gemini_answer, "ollama": ollama_answer, "compatible": compatible_answer
}  # fmt: skip
REASONS = [
    ("anthropic", "end_turn", "stop"),
    ("anthropic", "stop_sequence", "stop"),
    ("anthropic", "max_tokens", "length"),
    ("anthropic", "model_context_window_exceeded", "length"),
    ("anthropic", "refusal", "content_filter"),
    ("gemini", "STOP", "stop"),
    ("gemini", "MAX_TOKENS", "length"),
    ("gemini", "SAFETY", "content_filter"),
    ("gemini", "RECITATION", "content_filter"),
    ("gemini", "PROHIBITED_CONTENT", "content_filter"),
    ("ollama", "stop", "stop"),
    ("ollama", "length", "length"),
    ("compatible", "stop", "stop"),
    ("compatible", "length", "length"),
    ("compatible", "content_filter", "content_filter"),
]


@pytest.mark.req("llm.openai.finish")
@pytest.mark.parametrize(("route", "reason", "wanted"), REASONS)
async def test_every_end_of_an_answer_of_the_other_providers_is_one_stop_reason(
    route: str, reason: str, wanted: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = ANSWERS[route](reason)
    reply = await ask_model(create_model(route, base, worker), "hi")
    assert (reply.text, reply.finished.reason) == ("so", wanted)


async def test_a_prompt_that_gemini_blocks_is_a_refusal(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}}]
    reply = await ask_model(create_model("gemini", base, worker), "hi")
    assert reply.finished.reason == "content_filter"
