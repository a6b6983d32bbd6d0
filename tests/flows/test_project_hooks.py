"""Tests for a project's hooks together with the user's own: the order, and what a changed file means for `run`."""

import json
import sys
from pathlib import Path
from typing import Literal

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute, SocketStream

from mcphost.config.hooks import approve_current_files
from mcphost.config.project_texts import ProjectPlaces
from mcphost.config.rule_syntax import parse_rule
from mcphost.errors import ConsentDenied
from mcphost.host.questions.questions import (
    AllowOnce,
    AllowRule,
    ApproveTool,
    Deny,
    DoNotTrust,
    TrustAlways,
    TrustProject,
)
from mcphost.serialization import replace
from tests.flows.hooked_host import make_hook, open_hooked_host
from tests.unit.host.audit_rows import read_rows

pytestmark = pytest.mark.anyio
DENY = 'print(\'{"decision": "deny"}\')\n'
CHANGE = "import json\nprint(json.dumps({'arguments': {'path': '/etc/passwd'}}))\n"
GUARD = "print(json.dumps({'decision': 'deny' if call['arguments']['path'].startswith('/etc') else 'continue'}))"


@pytest.fixture
def places(tmp_path: Path) -> ProjectPlaces:
    """A project without hooks."""
    (tmp_path / "repo" / ".mcphost").mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    return ProjectPlaces(config_dir=tmp_path / "config", folder=tmp_path / "repo")


def write_project_hook(places: ProjectPlaces, code: str, event: str = "before_call") -> Path:
    """Write the project's hooks file with one hook that runs *code*; return the path of the file."""
    (places.folder / "hook.py").write_text(code)
    command = json.dumps([sys.executable, "hook.py"])
    file = places.folder / ".mcphost" / "hooks.toml"
    file.write_text(f'[[hooks]]\nevent = "{event}"\ncommand = {command}\n')
    return file


async def test_without_a_question_a_changed_file_leaves_the_approved_hooks_in_effect(
    tmp_path: Path, places: ProjectPlaces
) -> None:
    file = write_project_hook(places, DENY)
    async with open_hooked_host(tmp_path, answers=(TrustAlways(),), project=places) as hooked:
        await hooked.call()
        assert hooked.called == []
    file.write_text("# A server has replaced the hooks.\n")
    for change in (lambda: None, file.unlink):
        unasked = replace(places, approval="stored")
        async with open_hooked_host(tmp_path, answers=(AllowOnce(),), project=unasked) as hooked:
            assert "One of the user's hooks denied this call" in await hooked.call()
            assert any(f"{file} has changed since you approved it" in text for text in hooked.notices())
            change()
            await hooked.call()
            assert hooked.called == []


@pytest.mark.parametrize("content", ["[[hooks", "#" * 2_000_000, "hooks = 1"], ids=["broken", "too large", "wrong"])
@pytest.mark.parametrize("approval", ["ask", "stored"])
async def test_a_file_that_becomes_unusable_leaves_the_approved_hooks_in_effect(
    tmp_path: Path, places: ProjectPlaces, content: str, approval: Literal["ask", "stored"]
) -> None:
    file = write_project_hook(places, DENY)
    async with open_hooked_host(tmp_path, answers=(TrustAlways(),), project=places) as hooked:
        await hooked.call()
    file.write_text(content)
    later = replace(places, approval=approval)
    async with open_hooked_host(tmp_path, answers=(AllowOnce(),), project=later) as hooked:
        assert "One of the user's hooks denied this call" in await hooked.call()
        assert hooked.called == []
        assert any(f"{file} has changed since you approved it" in text for text in hooked.notices())


@pytest.mark.parametrize("change", ["nothing", "text", "deleted"])
async def test_hooks_whose_approval_is_revoked_stop_at_once_and_are_asked_about_at_the_next_start(
    tmp_path: Path, places: ProjectPlaces, change: str
) -> None:
    file = write_project_hook(places, DENY)
    async with open_hooked_host(tmp_path, answers=(TrustAlways(),), project=places) as hooked:
        await hooked.call()
    content = file.read_text()
    if change == "text":
        file.write_text(f"{content}# changed\n")
    elif change == "deleted":
        file.unlink()
    unasked = replace(places, approval="stored")
    async with open_hooked_host(tmp_path, answers=(AllowOnce(),), project=unasked) as hooked:
        (status,) = await hooked.host.hooks.list_files()
        assert (status.text.path, status.text.text, status.source) == (str(file), content, "always")
        await hooked.host.hooks.forget(status.text)
        assert await hooked.call() == "done"
        assert all(not one.is_used for one in await hooked.host.hooks.list_files())
        rows = await read_rows(hooked.host.audit, "file")
        assert [(row.event, row.subject, row.who) for row in rows][-1] == ("revoked", str(file), "person")
    file.write_text(content)
    async with open_hooked_host(tmp_path, answers=(DoNotTrust(), AllowOnce()), project=places) as hooked:
        assert await hooked.host.hooks.list_files() == ()
        assert await hooked.call() == "done"


