"""Tests for both OpenAI APIs: the requests that are sent, and how the answers are parsed."""

import json
import os
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from mcphost.config.schema import ModelConfig
from mcphost.llm import worker_client
from mcphost.llm.litellm_model import LiteLlmModel
from mcphost.llm.messages import ImagePart, Message, TextPart, ThinkingPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ThinkingDelta
from mcphost.llm.worker_client import WorkerProcess
from tests.fakes.model import user_message
from tests.flows.fork_server import model_worker_command
from tests.peers.models.model_requests import TOOLS, ask_model, create_model
from tests.peers.models.raw_provider import Json, RawProvider, responses_event

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
ITEM: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"}
NOTED: Json = {"type": "reasoning", "id": "rs_0", "summary": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "fs__read", "status": "completed"}
FILTERED = {"incomplete_details": {"reason": "content_filter"}}
TOO_LONG = {"incomplete_details": {"reason": "max_output_tokens"}}
REFUSAL = {"type": "refusal", "refusal": "I cannot."}
REFUSED: Json = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [REFUSAL]}


def completion_chunk(delta: Json, reason: str | None = None) -> Json:
    """Return one chunk of an answer from the Chat Completions API."""
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


def text_delta(text: str, kind: str = "output_text") -> Json:
    return responses_event(f"{kind}.delta", item_id="i", content_index=0, delta=text)


def final_event(status: str, *output: Json, **members: Any) -> Json:
    fields = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "usage": USAGE}
    settings: Json = {"parallel_tool_calls": True, "tools": [], "tool_choice": "auto"}
    return responses_event(status, response={**fields, **settings, "status": status, "output": list(output), **members})


def tool_call_events(*pieces: str) -> list[Json]:
    """Return a streamed answer of the Responses API: reasoning, and a tool call whose arguments arrive in pieces."""
    whole = {**CALL, "arguments": "".join(pieces)}
    added = responses_event("output_item.added", item={**whole, "arguments": ""})
    done = responses_event("output_item.done", item=whole)
    deltas = [responses_event("function_call_arguments.delta", item_id="fc_1", delta=piece) for piece in pieces]
    return [
        responses_event("output_item.done", item=ITEM),
        added,
        *deltas,
        done,
        final_event("completed", NOTED, ITEM, whole),
    ]


SPOKEN = [completion_chunk({"content": "s "}), completion_chunk({"content": "o"})]
ENDINGS = {
    "chat stop": ("openai", [*SPOKEN, completion_chunk({}, "stop")], "stop"),
    "chat length": ("openai", [*SPOKEN, completion_chunk({}, "length")], "length"),
    "chat filter": (
        "openai",
        [*SPOKEN, completion_chunk({}, "content_filter")],
        "content_filter",
    ),
    "responses completed": ("responses", [text_delta("s "), text_delta("o"), final_event("completed")], "stop"),
    "responses incomplete": ("responses", [text_delta("s o"), final_event("incomplete", **TOO_LONG)], "length"),
    "responses filter": ("responses", [text_delta("s o"), final_event("incomplete", **FILTERED)], "content_filter"),
}


