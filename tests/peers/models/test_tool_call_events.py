"""Tests for tool calls whose arguments arrive in unusual events of the Anthropic and Responses APIs."""

from typing import Any

import pytest

from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import ask_model, create_model
from tests.peers.models.raw_provider import COMPLETED, Json, RawProvider, responses_event

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "fs__read", "status": "completed"}
PATHS = [("fs__read", {"path": "/a"}), ("fs__read", {"path": "/b"})]
TEXT: Json = {"type": "output_text", "text": "Only here.", "annotations": []}
MESSAGE: Json = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [TEXT]}


def final_event(status: str, *output: Json) -> Json:
    return responses_event(status, response={**COMPLETED["response"], "output": list(output)})


def added(call_id: str = "call_1") -> Json:
    return responses_event("output_item.added", item={**CALL, "call_id": call_id, "arguments": ""})


def arguments_delta(text: str) -> Json:
    return responses_event("function_call_arguments.delta", item_id="fc_1", delta=text)


def whole_call(arguments: Any) -> Json:
    return {**CALL, "arguments": arguments}


def done(path: str, call_id: str = "call_1") -> Json:
    item = {**whole_call(f'{{"path": "{path}"}}'), "call_id": call_id}
    return responses_event("output_item.done", item=item)


RESPONSES = {
    "at the end of the arguments": (
        [
            added(),
            responses_event("function_call_arguments.done", item_id="fc_1", arguments='{"path": "/a"}'),
            final_event("completed"),
        ],
        PATHS[:1],
    ),
    "in the last event only": ([final_event("completed", whole_call('{"path": "/a"}'))], PATHS[:1]),
    "as an object": ([responses_event("output_item.done", item=whole_call({"path": "/a"}))], PATHS[:1]),
    "of two calls with one index": (
        [
            added(),
            arguments_delta('{"path": "/a"}'),
            added("call_2"),
            arguments_delta('{"path": "/b"}'),
            final_event("completed"),
        ],
        PATHS,
    ),
    "of two calls with one index, the first of which ends late": (
        [added(), arguments_delta('{"path": "/a"}'), added("call_2"), done("/a"), done("/b", "call_2")],
        PATHS,
    ),
    "of two calls with one index, at their ends": (
        [added(), added("call_2"), done("/a"), done("/b", "call_2")],
        PATHS,
    ),
    "in complete calls with one index": ([done("/a"), done("/b", "call_2")], PATHS),
    "before the complete call": (
        [responses_event("function_call_arguments.done", item_id="fc_1", arguments='{"path": "/a"}'), done("/a")],
        PATHS[:1],
    ),
    "in pieces before the call begins": ([arguments_delta('{"path": "/a"}'), added(), done("/a")], PATHS[:1]),
}


@pytest.mark.parametrize("case", list(RESPONSES))
async def test_arguments_of_responses_are_read_wherever_they_are(
    case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    events, wanted = RESPONSES[case]
    ours.script = [*events] if "response" in events[-1] else [*events, final_event("completed")]
    reply = await ask_model(create_model("responses", base, worker), "hi")
    assert [(use.name, use.arguments) for use in reply.uses] == wanted
    assert reply.finished.reason == "tool_calls"


async def test_text_that_only_the_last_event_of_responses_has_is_read(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = [final_event("completed", MESSAGE)]
    reply = await ask_model(create_model("responses", base, worker), "hi")
    assert (reply.text, reply.finished.reason) == ("Only here.", "stop")


def anthropic_answer(*events: Json) -> list[Json]:
    """Return a streamed answer of Anthropic's Messages API with these events, which ends with tool calls."""
    message: Json = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x"}
    usage = {"input_tokens": 3, "output_tokens": 1}
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        *events,
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]


def block_start(index: int, arguments: Any) -> Json:
    block = {"type": "tool_use", "id": f"call_{index}", "name": "fs__read", "input": arguments}
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, text: str) -> Json:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def block_stop(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


ANTHROPIC: dict[str, tuple[list[Json], list[tuple[str, Json]]]] = {
    "at the start of the block": ([block_start(0, {"path": "/a"}), block_stop(0)], PATHS[:1]),
    "at the start and in pieces": (
        [block_start(0, {"path": "/x"}), block_delta(0, '{"path": "/a"}'), block_stop(0)],
        PATHS[:1],
    ),
    "of two blocks in turn": (
        [
            block_start(0, {}),
            block_start(1, {}),
            block_delta(0, '{"path": '),
            block_delta(1, '{"path": '),
            block_delta(0, '"/a"}'),
            block_delta(1, '"/b"}'),
            block_stop(0),
            block_stop(1),
        ],
        PATHS,
    ),
    "of two blocks, the first of which ends late": (
        [
            block_start(0, {}),
            block_delta(0, '{"path": "/a"}'),
            block_start(1, {}),
            block_delta(1, ""),
            block_stop(0),
            block_delta(1, '{"path": "/b"}'),
            block_stop(1),
        ],
        PATHS,
    ),
    "of two blocks in pieces with one index": (
        [
            block_start(0, {}),
            block_delta(0, '{"path": "/a"}'),
            block_stop(0),
            block_start(1, {}),
            block_delta(0, '{"path": "/b"}'),
            block_stop(0),
        ],
        PATHS,
    ),
    "at the start, before an empty piece": (
        [block_start(0, {"path": "/a"}), block_delta(0, ""), block_stop(0)],
        PATHS[:1],
    ),
    "nowhere, in a block that ends twice": (
        [block_start(0, {}), block_delta(0, ""), block_stop(0), block_stop(0)],
        [("fs__read", {})],
    ),
}


@pytest.mark.parametrize("case", list(ANTHROPIC))
async def test_arguments_of_anthropic_are_read_wherever_they_are(
    case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    events, wanted = ANTHROPIC[case]
    ours.script = anthropic_answer(*events)
    reply = await ask_model(create_model("anthropic", base, worker), "hi")
    assert [(use.name, use.arguments) for use in reply.uses] == wanted
    assert reply.finished.reason == "tool_calls"
