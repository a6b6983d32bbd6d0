"""Tests that when the user retries an answer, results of read-only calls are reused instead of calling again."""

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.hooks import HookOutput
from mcphost.config.rule_syntax import parse_rule
from mcphost.config.rules import Rule
from mcphost.config.schema import HookConfig, HookSettings
from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.conversation.rewind import list_completed_calls
from mcphost.host.events import ToolFinished
from mcphost.host.host import Host
from mcphost.host.questions.questions import (
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    Deny,
    PassResult,
    ReviewResult,
    WithholdResult,
)
from mcphost.host.tools.hooks import RunHook
from mcphost.llm.messages import ToolReturnPart
from mcphost.serialization import encode
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio
READ_ONLY = {"readOnlyHint": True}


def counting_peer(annotations: dict[str, Any] | None = None, description: str = "Read the tide") -> InProcessServer:
    """Return a server whose tool `tide` returns a different text for each call."""
    peer = create_peer()
    definition = tool_definition("tide", annotations=READ_ONLY if annotations is None else annotations)
    peer.answers["tools/list"] = tools_result({**definition, "description": description})
    peer.answers["tools/call"] = lambda _: text_result(f"reading {len(peer.asked('tools/call'))}")
    return peer


def asking_model(*arguments: dict[str, Any], turns: int = 2) -> ScriptedModel:
    """Return a model that calls `tide` once with each of *arguments* in every turn."""
    rounds = [*(tool_round(("peer__tide", one)) for one in arguments), text_round("done")]
    return ScriptedModel(*rounds * turns)


def results(host: Host) -> list[ToolReturnPart]:
    return [part for one in host.conversation.messages for part in one.parts if isinstance(part, ToolReturnPart)]


@asynccontextmanager
async def opened(
    folder: Path, peer: InProcessServer, model: ScriptedModel, *answers: Any, **more: Any
) -> AsyncIterator[Host]:
    async with open_host_with(folder, peer, model, ScriptedFrontend(*answers), **more) as host:
        yield host


async def test_a_retry_uses_the_result_again_without_a_call_or_a_question(tmp_path: Path) -> None:
    peer, audit_log = counting_peer(), create_audit_log(tmp_path)
    async with opened(tmp_path, peer, asking_model({"at": "noon"}), AllowOnce(), audit_log=audit_log) as host:
        await host.conversation.send("when is the tide high?")
        (first,) = results(host)
        feed = host.events.subscribe()
        await host.conversation.retry()
        (again,) = results(host)
        assert (again.text, again.outcome) == ("reading 1", "ok")
        assert again.reused_at > 0
        assert again.text == first.text
        assert len(peer.asked("tools/call")) == 1
        (event,) = [one for one in feed.drain() if isinstance(one, ToolFinished)]
        assert event.reused_at == again.reused_at
        recorded = [row.event for row in await read_rows(audit_log, "tool")]
        assert recorded.count("started") == recorded.count("reused") == 1, "it is no call"
        assert list_completed_calls(host.conversation.messages, host.servers) == ()


async def test_a_message_that_is_edited_and_sent_again_uses_the_result_and_the_next_turn_does_not(
    tmp_path: Path,
) -> None:
    peer = counting_peer()
    async with opened(tmp_path, peer, asking_model({}, turns=3), AllowOnce(), AllowOnce()) as host:
        await host.conversation.send("when?")
        await host.conversation.branches.rewind(0)
        await host.conversation.send("when, please?")
        assert len(peer.asked("tools/call")) == 1
        await host.conversation.send("and now?")
        assert [part.text for part in results(host)] == ["reading 1", "reading 2"]


async def test_call_again_calls_the_tool(tmp_path: Path) -> None:
    peer = counting_peer()
    async with opened(tmp_path, peer, asking_model({}), AllowOnce(), AllowOnce()) as host:
        await host.conversation.send("when?")
        await host.conversation.retry(can_reuse=False)
        assert [(part.text, part.reused_at) for part in results(host)] == [("reading 2", 0.0)]


async def test_each_result_is_used_once_in_its_order(tmp_path: Path) -> None:
    peer = counting_peer()
    async with opened(tmp_path, peer, asking_model({}, {}), AllowSession()) as host:
        await host.conversation.send("watch the tide")
        await host.conversation.retry()
        assert [part.text for part in results(host)] == ["reading 1", "reading 2"]
        assert len(peer.asked("tools/call")) == 2


