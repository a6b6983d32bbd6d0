"""Tests for reading the clipboard's image with programs such as wl-paste, limited in size and time."""

from pathlib import Path

import pytest

from mcphost.host.conversation import clipboard_image
from mcphost.host.conversation.clipboard_image import clipboard_commands, missing_package, read_clipboard_image

pytestmark = pytest.mark.anyio


def install(folder: Path, name: str, script: str) -> dict[str, str]:
    """Install an executable script, and return an environment whose PATH contains only its folder."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": str(folder), "WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}


def test_the_programs_depend_on_the_desktop() -> None:
    assert clipboard_commands({}, "linux") == ()
    assert [command[0] for command in clipboard_commands({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux")] == [
        "wl-paste",
        "xclip",
    ]
    assert [command[0] for command in clipboard_commands({}, "darwin")] == ["pngpaste"]


async def test_what_the_program_prints_is_the_image(tmp_path: Path) -> None:
    environ = install(tmp_path, "xclip", "[ $4 = image/png ] && printf PNG")
    assert await read_clipboard_image(environ, "linux") == b"PNG"


async def test_another_program_is_asked_if_the_first_has_no_image(tmp_path: Path) -> None:
    install(tmp_path, "wl-paste", "printf 'no such type'; exit 1")
    environ = install(tmp_path, "xclip", "printf PNG")
    assert await read_clipboard_image(environ, "linux") == b"PNG"


async def test_without_a_program_there_is_no_image(tmp_path: Path) -> None:
    assert await read_clipboard_image({"PATH": str(tmp_path), "DISPLAY": ":0"}, "linux") == b""


async def test_a_program_in_the_current_folder_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = install(tmp_path, "xclip", "printf PNG")
    monkeypatch.chdir(tmp_path)
    assert await read_clipboard_image({**environ, "PATH": "."}, "linux") == b""


async def test_a_program_that_prints_or_waits_without_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard_image, "MAX_BINARY_BYTES", 100_000)
    environ = install(tmp_path, "xclip", "while :; do printf 0123456789012345678901234567890123456789; done")
    assert await read_clipboard_image(environ, "linux") == b""
    monkeypatch.setattr(clipboard_image, "TIMEOUT", 0.2)
    environ = install(tmp_path, "xclip", "printf PNG; exec /bin/sleep 600")
    assert await read_clipboard_image(environ, "linux") == b""


def test_the_package_that_is_missing_depends_on_the_desktop(tmp_path: Path) -> None:
    path = {"PATH": str(tmp_path)}
    assert missing_package(path, "linux") == ""
    assert missing_package({**path, "WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux") == "wl-clipboard"
    assert missing_package({**path, "DISPLAY": ":0"}, "linux") == "xclip"
    assert missing_package(path, "darwin") == "pngpaste"
    assert missing_package(install(tmp_path, "xclip", "exit 1"), "linux") is None
