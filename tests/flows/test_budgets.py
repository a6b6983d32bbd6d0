"""Tests for budgets: the cost of a model request is estimated and checked before sending, then recorded."""

import time
from pathlib import Path

import anyio
import pytest

from mcphost.config.schema import BudgetConfig, ModelConfig
from mcphost.errors import ModelError
from mcphost.headless.exit_codes import turn_exit_code
from mcphost.host.budget.budget_limits import DEFAULT_OUTPUT_TOKENS
from mcphost.host.builtin_tool_names import SEARCH_TOOLS
from mcphost.host.events import NoticeEvent, SpendingChanged, TurnFinished
from mcphost.host.questions.compaction import ReviewCompaction, UseSummary
from mcphost.host.questions.cost import (
    ApproveCost,
    BudgetUse,
    CompactConversation,
    DeferTools,
    RaiseBudget,
    SendOnce,
    StopTurn,
    UseCheaperModel,
)
from mcphost.host.questions.frontend import RefusingFrontend
from mcphost.host.questions.questions import AllowOnce, ApproveUnchanged
from mcphost.llm.messages import ToolUsePart, Usage
from mcphost.llm.model import ModelFacts, StreamFinished, ToolUseReady
from mcphost.llm.model import TextDelta as Text
from mcphost.store.database import Database
from mcphost.store.spending import SpendingEntry, SpendingStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import HANG, Round, ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost
from tests.unit.host.setup_host import open_setup

pytestmark = pytest.mark.anyio
PRICED = ModelFacts(input_price=1e-5, output_price=1e-4, max_output_tokens=1_000)
"""An answer costs up to 10 cents, and a thousand tokens of input one cent."""


def priced_model(*rounds: Round, facts: ModelFacts = PRICED) -> ScriptedModel:
    return ScriptedModel(*rounds, facts=facts)


def answer_round(cost: float | None, *, cached: int = 0) -> Round:
    usage = Usage(input_tokens=300, output_tokens=10, cached_tokens=cached, cost=cost)
    return [Text("Here."), StreamFinished("stop", usage)]


async def test_a_request_above_the_limit_is_sent_only_after_a_question_that_shows_its_cost(open_host: OpenHost) -> None:
    model, frontend = priced_model(answer_round(0.02)), ScriptedFrontend(SendOnce())
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        await host.servers.ensure_ready("demo")
        assert (await host.conversation.send("hi")).outcome == "done"
    (question,) = frontend.asked
    assert isinstance(question, ApproveCost)
    assert question.output_cost == pytest.approx(0.1)
    assert question.input_cost == pytest.approx(question.input_tokens * 1e-5)
    assert question.budgets == (BudgetUse("ask_above", 0.0, 0.05, question.budgets[0].raised),)
    assert question.budgets[0].raised >= (question.cost or 0)
    assert {share.kind for share in question.shares} == {"system", "definitions", "messages"}
    assert question.optional_servers == ("demo",)
    assert sum(share.tokens for share in question.shares) == question.input_tokens


