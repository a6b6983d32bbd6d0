"""Tests for each provider's API with the real worker: how answers are parsed, and the bytes of the next request.

The formats are taken from the API references of OpenAI (Chat Completions, Responses), Anthropic (Messages), Google
(`streamGenerateContent`) and Ollama (`/api/chat`), and, for `reasoning_content`, of DeepSeek, vLLM and llama.cpp.
"""

import json
from typing import Any

import pytest

from mcphost.config.schema import ModelConfig
from mcphost.llm import providers
from mcphost.llm.litellm_model import LiteLlmModel
from mcphost.llm.messages import ImagePart, Message, TextPart, ThinkingPart, ToolReturnPart
from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import (
    API_ROUTES,
    KEY,
    PICTURE,
    TOOLS,
    ModelRound,
    always_has_list_prices,
    ask_model,
)
from tests.peers.models.raw_provider import (
    Json,
    RawProvider,
    chunk,
    gemini_chunk,
    ollama_chunk,
    responses_event,
)

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
ROADS = pytest.mark.parametrize("road", list(API_ROUTES))
URL = f"data:image/png;base64,{PICTURE}"
IMAGE = ImagePart("image/png", PICTURE)
ASKED = Message(role="user", parts=(TextPart("look"), IMAGE))
READ, GET = '{"path":"/a"}', '{"url":"x"}'


def call_chunk(index: int, call_id: str, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})


CHAT_USAGE = {"prompt_tokens": 9000, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8000}}
CHAT = [
    chunk({"role": "assistant", "content": "Two."}),
    call_chunk(0, "t_1", "fs__read", READ[:8]),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": READ[8:]}}]}),
    call_chunk(1, "t_2", "web__get", GET),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": {**CHAT_USAGE, "total_tokens": 9005}},
]


SEALED = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "SEALED",
}
ITEMS: list[Json] = [
    SEALED,
    {"type": "message", "id": "i", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Two.", "annotations": []}]},
    {"type": "function_call", "id": "f1", "call_id": "t_1", "name": "fs__read", "arguments": READ},
    {"type": "function_call", "id": "f2", "call_id": "t_2", "name": "web__get", "arguments": GET},
]  # fmt: skip
RESPONSE: Json = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "status": "completed", "output": ITEMS,
    "parallel_tool_calls": True, "tools": [], "tool_choice": "auto",
    "usage": {"input_tokens": 9000, "output_tokens": 5, "total_tokens": 9005,
              "input_tokens_details": {"cached_tokens": 8000}, "output_tokens_details": {"reasoning_tokens": 3}},
}  # fmt: skip
BLOCKS: list[tuple[Json, Json]] = [
    ({"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "Hm."}),
    ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Two."}),
    ({"type": "tool_use", "id": "t_1", "name": "fs__read", "input": {}},
     {"type": "input_json_delta", "partial_json": READ}),
    ({"type": "tool_use", "id": "t_2", "name": "web__get", "input": {}},
     {"type": "input_json_delta", "partial_json": GET}),
]  # fmt: skip


def anthropic_script() -> list[Json]:
    usage = {"input_tokens": 1000, "output_tokens": 1, "cache_read_input_tokens": 8000}
    message: Json = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": {**message, "stop_reason": None}}]
    for index, (block, delta) in enumerate(BLOCKS):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        if block["type"] == "thinking":
            signature = {"type": "signature_delta", "signature": "SIGNED"}
            events.append({"type": "content_block_delta", "index": index, "delta": signature})
        events.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}
    return [*events, end, {"type": "message_stop"}]


SCRIPTS: dict[str, list[Json]] = {
    "openai": CHAT,
    "responses": [
        responses_event("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="Hm."),
        *(responses_event("output_item.done", item=item, output_index=at) for at, item in enumerate(ITEMS)),
        responses_event("completed", response=RESPONSE),
    ],
    "anthropic": anthropic_script(),
    "gemini": [
        gemini_chunk({"text": "Hm.", "thought": True}),
        gemini_chunk({"text": "Two."}),
        gemini_chunk(
            {"functionCall": {"name": "fs__read", "args": {"path": "/a"}}, "thoughtSignature": "U0lHTkVE"},
            {"functionCall": {"name": "web__get", "args": {"url": "x"}}},
            finishReason="STOP",
        )
        | {
            "usageMetadata": {
                "promptTokenCount": 9000,
                "cachedContentTokenCount": 8000,
                "candidatesTokenCount": 5,
                "totalTokenCount": 9005,
            }
        },
    ],
    "ollama": [
        ollama_chunk(thinking="H"),
        ollama_chunk(thinking="m."),
        ollama_chunk(content="Two."),
        ollama_chunk(
            tool_calls=[
                {"function": {"name": "fs__read", "arguments": {"path": "/a"}}},
                {"function": {"name": "web__get", "arguments": {"url": "x"}}},
            ]
        ),
        ollama_chunk(done=True),
    ],
    "compatible": [chunk({"reasoning_content": "H"}), chunk({"reasoning_content": "m."}), *CHAT],
}
"""An answer that reasons, says "Two." and makes two calls, as each API streams it."""

CALLS = [
    {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    for call_id, name, arguments in (("t_1", "fs__read", READ), ("t_2", "web__get", GET))
]
SYSTEM = {"role": "system", "content": "Be brief."}
IMAGE_ITEM = {"type": "image_url", "image_url": {"url": URL}}
CHAT_ASKED = {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE_ITEM]}
CHAT_RESULTS = [
    *({"role": "tool", "tool_call_id": call_id, "content": "fine\n(Its images follow.)"} for call_id in ("t_1", "t_2")),
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Images returned by the tool fs__read:"},
            IMAGE_ITEM,
            {"type": "text", "text": "Images returned by the tool web__get:"},
            IMAGE_ITEM,
        ],
    },
]
INPUT_IMAGE = {"type": "input_image", "image_url": URL, "detail": "auto"}
CLAUDE_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
CLAUDE_RESULT = [{"type": "text", "text": "fine"}, CLAUDE_IMAGE]
INLINE = {"inline_data": {"data": PICTURE, "mime_type": "image/png"}}

