"""Suggests folders for a path that is being typed."""

import os
from collections.abc import Iterator

from mcphost.protocol.completion import Completion

MAX_SUGGESTIONS = 50
MAX_ENTRIES = 5_000
"""Entries of one folder that are looked at; a folder may have millions."""


def complete_path(typed: str) -> Completion:
    """Folders whose path begins so, written as it is; hidden ones once their dot is typed.

    Looks at the file system, so it may block; raises nothing.
    """
    if typed == "~":
        return Completion(("~/",))
    head, _, start = typed.rpartition("/")
    base = f"{head}/" if "/" in typed else ""
    try:
        where = os.path.expanduser(base) or "."
        names = sorted(_matching_folders(where, start), key=str.casefold)
    except (OSError, ValueError):
        return Completion()
    return Completion(
        tuple(f"{base}{name}/" for name in names[:MAX_SUGGESTIONS]), None, has_more=len(names) > MAX_SUGGESTIONS
    )


def _matching_folders(where: str, start: str) -> Iterator[str]:
    with os.scandir(where) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_ENTRIES:
                return
            fits = entry.name.casefold().startswith(start.casefold())
            if fits and (start.startswith(".") or not entry.name.startswith(".")) and _is_folder(entry):
                yield entry.name


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
