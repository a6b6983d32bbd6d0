"""Index of the files in the working folder and the shared folders, for completing `@path` in a message.

Building an index and searching it are blocking operations; run both on a worker thread. The index is limited in
files, depth and time, never follows symbolic links, and omits what `.gitignore` files exclude
(https://git-scm.com/docs/gitignore).
"""

import fnmatch
import heapq
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mcphost.config.json_files import read_regular_file
from mcphost.errors import ConfigError
from mcphost.sanitize import is_sanitized

MAX_FILES = 100_000
MAX_DEPTH = 20
MAX_SECONDS = 5.0
MAX_ENTRIES = 400_000
"""Maximum number of entries examined, including ignored ones."""
MAX_PATH = 500
_CHUNK = 8_000
_CUT_BY_TIME = "what was found in time"
_ALWAYS_SKIPPED = frozenset({
    ".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".ruff_cache",
    ".pytest_cache",
})  # fmt: skip

MAX_FILE_BYTES = 64 * 1024
MAX_RULES = 500
_MAX_PATTERN = 200
_MAX_DOUBLE_STARS = 3
_MAX_WILDCARDS = 3_000
"""How many characters of patterns with wildcards a file may have, because compiling them takes 5 µs for each."""
_WILDCARDS = re.compile(r"[*?[]")
_Segment = str | re.Pattern[str]
"""A name, or a regular expression for it."""


class _Names(NamedTuple):
    """Patterns for single names of files or folders: exact names, and one regular expression for all wildcards."""

    exact: frozenset[str]
    pattern: re.Pattern[str] | None

    def match(self, name: str) -> bool:
        return name in self.exact or (self.pattern is not None and self.pattern.match(name) is not None)


class _PathRule(NamedTuple):
    """A `.gitignore` pattern with a slash, split into its path segments; None stands for `**`."""

    segments: tuple[_Segment | None, ...]
    is_folder: bool


class _Group(NamedTuple):
    """Consecutive rules of one `.gitignore` file that either all ignore or all include the paths they match."""

    ignores: bool
    names: _Names
    folder_names: _Names
    paths: tuple[_PathRule, ...]

    def matches(self, name: str, segments: tuple[str, ...], *, is_folder: bool) -> bool:
        if self.names.match(name) or (is_folder and self.folder_names.match(name)):
            return True
        return any(_match_path(rule.segments, segments) for rule in self.paths if is_folder or not rule.is_folder)


class IgnoreRules:
    """Rules of one `.gitignore` file, relative to the file's folder.

    Only the first 500 rules are applied. Once the total length of the rules with wildcards exceeds 3,000 characters,
    further rules with wildcards are not applied.

    No library is used, because libraries translate patterns to regular expressions that can take exponential time.
    Git is not used, because it runs programs that a repository's configuration names.
    """

    def __init__(self, text: str) -> None:
        groups: list[_Group] = []
        lines = [line for line in map(_strip, text[:MAX_FILE_BYTES].splitlines()) if line][:MAX_RULES]
        run: list[str] = []
        wildcards = 0
        for line in lines:
            wildcards += len(line) if _WILDCARDS.search(line) else 0
            if wildcards > _MAX_WILDCARDS and _WILDCARDS.search(line):
                continue
            if run and line.startswith("!") != run[0].startswith("!"):
                groups.append(_make_group(run))
                run = []
            run.append(line)
        if run:
            groups.append(_make_group(run))
        self._groups = tuple(reversed(groups))

    def decide(self, segments: tuple[str, ...], *, is_folder: bool) -> bool | None:
        """Return whether a path is ignored, or None if no rule matches it.

        *segments* are the segments of the path, relative to the folder of the `.gitignore` file.
        """
        for group in self._groups:
            if group.matches(segments[-1], segments, is_folder=is_folder):
                return group.ignores
        return None


def _strip(line: str) -> str:
    line = line.rstrip("\r\n")
    line = line if line.endswith("\\ ") else line.rstrip()
    is_usable = line.strip("!/") and not line.startswith("#") and len(line) <= _MAX_PATTERN
    return line if is_usable and line.count("**") <= _MAX_DOUBLE_STARS else ""


def _make_group(lines: Iterable[str]) -> _Group:
    ignores, names, folder_names, paths = True, list[str](), list[str](), list[_PathRule]()
    for line in lines:
        ignores = not line.startswith("!")
        pattern = line.removeprefix("!")
        is_folder = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        pattern = pattern.removeprefix("\\")
        if "/" not in pattern:
            (folder_names if is_folder else names).append(pattern)
            continue
        segments = pattern.removeprefix("/").split("/")
        parts = tuple(None if one == "**" else _make_segment(one) for one in segments)
        paths.append(_PathRule(parts, is_folder))
    return _Group(ignores, _make_names(names), _make_names(folder_names), tuple(paths))


