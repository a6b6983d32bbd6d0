"""Tests for going back in a conversation: retries, branches and forks; tool calls are not undone."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.errors import UsageError
from mcphost.host.active_conversation import Conversation
from mcphost.host.conversation.rewind import list_completed_calls, list_other_calls
from mcphost.host.events import NoticeEvent
from mcphost.host.host import Host
from mcphost.host.lifetime import Lazy
from mcphost.host.questions.questions import AllowOnce, Deny
from mcphost.llm.messages import Message, TextPart, ToolUsePart
from mcphost.llm.model import StreamFinished
from mcphost.llm.model import TextDelta as Text
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditRow
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.manual_calls import StoredManualCall
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round, user_message
from tests.unit.host.audit_rows import create_audit_log
from tests.unit.host.scripted_host import create_peer, open_host_with, text_result, tool_definition, tools_result

pytestmark = pytest.mark.anyio


def dialogue(host: Host) -> list[str]:
    """Return the texts of the open conversation's messages."""
    return [message.text for message in host.conversation.messages if message.text]


async def stored_dialogue(folder: Path, conversation: str) -> list[str]:
    database = Database(folder / "store.db")
    messages = await ConversationStore(database).load(conversation) or ()
    await database.close()
    return [message.text for message in messages if message.text]


async def test_a_retry_answers_again_and_keeps_the_first_answer_as_a_branch(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"), text_round("three"))
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.send("hi")
        result = await host.conversation.retry()
        assert result.text == "two"
        assert dialogue(host) == ["hi", "two"]
        assert [message.text for message in model.requests[1].messages if message.text] == ["hi"]
        (branch,) = await host.conversation.branches.list_others()
        assert (branch.text, branch.messages) == ("hi", 2)
        await host.conversation.branches.switch(branch.number)
        assert dialogue(host) == ["hi", "one"]
        await host.conversation.send("go on")
        assert dialogue(host) == ["hi", "one", "go on", "three"]
        assert [one.messages for one in await host.conversation.branches.list_others()] == [2]
        conversation = host.conversation.id
    assert await stored_dialogue(tmp_path, conversation) == ["hi", "one", "go on", "three"]


async def test_going_back_survives_the_end_of_the_program(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.send("first")
        await host.conversation.send("second")
        await host.conversation.branches.rewind(2)
        conversation = host.conversation.id
    assert await stored_dialogue(tmp_path, conversation) == ["first", "one"]
    model = ScriptedModel(text_round("other"))
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.open(conversation)
        await host.conversation.send("instead")
        assert dialogue(host) == ["first", "one", "instead", "other"]
        (branch,) = await host.conversation.branches.list_others()
        assert branch.text == "second"
        await host.conversation.branches.rewind(0)
        assert dialogue(host) == []
        assert len(await host.conversation.branches.list_others()) == 2
    assert await stored_dialogue(tmp_path, conversation) == []


async def test_a_fork_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"), text_round("three"))
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.send("first")
        original = host.conversation.id
        await host.conversation.send("second")
        await host.conversation.branches.fork(2)
        assert host.conversation.id != original
        assert dialogue(host) == ["first", "one"]
        await host.conversation.send("third")
        assert {info.id: info.messages for info in await host.conversation.list_stored()} == {
            original: 4,
            host.conversation.id: 4,
        }
        forked = host.conversation.id
        assert host.conversation.title == "first (copy)"
        await host.conversation.branches.fork()
        assert host.conversation.title == "first (copy 2)"
        await host.conversation.branches.fork(mark="another")
        assert host.conversation.title == "first (copy 2) (another)"
    assert await stored_dialogue(tmp_path, original) == ["first", "one", "second", "two"]
    assert await stored_dialogue(tmp_path, forked) == ["first", "one", "third", "three"]


async def test_the_calls_that_stay_done_are_listed_with_what_their_server_says_of_them(tmp_path: Path) -> None:
    read = {**tool_definition("read"), "annotations": {"readOnlyHint": True}}
    peer = create_peer(tools__list=tools_result(read, tool_definition("write")), tools__call=text_result("done"))
    model = ScriptedModel(
        tool_round(("peer__read", {})),
        tool_round(("peer__write", {"x": 1}), ("peer__write", {"x": 2})),
        text_round("ok"),
    )
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce(), Deny(""))
    async with open_host_with(tmp_path, peer, model, frontend) as host:
        await host.conversation.send("go")
        calls = list_completed_calls(host.conversation.messages, host.servers)
        assert [(call.server, call.tool, call.arguments, call.outcome, call.is_read_only) for call in calls] == [
            ("peer", "read", {}, "ok", True),
            ("peer", "write", {"x": 1}, "ok", False),
        ]
        assert [call.position for call in calls] == [1, 3]


async def test_calls_that_were_rejected_before_they_were_sent_are_not_listed(tmp_path: Path) -> None:
    strict = tool_definition("write")
    strict["inputSchema"] = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    peer = create_peer(tools__list=tools_result(strict), tools__call=text_result("done"))
    model = ScriptedModel(
        tool_round(("peer__write", {"x": "one"}), ("peer__write", {})),
        tool_round(("peer__write", None), ("peer__nosuch", {"x": 1})),
        tool_round(("peer__write", {"x": 1})),
        text_round("ok"),
    )
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(AllowOnce())) as host:
        await host.conversation.send("go")
        calls = list_completed_calls(host.conversation.messages, host.servers)
        assert [(call.tool, call.arguments, call.outcome) for call in calls] == [("write", {"x": 1}, "ok")]