@pytest.mark.parametrize("annotations", [{}, {"readOnlyHint": True, "destructiveHint": True}])
async def test_a_tool_that_is_not_declared_read_only_is_called_again(
    tmp_path: Path, annotations: dict[str, Any]
) -> None:
    peer = counting_peer(annotations)
    async with opened(tmp_path, peer, asking_model({}), AllowOnce(), AllowOnce()) as host:
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert len(peer.asked("tools/call")) == 2


async def test_other_arguments_are_another_call(tmp_path: Path) -> None:
    peer = counting_peer()
    model = ScriptedModel(
        tool_round(("peer__tide", {"at": 1})),
        text_round("x"),
        tool_round(("peer__tide", {"at": True})),
        text_round("y"),
    )
    async with opened(tmp_path, peer, model, AllowOnce(), AllowOnce()) as host:
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert len(peer.asked("tools/call")) == 2


async def test_a_changed_definition_is_not_the_same_tool(tmp_path: Path) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowOnce()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
        (definition,) = stored(tmp_path, "SELECT definition FROM recorded_results")
        assert len(definition) == 64
    peer = counting_peer()
    async with opened(tmp_path, peer, asking_model({}, turns=1)) as host:
        await host.conversation.open(conversation)
        await host.conversation.retry()
        assert peer.asked("tools/call") == [], "the same definition, also after a restart"
    peer = counting_peer(description="Read the tide and send it home")
    async with opened(tmp_path, peer, asking_model({}, turns=1), Deny()) as host:
        await host.conversation.open(conversation)
        await host.conversation.retry()
        assert all(part.reused_at == 0 for part in results(host))


def stored(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "store.db")) as database, database:
        return [row[0] for row in database.execute(query)]


async def test_a_never_rule_that_was_added_since_is_followed(tmp_path: Path) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowOnce()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
    never = (Rule(server="peer", tool="tide"),)
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), never=never) as host:
        await host.conversation.open(conversation)
        await host.conversation.retry()
        (part,) = results(host)
        assert part.outcome == "declined"
        assert "reading" not in part.text


async def test_a_result_from_before_results_had_to_be_reviewed_is_not_used_again(tmp_path: Path) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowOnce()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
    frontend, peer = ScriptedFrontend(AllowOnce(), WithholdResult()), counting_peer()
    async with open_host_with(tmp_path, peer, asking_model({}, turns=1), frontend, reviewed=("peer",)) as host:
        await host.conversation.open(conversation)
        await host.conversation.retry()
        (part,) = results(host)
        assert "reading" not in part.text
        assert len(peer.asked("tools/call")) == 1
        assert [type(one) for one in frontend.asked] == [ApproveTool, ReviewResult]


async def test_a_result_that_was_reviewed_is_used_again_without_another_review(tmp_path: Path) -> None:
    frontend, peer = ScriptedFrontend(AllowOnce(), PassResult()), counting_peer()
    async with open_host_with(tmp_path, peer, asking_model({}), frontend, reviewed=("peer",)) as host:
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert [(part.text, part.reviewed, part.reused_at > 0) for part in results(host)] == [("reading 1", True, True)]
    assert [type(one) for one in frontend.asked] == [ApproveTool, ReviewResult]


async def test_a_result_whose_grant_was_revoked_is_not_used_again(tmp_path: Path) -> None:
    peer = counting_peer()
    async with opened(tmp_path, peer, asking_model({}), AllowSession(), Deny()) as host:
        await host.conversation.send("when?")
        (status,) = host.grants.list_session_grants()
        await host.grants.revoke(status.grant.id)
        await host.conversation.retry()
        assert [part.outcome for part in results(host)] == ["declined"]


@pytest.mark.parametrize("answer", [AllowSession(), AllowAlways()], ids=["session", "stored"])
async def test_a_result_whose_grant_is_revoked_while_a_hook_runs_is_not_used_again(tmp_path: Path, answer: Any) -> None:
    peer, frontend, grants = counting_peer(), ScriptedFrontend(answer, Deny()), list[str]()

    async def revoke(*_arguments: Any) -> HookOutput:
        for grant in grants:
            await host.grants.revoke(grant)
        grants.clear()
        return HookOutput()

    hook = HookConfig(settings=HookSettings(event="before_call", command=("revoke",)))
    async with open_host_with(tmp_path, peer, asking_model({}), frontend, hooks=(hook,), run_hook=revoke) as host:
        await host.conversation.send("when?")
        grants += [one.grant.id for one in await host.grants.list_grants()]
        await host.conversation.retry()
        assert grants == []
        assert [part.outcome for part in results(host)] == ["declined"]
        assert [question.recorded_at for question in frontend.asked if isinstance(question, ApproveTool)] == [0, 0]


