"""Functions that open http(s) URLs in the user's browser, and check whether a browser is available.

The URLs come from servers. Other programs were vulnerable because they passed such URLs to a shell
(CVE-2025-6514 and others). Here, no shell is used, the scheme is checked, and the URL is passed as a single
argument that never begins with a dash.
"""

import atexit
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

import anyio
import anyio.to_thread

from mcphost.auth.url_policy import is_loopback_name
from mcphost.paths import find_program
from mcphost.unicode_forms import split_url

_START_TIMEOUT = 3.0
_MAX_URL_LENGTH = 16 * 1024
_FORBIDDEN_CHARACTERS = '\\"<>^`{|}\x7f'
# A launcher for Windows may pass the URL to PowerShell in double quotes, which runs `$(…)`, or to cmd, which replaces
# `%NAME%` (wslview from wslu does both). Browsers decode the percent codes.
_PERCENT_CODES = {ord(char): f"%{ord(char):02X}" for char in "$'();!"}
_BARE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_LAUNCHER_COMMANDS = ("xdg-open", "wslview", "gio open", "x-www-browser")
CONTAINER_MARKER_FILES = ("/.dockerenv", "/run/.containerenv")
_running_browsers: list["subprocess.Popen[bytes]"] = []
"""Browser processes, which may outlive mcphost."""


@atexit.register
def _detach_browsers() -> None:
    for browser in _running_browsers:
        browser.returncode = browser.poll() or 0  # otherwise Popen warns that the process is still running


def browser_commands(
    environ: Mapping[str, str], platform: str, marker_files: Sequence[str] = CONTAINER_MARKER_FILES
) -> tuple[tuple[str, ...], ...]:
    """Return the commands that may open a browser on this machine, in order of preference.

    Each command is a program followed by its arguments. $BROWSER takes precedence: it lists commands, separated
    by `os.pathsep`, in which `%s` stands for the URL. Without $BROWSER, the result is empty over SSH, in a
    container and, except on macOS, without a display. *platform* is a value of `sys.platform`; for
    *marker_files*, see `is_in_container`.
    """
    configured = tuple(
        command for entry in environ.get("BROWSER", "").split(os.pathsep) if (command := _split_command(entry))
    )
    if configured:
        return configured
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") or is_in_container(environ, marker_files):
        return ()
    if platform == "darwin":
        return (("open",),)
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("WSL_DISTRO_NAME")):
        return ()
    return tuple(tuple(launcher.split()) for launcher in _LAUNCHER_COMMANDS)


def is_in_container(environ: Mapping[str, str], marker_files: Sequence[str] = CONTAINER_MARKER_FILES) -> bool:
    """Return whether mcphost runs in a container: $container is set, or one of *marker_files* exists."""
    return bool(environ.get("container")) or any(os.path.lexists(mark) for mark in marker_files)


def _split_command(entry: str) -> tuple[str, ...]:
    """Split a command into words like a shell; return an empty tuple if its quoting is invalid."""
    try:
        return tuple(shlex.split(entry))
    except ValueError:
        return ()


def can_open_browser() -> bool:
    """Return whether a browser can probably be opened on this machine, judging by the installed commands."""
    return any(find_program(launcher[0]) for launcher in browser_commands(os.environ, sys.platform) if launcher)


async def open_url(url: str) -> bool:
    """Open *url* in a browser; return whether this probably succeeded.

    A browser command counts as successful if it exits with status 0 or is still running after three seconds.
    """
    if not _is_safe_url(url):
        return False
    encoded = _BARE_PERCENT.sub("%25", url.translate(_PERCENT_CODES))
    for launcher in browser_commands(os.environ, sys.platform):
        program = find_program(launcher[0]) if launcher else None
        if program is None:
            continue
        args = [encoded if word == "%s" else word for word in launcher[1:]]
        if await _start([program, *args, *([] if "%s" in launcher else [encoded])]):
            return True
    return False


def _is_safe_url(url: str) -> bool:
    """Return whether *url* is https, or http on loopback, and safe as an argument of a browser command.

    Whether the host is trustworthy is not checked here; the caller has already checked it.
    """
    if (
        not 0 < len(url) <= _MAX_URL_LENGTH
        or not url.isascii()
        or any(char <= " " or char in _FORBIDDEN_CHARACTERS for char in url)
    ):
        return False
    try:
        parts = split_url(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback_name(host)))


async def _start(command: list[str]) -> bool:
    try:
        process = await anyio.to_thread.run_sync(
            lambda: subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                close_fds=True,
            )
        )
    except OSError:
        return False
    # Recorded before the first await, because the response may arrive and cancel this task while the browser starts.
    _running_browsers[:] = [*(browser for browser in _running_browsers if browser.poll() is None), process]
    deadline = anyio.current_time() + _START_TIMEOUT
    while process.poll() is None:
        if anyio.current_time() > deadline:
            return True
        await anyio.sleep(0.05)
    return process.returncode == 0
