"""Decoding of the JSON commands of `mcphost pipe`, and access to their members with validation."""

import json
from typing import Any, cast

from mcphost.errors import MalformedMessage, UsageError
from mcphost.serialization import loads


def decode_line(line: bytes) -> Any:
    """Decode a line of input. Raises MalformedMessage if it is invalid, or if an object in it has a key twice.

    Of two members with the same key, a program that checks the lines could read another one than mcphost: for example,
    the "deny" in a line that also has the answer "once".
    """
    value = loads(line, "line")
    try:
        json.loads(line, object_pairs_hook=_check_keys)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"The line is not valid: {str(error)[:200]}") from error
    return value


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"it has the key {key[:100]!r} twice in one object.")
        seen.add(key)


def check_members(message: dict[str, Any], *names: str) -> None:
    """Raise UsageError if a command has members other than `id`, `do` and *names*."""
    unknown = [f'"{name[:60]}"' for name in message if name not in ("id", "do", *names)]
    if unknown:
        known = f"Its members: {', '.join(names)}." if names else "It has no members."
        raise UsageError(f"{message['do']} takes no {', '.join(unknown[:5])}.", known)


def get_number(message: dict[str, Any], key: str, default: int, most: int) -> int:
    """Return the whole number under *key* in a command, or *default* if it is missing.

    Raises UsageError if the value is not a whole number from 0 to *most*.
    """
    value = message.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise UsageError(f'"{key}" must be a number from 0 to {most}.')
    return value


def get_text(message: dict[str, Any], key: str) -> str:
    """Return the non-empty string under *key* in a command. Raises UsageError if there is no such string."""
    value = message.get(key)
    if value == "":
        raise UsageError(f'"{key}" is empty.')
    if not isinstance(value, str):
        raise UsageError(f'"{key}" is missing, or is not text.')
    return value


def get_texts(message: dict[str, Any], key: str) -> dict[str, str]:
    """Return the object under *key* in a command, or {} if it is missing.

    Raises UsageError if the value is not an object, or if any value in the object is not a string.
    """
    values = get_object(message, key)
    if not all(isinstance(value, str) for value in values.values()):
        raise UsageError(f'The values of "{key}" must be strings.')
    return cast("dict[str, str]", values)


def get_object(message: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object under *key* in a command, or {} if it is missing.

    Raises UsageError if the value is not an object.
    """
    value = message.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f'"{key}" is not an object.')
    return cast("dict[str, Any]", value)
