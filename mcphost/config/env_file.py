"""The environment file named by `envFile` in a server's entry: reading it and checking its approval."""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from mcphost.config.json_files import decode_text, read_bytes
from mcphost.config.project_texts import find_project_root
from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import ReferenceExpander, entry_location, expand_home, resolve_folder
from mcphost.errors import ConfigError
from mcphost.serialization import replace

MAX_ENV_FILE_BYTES = 64_000
"""Maximum size in bytes; real environment files are far smaller."""
MAX_ENV_FILE_LINES = 2_000
MAX_ENV_FILE_VARIABLES = 500
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_QUOTES = "\"'`"
UNREADABLE = "cannot be read"


def env_file_path(server: ServerConfig, environ: Mapping[str, str]) -> str:
    """Return the absolute path of a server's environment file, with symbolic links resolved.

    A relative path is resolved against the folder of the configuration file. Raises ConfigError if a variable in the
    path is not set.
    """
    where = f'{entry_location(server)}: "envFile"'
    return resolve_folder(
        server.file, ReferenceExpander(environ, server=server).expand(expand_home(server.env_file), where)
    )


def is_project_file(server: ServerConfig, environ: Mapping[str, str]) -> bool:
    """Return whether a server's environment file is inside the project, so that the project may have written it.

    A file elsewhere is the user's own. Raises ConfigError if a variable in the path is not set.
    """
    if server.source != "project":
        return False
    root = os.path.realpath(find_project_root(Path(server.file).parent))
    return os.path.commonpath((root, env_file_path(server, environ))) == root


def read_env_file(server: ServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in a server's environment file, keyed by name, or {} if the server has no such file.

    Raises ConfigError if the file is missing, not a regular file, too large or invalid, or if it has changed since it
    was approved. Error messages never quote the content of the file.
    """
    if not server.env_file:
        return {}
    text, path = _read_text(server, environ)
    if server.env_file_digest and server.env_file_digest != _digest(text):
        raise ConfigError(
            f'{entry_location(server)}: {path} ("envFile") has changed since it was approved.',
            "Restart the server to approve its current content.",
        )
    return parse_env_file(text, path)


def with_env_file(server: ServerConfig) -> ServerConfig:
    """Return the server with the current digest and variable names of its environment file.

    A server that already has a digest, or has no environment file, is returned unchanged. Raises ConfigError if the
    file is missing, not a regular file, too large or invalid.
    """
    if not server.env_file or server.env_file_digest:
        return server
    text, path = _read_text(server, os.environ)
    return replace(server, env_file_digest=_digest(text), env_file_names=tuple(sorted(parse_env_file(text, path))))


def describe_env_file(server: ServerConfig) -> tuple[str, str, tuple[str, ...]]:
    """Return the path of a server's environment file, the digest of its content and the names of its variables.

    If the file cannot be read, the digest is "cannot be read" and there are no names. If a variable in the path is not
    set, the path is returned as written in the configuration.
    """
    path = server.env_file
    try:
        path = env_file_path(server, os.environ)
        bound = with_env_file(server)
    except ConfigError:
        return path, UNREADABLE, ()
    return path, bound.env_file_digest, bound.env_file_names


def _read_text(server: ServerConfig, environ: Mapping[str, str]) -> tuple[str, str]:
    path = env_file_path(server, environ)
    where = f'{entry_location(server)}: "envFile"'
    try:
        return decode_text(read_bytes(Path(path), MAX_ENV_FILE_BYTES), path), path
    except FileNotFoundError as error:
        raise ConfigError(f"{where}: {path} does not exist.", "Create the file, or correct its path.") from error
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", error.hint) from error


def _digest(text: str) -> str:
    """Return a digest of *text* that is slow to compute.

    *text* contains secrets and the digest is shown to the user, so guessing the secrets must be expensive.
    """
    from mcphost.config.secret_masking import fingerprint

    return fingerprint("envFile", text)


@lru_cache(64)
def _parse_lines(text: str, path: str) -> tuple[tuple[str, str], ...]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(lines) > MAX_ENV_FILE_LINES:
        raise ConfigError(f"{path} has more than {MAX_ENV_FILE_LINES:,} lines.", "Is it the right file?")
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        plain = line.strip()
        if plain and not plain.startswith("#"):
            name, value = _parse_line(plain, f"{path}, line {number}")
            variables[name] = value
    if len(variables) > MAX_ENV_FILE_VARIABLES:
        raise ConfigError(f"{path} has more than {MAX_ENV_FILE_VARIABLES} variables.", "Is it the right file?")
    return tuple(variables.items())


def parse_env_file(text: str, path: str) -> dict[str, str]:
    r"""Parse `NAME=value` lines in the same syntax as VS Code; return the values keyed by name.

    The syntax allows `export`, comments, quotes, and `\n` and `\r` in double quotes. If a name occurs more than once,
    the last line counts. Nothing in a value is expanded. Raises ConfigError, which names *path* and the line, if a line
    is invalid.
    """
    return dict(_parse_lines(text, path))


def _parse_line(line: str, where: str) -> tuple[str, str]:
    name, found, rest = line.removeprefix("export ").partition("=")
    name = name.strip()
    if not found or not _NAME.fullmatch(name):
        raise ConfigError(f'{where}: this is not "NAME=value".', "Correct the line, or put a # before it.")
    if "\0" in rest:
        raise ConfigError(f"{where}: the value has a NUL character in it.", "Remove it.")
    value = _strip_comment(rest.strip()).strip()
    unquoted = unquote(value)
    if unquoted is None:
        raise ConfigError(f"{where}: the quote is not closed on this line.", r"Close it; write a line break as \n.")
    return name, unquoted


def unquote(value: str) -> str | None:
    r"""Remove the quotes around a value; return None if it begins with a quote and does not end with one.

    In double quotes, `\n` and `\r` stand for line breaks.
    """
    if not value or value[0] not in _QUOTES:
        return value
    if len(value) < 2 or value[-1] != value[0]:
        return None
    text = value[1:-1]
    return text.replace("\\n", "\n").replace("\\r", "\r") if value[0] == '"' else text


def _strip_comment(value: str) -> str:
    """Remove the comment from a value; a comment starts at the first `#` outside quotes."""
    quote = ""
    for at, char in enumerate(value):
        if quote:
            if char == quote and value[at - 1] != "\\":
                quote = ""
        elif char in _QUOTES:
            quote = char
        elif char == "#":
            return value[:at]
    return value
