"""Watcher that restarts a server under development when its source files change."""

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

import anyio
import anyio.to_thread

POLL_SECONDS = 0.5
MAX_ENTRIES = 20_000
"""Maximum files and folders checked in each poll; the rest of a larger tree is not watched."""

_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "target"})

Signature = dict[str, tuple[int, int]]


async def watch_files(folder: str, patterns: tuple[str, ...], on_change: Callable[[str], object]) -> None:
    """Call *on_change* whenever files in *folder* that match *patterns* change; run until cancelled.

    *on_change* receives the path of one changed file, relative to *folder*. A change is reported once the files
    have stayed the same for POLL_SECONDS, so that a build can finish. The files are polled, because change
    notifications do not work on network folders and in containers. In *patterns*, `*` matches any characters,
    including slashes. Hidden folders and folders of installed packages are skipped.
    """
    normal = tuple(pattern.removeprefix("./").replace("**/", "*") for pattern in patterns)
    known = seen = await anyio.to_thread.run_sync(read_signature, folder, normal)
    while True:
        await anyio.sleep(POLL_SECONDS)
        before, seen = seen, await anyio.to_thread.run_sync(read_signature, folder, normal)
        if seen != known and seen == before:
            changed = min(name for name, _ in known.items() ^ seen.items())
            known = seen
            on_change(changed)


def read_signature(folder: str, patterns: tuple[str, ...]) -> Signature:
    """Return the modification time and size of each matching file, keyed by its path relative to *folder*."""
    found: Signature = {}
    for path in _iter_files(folder):
        name = os.path.relpath(path, folder)
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            try:
                status = os.stat(path)
            except OSError:
                continue
            found[name] = (status.st_mtime_ns, status.st_size)
    return found


def _iter_files(folder: str) -> Iterator[str]:
    """Yield the files below a folder, without following symbolic links to folders."""
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        for name in sorted(files):
            yield os.path.join(place, name)
        count += len(folders) + len(files)
        if count > MAX_ENTRIES:
            return
