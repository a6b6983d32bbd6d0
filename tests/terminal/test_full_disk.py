"""Tests for a disk that fills up during a chat: failures are reported, nothing is lost, the chat continues."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.terminal.demo_program import MCPHOST_PATH, with_forked_worker
from tests.terminal.mounts import Mounts, begin_on_disks
from tests.terminal.scripted_model import MODEL, ScriptedModel
from tests.terminal.working_day import Day, open_day, quit_chat


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def day(tmp_path: Path, model: ScriptedModel) -> Iterator[Day]:
    with open_day(tmp_path, model) as day:
        yield day


def stored_texts(day: Day, mounts: Mounts) -> str:
    return str(mounts.query(day.folder / "data" / "mcphost.db", "SELECT body FROM messages ORDER BY seq"))


def verify_audit(day: Day) -> None:
    day.terminal.run("clear")
    day.terminal.run(MCPHOST_PATH, "audit", "verify")
    day.terminal.wait_for("rows are as they were written")


def test_a_chat_goes_on_with_a_full_disk_and_is_saved_by_itself_once_there_is_space(day: Day) -> None:
    mounts, data = Mounts(day.terminal), day.folder / "data"
    begin_on_disks(day, mounts, "data")
    day.send("the first lighthouse")
    day.terminal.wait_for("got: the first lighthouse", seconds=60)
    mounts.fill(data)
    day.send("the second lighthouse")
    screen = day.terminal.wait_for("got: the second lighthouse", "The disk is full: the conversation store")
    told = " ".join(screen.split())
    assert "Free disk space." in told
    assert "kept in memory and saved as soon as that works" in told
    assert "mcphost.db" in told
    day.send("the third lighthouse")
    day.terminal.wait_for("got: the third lighthouse")
    assert "the second lighthouse" not in stored_texts(day, mounts)
    mounts.free(data)
    day.terminal.wait_for("The conversation is saved again")
    texts = stored_texts(day, mounts)
    places = [texts.index(f"{word} lighthouse") for word in ("first", "second", "third")]
    assert places == sorted(places)


def test_messages_that_cannot_be_saved_are_told_when_the_chat_ends(day: Day) -> None:
    mounts, data = Mounts(day.terminal), day.folder / "data"
    begin_on_disks(day, mounts, "data")
    mounts.fill(data)
    day.send("the first lighthouse")
    day.terminal.wait_for("got: the first lighthouse", "The disk is full", seconds=60)
    day.terminal.press("C-q")
    screen = day.terminal.wait_for("2 messages of this conversation could not be saved")
    assert "Traceback" not in screen


def test_a_tool_does_not_run_while_its_audit_row_cannot_be_written(day: Day) -> None:
    mounts, data = Mounts(day.terminal), day.folder / "data"
    begin_on_disks(day, mounts, "data")
    mounts.fill(data)
    day.send('call add_note {"text": "lighthouse 7741"}')
    day.terminal.wait_for_question("demo wants to run add_note")
    day.terminal.press("a")
    told = " ".join(day.terminal.wait_for("The tool says:", "Your answer counts as a refusal").split())
    assert "ledger.db cannot be written" in told
    assert "Noted as number" not in told
    mounts.free(data)
    day.terminal.wait_for("The audit log is written again")
    day.send('call add_note {"text": "harbour 8852"}')
    day.terminal.wait_for_question("demo wants to run add_note")
    day.terminal.press("a")
    day.terminal.wait_for("Noted as number 1.")  # so the refused call did not run
    quit_chat(day)
    verify_audit(day)
    rows = mounts.query(data / "ledger.db", "SELECT event FROM ledger WHERE kind = 'tool' ORDER BY seq")
    events = [event for (event,) in rows]
    assert events == ["answered", "refused", "answered", "started", "ended"]


def test_a_chat_that_starts_with_a_full_disk_saves_once_there_is_space(day: Day) -> None:
    mounts, data = Mounts(day.terminal), day.folder / "data"
    begin_on_disks(day, mounts, "data")
    day.send("the first lighthouse")
    day.terminal.wait_for("got: the first lighthouse", seconds=60)
    quit_chat(day)
    mounts.fill(data)
    day.terminal.run("clear")
    day.terminal.run(*with_forked_worker())
    day.terminal.wait_for("Type a message", f"ollama_chat/{MODEL}", seconds=30)
    day.send("the second lighthouse")
    day.terminal.wait_for("got: the second lighthouse", "The disk is full", seconds=60)
    mounts.free(data)
    day.terminal.wait_for("The conversation is saved again")
    assert "the second lighthouse" in stored_texts(day, mounts)
    day.send("/history")
    day.terminal.wait_for("the first lighthouse", "the second lighthouse")


def test_an_export_to_a_full_disk_is_told_and_leaves_no_part_of_a_file(day: Day) -> None:
    mounts, full = Mounts(day.terminal), day.folder / "full"
    mounts.add_disk(full)
    begin_on_disks(day, mounts)
    day.send("the first lighthouse")
    day.terminal.wait_for("got: the first lighthouse", seconds=60)
    quit_chat(day)
    mounts.fill(full)
    for command in (("sessions", "export", "-o"), ("audit", "export")):
        day.terminal.run("clear")
        identity = () if command[0] == "audit" else (saved_id(day),)
        day.terminal.run(MCPHOST_PATH, *command[:2], *identity, *command[2:], str(full / "out"))
        screen = day.terminal.wait_until(lambda now: "full/out cannot be written" in now.replace("\n", ""), "the error")
        assert "Traceback" not in screen
    assert [file.name for file in mounts.inside(full).iterdir()] == ["ballast"]


def saved_id(day: Day) -> str:
    with closing(sqlite3.connect(day.folder / "data" / "mcphost.db")) as db:
        return str(db.execute("SELECT id FROM conversations").fetchone()[0])


def test_a_configuration_that_cannot_be_saved_stays_whole(day: Day) -> None:
    mounts, config = Mounts(day.terminal), day.folder / "config"
    begin_on_disks(day, mounts, "config")
    before = {file.name: file.read_text() for file in mounts.inside(config).iterdir() if file.is_file()}
    assert set(before) >= {"config.toml", "mcp.json"}
    mounts.fill(config)
    day.send("/servers")
    day.terminal.wait_for("implementation", "10 tools")
    day.terminal.press("x")
    day.terminal.wait_for("Press x again to remove demo")
    day.terminal.press("x")
    day.terminal.wait_for("mcp.json cannot be written", "Free disk space.")
    after = {file.name: file.read_text() for file in mounts.inside(config).iterdir() if file.name in before}
    assert after == before
    assert json.loads(after["mcp.json"])["mcpServers"]
