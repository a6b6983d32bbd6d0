"""Tests for hooks run as real programs: they can deny, change and annotate tool calls, but never allow them."""

import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.hooks import approve_current_files, parse_hooks
from mcphost.config.project_texts import ProjectPlaces
from mcphost.config.schema import HookConfig
from mcphost.errors import ConsentDenied
from mcphost.host.events import ToolFinished
from mcphost.host.questions.questions import (
    AllowOnce,
    ApproveTool,
    Deny,
    DoNotTrust,
    PassResult,
    ReviewResult,
    TrustAlways,
    TrustProject,
)
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.transport.hook_process import HookRunner
from tests.event_loop import wait_until
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.hooked_host import SCHEMA, HookedHost, make_hook, open_hooked_host
from tests.unit.host.audit_rows import read_rows
from tests.unit.host.scripted_host import (
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio

Open = Callable[..., AbstractAsyncContextManager[HookedHost]]


@pytest.fixture
def write_hook(tmp_path: Path) -> Callable[..., HookConfig]:
    """Return a function that writes a hook program and returns its configuration."""
    return partial(make_hook, tmp_path)


@pytest.fixture
def open_hooked(tmp_path: Path) -> Open:
    """Return a function that opens a host with hooks."""
    return partial(open_hooked_host, tmp_path)


async def test_a_hook_gets_the_call_as_json_and_lets_it_pass(
    open_hooked: Open, write_hook: Any, tmp_path: Path
) -> None:
    hook = write_hook(f"json.dump(call, open({str(tmp_path / 'seen')!r}, 'w'))")
    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        assert await hooked.call() == "done"
        seen = json.loads((tmp_path / "seen").read_text())
        assert (seen["event"], seen["server"], seen["tool"]) == ("before_call", "peer", "write")
        assert seen["arguments"] == {"path": "a"}
        assert len(hooked.frontend.asked) == 1  # letting a call pass does not permit it


EXIT_TWO = "sys.stderr.write('not on Fridays')\nsys.exit(2)"
DENY = "print(json.dumps({'decision': 'deny', 'reason': 'not on Fridays'}))"


@pytest.mark.parametrize("code", [DENY, EXIT_TWO], ids=["decision", "exit code 2"])
async def test_a_hook_denies_without_a_question(open_hooked: Open, write_hook: Any, code: str) -> None:
    async with open_hooked(write_hook(code)) as hooked:
        text = await hooked.call()
        assert "One of the user's hooks denied this call" in text
        assert "not on Fridays" in text
        assert hooked.frontend.asked == []
        assert hooked.called == []
        rows = await read_rows(hooked.host.audit)
        assert [(row.event, row.decision, row.who) for row in rows if row.kind == "tool"] == [
            ("decided", "deny", "hook")
        ]
        assert [(row.event, row.decision) for row in rows if row.kind == "hook"] == [
            ("started", ""),
            ("ended", "denied"),
        ]


@pytest.mark.parametrize("answer", ["allow", "approve", "ask"])
async def test_a_hook_that_wants_to_allow_is_refused(open_hooked: Open, write_hook: Any, answer: str) -> None:
    async with open_hooked(write_hook(f"print(json.dumps({{'decision': {answer!r}}}))")) as hooked:
        assert "never allow" in await hooked.call()
        assert hooked.called == []


async def test_changed_arguments_are_shown_as_changed_and_the_model_is_told(open_hooked: Open, write_hook: Any) -> None:
    hook = write_hook("print(json.dumps({'arguments': {'path': '/safe/' + call['arguments']['path']}}))")

    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        text = await hooked.call()
        question = hooked.frontend.asked[0]
        assert isinstance(question, ApproveTool)
        assert question.arguments == {"path": "/safe/a"}
        assert "changed its arguments" in question.why
        assert hooked.called == [{"path": "/safe/a"}]
        assert text.startswith(
            'One of the user\'s hooks changed the arguments before the call ran. It ran with: {"path":'
        )


async def test_changed_arguments_that_do_not_match_the_schema_deny_the_call(open_hooked: Open, write_hook: Any) -> None:
    hook = write_hook("print(json.dumps({'arguments': {'path': 3}}))")
    async with open_hooked(hook) as hooked:
        assert "its arguments are invalid" in await hooked.call()
        assert hooked.called == []


async def test_a_never_rule_applies_to_what_a_hook_changed(open_hooked: Open, write_hook: Any) -> None:
    from mcphost.config.rule_syntax import parse_rule

    hook = write_hook("print(json.dumps({'arguments': {'path': 'forbidden'}}))")
    async with open_hooked(hook, never=(parse_rule("peer/write?path=forbidden"),)) as hooked:
        assert "never allows this" in await hooked.call()
        assert hooked.called == []


async def test_arguments_that_the_user_edits_are_checked_again(open_hooked: Open, write_hook: Any) -> None:
    hook = write_hook("call['arguments']['path'] == 'b' and print(json.dumps({'decision': 'deny', 'reason': 'no b'}))")
    async with open_hooked(hook, answers=(AllowOnce({"path": "b"}),)) as hooked:
        assert "no b" in await hooked.call()
        assert hooked.called == []
    async with open_hooked(hook, answers=(AllowOnce({"path": "c"}),)) as hooked:
        await hooked.call()
        assert hooked.called == [{"path": "c"}]


async def test_a_hook_that_changes_each_edit_denies_after_five_rounds(open_hooked: Open, write_hook: Any) -> None:
    hook = write_hook("print(json.dumps({'arguments': {'path': call['arguments']['path'] + '+'}}))")
    edits = tuple(AllowOnce({"path": f"edit {number}"}) for number in range(5))
    async with open_hooked(hook, answers=edits) as hooked:
        assert "each time they are edited" in await hooked.call()
        assert [one.arguments["path"] for one in hooked.frontend.asked if isinstance(one, ApproveTool)] == [
            "a+", "edit 0+", "edit 1+", "edit 2+", "edit 3+",
        ]  # fmt: skip
        assert hooked.called == []


async def test_only_calls_that_match_its_rules_reach_a_hook(open_hooked: Open, write_hook: Any) -> None:
    deny = "print(json.dumps({'decision': 'deny'}))"
    others = write_hook(deny, match=["peer/read*", "other", "peer/write?path=under:/etc"])
    async with open_hooked(others, answers=(AllowOnce(),)) as hooked:
        await hooked.call()
        assert hooked.called == [{"path": "a"}]
    async with open_hooked(write_hook(deny, match="peer/wr*?path=a")) as hooked:
        await hooked.call()
        assert hooked.called == []


async def test_a_hook_is_matched_with_the_arguments_that_an_earlier_hook_changed(
    open_hooked: Open, write_hook: Any
) -> None:
    change = write_hook("print(json.dumps({'arguments': {'path': '/etc/passwd'}}))")
    deny = write_hook("print(json.dumps({'decision': 'deny'}))", match="peer/write?path=under:/etc")
    async with open_hooked(change, deny, answers=(AllowOnce(),)) as hooked:
        await hooked.call()
        assert hooked.called == []


async def test_a_hook_for_a_server_covers_a_projects_entry_for_the_same_server(
    open_hooked: Open, write_hook: Any
) -> None:
    deny = write_hook("print(json.dumps({'decision': 'deny'}))", match="mine/write")
    async with open_hooked(deny, answers=(AllowOnce(),), same_as=("mine",)) as hooked:
        await hooked.call()
        assert hooked.called == []


async def test_a_hook_can_be_matched_by_where_the_arguments_came_from(
    open_hooked: Open, write_hook: Any, tmp_path: Path
) -> None:
    del open_hooked
    secret = "the account is DE89 3704 0044 0532 0130 00"
    mail = create_peer(tools__list=tools_result(tool_definition("read")), tools__call=text_result(secret))
    peer = create_peer(tools__list=tools_result(tool_definition("write", inputSchema=SCHEMA)))
    model = ScriptedModel(
        tool_round(("mail__read", {})), tool_round(("peer__write", {"path": secret})), text_round("k")
    )
    hook = write_hook("print(json.dumps({'decision': 'deny'}))", match="peer/*?from:mail")
    frontend, runner = ScriptedFrontend(AllowOnce(), AllowOnce()), HookRunner()
    try:
        async with open_host_with(
            tmp_path, {"mail": mail, "peer": peer}, model, frontend, hooks=(hook,), run_hook=runner.run
        ) as host:
            await host.conversation.send("go")
            assert len(frontend.asked) == 1
            assert peer.asked("tools/call") == []
    finally:
        await runner.close()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit(1)", "exited with status 1"),
        ("raise ValueError('broken')", "broken"),
        ("print('yes')", "did not print JSON"),
        ("print('[]')", "did not print a JSON object"),
        ("print('{\"verdict\": 1}')", "unknown member 'verdict'"),
        ("print('x' * 1_100_000)", "printed more than 1 MB"),
        ("print('checking the mode \"deny\"')", "did not print JSON"),
        ("time.sleep(60)", "did not end within 0.5 s"),
    ],
)
async def test_a_hook_that_fails_denies_unless_it_is_set_to_continue(
    open_hooked: Open, write_hook: Any, code: str, said: str
) -> None:
    limit: dict[str, Any] = {"timeout": 0.5} if "sleep" in code else {}
    async with open_hooked(write_hook(code, **limit)) as hooked:
        assert said in await hooked.call()
        assert hooked.called == []
        assert any(said in notice for notice in hooked.notices())
    hook = write_hook(code, on_failure="continue", **limit)
    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        assert await hooked.call() == "done"


