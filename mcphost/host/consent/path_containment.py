"""Whether a path argument is inside a folder, by every way in which a server may read it."""

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
"""Text that servers read differently: Windows separators, variables, globs, percent codes, addresses such as file:///x;
surrounding white space, which some strip; names of dots, which careless cleaning turns into `..`."""
_JOINED = re.compile(r"""[:;,|&<>"'=^#!]|^[-@+]|^//|\s(?=[-@+/~.])""")
"""Text that may be several paths, an option, or a reference to a file: `/a:/b`, `-o`, `@file`."""
_SEPARATORS = re.compile(r"""[:;,|&<>"'=^#!@+\s]+""")
_MAX_PARTS = 50
_PER_PROCESS = ("/proc", "/dev")
"""Folders that depend on the process: the server's /proc/self/cwd is not the host's."""


class _AmbiguousPath(Exception):
    """A path that a server may resolve differently."""


def check_containment(value: str, folder: str, working_directory: str) -> Containment:
    """Return whether *value*, read by a server in *working_directory*, is *folder* or inside it.

    Links and `..` are resolved in both orders, because programs do either: `link/../x` is beside the link for one and
    beside its target for another. A path that does not exist is judged by its existing part. Reads the file system, so
    it may block; never raises.
    """
    if not value or len(value) > PATH_LIMIT:
        return "unsure"
    normalized = normalize("NFKC", value)
    if _is_ambiguous(value, normalized):
        return "unsure"
    try:
        top = _resolve(_expand_home(folder), "/")
        inside = _all_or_any_inside(_interpretations(value, working_directory), top, working_directory)
        if not (_JOINED.search(value) or _JOINED.search(normalized)):
            return "inside" if inside[0] else "unsure" if inside[1] else "outside"
        # A deny rule also applies to "unsure"; an allow rule requires a single reading.
        parts = [
            text
            for part in {*_split_paths(value), *_split_paths(normalized)}
            for text in _interpretations(part, working_directory)
        ]
        return "unsure" if inside[1] or _all_or_any_inside(parts, top, working_directory)[1] else "outside"
    except (_AmbiguousPath, OSError, ValueError, RuntimeError):
        return "unsure"


def _all_or_any_inside(texts: list[str], top: str, working_directory: str) -> tuple[bool, bool]:
    inside = [_is_within(path, top) for path in {_resolve(text, working_directory) for text in texts}]
    return all(inside), any(inside)


def _is_ambiguous(value: str, normalized: str) -> bool:
    """Return whether servers may read it differently; *normalized* is the value in Unicode form NFKC."""
    return (
        bool(_AMBIGUOUS.search(value) or _AMBIGUOUS.search(normalized))
        or sanitize(value, keep_newlines=False) != value
        or any(value.count(char) != normalized.count(char) for char in "./~")
    )


def _split_paths(text: str) -> list[str]:
    """Return the paths that may be joined in a text, each also from its first slash: `-I/etc` names `/etc`."""
    parts = [part for part in _SEPARATORS.split(text) if part]
    if len(parts) > _MAX_PARTS:
        raise _AmbiguousPath
    return [*parts, *(part[part.index("/") :] for part in parts if "/" in part)]


def _interpretations(value: str, working_directory: str) -> list[str]:
    """Return the texts that a server may read it as."""
    texts = [value]
    if value.startswith("~"):
        # Most programs keep the "~", some expand it to the home folder.
        texts.append(_expand_home(value))
    return [*texts, *(os.path.normpath(os.path.join(working_directory, text)) for text in texts)]


def _expand_home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _resolve(path: str, working_directory: str) -> str:
    """Return the absolute path without links and `..`. Raises _AmbiguousPath or OSError."""
    pending = [name for name in reversed(os.path.join(working_directory, path).split("/")) if name not in ("", ".")]
    current, links = "/", 0
    while pending:
        if len(pending) > _MAX_NAMES:
            raise _AmbiguousPath
        name = pending.pop()
        if name == "..":
            current = os.path.dirname(current)
            continue
        candidate = os.path.join(current, name)
        if candidate in _PER_PROCESS:
            raise _AmbiguousPath
        try:
            target = os.readlink(candidate)
        except OSError:
            # Not a link, missing, or not accessible; if not accessible, the server may find something else.
            if os.path.lexists(candidate) or _is_searchable(current):
                current = candidate
                continue
            raise
        links += 1
        if links > _MAX_LINKS:
            raise _AmbiguousPath
        current = "/" if target.startswith("/") else current
        pending.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return current


def _is_searchable(folder: str) -> bool:
    """Return whether the content of this folder is visible; a missing folder has none."""
    return not os.path.isdir(folder) or os.access(folder, os.X_OK)


def _is_within(path: str, top: str) -> bool:
    if path == top or path.startswith(top.rstrip("/") + "/"):
        return True
    # The same folder by another name: a mount, or a case-insensitive file system.
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
