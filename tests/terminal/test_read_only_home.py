"""Tests with read-only folders: the chat works, reports what cannot be saved, and still asks every question."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.chat_session import ChatSession, open_session
from tests.terminal.demo_program import with_forked_worker
from tests.terminal.mounts import Mounts, begin_again, begin_on_disks
from tests.terminal.scripted_model import MODEL, OTHER_MODEL, ScriptedModel

FOLDERS = ("config", "data", "state", "cache")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[ChatSession]:
    with open_session(tmp_path, ScriptedModel()) as session:
        yield session


def make_read_only(session: ChatSession, mounts: Mounts, *names: str) -> None:
    """Begin a conversation, make the folders *names* read-only, reopen the chat, and send another message."""
    begin_on_disks(session, mounts, *FOLDERS)
    session.send("the first lighthouse")
    session.terminal.wait_for("got: the first lighthouse")
    for name in names:
        mounts.make_read_only(session.folder / name)
    begin_again(session)
    session.send("the second lighthouse")
    session.terminal.wait_for("got: the second lighthouse")


def see_history(session: ChatSession) -> None:
    session.send("/history")
    session.terminal.wait_for("the first lighthouse", "the second lighthouse")
    session.close_screen()


def leave(session: ChatSession, *told: str) -> str:
    """Quit, and return the screen, which must show the texts *told*."""
    session.terminal.press("C-q")
    session.terminal.wait_for_shell()
    screen = session.terminal.wait_for(*told)
    assert "Traceback" not in screen
    assert "crashed" not in screen
    return screen


@pytest.mark.parametrize("names", [("data",), FOLDERS])
def test_with_read_only_data_a_chat_runs_in_memory_and_says_that_nothing_is_kept(
    session: ChatSession, names: tuple[str, ...]
) -> None:
    make_read_only(session, Mounts(session.terminal), *names)
    told = " ".join(session.terminal.screen().split())
    assert "Nothing will be saved: the conversation store" in told
    assert "demo: The action was not taken: the audit log" in told  # no process starts without a record
    assert told.count("Read-only file system") == 2
    see_history(session)
    assert "to continue this conversation" not in leave(session, "that could not be written")


def test_with_a_read_only_configuration_a_change_is_refused_by_the_name_of_its_file(session: ChatSession) -> None:
    make_read_only(session, Mounts(session.terminal), "config")
    session.terminal.wait_for("1/1 server")
    session.send("/servers")
    session.terminal.wait_for("implementation", "10 tools")
    session.terminal.press("d")
    session.terminal.wait_for("mcp.json cannot be written")
    session.close_screen()
    session.send('call add {"a": 2, "b": 40}')
    session.terminal.wait_for_question("Run demo · add?")
    session.terminal.press("a")
    session.terminal.wait_for("The tool says: 2 + 40 = 42")
    leave(session, "to continue this conversation")


def test_with_a_read_only_state_tools_run_and_the_unguarded_end_of_the_audit_log_is_reported(
    session: ChatSession,
) -> None:
    make_read_only(session, Mounts(session.terminal), "state")
    session.terminal.wait_for("1/1 server", "cannot be written (Read-only file system): rows removed at the end")
    session.send('call add {"a": 2, "b": 40}')
    session.terminal.wait_for_question("Run demo · add?")
    session.terminal.press("a")
    session.terminal.wait_for("The tool says: 2 + 40 = 42")
    leave(session, "to continue this conversation")


def test_with_a_read_only_cache_nothing_is_missing(session: ChatSession) -> None:
    make_read_only(session, Mounts(session.terminal), "cache")
    see_history(session)
    leave(session, "to continue this conversation")


def test_a_first_start_in_a_read_only_home_answers_and_says_what_is_not_kept(session: ChatSession) -> None:
    mounts, terminal = Mounts(session.terminal), session.terminal
    for name in FOLDERS:
        mounts.add_disk(session.folder / name)
        mounts.make_read_only(session.folder / name)
    terminal.run(*with_forked_worker())
    terminal.wait_for("Set up mcphost", f"ollama_chat/{MODEL}", "demo")
    terminal.wait_between_keys()
    terminal.press("Tab")
    terminal.wait_for("enter start")
    terminal.wait_between_keys()
    terminal.press("Enter")
    terminal.wait_for(f"ollama_chat/{MODEL}", "Nothing will be saved", "was not saved", "Write it yourself")
    session.send("the first lighthouse")
    terminal.wait_for("got: the first lighthouse")
    session.send("/model")
    terminal.wait_for("Models", OTHER_MODEL)
    terminal.type(OTHER_MODEL)
    terminal.wait_for("1 of")
    terminal.press("Enter")
    terminal.wait_for(f"Using ollama_chat/{OTHER_MODEL}")
    session.send("the second lighthouse")
    terminal.wait_for(f"{OTHER_MODEL} got: the second lighthouse")
    leave(session)
