"""Other MCP hosts on the Windows side of WSL: the location of their files, and conversion of entries.

WSL shows the drive `C:` at `/mnt/c`: https://learn.microsoft.com/windows/wsl/filesystems
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mcphost.sanitize import sanitize_line

MAX_WINDOWS_USERS = 50
"""Maximum number of entries of the folder of Windows users to look at."""
_MAX_RELEASE_BYTES = 1_000
_NO_USERS = frozenset({"all users", "default", "default user", "public", "defaultapppool", "wdagutilityaccount"})
"""Folders of Windows that belong to no person; everybody can write to some of them."""
_PATH = re.compile(r"(?:\A|=)([A-Za-z]):[\\/]([^\0\r\n]{0,4000})")
_SCRIPT_SUFFIXES = (".cmd", ".bat")
_PROGRAM = re.compile(r"[A-Za-z0-9._+-]{1,100}")
_MAX_SHOWN_PATH = 200


class WindowsPaths(NamedTuple):
    """Paths in WSL: the file that identifies WSL, and the folder with the home folders of Windows users."""

    release: Path = Path("/proc/sys/kernel/osrelease")
    users: Path = Path("/mnt/c/Users")


def find_windows_homes(paths: WindowsPaths) -> tuple[str, ...]:
    """Return the readable home folders of Windows users, sorted by name; () outside of WSL."""
    names: list[str] = []
    with suppress(OSError):
        with paths.release.open("rb") as file:
            if b"microsoft" not in file.read(_MAX_RELEASE_BYTES).lower():
                return ()
        with os.scandir(paths.users) as entries:
            names = [entry.name for entry in islice(entries, MAX_WINDOWS_USERS) if _is_home(entry)]
    return tuple(str(paths.users / name) for name in sorted(names))


def _is_home(entry: "os.DirEntry[str]") -> bool:
    try:
        is_folder = entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
    return is_folder and entry.name.lower() not in _NO_USERS and os.access(entry.path, os.R_OK | os.X_OK)


def translate_entry(entry: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Adapt an entry from a host on Windows to WSL; return the entry and sentences for the user.

    `cmd /c npx …` and `npx.cmd` become `npx`. Windows paths are not changed, because Windows programs need them
    in this form. The sentences state what was changed, and list the Windows paths with their equivalents in
    WSL, which Linux programs need.
    """
    translated = dict(entry)
    notes: list[str] = []
    if "command" in translated:
        command, args = _without_cmd(str(translated["command"]), list(translated.get("args", ())))
        if (command, args) != (translated["command"], list(translated.get("args", ()))):
            notes.append(f"In Windows it is started through a command script; here it runs {_show(command)}.")
            translated |= {"command": command, "args": args}
            if not args:
                del translated["args"]
    notes += (
        f"It has the Windows path {_show(path)}, which is {_show(here)} in WSL. "
        "If a program of WSL is to use it, change it with mcphost servers edit."
        for path, here in _find_paths(translated)
    )
    if _is_cmd(str(translated.get("command", ""))):
        notes.append("It is started by cmd, which is not in WSL. Change its command with mcphost servers edit.")
    return translated, tuple(notes)


def _without_cmd(command: str, args: list[str]) -> tuple[str, list[str]]:
    """Return the program and arguments that `cmd /c` or a script such as `npx.cmd` runs.

    Any other command is returned unchanged.
    """
    if _is_cmd(command) and len(args) > 1 and args[0].lower() == "/c" and _PROGRAM.fullmatch(args[1]):
        command, args = args[1], args[2:]
    lower = command.lower()
    if lower.endswith(_SCRIPT_SUFFIXES) and _PROGRAM.fullmatch(command):
        command = command[: -len(_SCRIPT_SUFFIXES[0])]
    return command, args


def _is_cmd(command: str) -> bool:
    return command.replace("\\", "/").rpartition("/")[2].lower() in ("cmd", "cmd.exe")


def _find_paths(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the Windows paths in an entry's command, arguments and working directory.

    Each item is a tuple of the Windows path and the equivalent path in WSL. Only the first path of each text is
    found.
    """
    texts = [str(entry.get("command", "")), *map(str, entry.get("args", ())), str(entry.get("cwd", ""))]
    matches = (match for text in dict.fromkeys(texts) if (match := _PATH.search(text)))
    for match in islice(matches, MAX_WINDOWS_USERS):
        rest = match[2].replace("\\", "/")
        yield match[0].removeprefix("="), f"/mnt/{match[1].lower()}/{rest}"


def _show(text: str) -> str:
    return sanitize_line(text, _MAX_SHOWN_PATH)
