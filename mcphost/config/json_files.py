"""Reads a configuration file within bounds, and its JSON with line and column for every mistake."""

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from mcphost.errors import ConfigError

MAX_FILE_BYTES = 256_000
"""Bytes; nobody writes a megabyte of configuration by hand."""

_MAX_COMMENTS = 10_000
_MAX_QUOTES = 100_000

# Each pass steps over whole texts first, so that "//" or ",}" inside one is left alone. A text
# that does not end is one too: otherwise each of its quotes would be tried as the beginning of another.
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|,(?=\s*[\]}])')


def read_regular_file(path: Path, limit: int, *, follow: bool) -> tuple[bytes, os.stat_result]:
    """A regular file, at most one byte more than `limit`, and what it was when it was read.

    Raises OSError, also for a symbolic link unless `follow`, and ConfigError for what is no regular file.
    """
    # Not blocking: it may be a FIFO, also one that was put there a moment ago.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with open(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path} is not a file.", "Put a file there.")
        return file.read(limit + 1), found


def read_bytes(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The whole file. Raises FileNotFoundError, or ConfigError for anything but a regular file of at most `limit`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{path} is not a file.", f"Put a file there or remove the {_file_kind(path)}.")
        raw, _ = read_regular_file(path, limit, follow=True)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ENOTDIR:
            raise FileNotFoundError(str(path)) from error
        reason = "it is a loop of symbolic links" if error.errno == errno.ELOOP else error.strerror or "no reason given"
        raise ConfigError(f"{path} cannot be read: {reason}.", "Check the file and its permissions.") from error
    if len(raw) > limit:
        raise ConfigError(f"{path} is over {limit // 1_000} kB.", "Is it the right file?")
    return raw


def decode_text(raw: bytes, name: str) -> str:
    """The text, with or without a byte order mark. Raises ConfigError naming the line when it is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: not UTF-8 text.", "Save the file as UTF-8.") from error


class DuplicateKeyDict(dict[str, Any]):
    """A JSON object in which some keys came twice; the first of each counts."""

    duplicate_keys: tuple[str, ...] = ()


def parse_json(text: str, name: str) -> Any:
    """The value of JSON text; comments and commas before a closing bracket are allowed, as in VS Code.

    Raises ConfigError with line and column. An object with repeated keys becomes Repeated.
    """
    if text.count("//") + text.count("/*") > _MAX_COMMENTS or text.count('"') > _MAX_QUOTES:
        raise ConfigError(f"{name} has more comments or texts than are read.", "Is it the right file?")
    try:
        return json.loads(strip_comments(text), object_pairs_hook=_make_object)
    except json.JSONDecodeError as error:
        said = error.msg[0].lower() + error.msg[1:]
        raise ConfigError(
            f"{name}, line {error.lineno}, column {error.colno}: not valid JSON ({said}).", "Correct the file there."
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{name} is nested too deep.", "Servers are plain objects under mcpServers.") from error
    except ValueError as error:
        raise ConfigError(f"{name} is not valid JSON ({error}).", "Correct the file.") from error


def describe_type(value: object) -> str:
    """What a JSON or TOML value is called in messages to people."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return type(value).__name__


def strip_comments(text: str) -> str:
    """JSON without comments and trailing commas; every character keeps its line and column."""
    return _TRAILING_COMMA.sub(_blank_out, _COMMENT.sub(_blank_out, text))


def _blank_out(match: re.Match[str]) -> str:
    found = match.group()
    return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    twice: list[str] = []
    for key, value in pairs:
        if key in made:
            twice.append(key)
        else:
            made[key] = value
    if not twice:
        return made
    repeated = DuplicateKeyDict(made)
    repeated.duplicate_keys = tuple(dict.fromkeys(twice))
    return repeated


def _file_kind(path: Path) -> str:
    return "directory" if path.is_dir() else "special file"