async def test_a_request_below_every_limit_is_sent_without_a_question(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend()
    limits = BudgetConfig(ask_above=0.2, per_turn=1, per_conversation=1, per_day=1)
    async with open_host(priced_model(answer_round(0.02)), frontend, budget=limits) as host:
        assert (await host.conversation.send("hi")).outcome == "done"
    assert frontend.asked == []


async def test_stopping_sends_nothing_keeps_the_message_and_names_the_setting(open_host: OpenHost) -> None:
    model, frontend = priced_model(), ScriptedFrontend(StopTurn())
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        feed = host.events.subscribe()
        result = await host.conversation.send("hi")
        finished = [event for event in feed.drain() if isinstance(event, TurnFinished)]
        assert [message.text for message in host.conversation.messages] == ["hi"]
        assert (await host.spending.load_totals(host.conversation.id)).day.requests == 0
    assert (result.outcome, turn_exit_code(result), model.requests) == ("budget", 7, [])
    assert "ask_above = $0.05" in result.error
    in_chat = "Send again to raise it for this conversation, or raise ask_above under [budget] in config.toml."
    assert result.hint == in_chat
    assert [event.outcome for event in finished] == ["budget"]


async def test_a_front_end_that_cannot_ask_names_only_the_setting(open_host: OpenHost) -> None:
    async with open_host(priced_model(), RefusingFrontend(), budget=BudgetConfig(ask_above=0.05)) as host:
        result = await host.conversation.send("hi")
    assert result.hint == "Raise ask_above under [budget] in config.toml."


async def test_a_turn_that_passes_its_budget_stops_before_its_next_request_and_keeps_what_came(
    open_host: OpenHost,
) -> None:
    call = ToolUseReady(ToolUsePart("use-1", "demo__add", {"a": 2, "b": 40}))
    expensive = StreamFinished("tool_calls", Usage(input_tokens=1, cost=0.95))
    model, frontend = priced_model([call, expensive]), ScriptedFrontend(AllowOnce(), StopTurn())
    async with open_host(model, frontend, budget=BudgetConfig(per_turn=1)) as host:
        await host.servers.ensure_ready("demo")
        result = await host.conversation.send("add")
        assert [message.role for message in host.conversation.messages] == ["user", "assistant", "tool"]
    assert result.outcome == "budget"
    assert "$0.95 of per_turn = $1.00 is spent" in result.error
    assert "--max-cost" in result.hint
    assert len(model.requests) == 1


async def test_raising_counts_for_this_conversation_only(open_host: OpenHost) -> None:
    model = priced_model(answer_round(0.02), answer_round(0.02), answer_round(0.02))
    frontend = ScriptedFrontend(RaiseBudget(), StopTurn())
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        await host.conversation.send("one")
        await host.conversation.send("two")
        assert len(frontend.asked) == 1
        host.conversation.open_new()
        assert (await host.conversation.send("three")).outcome == "budget"


async def test_sending_once_asks_again_for_the_next_request(open_host: OpenHost) -> None:
    model = priced_model(answer_round(0.02), answer_round(0.02))
    frontend = ScriptedFrontend(SendOnce(), SendOnce())
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        await host.conversation.send("one")
        await host.conversation.send("two")
    assert len(frontend.asked) == 2


async def test_a_shorter_answer_that_fits_is_offered_and_limits_the_request(open_host: OpenHost) -> None:
    def choose(question: ApproveCost) -> SendOnce:
        return SendOnce(question.shorter_output_tokens)

    model, frontend = priced_model(answer_round(0.02)), ScriptedFrontend(choose)
    async with open_host(model, frontend, servers=(), budget=BudgetConfig(per_turn=0.08)) as host:
        assert (await host.conversation.send("hi")).outcome == "done"
    (question,) = frontend.asked
    assert isinstance(question, ApproveCost)
    (request,) = model.requests
    assert 256 <= request.max_output_tokens < 1_000
    assert (question.input_cost or 0) + request.max_output_tokens * 1e-4 == pytest.approx(0.08, abs=1e-4)


async def test_the_tools_of_a_server_are_left_to_the_search_for_the_rest_of_the_conversation(
    open_host: OpenHost,
) -> None:
    search = tool_round((SEARCH_TOOLS, {"query": "add two numbers", "limit": 1}))
    model = priced_model(search, *[answer_round(0.02)] * 3)
    frontend = ScriptedFrontend(DeferTools("demo"), *[SendOnce()] * 4)
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        await host.servers.ensure_ready("demo")
        await host.conversation.send("one")
        await host.conversation.send("two")
        host.conversation.open_new()
        await host.conversation.send("three")
    offered = [[spec.name for spec in request.tools if spec.name.startswith("demo__")] for request in model.requests]
    assert offered[:3] == [[], ["demo__add"], ["demo__add"]]
    assert len(offered[3]) > 1
    first, second = (question for question in frontend.asked[:2] if isinstance(question, ApproveCost))
    assert second.optional_servers == ()
    assert second.input_tokens < first.input_tokens


async def test_tools_left_to_the_search_at_a_limit_are_sent_again_after_the_user_undoes_it(
    open_host: OpenHost,
) -> None:
    model = priced_model(answer_round(0.02), answer_round(0.02))
    frontend = ScriptedFrontend(DeferTools("demo"), SendOnce(), SendOnce())
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        await host.servers.ensure_ready("demo")
        await host.context.tools.pin("demo", "add", pinned=True)
        await host.conversation.send("one")
        assert host.context.tools.preference("demo", "add") == "deferred"
        host.context.tools.prefer("demo", "", "auto")
        await host.conversation.send("two")
    offered = ["demo__add" in [spec.name for spec in request.tools] for request in model.requests]
    assert offered == [False, True]


async def test_compacting_is_not_offered_for_the_first_message(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(SendOnce())
    async with open_host(priced_model(answer_round(0.001)), frontend, budget=BudgetConfig(ask_above=0.0001)) as host:
        await host.conversation.send("hi there my friend " * 450)
    assert [question.can_compact for question in frontend.asked if isinstance(question, ApproveCost)] == [False]


async def test_a_conversation_is_compacted_at_a_limit_and_the_shorter_request_is_sent(open_host: OpenHost) -> None:
    def review(question: ReviewCompaction) -> UseSummary:
        return UseSummary(question.sentences)

    before = 8
    model = priced_model(
        *[answer_round(0.001)] * before, text_round("- The user sent greetings. [1]"), answer_round(0.001)
    )
    frontend = ScriptedFrontend(CompactConversation(), review)
    async with open_host(model, frontend, servers=(), budget=BudgetConfig(ask_above=0.28)) as host:
        outcomes = [(await host.conversation.send("hi there my friend " * 450)).outcome for _ in range(before + 1)]
    assert outcomes == ["done"] * (before + 1)
    assert [type(question) for question in frontend.asked] == [ApproveCost, ReviewCompaction]
    assert [question.can_compact for question in frontend.asked if isinstance(question, ApproveCost)] == [True]
    sent = model.requests[-1]
    assert len(sent.messages) < 2 * before + 1, "the number of all messages"
    assert "The user sent greetings." in str(sent)


async def test_a_cheaper_model_chosen_at_a_limit_answers_this_and_later_messages(tmp_path: Path) -> None:
    models: dict[str, ScriptedModel] = {}

    def create_model(config: ModelConfig) -> ScriptedModel:
        facts = PRICED if config.name == "openai/dear" else ModelFacts(input_price=1e-8, output_price=1e-8)
        models[config.name] = priced_model(answer_round(0.001), answer_round(0.001), facts=facts)
        return models[config.name]

    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[model]\nname = "openai/dear"\n[budget]\nask_above = 0.05\n')
    frontend = ScriptedFrontend(UseCheaperModel("openai/cheap"))
    async with open_setup(tmp_path, frontend=frontend, model_factory=create_model) as (host, setup):
        await setup.toggle_favorite(ModelConfig(name="openai/cheap", input_price=0.01, output_price=0.01))
        outcomes = [(await host.conversation.send(text)).outcome for text in ("one", "two")]
    assert outcomes == ["done", "done"]
    (question,) = frontend.asked
    assert isinstance(question, ApproveCost)
    assert [offer.name for offer in question.cheaper] == ["openai/cheap"]
    assert question.cheaper[0].cost < (question.cost or 0)
    assert {name: len(model.requests) for name, model in models.items()} == {"openai/dear": 0, "openai/cheap": 2}


@pytest.mark.parametrize(
    "answer", [DeferTools("other"), UseCheaperModel("openai/none"), CompactConversation(), None, "once"]
)
async def test_an_answer_that_was_not_offered_sends_nothing(open_host: OpenHost, answer: object) -> None:
    model, frontend = priced_model(), ScriptedFrontend(answer)
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        assert (await host.conversation.send("hi")).outcome == "budget"
    assert model.requests == []


async def test_the_day_counts_every_conversation_process_and_branch(open_host: OpenHost, tmp_path: Path) -> None:
    other_process = SpendingStore(Database(tmp_path / "store.db"))
    await other_process.add(SpendingEntry(at=time.time(), conversation="elsewhere", cost=0.5))
    model = priced_model(answer_round(0.3), answer_round(0.15))
    frontend = ScriptedFrontend(StopTurn())
    async with open_host(model, frontend, budget=BudgetConfig(per_day=1)) as host:
        await host.conversation.send("one")
        await host.conversation.branches.rewind(0)  # the branch that is left was paid for
        await host.conversation.send("two")
        totals = await host.spending.load_totals(host.conversation.id)
        assert (totals.conversation.cost, totals.day.cost) == (pytest.approx(0.45), pytest.approx(0.95))
        result = await host.conversation.send("three")
    assert "$0.95 of per_day = $1.00 is spent" in result.error


async def test_a_free_model_is_never_asked_about(open_host: OpenHost) -> None:
    free = ModelFacts(input_price=0.0, output_price=0.0)
    frontend = ScriptedFrontend()
    async with open_host(
        priced_model(text_round("a"), facts=free), frontend, budget=BudgetConfig(per_day=0.01)
    ) as host:
        assert (await host.conversation.send("hi")).outcome == "done"
    assert frontend.asked == []


async def test_a_model_of_unknown_price_is_reported_once_and_stops_when_the_budget_is_used_up(
    open_host: OpenHost,
) -> None:
    model = priced_model(answer_round(0.6), answer_round(0.6), facts=ModelFacts())
    frontend = ScriptedFrontend(StopTurn())
    async with open_host(model, frontend, budget=BudgetConfig(per_conversation=1)) as host:
        feed = host.events.subscribe()
        outcomes = [(await host.conversation.send(text)).outcome for text in ("one", "two", "three")]
        notices = [event.text for event in feed.drain() if isinstance(event, NoticeEvent)]
    assert outcomes == ["done", "done", "budget"]
    assert len([text for text in notices if "price of scripted is unknown" in text]) == 1
    (question,) = frontend.asked
    assert isinstance(question, ApproveCost)
    assert question.cost is None


async def test_a_cache_that_was_used_just_now_lowers_the_estimate(open_host: OpenHost) -> None:
    facts = ModelFacts(input_price=1e-5, cached_input_price=1e-6, output_price=1e-4, max_output_tokens=1_000)
    model = priced_model(answer_round(0.02, cached=900), answer_round(0.02), facts=facts)
    frontend = ScriptedFrontend(SendOnce(), SendOnce())
    async with open_host(model, frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        await host.servers.ensure_ready("demo")
        await host.conversation.send("one")
        await host.conversation.send("two")
    first, second = (question for question in frontend.asked if isinstance(question, ApproveCost))
    assert (first.cached_tokens, second.cached_tokens) == (0, 300)
    assert (second.input_cost or 0) < (first.input_cost or 0)


async def test_an_output_without_a_known_limit_is_assumed_to_be_of_usual_length(open_host: OpenHost) -> None:
    facts = ModelFacts(input_price=1e-5, output_price=1e-4)
    frontend = ScriptedFrontend(StopTurn())
    async with open_host(priced_model(facts=facts), frontend, budget=BudgetConfig(ask_above=0.05)) as host:
        await host.conversation.send("one")
    (question,) = frontend.asked
    assert isinstance(question, ApproveCost)
    assert question.max_output_tokens == DEFAULT_OUTPUT_TOKENS


async def test_every_request_is_recorded_with_what_its_input_consists_of(open_host: OpenHost) -> None:
    model = priced_model(tool_round(("demo__add", {"a": 2, "b": 40})), answer_round(0.02))
    async with open_host(model, ScriptedFrontend(AllowOnce())) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        await host.conversation.send("what is 2 + 40?")
        spent = [event.cost for event in feed.drain() if isinstance(event, SpendingChanged)]
        second, first = await host.spending.list_entries(conversation=host.conversation.id)
        totals = await host.spending.load_totals(host.conversation.id, second.turn)
    assert spent == [0.002, 0.02]
    assert first.turn == second.turn
    assert totals.turn == totals.conversation == totals.day
    assert totals.turn.cost == pytest.approx(0.022)
    assert {(share.kind, share.server, share.tool) for share in second.shares} == {
        ("system", "", ""), ("definitions", "demo", ""), ("messages", "", ""), ("results", "demo", "add"),
    }  # fmt: skip
    assert second.input_cost == pytest.approx(0.02 - 10 * 1e-4)
    assert not second.is_estimated


async def test_a_stopped_request_counts_as_its_estimate(open_host: OpenHost) -> None:
    model = priced_model([Text("x" * 400), HANG])
    async with open_host(model, ScriptedFrontend(), servers=()) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "hi")
            await model.hanging.wait()
            while_sending = (await host.spending.load_totals(host.conversation.id)).conversation
            host.conversation.stop()
        (entry,) = await host.spending.list_entries()
    assert while_sending.requests == 1
    assert while_sending.cost > 0
    assert entry.is_estimated
    assert entry.output_tokens == 100
    assert entry.cost == pytest.approx(while_sending.cost + 100 * 1e-4)


class LoadingModel(ScriptedModel):
    """A model whose prices are known only once it has been loaded; the first time, loading does not end."""

    def __init__(self, *rounds: Round) -> None:
        super().__init__(*rounds)
        self.loads = 0

    async def load_facts(self) -> None:
        """Wait forever the first time; later, make the prices known."""
        self.loads += 1
        if self.loads == 1:
            self.hanging.set()
            await anyio.sleep_forever()
        self.facts = PRICED


async def test_a_request_that_is_stopped_while_the_model_loads_is_not_recorded(open_host: OpenHost) -> None:
    model = LoadingModel(answer_round(None))
    async with open_host(model, ScriptedFrontend(), servers=()) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "hi")
            await model.hanging.wait()
            host.conversation.stop()
        assert await host.spending.list_entries() == ()
        assert model.requests == []


async def test_prices_that_are_loaded_with_the_first_request_count_for_it(open_host: OpenHost) -> None:
    model = LoadingModel([Text("x" * 400), HANG])
    model.loads = 1
    async with open_host(model, ScriptedFrontend(), servers=()) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "hi")
            await model.hanging.wait()
            host.conversation.stop()
        (entry,) = await host.spending.list_entries()
    assert entry.cost == pytest.approx(entry.input_tokens * 1e-5 + 100 * 1e-4)