async def test_calls_by_the_user_and_on_other_branches_since_a_message_are_listed(tmp_path: Path) -> None:
    peer = create_peer(tools__list=tools_result(tool_definition("write")), tools__call=text_result("done"))
    model = ScriptedModel(
        text_round("one"), tool_round(("peer__write", {"x": 1})), text_round("two"),
        text_round("other"), tool_round(("peer__write", {"x": 2})), text_round("three"),
    )  # fmt: skip
    answers, log = ScriptedFrontend(AllowOnce(), AllowOnce()), create_audit_log(tmp_path)
    async with open_host_with(tmp_path, peer, model, answers, audit_log=log) as host:
        await host.conversation.send("first")
        await host.tools.call("peer", "write", {"body": "zzz"})
        await host.conversation.send("second")
        await host.conversation.branches.rewind(2)
        await host.conversation.send("third")
        await host.tools.call("peer", "write", {"body": "yyy"})
        await host.conversation.send("fourth")
        messages = host.conversation.messages
        assert [message.text for message in messages if message.role == "user"] == ["first", "third", "fourth"]
        rows = await host.audit.read_page(AuditFilter(since=int(messages[0].at * 1e6)), 1_000)
        others = list_other_calls(messages, host.conversation.id, rows, host.servers)
        facts = [(call.tool, call.outcome, call.position, call.is_manual, call.is_read_only) for call in others]
        assert facts == [
            ("write", "ok", 1, True, False), ("write", "ok", 1, False, False), ("write", "ok", 3, True, False),
        ]  # fmt: skip
        assert [call.arguments for call in list_completed_calls(messages, host.servers)] == [{"x": 2}]
        assert list_other_calls(messages, "another", rows, host.servers) == ()
        assert list_other_calls((), host.conversation.id, rows, host.servers) == ()


