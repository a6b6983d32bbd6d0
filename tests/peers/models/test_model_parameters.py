"""Tests for model parameters as the real worker sends them, and for models that do not accept tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.remembered_models import ToolRefusals
from mcphost.config.schema import ModelConfig
from mcphost.llm import providers
from mcphost.llm.litellm_model import MAX_TOOL_SEARCHES, LiteLlmModel, ModelDeadlines
from mcphost.llm.messages import Message, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelRequest, ToolQuarantined, ToolSimplified, ToolSpec, ToolsRefused
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw, replace
from tests.fakes.model import user_message
from tests.peers.models.model_requests import API_ROUTES, KEY, TOOLS, always_has_list_prices, ask_model, create_model
from tests.peers.models.raw_provider import RawProvider, tool_names

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
REFUSALS = {
    "ollama": "registry.ollama.ai/library/gemma:2b does not support tools",
    "vllm": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "llama.cpp": "tools param requires --jinja flag",
    "openrouter": "No endpoints found that support tool use.",
    "groq": "`tool calling` is not supported with this model",
}


def create_unknown_model(
    base: str,
    worker: WorkerProcess,
    deadlines: ModelDeadlines | None = None,
    refusals: ToolRefusals | None = None,
    **settings: Any,
) -> LiteLlmModel:
    config = ModelConfig(name="openai/some-local-model", api_base=f"{base}/v1", api_key_env="TEST_KEY", **settings)
    environ = {"TEST_KEY": KEY, "TEAM": "research"}
    deadlines = deadlines or ModelDeadlines(retry_delay=0.01)
    load = None if refusals is None else lambda: refusals
    return LiteLlmModel(config, worker, environ=environ, deadlines=deadlines, load_refusals=load)


@pytest.fixture
def brief_provider(raw_provider: tuple[RawProvider, str]) -> tuple[RawProvider, str]:
    """A provider that answers immediately with two words."""
    ours, base = raw_provider
    ours.words, ours.ending, ours.pause = 2, "complete", 0
    return ours, base


async def test_temperature_top_p_and_headers_are_sent_to_the_provider(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    headers = {"X-Team": "${env:TEAM}"}
    model = create_unknown_model(base, worker, temperature=0.25, top_p=0.5, headers=headers)
    await ask_model(model, "hi")
    assert (ours.bodies[0]["temperature"], ours.bodies[0]["top_p"]) == (0.25, 0.5)
    assert "x-team: research" in ours.heads[0].lower()


async def test_parameters_that_are_not_set_are_not_sent(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    await ask_model(create_unknown_model(base, worker), "hi")
    assert not {"temperature", "top_p", "max_tokens", "reasoning_effort"} & ours.bodies[0].keys()


PARALLEL_OPTIONS: dict[str, Any] = {
    "openai": ("parallel_tool_calls", False),
    "responses": ("parallel_tool_calls", False),
    "anthropic": ("tool_choice", {"type": "auto", "disable_parallel_tool_use": True}),
    "gemini": ("parallel_tool_calls", None),
}


@pytest.mark.req("llm.parallel-calls")
@pytest.mark.parametrize("api_route", list(PARALLEL_OPTIONS))
async def test_a_model_is_told_to_ask_for_one_call_at_a_time_where_it_can_be_told(
    api_route: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    model = create_model(api_route, base, worker)
    request = ModelRequest(messages=(user_message("hi"),), tools=TOOLS)
    for is_parallel in (True, False):
        async with model.stream(replace(request, is_parallel=is_parallel)) as events:
            assert [event async for event in events]
    key, value = PARALLEL_OPTIONS[api_route]
    assert [body.get(key) for body in ours.bodies] == [None, value]


@pytest.mark.req("llm.providers")
@pytest.mark.parametrize("message", list(REFUSALS.values()), ids=list(REFUSALS))
async def test_a_model_that_refuses_tools_is_asked_again_without_them_and_gets_none_from_then_on(
    message: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.refuses_tools = message
    model = create_unknown_model(base, worker)
    first = await ask_model(model, "hi")
    assert first.error is None
    assert first.text == "w0 w1 "
    assert [message in refused.reason for refused in first.events_of(ToolsRefused)] == [True]
    assert ["tools" in body for body in ours.bodies] == [True, False]
    assert model.facts.supports_tools is False
    second = await ask_model(model, "again")
    assert not second.events_of(ToolsRefused)
    assert ["tools" in body for body in ours.bodies] == [True, False, False]


async def test_a_refusal_of_tools_is_remembered_in_the_next_run_until_it_is_forgotten(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str], tmp_path: Path
) -> None:
    ours, base = brief_provider
    ours.refuses_tools = REFUSALS["vllm"]
    refusals = ToolRefusals(tmp_path)

    def new_run(**settings: Any) -> LiteLlmModel:
        return create_unknown_model(base, worker, refusals=refusals, **settings)

    await ask_model(new_run(), "hi")
    assert ["tools" in body for body in ours.bodies] == [True, False]
    reply = await ask_model(new_run(), "hi")
    assert ["tools" in body for body in ours.bodies] == [True, False, False]
    (refused,) = reply.events_of(ToolsRefused)
    assert refused.reason == REFUSALS["vllm"]
    assert refused.refused_at == refusals.load()[0].refused_at
    await ask_model(new_run(tools="always"), "hi")
    assert "tools" in ours.bodies[-1]
    ours.refuses_tools = ""
    refusals.forget("openai/some-local-model", f"{base}/v1")
    reply = await ask_model(new_run(), "hi")
    assert "tools" in ours.bodies[-1]
    assert not reply.events_of(ToolsRefused)


async def test_a_refusal_is_not_remembered_if_the_request_without_tools_fails_too(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str], tmp_path: Path
) -> None:
    ours, base = brief_provider
    ours.refuses_tools, ours.status = REFUSALS["openrouter"], 400
    refusals = ToolRefusals(tmp_path)
    reply = await ask_model(create_unknown_model(base, worker, refusals=refusals), "hi")
    assert reply.error is not None
    assert refusals.load() == ()


async def test_a_model_set_to_never_gets_no_tools_and_says_so_once(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    model = create_unknown_model(base, worker, tools="never")
    replies = [await ask_model(model, "hi"), await ask_model(model, "again")]
    assert [reply.events_of(ToolsRefused) for reply in replies] == [[ToolsRefused()], []]
    assert not any("tools" in body for body in ours.bodies)


async def test_a_model_set_to_always_reports_the_refusal_as_an_error(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.refuses_tools = REFUSALS["ollama"]
    reply = await ask_model(create_unknown_model(base, worker, tools="always"), "hi")
    assert reply.error is not None
    assert "does not support tools" in reply.error.message
    assert len(ours.bodies) == 1


async def test_earlier_calls_and_results_are_sent_as_text_to_a_model_without_tools(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    conversation = (
        user_message("read it"),
        Message(role="assistant", parts=(TextPart("I will."), ToolUsePart("1", "fs__read", {"path": "a.txt"}))),
        Message(role="tool", parts=(ToolReturnPart("1", "fs__read", "content of a"),)),
        user_message("and now?"),
    )
    await ask_model(create_unknown_model(base, worker, tools="never"), *conversation)
    messages = ours.bodies[0]["messages"]
    assert "tool" not in {message["role"] for message in messages}
    assert not any("tool_calls" in message for message in messages)
    text = str(messages)
    assert "fs__read" in text
    assert "a.txt" in text
    assert "content of a" in text


def anthropic_stream(**usage: int) -> list[dict[str, Any]]:
    """Return the events of an answer from Anthropic; *usage* adds to its token counts."""
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "stop_reason": None}
    return [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 10, "output_tokens": 1, **usage}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


MARK = {"type": "ephemeral"}
CALL = ToolUsePart("toolu_1", "fs__read", {"path": "a.txt"})
LONG_CONVERSATION = (
    user_message("read it"),
    Message(role="assistant", parts=(TextPart("I will."), CALL)),
    Message(role="tool", parts=(ToolReturnPart("toolu_1", "fs__read", "content of a"),)),
)


async def test_the_prompt_and_the_conversation_are_marked_for_anthropics_cache(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "has_list_prices", always_has_list_prices)
    ours, base = brief_provider
    ours.script = anthropic_stream(cache_read_input_tokens=90_000, cache_creation_input_tokens=1_000)
    reply = await ask_model(create_model("anthropic", base, worker), *LONG_CONVERSATION)
    (body,) = ours.bodies
    assert body["system"][-1]["cache_control"] == MARK
    marks = [[part.get("cache_control") for part in message["content"]] for message in body["messages"]]
    assert marks == [[MARK], [None, None], [MARK]]
    usage = reply.finished.usage
    assert (usage.input_tokens, usage.cached_tokens) == (91_010, 90_000)
    assert usage.cost is not None
    # Sonnet 4.5 (dollars for a million tokens): input 3, read from the cache 0.30, written to it 3.75.
    assert usage.saved == pytest.approx(90_000 * 2.7e-6 - 1_000 * 0.75e-6)
    assert usage.cost == pytest.approx(10 * 3e-6 + 90_000 * 0.3e-6 + 1_000 * 3.75e-6 + 5 * 15e-6)


@pytest.mark.parametrize("name", ["openrouter/anthropic/claude-sonnet-4.5", "azure_ai/claude-sonnet-4-5"])
async def test_the_prompt_of_claude_is_marked_for_its_cache_at_other_providers(
    name: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    config = ModelConfig(name=name, api_base=base, api_key_env="TEST_KEY")
    await ask_model(LiteLlmModel(config, worker, environ={"TEST_KEY": KEY}), *LONG_CONVERSATION)
    (body,) = ours.bodies
    system = [{"content": body["system"]}] if "system" in body else []
    first, *conversation = [*system, *body["messages"]]
    assert first["content"][-1]["cache_control"] == MARK
    assert conversation[0]["content"][-1]["cache_control"] == MARK
    assert conversation[-1]["content"][-1]["cache_control"] == MARK
    assert json.dumps(body).count("cache_control") == 3


@pytest.mark.parametrize("api_route", [route for route in API_ROUTES if route != "anthropic"])
async def test_other_providers_get_no_cache_marks(
    api_route: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    await ask_model(create_model(api_route, base, worker), *LONG_CONVERSATION)
    assert "cache_control" not in str(ours.bodies[0])


@pytest.mark.req("llm.prompt-cache")
@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_later_request_begins_with_the_same_tools_and_messages(
    api_route: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    model = create_model(api_route, base, worker)
    await ask_model(model, *LONG_CONVERSATION)
    await ask_model(model, *LONG_CONVERSATION, Message(role="assistant", parts=(TextPart("It is a."),)), "and b?")
    first, second = map(without_mark, ours.bodies)
    for key in ("tools", "system", "system_instruction", "instructions"):
        assert first.get(key) == second.get(key)
    assert "Be brief." in str({**first, "contents": ()})  # the prompt is in what was compared
    lists = [next(body[key] for key in ("messages", "input", "contents") if key in body) for body in (first, second)]
    earlier, later = lists
    assert later[: len(earlier)] == earlier
    assert len(later) > len(earlier)


def without_mark(value: Any) -> Any:
    """Return a JSON value without markers for prompt caching."""
    if isinstance(value, dict):
        return {key: without_mark(item) for key, item in value.items() if key != "cache_control"}
    return [without_mark(item) for item in value] if isinstance(value, list) else value


REFUSED_DEFINITIONS = {
    "openai": "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'.",
    "responses": "Invalid schema for function '{name}': array schema missing items.",
    "anthropic": "tools.{at}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    "gemini": "* GenerateContentRequest.tools[0].function_declarations[{at}].parameters: schema is not valid",
}


@pytest.mark.parametrize("api_route", list(REFUSED_DEFINITIONS))
async def test_a_tool_whose_definition_is_refused_is_quarantined_and_the_answer_continues(
    api_route: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.bad_tools = {"web__get": REFUSED_DEFINITIONS[api_route]}
    model = create_model(api_route, base, worker)
    reply = await ask_model(model, "hi")
    assert reply.error is None
    assert reply.text == "w0 w1 "
    assert not reply.events_of(ToolSimplified)
    (quarantined,) = reply.events_of(ToolQuarantined)
    assert quarantined.name == "web__get"
    assert "schema" in quarantined.reason.lower()
    assert tool_names(ours.bodies[-1]) == ["fs__read"]
    count = len(ours.bodies)
    again = await ask_model(model, "again")
    assert not again.events_of(ToolQuarantined)
    assert [tool_names(body) for body in ours.bodies[count:]] == [["fs__read"]]


@pytest.mark.parametrize("api_route", list(REFUSED_DEFINITIONS))
async def test_a_tool_whose_schema_is_refused_is_offered_with_a_simpler_one(
    api_route: str, worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.bad_tools, ours.bad_keyword = {"web__get": REFUSED_DEFINITIONS[api_route]}, "pattern"
    schema = Raw(b'{"type":"object","properties":{"url":{"type":"string","pattern":"^h"}}}')
    tools = (TOOLS[0], ToolSpec("web__get", "Get a page", schema))
    model = create_model(api_route, base, worker)
    reply = await ask_model(model, "hi", tools=tools)
    assert reply.text == "w0 w1 "
    (simplified,) = reply.events_of(ToolSimplified)
    assert (simplified.name, not reply.events_of(ToolQuarantined)) == ("web__get", True)
    count = len(ours.bodies)
    await ask_model(model, "again", tools=tools)
    assert [tool_names(body) for body in ours.bodies[count - 1 :]] == [["fs__read", "web__get"]] * 2
    assert "pattern" not in json.dumps(ours.bodies[-1])


async def test_two_tools_that_a_local_server_cannot_use_are_found_and_the_answer_continues(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.bad_tools = dict.fromkeys(("s__1", "s__4"), "Failed to initialize samplers: failed to parse grammar")
    tools = [ToolSpec(f"s__{number}", "", TOOLS[0].schema) for number in range(6)]
    reply = await ask_model(create_unknown_model(base, worker), "hi", tools=tools)
    assert reply.error is None
    assert reply.text == "w0 w1 "
    assert [event.name for event in reply.events_of(ToolQuarantined)] == ["s__1", "s__4"]
    assert tool_names(ours.bodies[-1]) == ["s__0", "s__2", "s__3", "s__5"]


async def test_a_refused_definition_that_no_single_tool_causes_is_an_error(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str]
) -> None:
    ours, base = brief_provider
    ours.bad_tools = dict.fromkeys(("fs__read",), "tools[9]: schema of {name} is invalid")
    model = create_unknown_model(base, worker)
    reply = await ask_model(model, "hi", tools=TOOLS[:1])
    assert reply.events_of(ToolQuarantined)
    ours.bad_tools = {}
    ours.status = 400
    reply = await ask_model(create_unknown_model(base, worker), "hi")
    assert reply.error is not None
    assert not reply.events_of(ToolQuarantined)


def is_test_request(body: dict[str, Any]) -> bool:
    return body["messages"] == [{"role": "user", "content": "hi"}]


MANY_TOOLS = tuple(ToolSpec(f"s__t{at}", "", Raw(b'{"type":"object","properties":{}}')) for at in range(12))


async def test_the_search_for_refused_tools_ends_after_a_few_rounds_if_the_provider_always_refuses_another_tool(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, base = brief_provider

    def refuse(body: dict[str, Any]) -> str:
        offered = [tool["function"]["name"] for tool in body.get("tools", ())]
        full = [body for body in ours.bodies if not is_test_request(body)]
        bad = full[-1]["tools"][0]["function"]["name"]
        return f"Unsupported tool schema of {bad}" if bad in offered else ""

    monkeypatch.setattr(ours, "_refuse_tools", refuse)
    reply = await ask_model(create_unknown_model(base, worker), "hello", tools=MANY_TOOLS)
    assert reply.error is not None
    assert "Unsupported tool schema" in str(reply.error)
    assert len([body for body in ours.bodies if not is_test_request(body)]) == MAX_TOOL_SEARCHES + 1
    assert len(reply.events_of(ToolQuarantined)) == MAX_TOOL_SEARCHES


async def test_the_search_for_refused_tools_ends_at_its_time_limit_if_the_provider_says_nothing_more(
    worker: WorkerProcess, brief_provider: tuple[RawProvider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, base = brief_provider
    ours.words, ours.ending = 0, "silence"

    def refuse(body: dict[str, Any]) -> str:
        return "" if is_test_request(body) else "Unsupported tool schema"

    monkeypatch.setattr(ours, "_refuse_tools", refuse)
    deadlines = ModelDeadlines(retry_delay=0.01, tool_search=0.05)
    reply = await ask_model(create_unknown_model(base, worker, deadlines), "hello", tools=MANY_TOOLS)
    assert reply.error is not None
    assert "Unsupported tool schema" in str(reply.error)


async def test_configured_prices_are_known_before_the_model_is_loaded(worker: WorkerProcess) -> None:
    facts = create_unknown_model("http://127.0.0.1:9", worker, input_price=2.0, output_price=8.0).facts
    assert (facts.input_price, facts.output_price) == (pytest.approx(2e-6), pytest.approx(8e-6))
