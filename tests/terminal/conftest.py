"""A terminal for each test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.terminal.terminal import Terminal


@pytest.fixture(autouse=True)
def tmux() -> None:
    """The program that plays the terminal."""
    if shutil.which("tmux") is None:
        missing("tmux is not installed (Debian: apt install tmux)")


@pytest.fixture
def terminal(tmp_path: Path, tmux: None) -> Iterator[Terminal]:
    """120 by 40, folders of its own, a key that no provider knows."""
    with Terminal(tmp_path, environment={"OPENAI_API_KEY": "sk-none"}) as terminal:
        yield terminal