async def test_hooks_run_once_before_a_call_whose_arguments_they_change_although_a_result_is_recorded(
    tmp_path: Path,
) -> None:
    peer, frontend, answers = counting_peer(), ScriptedFrontend(AllowSession(), AllowOnce()), list[bytes]()
    runs = list[bytes]()

    async def change(command: Any, folder: str, document: bytes, seconds: float) -> HookOutput:
        del command, folder, seconds
        runs.append(document)
        return HookOutput(output=answers[-1] if answers else b"")

    hook = HookConfig(settings=HookSettings(event="before_call", command=("change",)))
    model, audit_log = asking_model({"at": "noon"}), create_audit_log(tmp_path)
    async with open_host_with(
        tmp_path, peer, model, frontend, hooks=(hook,), run_hook=change, audit_log=audit_log
    ) as host:
        await host.conversation.send("when?")
        answers.append(b'{"arguments": {"at": "night"}, "note": "It is late."}')
        await host.conversation.retry()
        assert [params["arguments"] for params in peer.asked("tools/call")] == [{"at": "noon"}, {"at": "night"}]
        assert len(runs) == 2, "one run for each call"
        assert results(host)[0].text.count("It is late.") == 1
        hooked = [row.event for row in await read_rows(audit_log, "hook")]
        assert hooked == ["started", "ended"] * 2


def hook_with_notes(*notes: str) -> tuple[HookConfig, RunHook]:
    """Return a hook that runs before calls, and a runner that returns the next of *notes* at each run."""
    remaining = list(notes)

    async def run(command: Any, folder: str, document: bytes, seconds: float) -> HookOutput:
        del command, folder, document, seconds
        return HookOutput(output=encode({"note": remaining.pop(0)}))

    return HookConfig(settings=HookSettings(event="before_call", command=("note",))), run


async def test_the_note_of_a_hook_that_runs_before_a_reused_result_reaches_the_model_once(tmp_path: Path) -> None:
    hook, run = hook_with_notes("low", "low", "low tide at noon")
    model = asking_model({}, turns=3)
    async with opened(tmp_path, counting_peer(), model, AllowOnce(), hooks=(hook,), run_hook=run) as host:
        await host.conversation.send("when?")
        first = "Note from one of the user's hooks: low\n\nreading 1"
        assert [part.text for part in results(host)] == [first]
        await host.conversation.retry()
        assert [(part.text, part.reused_at > 0) for part in results(host)] == [(first, True)]
        await host.conversation.retry()
        told = f"Note from one of the user's hooks: low tide at noon\n\n{first}"
        assert [(part.text, part.reused_at > 0) for part in results(host)] == [(told, True)]


async def test_a_new_note_on_a_result_that_must_be_reviewed_is_reviewed_with_a_new_call(tmp_path: Path) -> None:
    hook, run = hook_with_notes("low", "low", "high")
    frontend, peer = ScriptedFrontend(AllowSession(), PassResult(), PassResult()), counting_peer()
    async with open_host_with(
        tmp_path, peer, asking_model({}, turns=3), frontend, reviewed=("peer",), hooks=(hook,), run_hook=run
    ) as host:
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert [part.reused_at > 0 for part in results(host)] == [True], "its note was reviewed"
        await host.conversation.retry()
        (part,) = results(host)
    assert part.reused_at == 0
    assert [type(one) for one in frontend.asked] == [ApproveTool, ReviewResult, ReviewResult]
    assert [part.text for part in frontend.asked[-1].parts] == ["Note from one of the user's hooks: high", "reading 2"]
    assert len(peer.asked("tools/call")) == 2


async def test_a_call_that_was_declined_or_failed_is_made_again(tmp_path: Path) -> None:
    peer = counting_peer()
    peer.answers["tools/call"] = text_result("no tide", isError=True)
    async with opened(tmp_path, peer, asking_model({}), AllowOnce(), AllowOnce()) as host:
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert len(peer.asked("tools/call")) == 2


