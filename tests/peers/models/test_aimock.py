"""Tests for five provider APIs with the real worker and aimock: text, reasoning, parallel calls, usage and errors."""

import pytest

from mcphost.llm import providers
from mcphost.llm.messages import Message, TextPart, ThinkingPart, ToolReturnPart
from mcphost.llm.model import RetryScheduled, ToolUseDelta, ToolUseStarted
from mcphost.llm.worker_client import WorkerProcess
from tests.fakes.model import user_message
from tests.peers.models.model_requests import API_ROUTES, always_has_list_prices, ask_model, create_model

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
ALL = pytest.mark.parametrize("road", list(API_ROUTES))


@pytest.mark.req("llm.both-apis")
@pytest.mark.req("llm.openai.input")
@pytest.mark.req("llm.openai.output")
@pytest.mark.req("llm.openai.streaming")
@ALL
async def test_text_streams_and_ends(road: str, worker: WorkerProcess, aimock_url: str) -> None:
    reply = await ask_model(create_model(road, aimock_url, worker), "hello")
    assert reply.text == "Hello from the mock, with ünïcode and 日本語."
    assert len(reply.events) >= 3  # pieces of the text, which arrive together because the provider is fast, and the end
    assert reply.finished.api_route == ("responses" if road == "responses" else "chat")
    assert reply.finished.reason == "stop"
    assert reply.uses == []


@pytest.mark.parametrize("api_route", [api_route for api_route in API_ROUTES if api_route != "ollama"])
async def test_reasoning_is_separate_from_text(api_route: str, worker: WorkerProcess, aimock_url: str) -> None:
    reply = await ask_model(create_model(api_route, aimock_url, worker), "think")
    assert reply.text == "42."
    assert reply.thinking == "Let me think step by step about the answer."


@pytest.mark.req("llm.openai.functions")
@pytest.mark.req("llm.tools-to-model")
@ALL
async def test_parallel_calls_arrive_complete_with_ids_of_ours(
    road: str, worker: WorkerProcess, aimock_url: str
) -> None:
    reply = await ask_model(create_model(road, aimock_url, worker), "two tools")
    first, second = reply.uses
    assert (first.name, first.arguments) == ("fs__read", {"path": "/a", "deep": {"k": [1, 2, 3]}})
    assert (second.name, second.arguments) == ("web__get", {"url": "http://x/é"})
    assert first.id != second.id
    started = [event.id for event in reply.events_of(ToolUseStarted)]
    assert started == [first.id, second.id]
    assert {event.id for event in reply.events_of(ToolUseDelta)} == set(started)


# not gemini: litellm writes function_response, aimock reads functionResponse only; test_raw_provider checks the body
@pytest.mark.req("llm.openai.functions")
@pytest.mark.req("llm.openai.state")
@pytest.mark.req("llm.providers")
@pytest.mark.parametrize("api_route", [api_route for api_route in API_ROUTES if api_route != "gemini"])
async def test_results_are_returned_and_the_model_answers(
    api_route: str, worker: WorkerProcess, aimock_url: str
) -> None:
    model = create_model(api_route, aimock_url, worker)
    reply = await ask_model(model, "two tools")
    replays = [event.replay for event in reply.events if getattr(event, "replay", "")]
    thinking = (ThinkingPart(reply.thinking, replays[-1]),) if replays else ()
    message = Message(role="assistant", parts=(*thinking, TextPart(reply.text), *reply.uses), model=model.name)
    results = Message(role="tool", parts=tuple(ToolReturnPart(use.id, use.name, "fine") for use in reply.uses))
    again = await ask_model(model, user_message("two tools"), message, results)
    assert again.text == "Both done."
    assert again.finished.reason == "stop"


@ALL
async def test_no_arguments_are_an_empty_object(road: str, worker: WorkerProcess, aimock_url: str) -> None:
    (use,) = (await ask_model(create_model(road, aimock_url, worker), "noargs")).uses
    assert (use.name, use.arguments) == ("now", {})


@pytest.mark.parametrize("api_route", ["openai", "responses"])
async def test_arguments_that_do_not_parse_are_kept_as_text(
    api_route: str, worker: WorkerProcess, aimock_url: str
) -> None:
    (use,) = (await ask_model(create_model(api_route, aimock_url, worker), "badargs")).uses
    assert use.arguments is None
    assert use.raw == '{"path": "/a'


async def test_usage_and_cost_are_reported(
    worker: WorkerProcess, aimock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "has_list_prices", always_has_list_prices)
    usage = (await ask_model(create_model("openai", aimock_url, worker), "hello")).finished.usage
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
    assert usage.cost is not None
    assert 0 < usage.cost < 0.01


async def test_an_answer_of_a_server_at_another_address_has_no_known_price(
    worker: WorkerProcess, aimock_url: str
) -> None:
    model = create_model("openai", aimock_url, worker)
    usage = (await ask_model(model, "hello")).finished.usage
    assert (usage.cost, usage.saved, model.facts.input_price) == (None, 0, None)


async def test_facts_are_known_after_preparing(worker: WorkerProcess, aimock_url: str) -> None:
    model = create_model("openai", aimock_url, worker)
    await model.prepare()
    assert model.facts.context_window >= 100_000
    assert model.facts.supports_images is True
    local = create_model("ollama", aimock_url, worker)
    await local.prepare()
    assert local.facts.context_window == 0


ERRORS = {
    "err401": ("auth", "TEST_KEY"),
    "err403": ("auth", "TEST_KEY"),
    "err404": ("bad_request", "does not exist"),
    "errctx": ("context", "longer than"),
    "errlong": ("context", "longer than"),
    "errfilter": ("refused", "filtered"),
}


@pytest.mark.parametrize("case", list(ERRORS))
@ALL
async def test_errors_include_a_hint(road: str, case: str, worker: WorkerProcess, aimock_url: str) -> None:
    kind, words = ERRORS[case]
    reply = await ask_model(create_model(road, aimock_url, worker), case)
    assert reply.error is not None
    assert reply.error.model_kind == kind
    assert words in str(reply.error)
    assert "litellm" not in reply.error.message
    assert not reply.events_of(RetryScheduled)


@pytest.mark.parametrize("case", ["err500", "err529"])
@ALL
async def test_trouble_at_the_provider_is_tried_again(
    road: str, case: str, worker: WorkerProcess, aimock_url: str
) -> None:
    reply = await ask_model(create_model(road, aimock_url, worker), case)
    assert len(reply.events_of(RetryScheduled)) == 2
    assert reply.error is not None
    assert reply.error.model_kind == "overloaded"
