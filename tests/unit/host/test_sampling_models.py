"""Tests for sampling requests: which model answers, the limits, and when the conversation is included."""

import time
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.mcp_json import parse_sampling
from mcphost.config.schema import ModelConfig, SamplingConfig, SamplingLimits
from mcphost.errors import UsageError
from mcphost.headless.question_answers import parse_answer
from mcphost.host.questions.questions import ApproveUnchanged, Deny, EditedRequest, ModelCandidate, ReviewSampling
from mcphost.host.server_requests.sampling_policy import SamplingBudget, choose_model
from mcphost.llm.model import ModelFacts
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round
from tests.parsed_settings import parse_settings
from tests.unit.host.asking_server import BOTH_ERAS, AskingServer, open_asking_host, sampling_request

pytestmark = pytest.mark.anyio
OPUS = ModelCandidate(name="anthropic/claude-opus-4", label="o", input_price=15e-6, output_price=75e-6, rank=1)
SONNET = ModelCandidate(
    name="anthropic/claude-3-5-sonnet-20241022", label="s", input_price=3e-6, output_price=15e-6, rank=2
)
MINI = ModelCandidate(
    name="openai/gpt-4o-mini", label="m", input_price=0.15e-6, output_price=0.6e-6, rank=3, speed=90.0
)
MYSTERY = ModelCandidate(name="openai/in-house", label="x", context_window=100)
ALL = (OPUS, SONNET, MINI)


def pick_model(preferences: dict[str, Any], *offers: ModelCandidate, needed: int = 10) -> tuple[str, str]:
    offer, reason = choose_model(preferences, offers or ALL, needed)
    return offer.name, reason


def name_hints(*names: Any) -> dict[str, Any]:
    return {"hints": [{"name": name} for name in names]}


@pytest.mark.req("samp.hints.order")
@pytest.mark.req("samp.hints.substring")
@pytest.mark.req("samp.hints.map")
def test_hints_are_parts_of_names_and_the_first_that_matches_decides_over_every_priority() -> None:
    cheap = {"costPriority": 1}
    assert pick_model({**name_hints("sonnet"), **cheap})[0] == SONNET.name
    assert pick_model(name_hints("gemini", "gpt-4o", "opus"))[0] == MINI.name
    assert pick_model(name_hints("opus", "gpt-4o"))[0] == OPUS.name
    assert pick_model(name_hints("SONNET"))[0] == SONNET.name
    assert "matches the server's hint" in pick_model(name_hints("SONNET"))[1]
    several, reason = pick_model({**name_hints("claude"), **cheap})
    assert (several, "2 models" in reason, "low cost 1" in reason) == (SONNET.name, True, True)
    nearest, reason = pick_model({**name_hints("llama"), **cheap})
    assert nearest == MINI.name
    assert "No model matches" in reason


@pytest.mark.req("samp.priorities")
def test_priorities_rank_known_models_and_mark_unknown_ones() -> None:
    assert pick_model({"costPriority": 0.9, "intelligencePriority": 0.1})[0] == MINI.name
    assert pick_model({"costPriority": 0.1, "intelligencePriority": 0.9})[0] == OPUS.name
    even = pick_model({"costPriority": 1, "intelligencePriority": 1})
    assert pick_model({"costPriority": 100, "intelligencePriority": 1}) == even
    assert pick_model({"costPriority": 1, "intelligencePriority": 1, "speedPriority": -100}) == even
    quick = (SONNET, MINI, ModelCandidate(name="slow", label="l", speed=10.0))
    assert pick_model({"speedPriority": 1.0}, *quick)[0] == MINI.name
    assert "speed of some models is unknown" in pick_model({"speedPriority": 1.0}, *quick)[1]
    name, reason = pick_model({"costPriority": 1.0}, OPUS, MYSTERY)
    assert name == OPUS.name
    assert "cost of some models is unknown" in reason
    assert pick_model({})[0] == OPUS.name


def test_a_model_whose_context_is_too_small_is_passed_over() -> None:
    name, reason = pick_model(name_hints("in-house"), MYSTERY, SONNET, needed=500)
    assert (name, "cannot take this request" in reason) == (SONNET.name, True)
    assert pick_model({}, MYSTERY, needed=500)[0] == MYSTERY.name


@pytest.mark.parametrize(
    "odd",
    [{"hints": 5}, {"hints": [5, {"name": 7}, {"name": ""}]}, {"costPriority": "much"}, {"costPriority": float("nan")},
     {"costPriority": 10**400}, {"speedPriority": -5, "costPriority": True}],
)  # fmt: skip
def test_preferences_of_any_shape_are_no_error(odd: dict[str, Any]) -> None:
    assert pick_model(odd)[0] == OPUS.name


def test_a_hint_cannot_write_hidden_characters_into_the_reason() -> None:
    assert "\u202e" not in pick_model(name_hints("x\u202ey"))[1]


