"""Tests with a read-only home: the chat works, reports what cannot be saved, and loses no question."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.demo_program import with_forked_worker
from tests.terminal.mounts import Mounts, begin_again, begin_on_disks
from tests.terminal.scripted_model import MODEL, OTHER_MODEL, ScriptedModel
from tests.terminal.working_day import Day, open_day

FOLDERS = ("config", "data", "state", "cache")


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    with open_day(tmp_path, ScriptedModel()) as day:
        yield day


def make_read_only(day: Day, mounts: Mounts, *names: str) -> None:
    """Begin a conversation, then reopen the chat with folders made read-only."""
    begin_on_disks(day, mounts, *FOLDERS)
    day.send("the first lighthouse")
    day.terminal.wait_for("got: the first lighthouse", seconds=60)
    for name in names:
        mounts.make_read_only(day.folder / name)
    begin_again(day)
    day.send("the second lighthouse")
    day.terminal.wait_for("got: the second lighthouse", seconds=60)


def see_history(day: Day) -> None:
    day.send("/history")
    day.terminal.wait_for("the first lighthouse", "the second lighthouse")
    day.close_screen()


def leave(day: Day, *told: str) -> str:
    """Quit, and return the screen once it shows the final messages."""
    day.terminal.press("C-q")
    day.terminal.wait_for_shell()
    screen = day.terminal.wait_for(*told)
    assert "Traceback" not in screen
    assert "crashed" not in screen
    return screen


@pytest.mark.parametrize("names", [("data",), FOLDERS])
def test_with_read_only_data_a_chat_runs_in_memory_and_says_that_nothing_is_kept(
    day: Day, names: tuple[str, ...]
) -> None:
    make_read_only(day, Mounts(day.terminal), *names)
    told = " ".join(day.terminal.screen().split())
    assert "Nothing will be saved: the conversation store" in told
    assert "demo: The action was not taken: the audit log" in told  # no process starts without a record
    assert told.count("Read-only file system") == 2
    see_history(day)
    assert "to continue this conversation" not in leave(day, "and are lost")


def test_with_a_read_only_configuration_a_change_is_refused_by_the_name_of_its_file(day: Day) -> None:
    make_read_only(day, Mounts(day.terminal), "config")
    day.terminal.wait_for("1/1 server")
    day.send("/servers")
    day.terminal.wait_for("implementation", "10 tools")
    day.terminal.press("d")
    day.terminal.wait_for("mcp.json cannot be written")
    day.close_screen()
    day.send('call add {"a": 2, "b": 40}')
    day.terminal.wait_for_question("demo wants to run add")
    day.terminal.press("a")
    day.terminal.wait_for("The tool says: 2 + 40 = 42")
    leave(day, "to continue this conversation")


def test_with_a_read_only_state_tools_run_and_the_unguarded_end_of_the_audit_log_is_told(day: Day) -> None:
    make_read_only(day, Mounts(day.terminal), "state")
    day.terminal.wait_for("1/1 server", "cannot be written (Read-only file system): rows removed at the end")
    day.send('call add {"a": 2, "b": 40}')
    day.terminal.wait_for_question("demo wants to run add")
    day.terminal.press("a")
    day.terminal.wait_for("The tool says: 2 + 40 = 42")
    leave(day, "to continue this conversation")


def test_with_a_read_only_cache_nothing_is_missing(day: Day) -> None:
    make_read_only(day, Mounts(day.terminal), "cache")
    see_history(day)
    leave(day, "to continue this conversation")


def test_a_first_start_in_a_read_only_home_answers_and_says_what_is_not_kept(day: Day) -> None:
    mounts, terminal = Mounts(day.terminal), day.terminal
    for name in FOLDERS:
        mounts.add_disk(day.folder / name)
        mounts.make_read_only(day.folder / name)
    terminal.run(*with_forked_worker())
    terminal.wait_for("Set up mcphost", f"ollama_chat/{MODEL}", "demo", seconds=30)
    terminal.wait_between_keys()
    terminal.press("Tab")
    terminal.wait_for("enter start")
    terminal.wait_between_keys()
    terminal.press("Enter")
    terminal.wait_for(f"ollama_chat/{MODEL}", "Nothing will be saved", "was not saved", "Write it yourself")
    day.send("the first lighthouse")
    terminal.wait_for("got: the first lighthouse", seconds=60)
    day.send("/model")
    terminal.wait_for("Models", OTHER_MODEL)
    terminal.type(OTHER_MODEL)
    terminal.wait_for("1 of")
    terminal.press("Enter")
    terminal.wait_for(f"Using ollama_chat/{OTHER_MODEL}")
    day.send("the second lighthouse")
    terminal.wait_for(f"{OTHER_MODEL} got: the second lighthouse")
    leave(day)
