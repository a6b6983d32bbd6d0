"""A server's entry without its secrets, to be given to others."""

import re
from typing import Any, cast

from mcphost.config.schema import ServerConfig
from mcphost.config.secrets import find_plaintext_secrets
from mcphost.redact import redact_command, redact_patterns

_KEYRING = re.compile(r"\$\{keyring:[^}]{0,200}\}")


def export_entry(server: ServerConfig, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of *entry* with `${env:NAME}` in place of each secret and each reference to the keyring.

    Secrets in arguments and in the URL become `[redacted]`.
    """
    exported = _copy(entry)
    for secret in find_plaintext_secrets(server):
        *parents, last = secret.keys
        place = exported
        for key in parents:
            place = place[key]
        place[last] = f"{secret.prefix}${{env:{_variable(last)}}}"
    _replace_keyring_references(exported, "")
    for key in ("command", "url"):
        if isinstance(exported.get(key), str):
            exported[key] = redact_patterns(exported[key])
    if isinstance(exported.get("args"), list):
        exported["args"] = [redact_command(str(argument)) for argument in exported["args"]]
    return exported


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copy(item) for item in cast("list[Any]", value)]
    return value


def _replace_keyring_references(value: Any, name: str) -> Any:
    """Replace references in every text of *value*, in place; *name* is the key that has it."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for key, member in members.items():
            members[key] = _replace_keyring_references(member, key)
        return members
    return _KEYRING.sub(f"${{env:{_variable(name)}}}", value) if isinstance(value, str) else value


def _variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "SECRET"