WANTED: dict[str, list[Json]] = {
    "openai": [SYSTEM, CHAT_ASKED, {"role": "assistant", "content": "Two.", "tool_calls": CALLS}, *CHAT_RESULTS],
    "compatible": [
        SYSTEM,
        CHAT_ASKED,
        {"role": "assistant", "content": "Two.", "tool_calls": CALLS, "reasoning_content": "Hm."},
        *CHAT_RESULTS,
    ],
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}, INPUT_IMAGE]},
        SEALED,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Two."}]},
        {"type": "function_call", "call_id": "t_1", "name": "fs__read", "arguments": READ},
        {"type": "function_call", "call_id": "t_2", "name": "web__get", "arguments": GET},
        *(
            {"type": "function_call_output", "call_id": call_id,
             "output": [{"type": "input_text", "text": "fine"}, INPUT_IMAGE]}
            for call_id in ("t_1", "t_2")
        ),
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "look"}, CLAUDE_IMAGE]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "SIGNED"},
                {"type": "text", "text": "Two."},
                {"type": "tool_use", "id": "t_1", "name": "fs__read", "input": {"path": "/a"}},
                {"type": "tool_use", "id": "t_2", "name": "web__get", "input": {"url": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call_id, "content": CLAUDE_RESULT} for call_id in ("t_1", "t_2")
            ],
        },
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "look"}, INLINE]},
        {
            "role": "model",
            "parts": [
                {"text": "Two."},
                {"function_call": {"name": "fs__read", "args": {"path": "/a"}}, "thoughtSignature": "U0lHTkVE"},
                {"function_call": {"name": "web__get", "args": {"url": "x"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"function_response": {"name": "fs__read", "response": {"content": "fine"}}},
                INLINE,
                {"function_response": {"name": "web__get", "response": {"content": "fine"}}},
                INLINE,
            ],
        },
    ],
    "ollama": [
        SYSTEM,
        {"role": "user", "content": "look", "images": [PICTURE]},
        {
            "role": "assistant",
            "thinking": "Hm.",
            "content": "Two.",
            "tool_calls": [
                {"function": {"name": "fs__read", "arguments": {"path": "/a"}}},
                {"function": {"name": "web__get", "arguments": {"url": "x"}}},
            ],
        },
        {"role": "tool", "tool_name": "fs__read", "content": "fine", "images": [PICTURE]},
        {"role": "tool", "tool_name": "web__get", "content": "fine", "images": [PICTURE]},
    ],
}  # fmt: skip
"""The conversation in the request after the answer and the results of its two calls, each with an image."""


