"""Tests that a hook which cannot be run is reported as such, not as a hook that declined the call."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.hooks import parse_hooks
from mcphost.config.schema import HookConfig
from mcphost.errors import ConsentDenied
from mcphost.host.questions.questions import AllowOnce
from mcphost.host.tools import hooks
from mcphost.host.tools.hooks import MAX_RUNNING_HOOKS
from mcphost.llm.messages import ToolReturnPart
from tests.fakes.model import tool_round
from tests.flows.hooked_host import HookedHost, make_hook, open_hooked_host
from tests.unit.host.audit_rows import read_rows

pytestmark = pytest.mark.anyio


def hook_of(folder: Path, *command: str, **settings: Any) -> HookConfig:
    """Return a hook that runs *command* in *folder* before each call."""
    entry = {"event": "before_call", "command": list(command), **settings}
    return parse_hooks([entry], str(folder / "config.toml"))[0]


def shown_result(hooked: HookedHost) -> str:
    """Return what the user is shown as the result of the last call."""
    parts = [part for one in hooked.host.conversation.messages for part in one.parts]
    result = next(part for part in reversed(parts) if isinstance(part, ToolReturnPart))
    return result.user_text


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("no-such-program",), "The command 'no-such-program' was not found."),
        (("python3", "gone.py"), "gone.py cannot be opened: No such file or directory."),
        (("python3", "-I", "-u", "gone.py", "more"), "gone.py cannot be opened: No such file or directory."),
        (("dash", "gone.sh"), "gone.sh cannot be opened: No such file or directory."),
        (("bash", "gone.sh"), "gone.sh cannot be opened: No such file or directory."),
        (("perl", "file/gone.pl"), "file/gone.pl cannot be opened: Not a directory."),
    ],
)
async def test_a_hook_whose_program_cannot_be_opened_refuses_and_says_why(
    tmp_path: Path, command: tuple[str, ...], why: str
) -> None:
    (tmp_path / "file").touch()
    hook = hook_of(tmp_path, *command)
    async with open_hooked_host(tmp_path, hook) as hooked:
        text = await hooked.call()
        assert hooked.called == []
        assert text == f"One of the user's hooks could not be run; the tool did not run. Reason: {why}"
        assert shown_result(hooked) == f"The hook {hook.name} could not be run, so the call was refused: {why}"
        assert f"peer · write: The hook {hook.name} could not be run: {why}" in hooked.notices()
        rows = await read_rows(hooked.host.audit, "hook")
        assert [row.decision for row in rows if row.event == "ended"] == ["failed"]


async def test_a_script_that_is_missing_refuses_also_if_failures_may_continue(tmp_path: Path) -> None:
    async with open_hooked_host(tmp_path, hook_of(tmp_path, "python3", "gone.py", on_failure="continue")) as hooked:
        assert "could not be run" in await hooked.call()
        assert hooked.called == []


async def test_a_script_that_exits_with_status_2_declines(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text("import sys\nsys.exit(2)\n")
    hook = hook_of(tmp_path, "python3", "hook.py", "gone.txt")
    async with open_hooked_host(tmp_path, hook) as hooked:
        await hooked.call()
        assert shown_result(hooked) == f"The hook {hook.name} declined it: no reason given"


@pytest.mark.parametrize(
    "code",
    [
        "print('x' * 1_100_000, flush=True)\nsys.exit(2)",
        "print(json.dumps({'reason': 'x' * 1_100_000, 'decision': 'deny'}))",
        "print('x' * 1_100_000 + json.dumps({'decision': 'deny'}) + 'x' * 1_100_000)",
        "import subprocess\nsubprocess.Popen(['sleep', '60'])\nsys.exit(2)",
    ],
    ids=["long-then-status-2", "long-reason", "in-the-middle", "output-kept-open"],
)
async def test_a_denial_after_long_output_or_with_open_output_counts(tmp_path: Path, code: str) -> None:
    limit: dict[str, Any] = {"timeout": 1.0} if "sleep" in code else {}
    hook = make_hook(tmp_path, code, on_failure="continue", **limit)
    async with open_hooked_host(tmp_path, hook, answers=(AllowOnce(),)) as hooked:
        assert "done" not in await hooked.call()
        assert hooked.called == []


async def test_the_reason_of_a_hook_that_its_interpreter_found_elsewhere_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "guard").write_text("echo no rm, please >&2; exit 2\n")
    (tmp_path / "hooks").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    hook = hook_of(tmp_path / "hooks", "bash", "guard")
    async with open_hooked_host(tmp_path, hook) as hooked:
        await hooked.call()
        assert shown_result(hooked) == f"The hook {hook.name} declined it: no rm, please"


async def test_a_hook_that_fails_is_not_said_to_have_declined(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text("print('yes')\n")
    hook = hook_of(tmp_path, "python3", "hook.py")
    async with open_hooked_host(tmp_path, hook) as hooked:
        text = await hooked.call()
        assert text == "One of the user's hooks failed; the tool did not run. Reason: it did not print JSON."
        assert shown_result(hooked) == f"The hook {hook.name} failed, so the call was refused: it did not print JSON."
        assert f"peer · write: The hook {hook.name} failed: it did not print JSON." in hooked.notices()


async def test_a_call_by_hand_says_that_a_hook_could_not_be_run(tmp_path: Path) -> None:
    async with open_hooked_host(tmp_path, hook_of(tmp_path, "python3", "gone.py")) as hooked:
        with pytest.raises(ConsentDenied, match=r"could not be run, so the call was refused: gone\.py") as error:
            await hooked.host.tools.call("peer", "write", {"path": "a"})
        assert error.value.hint == "Correct the hook."
        assert hooked.called == []


@pytest.mark.parametrize(
    ("answer", "member"),
    [
        ('{"decision": "deny", "reason": "not x", "decision": "continue"}', "decision"),
        ('{"arguments": {"path": "a", "path": "b"}}', "path"),
    ],
)
async def test_an_answer_with_a_repeated_member_refuses(tmp_path: Path, answer: str, member: str) -> None:
    """An argument that a shell hook pastes into its reason could otherwise replace the decision before it."""
    hook = hook_of(tmp_path, "printf", "%s", answer)
    async with open_hooked_host(tmp_path, hook, answers=(AllowOnce(),)) as hooked:
        text = await hooked.call()
        assert f"failed; the tool did not run. Reason: it answered with the member {member!r} twice" in text
        assert hooked.called == []


async def test_a_large_answer_is_read_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, read_json = set[int](), hooks.loads

    def read(raw: bytes, what: str) -> Any:
        threads.add(threading.get_ident())
        return read_json(raw, what)

    monkeypatch.setattr(hooks, "loads", read)
    code = "print(json.dumps({'decision': 'deny', 'reason': 'no' * 50_000}))"
    async with open_hooked_host(tmp_path, make_hook(tmp_path, code)) as hooked:
        assert "hooks denied this call" in await hooked.call()
    assert threads
    assert threading.get_ident() not in threads


CROWDED = """
import pathlib
for number in range({count}):
    slot = pathlib.Path({folder!r}, f"slot{{number}}")
    try:
        slot.touch(exist_ok=False)
    except FileExistsError:
        continue
    time.sleep(0.2)
    slot.unlink()
    break
else:
    sys.exit("too many hooks at once")
"""


async def test_many_calls_in_one_answer_do_not_start_more_hooks_at_once_than_the_limit(tmp_path: Path) -> None:
    """A model could otherwise start hundreds of programs, and make hooks that may fail run out of time."""
    hook = make_hook(tmp_path, CROWDED.format(count=MAX_RUNNING_HOOKS, folder=str(tmp_path)))
    calls = tool_round(*[("peer__write", {"path": str(number)}) for number in range(4 * MAX_RUNNING_HOOKS)])
    async with open_hooked_host(tmp_path, hook, answers=(AllowOnce(),) * 4 * MAX_RUNNING_HOOKS) as hooked:
        hooked.model.rounds[0] = calls
        await hooked.call()
        assert len(hooked.called) == 4 * MAX_RUNNING_HOOKS
