"""Tests for two chats at the same time with the same home folder: both work, and no data is lost."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.terminal.chat_session import ChatSession, begin_chat, open_session, quit_chat
from tests.terminal.demo_program import MCPHOST_PATH, with_forked_worker
from tests.terminal.scripted_model import MODEL, ScriptedModel
from tests.terminal.terminal import Terminal


@pytest.fixture
def first(tmp_path: Path) -> Iterator[ChatSession]:
    with open_session(tmp_path, ScriptedModel()) as session:
        begin_chat(session)
        yield session


@pytest.fixture
def second(first: ChatSession) -> Iterator[ChatSession]:
    """Open a second terminal with the same project and home folder, in which no chat has been started."""
    with Terminal(first.folder, environment=first.environment) as terminal:
        terminal.run("cd", str(first.project))
        yield ChatSession(first.folder, first.model, first.environment, terminal)


def ask(session: ChatSession, text: str, *told: str) -> str:
    session.send(text)
    return session.terminal.wait_for(f"got: {text}", *told)


def call_add(session: ChatSession, a: int) -> None:
    session.send(f'call add {{"a": {a}, "b": 40}}')
    session.terminal.wait_for_question("Run demo · add?")
    session.terminal.press("a")
    session.terminal.wait_for(f"The tool says: {a} + 40 = {a + 40}")


def stored(folder: Path, query: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(folder / "data" / "mcphost.db")) as db:
        return db.execute(query).fetchall()


def test_one_conversation_open_in_two_chats_loses_no_message_and_both_are_told(
    first: ChatSession, second: ChatSession
) -> None:
    ask(first, "the first lighthouse")
    ((identity,),) = stored(first.folder, "SELECT id FROM conversations")
    second.terminal.run(*with_forked_worker(), "--resume", identity)
    second.terminal.wait_for("the first lighthouse", "1/1 server")
    ask(second, "the second harbour")
    told = ask(first, "the second lighthouse", "Another mcphost added 2 messages to this conversation.")
    assert "the second harbour" not in told
    ask(second, "the third harbour", "Another mcphost added 2 messages to this conversation.")
    # Each model request contains only its own chat, so that every call has its result.
    sent = [str(request["messages"]) for request in first.model.requests]
    assert "harbour" not in next(text for text in sent if "the second lighthouse" in text)
    assert "the second lighthouse" not in next(text for text in sent if "the third harbour" in text)
    call_add(first, 1)
    call_add(second, 2)
    for session in (first, second):
        quit_chat(session)
    texts = str(stored(first.folder, "SELECT body FROM messages"))
    for text in ("first lighthouse", "second lighthouse", "second harbour", "third harbour", "1 + 40", "2 + 40"):
        assert text in texts
    first.terminal.run("clear")
    first.terminal.run(MCPHOST_PATH, "audit", "verify")
    first.terminal.wait_for("rows are unchanged")
    second.terminal.run(*with_forked_worker(), "--resume", identity)
    second.terminal.wait_for("2 + 40 = 42", "third harbour")
    second.send("/rewind")
    second.terminal.wait_for("Go back", "third harbour", "another branch")


def test_a_conversation_deleted_in_one_chat_continues_in_the_other_which_is_told(
    first: ChatSession, second: ChatSession
) -> None:
    ask(first, "the first lighthouse")
    ((identity,),) = stored(first.folder, "SELECT id FROM conversations")
    second.terminal.run(MCPHOST_PATH, "sessions", "delete", identity, "--yes")
    second.terminal.wait_until(lambda _: not stored(first.folder, "SELECT id FROM conversations"), "its deletion")
    ask(first, "the second lighthouse", "Another mcphost deleted this conversation.")
    texts = str(stored(first.folder, "SELECT body FROM messages"))
    assert "second lighthouse" in texts
    assert "first lighthouse" not in texts


def test_a_server_disabled_in_one_chat_is_reported_in_the_other_and_disabled_there_on_request(
    first: ChatSession, second: ChatSession
) -> None:
    second.terminal.run(*with_forked_worker())
    second.terminal.wait_for("Type a message", f"ollama_chat/{MODEL}", "1/1 server")
    first.send("/servers")
    first.terminal.wait_for("implementation", "10 tools")
    first.terminal.press("d")
    first.terminal.wait_for("disabled")
    second.terminal.wait_for("The configuration files changed", "disable demo", "/reload")
    second.send("/reload")
    second.terminal.wait_for("Changes in the configuration files", "disabled", "apply all")
    second.terminal.wait_between_keys()
    second.terminal.press("C-s")
    second.terminal.wait_for("Applied from the configuration files")
    ask(second, "the first lighthouse")
    assert not second.model.requests[-1].get("tools")