def two_models(folder: Path, peer: AskingServer, frontend: ScriptedFrontend) -> tuple[Any, dict[str, ScriptedModel]]:
    made: dict[str, ScriptedModel] = {}

    def make(config: ModelConfig) -> ScriptedModel:
        made[config.name] = model = ScriptedModel(text_round("Paris"), text_round("Rome"))
        model.name = model.label = config.name
        model.facts = ModelFacts(input_price=1e-6, output_price=2e-6) if config.name == "other" else ModelFacts()
        return model

    config = SamplingConfig(models=(ModelConfig(name="other"), ModelConfig(name="scripted")))
    return open_asking_host(folder, peer, frontend, ScriptedModel(), models=make, sampling=config), made


@pytest.mark.req("samp.hints.substring")
@pytest.mark.req("samp.model-name")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_the_hinted_model_answers_unless_the_user_picks_another(revision: str, tmp_path: Path) -> None:
    peer = AskingServer(revision, {"a": sampling_request(modelPreferences=name_hints("oth"))})
    frontend = ScriptedFrontend(
        ApproveUnchanged(), ApproveUnchanged(), EditedRequest(model="scripted"), ApproveUnchanged()
    )
    entered, made = two_models(tmp_path, peer, frontend)
    async with entered as host:
        assert '"model": "other"' in (await host.tools.call("peer", "ask", {})).text
        assert '"model": "scripted"' in (await host.tools.call("peer", "ask", {})).text
    question = frontend.asked[0]
    assert isinstance(question, ReviewSampling)
    assert [model.name for model in question.models] == ["scripted", "other"]
    dear = question.models[1]
    assert dear.ceiling == pytest.approx(question.tokens * 1e-6 + 100 * 2e-6)
    assert question.models[0].ceiling is None
    assert {name: len(model.requests) for name, model in made.items()} == {"scripted": 1, "other": 1}


async def test_a_model_that_is_not_on_offer_is_never_asked(tmp_path: Path) -> None:
    peer, frontend = (
        AskingServer("2025-11-25", {"a": sampling_request()}),
        ScriptedFrontend(EditedRequest(model="dear")),
    )
    model = ScriptedModel(text_round("x"))
    async with open_asking_host(tmp_path, peer, frontend, model) as host:
        assert "unknown model" in (await host.tools.call("peer", "ask", {})).text
    assert model.requests == []
    with pytest.raises(UsageError, match="scripted"):
        parse_answer(frontend.asked[0], {"accept": {"model": "dear"}})
    assert parse_answer(frontend.asked[0], {"accept": {"model": "scripted"}}) == EditedRequest(model="scripted")


@pytest.mark.req("samp.rate-limit")
@pytest.mark.parametrize(
    ("limit", "word"),
    [("requests_per_minute", "per minute"), ("requests_per_session", "per run"), ("tokens_per_minute", "per minute"),
     ("tokens_per_session", "per run")],
)  # fmt: skip
async def test_each_limit_ends_the_asking_and_the_refusal_names_it(limit: str, word: str, tmp_path: Path) -> None:
    most = 1 if "requests" in limit else 50
    peer, frontend = AskingServer("2025-11-25", {"a": sampling_request()}), ScriptedFrontend(*[ApproveUnchanged()] * 20)
    model = ScriptedModel(*[text_round("Paris")] * 10)
    config = SamplingConfig(limits=SamplingLimits(**{limit: most}))
    async with open_asking_host(tmp_path, peer, frontend, model, sampling=config) as host:
        feed = host.events.subscribe()
        texts = [(await host.tools.call("peer", "ask", {})).text for _ in range(5)]
        assert "Paris" in texts[0]
        assert f"at most {most}" in texts[-1]
        assert word in texts[-1]
        assert any(word in getattr(event, "text", "") for event in feed.drain())
    assert 1 <= len(model.requests) < 5


async def test_tokens_that_are_left_are_the_most_the_model_may_write(tmp_path: Path) -> None:
    limits = SamplingConfig(limits=SamplingLimits(tokens_per_minute=70))
    peer, frontend, model = (
        AskingServer("2025-11-25", {"a": sampling_request()}),
        ScriptedFrontend(ApproveUnchanged(), ApproveUnchanged()),
        ScriptedModel(text_round("x")),
    )
    async with open_asking_host(tmp_path, peer, frontend, model, sampling=limits) as host:
        await host.tools.call("peer", "ask", {})
    question = frontend.asked[0]
    assert isinstance(question, ReviewSampling)
    assert question.max_tokens == 70 - question.tokens
    assert model.requests[0].max_output_tokens == question.max_tokens


