"""Small changes to files that people write by hand: one value changes, every other byte stays."""

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
    """Write `secrets.store` into that config.toml. Raises ConfigError, with the line to write by hand."""
    by_hand = f'Write it yourself: [secrets] store = "{store}"'
    try:
        try:
            before = read_snapshot(path)
        except FileNotFoundError:
            before = None
            make_private_directory(path.parent)
        raw = before.content if before else b""
        replace_if_unchanged(path, before, add_secret_store(decode_text(raw, str(path)), store).encode())
    except (ConfigError, ValueError, OSError) as error:
        why = error.message if isinstance(error, ConfigError) else f"{path} cannot be changed safely."
        raise ConfigError(why, by_hand) from error


def add_secret_store(text: str, store: SecretStore) -> str:
    """The text of a config.toml with `secrets.store` added. Raises ValueError when it has one, or would change else."""
    was = tomllib.loads(text)
    table = was.get("secrets", {})
    if not isinstance(table, dict) or "store" in table:
        raise ValueError("it is there already")
    end = "\r\n" if "\r\n" in text else "\n"
    found = _SECRETS_TABLE.search(text)
    line = f'store = "{store}"{end}'
    if found:
        at = text.find("\n", found.end())
        made = f"{text[: at + 1]}{line}{text[at + 1 :]}" if at >= 0 else f"{text}{end}{line}"
    else:
        joint = "" if not text or text.endswith("\n") else end
        made = f"{text}{joint}{end if text else ''}[secrets]{end}{line}"
    if tomllib.loads(made) != {**was, "secrets": {**table, "store": store}}:
        raise ValueError("something else would change")
    return made
