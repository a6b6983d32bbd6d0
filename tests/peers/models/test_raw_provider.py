"""Tests for the real worker with disconnects, silence, truncated streams, closed ports and crashes."""

import json
import os
import signal
import socket
import time
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute, SocketStream

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.llm import worker_client
from mcphost.llm.litellm_model import LiteLlmModel
from mcphost.llm.messages import ImagePart, Message, TextPart, ThinkingPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelRequest, RetryScheduled, TextDelta, ToolSpec
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw, dumps
from tests.fakes.model import user_message
from tests.peers.models.model_requests import (
    API_ROUTES,
    KEY,
    PICTURE,
    TOOLS,
    ask_model,
    create_model,
)
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
# Hanging up involves three processes; on a busy machine one may not run for 100 ms. One good try proves it.
TRIES = 3
REAL_COMMAND = worker_client.WORKER_COMMAND


@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_leaving_the_block_hangs_up_within_100_ms_in_one_of_three_tries(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    gaps: list[float] = []
    while len(gaps) < TRIES and (not gaps or gaps[-1] >= 0.1):
        ours.reset()
        async with create_model(api_route, base, worker).stream(
            ModelRequest(messages=(user_message("hi"),), tools=TOOLS)
        ) as events:
            words = 0
            async for event in events:
                words += isinstance(event, TextDelta)
                if words == 3:
                    break
        left = time.perf_counter()
        with anyio.fail_after(20):
            await ours.gone.wait()
        assert ours.hung_up is not None
        gaps.append(ours.hung_up - left)
    assert min(gaps) < 0.1, gaps


@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_cancelling_while_nothing_arrives_hangs_up_within_100_ms_in_one_of_three_tries(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.ending = 0, "silence"
    gaps: list[float] = []

    async def listen() -> None:
        await ask_model(create_model(api_route, base, worker), "hi")

    while len(gaps) < TRIES and (not gaps or gaps[-1] >= 0.1):
        ours.reset()
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            with anyio.fail_after(20):
                await ours.asked.wait()
            stopped = time.perf_counter()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            await ours.gone.wait()
        assert ours.hung_up is not None
        gaps.append(ours.hung_up - stopped)
    assert min(gaps) < 0.1, gaps


@pytest.mark.req("llm.errors")
@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_cut_stream_keeps_its_text_and_is_not_retried(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.ending = 3, "close"
    reply = await ask_model(create_model(api_route, base, worker), "hi")
    assert reply.text.startswith("w0 w1 w2")
    assert reply.error is not None
    assert reply.error.model_kind == "network"
    assert len(ours.bodies) == 1


async def test_silence_before_the_first_word_ends_at_the_deadline(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.ending = 0, "silence"
    started_at = time.perf_counter()
    reply = await ask_model(create_model("gemini", base, worker, first_token=0.5), "hi")
    assert 0.4 < time.perf_counter() - started_at < 20
    assert reply.error is not None
    assert reply.error.model_kind == "network"
    assert "0.5 s" in str(reply.error)
    with anyio.fail_after(20):
        await ours.gone.wait()


async def test_silence_between_words_ends_at_the_idle_limit(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.ending = 2, "silence"
    reply = await ask_model(create_model("anthropic", base, worker, idle=0.5), "hi")
    assert reply.text == "w0 w1 "
    assert reply.error is not None
    assert "nothing more" in str(reply.error)


@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_refused_port_is_a_network_error(api_route: str, worker: WorkerProcess) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    reply = await ask_model(create_model(api_route, f"http://127.0.0.1:{port}", worker), "hi")
    assert reply.error is not None
    assert reply.error.model_kind == "network"
    assert str(port) in reply.error.message
    assert not reply.events_of(RetryScheduled)


@pytest.mark.req("llm.errors")
@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_busy_provider_is_asked_three_times_and_its_patience_honoured(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status, ours.headers = 429, b"retry-after: 0.2\r\n"
    reply = await ask_model(create_model(api_route, base, worker), "hi")
    assert len(ours.bodies) == 3
    assert len(reply.events_of(RetryScheduled)) == 2
    assert reply.error is not None
    assert reply.error.model_kind == "quota"
    if api_route != "gemini":  # litellm 1.105 drops the header there
        assert reply.events_of(RetryScheduled)[0].seconds == 0.2


async def test_the_wait_between_tries_can_be_cancelled(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status, ours.headers = 503, b"retry-after: 50\r\n"
    started_at = time.perf_counter()
    with anyio.move_on_after(1) as scope:
        await ask_model(create_model("openai", base, worker), "hi")
    assert scope.cancelled_caught
    assert time.perf_counter() - started_at < 10
    assert len(ours.bodies) == 1


async def test_one_of_two_streams_is_stopped_and_the_other_continues(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    model = create_model("openai", base, worker)
    async with model.stream(ModelRequest(messages=(user_message("a"),))) as kept:
        await anext(kept)
        async with model.stream(ModelRequest(messages=(user_message("b"),))) as left:
            await anext(left)
        with anyio.fail_after(20):
            await ours.gone.wait()
        for _ in range(10):
            await anext(kept)


@pytest.mark.req("llm.openai.store")
async def test_the_key_travels_with_the_call_and_responses_are_not_stored(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words = 1
    await ask_model(create_model("responses", base, worker), "hi")
    assert f"Bearer {KEY}" in ours.heads[0]
    assert ours.bodies[0]["store"] is False
    assert ours.bodies[0]["include"] == ["reasoning.encrypted_content"]
    seen = [await anyio.Path(f"/proc/{worker.pid}/{name}").read_bytes() for name in ("environ", "cmdline")]
    assert all(KEY.encode() not in content for content in seen)


async def test_a_worker_that_dies_ends_its_calls_and_the_next_call_starts_another(
    raw_provider: tuple[RawProvider, str],
) -> None:
    ours, base = raw_provider
    log: list[str] = []
    mine = WorkerProcess(log.append)
    try:
        model = create_model("openai", base, mine)
        await model.prepare()
        first = mine.pid
        assert first is not None
        words: list[str] = []

        async def listen_and_kill() -> None:
            async with model.stream(ModelRequest(messages=(user_message("hi"),))) as events:
                async for event in events:
                    if isinstance(event, TextDelta) and not words:
                        os.kill(first, signal.SIGKILL)
                    words.append(getattr(event, "text", ""))

        with pytest.raises(ModelError, match="worker ended"):
            await listen_and_kill()
        assert words[0].startswith("w0")
        ours.words = 2
        reply = await ask_model(model, "again")
        assert reply.text == "w0 w1 "
        assert mine.pid != first
    finally:
        started_at = time.perf_counter()
        await mine.close()
        assert time.perf_counter() - started_at < 4


async def test_the_worker_ends_when_the_last_model_is_closed_and_starts_again_when_one_is_used(
    raw_provider: tuple[RawProvider, str],
) -> None:
    ours, base = raw_provider
    ours.words = 2
    mine = WorkerProcess(lambda _line: None)
    try:
        model, other = create_model("openai", base, mine), create_model("openai", base, mine)
        await model.load_facts()
        first = mine.pid
        assert first is not None
        await other.close()
        assert mine.pid == first
        await model.close()
        assert mine.pid is None
        assert (await ask_model(model, "again")).text == "w0 w1 "
        assert mine.pid not in (None, first)
    finally:
        await mine.close()


async def test_closing_ends_a_worker_that_still_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_client, "WORKER_COMMAND", REAL_COMMAND)  # a fork imports nothing
    mine = WorkerProcess(lambda _line: None)
    async with anyio.create_task_group() as starting:
        starting.start_soon(mine.ensure_ready)
        with anyio.fail_after(20):
            while mine.pid is None:
                await anyio.lowlevel.checkpoint()
        starting.cancel_scope.cancel()
    pid = mine.pid
    assert pid is not None
    started_at = time.perf_counter()
    await mine.close()
    assert time.perf_counter() - started_at < 4
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def conversation(model: str) -> tuple[Message, ...]:
    replay = dumps(
        {
            "provider": "anthropic",
            "blocks": [{"type": "thinking", "thinking": "hm", "signature": "SIGNATURE"}],
        }
    )
    use = ToolUsePart(id="call_1", name="fs__read", arguments={"path": "/a"}, provider_id="theirs_1")
    return (
        Message(role="user", parts=(TextPart("look"), ImagePart("image/png", PICTURE))),
        Message(role="assistant", parts=(ThinkingPart("hm", replay), TextPart("Reading."), use), model=model),
        Message(
            role="tool",
            parts=(ToolReturnPart("call_1", "fs__read", "RESULT", images=(ImagePart("image/png", PICTURE + "AAAA"),)),),
        ),
    )


@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_results_images_and_reasoning_are_in_the_body(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    model = create_model(api_route, base, worker)
    await ask_model(model, *conversation(model.name))
    body = json.dumps(ours.bodies[-1])
    assert "RESULT" in body
    assert PICTURE in body
    assert PICTURE + "AAAA" in body
    assert "fs__read" in body
    assert "Be brief." in body
    assert ("SIGNATURE" in body) == (api_route == "anthropic")


async def test_an_image_in_a_result_follows_as_a_user_message_on_the_openai_route(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    model = create_model("openai", base, worker)
    await ask_model(model, *conversation(model.name))
    *_before, result, pictures = ours.bodies[-1]["messages"]
    assert (result["role"], result["tool_call_id"]) == ("tool", "theirs_1")
    assert isinstance(result["content"], str)
    assert pictures["role"] == "user"
    assert PICTURE + "AAAA" in json.dumps(pictures)


async def test_two_thousand_words_arrive_completely(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.pause, ours.ending = 2_000, 0, "close"
    reply = await ask_model(create_model("openai", base, worker), "hi")
    assert reply.text == "".join(f"w{number} " for number in range(2_000))


@pytest.mark.parametrize(("name", "key"), [("nosuch/model", ""), ("nosuch/model", "K"), ("nosuch", "")])
async def test_an_unknown_name_is_one_clear_error_and_not_a_missing_key(
    name: str, key: str, worker: WorkerProcess
) -> None:
    model = LiteLlmModel(ModelConfig(name=name, api_key_env=key), worker, environ={"K": "x" * 20})
    with pytest.raises(ModelError, match=name) as exc_info:
        await model.prepare()
    assert exc_info.value.model_kind == "bad_request"
    assert "provider/model" in exc_info.value.hint


async def test_a_bare_name_at_an_own_address_is_an_openai_server(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    await ask_model(LiteLlmModel(ModelConfig(name="qwen3", api_base=f"{base}/v1"), worker, environ={}), "hi")
    assert ours.bodies[0]["model"] == "qwen3"
    assert "/v1/chat/completions" in ours.heads[0]


@pytest.mark.req("llm.openai.store")
@pytest.mark.parametrize("name", ["openai/gpt-4o", "qwen3"])
async def test_chat_completions_are_not_stored_either(
    name: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words = 1
    await ask_model(LiteLlmModel(ModelConfig(name=name, api_base=f"{base}/v1"), worker, environ={}), "hi")
    assert "/v1/chat/completions" in ours.heads[0]
    assert ours.bodies[0]["store"] is False


@pytest.mark.parametrize("api_route", ["anthropic", "gemini"])
async def test_a_provider_without_a_store_option_is_not_sent_it(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words = 1
    await ask_model(create_model(api_route, base, worker), "hi")
    assert "store" not in ours.bodies[0]


async def test_a_model_that_litellm_itself_sends_to_responses_is_not_stored_either(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words = 1
    config = ModelConfig(name="openai/gpt-5-codex", api_base=f"{base}/v1")
    await ask_model(LiteLlmModel(config, worker, environ={}), "hi")
    assert "/v1/responses" in ours.heads[0]
    assert ours.bodies[0]["store"] is False


@pytest.mark.parametrize("name", ["openai/qwen3", "openai/gpt-5", "hosted_vllm/qwen3", "lm_studio/qwen3"])
async def test_reasoning_effort_is_sent_to_custom_servers(
    name: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    config = ModelConfig(name=name, api_base=f"{base}/v1", reasoning_effort="low", max_output_tokens=7)
    reply = await ask_model(LiteLlmModel(config, worker, environ={}), "hi")
    assert ours.bodies, reply.error
    assert ours.bodies[0]["reasoning_effort"] == "low"
    assert 7 in (ours.bodies[0].get("max_tokens"), ours.bodies[0].get("max_completion_tokens"))
    assert "tools" in ours.bodies[0]


@pytest.mark.req("samp.tools.choice")
@pytest.mark.req("samp.parameters")
@pytest.mark.req("samp.max-tokens")
async def test_the_parameters_of_a_sampling_reach_the_provider_and_unsupported_ones_are_left_out(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    tool = ToolSpec("look", "", Raw(b'{"type":"object","properties":{}}'))
    wishes = ModelRequest(
        messages=(Message(role="user", parts=(TextPart("hi"),)),),
        tools=(tool,),
        max_output_tokens=9,
        tool_choice="required",
        temperature=0.25,
    )
    for name in ("openai/qwen3", "openai/gpt-5"):
        model = LiteLlmModel(ModelConfig(name=name, api_base=f"{base}/v1", max_output_tokens=50), worker, environ={})
        with suppress(ModelError):
            async with model.stream(wishes) as events:
                await anext(events)
    plain, thinker = ours.bodies
    assert (plain["tool_choice"], plain["temperature"]) == ("required", 0.25)
    assert 9 in (plain.get("max_tokens"), plain.get("max_completion_tokens"))
    assert thinker["tool_choice"] == "required"
    assert "temperature" not in thinker


async def test_an_unsupported_model_parameter_is_reported_and_not_dropped(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    config = ModelConfig(name="groq/llama-3.1-8b-instant", api_base=base, reasoning_effort="low", api_key_env="K")
    reply = await ask_model(LiteLlmModel(config, worker, environ={"K": "x"}), "hi")
    assert reply.error is not None
    assert reply.error.message == "groq/llama-3.1-8b-instant does not accept reasoning_effort; nothing was sent."
    assert not ours.bodies


@pytest.mark.parametrize("garbage", [b"not http at all\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n<html>hello</html>", b""])
@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_server_that_speaks_another_protocol_is_one_clear_error(
    api_route: str, garbage: bytes, worker: WorkerProcess
) -> None:
    async def babble(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(garbage or b"\x00" * 1000)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, babble)
        with anyio.fail_after(20):
            reply = await ask_model(create_model(api_route, f"http://127.0.0.1:{port}", worker), "hi")
        group.cancel_scope.cancel()
    assert reply.text == ""
    assert reply.error is not None
    assert "Traceback" not in str(reply.error)
    assert KEY not in str(reply.error) + reply.error.details
