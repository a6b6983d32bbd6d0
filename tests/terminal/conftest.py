"""Fixtures that provide a terminal for each test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.terminal.dialog_user import DialogUser
from tests.terminal.fake_browser import create_browser
from tests.terminal.terminal import Terminal


@pytest.fixture(autouse=True)
def tmux() -> None:
    """Skip the test, or fail in CI, if tmux is not installed."""
    if shutil.which("tmux") is None:
        skip_or_fail("tmux is not installed (Debian: apt install tmux)")


@pytest.fixture
def terminal(tmp_path: Path, tmux: None) -> Iterator[Terminal]:
    """Open a terminal of 120x40 cells with its own mcphost folders and an invalid API key."""
    with Terminal(tmp_path, environment={"OPENAI_API_KEY": "sk-none"}) as terminal:
        yield terminal


VISIT = """
import urllib.request
open({file!r}, "a").write(url + "\\n")
if "127.0.0.1" in url:
    urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(url)
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[DialogUser]:
    """A user without a keyring, whose browser records each URL and visits it if it is on this machine."""
    browser = VISIT.format(file=str(tmp_path / "visited"))
    own = {"BROWSER": create_browser(tmp_path, browser), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    with Terminal(tmp_path, environment=own) as terminal:
        yield DialogUser(terminal, tmp_path)