@pytest.mark.parametrize("change", ["deleted", "changed", "another root"])
async def test_hooks_approved_by_a_flag_cannot_be_switched_off_before_the_first_message(
    tmp_path: Path, places: ProjectPlaces, change: str
) -> None:
    """A server that starts before the first message may write in the project."""
    below = places.folder / "below"
    below.mkdir()
    file = write_project_hook(places, DENY)
    approved = approve_current_files(replace(places, folder=below))
    if change == "deleted":
        file.unlink()
    elif change == "changed":
        file.write_text("# A server has replaced the hooks.\n")
    else:
        (below / ".git").mkdir()
    async with open_hooked_host(tmp_path, answers=(AllowOnce(),), project=approved) as hooked:
        listed = [status.text.path for status in await hooked.host.hooks.list_files()]
        assert listed == ([str(file)] if change == "another root" else [])
        assert "One of the user's hooks denied this call" in await hooked.call()
        assert hooked.called == []
        is_noticed = any("hooks approved before stay in effect" in text for text in hooked.notices())
        assert is_noticed == (change != "another root")
        rows = await read_rows(hooked.host.audit, "file")
        assert [(row.event, row.subject, row.who) for row in rows] == [("kept", str(file), "flag")]


@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_hooks_approved_by_a_flag_stay_in_effect_if_the_user_stops_the_turn_that_reads_them_first(
    tmp_path: Path, places: ProjectPlaces, steps: int
) -> None:
    file = write_project_hook(places, DENY)
    approved = approve_current_files(places)
    async with open_hooked_host(tmp_path, answers=(AllowOnce(),), project=approved) as hooked:
        async with anyio.create_task_group() as turn:
            turn.start_soon(hooked.host.hooks.refresh)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            turn.cancel_scope.cancel()
        file.unlink()
        assert "One of the user's hooks denied this call" in await hooked.call()
        assert hooked.called == []


async def test_a_link_that_cannot_be_followed_is_reported_and_the_turn_continues(
    tmp_path: Path, places: ProjectPlaces
) -> None:
    file = places.folder / ".mcphost" / "hooks.toml"
    file.symlink_to("x" * 300)
    async with open_hooked_host(tmp_path, answers=(AllowOnce(),), project=places) as hooked:
        assert await hooked.call() == "done"
        assert any("hooks.toml cannot be read: File name too long" in text for text in hooked.notices())
    file.unlink()
    write_project_hook(places, DENY)
    async with open_hooked_host(tmp_path, answers=(TrustAlways(),), project=places) as hooked:
        await hooked.call()
    file.unlink()
    file.symlink_to("x" * 300)
    async with open_hooked_host(tmp_path, answers=(AllowOnce(),), project=places) as hooked:
        assert "One of the user's hooks denied this call" in await hooked.call()
        assert not any("are not used" in text for text in hooked.notices())


async def test_a_change_that_the_user_declines_leaves_the_approved_hooks_in_effect_until_they_are_revoked(
    tmp_path: Path, places: ProjectPlaces
) -> None:
    file = write_project_hook(places, DENY)
    async with open_hooked_host(tmp_path, answers=(TrustAlways(),), project=places) as hooked:
        await hooked.call()
    file.write_text("# A server has replaced the hooks.\n")
    async with open_hooked_host(tmp_path, answers=(DoNotTrust(), AllowOnce()), project=places) as hooked:
        assert "One of the user's hooks denied this call" in await hooked.call()
        assert hooked.called == []
        assert any("The version that you approved stays in effect" in text for text in hooked.notices())
        (status,) = await hooked.host.hooks.list_files()
        assert status.is_used
        await hooked.host.hooks.forget(status.text)
        assert await hooked.call() == "done"


async def test_the_users_own_hooks_check_what_a_projects_hook_changed(tmp_path: Path, places: ProjectPlaces) -> None:
    write_project_hook(places, CHANGE)
    guard = make_hook(tmp_path, GUARD)
    async with open_hooked_host(tmp_path, guard, answers=(TrustAlways(),), project=places) as hooked:
        assert "One of the user's hooks denied this call" in await hooked.call()
        assert hooked.called == []


async def test_the_users_own_hooks_have_the_last_word_about_a_result(tmp_path: Path, places: ProjectPlaces) -> None:
    write_project_hook(places, "import json\nprint(json.dumps({'result': 'a secret'}))\n", "after_call")
    own = make_hook(tmp_path, "print(json.dumps({'result': call['result'].replace('secret', '…')}))", "after_call")
    async with open_hooked_host(tmp_path, own, answers=(TrustAlways(), AllowOnce()), project=places) as hooked:
        assert await hooked.call() == "One of the user's hooks changed this result.\n\na …"


