"""Is what a server will read as a path inside a folder? By every way of reading it, or nobody can tell."""

import os
import re
from pathlib import Path
from typing import Literal

from mcphost.sanitize import sanitize
from mcphost.unicode_forms import normalize

Containment = Literal["inside", "outside", "unsure"]
PATH_LIMIT = 4096
_MAX_LINKS = 40
_MAX_NAMES = 500
_AMBIGUOUS = re.compile(r"[\x00-\x1f\x7f\\$`*?\[\]{}%]|^\s|\s$|^[A-Za-z][A-Za-z0-9+.-]*:|(?:^|/)\.{3,}(?:/|$)")
"""What servers read in their own ways: separators of Windows, variables, globs, codes and addresses such as file:///x;
white space at the ends, which some cut off; names of dots, out of which careless cleaning makes `..`."""
_JOINED = re.compile(r"""[:;,|&<>"'=^#!]|^[-@+]|^//|\s(?=[-@+/~.])""")
"""Where a text may be more than one path, an option, or a file that a sign refers to: `/a:/b`, `-o`, `@file`."""
_SEPARATORS = re.compile(r"""[:;,|&<>"'=^#!@+\s]+""")
_MAX_PARTS = 50
_PER_PROCESS = ("/proc", "/dev")
"""What these lead to depends on who asks: the server's /proc/self/cwd is not ours."""


class _AmbiguousPath(Exception):
    """A path that may lead somewhere else for the server."""


def check_containment(value: str, folder: str, working_directory: str) -> Containment:
    """Whether `value`, read by a server that runs in `runs_in`, names `folder` or something in it.

    Links and `..` are resolved in both orders, because programs do either: `link/../x` is beside the link for one and
    beside its target for another. What does not exist yet is judged by the part that does. Looks at the file system,
    so it may block; raises nothing.
    """
    if not value or len(value) > PATH_LIMIT:
        return "unsure"
    plain = normalize("NFKC", value)
    if _is_ambiguous(value, plain):
        return "unsure"
    try:
        top = _resolve(_expand_home(folder), "/")
        inside = _all_or_any_inside(_interpretations(value, working_directory), top, working_directory)
        if not (_JOINED.search(value) or _JOINED.search(plain)):
            return "inside" if inside[0] else "unsure" if inside[1] else "outside"
        # A rule that forbids looks at "unsure", too; one that allows must be certain of how the text is read.
        parts = [
            text
            for part in {*_split_paths(value), *_split_paths(plain)}
            for text in _interpretations(part, working_directory)
        ]
        return "unsure" if inside[1] or _all_or_any_inside(parts, top, working_directory)[1] else "outside"
    except (_AmbiguousPath, OSError, ValueError, RuntimeError):
        return "unsure"


def _all_or_any_inside(texts: list[str], top: str, working_directory: str) -> tuple[bool, bool]:
    inside = [_is_within(path, top) for path in {_resolve(text, working_directory) for text in texts}]
    return all(inside), any(inside)


def _is_ambiguous(value: str, plain: str) -> bool:
    """Whether nobody can tell how a server reads it; `plain` is the value in Unicode's form NFKC."""
    return (
        bool(_AMBIGUOUS.search(value) or _AMBIGUOUS.search(plain))
        or sanitize(value, keep_newlines=False) != value
        or any(value.count(sign) != plain.count(sign) for sign in "./~")
    )


def _split_paths(text: str) -> list[str]:
    """The paths that may be joined in a text, each also from its first slash on: `-I/etc` names `/etc`."""
    parts = [part for part in _SEPARATORS.split(text) if part]
    if len(parts) > _MAX_PARTS:
        raise _AmbiguousPath
    return [*parts, *(part[part.index("/") :] for part in parts if "/" in part)]


def _interpretations(value: str, working_directory: str) -> list[str]:
    """The texts that a server may make of it."""
    texts = [value]
    if value.startswith("~"):
        # Most programs leave the sign alone, some take it for the home folder.
        texts.append(_expand_home(value))
    return [*texts, *(os.path.normpath(os.path.join(working_directory, text)) for text in texts)]


def _expand_home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _resolve(path: str, working_directory: str) -> str:
    """Absolute, without links and `..`. Raises _Unclear, OSError."""
    waiting = [name for name in reversed(os.path.join(working_directory, path).split("/")) if name not in ("", ".")]
    at, links = "/", 0
    while waiting:
        if len(waiting) > _MAX_NAMES:
            raise _AmbiguousPath
        name = waiting.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, name)
        if here in _PER_PROCESS:
            raise _AmbiguousPath
        try:
            target = os.readlink(here)
        except OSError:
            # No link, not there, or not for us to see; then what the server would find there stays open.
            if os.path.lexists(here) or _is_searchable(at):
                at = here
                continue
            raise
        links += 1
        if links > _MAX_LINKS:
            raise _AmbiguousPath
        at = "/" if target.startswith("/") else at
        waiting.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return at


def _is_searchable(folder: str) -> bool:
    """Whether we would see what is in that folder; one that does not exist has nothing in it."""
    return not os.path.isdir(folder) or os.access(folder, os.X_OK)


def _is_within(path: str, top: str) -> bool:
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