async def test_a_request_that_the_provider_refused_costs_nothing(open_host: OpenHost) -> None:
    model = priced_model([ModelError("No such key.", "Set one.", model_kind="auth")])
    async with open_host(model, ScriptedFrontend(), servers=()) as host:
        assert (await host.conversation.send("hi")).outcome == "failed"
        assert await host.spending.list_entries() == ()


def sampling_model() -> ScriptedModel:
    """Return a model that calls a tool, answers the sampling request of that tool's server, and ends the turn."""
    call = ToolUseReady(ToolUsePart("use-1", "demo__ask_model", {"question": "Which city?"}))
    first: Round = [call, StreamFinished("tool_calls", Usage(input_tokens=1, cost=0.018))]
    return priced_model(first, answer_round(0.04), answer_round(0.02))


async def test_what_a_server_asks_of_the_model_counts_for_conversation_and_day(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(AllowOnce(), ApproveUnchanged(), ApproveUnchanged())
    async with open_host(sampling_model(), frontend, budget=BudgetConfig(per_day=1)) as host:
        await host.servers.ensure_ready("demo")
        assert (await host.conversation.send("ask")).outcome == "done"
        totals = await host.spending.load_totals(host.conversation.id)
        entries = await host.spending.list_entries()
    assert (totals.conversation.cost, totals.day.cost) == (pytest.approx(0.078), pytest.approx(0.078))
    (sampling,) = [entry for entry in entries if entry.purpose == "sampling"]
    assert [(share.kind, share.server) for share in sampling.shares] == [("sampling", "demo")]
    assert sampling.cost == pytest.approx(0.04)


async def test_a_sampling_request_above_the_budget_is_not_sent_unless_the_user_agrees(open_host: OpenHost) -> None:
    model, limits = sampling_model(), BudgetConfig(per_conversation=0.02)
    answers = (SendOnce(), AllowOnce(), ApproveUnchanged(), StopTurn(), SendOnce())
    frontend = ScriptedFrontend(*answers)
    async with open_host(model, frontend, budget=limits) as host:
        await host.servers.ensure_ready("demo")
        notices = host.events.subscribe()
        await host.conversation.send("ask")
        told = [event.text for event in notices.drain() if isinstance(event, NoticeEvent)]
    question = frontend.asked[3]
    assert isinstance(question, ApproveCost)
    assert (question.server, [use.name for use in question.budgets]) == ("demo", ["per_conversation"])
    assert (question.can_compact, question.cheaper, question.optional_servers) == (False, (), ())
    assert len(model.requests) == 2
    assert any("A sampling request of demo was not sent. $0.0180 of per_conversation" in text for text in told)


async def test_a_sampling_request_above_the_budget_can_be_sent_with_a_shorter_answer(open_host: OpenHost) -> None:
    model, limits = sampling_model(), BudgetConfig(per_conversation=0.02)
    frontend = ScriptedFrontend(
        SendOnce(), AllowOnce(), ApproveUnchanged(), SendOnce(30), ApproveUnchanged(), RaiseBudget()
    )
    async with open_host(model, frontend, budget=limits) as host:
        await host.servers.ensure_ready("demo")
        assert (await host.conversation.send("ask")).outcome == "done"
    assert model.requests[1].max_output_tokens == 30
    assert isinstance(frontend.asked[3], ApproveCost)


async def test_a_budget_raised_for_a_sampling_request_allows_it(open_host: OpenHost) -> None:
    model = sampling_model()
    answers = (SendOnce(), AllowOnce(), ApproveUnchanged(), RaiseBudget(), ApproveUnchanged(), StopTurn())
    async with open_host(model, ScriptedFrontend(*answers), budget=BudgetConfig(per_conversation=0.02)) as host:
        await host.servers.ensure_ready("demo")
        await host.conversation.send("ask")
    assert model.requests[1].max_output_tokens == 60