def without_extras(value: Any, road: str) -> Any:
    """Return a sent message without cache markers and, for Ollama, without empty lists and call ids."""
    if isinstance(value, list):
        return [without_extras(item, road) for item in value]
    if not isinstance(value, dict):
        return value
    left_out = {"cache_control"} | ({"id", "tool_call_id"} if road == "ollama" else set())
    members: Json = {name: without_extras(member, road) for name, member in value.items() if name not in left_out}
    return {name: member for name, member in members.items() if road != "ollama" or member != []}


def road_model(road: str, base: str, worker: WorkerProcess, **settings: Any) -> LiteLlmModel:
    name, path, api = API_ROUTES[road]
    config = ModelConfig(**{"name": name, "api_base": base + path, "api": api, "api_key_env": "KEY", **settings})
    return LiteLlmModel(config, worker, environ={"KEY": KEY})


async def continue_with_results(model: LiteLlmModel, reply: ModelRound) -> None:
    """Send the next request: the model's answer, and for each of its calls a result with an image."""
    replay = next((event.replay for event in reversed(reply.events) if getattr(event, "replay", "")), "")
    thinking = (ThinkingPart(reply.thinking, replay),) if reply.thinking else ()
    answer = Message(role="assistant", parts=(*thinking, TextPart(reply.text), *reply.uses), model=model.name)
    results = tuple(ToolReturnPart(use.id, use.name, "fine", images=(IMAGE,)) for use in reply.uses)
    await ask_model(model, ASKED, answer, Message(role="tool", parts=results))


def sent_conversation(body: Json) -> list[Json]:
    return next(body[key] for key in ("messages", "input", "contents") if key in body)


