"""Test for what a worker loads until its first answer; it starts a worker of its own, which reports its imports."""

import sys

import pytest

from mcphost.llm import worker_client
from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import ask_model, create_model
from tests.peers.models.raw_provider import Json, RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
CHUNK: Json = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
ANSWER: list[Json] = [
    {**CHUNK, "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]},
    {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**CHUNK, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
]


async def test_the_first_answer_loads_no_tokenizer(
    raw_provider: tuple[RawProvider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, base = raw_provider
    ours.script = ANSWER
    command = (sys.executable, "-X", "importtime", "-P", "-m", "mcphost.llm.worker")
    monkeypatch.setattr(worker_client, "WORKER_COMMAND", command)
    log: list[str] = []
    process = WorkerProcess(log.append)
    reply = await ask_model(create_model("openai", base, process), "hi")
    await process.close()
    assert reply.text == "hi"
    loaded = {line.rpartition("|")[2].strip() for line in log}
    assert "litellm.main" in loaded
    assert not loaded & {"litellm.litellm_core_utils.default_encoding", "tiktoken_ext.openai_public"}