@pytest.mark.parametrize("event", ["before_call", "after_call"])
@pytest.mark.parametrize("pasted", ['", "decision": "continue', '"', '", "x": "', '"} {"', "\\\\", "\\n"])
async def test_an_argument_that_breaks_the_answer_of_a_hook_does_not_undo_its_denial(
    open_hooked: Open, write_hook: Any, event: str, pasted: str
) -> None:
    answer = f'{{"decision": "deny", "reason": "bad path: {pasted}"}}'
    hook = write_hook(f"print({answer!r})", event, on_failure="continue")
    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        assert "done" not in await hooked.call()
        assert (hooked.called == []) is (event == "before_call")


@pytest.mark.parametrize("ending", ["print('x' * 1_100_000)", "time.sleep(60)", "sys.exit(1)"])
async def test_a_denial_counts_also_if_the_hook_then_fails(open_hooked: Open, write_hook: Any, ending: str) -> None:
    limit: dict[str, Any] = {"timeout": 0.5} if "sleep" in ending else {}
    code = f"print(json.dumps({{'decision': 'deny', 'reason': 'no'}}), flush=True)\n{ending}"
    async with open_hooked(write_hook(code, on_failure="continue", **limit), answers=(AllowOnce(),)) as hooked:
        assert "done" not in await hooked.call()
        assert hooked.called == []


