"""Tests that a background call is judged by the conversation that it belongs to, whichever conversation is open."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest

from mcphost.client import timeouts
from mcphost.config.rule_syntax import parse_rule
from mcphost.config.rules import Rule
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.events import BackgroundCallEnded, ToolFinished
from mcphost.host.host import Host
from mcphost.host.questions.questions import (
    Accept,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    Deny,
    FillForm,
    ReviewResult,
    WithholdResult,
)
from mcphost.serialization import replace
from tests.event_loop import wait_until
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.consent_attacks.attack import SelectiveFrontend
from tests.unit.host.asking_server import BOTH_ERAS, STATELESS, AskingServer, form_request
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.host_events import wait_for_event
from tests.unit.host.scripted_host import create_peer, open_host_with, text_result, tool_definition, tools_result

pytestmark = pytest.mark.anyio
DOOR_CODE = "The door code of the cellar is 2290-4417-QB"


class LeftCall:
    """A call of `web/ask` with text of the server `mail`, which runs in the background until the user fills a form."""

    def __init__(self, host: Host, web: AskingServer, frontend: SelectiveFrontend, form: anyio.Event) -> None:
        self.host, self.web, self.frontend = host, web, frontend
        self._form = form
        self._feed = host.events.subscribe()

    async def finish(self) -> None:
        """Fill in the form, and wait until the call has ended."""
        self._form.set()
        with anyio.fail_after(10):
            await wait_for_event(self._feed, BackgroundCallEnded)

    async def revoke_permissions(self) -> None:
        for status in self.host.grants.list_session_grants():
            await self.host.grants.revoke(status.grant.id)

    @property
    def calls_asked_about(self) -> list[ApproveTool]:
        return [one for one in self.frontend.questions_of(ApproveTool) if one.tool == "ask"]


@asynccontextmanager
async def open_left_call(
    folder: Path,
    *answers: Any,
    reviewed: tuple[str, ...] = (),
    passes: tuple[Rule, ...] = (),
    audit_log: AuditLog | None = None,
    revision: str = STATELESS,
) -> AsyncGenerator[LeftCall]:
    """Open a host with a call in the background; *answers* are those about calls of `ask` after the first."""
    web = AskingServer(revision, {"who": form_request()})
    web.answers["tools/list"] = tools_result(tool_definition("ask", annotations={"readOnlyHint": True}))
    mail = create_peer(tools__list=tools_result(tool_definition("read")), tools__call=text_result(DOOR_CODE))
    model = ScriptedModel(
        tool_round(("mail__read", {})), tool_round(("web__ask", {"q": DOOR_CODE})), *map(text_round, ("bye", "hi"))
    )
    is_asked, may_answer = anyio.Event(), anyio.Event()

    async def fill_form(_question: FillForm) -> Accept:
        is_asked.set()
        await may_answer.wait()
        return Accept()

    frontend = SelectiveFrontend(
        approve_tool=[AllowOnce(), AllowSession(), *answers], fill_form=[fill_form], review_result=[WithholdResult()]
    )
    peers = {"mail": mail, "web": web}
    more: dict[str, Any] = {"reviewed": reviewed, "passes": passes, "audit_log": audit_log}
    async with open_host_with(folder, peers, model, frontend, **more) as host:

        async def send_to_background() -> None:
            await is_asked.wait()
            (call,) = [one.call for one in host.running_calls.list() if one.tool == "ask"]
            host.conversation.send_to_background(call)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_to_background)
            await host.conversation.send("go")
        yield LeftCall(host, web, frontend, may_answer)


async def open_new(host: Host) -> None:
    host.conversation.open_new()


async def go_back_to_the_beginning(host: Host) -> None:
    await host.conversation.branches.rewind(1)


LEAVE = pytest.mark.parametrize("leave", [open_new, go_back_to_the_beginning])


@LEAVE
async def test_a_rule_that_passes_results_sees_where_the_arguments_came_from(tmp_path: Path, leave: Any) -> None:
    rules = (parse_rule("web/ask?never-from:mail"),)
    async with open_left_call(tmp_path, reviewed=("web",), passes=rules) as left:
        await leave(left.host)
        await left.finish()
        assert [one.tool for one in left.frontend.questions_of(ReviewResult)] == ["ask"]


@LEAVE
async def test_a_call_that_needs_approval_again_is_shown_with_its_origins(tmp_path: Path, leave: Any) -> None:
    async with open_left_call(tmp_path, Deny()) as left:
        await leave(left.host)
        await left.revoke_permissions()
        await left.finish()
        first, again = left.calls_asked_about
        assert [one.server for one in first.origins] == ["mail"]
        assert again.origins == first.origins


async def test_a_question_about_a_call_of_another_conversation_says_so(tmp_path: Path) -> None:
    async with open_left_call(tmp_path, Deny()) as left:
        left.host.conversation.open_new()
        await left.revoke_permissions()
        await left.finish()
        first, again = left.calls_asked_about
        assert first.why == "the model asked for it in turn 1"
        assert again.why == "the model asked for it in turn 1, in another conversation"


async def test_auto_approve_of_another_conversation_does_not_approve_the_call(tmp_path: Path) -> None:
    async with open_left_call(tmp_path, Deny()) as left:
        left.host.conversation.open_new()
        left.host.auto_approval.start([("web", "ask")], AutoApprovalBudget())
        await left.revoke_permissions()
        await left.finish()
        assert len(left.calls_asked_about) == 2
        assert len(left.web.calls) == 1
        status = left.host.auto_approval.status
        assert status is not None
        assert status.remaining.calls == status.budget.calls


async def test_a_rule_for_this_conversation_is_one_for_the_conversation_of_the_call(tmp_path: Path) -> None:
    rule = replace(parse_rule("web/ask"), scope="conversation")
    async with open_left_call(tmp_path, AllowRule(rule)) as left:
        conversation = left.host.conversation.id
        left.host.conversation.open_new()
        await left.revoke_permissions()
        await left.finish()
        (status,) = [one for one in await left.host.grants.list_grants() if not one.grant.session]
        assert status.grant.place == conversation


async def test_the_audit_rows_of_the_call_name_its_conversation(tmp_path: Path) -> None:
    log = create_audit_log(tmp_path)
    async with open_left_call(tmp_path, AllowOnce(), audit_log=log) as left:
        conversation = left.host.conversation.id
        left.host.conversation.open_new()
        await left.revoke_permissions()
        await left.finish()
    rows = [row for row in await read_rows(log, "tool") if row.subject == "ask"]
    assert {row.event for row in rows} >= {"answered", "started", "ended"}
    assert {row.conversation for row in rows} == {conversation}


@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_the_audit_row_of_a_form_names_the_conversation_of_its_call(tmp_path: Path, revision: str) -> None:
    log = create_audit_log(tmp_path)
    async with open_left_call(tmp_path, AllowOnce(), audit_log=log, revision=revision) as left:
        conversation = left.host.conversation.id
        left.host.conversation.open_new()
        await left.host.conversation.send("something else")
        assert left.host.conversation.id not in ("", conversation)
        await left.finish()
    rows = await read_rows(log, "form")
    assert [row.event for row in rows] == ["answered"]
    assert {row.conversation for row in rows} == {conversation}


@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_the_duration_of_a_call_leaves_out_the_time_in_which_a_question_of_its_server_was_open(
    tmp_path: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    monkeypatch.setattr(timeouts, "monotonic", lambda: monotonic() + passed)
    async with open_left_call(tmp_path, revision=revision) as left:
        feed = left.host.events.subscribe()
        passed = 3_600.0  # the form is open
        (call,) = left.host.running_calls.list()
        assert call.seconds < 60
        await left.finish()
        (finished,) = [one for one in feed.drain() if isinstance(one, ToolFinished)]
        assert 0 < finished.seconds < 60


async def test_a_form_of_a_left_conversation_says_so_if_the_server_does_not_say_which_call_it_is_for(
    tmp_path: Path,
) -> None:
    async with open_left_call(tmp_path, revision="2025-11-25") as left:
        left.host.conversation.open_new()
        left.web.ask("later", *form_request())
        await wait_until(lambda: len(left.frontend.questions_of(FillForm)) == 2)
        assert left.frontend.questions_of(FillForm)[-1].why == "requested by its tool ask, in another conversation"
        await left.finish()


async def test_a_form_that_may_be_for_calls_of_several_conversations_names_none(tmp_path: Path) -> None:
    log = create_audit_log(tmp_path)
    async with open_left_call(tmp_path, revision="2025-11-25", audit_log=log) as left:
        left.host.conversation.open_new()
        await left.host.conversation.send("something else")
        await left.host.tools.call("web", "ask", {})  # its form may as well be for the call in the background
        form = left.frontend.questions_of(FillForm)[-1]
        assert form.why.endswith("2 running calls; it did not say which, in one of several conversations")
        (row,) = await read_rows(log, "form")
        assert (row.event, row.conversation) == ("answered", "")
        await left.finish()