async def reopen_and_retry(folder: Path, conversation: str, *answers: Any) -> tuple[list[ApproveTool], list[Any], int]:
    """Repeat the last answer of a conversation in a new Host.

    Returns the questions about the call, the outcomes of all results with whether they are reused, and the number of
    calls.
    """
    peer, frontend = counting_peer(), ScriptedFrontend(*answers)
    async with open_host_with(folder, peer, asking_model({}, turns=1), frontend) as host:
        await host.conversation.open(conversation)
        await host.conversation.retry()
        found = [(part.text, part.outcome, part.reused_at > 0) for part in results(host)]
    return [one for one in frontend.asked if isinstance(one, ApproveTool)], found, len(peer.asked("tools/call"))


async def test_a_result_of_a_permanent_permission_is_used_again_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowAlways()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
    assert await reopen_and_retry(tmp_path, conversation) == ([], [("reading 1", "ok", True)], 0)


async def test_after_a_restart_the_user_is_asked_whether_to_reuse_a_result_of_a_session_permission(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowSession()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
    (question,), found, calls = await reopen_and_retry(tmp_path, conversation, Deny())
    assert question.recorded_at > 0
    assert not question.editable
    assert ([outcome for _, outcome, _ in found], calls) == (["declined"], 0)
    (question,), found, calls = await reopen_and_retry(tmp_path, conversation, AllowOnce())
    assert question.recorded_at > 0
    assert (found, calls) == ([("reading 1", "ok", True)], 0)


def let_an_hour_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + 3_600
    monkeypatch.setattr(time, "time", lambda: later)


def allow_for_ten_minutes() -> AllowRule:
    return AllowRule(Rule(server="peer", tool="tide", scope="everywhere", expires=time.time() + 600))


async def test_the_user_is_asked_whether_to_reuse_a_result_whose_grant_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, frontend = counting_peer(), ScriptedFrontend(allow_for_ten_minutes(), AllowOnce())
    async with open_host_with(tmp_path, peer, asking_model({}, turns=3), frontend) as host:
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert len(frontend.asked) == 1, "the grant has not expired yet"
        let_an_hour_pass(monkeypatch)
        await host.conversation.retry()
        assert [part.reused_at > 0 for part in results(host)] == [True]
    assert [one.recorded_at > 0 for one in frontend.asked if isinstance(one, ApproveTool)] == [False, True]
    assert len(peer.asked("tools/call")) == 1


async def test_a_result_is_not_reused_if_its_tool_was_turned_off_while_the_user_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def turn_off(_question: Any) -> Any:
        await host.servers.set_tool_enabled("peer", "tide", enabled=False)
        return AllowOnce()

    frontend = ScriptedFrontend(allow_for_ten_minutes(), turn_off)
    async with open_host_with(tmp_path, counting_peer(), asking_model({}), frontend) as host:
        await host.conversation.send("when?")
        let_an_hour_pass(monkeypatch)
        await host.conversation.retry()
        (part,) = results(host)
    assert (part.outcome, part.reused_at) == ("failed", 0)
    assert "turned this tool off" in part.text


async def test_a_result_whose_grant_expires_while_a_hook_runs_is_not_reused_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, frontend, runs = counting_peer(), ScriptedFrontend(allow_for_ten_minutes(), Deny()), list[bytes]()

    async def expire(command: Any, folder: str, document: bytes, seconds: float) -> HookOutput:
        del command, folder, seconds
        runs.append(document)
        if len(runs) == 2:
            let_an_hour_pass(monkeypatch)
        return HookOutput()

    hook = HookConfig(settings=HookSettings(event="before_call", command=("expire",)))
    async with open_host_with(tmp_path, peer, asking_model({}), frontend, hooks=(hook,), run_hook=expire) as host:
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert [part.outcome for part in results(host)] == ["declined"]
    assert [one.recorded_at > 0 for one in frontend.asked if isinstance(one, ApproveTool)] == [False, True]


async def test_a_result_of_auto_approve_is_reused_without_a_question_only_while_auto_approve_covers_the_call(
    tmp_path: Path,
) -> None:
    peer, frontend = counting_peer(), ScriptedFrontend(Deny())
    async with open_host_with(tmp_path, peer, asking_model({}, turns=3), frontend) as host:
        host.auto_approval.start([("peer", "tide")], AutoApprovalBudget(calls=10))
        await host.conversation.send("when?")
        await host.conversation.retry()
        assert [(part.outcome, part.reused_at > 0) for part in results(host)] == [("ok", True)]
        assert frontend.asked == []
        assert host.auto_approval.stop("ended by you")
        await host.conversation.retry()
        assert [part.outcome for part in results(host)] == ["declined"]
    assert [one.recorded_at > 0 for one in frontend.asked if isinstance(one, ApproveTool)] == [True]
    assert len(peer.asked("tools/call")) == 1


async def test_a_result_allowed_by_a_trusted_claim_is_not_reused_unasked_after_the_trust_ended(tmp_path: Path) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), trusted=("peer",)) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
    (question,), found, calls = await reopen_and_retry(tmp_path, conversation, Deny())
    assert question.recorded_at > 0
    assert ([outcome for _, outcome, _ in found], calls) == (["declined"], 0)


