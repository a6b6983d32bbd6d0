"""The image in the system clipboard, read with a desktop program such as wl-paste."""

import subprocess
import sys
from collections.abc import Mapping

import anyio

from mcphost.host.conversation.local_files import MAX_BINARY_BYTES
from mcphost.paths import find_program

TIMEOUT = 3.0
"""Maximum seconds that each program may take."""

_PACKAGES = {"wl-paste": "wl-clipboard"}


def clipboard_commands(environ: Mapping[str, str], platform: str = sys.platform) -> tuple[tuple[str, ...], ...]:
    """Return the commands that can print the clipboard's image as PNG on this system, as argument lists."""
    if platform == "darwin":
        return (("pngpaste", "-"),)
    found: list[tuple[str, ...]] = []
    if environ.get("WAYLAND_DISPLAY"):
        found.append(("wl-paste", "--type", "image/png"))
    if environ.get("DISPLAY"):
        found.append(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"))
    return tuple(found)


def missing_package(environ: Mapping[str, str], platform: str = sys.platform) -> str | None:
    """Return the package to install so that images can be read from the clipboard, or None if none is needed.

    The result is "" if there is no desktop clipboard, for example over SSH.
    """
    commands = clipboard_commands(environ, platform)
    if any(find_program(command[0], environ.get("PATH")) for command in commands):
        return None
    return _PACKAGES.get(commands[0][0], commands[0][0]) if commands else ""


async def read_clipboard_image(environ: Mapping[str, str], platform: str = sys.platform) -> bytes:
    """Return the clipboard's image as PNG, at most 8 MB, or b"" if there is none or no program can read it."""
    for command in clipboard_commands(environ, platform):
        program = find_program(command[0], environ.get("PATH"))
        if program is not None and (body := await _read_output((program, *command[1:]))):
            return body
    return b""


async def _read_output(command: tuple[str, ...]) -> bytes:
    body = bytearray()
    with anyio.move_on_after(TIMEOUT) as limit:
        try:
            # Leaving the block ends the program, even after a timeout.
            async with await anyio.open_process(
                command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            ) as process:
                assert process.stdout is not None  # noqa: S101
                async for piece in process.stdout:
                    body += piece
                    if len(body) > MAX_BINARY_BYTES:
                        process.kill()
                        return b""
                return bytes(body) if await process.wait() == 0 else b""
        except OSError:
            return b""
    del limit
    return b""
