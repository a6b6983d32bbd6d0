"""Watcher that restarts a server under development when its source files change."""

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from glob import escape

import anyio
import anyio.to_thread

POLL_SECONDS = 0.5
MAX_ENTRIES = 20_000
"""Maximum files and folders checked in each poll; the rest of larger trees is not watched."""

_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "target"})

_WILDCARD = re.compile(r"[*?\[]")
Signature = dict[str, tuple[int, int]]


async def watch_files(folder: str, patterns: tuple[str, ...], on_change: Callable[[str], object]) -> None:
    """Call *on_change* whenever files that match *patterns* change; run until cancelled.

    *on_change* receives the path of one changed file (see `read_signature`). A change is reported once the files have
    stayed the same for POLL_SECONDS, so that a build can finish. The files are polled, because change notifications do
    not work on network folders and in containers.
    """
    known = seen = await anyio.to_thread.run_sync(read_signature, folder, patterns)
    while True:
        await anyio.sleep(POLL_SECONDS)
        before, seen = seen, await anyio.to_thread.run_sync(read_signature, folder, patterns)
        if seen != known and seen == before:
            changed = min(name for name, _ in known.items() ^ seen.items())
            known = seen
            on_change(changed)


def read_signature(folder: str, patterns: tuple[str, ...]) -> Signature:
    """Return the modification time and size of each file that matches one of *patterns*.

    The keys are paths relative to *folder*, or absolute paths of files outside of it. A pattern is relative to
    *folder*, absolute, or begins with "~/"; a pattern that ends with a slash matches everything in that folder. `*`
    matches any characters, including slashes. Hidden folders and folders of installed packages are skipped, unless a
    pattern names them before its first wildcard.
    """
    found: Signature = {}
    remaining = MAX_ENTRIES
    folder = os.path.normpath(folder)
    prefix = f"{folder.rstrip('/')}/"
    for top, wanted in _group_patterns(folder, patterns).items():
        for place, folders, files in os.walk(top):  # symbolic links to folders are not followed
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
            for path in (os.path.join(place, name) for name in sorted(files)):
                if any(fnmatchcase(path, pattern) for pattern in wanted):
                    try:
                        status = os.stat(path)
                    except OSError:
                        continue
                    name = os.path.relpath(path, folder) if path.startswith(prefix) else path
                    found[name] = (status.st_mtime_ns, status.st_size)
            remaining -= len(folders) + len(files)
            if remaining < 0:
                return found
    return found


def _group_patterns(folder: str, patterns: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the folders to search, each with its patterns as absolute paths.

    A pattern's folder is everything up to the last slash before its first wildcard.
    """
    groups: dict[str, list[str]] = {}
    for pattern in patterns:
        head, tail = _split_pattern(pattern)
        top = os.path.normpath(os.path.join(folder, os.path.expanduser(head)))
        wanted = f"{escape(top.rstrip('/'))}/{tail.replace('**/', '*') or '*'}"
        groups.setdefault(top, []).append(wanted)
    return groups


def _split_pattern(pattern: str) -> tuple[str, str]:
    """Split a pattern after the last slash before its first wildcard; the second part may be empty."""
    literal = _WILDCARD.split(pattern, maxsplit=1)[0]
    end = literal.rfind("/") + 1
    return pattern[:end], pattern[end:]