@pytest.mark.req("llm.both-apis", "llm.openai.finish", "llm.openai.output")
@pytest.mark.parametrize("case", list(ENDINGS))
async def test_every_end_of_an_answer_is_one_stop_reason_in_both_apis(
    case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    api_route, ours.script, reason = ENDINGS[case]
    reply = await ask_model(create_model(api_route, base, worker), "hi")
    assert (reply.text, reply.finished.reason) == ("s o", reason)
    assert reply.finished.api_route == ("responses" if api_route == "responses" else "chat")


REFUSALS = {
    "openai": [
        completion_chunk({"refusal": "I can"}),
        completion_chunk({"refusal": "not."}),
        completion_chunk({}, "stop"),
    ],
    "responses": [text_delta("I can", "refusal"), text_delta("not.", "refusal"), final_event("completed", REFUSED)],
}


@pytest.mark.req("llm.openai.finish")
@pytest.mark.parametrize("api_route", list(REFUSALS))
async def test_the_text_of_a_refusal_is_shown_and_it_ends_as_one(
    api_route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = REFUSALS[api_route]
    reply = await ask_model(create_model(api_route, base, worker), "hi")
    assert (reply.text, reply.finished.reason) == ("I cannot.", "content_filter")


@pytest.mark.req("llm.openai.output", "llm.openai.streaming")
async def test_events_of_responses_are_joined_and_unknown_ones_are_ignored(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    strange = responses_event("something.new", delta="never shown")
    ours.script = [text_delta("Let me "), strange, text_delta("look."), *tool_call_events('{"path": ', '"/a"}')]
    reply = await ask_model(create_model("responses", base, worker), "hi")
    assert reply.text == "Let me look."
    assert [(use.name, use.arguments) for use in reply.uses] == [("fs__read", {"path": "/a"})]


@pytest.mark.req("llm.openai.reasoning")
async def test_reasoning_effort_is_written_as_each_api_has_it(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    for api in ("auto", "responses"):
        config = ModelConfig(name="openai/gpt-5", api_base=f"{base}/v1", api=api, reasoning_effort="low")
        await ask_model(LiteLlmModel(config, worker, environ={}), "hi")
    chat, responses = ours.bodies
    assert (chat["reasoning_effort"], chat.get("reasoning")) == ("low", None)
    assert (responses.get("reasoning_effort"), responses["reasoning"]["effort"]) == (None, "low")


@pytest.fixture(scope="module")
async def proxied_worker(anyio_backend: str) -> AsyncGenerator[tuple[WorkerProcess, list[str]]]:
    """Run a model worker that reaches every address through a server on loopback; yield it and the requested URLs."""
    urls: list[str] = []

    async def refuse(stream: SocketStream) -> None:
        async with stream:
            head = await stream.receive()
            urls.append(head.split(b" ")[1].decode())
            await stream.send(b"HTTP/1.1 400 no\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        proxy = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker_client, "WORKER_COMMAND", model_worker_command())
            process = WorkerProcess(urls.append, {**os.environ, "HTTP_PROXY": proxy, "http_proxy": proxy})
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, refuse)
                await process.ensure_ready()
                yield process, urls
                group.cancel_scope.cancel()
            await process.close()


@pytest.mark.req("llm.both-apis", "llm.openai.reasoning")
@pytest.mark.parametrize(
    ("name", "base", "path"),
    [
        ("gpt-5", "http://api.openai.com/v1", "/v1/responses"),
        ("gpt-5-mini", "http://api.openai.com/v1", "/v1/responses"),
        ("o3", "http://eu.api.openai.com/v1", "/v1/responses"),
        ("o4-mini", "http://api.openai.com/v1", "/v1/responses"),
        ("gpt-4o", "http://api.openai.com/v1", "/v1/chat/completions"),
        ("gpt-5", "http://models.example.com/v1", "/v1/chat/completions"),
        ("gpt-5", "http://api.openai.com.example/v1", "/v1/chat/completions"),
    ],
)
async def test_reasoning_models_use_responses_at_openais_own_address_only(
    name: str, base: str, path: str, proxied_worker: tuple[WorkerProcess, list[str]]
) -> None:
    worker, urls = proxied_worker
    urls.clear()
    config = ModelConfig(name=f"openai/{name}", api_base=base, api_key_env="K")
    await ask_model(LiteLlmModel(config, worker, environ={"K": "sk-test"}), "hi")
    assert urls[:1] == [f"{base.removesuffix('/v1')}{path}"]


UNVERIFIED = "Your organization must be verified to generate reasoning summaries. Please go to: https://…"


@pytest.mark.req("llm.openai.reasoning")
async def test_a_summary_of_the_reasoning_is_requested_until_the_provider_refuses_it(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, base = raw_provider
    ours.words, ours.ending, ours.pause = 2, "complete", 0
    await ask_model(create_model("responses", base, worker), "hi")
    assert ours.bodies[0]["reasoning"] == {"summary": "auto"}

    def refuse(body: Json) -> str:
        return UNVERIFIED if "summary" in body.get("reasoning", {}) else ""

    monkeypatch.setattr(ours, "_refuse_tools", refuse)
    first, second = [await ask_model(create_model("responses", base, worker), "hi") for _ in range(2)]
    assert (first.text, second.text) == ("w0 w1 ", "w0 w1 ")
    assert [body.get("reasoning") for body in ours.bodies[1:]] == [{"summary": "auto"}, None, None]


async def test_no_summary_is_requested_from_a_model_that_does_not_reason(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    config = ModelConfig(name="openai/gpt-4o", api_base=f"{base}/v1", api="responses")
    await ask_model(LiteLlmModel(config, worker, environ={}), "hi")
    assert "reasoning" not in ours.bodies[0]


@pytest.mark.req("llm.openai.reasoning")
async def test_reasoning_of_responses_is_returned_with_the_result_of_its_call(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = tool_call_events("{}")
    model = create_model("responses", base, worker)
    reply = await ask_model(model, "hi")
    replay = [thought.replay for thought in reply.events_of(ThinkingDelta)][-1]
    message = Message(role="assistant", parts=(ThinkingPart("", replay), *reply.uses), model=model.name)
    results = Message(role="tool", parts=tuple(ToolReturnPart(use.id, use.name, "fine") for use in reply.uses))
    ours.script, ours.status = [], 400
    await ask_model(model, user_message("hi"), message, results)
    kinds = [item["type"] for item in ours.bodies[-1]["input"]]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    assert ours.bodies[-1]["input"][1] == ITEM
    for other in (create_model("openai", base, worker), LiteLlmModel(chat_config(base), worker, environ={})):
        await ask_model(other, user_message("hi"), message, results)
        assert "SEALED" not in json.dumps(ours.bodies[-1])


@pytest.mark.req("llm.openai.reasoning", "llm.openai.state")
async def test_each_reasoning_item_of_responses_is_returned_before_what_it_led_to(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    first: Json = {**ITEM, "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look."}]}
    second = {**ITEM, "id": "rs_2"}
    calls: list[Json] = [
        {**CALL, "id": f"fc_{number}", "call_id": f"call_{number}", "arguments": "{}"} for number in (1, 2)
    ]
    spoken: Json = {"type": "output_text", "text": "Hm.", "annotations": []}
    text: Json = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [spoken]}
    items = [first, text, calls[0], second, calls[1]]
    thought = responses_event("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="Look.")
    done = [responses_event("output_item.done", item=item) | {"output_index": at} for at, item in enumerate(items)]
    ours.script = [thought, *done, final_event("completed", *items)]
    model = create_model("responses", base, worker)
    reply = await ask_model(model, "hi")
    assert (reply.thinking, reply.text, reply.finished.reason) == ("Look.", "Hm.", "tool_calls")
    replay = [one.replay for one in reply.events_of(ThinkingDelta)][-1]
    parts = (ThinkingPart("Look.", replay), TextPart("Hm."), ThinkingPart("", replay), *reply.uses)
    results = tuple(
        ToolReturnPart(use.id, use.name, "", images=(ImagePart("image/png", "AAAA"),)) for use in reply.uses
    )
    ours.script, ours.status = [], 400
    await ask_model(
        model,
        user_message("hi"),
        Message(role="assistant", parts=parts, model=model.name),
        Message(role="tool", parts=results),
    )
    sent = ours.bodies[-1]["input"]
    kinds = ["message", "reasoning", "message", "function_call", "reasoning", "function_call"]
    assert [item["type"] for item in sent] == [*kinds, "function_call_output", "function_call_output"]
    assert (sent[1], sent[4]) == (first, second)
    assert [item.get("call_id") for item in (sent[3], *sent[5:])] == ["call_1", "call_2", "call_1", "call_2"]
    assert [part["type"] for part in sent[6]["output"]] == ["input_image"]
    assert ours.bodies[-1]["include"] == ["reasoning.encrypted_content"]
    assert {tool["strict"] for tool in ours.bodies[-1]["tools"]} == {False}


@pytest.mark.parametrize(
    "event",
    [
        final_event("failed", error={"code": "server_error", "message": "It broke here."}),
        {"type": "error", "sequence_number": 2, "code": "server_error", "message": "It broke here.", "param": None},
    ],
    ids=["failed", "error"],
)
async def test_a_response_that_fails_after_some_text_keeps_it_and_says_why(
    event: Json, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [text_delta("so"), event]
    reply = await ask_model(create_model("responses", base, worker), "hi")
    assert reply.text == "so"
    assert reply.error is not None
    assert "It broke here." in f"{reply.error.message} {reply.error.hint}"


async def test_items_that_come_only_as_a_whole_are_read(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    whole = {**CALL, "arguments": '{"path": "/a"}'}
    texts = [text_delta("One."), {**text_delta("Two."), "output_index": 1}]
    done = {**responses_event("output_item.done", item=whole), "output_index": 2}
    ours.script = [*texts, done, final_event("completed", whole)]
    reply = await ask_model(create_model("responses", base, worker), "hi")
    assert reply.text == "One.\n\nTwo."
    assert [(use.name, use.arguments) for use in reply.uses] == [("fs__read", {"path": "/a"})]


def chat_config(base: str) -> ModelConfig:
    """Return the configuration that uses the reasoning model through the Chat Completions API."""
    return ModelConfig(name="openai/gpt-5", api_base=f"{base}/v1", api="auto")


@pytest.mark.req("llm.tools-to-model", "llm.openai.input", "llm.openai.functions", "llm.openai.state")
async def test_the_conversation_and_its_tools_are_written_in_the_form_of_each_api(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    use = ToolUsePart(id="ours_1", name="fs__read", arguments={"path": "/a"}, provider_id="theirs_1")
    for api_route in ("openai", "responses"):
        model = create_model(api_route, base, worker)
        message = Message(role="assistant", parts=(TextPart("Reading."), use), model=model.name)
        result = Message(role="tool", parts=(ToolReturnPart("ours_1", "fs__read", "RESULT"),))
        answer = Message(role="assistant", parts=(TextPart("It is short."),), model=model.name)
        await ask_model(model, user_message("read it"), message, result, answer, user_message("and now?"))
    chat, responses = ours.bodies
    assert [(message["role"], message.get("tool_call_id"), message["content"]) for message in chat["messages"]] == [
        ("system", None, "Be brief."),
        ("user", None, "read it"),
        ("assistant", None, "Reading."),
        ("tool", "theirs_1", "RESULT"),
        ("assistant", None, "It is short."),
        ("user", None, "and now?"),
    ]
    (call,) = chat["messages"][2]["tool_calls"]
    assert (call["id"], call["function"]["name"]) == ("theirs_1", "fs__read")
    assert [(item.get("role") or item["type"], item.get("call_id")) for item in responses["input"]] == [
        ("user", None),
        ("assistant", None),
        ("function_call", "theirs_1"),
        ("function_call_output", "theirs_1"),
        ("assistant", None),
        ("user", None),
    ]
    assert "messages" not in responses
    assert "previous_response_id" not in responses
    for tool, nested, flat in zip(TOOLS, chat["tools"], responses["tools"], strict=True):
        for written in (nested["function"], flat):
            assert (written["name"], written["description"]) == (tool.name, tool.description)
            assert written["parameters"] == json.loads(bytes(tool.schema))
