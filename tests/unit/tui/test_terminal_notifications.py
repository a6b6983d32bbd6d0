"""Tests for notifying a user who is not looking at the terminal: once, with fixed texts and short names only."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.schema import NotificationMode, NotificationsConfig
from mcphost.host.events import TurnFinished, TurnStarted
from mcphost.host.questions.questions import ApproveTool
from mcphost.llm.messages import Message
from mcphost.tui import terminal_notifications
from mcphost.tui.terminal_notifications import (
    TerminalNotifier,
    choose_channel,
    describe_question,
    desktop_command,
    notification_bytes,
)

OSC9_START = "\x1b]9;"


class RecordingTerminal:
    """A fake terminal that records its titles and other output."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.written: list[str] = []

    def set_title(self, title: str) -> None:
        self.titles.append(title)

    def write(self, data: str) -> None:
        self.written.append(data)


class NotifiedApp:
    """An app whose focus, timers and workers are controlled by the test."""

    def __init__(self) -> None:
        self.terminal = RecordingTerminal()
        self.has_terminal_focus = False
        self.timers: list[Callable[[], None]] = []
        self.workers: list[Any] = []

    def set_timer(self, delay: float, callback: Callable[[], None]) -> None:
        assert 0 < delay <= terminal_notifications.MIN_GAP_SECONDS
        self.timers.append(callback)

    def run_worker(self, work: Any, /, *, group: str) -> None:
        assert group
        self.workers.append(work)


