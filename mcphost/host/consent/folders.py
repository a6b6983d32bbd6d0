"""Is what a server will read as a path inside a folder? By every way of reading it, or nobody can tell."""

import os
import re
import unicodedata
from pathlib import Path
from typing import Literal

Place = Literal["inside", "outside", "unsure"]
PATH_LIMIT = 4096
_LINKS = 40
_NAMES = 500
_ODD = re.compile(r"[\x00-\x1f\x7f\\$`*?\[\]{}]|%[0-9A-Fa-f]{2}|^\s|\s$|^[A-Za-z][A-Za-z0-9+.-]*:")
"""What servers read in their own ways: separators of Windows, variables, globs, codes and addresses such as file:///x;
white space at the ends, which some cut off."""
_OURS = ("/proc", "/dev")
"""What these lead to depends on who asks: the server's /proc/self/cwd is not ours."""


class _Unclear(Exception):
    """A path that may lead somewhere else for the server."""


def under(value: str, folder: str, runs_in: str) -> Place:
    """Whether `value`, read by a server that runs in `runs_in`, names `folder` or something in it.

    Links and `..` are resolved in both orders, because programs do either: `link/../x` is beside the link for one and
    beside its target for another. What does not exist yet is judged by the part that does. Looks at the file system,
    so it may block; raises nothing.
    """
    if not value or len(value) > PATH_LIMIT:
        return "unsure"
    try:
        top = _resolved(_at_home(folder), "/")
        readings = {_resolved(text, runs_in) for text in _read(value, runs_in)}
        inside = [_within(path, top) for path in readings]
    except (_Unclear, OSError, ValueError, RuntimeError):
        return "unsure"
    if all(inside):
        # A rule that forbids looks at "unsure", too; one that allows must be certain of how the text is read.
        return "unsure" if _ambiguous(value) else "inside"
    return "unsure" if any(inside) or _ambiguous(value) else "outside"


def _ambiguous(value: str) -> bool:
    return bool(_ODD.search(value)) or any(
        value.count(sign) != unicodedata.normalize("NFKC", value).count(sign) for sign in "./~"
    )


def _read(value: str, runs_in: str) -> list[str]:
    """The texts that a server may make of it."""
    texts = [value]
    if value.startswith("~"):
        # Most programs leave the sign alone, some take it for the home folder.
        texts.append(_at_home(value))
    return [*texts, *(os.path.normpath(os.path.join(runs_in, text)) for text in texts)]


def _at_home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _resolved(path: str, runs_in: str) -> str:
    """Absolute, without links and `..`. Raises _Unclear, OSError."""
    waiting = [name for name in reversed(os.path.join(runs_in, path).split("/")) if name not in ("", ".")]
    at, links = "/", 0
    while waiting:
        if len(waiting) > _NAMES:
            raise _Unclear
        name = waiting.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, name)
        if here in _OURS:
            raise _Unclear
        try:
            target = os.readlink(here)
        except OSError:
            # No link, not there, or not for us to see; then what the server would find there stays open.
            if os.path.lexists(here) or _visible(at):
                at = here
                continue
            raise
        links += 1
        if links > _LINKS:
            raise _Unclear
        at = "/" if target.startswith("/") else at
        waiting.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return at


def _visible(folder: str) -> bool:
    """Whether we would see what is in that folder; one that does not exist has nothing in it."""
    return not os.path.isdir(folder) or os.access(folder, os.X_OK)


def _within(path: str, top: str) -> bool:
    if path == top or path.startswith(top.rstrip("/") + "/"):
        return True
    # The same folder by another name: a mount, or a file system that takes upper and lower case for one.
    try:
        wanted = os.stat(top)
    except OSError:
        return False
    while True:
        try:
            if os.path.samestat(os.stat(path), wanted):
                return True
        except OSError:
            pass
        if path == "/":
            return False
        path = os.path.dirname(path)
