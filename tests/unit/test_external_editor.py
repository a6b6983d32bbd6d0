"""Tests for editing a message in the user's external editor: its environment, its file and its failures."""

import contextlib
import sys
from pathlib import Path

import anyio
import pytest

from mcphost import external_editor as editor
from mcphost.errors import UsageError

pytestmark = pytest.mark.anyio


def write_editor(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import os, sys\npath = sys.argv[-1]\n{text}")


def remaining_files(place: Path, *names: str) -> list[str]:
    return [item.name for item in place.iterdir() if not names or item.name in names]


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("visual", "plain", "words"),
    [
        ("vi", "nano", ("vi",)),
        (" ", "nano -w", ("nano", "-w")),
        ("'my editor' \"a b\" $(x) ; y", "", ("my editor", "a b", "$(x)", ";", "y")),
        ("it's broken", "", ("it's broken",)),
        ("", "", ()),
    ],
)
def test_the_variables_are_words_and_never_a_shell_command(
    monkeypatch: pytest.MonkeyPatch, visual: str, plain: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("VISUAL", visual)
    monkeypatch.setenv("EDITOR", plain)
    assert editor.editor_command() == words


async def test_the_edited_file_is_read_and_then_deleted(runtime_folder: Path) -> None:
    text = 'open(path + "~", "w").write("backup"); open(path, "a").write("é")'
    assert await editor.edit_text("x", write_editor(text), contextlib.nullcontext) == "xé"
    assert remaining_files(runtime_folder) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "was not found"),
        (("no-such-editor", "-w"), "'no-such-editor -w' was not found"),
        (write_editor("sys.exit(3)"), "exited with status 3"),
        (write_editor("os.kill(os.getpid(), 9)"), "stopped by signal 9"),
        (write_editor("os.remove(path)"), "No such file"),
        (write_editor("os.remove(path); os.symlink('/etc/passwd', path)"), "could not be used"),
        (write_editor("os.remove(path); os.mkfifo(path)"), "did not save the file"),
        (write_editor("open(path, 'wb').write(bytes([255, 254, 65]))"), "not UTF-8"),
        (write_editor("open(path, 'wb').truncate(5_000_000)"), "over 4 MB"),
    ],
)
async def test_every_failure_is_one_sentence_and_leaves_no_file(
    runtime_folder: Path, words: tuple[str, ...], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        await editor.edit_text("x", words, contextlib.nullcontext)
    assert remaining_files(runtime_folder) == []


async def test_an_editor_that_returns_at_once_without_changes_gets_a_hint(
    runtime_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="returned at once and changed nothing") as exc_info:
        await editor.edit_text("x", write_editor("pass"), contextlib.nullcontext)
    assert "code --wait" in exc_info.value.hint
    assert remaining_files(runtime_folder) == []
    # An unchanged file produces no message.
    monkeypatch.setattr(editor, "MIN_EDIT_SECONDS", 0.0)
    assert await editor.edit_text("x", write_editor("pass"), contextlib.nullcontext) == "x"


async def test_an_abandoned_editor_is_ended(runtime_folder: Path) -> None:
    begun = runtime_folder / "begun"
    stubborn = f"import signal, time\nsignal.signal(15, signal.SIG_IGN)\nopen({str(begun)!r}, 'w')\ntime.sleep(60)"
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(editor.edit_text, "x", write_editor(stubborn), contextlib.nullcontext)
            while not remaining_files(runtime_folder, begun.name):  # noqa: ASYNC110 - another process begins
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    assert remaining_files(runtime_folder) == ["begun"]