def _make_segment(pattern: str) -> _Segment:
    # Since Python 3.9 these expressions never backtrack across a star.
    return re.compile(fnmatch.translate(pattern)) if _WILDCARDS.search(pattern) else pattern


def _make_names(patterns: list[str]) -> _Names:
    wild = [fnmatch.translate(one) for one in patterns if _WILDCARDS.search(one)]
    return _Names(frozenset(one for one in patterns if not _WILDCARDS.search(one)), _join(wild))


def _join(patterns: list[str]) -> re.Pattern[str] | None:
    # Named groups, which older versions of Python write, would clash in one expression.
    return re.compile("|".join(f"(?:{one})" for one in patterns)) if patterns else None


def _match_path(rule: tuple[_Segment | None, ...], path: tuple[str, ...]) -> bool:
    """Return whether a rule matches the whole path.

    `**` matches zero or more segments, or one or more at the end of a rule.
    """
    if not rule:
        return not path
    first = rule[0]
    if first is None:
        if len(rule) == 1:
            return bool(path)
        return any(_match_path(rule[1:], path[skip:]) for skip in range(len(path)))
    if not path:
        return False
    is_match = first == path[0] if isinstance(first, str) else first.match(path[0]) is not None
    return is_match and _match_path(rule[1:], path[1:])


class FileMatch(NamedTuple):
    """A file or folder that matches a query.

    `path` is relative for a match in the working folder, and absolute for a match in a shared folder. In a match from
    `complete_typed_path`, `path` begins as the user typed it, for example with `~`.
    """

    path: str
    is_folder: bool = False


class FileIndex:
    """Index of files and folders, shallow paths first; the path of a folder ends with a slash.

    An index is built once and never updated.
    """

    def __init__(self, paths: Sequence[str], *, cut: str = "") -> None:
        """Create an index of *paths*; *cut* describes the limit that was reached while collecting them, "" for none."""
        self.paths = tuple(paths)
        self.cut = cut
        self._chunks = tuple("\n".join(self.paths[at : at + _CHUNK]) for at in range(0, len(self.paths), _CHUNK))

    def search(self, query: str, limit: int = 50) -> tuple[FileMatch, ...]:
        """Return at most *limit* paths that contain the letters of *query* in the same order, ignoring case.

        The best matches come first: file names that begin with the query, then file names that contain it, then paths
        that contain it elsewhere, then all other matches.
        """
        if not query:
            found: Iterable[str] = self.paths[:limit]
        else:
            low = query.lower()
            found = heapq.nsmallest(limit, self._candidates(low), key=lambda path: _rank(path, low))
        return tuple(FileMatch(path, path.endswith("/")) for path in found)

    def _candidates(self, query: str) -> Iterable[str]:
        # Each part of the pattern excludes the letter that it looks for, so that each line is scanned only once.
        pieces = (f"[^\n{_class(letter)}]*[{_class(letter)}]" for letter in query[:100])
        pattern = re.compile(f"^{''.join(pieces)}.*$", re.MULTILINE)
        for chunk in self._chunks:  # one call for all paths would block other threads
            yield from pattern.findall(chunk)


def _class(letter: str) -> str:
    return re.escape(letter) + re.escape(letter.upper()) if len(letter.upper()) == 1 else re.escape(letter)


def _rank(path: str, query: str) -> tuple[int, int, str]:
    low = path.lower()
    name = low.rstrip("/").rpartition("/")[2]
    if name.startswith(query):
        kind = 0
    elif query in name:
        kind = 1
    elif low.startswith(query):
        kind = 2
    elif query in low:
        kind = 3
    else:
        kind = 4 if _is_subsequence(query, name) else 5
    return kind, len(path), path


def _is_subsequence(query: str, text: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in query)


def build_index(folder: str, roots: Iterable[str] = (), *, max_seconds: float = MAX_SECONDS) -> FileIndex:
    """Index the files below *folder* with relative paths, and those below *roots* with absolute paths.

    Stops after *max_seconds* seconds; the index then contains only the paths found until then.
    """
    base = os.path.realpath(folder)
    walk = _Walk(time.monotonic() + max_seconds)
    walk.add(base, "")
    done = [base]
    for root in roots:
        real = os.path.realpath(root)
        if not any(os.path.commonpath((real, one)) == one for one in done):
            done.append(real)
            walk.add(real, real.rstrip("/") + "/")
    return FileIndex(walk.paths, cut=walk.cut)


class _Folder(NamedTuple):
    path: str
    prefix: str
    depth: int
    rules: tuple[tuple[int, IgnoreRules], ...]
    """The rules that apply here, innermost last, each with the number of segments above its folder."""

    segments: tuple[str, ...]


