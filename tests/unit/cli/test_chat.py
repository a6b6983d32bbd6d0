"""Tests for what `mcphost chat` and `mcphost demo` do before and after the UI runs: folders, logs and themes."""

import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcphost import log
from mcphost.cli import chat
from mcphost.cli.main import main
from mcphost.cli.parser import Options
from mcphost.config.schema import HostConfig
from mcphost.errors import UsageError
from mcphost.tui import themes

PLACES = ("MCPHOST_CONFIG_DIR", "MCPHOST_DATA_DIR", "MCPHOST_STATE_DIR", "MCPHOST_CACHE_DIR")


@pytest.fixture(autouse=True)
def demo_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in PLACES:
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = list(logging.getLogger().handlers)
    yield
    for handler in [handler for handler in logging.getLogger().handlers if handler not in before]:
        logging.getLogger().removeHandler(handler)
        handler.close()


def test_a_crash_of_the_demo_leaves_the_log_that_the_message_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_given: object, **_options: object) -> None:
        log.configure_logging()
        os.makedirs(os.environ["MCPHOST_DATA_DIR"])
        raise RuntimeError("a mistake")

    monkeypatch.setattr("mcphost.cli.chat.build_options", crash)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["demo"]) == 1
    (path,) = re.findall(r"The log has the details: (\S+)", capsys.readouterr().err)
    assert "RuntimeError: a mistake" in Path(path).read_text()
    assert not Path(os.environ["MCPHOST_DATA_DIR"]).exists()


@pytest.mark.parametrize(
    ("flag", "value"), [("--mcp-config", "mcp.json"), ("--config-dir", "x"), ("--era", "handshake"), ("--profile", "p")]
)
def test_the_demo_refuses_a_flag_that_it_would_ignore(
    flag: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["demo", flag, value]) == 2
    error = capsys.readouterr().err
    assert f"{flag} has no effect in the demo" in error
    assert "Leave it out" in error


@pytest.mark.parametrize("error", [None, UsageError("no"), KeyboardInterrupt()])
def test_nothing_of_the_demo_is_left_otherwise(tmp_path: Path, error: BaseException | None) -> None:
    def use() -> None:
        with chat.temporary_directories():
            for name in PLACES:
                os.makedirs(os.environ[name])
            if error is not None:
                raise error

    if error is None:
        use()
    else:
        with pytest.raises(type(error)):
            use()
    assert list(tmp_path.glob("mcphost-demo-*")) == []


def test_a_theme_that_does_not_exist_is_reported_with_those_that_do() -> None:
    (problem,) = chat.check_theme(Options(), HostConfig(theme="neon")).problems
    assert "\"theme\" is 'neon', which is not one of: " in problem
    assert all(name in problem for name in themes.names())
    assert chat.check_theme(Options(), HostConfig(theme=themes.DEFAULT)).problems == ()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["--resume"], "There is no conversation yet."), (["--resume", "a1"], "There is no conversation 'a1'.")],
)
def test_resuming_without_a_stored_conversation_is_refused_before_anything_is_painted(
    arguments: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(*_: object) -> None:
        raise AssertionError("the screen was shown")

    monkeypatch.setattr("mcphost.tui.app.McpHostApp.run_async", show)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["chat", *arguments]) == 2
    assert f"{text}" in capsys.readouterr().err
    assert not Path(os.environ["MCPHOST_DATA_DIR"]).exists()


@pytest.mark.parametrize(
    ("flag", "settings", "is_wanted"),
    [
        (True, {}, True),
        (True, {"screen": {"reader": False}}, True),
        (False, {"screen": {"reader": True}}, True),
        (False, {"screen": {"reader": False}}, False),
        (False, {"screen": {"reader": "yes"}}, False),
        (False, {"screen": True}, False),
        (False, {}, False),
    ],
)
def test_a_flag_or_the_settings_choose_the_mode_for_screen_readers(
    settings: dict[str, object], *, flag: bool, is_wanted: bool
) -> None:
    assert chat.wants_reader(Options(screen_reader=flag), settings) is is_wanted
