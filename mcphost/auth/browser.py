"""Opens an http(s) address in the user's browser, without a shell; knows when no browser can be there.

Addresses come from servers (CVE-2025-6514 and its kin: an address that reached a shell), so the scheme is checked, the
address is one argument of a program, and it never begins with a dash.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

import anyio
import anyio.to_thread

from mcphost.auth.urls import Unsafe, checked

_SECONDS = 3.0
_LAUNCHERS = ("xdg-open", "wslview", "gio open", "x-www-browser")
_left: list["subprocess.Popen[bytes]"] = []  # browsers that go on without us; kept so that nobody warns of them


def launchers(environ: Mapping[str, str], platform: str) -> tuple[tuple[str, ...], ...]:
    """The programs that may open a browser here, best first; none on a machine without a screen.

    $BROWSER wins (programs separated by colons, `%s` for the address).
    """
    wanted = tuple(
        tuple(shlex.split(entry))
        for entry in environ.get("BROWSER", "").split(os.pathsep)
        if entry and "'" not in entry
    )
    if wanted:
        return wanted
    if platform == "darwin":
        return () if environ.get("SSH_CONNECTION") else (("open",),)
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("WSL_DISTRO_NAME")):
        return ()
    return tuple(tuple(launcher.split()) for launcher in _LAUNCHERS)


def can_open() -> bool:
    """Whether there is any hope of a browser on this machine."""
    return any(shutil.which(launcher[0]) for launcher in launchers(os.environ, sys.platform) if launcher)


async def open_url(url: str) -> bool:
    """Open it; whether a browser took it. Returns after three seconds at most; the browser stays open after us."""
    try:
        checked(url, "address")
    except Unsafe:
        return False
    for launcher in launchers(os.environ, sys.platform):
        program = shutil.which(launcher[0]) if launcher else None
        if program is None:
            continue
        given = [url if word == "%s" else word for word in launcher[1:]]
        if await _started([program, *given, *([] if "%s" in launcher else [url])]):
            return True
    return False


async def _started(command: list[str]) -> bool:
    nowhere = subprocess.DEVNULL
    try:
        process = await anyio.to_thread.run_sync(
            lambda: subprocess.Popen(
                command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True, close_fds=True
            )
        )
    except OSError:
        return False
    until = anyio.current_time() + _SECONDS
    while process.poll() is None:
        if anyio.current_time() > until:
            _left.append(process)
            return True
        await anyio.sleep(0.05)
    return process.returncode == 0
