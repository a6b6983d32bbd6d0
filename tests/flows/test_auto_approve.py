"""Tests for auto-approval: selected read-only tools run without questions in one conversation, within a budget."""

import time
from typing import Any

import anyio
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import Limits
from mcphost.errors import UsageError
from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.events import AutoApprovalChanged, ToolStarted
from mcphost.host.host import Host
from mcphost.host.questions.questions import AllowOnce, ApproveTool, ContinueTurn, Deny
from mcphost.serialization import replace
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import HANG, ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost

pytestmark = pytest.mark.anyio
ADD = ("demo__add", {"a": 1, "b": 2})
NOTE = ("demo__add_note", {"text": "x"})
PICKED = [("demo", "add"), ("demo", "list_notes")]


async def run_turn(host: Host, text: str = "go") -> list[tuple[str, str]]:
    """Run one turn; return the tools that were called, with the reason why each call was allowed."""
    feed = host.events.subscribe()
    with anyio.fail_after(20):
        await host.conversation.send(text)
    return [(event.tool, event.by) for event in feed.drain() if isinstance(event, ToolStarted)]


async def test_auto_approved_tools_run_without_a_question_and_others_still_ask(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(Deny())
    async with open_host(ScriptedModel(tool_round(ADD, NOTE), text_round("ok")), frontend) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        running = host.auto_approval.start(PICKED, AutoApprovalBudget(calls=5))
        assert (running.tools, running.servers) == (2, ("demo",))
        assert await run_turn(host) == [("add", "autonomy")]
        events = [event for event in feed.drain() if isinstance(event, AutoApprovalChanged)]
    assert [question.tool for question in frontend.asked if isinstance(question, ApproveTool)] == ["add_note"]
    assert [(event.on, event.calls_left) for event in events] == [(True, 5), (True, 4)]


async def test_without_it_the_same_call_is_asked(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(Deny())
    async with open_host(ScriptedModel(tool_round(ADD), text_round("ok")), frontend) as host:
        await host.servers.ensure_ready("demo")
        assert await run_turn(host) == []
    assert len(frontend.asked) == 1


@pytest.mark.parametrize(
    "picked", [[("demo", "add_note")], [("demo", "clear_notes")], [("demo", "none")], [("x", "add")], []]
)
async def test_tools_that_are_not_declared_read_only_cannot_be_picked(open_host: OpenHost, picked: Any) -> None:
    async with open_host(ScriptedModel()) as host:
        await host.servers.ensure_ready("demo")
        with pytest.raises(UsageError):
            host.auto_approval.start(picked, AutoApprovalBudget())
        assert host.auto_approval.status is None


@pytest.mark.parametrize(
    "budget",
    [
        AutoApprovalBudget(calls=0),
        AutoApprovalBudget(seconds=-1),
        AutoApprovalBudget(tokens=0),
        AutoApprovalBudget(calls=10**6),
        AutoApprovalBudget(seconds=float("nan")),
    ],
)
async def test_a_budget_has_bounds(open_host: OpenHost, budget: AutoApprovalBudget) -> None:
    async with open_host(ScriptedModel()) as host:
        await host.servers.ensure_ready("demo")
        with pytest.raises(UsageError, match="budget"):
            host.auto_approval.start(PICKED, budget)


async def test_its_calls_end_it(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host(
        ScriptedModel(tool_round(ADD), tool_round(ADD), tool_round(ADD), text_round("ok")), frontend
    ) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        host.auto_approval.start(PICKED, AutoApprovalBudget(calls=2))
        assert await run_turn(host) == [("add", "autonomy"), ("add", "autonomy"), ("add", "once")]
        events = [event for event in feed.drain() if isinstance(event, AutoApprovalChanged)]
        assert (events[-1].on, events[-1].why) == (False, "2 calls were made")
        assert host.auto_approval.status is None


async def test_its_tokens_end_it(open_host: OpenHost) -> None:
    # Each round of the scripted model uses 27 tokens.
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host(ScriptedModel(tool_round(ADD), tool_round(ADD), text_round("ok")), frontend) as host:
        await host.servers.ensure_ready("demo")
        host.auto_approval.start(PICKED, AutoApprovalBudget(tokens=50))
        assert await run_turn(host) == [("add", "autonomy"), ("add", "once")]


async def test_auto_approval_expires_and_reports_it_while_idle(open_host: OpenHost) -> None:
    async with open_host(ScriptedModel()) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        host.auto_approval.start(PICKED, AutoApprovalBudget(seconds=0.05))
        with anyio.fail_after(20):
            async for event in feed:
                if isinstance(event, AutoApprovalChanged) and not event.on:
                    assert event.why == "its time is up"
                    break


async def test_auto_approval_expires_while_the_machine_sleeps(
    open_host: OpenHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontend, woken = ScriptedFrontend(Deny()), time.time() + 90
    async with open_host(ScriptedModel(tool_round(ADD), text_round("ok")), frontend) as host:
        await host.servers.ensure_ready("demo")
        host.auto_approval.start(PICKED, AutoApprovalBudget(seconds=60))
        monkeypatch.setattr(time, "time", lambda: woken)
        running = host.auto_approval.status
        assert running is not None
        assert running.remaining.seconds == 0
        assert await run_turn(host) == []
        assert host.auto_approval.status is None
    assert len(frontend.asked) == 1


async def test_another_conversation_is_not_covered(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(Deny())
    async with open_host(ScriptedModel(tool_round(ADD), text_round("ok")), frontend) as host:
        await host.servers.ensure_ready("demo")
        host.auto_approval.start(PICKED, AutoApprovalBudget())
        host.conversation.open_new()
        assert host.auto_approval.status is None
        assert await run_turn(host) == []
    assert len(frontend.asked) == 1


async def test_calls_forbidden_by_the_configuration_stay_forbidden(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend()
    async with open_host(
        ScriptedModel(tool_round(ADD), text_round("ok")), frontend, never_rules=(parse_rule("demo/add?a=1"),)
    ) as host:
        await host.servers.ensure_ready("demo")
        host.auto_approval.start(PICKED, AutoApprovalBudget())
        assert await run_turn(host) == []
    assert frontend.asked == []


async def test_the_kill_key_ends_it_and_the_turn(open_host: OpenHost) -> None:
    model = ScriptedModel([HANG])
    async with open_host(model) as host, anyio.create_task_group() as tasks:
        await host.servers.ensure_ready("demo")
        host.auto_approval.start(PICKED, AutoApprovalBudget())
        results: list[Any] = []

        async def send() -> None:
            results.append(await host.conversation.send("go"))

        tasks.start_soon(send)
        with anyio.fail_after(20):
            await model.hanging.wait()
        assert host.halt()
        assert host.auto_approval.status is None
        assert not host.halt() or not results
    assert results[0].outcome == "stopped"


async def test_auto_approval_continues_past_the_round_limit_without_a_question(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(Deny(), False)
    rounds = [tool_round(ADD)] * 6
    async with open_host(ScriptedModel(*rounds, text_round("ok")), frontend, limits=Limits(max_rounds=2)) as host:
        await host.servers.ensure_ready("demo")
        host.auto_approval.start(PICKED, AutoApprovalBudget(calls=3))
        ran = await run_turn(host)
    assert ran == [("add", "autonomy")] * 3
    assert [type(question) for question in frontend.asked] == [ApproveTool, ContinueTurn]


async def test_the_same_tool_at_another_server_or_changed_is_asked(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend(Deny())
    async with open_host(ScriptedModel(tool_round(ADD), text_round("ok")), frontend) as host:
        await host.servers.ensure_ready("demo")
        host.auto_approval.start(PICKED, AutoApprovalBudget())
        connection = next(iter(host.auto_approval.candidates())).connection
        listed = connection.listing.tools["add"]
        changed = replace(listed, raw=type(listed.raw)(bytes(listed.raw).replace(b"Add", b"Steal")))
        assert changed.digest != listed.digest
        connection.listing.tools["add"] = changed
        assert await run_turn(host) == []
    assert len(frontend.asked) == 1
