"""References to secrets in the keyring, in all of a user's configuration files."""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from mcphost.config.file_edits import MAX_FILE_BYTES
from mcphost.config.json_files import decode_text, parse_json, read_bytes
from mcphost.config.variable_references import find_references
from mcphost.errors import ConfigError


def list_secret_names(value: object) -> Iterator[str]:
    """Yield the name in each `${keyring:NAME}` reference in a parsed JSON or TOML *value*.

    All strings are searched, including keys.
    """
    if isinstance(value, str):
        yield from (one.name for one in find_references(value) if one.kind == "keyring")
    elif isinstance(value, Mapping):
        for key, member in cast("Mapping[Any, Any]", value).items():
            yield from list_secret_names(key)
            yield from list_secret_names(member)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from list_secret_names(item)


def find_referenced_secrets(
    files: Iterable[Path], planned: Mapping[Path, bytes] | None = None
) -> tuple[dict[str, Path], ConfigError | None]:
    """Return the names of the keyring secrets that the given JSON and TOML files refer to, each with the first file.

    References in disabled servers and in entries for other folders are included. A missing file is ignored.
    *planned* maps the path of a file to content that replaces the one on disk. The second result is the error of the
    first file that cannot be read or is invalid, or None; the names in such a file are unknown.
    """
    unreadable: ConfigError | None = None
    contents = {os.path.realpath(path): content for path, content in (planned or {}).items()}
    names: dict[str, Path] = {}
    for path in files:
        try:
            content = contents.get(os.path.realpath(path))
            content = read_bytes(path, MAX_FILE_BYTES) if content is None else content
            text = decode_text(content, str(path)).removeprefix("\ufeff")
            if "keyring" in text or "\\u" in text.lower():
                names = dict.fromkeys(list_secret_names(_parse(text, path)), path) | names
        except FileNotFoundError:
            continue
        except ConfigError as error:
            unreadable = unreadable or error
    return names, unreadable


def _parse(text: str, path: Path) -> Any:
    if path.suffix != ".toml":
        return parse_json(text, str(path))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}.", "Correct it.") from error