def test_a_grant_for_a_minute_expires_after_a_minute_and_one_for_the_run_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    budget = SamplingBudget(
        SamplingConfig(limits=SamplingLimits(requests_per_minute=1, requests_per_session=2, tokens_per_minute=10))
    )
    assert budget.count_request() == ""
    budget.spend(9)
    assert "minute" in budget.count_request()
    assert "minute" in budget.available_tokens(1)[1]
    now[0] += 61
    assert (budget.count_request(), budget.available_tokens(1)) == ("", (9, ""))
    now[0] += 61
    assert "run" in budget.count_request()


@pytest.mark.req("samp.include-context")
@pytest.mark.parametrize("granted", [True, False])
async def test_the_conversation_is_included_only_where_the_user_added_it_to_that_request(
    granted: bool, tmp_path: Path
) -> None:
    peer = AskingServer("2025-06-18", {"a": sampling_request(includeContext="thisServer")})
    frontend = ScriptedFrontend(
        EditedRequest(context=granted), ApproveUnchanged(), ApproveUnchanged(), ApproveUnchanged()
    )
    model = ScriptedModel(text_round("noted"), text_round("one"), text_round("two"))
    async with open_asking_host(tmp_path, peer, frontend, model) as host:
        await host.conversation.send("my secret")
        await host.tools.call("peer", "ask", {})
        await host.tools.call("peer", "ask", {})
    question = frontend.asked[0]
    assert isinstance(question, ReviewSampling)
    assert question.conversation == "user: my secret\n\nassistant: noted"
    asked = ["".join(message.text for message in request.messages) for request in model.requests[1:]]
    assert [question.conversation in item for item in asked] == [granted, False]


@pytest.mark.req("samp.include-context.capability")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_where_context_is_a_capability_that_was_not_declared_it_is_not_on_offer(
    revision: str, tmp_path: Path
) -> None:
    peer = AskingServer(revision, {"a": sampling_request(includeContext="allServers")})
    frontend = ScriptedFrontend(EditedRequest(context=True), ApproveUnchanged())
    model = ScriptedModel(text_round("noted"), text_round("one"))
    async with open_asking_host(tmp_path, peer, frontend, model) as host:
        await host.conversation.send("my secret")
        await host.tools.call("peer", "ask", {})
    assert "secret" not in "".join(message.text for message in model.requests[1].messages)
    with pytest.raises(UsageError, match="conversation"):
        parse_answer(frontend.asked[0], {"accept": {"context": True}})


# -- the user's configuration
def test_limits_and_models_are_read_from_the_settings_and_wrong_ones_are_named() -> None:
    problems: list[str] = []
    text = """[sampling]
    requests_per_minute = 5
    tokens_per_session = -1
    often = 3
    models = ["anthropic/claude-haiku-4-5", {name = "openai/x", api_base = "http://127.0.0.1:1"}, 7, {}]
    """
    found = parse_settings(text, "config.toml", problems.append).sampling
    assert (found.limits.requests_per_minute, found.limits.tokens_per_session) == (5, 2_000_000)
    assert [model.name for model in found.models] == ["anthropic/claude-haiku-4-5", "openai/x"]
    assert found.models[1].api_base == "http://127.0.0.1:1"
    assert len(problems) == 4


def test_limits_of_one_server_are_set_only_by_the_users_own_file() -> None:
    problems: list[str] = []
    written = {"requestsPerMinute": 2, "tokensPerMinute": "many", "x": 1}
    assert parse_sampling(written, "s", "user", problems.append) == {"requests_per_minute": 2}
    assert len(problems) == 2
    assert parse_sampling({"requestsPerMinute": 2}, "s", "project", problems.append) == {}
    assert parse_sampling(5, "s", "user", problems.append) == parse_sampling(None, "s", "user", problems.append) == {}


async def test_the_limit_of_one_server_is_not_that_of_another(tmp_path: Path) -> None:
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.host.bootstrap import build_host
    from mcphost.store.database import Database
    from tests.unit.host.asking_server import PeerOpener

    servers = (
        ServerConfig(
            name="mean", command="x", source="flag", era="handshake", sampling_limits={"requests_per_minute": 0}
        ),
        ServerConfig(name="free", command="x", source="flag", era="handshake"),
    )
    peers = {name: AskingServer("2025-11-25", {"a": sampling_request()}) for name in ("mean", "free")}
    frontend, database = ScriptedFrontend(Deny()), Database(tmp_path / "store.db")
    config = HostConfig(servers=servers, model=ModelConfig(name="scripted"), roots=())
    host = build_host(
        config,
        store=database,
        opener=PeerOpener(dict(peers)),
        model_factory=lambda _: ScriptedModel(),
        frontend=frontend,
    )
    async with host:
        for name in peers:
            await host.servers.ensure_ready(name)
        assert "at most 0 sampling requests" in (await host.tools.call("mean", "ask", {})).text
        assert "rejected" in (await host.tools.call("free", "ask", {})).text
    await database.close()