@pytest.mark.req("llm.providers", "llm.openai.functions", "llm.openai.reasoning", "llm.openai.modalities")
@ROADS
async def test_reasoning_text_and_parallel_calls_are_read_and_sent_back_in_the_form_of_each_api(
    road: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = SCRIPTS[road]
    model = road_model(road, base, worker)
    reply = await ask_model(model, ASKED)
    assert (reply.text, reply.finished.reason) == ("Two.", "tool_calls")
    assert reply.thinking == ("" if road == "openai" else "Hm.")  # OpenAI's Chat Completions do not disclose any
    assert [(use.name, use.arguments) for use in reply.uses] == [
        ("fs__read", {"path": "/a"}),
        ("web__get", {"url": "x"}),
    ]
    await continue_with_results(model, reply)
    assert without_extras(sent_conversation(ours.bodies[-1]), road) == WANTED[road]


@pytest.mark.parametrize("first", ["slow", "list_notes"])
async def test_calls_that_ollama_sends_one_by_one_without_ids_stay_separate(
    first: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    calls = [("slow", {"steps": 60}), ("list_notes", {}), ("hello", {"name": "Ada"})]
    calls = calls if first == "slow" else [calls[1], calls[0], calls[2]]
    ours.script = [
        *(ollama_chunk(tool_calls=[{"function": {"name": name, "arguments": values}}]) for name, values in calls),
        ollama_chunk(done=True),
    ]
    reply = await ask_model(road_model("ollama", base, worker), ASKED)
    assert [(use.name, use.arguments) for use in reply.uses] == calls


@pytest.mark.req("llm.prompt-cache")
@ROADS
async def test_cached_tokens_are_counted_and_what_they_saved_where_the_price_is_known(
    road: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "has_list_prices", always_has_list_prices)
    ours, base = raw_provider
    ours.script = SCRIPTS[road]
    usage = (await ask_model(road_model(road, base, worker), ASKED)).finished.usage
    counted = (usage.input_tokens, usage.cached_tokens)
    assert counted == ((3, 0) if road == "ollama" else (9000, 8000))
    assert (usage.saved > 0) == (road not in ("ollama", "compatible"))


@pytest.mark.parametrize(("cached_price", "cost", "saved"), [(0.5, 0.006, 0.012), (None, 0.018, 0)])
async def test_cached_tokens_cost_their_own_price_if_one_is_configured(
    worker: WorkerProcess,
    raw_provider: tuple[RawProvider, str],
    cached_price: float | None,
    cost: float,
    saved: float,
) -> None:
    ours, base = raw_provider
    ours.script = SCRIPTS["openai"]
    prices = {"input_price": 2.0, "output_price": 0.0, "cached_input_price": cached_price}
    model = road_model("openai", base, worker, **prices)
    usage = (await ask_model(model, ASKED)).finished.usage
    assert (usage.cost, usage.saved) == (pytest.approx(cost), pytest.approx(saved))
    assert model.facts.cached_input_price == (None if cached_price is None else pytest.approx(5e-7))


TOOL = TOOLS[0]
PARAMETERS = json.loads(bytes(TOOL.schema))
FUNCTION = {"name": TOOL.name, "description": TOOL.description}
SETTINGS: dict[str, Json] = {
    "openai": {"tools": [{"type": "function", "function": {**FUNCTION, "parameters": PARAMETERS}}], "store": False},
    "compatible": {
        "tools": [{"type": "function", "function": {**FUNCTION, "parameters": PARAMETERS}}],
        "reasoning_effort": "low",
    },
    "responses": {
        "tools": [{"type": "function", **FUNCTION, "parameters": PARAMETERS, "strict": False}],
        "reasoning": {"effort": "low", "summary": "auto"},
        "instructions": "Be brief.",
        "store": False,
        "include": ["reasoning.encrypted_content"],
    },
    "anthropic": {
        "tools": [{"type": "custom", **FUNCTION, "input_schema": PARAMETERS}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    },
    "gemini": {
        "tools": [{"function_declarations": [{**FUNCTION, "parameters": PARAMETERS}]}],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True}},
        "system_instruction": {"parts": [{"text": "Be brief."}]},
    },
    "ollama": {
        "tools": [{"type": "function", "function": {**FUNCTION, "parameters": PARAMETERS}}],
        "think": True,
    },
}
"""Members of a request with one tool and, except for gpt-4o, a low reasoning effort."""


@pytest.mark.req("llm.tools-to-model", "llm.openai.reasoning", "llm.openai.builtin-tools")
@ROADS
async def test_tools_effort_and_system_prompt_are_where_each_api_documents_them(
    road: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status = 400
    effort = {} if road == "openai" else {"reasoning_effort": "low"}
    await ask_model(road_model(road, base, worker, **effort), ASKED, tools=(TOOL,))
    (body,) = ours.bodies
    assert {name: body.get(name) for name in SETTINGS[road]} == SETTINGS[road]


async def test_deepseek_and_moonshot_get_the_reasoning_that_led_to_a_call(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    for name in ("deepseek/deepseek-reasoner", "moonshot/kimi-k2-thinking"):
        ours.script = SCRIPTS["compatible"]
        model = road_model("compatible", base, worker, name=name, tools="always")
        await continue_with_results(model, await ask_model(model, ASKED))
        (answer,) = (message for message in ours.bodies[-1]["messages"] if message["role"] == "assistant")
        assert answer["reasoning_content"] == "Hm.", name


async def test_reasoning_is_not_sent_as_text_without_a_call_to_another_model_or_to_openai(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = SCRIPTS["compatible"]
    model = road_model("compatible", base, worker)
    reply = await ask_model(model, ASKED)
    thinking = ThinkingPart("Hm.")
    plain = Message(role="assistant", parts=(thinking, TextPart("Two.")), model=model.name)
    await ask_model(model, ASKED, plain, "and?")
    await continue_with_results(road_model("compatible", base, worker, name="groq/openai/gpt-oss-120b"), reply)
    other = Message(role="assistant", parts=(thinking, *reply.uses), model="openai/another")
    await ask_model(model, ASKED, other)
    assert [body for body in ours.bodies if "reasoning_content" in json.dumps(body)] == []


@pytest.mark.req("llm.both-apis")
@pytest.mark.parametrize(("api", "path"), [("auto", "/v1/responses"), ("chat", "/v1/chat/completions")])
async def test_a_model_set_to_chat_stays_there_although_litellm_prefers_responses(
    api: str, path: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words = 1
    await ask_model(road_model("openai", base, worker, name="openai/gpt-5-codex", api=api), "hi")
    assert path in ours.heads[0]
    assert ours.bodies[0]["store"] is False


@pytest.mark.req("llm.both-apis")
@pytest.mark.parametrize(("api", "path"), [("auto", "/v1/chat/completions"), ("responses", "/v1/responses")])
async def test_a_model_set_to_responses_uses_that_api_although_litellm_prefers_chat(
    api: str, path: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words = 1
    await ask_model(road_model("compatible", base, worker, name="openai/our-own-model", api=api), "hi")
    assert path in ours.heads[0]
