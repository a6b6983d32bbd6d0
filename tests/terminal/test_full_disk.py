"""Tests for a disk that fills up during a chat: failures are reported, nothing is lost, the chat continues."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.terminal.chat_session import ChatSession, open_session, quit_chat
from tests.terminal.demo_program import MCPHOST_PATH, with_forked_worker
from tests.terminal.mounts import Mounts, begin_on_disks
from tests.terminal.scripted_model import MODEL, ScriptedModel


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def session(tmp_path: Path, model: ScriptedModel) -> Iterator[ChatSession]:
    with open_session(tmp_path, model) as session:
        yield session


def stored_texts(session: ChatSession, mounts: Mounts) -> str:
    return str(mounts.query(session.folder / "data" / "mcphost.db", "SELECT body FROM messages ORDER BY seq"))


def verify_audit(session: ChatSession) -> None:
    session.terminal.run("clear")
    session.terminal.run(MCPHOST_PATH, "audit", "verify")
    session.terminal.wait_for("rows are unchanged")


def test_a_chat_continues_with_a_full_disk_and_is_saved_automatically_once_there_is_space(session: ChatSession) -> None:
    mounts, data = Mounts(session.terminal), session.folder / "data"
    begin_on_disks(session, mounts, "data")
    session.send("the first lighthouse")
    session.terminal.wait_for("got: the first lighthouse")
    mounts.fill(data)
    session.send("the second lighthouse")
    screen = session.terminal.wait_for("got: the second lighthouse", "The disk is full: the conversation store")
    told = " ".join(screen.split())
    assert "Free disk space." in told
    assert "kept in memory and saved as soon as that works" in told
    beside_sidebar = (line[25:] for line in screen.splitlines())
    assert "mcphost.db" in re.sub(r"[^\w./-]", "", "".join(beside_sidebar))  # a long path wraps anywhere
    session.send("the third lighthouse")
    session.terminal.wait_for("got: the third lighthouse")
    assert "the second lighthouse" not in stored_texts(session, mounts)
    mounts.free(data)
    session.terminal.wait_for("The conversation can be saved again")
    texts = stored_texts(session, mounts)
    places = [texts.index(f"{word} lighthouse") for word in ("first", "second", "third")]
    assert places == sorted(places)


def test_messages_that_cannot_be_saved_are_reported_when_the_chat_ends(session: ChatSession) -> None:
    mounts, data = Mounts(session.terminal), session.folder / "data"
    begin_on_disks(session, mounts, "data")
    mounts.fill(data)
    session.send("the first lighthouse")
    session.terminal.wait_for("got: the first lighthouse", "The disk is full")
    session.terminal.press("C-q")
    screen = session.terminal.wait_for("2 messages of this conversation could not be saved")
    assert "Traceback" not in screen


def test_a_tool_does_not_run_while_its_audit_row_cannot_be_written(session: ChatSession) -> None:
    mounts, data = Mounts(session.terminal), session.folder / "data"
    begin_on_disks(session, mounts, "data")
    mounts.fill(data)
    session.send('call add_note {"text": "lighthouse 7741"}')
    session.terminal.wait_for_question("Run demo · add_note?")
    session.terminal.press("a")
    told = " ".join(session.terminal.wait_for("The tool says:", "Your answer counts as a refusal").split())
    assert "ledger.db cannot be written" in told
    assert "Noted as number" not in told
    mounts.free(data)
    session.terminal.wait_for("The audit log can be written again")
    session.send('call add_note {"text": "harbour 8852"}')
    session.terminal.wait_for_question("Run demo · add_note?")
    session.terminal.press("a")
    session.terminal.wait_for("Noted as number 1.")  # so the refused call did not run
    quit_chat(session)
    verify_audit(session)
    rows = mounts.query(data / "ledger.db", "SELECT event FROM ledger WHERE kind = 'tool' ORDER BY seq")
    events = [event for (event,) in rows]
    assert events == ["answered", "refused", "answered", "started", "ended"]


def test_a_chat_that_starts_with_a_full_disk_saves_once_there_is_space(session: ChatSession) -> None:
    mounts, data = Mounts(session.terminal), session.folder / "data"
    begin_on_disks(session, mounts, "data")
    session.send("the first lighthouse")
    session.terminal.wait_for("got: the first lighthouse")
    quit_chat(session)
    mounts.fill(data)
    session.terminal.run("clear")
    session.terminal.run(*with_forked_worker())
    session.terminal.wait_for("Type a message", f"ollama_chat/{MODEL}")
    session.send("the second lighthouse")
    session.terminal.wait_for("got: the second lighthouse", "The disk is full")
    mounts.free(data)
    session.terminal.wait_for("The conversation can be saved again")
    assert "the second lighthouse" in stored_texts(session, mounts)
    session.send("/history")
    session.terminal.wait_for("the first lighthouse", "the second lighthouse")


def test_an_export_to_a_full_disk_is_reported_and_leaves_no_part_of_a_file(session: ChatSession) -> None:
    mounts, full = Mounts(session.terminal), session.folder / "full"
    mounts.add_disk(full)
    begin_on_disks(session, mounts)
    session.send("the first lighthouse")
    session.terminal.wait_for("got: the first lighthouse")
    quit_chat(session)
    mounts.fill(full)
    for command in (("sessions", "export", "-o"), ("audit", "export")):
        session.terminal.run("clear")
        identity = () if command[0] == "audit" else (saved_id(session),)
        session.terminal.run(MCPHOST_PATH, *command[:2], *identity, *command[2:], str(full / "out"))
        screen = session.terminal.wait_until(
            lambda now: "full/out cannot be written" in now.replace("\n", ""), "the error"
        )
        assert "Traceback" not in screen
    assert [file.name for file in mounts.inside(full).iterdir()] == ["ballast"]


def saved_id(session: ChatSession) -> str:
    with closing(sqlite3.connect(session.folder / "data" / "mcphost.db")) as db:
        return str(db.execute("SELECT id FROM conversations").fetchone()[0])


def test_a_configuration_that_cannot_be_saved_stays_whole(session: ChatSession) -> None:
    mounts, config = Mounts(session.terminal), session.folder / "config"
    begin_on_disks(session, mounts, "config")
    before = {file.name: file.read_text() for file in mounts.inside(config).iterdir() if file.is_file()}
    assert set(before) >= {"config.toml", "mcp.json"}
    mounts.fill(config)
    session.send("/servers")
    session.terminal.wait_for("implementation", "10 tools")
    session.terminal.press("x")
    session.terminal.wait_for("Press x again to remove demo")
    session.terminal.press("x")
    session.terminal.wait_for("mcp.json cannot be written", "Free disk space.")
    after = {file.name: file.read_text() for file in mounts.inside(config).iterdir() if file.name in before}
    assert after == before
    assert json.loads(after["mcp.json"])["mcpServers"]