class NotifiedUser:
    """A terminal notifier with a fake app and a clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now = 100.0
        monkeypatch.setattr(terminal_notifications, "monotonic", lambda: self.now)
        self.app = NotifiedApp()
        config = NotificationsConfig(**settings)
        self.notifier = TerminalNotifier(self.app, lambda: config, {"TERM": "xterm-kitty"})

    def take_turn(self, seconds: float, outcome: Any = "done") -> None:
        self.begin_turn()
        self.now += seconds
        self.end_turn(outcome)

    def begin_turn(self) -> None:
        self.notifier.event_handlers[TurnStarted](TurnStarted(1, Message(role="user", parts=())))

    def end_turn(self, outcome: Any = "done") -> None:
        self.notifier.event_handlers[TurnFinished](TurnFinished(1, outcome))


def ask(server: str = "files", tool: str = "read", **more: Any) -> ApproveTool:
    return ApproveTool(server=server, why="asked by the model", call="c1", tool=tool, arguments={}, **more)


def test_the_title_tells_whether_it_asks_answers_or_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch)
    user.begin_turn()
    user.notifier.show_questions([ask()])
    user.notifier.show_questions([])
    user.end_turn()
    states = ["ready", "answering", "asks", "answering", "ready"]
    assert user.app.terminal.titles == [f"mcphost - {state}" for state in states]


def test_the_title_is_left_alone_when_the_settings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch, title=False)
    user.notifier.show_questions([ask()])
    assert not user.app.terminal.titles


def test_the_first_waiting_question_notifies_and_the_next_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch)
    user.notifier.show_questions([ask()])
    user.notifier.show_questions([ask(), ask(tool="write")])
    user.notifier.show_questions([ask(tool="write")])
    assert user.app.terminal.written == ["\x1b]9;mcphost asks: files / read\x1b\\"]


def test_nothing_is_written_while_the_terminal_has_the_focus(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch)
    user.app.has_terminal_focus = True
    user.notifier.show_questions([ask()])
    user.take_turn(600)
    assert not user.app.terminal.written


def test_nothing_is_written_when_notifications_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch, mode="off")
    user.notifier.show_questions([ask()])
    user.take_turn(600)
    assert not user.app.terminal.written


def test_only_the_end_of_a_long_turn_notifies(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch, mode="bell", after_seconds=30)
    user.take_turn(29)
    assert not user.app.terminal.written
    user.take_turn(30)
    assert user.app.terminal.written == ["\x07"]


def test_a_turn_that_the_user_stopped_does_not_notify(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch)
    user.take_turn(600, "stopped")
    assert not user.app.terminal.written


def test_a_server_that_asks_in_quick_succession_notifies_at_most_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = NotifiedUser(monkeypatch, mode="bell")
    for _ in range(20):
        user.notifier.show_questions([ask()])
        user.notifier.show_questions([])
    user.notifier.show_questions([ask()])
    assert len(user.app.terminal.written) == 1
    assert user.app.timers
    user.now += 5
    for timer in user.app.timers:
        timer()
    assert len(user.app.terminal.written) == 2


def test_a_delayed_notification_of_a_question_that_is_gone_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    user = NotifiedUser(monkeypatch, mode="bell")
    for questions in ([ask()], [], [ask()], []):
        user.notifier.show_questions(questions)
    user.now += 5
    for timer in user.app.timers:
        timer()
    assert len(user.app.terminal.written) == 1


def test_names_of_servers_and_tools_cannot_end_the_sequence_or_fill_the_screen() -> None:
    text = describe_question(ask("evil\x1b\\\x07\x9c;x", "t\n" + "long" * 1_000, description="secret"))
    assert text.isprintable()
    assert len(text) < 120
    assert "secret" not in text
    written = notification_bytes("osc777", text, {})
    assert written.startswith("\x1b]777;notify;mcphost;")
    assert written.count(";") == 3
    assert written.count("\x1b") == 2


@pytest.mark.parametrize(
    ("mode", "environ", "channel"),
    [
        ("auto", {"TERM": "xterm-256color"}, "bell"),
        ("auto", {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "osc9"),
        ("auto", {"TERM": "xterm-kitty"}, "osc9"),
        ("auto", {"TERM": "foot"}, "osc777"),
        ("auto", {"TERM": "tmux-256color", "TMUX": "/tmp/x", "TERM_PROGRAM": "tmux"}, "bell"),
        ("osc", {"TERM": "xterm-256color"}, "osc9"),
        ("osc", {"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "osc777"),
        ("osc", {"TERM": "tmux-256color"}, "osc9"),
        ("osc", {"TERM": "screen-256color", "STY": "1.x"}, "bell"),
        ("osc", {"TERM": "linux"}, "bell"),
        ("bell", {"TERM": "xterm-kitty"}, "bell"),
    ],
)
def test_only_a_known_terminal_gets_a_sequence_unless_the_user_asks_for_it(
    mode: NotificationMode, environ: Mapping[str, str], channel: str
) -> None:
    assert choose_channel(mode, environ) == channel


def test_tmux_gets_a_bell_and_hands_the_wrapped_sequence_on() -> None:
    written = notification_bytes("osc9", "mcphost asks", {"TERM": "tmux-256color"})
    assert written == "\x1bPtmux;\x1b\x1b]9;mcphost asks\x1b\x1b\\\x1b\\\x07"
    assert OSC9_START not in written.replace("\x1b\x1b", "")


async def run_desktop_notification(user: NotifiedUser) -> None:
    user.notifier.show_questions([ask(server="-x $(id)")])
    for work in user.app.workers:
        await work()


def write_notifier(folder: Path, script: str) -> None:
    program = folder / "notify-send"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.anyio
async def test_a_desktop_notification_is_an_argument_and_never_a_line_of_a_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_notifier(tmp_path, f'printf "%s|" "$@" > {tmp_path}/arguments')
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    user = NotifiedUser(monkeypatch, mode="desktop")
    await run_desktop_notification(user)
    assert (tmp_path / "arguments").read_text() == "--app-name=mcphost|--|mcphost asks: -x $(id) / read|"
    assert not user.app.terminal.written


@pytest.mark.anyio
async def test_a_desktop_notification_that_fails_becomes_one_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_notifier(tmp_path, "exit 1")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    user = NotifiedUser(monkeypatch, mode="desktop")
    await run_desktop_notification(user)
    assert user.app.terminal.written == ["\x1b]9;mcphost asks: -x $(id) / read\x1b\\"]


def test_a_machine_without_a_notifier_has_no_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert desktop_command("mcphost asks") is None