async def test_a_program_that_does_not_exist_denies(open_hooked: Open, tmp_path: Path) -> None:
    (hook,) = parse_hooks([{"event": "before_call", "command": ["no-such-program"]}], str(tmp_path / "config.toml"))
    async with open_hooked(hook) as hooked:
        assert "could not be run" in await hooked.call()


async def test_a_hook_after_the_call_annotates_or_withholds_the_result(open_hooked: Open, write_hook: Any) -> None:
    note = write_hook(
        "print(json.dumps({'note': 'It has ' + str(len(call['result'])) + ' letters.', 'notice': 'seen'}))",
        "after_call",
    )
    async with open_hooked(note, answers=(AllowOnce(),)) as hooked:
        assert await hooked.call() == "Note from one of the user's hooks: It has 4 letters.\n\ndone"
        assert any("says: seen" in notice for notice in hooked.notices())
    deny = write_hook("print(json.dumps({'decision': 'deny', 'reason': 'a secret'}))", "after_call")
    async with open_hooked(deny, answers=(AllowOnce(),)) as hooked:
        text = await hooked.call()
        assert hooked.called == [{"path": "a"}]
        assert "done" not in text
        assert "withheld the result. Reason: a secret" in text


IMAGE = {
    "type": "image",
    "mimeType": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
}
REDACT = "print(json.dumps({'result': call['result'].replace('done', '[hidden]')}))"


async def test_a_hook_replaces_the_result_which_is_shown_as_changed(open_hooked: Open, write_hook: Any) -> None:
    redact = write_hook(REDACT, "after_call")
    again = write_hook("print(json.dumps({'result': call['result'] + ' twice', 'note': 'ok'}))", "after_call")
    async with open_hooked(redact, again, answers=(AllowOnce(),)) as hooked:
        hooked.peer.answers["tools/call"] = {"content": [{"type": "text", "text": "done"}, IMAGE]}
        text = await hooked.call()
        assert text.startswith("One of the user's hooks changed this result.\n\n")
        assert "Note from one of the user's hooks: ok\n\n[hidden]" in text
        assert text.endswith(" twice")
        assert "done" not in text
        part = next(one for one in hooked.host.conversation.messages if one.role == "tool").parts[0]
        assert part.images == ()  # pyright: ignore[reportAttributeAccessIssue]
        assert any("changed the result that the model gets" in notice for notice in hooked.notices())
        rows = await read_rows(hooked.host.audit)
        assert [row.decision for row in rows if (row.kind, row.event) == ("hook", "ended")] == ["changed", "changed"]


