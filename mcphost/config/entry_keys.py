"""Warnings about misspelt keys, and about secrets in arguments, in the entries of mcp.json."""

import os
from collections.abc import Collection, Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from shlex import quote
from typing import Any

from mcphost.config.schema import ConfigWarning, ProblemCallback, ServerConfig, Source
from mcphost.config.target_secrets import find_target_secrets
from mcphost.config.toml_files import find_similar
from mcphost.config.variable_references import expand_home
from mcphost.errors import ConfigError
from mcphost.redact import is_secret_name, is_strong, redact_patterns
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.serialization import dumps

ENTRY_KEYS = (
    "command", "args", "env", "envFile", "cwd", "url", "headers", "type", "transport", "disabled", "disabledTools",
    "dev", "mcphost",
)  # fmt: skip
"""Keys of a server's entry that mcphost reads."""

OWN_KEYS = (
    "timeout", "caFile", "logLevel", "reviewResults", "trustAnnotations", "sampling", "era", "revision", "oauth",
    "inputs", "watch", "disabled", "disabledTools", "registry",
)  # fmt: skip
"""Keys of the "mcphost" object in a server's entry."""

_FOREIGN_KEYS = frozenset(
    {"enabled", "enabledTools", "enabled_tools", "headersHelper", "http_headers", "transportType"}
)
"""Keys of other hosts that are similar to a known key without being a misspelling of it."""

_MISPLACED_KEYS = ("reviewResults", "trustAnnotations", "caFile", "logLevel")
"""Keys of the "mcphost" object that no other host has, so that they have no effect outside of it."""

_KEYS_OF_OTHER_HOSTS = frozenset({"timeout", "oauth"})
"""Keys of the "mcphost" object that other hosts read outside of it."""

_MAX_WARNINGS = 20
_MAX_CHECKED_ARGUMENTS = 200


def warn_about_keys(
    entry: Mapping[str, Any], own: Mapping[str, Any], source: Source, location: str, on_problem: ProblemCallback
) -> None:
    """Report unknown keys in a server's entry, and in *own*, the entry's "mcphost" object.

    Other hosts define keys of their own. Therefore, an unknown key outside of the "mcphost" object is reported only
    if it is similar to a known one. If *source* is "user", keys that only other hosts read, such as "timeout", are
    also reported. *location* names the file and the server.
    """
    texts = [*describe_entry_keys(entry, is_own=source == "user"), *describe_unknown_keys(own, OWN_KEYS)]
    for text in texts[:_MAX_WARNINGS]:
        on_problem(ConfigWarning(f"{location}: {text}"))


def describe_unknown_keys(own: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each key of an "mcphost" object that is not in *known*."""
    for key in islice((key for key in own if key not in known), _MAX_WARNINGS):
        near = find_similar(key, known)
        yield _describe_key(f"mcphost.{key}", f"mcphost.{near}" if near else "")


def describe_entry_keys(entry: Mapping[str, Any], *, is_own: bool = True) -> Iterator[str]:
    """Yield a sentence for each key of a server's entry that is probably misspelt or misplaced.

    A key is misspelt if it is similar to a known key. It is misplaced if it belongs in the "mcphost" object, or if
    only other hosts read it. If *is_own* is false, the file may belong to another host, so keys that only other
    hosts read are not reported.
    """
    for key in entry:
        if key in ENTRY_KEYS or key in _FOREIGN_KEYS:
            continue
        if near := find_similar(key, ENTRY_KEYS):
            yield _describe_key(key, near)
        elif key in _KEYS_OF_OTHER_HOSTS:
            if is_own:
                yield f'"{key}" does nothing here: mcphost reads "mcphost.{key}".'
        elif key in OWN_KEYS:
            yield _describe_key(key, f"mcphost.{key}")
        elif near := find_similar(key, _MISPLACED_KEYS):
            yield _describe_key(key, f"mcphost.{near}")


def _describe_key(key: str, near: str) -> str:
    shown = sanitize_line(key, 60)
    return f'"{shown}" is unknown: did you mean "{near}"?' if near else f'"{shown}" is unknown: it does nothing.'


def warn_about_arguments(server: ServerConfig, location: str, on_problem: ProblemCallback) -> None:
    """Report the first argument that contains a secret in plain text, without quoting it.

    *location* names the file and the server.
    """
    can_move = {span.keys for span in find_target_secrets(server)}
    command = f"mcphost servers secure {quote(server.name)}"
    for number, (before, argument) in enumerate(pairwise(("", *server.args[:_MAX_CHECKED_ARGUMENTS]))):
        is_movable = ("args", str(number)) in can_move
        if is_movable or _has_secret(before, argument):
            text = (
                f'{location}: "args[{number}]" looks like a secret in plain text, which other programs can see, too. '
                "Pass it as a variable if the program reads one (--env NAME), or write ${env:NAME}."
            )
            if is_movable and server.source == "user":
                text = (
                    f'{location}: "args[{number}]" looks like a secret in plain text. Pass it as a variable if the '
                    f"program reads one (--env NAME), write ${{env:NAME}}, or move it to the keyring: {command}"
                )
            on_problem(ConfigWarning(text))
            return


def _has_secret(before: str, argument: str) -> bool:
    """Return whether an argument is probably a secret; *before* is the argument before it, such as `--token`."""
    if "${" in argument:
        return False
    option, equals, value = argument.partition("=")
    if not (equals and option.startswith("-")):
        option, value = before, argument
    if value.startswith(("/", "./", "../", "~", "-")):
        return False
    is_named = option.startswith("-") and is_secret_name(option.lstrip("-"))
    return redact_patterns(value) != value or (is_named and is_strong(value))


MAX_COMMAND_LINE = 32_000
"""Maximum characters of a command line that is split into words, which takes quadratic time."""


def is_whole_command_line(command: str, has_arguments: bool) -> bool:
    """Return whether the "command" of an entry is a whole command line instead of only the program.

    mcphost would not find a program with this name. The result is False if the entry also has "args"
    (*has_arguments*), or if *command* contains `${…}` references or is the path of an existing file.
    """
    has_space = " " in command.strip() and "${" not in command and not has_arguments
    return has_space and not os.path.exists(expand_home(command))


def check_whole_command_line(server: ServerConfig) -> None:
    """Raise ConfigError if the "command" of an entry to be saved also contains the arguments.

    The hint of the error shows the correct "command" and "args". If the first word of the command is a path at
    which no file exists, no error is raised, because the whole command may be a path with spaces.
    """
    if not is_whole_command_line(server.command, bool(server.args)):
        return
    program, *rest = sanitize(redact_patterns(server.command), keep_newlines=False).split()
    if "/" in program and not os.path.exists(expand_home(program)):
        return
    raise ConfigError(
        f'The "command" of {server.name!r} is one program, without its arguments; it has both. Nothing was written.',
        f'Write "command": {dumps(program)}, "args": {dumps(rest)}.',
    )


def describe_mode(file: str) -> str:
    """Return a phrase for the end of a warning if other users have access to *file*, otherwise "".

    The phrase is, for example, ", and others can read the file (mode 0644)". The result is also "" if the file does
    not exist.
    """
    try:
        mode = Path(file).stat().st_mode & 0o777
    except OSError:
        return ""
    return f", and others can read the file (mode {mode:04o})" if mode & 0o077 else ""