async def test_nothing_is_left_behind_while_a_turn_runs_or_messages_are_not_saved(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    async with open_host_with(tmp_path, {}, model) as host:
        with pytest.raises(UsageError, match="no message to answer again"):
            await host.conversation.retry()
        await host.conversation.send("hi")
        with pytest.raises(UsageError, match="only 2 messages"):
            await host.conversation.branches.rewind(3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "again")
            await anyio.wait_all_tasks_blocked()
            if host.conversation.is_busy:
                with pytest.raises(UsageError, match="The model is still answering"):
                    await host.conversation.branches.rewind(0)
        with closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
            db.execute("ALTER TABLE messages RENAME TO away")
        await host.conversation.send("lost?")
        with pytest.raises(UsageError, match="not saved yet"):
            await host.conversation.branches.rewind(0)
        assert "lost?" in dialogue(host)


async def test_a_question_counts_the_turns_of_the_whole_conversation_also_when_it_is_reopened(tmp_path: Path) -> None:
    peer = create_peer("2026-07-28", tools__list=tools_result(tool_definition("it")), tools__call=text_result("done"))
    async with open_host_with(tmp_path, {}, ScriptedModel(text_round("one"), text_round("two"))) as host:
        await host.conversation.send("first")
        await host.conversation.send("second")
        conversation = host.conversation.id
    frontend, model = ScriptedFrontend(AllowOnce()), ScriptedModel(tool_round(("peer__it", {})), text_round("three"))
    async with open_host_with(tmp_path, peer, model, frontend) as host:
        await host.conversation.open(conversation)
        await host.conversation.send("third")
    assert [question.why for question in frontend.asked] == ["the model asked for it in turn 3"]


async def test_a_manual_call_of_a_conversation_that_was_left_is_saved_once_the_store_works(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"))
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.send("first")
        feed, left = host.events.subscribe(), host.conversation.id
        add = host.conversation.start_manual_call()
        host.conversation.open_new()
        with closing(sqlite3.connect(tmp_path / "store.db")) as db:
            db.execute("ALTER TABLE manual_calls RENAME TO away")
            db.commit()
            add(StoredManualCall("peer", "write", {}, "ok", "done"))
            with anyio.fail_after(20):
                await anext(event async for event in feed if isinstance(event, NoticeEvent))
            db.execute("ALTER TABLE away RENAME TO manual_calls")
            db.commit()
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.open(left)
        assert [call.text for call in host.conversation.manual_calls] == ["done"]


async def open_two_branches(host: Host) -> int:
    """Send a message, go back, and send another one; return the number of the branch that was left."""
    await host.conversation.send("first")
    await host.conversation.branches.rewind(0)
    await host.conversation.send("second")
    (other,) = await host.conversation.branches.list_others()
    return other.number


def refuse_inserts(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE TRIGGER full BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
    db.commit()


async def test_a_manual_call_of_a_branch_that_was_left_is_saved_once_the_store_works(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    async with open_host_with(tmp_path, {}, model) as host:
        number = await open_two_branches(host)
        feed, left = host.events.subscribe(), host.conversation.id
        with closing(sqlite3.connect(tmp_path / "store.db")) as db:
            refuse_inserts(db, "manual_calls")
            host.conversation.start_manual_call()(StoredManualCall("peer", "write", {}, "ok", "done"))
            with anyio.fail_after(20):
                await anext(event async for event in feed if isinstance(event, NoticeEvent))
            await host.conversation.branches.switch(number)
            assert dialogue(host) == ["first", "one"]
            db.execute("DROP TRIGGER full")
            db.commit()
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.open(left)
        (other,) = await host.conversation.branches.list_others()
        await host.conversation.branches.switch(other.number)
        assert dialogue(host) == ["second", "two"]
        assert [call.text for call in host.conversation.manual_calls] == ["done"]


async def test_no_branch_is_left_while_its_messages_cannot_be_saved(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"), text_round("three"))
    async with open_host_with(tmp_path, {}, model) as host:
        number = await open_two_branches(host)
        with closing(sqlite3.connect(tmp_path / "store.db")) as db:
            refuse_inserts(db, "messages")
            await host.conversation.send("third")
            with pytest.raises(UsageError, match="not saved yet"):
                await host.conversation.branches.switch(number)
            assert dialogue(host) == ["second", "two", "third", "three"]
            db.execute("DROP TRIGGER full")
            db.commit()
        await host.conversation.branches.switch(number)
        conversation = host.conversation.id
    database = Database(tmp_path / "store.db")
    branches = await ConversationStore(database).list_branches(conversation)
    await database.close()
    assert [(one.text, one.messages) for one in branches] == [("third", 4)]


async def test_a_call_that_is_sent_at_the_second_attempt_is_not_listed_as_one_of_another_branch(
    tmp_path: Path,
) -> None:
    use, at = request_write(1_700_000_000.0), 1_700_000_000_000_000
    rows = [
        make_row(1, "started", at), make_row(2, "ended", at + 1, about=1, decision="not sent: the tool changed"),
        make_row(3, "started", at + 2), make_row(4, "ended", at + 3, about=3, decision="ok"),
        make_row(5, "started", at + 4), make_row(6, "ended", at + 5, about=5, decision="ok"),
    ]  # fmt: skip
    async with open_host_with(tmp_path, {}, ScriptedModel()) as host:
        others = list_other_calls([user_message("go"), use], "c1", rows[::-1], host.servers)
    assert [call.at for call in others] == [(at + 4) / 1e6]


async def test_a_call_whose_time_was_rounded_is_not_listed_as_one_of_another_branch(tmp_path: Path) -> None:
    use = request_write(1_700_000_000.0000006)
    rows = [make_row(2, "ended", 1_700_000_000_000_001, about=1, decision="ok"),
            make_row(1, "started", 1_700_000_000_000_000)]  # fmt: skip
    async with open_host_with(tmp_path, {}, ScriptedModel()) as host:
        assert list_other_calls([user_message("go"), use], "c1", rows, host.servers) == ()


def request_write(at: float) -> Message:
    """Return a message that requests a call of the tool peer/write."""
    return Message(role="assistant", parts=(ToolUsePart("call-1", "peer__write", {}),), at=at)


def make_row(seq: int, event: str, at: int, *, about: int = 0, decision: str = "") -> AuditRow:
    """Return an audit row about a call of the tool peer/write."""
    return AuditRow(
        at=at, kind="tool", event=event, server="peer", subject="write", decision=decision, call="call-1",
        conversation="c1", seq=seq, run="r1", about=about, prev="", hash="",
    )  # fmt: skip


async def test_the_search_finds_a_copy_while_the_program_that_made_it_runs(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, {}, ScriptedModel(text_round("one"))) as host:
        await host.conversation.send("the harbour")
        await host.conversation.branches.fork()
        copy = host.conversation.id
        with anyio.fail_after(10):
            while (found := await host.history.search("harbour")).notes:  # older messages are still being indexed
                pass
        assert [one.id for one in found.conversations].count(copy) == 1
        assert len(found.conversations) == 2


async def leave_draft(folder: Path) -> str:
    """Store a conversation whose last answer was cut off by a crash, and return its id."""
    database = Database(folder / "store.db")
    store = ConversationStore(database)
    conversation = Conversation(Lazy(lambda: store), lambda error: None)
    await conversation.append(user_message("question"))
    await conversation.save_draft(Message(role="assistant", parts=(TextPart("half an ans"),), at=2.0, cut=True))
    await database.close()
    return conversation.id


async def test_an_answer_that_a_crash_cut_off_is_kept_as_a_branch_when_the_user_goes_back(tmp_path: Path) -> None:
    conversation = await leave_draft(tmp_path)
    async with open_host_with(tmp_path, {}, ScriptedModel(text_round("whole"))) as host:
        await host.conversation.open(conversation)
        await host.conversation.retry()
        assert dialogue(host) == ["question", "whole"]
        (branch,) = await host.conversation.branches.list_others()
        await host.conversation.branches.switch(branch.number)
        assert dialogue(host) == ["question", "half an ans"]


async def test_an_answer_that_a_crash_cut_off_is_kept_when_another_branch_is_opened(tmp_path: Path) -> None:
    conversation = await leave_draft(tmp_path)
    async with open_host_with(tmp_path, {}, ScriptedModel(text_round("whole"))) as host:
        await host.conversation.open(conversation)
        await host.conversation.branches.switch(1)
        (branch,) = await host.conversation.branches.list_others()
        await host.conversation.branches.switch(branch.number)
        assert dialogue(host) == ["question", "half an ans"]


async def test_a_fork_has_the_answer_that_a_crash_cut_off(tmp_path: Path) -> None:
    conversation = await leave_draft(tmp_path)
    async with open_host_with(tmp_path, {}, ScriptedModel()) as host:
        await host.conversation.open(conversation)
        await host.conversation.branches.fork()
        assert dialogue(host) == ["question", "half an ans"]
    assert await stored_dialogue(tmp_path, conversation) == ["question", "half an ans"]


async def test_a_retry_after_a_continued_answer_answers_the_users_own_message(tmp_path: Path) -> None:
    cut: list[Any] = [Text("half an"), StreamFinished("length")]
    model = ScriptedModel(cut, text_round("other half"), text_round("whole"))
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.send("question")
        await host.conversation.continue_turn()
        await host.conversation.retry()
        assert dialogue(host) == ["question", "whole"]
        assert [message.text for message in model.requests[-1].messages if message.text] == ["question"]
