"""Tests for a clock that jumps a year forward or an hour back during a chat: nothing expires, hangs or runs back."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.terminal.chat_session import ChatSession, begin_chat, open_session, quit_chat
from tests.terminal.demo_program import MCPHOST_PATH
from tests.terminal.scripted_model import ScriptedModel

CACHE_SECONDS = 1
"""How long libfaketime uses an offset before it reads the file again; reading it for each call slows a start down."""

YEAR_FORWARD, HOUR_BACK = "+365d", "-1h"


class Clock:
    """The wall clock of the programs in a terminal, which libfaketime sets; their monotonic clock is real."""

    def __init__(self, folder: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not libraries:
            skip_or_fail("libfaketime is not installed (Debian: apt install faketime)")
        self._file = folder / "clock"
        self.set("+0")
        self.environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": str(CACHE_SECONDS),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, offset: str) -> None:
        """Set the clock to the real time plus *offset*, such as `-1h`."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset}\n")
        fresh.replace(self._file)
        self._changed = time.monotonic()

    def wait_until_seen(self) -> None:
        """Wait until all programs use the new time, which takes libfaketime up to a second longer than its cache."""
        time.sleep(max(0.0, self._changed + CACHE_SECONDS + 1.1 - time.monotonic()))


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


@pytest.fixture
def session(tmp_path: Path, clock: Clock) -> Iterator[ChatSession]:
    with open_session(tmp_path, ScriptedModel(), clock.environment) as session:
        begin_chat(session)
        yield session


def call_add(session: ChatSession, a: int, *, key: str = "") -> str:
    session.send(f'call add {{"a": {a}, "b": 40}}')
    if key:
        session.terminal.wait_for_question("Run demo · add?")
        session.terminal.press(key)
    return session.terminal.wait_for(f"The tool says: {a} + 40 = {a + 40}")


def audit_rows(session: ChatSession) -> list[tuple[int, int, str, int]]:
    with closing(sqlite3.connect(session.folder / "data" / "ledger.db")) as db:
        return db.execute("SELECT seq, at, event, duration FROM ledger ORDER BY seq").fetchall()


def test_calls_go_on_in_order_and_no_time_is_negative_when_the_clock_jumps(session: ChatSession, clock: Clock) -> None:
    call_add(session, 1, key="s")
    for number, offset in enumerate((YEAR_FORWARD, HOUR_BACK, "+0"), 2):
        clock.set(offset)
        clock.wait_until_seen()
        screen = call_add(session, number)  # the permission of the session goes on
        assert not re.search(r"-\d+(\.\d+)? ?(ms|s|min|h|d)\b", screen)
    quit_chat(session)
    session.terminal.run("clear")
    session.terminal.run(MCPHOST_PATH, "audit", "verify")
    session.terminal.wait_for("rows are unchanged")
    rows = audit_rows(session)
    assert [event for _, _, event, _ in rows][-8:].count("ended") >= 3
    assert [seq for seq, _, _, _ in rows] == list(range(1, len(rows) + 1))
    assert min(at for _, at, _, _ in rows) < max(at for _, at, _, _ in rows) - 300 * 86_400 * 1_000_000
    assert all(0 <= duration < 600_000 for _, _, _, duration in rows)


@pytest.mark.parametrize("offset", [YEAR_FORWARD, HOUR_BACK])
def test_an_answer_that_is_waited_for_arrives_when_the_clock_jumps(
    session: ChatSession, clock: Clock, offset: str
) -> None:
    session.send("wait for the tide")
    session.terminal.wait_until(lambda _: session.model.is_waiting, "the request")
    clock.set(offset)
    clock.wait_until_seen()
    top = session.terminal.wait_for("waiting for the model").partition("\n")[0]
    elapsed = re.search(r"· (-?\d+) (s|min|h|d)\b", top)
    assert elapsed is None or (int(elapsed[1]) >= 0 and elapsed[2] == "s"), top
    session.model.go_on.set()
    session.terminal.wait_for("got: wait for the tide")
    session.terminal.wait_for_turn_end()
    session.send("/history")
    session.terminal.wait_for("History", "wait for the tide")


def test_a_later_start_with_the_clock_set_back_shows_and_continues_the_conversation(
    session: ChatSession, clock: Clock
) -> None:
    clock.set(YEAR_FORWARD)
    clock.wait_until_seen()
    session.send("the first lighthouse")
    session.terminal.wait_for("got: the first lighthouse")
    resume = quit_chat(session)
    identity = resume.partition("--resume ")[2][:12]
    clock.set(HOUR_BACK)
    session.terminal.run("clear")
    session.terminal.run(MCPHOST_PATH, "--resume", identity)
    session.terminal.wait_for("the first lighthouse", "1/1 server")
    session.send("the second lighthouse")
    session.terminal.wait_for("got: the second lighthouse")
    screen = call_add(session, 5, key="a")
    assert screen.index("the second lighthouse") < screen.index("5 + 40")