async def test_a_result_allowed_for_another_conversation_is_not_reused_unasked_in_a_copy(tmp_path: Path) -> None:
    peer = counting_peer()
    frontend = ScriptedFrontend(AllowRule(Rule(server="peer", tool="tide", scope="conversation")), Deny())
    async with open_host_with(tmp_path, peer, asking_model({}), frontend) as host:
        await host.conversation.send("when?")
        await host.conversation.branches.fork()
        await host.conversation.retry()
        assert [part.outcome for part in results(host)] == ["declined"]
    assert [one.recorded_at > 0 for one in frontend.asked if isinstance(one, ApproveTool)] == [False, True]


async def test_the_user_is_asked_about_a_result_recorded_without_what_allowed_it(tmp_path: Path) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowOnce()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        database.execute("UPDATE recorded_results SET grant_id = ''")  # as earlier versions wrote it
    (question,), found, calls = await reopen_and_retry(tmp_path, conversation, AllowOnce())
    assert question.recorded_at > 0
    assert (found, calls) == ([("reading 1", "ok", True)], 0)


@pytest.mark.parametrize("answer", [AllowSession(), AllowAlways(), AllowRule(parse_rule("peer/tide"))])
async def test_an_answer_about_a_recorded_result_allows_no_later_call(tmp_path: Path, answer: Any) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowSession()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
    peer, frontend = counting_peer(), ScriptedFrontend(answer, Deny())
    async with open_host_with(tmp_path, peer, asking_model({}, {"at": "noon"}, turns=1), frontend) as host:
        await host.conversation.open(conversation)
        await host.conversation.retry()
        assert [part.outcome for part in results(host)] == ["ok", "declined"]
    asked = [question for question in frontend.asked if isinstance(question, ApproveTool)]
    assert [question.recorded_at > 0 for question in asked] == [True, False]
    assert peer.asked("tools/call") == []


async def test_deleting_a_conversation_deletes_what_finds_its_results(tmp_path: Path) -> None:
    async with opened(tmp_path, counting_peer(), asking_model({}, turns=1), AllowOnce()) as host:
        await host.conversation.send("when?")
        conversation = host.conversation.id
        host.conversation.open_new()
        await host.history.delete(conversation)
    assert stored(tmp_path, "SELECT count(*) FROM recorded_results") == [0]


async def test_a_retry_in_a_copy_uses_the_result_of_the_original(tmp_path: Path) -> None:
    peer = counting_peer()
    async with opened(tmp_path, peer, asking_model({}), AllowOnce()) as host:
        await host.conversation.send("when?")
        await host.conversation.branches.fork()
        await host.conversation.retry()
        assert [(part.text, part.reused_at > 0) for part in results(host)] == [("reading 1", True)]
        assert len(peer.asked("tools/call")) == 1


async def test_the_first_message_in_a_copy_without_the_answer_uses_its_result_and_the_next_does_not(
    tmp_path: Path,
) -> None:
    peer = counting_peer()
    model = ScriptedModel(text_round("hello"), *[tool_round(("peer__tide", {})), text_round("done")] * 3)
    async with opened(tmp_path, peer, model, AllowOnce(), AllowOnce()) as host:
        await host.conversation.send("hi")
        await host.conversation.send("when?")
        await host.conversation.branches.fork(2)
        await host.conversation.send("when, please?")
        assert [(part.text, part.reused_at > 0) for part in results(host)] == [("reading 1", True)]
        await host.conversation.send("and now?")
        assert [part.text for part in results(host)] == ["reading 1", "reading 2"]
