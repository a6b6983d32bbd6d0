"""References to secrets in the keyring and to unpacked bundles, in all of a user's configuration files."""

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
    for text in _list_strings(value):
        yield from (one.name for one in find_references(text) if one.kind == "keyring")


def _list_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, member in cast("Mapping[Any, Any]", value).items():
            yield from _list_strings(key)
            yield from _list_strings(member)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _list_strings(item)


def find_referenced_secrets(
    files: Iterable[Path], planned: Mapping[Path, bytes] | None = None
) -> tuple[dict[str, Path], ConfigError | None]:
    """Find the keyring secrets that the given JSON and TOML files refer to, even in entries that are not in use.

    The first result maps the name of each secret to the first file that refers to it. The second result is the
    error of the first file that cannot be read or is invalid, or None; the secrets in such a file are unknown. A
    missing file is ignored. *planned* maps the path of a file to content that replaces the one on disk.
    """
    unreadable: ConfigError | None = None
    names: dict[str, Path] = {}
    for path in files:
        try:
            text = _read(path, planned)
            if "keyring" in text or "\\u" in text.lower():
                names = dict.fromkeys(list_secret_names(_parse(text, path)), path) | names
        except ConfigError as error:
            unreadable = unreadable or error
    return names, unreadable


def may_refer_to_folder(folder: Path, files: Iterable[Path], planned: Mapping[Path, bytes] | None = None) -> bool:
    """Return whether the path of *folder* occurs in one of the configuration files, or one of them cannot be read.

    See `find_referenced_secrets` for *files* and *planned*.
    """
    for path in files:
        try:
            text = _read(path, planned)
            is_named = folder.name in text or "\\u" in text.lower()
            if is_named and any(str(folder) in one for one in _list_strings(_parse(text, path))):
                return True
        except ConfigError:
            return True
    return False


def _read(path: Path, planned: Mapping[Path, bytes] | None) -> str:
    """Return the text of a file, or of the content in *planned* that replaces it; "" if it does not exist."""
    contents = {os.path.realpath(one): content for one, content in (planned or {}).items()}
    content = contents.get(os.path.realpath(path))
    try:
        content = read_bytes(path, MAX_FILE_BYTES) if content is None else content
    except FileNotFoundError:
        return ""
    return decode_text(content, str(path)).removeprefix("\ufeff")


def _parse(text: str, path: Path) -> Any:
    if path.suffix != ".toml":
        return parse_json(text, str(path))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}.", "Correct it.") from error
