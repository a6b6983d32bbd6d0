"""Edits of hand-written files that change one value and no other byte."""

import re
import tomllib
from pathlib import Path

from mcphost.config.atomic_write import read_snapshot, replace_if_unchanged
from mcphost.config.json_files import decode_text
from mcphost.config.schema import SecretStore
from mcphost.errors import ConfigError
from mcphost.paths import make_private_directory

_SECRETS_TABLE = re.compile(r"(?m)^[ \t]*\[[ \t]*secrets[ \t]*\][ \t]*(?:#[^\n]*)?$")


def save_secret_store(path: Path, store: SecretStore) -> None:
    """Add `secrets.store` to a config.toml. Raises ConfigError, with the line to add as the hint."""
    hint = f'Add it yourself: [secrets] store = "{store}"'
    try:
        try:
            before = read_snapshot(path)
        except FileNotFoundError:
            before = None
            make_private_directory(path.parent)
        raw = before.content if before else b""
        replace_if_unchanged(path, before, add_secret_store(decode_text(raw, str(path)), store).encode())
    except (ConfigError, ValueError, OSError) as error:
        reason = error.message if isinstance(error, ConfigError) else f"{path} cannot be changed safely."
        raise ConfigError(reason, hint) from error


def add_secret_store(text: str, store: SecretStore) -> str:
    """Return the text of a config.toml with `secrets.store` added.

    Raises ValueError if it is already set, or if another value would change.
    """
    before = tomllib.loads(text)
    table = before.get("secrets", {})
    if not isinstance(table, dict) or "store" in table:
        raise ValueError("secrets.store is already set")
    newline = "\r\n" if "\r\n" in text else "\n"
    header = _SECRETS_TABLE.search(text)
    line = f'store = "{store}"{newline}'
    if header:
        at = text.find("\n", header.end())
        edited = f"{text[: at + 1]}{line}{text[at + 1 :]}" if at >= 0 else f"{text}{newline}{line}"
    else:
        joint = "" if not text or text.endswith("\n") else newline
        edited = f"{text}{joint}{newline if text else ''}[secrets]{newline}{line}"
    if tomllib.loads(edited) != {**before, "secrets": {**table, "store": store}}:
        raise ValueError("another value would change")
    return edited
