"""Conversion of a server's entry to a form without secrets, for sharing with others."""

import re
from collections.abc import Callable
from typing import Any, cast

from mcphost.config.schema import ServerConfig
from mcphost.config.secrets import find_plaintext_secrets
from mcphost.config.server_inputs import format_input
from mcphost.config.target_secrets import replace_target_secrets
from mcphost.config.variable_references import find_references
from mcphost.redact import is_probable_secret, redact_command, redact_patterns

_KEYRING = re.compile(r"\$\{keyring:([^}]{0,200})\}")


def export_entry(server: ServerConfig, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of *entry* in which secrets and references to the keyring are replaced by `${env:NAME}`.

    Text in arguments and in the URL that may be either a secret or code becomes `[secret]`. If the file defines inputs
    for all of its servers, the definitions that this server uses are added to the entry.
    """
    exported = _copy(entry)
    if shared := [format_input(one) for one in server.inputs if one.is_shared]:
        own = exported.setdefault("mcphost", {})
        own["inputs"] = [*own.get("inputs", []), *shared]
    for secret in find_plaintext_secrets(server):
        if secret.keys[0] in ("args", "url"):
            continue
        *parents, last = secret.keys
        place = exported
        for key in parents:
            place = place[key]
        place[last] = f"{secret.prefix}${{env:{_variable(last)}}}"
    _remove_secret_defaults(exported)
    without_secrets = replace_target_secrets(server, lambda label: f"${{env:{_variable(label)}}}")
    if isinstance(exported.get("args"), list):
        exported["args"] = list(without_secrets.args)
    if isinstance(exported.get("url"), str):
        exported["url"] = without_secrets.url
    _replace_keyring_references(exported, "")
    for key in ("command", "url"):
        if isinstance(exported.get(key), str):
            exported[key] = _redact_literals(exported[key], redact_patterns)
    if isinstance(exported.get("args"), list):
        exported["args"] = [_redact_literals(str(argument), redact_command) for argument in exported["args"]]
    return exported


def _redact_literals(text: str, redact: Callable[[str], str]) -> str:
    """Return *text* with *redact* applied to the parts between references.

    References are excluded, because they may look like secrets.
    """
    parts, end = list[str](), 0
    for one in find_references(text):
        parts += [redact(text[end : one.start]), one.text]
        end = one.start + len(one.text)
    return "".join((*parts, redact(text[end:])))


def _remove_secret_defaults(entry: dict[str, Any]) -> None:
    """Remove secret defaults of references and all defaults of password inputs, in place."""
    for key in ("env", "headers"):
        pairs = entry.get(key)
        for name, text in list(cast("dict[str, Any]", pairs).items()) if isinstance(pairs, dict) else ():
            for reference in find_references(text) if isinstance(text, str) else ():
                if reference.default and is_probable_secret(name, reference.default):
                    entry[key][name] = entry[key][name].replace(reference.text, reference.short_text)
    own = entry.get("mcphost")
    listed: Any = cast("dict[str, Any]", own).get("inputs") if isinstance(own, dict) else None
    for definition in cast("list[Any]", listed) if isinstance(listed, list) else ():
        if isinstance(definition, dict) and cast("dict[str, Any]", definition).get("password"):
            cast("dict[str, Any]", definition).pop("default", None)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copy(item) for item in cast("list[Any]", value)]
    return value


def _replace_keyring_references(value: Any, name: str) -> Any:
    """Replace keyring references in all strings of *value* with `${env:NAME}`, in place; return *value*.

    *name* is the key under which *value* is stored. NAME is built from this key or, in lists and URLs, from the
    name of the keyring entry.
    """
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for key, member in members.items():
            members[key] = _replace_keyring_references(member, key)
        return members
    if isinstance(value, list):
        return [_KEYRING.sub(_variable_of, one) if isinstance(one, str) else one for one in cast("list[Any]", value)]
    if name == "url" and isinstance(value, str):
        return _KEYRING.sub(_variable_of, value)
    return _KEYRING.sub(f"${{env:{_variable(name)}}}", value) if isinstance(value, str) else value


def _variable_of(reference: re.Match[str]) -> str:
    """Return the `${env:NAME}` reference that replaces a `${keyring:…}` reference.

    *reference* is the match of the keyring reference. NAME is built from the name of the keyring entry.
    """
    return f"${{env:{_variable(reference[1].strip())}}}"


def _variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "SECRET"
