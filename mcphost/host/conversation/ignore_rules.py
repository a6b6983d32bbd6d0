"""Rules of `.gitignore` files, matched in bounded time even for a malicious file.

No library is used, because libraries translate patterns to regular expressions that can take exponential time; git is
not used, because it runs programs that a repository's configuration names. See https://git-scm.com/docs/gitignore.
"""

import fnmatch
import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_FILE_BYTES = 64 * 1024
MAX_RULES = 500
_MAX_PATTERN = 200
_MAX_DOUBLE_STARS = 3


class _PathRule(NamedTuple):
    """Pattern with a slash, split into one regular expression for each path segment; None stands for `**`."""

    segments: tuple[re.Pattern[str] | None, ...]
    is_folder: bool


class _Group(NamedTuple):
    """Consecutive rules of one file that all ignore, or all include, the paths that they match."""

    ignores: bool
    names: re.Pattern[str] | None
    folder_names: re.Pattern[str] | None
    paths: tuple[_PathRule, ...]

    def matches(self, name: str, segments: tuple[str, ...], *, is_folder: bool) -> bool:
        if self.names is not None and self.names.match(name):
            return True
        if is_folder and self.folder_names is not None and self.folder_names.match(name):
            return True
        return any(_match_path(rule.segments, segments) for rule in self.paths if is_folder or not rule.is_folder)


class IgnoreRules:
    """Rules of one `.gitignore` file, relative to the file's folder; only the first 500 are applied."""

    def __init__(self, text: str) -> None:
        groups: list[_Group] = []
        lines = [line for line in map(_strip, text[:MAX_FILE_BYTES].splitlines()) if line][:MAX_RULES]
        run: list[str] = []
        for line in lines:
            if run and line.startswith("!") != run[0].startswith("!"):
                groups.append(_make_group(run))
                run = []
            run.append(line)
        if run:
            groups.append(_make_group(run))
        self._groups = tuple(reversed(groups))

    def decide(self, segments: tuple[str, ...], *, is_folder: bool) -> bool | None:
        """Return whether a path relative to the file's folder is ignored, or None if no rule matches it."""
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
            # Since Python 3.9 these expressions never backtrack across a star.
            (folder_names if is_folder else names).append(fnmatch.translate(pattern))
            continue
        segments = pattern.removeprefix("/").split("/")
        parts = tuple(None if one == "**" else re.compile(fnmatch.translate(one)) for one in segments)
        paths.append(_PathRule(parts, is_folder))
    return _Group(ignores, _join(names), _join(folder_names), tuple(paths))


def _join(patterns: list[str]) -> re.Pattern[str] | None:
    # Named groups, which older versions of Python write, would clash in one expression.
    return re.compile("|".join(f"(?:{one})" for one in patterns)) if patterns else None


def _match_path(rule: tuple[re.Pattern[str] | None, ...], path: tuple[str, ...]) -> bool:
    """Match a whole path; `**` matches any number of segments, but at least one at the end of a rule."""
    if not rule:
        return not path
    if rule[0] is None:
        if len(rule) == 1:
            return bool(path)
        return any(_match_path(rule[1:], path[skip:]) for skip in range(len(path)))
    return bool(path) and rule[0].match(path[0]) is not None and _match_path(rule[1:], path[1:])