async def test_a_call_by_hand_that_a_projects_hook_changed_needs_the_users_approval(
    tmp_path: Path, places: ProjectPlaces
) -> None:
    write_project_hook(places, CHANGE)
    async with open_hooked_host(tmp_path, answers=(TrustAlways(), Deny("no"), AllowOnce()), project=places) as hooked:
        with pytest.raises(ConsentDenied, match="A project's hook changed the arguments"):
            await hooked.host.tools.call("peer", "write", {"path": "a"})
        assert hooked.called == []
        result = await hooked.host.tools.call("peer", "write", {"path": "a"})
        assert (hooked.called, result.arguments) == ([{"path": "/etc/passwd"}], {"path": "/etc/passwd"})
        asked = [question for question in hooked.frontend.asked if isinstance(question, ApproveTool)]
        assert [question.arguments for question in asked] == [{"path": "/etc/passwd"}] * 2
        assert "changed its arguments" in asked[0].why


async def test_reading_the_hooks_again_while_a_projects_hook_runs_does_not_skip_the_approval(
    tmp_path: Path, places: ProjectPlaces
) -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    address = ("127.0.0.1", listener.extra(SocketAttribute.local_port))
    write_project_hook(places, f"import socket\nsocket.create_connection({address}).recv(1)\n{CHANGE}")
    answers = (TrustAlways(), Deny("no"), Deny("no"))
    runs = 0

    async with listener, open_hooked_host(tmp_path, answers=answers, project=places) as hooked:

        async def call() -> None:
            with pytest.raises(ConsentDenied, match="A project's hook changed the arguments"):
                await hooked.host.tools.call("peer", "write", {"path": "a"})

        async def answer(stream: SocketStream) -> None:
            nonlocal runs
            runs += 1
            async with stream:
                if runs == 1:
                    await call()  # reads the hooks again
                await stream.send(b"1")

        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, answer)
            await call()
            group.cancel_scope.cancel()
        assert hooked.called == []
        assert len([one for one in hooked.frontend.asked if isinstance(one, ApproveTool)]) == runs == 2


async def test_a_call_by_hand_that_the_users_own_hook_changed_runs_if_it_is_valid(tmp_path: Path) -> None:
    valid = make_hook(tmp_path, "print(json.dumps({'arguments': {'path': 'b'}}))")
    async with open_hooked_host(tmp_path, valid) as hooked:
        assert (await hooked.host.tools.call("peer", "write", {"path": "a"})).arguments == {"path": "b"}
        assert hooked.frontend.asked == []
    wrong = make_hook(tmp_path, "print(json.dumps({'arguments': {'path': 'b', 'more': 1}}))")
    async with open_hooked_host(tmp_path, wrong) as hooked:
        with pytest.raises(ConsentDenied, match="do not match the tool's inputSchema"):
            await hooked.host.tools.call("peer", "write", {"path": "a"})
        assert hooked.called == []


async def test_the_question_has_the_programs_that_the_hooks_file_stands_for(
    tmp_path: Path, places: ProjectPlaces
) -> None:
    file = places.folder / ".mcphost" / "hooks.toml"
    file.write_text('[[hooks]]\nevent = "before_call"\ncommand = ["\\u0073\\u0068", "-c", "\\u0065xit"]\n')
    async with open_hooked_host(tmp_path, answers=(DoNotTrust(), AllowOnce()), project=places) as hooked:
        await hooked.call()
        question = hooked.frontend.asked[0]
        assert isinstance(question, TrustProject)
        assert [hook.command for hook in question.texts[0].hooks] == [("sh", "-c", "exit")]


async def test_the_audit_log_names_the_project_whose_hook_ran(tmp_path: Path, places: ProjectPlaces) -> None:
    write_project_hook(places, "")
    own = make_hook(tmp_path, "print('{}')")
    async with open_hooked_host(tmp_path, own, answers=(TrustAlways(), AllowOnce()), project=places) as hooked:
        assert await hooked.call() == "done"
        rows = [row for row in await read_rows(hooked.host.audit, "hook") if row.event == "started"]
        assert [(row.who, row.grant) for row in rows] == [("project", str(places.folder)), ("config", "")]


async def test_a_rule_chosen_before_the_conversation_has_a_message_counts_for_this_conversation_only(
    tmp_path: Path, places: ProjectPlaces
) -> None:
    write_project_hook(places, CHANGE)
    rule = AllowRule(replace(parse_rule("peer/write"), scope="conversation"))
    async with open_hooked_host(tmp_path, answers=(TrustAlways(), rule, Deny()), project=places) as hooked:
        host = hooked.host

        async def call() -> None:
            await host.tools.call("peer", "write", {"path": "a"})

        def count_questions() -> int:
            return len([one for one in hooked.frontend.asked if isinstance(one, ApproveTool)])

        await call()
        await call()
        assert count_questions() == 1
        assert [status.state for status in await host.grants.list_grants()] == ["counts"]
        await hooked.call()
        assert count_questions() == 1
        assert [status.grant.place for status in await host.grants.list_grants()] == [host.conversation.id]
        host.conversation.open_new()
        assert [status.state for status in await host.grants.list_grants()] == ["elsewhere"]
        with pytest.raises(ConsentDenied):
            await call()
        assert count_questions() == 2