class _Walk:
    """Breadth-first walk through folders; if a limit is reached, the deepest folders are left out."""

    def __init__(self, deadline: float) -> None:
        self.paths: list[str] = []
        self.cut = ""
        self._deadline = deadline
        self._entry_count = 0

    def add(self, path: str, prefix: str) -> None:
        queue = deque([_Folder(path, prefix, 0, (), ())])
        while queue and not self.cut:
            queue.extend(self._read(queue.popleft()))

    def _read(self, folder: _Folder) -> list[_Folder]:
        try:
            with os.scandir(folder.path) as entries:
                found = self._take(entries)
        except OSError:
            return []
        rules = folder.rules
        if any(entry.name == ".gitignore" for entry, _is_folder in found):
            rules = (*rules, (len(folder.segments), _read_rules(os.path.join(folder.path, ".gitignore"))))
        below: list[_Folder] = []
        for entry, is_folder in sorted(found, key=lambda one: one[0].name):
            if len(self.paths) >= MAX_FILES:
                self.cut = f"the first {MAX_FILES:,} files"
                break
            if rules and time.monotonic() > self._deadline:  # a hostile .gitignore may take a while for each name
                self.cut = _CUT_BY_TIME
                break
            segments = (*folder.segments, entry.name)
            if _is_ignored(rules, segments, is_folder=is_folder):
                continue
            path = f"{folder.prefix}{entry.name}{'/' if is_folder else ''}"
            # Names that cannot be shown or typed as they are can still be attached manually.
            if len(path) > MAX_PATH or not is_sanitized(path) or not path.isprintable():
                continue
            self.paths.append(path)
            if is_folder and folder.depth < MAX_DEPTH:
                below.append(_Folder(entry.path, path, folder.depth + 1, rules, segments))
        return below

    def _take(self, entries: "Iterable[os.DirEntry[str]]") -> "list[tuple[os.DirEntry[str], bool]]":
        found: list[tuple[os.DirEntry[str], bool]] = []
        for entry in entries:
            self._entry_count += 1
            if self._entry_count > MAX_ENTRIES:
                self.cut = f"the first {MAX_ENTRIES:,} entries"
                break
            if not self._entry_count % 256 and time.monotonic() > self._deadline:
                self.cut = _CUT_BY_TIME
                break
            if entry.name in _ALWAYS_SKIPPED or entry.is_symlink():
                continue
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder or entry.is_file(follow_symlinks=False):
                    found.append((entry, is_folder))
            except OSError:
                continue
        return found


def _is_ignored(rules: tuple[tuple[int, IgnoreRules], ...], segments: tuple[str, ...], *, is_folder: bool) -> bool:
    for above, one in reversed(rules):
        decision = one.decide(segments[above:], is_folder=is_folder)
        if decision is not None:
            return decision
    return False


def _read_rules(path: str) -> IgnoreRules:
    """Return the rules in a `.gitignore` file; no rules if it cannot be read or is not a regular file."""
    try:
        raw, _ = read_regular_file(Path(path), MAX_FILE_BYTES, follow_links=False)
    except (ConfigError, OSError):
        return IgnoreRules("")
    return IgnoreRules(raw[:MAX_FILE_BYTES].decode("utf-8", "replace"))


def find_exact(typed: str) -> tuple[FileMatch, ...]:
    """Return the file or folder with the relative path *typed*, even if an index would omit it; () if there is none."""
    path = typed.rstrip("/")
    if not path or not is_sanitized(path) or not path.isprintable() or not os.path.lexists(path):
        return ()
    is_folder = os.path.isdir(path)
    return (FileMatch(f"{path}/" if is_folder else path, is_folder),)


def complete_typed_path(typed: str) -> tuple[FileMatch, ...]:
    """Return at most 50 files and folders whose path begins with *typed*.

    *typed* may begin with `~`. A relative path is relative to the working folder. Hidden files are included only if
    the dot was typed. Only the first 5,000 entries of a folder are considered.
    """
    if typed == "~":
        return (FileMatch("~/", is_folder=True),)
    head, slash, start = typed.rpartition("/")
    found: list[FileMatch] = []
    try:
        with os.scandir(os.path.expanduser(head + slash) or ".") as entries:
            for _count, entry in zip(range(5_000), entries, strict=False):
                matches = entry.name.casefold().startswith(start.casefold()) and entry.name.isprintable()
                if matches and (start.startswith(".") or not entry.name.startswith(".")) and is_sanitized(entry.name):
                    is_folder = entry.is_dir()
                    found.append(FileMatch(f"{head}{slash}{entry.name}{'/' if is_folder else ''}", is_folder))
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found, key=lambda one: (not one.is_folder, one.path.casefold()))[:50])