async def test_the_user_reviews_the_result_as_a_hook_changed_it(open_hooked: Open, write_hook: Any) -> None:
    hook, answers = write_hook(REDACT, "after_call"), (AllowOnce(), PassResult())
    async with open_hooked(hook, answers=answers, reviewed=("peer",)) as hooked:
        text = await hooked.call()
        assert text.endswith("[hidden]")
        (question,) = [asked for asked in hooked.frontend.asked if isinstance(asked, ReviewResult)]
        assert [part.text for part in question.parts] == ["[hidden]"]


async def test_a_result_that_a_hook_repeats_stays_as_it_is(open_hooked: Open, write_hook: Any) -> None:
    async with open_hooked(
        write_hook(REDACT.replace("'done'", "'none'"), "after_call"), answers=(AllowOnce(),)
    ) as hooked:
        assert await hooked.call() == "done"


@pytest.mark.parametrize(
    ("event", "result"), [("after_call", "7"), ("after_call", "'x' * 200_001"), ("before_call", "'x'")]
)
async def test_a_result_that_cannot_replace_the_servers_denies(
    open_hooked: Open, write_hook: Any, event: str, result: str
) -> None:
    hook = write_hook(f"print(json.dumps({{'result': {result}}}))", event)
    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        text = await hooked.call()
        assert "done" not in text
        assert "answered with a result" in text


async def test_a_failed_call_has_the_message_that_a_hook_wrote(open_hooked: Open, write_hook: Any) -> None:
    hook = write_hook("print(json.dumps({'result': 'it broke'}))", "after_call")
    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        hooked.peer.answers["tools/call"] = ErrorData(code=-32000, message="secret path /srv")
        text = await hooked.call()
        assert text.endswith("it broke")
        assert "secret path" not in text


