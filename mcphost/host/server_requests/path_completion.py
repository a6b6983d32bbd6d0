"""Completion of folder paths."""

import os
from collections.abc import Iterator

from mcphost.protocol.completion import Completion

MAX_SUGGESTIONS = 50
MAX_ENTRIES = 5_000
"""Entries of one folder that are examined; a folder may have millions."""


def complete_path(typed: str) -> Completion:
    """Return folders whose path begins with *typed*; hidden ones only after a typed dot.

    Reads the file system, so it may block; never raises.
    """
    if typed == "~":
        return Completion(("~/",))
    head, _, start = typed.rpartition("/")
    base = f"{head}/" if "/" in typed else ""
    try:
        folder = os.path.expanduser(base) or "."
        names = sorted(_matching_folders(folder, start), key=str.casefold)
    except (OSError, ValueError):
        return Completion()
    return Completion(
        tuple(f"{base}{name}/" for name in names[:MAX_SUGGESTIONS]), None, has_more=len(names) > MAX_SUGGESTIONS
    )


def _matching_folders(folder: str, start: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_ENTRIES:
                return
            matches = entry.name.casefold().startswith(start.casefold())
            if matches and (start.startswith(".") or not entry.name.startswith(".")) and _is_folder(entry):
                yield entry.name


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
