"""Functions that read configuration files up to a size limit, and a JSON parser whose errors give line and column."""

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from mcphost.errors import ConfigError
from mcphost.json_limits import JsonLimitExceeded, check_depth

MAX_FILE_BYTES = 256_000
"""Maximum size of a configuration file in bytes; hand-written ones are smaller."""

_MAX_COMMENTS = 10_000
_MAX_QUOTES = 100_000

# Each pattern also matches whole strings, so that "//" or ",}" inside a string is left alone. An unterminated string
# matches as well: otherwise, each later quote would be tried as the start of another string.
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|,(?=\s*[\]}])')


def read_regular_file(path: Path, limit: int, *, follow_links: bool) -> tuple[bytes, os.stat_result]:
    """Read at most *limit* + 1 bytes of a regular file; return the bytes and the `os.stat_result` of the file.

    The extra byte shows that the file exceeds *limit*. Raises ConfigError if the file is not a regular file. Raises
    OSError if the file cannot be opened or, unless *follow_links* is set, if it is a symbolic link.
    """
    # Non-blocking, because a file that was regular when it was checked may have become a FIFO.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} is not a file.", "Put a file there.")
        return file.read(limit + 1), status


def read_bytes(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a file, following symbolic links.

    Raises FileNotFoundError if the file does not exist, and ConfigError if it is not a regular file, is unreadable or
    has more than *limit* bytes.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{path} is not a file.", f"Put a file there or remove the {_file_kind(path)}.")
        raw, _ = read_regular_file(path, limit, follow_links=True)
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
    """Decode UTF-8 text with or without a byte order mark.

    Raises ConfigError with *name* and the number of the first invalid line.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: not UTF-8 text.", "Save the file as UTF-8.") from error


class DuplicateKeyDict(dict[str, Any]):
    """A JSON object in which keys occurred more than once; it contains the first value of each key."""

    duplicate_keys: tuple[str, ...] = ()


def parse_json(text: str, name: str) -> Any:
    """Parse JSON that may contain comments and trailing commas, as in VS Code.

    An object with duplicate keys becomes a DuplicateKeyDict. Raises ConfigError with *name* as the file name and, for a
    syntax error, the line and column.
    """
    check_comments(text, name)
    try:
        plain = strip_comments(text)
        check_depth(plain.encode(errors="replace"))
        return json.loads(plain, object_pairs_hook=_make_object)
    except json.JSONDecodeError as error:
        place, reason = f"line {error.lineno}, column {error.colno}", error.msg[0].lower() + error.msg[1:]
        raise ConfigError(f"{name}, {place}: not valid JSON ({reason}).", "Correct it there.") from error
    except JsonLimitExceeded as error:
        raise ConfigError(f"{name} is nested too deep.", "Servers are plain objects under mcpServers.") from error
    except ValueError as error:
        raise ConfigError(f"{name} is not valid JSON ({error}).", "Correct the file.") from error


def describe_type(value: object) -> str:
    """Describe the type of a JSON or TOML value for a message, such as "a list"."""
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


def check_comments(text: str, name: str) -> None:
    """Raise ConfigError with the file's *name* if running `strip_comments` on *text* would take too long."""
    if text.count("//") + text.count("/*") > _MAX_COMMENTS or text.count('"') > _MAX_QUOTES:
        raise ConfigError(f"{name} has too many comments or strings.", "Is it the right file?")


def strip_comments(text: str) -> str:
    """Replace comments and trailing commas in JSON with spaces, so that lines and columns stay the same."""
    return _TRAILING_COMMA.sub(_blank_out, _COMMENT.sub(_blank_out, text))


def _blank_out(match: re.Match[str]) -> str:
    text = match.group()
    return text if text[0] == '"' else re.sub(r"[^\n]", " ", text)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    duplicates: list[str] = []
    for key, value in pairs:
        if key in members:
            duplicates.append(key)
        else:
            members[key] = value
    if not duplicates:
        return members
    result = DuplicateKeyDict(members)
    result.duplicate_keys = tuple(dict.fromkeys(duplicates))
    return result


def _file_kind(path: Path) -> str:
    return "directory" if os.path.isdir(path) else "special file"