async def test_a_stopped_turn_ends_the_hook_and_its_children(
    open_hooked: Open, write_hook: Any, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    hook = write_hook(
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        f"open({str(started) + '.new'!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(started) + '.new'!r}, {str(started)!r})\n"
        "time.sleep(300)",
        timeout=300,
    )
    async with open_hooked(hook) as hooked, anyio.create_task_group() as tasks:
        tasks.start_soon(hooked.host.conversation.send, "go")
        await wait_until(started.exists)
        hooked.host.conversation.stop()
        await wait_until(lambda: not hooked.host.conversation.is_busy)
        await wait_until(lambda: not any(map(_is_running, map(int, started.read_text().split()))))


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


LEAVE = (
    "import signal, subprocess\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"  # inherited by the child
    "child = subprocess.Popen(['sleep', '60'], stdin=-3, stdout=-3, stderr=-3)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
    "open({pid!r}, 'w').write(str(child.pid))\n"
)


@pytest.mark.parametrize("ending", ["", "time.sleep(60)"], ids=["it ends", "it is ended"])
async def test_what_a_hook_started_ends_with_it(
    open_hooked: Open, write_hook: Any, tmp_path: Path, ending: str
) -> None:
    hook = write_hook(LEAVE.format(pid=str(tmp_path / "pid")) + ending, timeout=2, on_failure="continue")
    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        assert await hooked.call() == "done"
        child = int((tmp_path / "pid").read_text())
        await wait_until(lambda: not _is_running(child))


async def test_the_environment_of_a_hook_has_no_keys(
    open_hooked: Open, write_hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    hook = write_hook("print(json.dumps({'note': ' '.join(sorted(os.environ))}))")
    async with open_hooked(hook, answers=(AllowOnce(),)) as hooked:
        text = await hooked.call()
        assert "PATH" in text
        assert "OPENAI_API_KEY" not in text
        assert os.environ["OPENAI_API_KEY"] == "s3cret"


async def test_a_call_by_hand_passes_the_hooks_as_well(open_hooked: Open, write_hook: Any) -> None:
    async with open_hooked(write_hook("print(json.dumps({'decision': 'deny', 'reason': 'no'}))")) as hooked:
        with pytest.raises(ConsentDenied, match="declined it: no"):
            await hooked.host.tools.call("peer", "write", {"path": "a"})
        assert hooked.called == []


async def test_a_result_of_a_call_by_hand_passes_the_hooks_when_the_model_gets_it(
    open_hooked: Open, write_hook: Any
) -> None:
    note = write_hook("print(json.dumps({'note': call['result'] + ' of ' + call['arguments']['path']}))", "after_call")
    async with open_hooked(note) as hooked:
        tools = hooked.host.tools
        result = await tools.call("peer", "write", {"path": "a"})
        assert result.text == "done"
        released = await tools.release("peer", "write", result)
        assert released.text == "Note from one of the user's hooks: done of a\n\ndone"
    deny = write_hook("print(json.dumps({'decision': 'deny', 'reason': 'a secret'}))", "after_call")
    async with open_hooked(deny) as hooked:
        tools = hooked.host.tools
        result = await tools.call("peer", "write", {"path": "a"})
        with pytest.raises(ConsentDenied, match="withheld the result of 'write': a secret"):
            await tools.release("peer", "write", result)
    async with open_hooked(write_hook(REDACT, "after_call")) as hooked:
        tools = hooked.host.tools
        result = await tools.call("peer", "write", {"path": "a"})
        text = (await tools.release("peer", "write", result)).text
        assert text == "One of the user's hooks changed this result.\n\n[hidden]"


async def test_a_projects_hooks_run_only_when_they_are_approved(open_hooked: Open, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".mcphost").mkdir(parents=True)
    (repo / ".git").mkdir()
    (repo / "hook.py").write_text("import os\nopen('ran', 'w').close()\nprint('{\"decision\": \"deny\"}')\n")
    command = json.dumps([sys.executable, "hook.py"])
    (repo / ".mcphost" / "hooks.toml").write_text(f'[[hooks]]\nevent = "before_call"\ncommand = {command}\n')
    places = ProjectPlaces(config_dir=tmp_path / "config", folder=repo)
    async with open_hooked(answers=(DoNotTrust(), AllowOnce()), project=places) as hooked:
        await hooked.call()
        assert isinstance(hooked.frontend.asked[0], TrustProject)
        assert hooked.called == [{"path": "a"}]
        assert not (repo / "ran").exists()
    async with open_hooked(answers=(TrustAlways(),), project=places) as hooked:
        await hooked.call()
        assert hooked.called == []
        assert (repo / "ran").exists()


async def test_a_flag_approves_the_projects_hooks_as_they_were_at_the_start(open_hooked: Open, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".mcphost").mkdir(parents=True)
    (repo / ".git").mkdir()
    (repo / "hook.py").write_text("import os\nopen('ran', 'w').close()\nprint('{\"decision\": \"deny\"}')\n")
    places = ProjectPlaces(config_dir=tmp_path / "config", folder=repo)
    empty = approve_current_files(places)
    command = json.dumps([sys.executable, "hook.py"])
    (repo / ".mcphost" / "hooks.toml").write_text(f'[[hooks]]\nevent = "before_call"\ncommand = {command}\n')
    async with open_hooked(answers=(AllowOnce(),), project=empty) as hooked:
        await hooked.call()
        assert hooked.called == [{"path": "a"}]
        assert not (repo / "ran").exists()
    async with open_hooked(project=approve_current_files(places)) as hooked:
        await hooked.call()
        assert hooked.called == []
        assert (repo / "ran").exists()


async def test_the_projects_hooks_stay_while_a_changed_file_is_reviewed(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".mcphost").mkdir(parents=True)
    (repo / "hook.py").write_text("import json, sys\nprint(json.dumps({'decision': 'deny'}))\n")
    command = json.dumps([sys.executable, "hook.py"])
    file = repo / ".mcphost" / "hooks.toml"
    file.write_text(f'[[hooks]]\nevent = "before_call"\nmatch = "peer/write"\ncommand = {command}\n')
    peer = create_peer(tools__list=tools_result(tool_definition("look"), tool_definition("write")))
    peer.answers["tools/call"] = text_result("done")
    model = ScriptedModel(tool_round(("peer__look", {})), tool_round(("peer__write", {})), text_round("ok"))
    may_look = anyio.Event()

    async def allow_later() -> AllowOnce:
        await may_look.wait()
        return AllowOnce()

    frontend, runner = ScriptedFrontend(TrustAlways(), lambda question: allow_later()), HookRunner()
    try:
        async with (
            open_host_with(
                tmp_path, peer, model, frontend, run_hook=runner.run,
                project=ProjectPlaces(config_dir=tmp_path / "config", folder=repo),
            ) as host,
            anyio.create_task_group() as tasks,
        ):  # fmt: skip
            tasks.start_soon(host.conversation.send, "go")
            await wait_until(lambda: len(frontend.asked) == 2)
            file.write_text(f"{file.read_text()}# changed\n")
            tasks.start_soon(host.tools.call, "peer", "look", {})
            await wait_until(lambda: frontend.waiting == 1)
            assert isinstance(frontend.asked[-1], TrustProject)
            may_look.set()
            await wait_until(lambda: len(model.requests) == 3 or frontend.waiting == 2)
            assert [params["name"] for params in peer.asked("tools/call")] == ["look"]
            assert frontend.waiting == 1
            tasks.cancel_scope.cancel()
    finally:
        await runner.close()


def make_too_large(file: Path) -> None:
    file.write_text("#" * 2_000_000)


def move_root(file: Path) -> None:
    (file.parent.parent / "repo" / ".git").mkdir()


def append_comment(file: Path) -> None:
    file.write_text(f"{file.read_text()}# changed\n")


@pytest.mark.parametrize("change", [Path.unlink, make_too_large, move_root, append_comment])
async def test_approved_project_hooks_cannot_be_switched_off_by_changing_files(
    open_hooked: Open, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    outer, repo = tmp_path / "outer", tmp_path / "outer" / "repo"
    for folder in (outer / ".mcphost", outer / ".git", repo):
        folder.mkdir(parents=True)
    (outer / "hook.py").write_text('print(\'{"decision": "deny"}\')\n')
    command = json.dumps([sys.executable, "hook.py"])
    file = outer / ".mcphost" / "hooks.toml"
    file.write_text(f'[[hooks]]\nevent = "before_call"\nmatch = "peer/write"\ncommand = {command}\n')
    places = ProjectPlaces(config_dir=tmp_path / "config", folder=repo)
    async with open_hooked(answers=(TrustAlways(), DoNotTrust()), project=places) as hooked:
        await hooked.call()
        change(file)
        await hooked.call()
        assert hooked.called == []
        is_told = any(re.search("stays? in effect", text) for text in hooked.notices())
        assert is_told is (change is not move_root)
    async with open_hooked(answers=(DoNotTrust(), Deny()), project=places) as hooked:
        await hooked.call()
        is_told = any(f"The hooks that you approved in {file} are not used" in text for text in hooked.notices())
        assert is_told is (change in (Path.unlink, move_root))


async def test_without_a_way_to_run_hooks_every_matching_call_is_denied(
    open_hooked: Open, write_hook: Any, tmp_path: Path
) -> None:
    del open_hooked
    peer = create_peer(tools__list=tools_result(tool_definition("write")), tools__call=text_result("done"))
    model = ScriptedModel(tool_round(("peer__write", {})), text_round("ok"))
    hook = write_hook("")
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(Deny()), hooks=(hook,)) as host:
        await host.conversation.send("go")
        assert peer.asked("tools/call") == []


async def test_a_refused_call_is_reported_with_the_arguments_that_were_refused(
    open_hooked: Open, write_hook: Any
) -> None:
    hook = write_hook("if call['arguments']['path'] == 'bad':\n    sys.stderr.write('no')\n    sys.exit(2)")
    async with open_hooked(hook, answers=(AllowOnce({"path": "bad"}),)) as hooked:
        assert "denied" in await hooked.call()
        finished = next(event for event in hooked.feed.drain() if isinstance(event, ToolFinished))
        assert (finished.outcome, finished.arguments) == ("declined", {"path": "bad"})


async def test_a_call_refused_as_the_model_made_it_is_reported_without_other_arguments(
    open_hooked: Open, write_hook: Any
) -> None:
    async with open_hooked(write_hook(DENY)) as hooked:
        await hooked.call()
        finished = next(event for event in hooked.feed.drain() if isinstance(event, ToolFinished))
        assert (finished.outcome, finished.arguments) == ("declined", None)
