"""Conversion of a server's entry to a form without secrets, for sharing with others."""

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from mcphost.config.schema import ServerConfig
from mcphost.config.secret_masking import mask_secrets
from mcphost.config.secrets import find_plaintext_secrets, list_references
from mcphost.config.server_inputs import format_input
from mcphost.config.target_secrets import mask_json, replace_target_secrets
from mcphost.config.variable_references import find_references
from mcphost.redact import (
    PLACEHOLDER,
    is_probable_secret,
    is_secret_name,
    redact_command,
    redact_patterns,
)
from mcphost.secret_members import mask_members
from mcphost.serialization import as_object

_KEYRING = re.compile(r"\$\{keyring:([^}]{0,200})\}")
_RANDOM_SEGMENT = re.compile(
    r"(?<=/)(?=[A-Za-z_-]{0,200}[0-9])(?=[^A-Z/?#]{0,200}[A-Z])(?=[^a-z/?#]{0,200}[a-z])[A-Za-z0-9_-]{24,200}(?=[/?#]|\Z)"
)
"""A part of a URL's path that looks random: some addresses work like a password."""
_TARGET_KEYS = frozenset({"command", "args", "url", "env", "headers"})
"""The keys of an entry whose secrets are found by their meaning, rather than in every text."""


class ExportedNames:
    """Names for the environment variables that replace secrets: a different name for each secret.

    If two secrets had the same name, the value of the variable would be sent to both servers.
    """

    def __init__(self, servers: Iterable[ServerConfig] = ()) -> None:
        """Create names for the secrets of *servers*, different from those of the variables used in their entries."""
        self._secrets: dict[str, str] = {}
        for server in servers:
            for _place, text in list_references(server):
                self._secrets |= {one.name: "" for one in find_references(text) if one.kind == "variable"}

    def choose(self, server: ServerConfig, label: str, secret: str) -> str:
        """Return the name of an environment variable that will hold *secret*, the value of the setting *label*."""
        base = _variable(label)
        names = (base, f"{_variable(server.name)}_{base}", *(f"{base}_{number}" for number in range(2, 1_000)))
        name = next((name for name in names if self._secrets.get(name, secret) == secret), base)
        self._secrets[name] = secret
        return name


def export_entry(server: ServerConfig, entry: dict[str, Any], names: ExportedNames | None = None) -> dict[str, Any]:
    """Return a copy of *entry* in which secrets and references to the keyring are replaced by `${env:NAME}`.

    Other text that may be a secret is replaced by `[secret]`. Inputs that the file defines for all of its servers are
    added to the entry if this server uses them. Pass the same *names* for all servers that are exported together.
    """
    names = names or ExportedNames()
    exported = _copy(entry)
    if shared := [format_input(one) for one in server.inputs if one.is_shared]:
        own = exported.setdefault("mcphost", {})
        own["inputs"] = [*own.get("inputs", []), *shared]
    _replace_plaintext_secrets(exported, server, names)
    _remove_secret_defaults(exported)

    def refer(label: str) -> str:
        return f"${{env:{names.choose(server, label, f'{server.name} {label}')}}}"

    without_secrets = replace_target_secrets(server, refer)
    if isinstance(exported.get("args"), list):
        exported["args"] = list(without_secrets.args)
    if isinstance(exported.get("url"), str):
        exported["url"] = _RANDOM_SEGMENT.sub(lambda segment: refer("url"), without_secrets.url)

    def refer_to(reference: re.Match[str], key: str = "") -> str:
        entry = reference[1].strip()
        return f"${{env:{names.choose(server, key or entry, f'keyring:{entry}')}}}"

    _replace_keyring_references(exported, "", refer_to)
    for key in exported.keys() - _TARGET_KEYS:
        exported[key] = mask_members(_remove_other_secrets(exported[key], key, refer))
    for key in ("env", "headers"):
        if isinstance(exported.get(key), dict):
            exported[key] = {name: _replace_random(name, one, refer) for name, one in exported[key].items()}
    for key in ("command", "url"):
        if isinstance(exported.get(key), str):
            exported[key] = _redact_literals(_shorten_secret_references(exported[key]), redact_patterns)
    if isinstance(exported.get("args"), list):
        arguments = (_shorten_secret_references(str(argument)) for argument in exported["args"])
        exported["args"] = [_redact_literals(mask_json(argument), redact_command) for argument in arguments]
    return exported


def _replace_plaintext_secrets(entry: dict[str, Any], server: ServerConfig, names: ExportedNames) -> None:
    """Replace the secrets in the environment, the headers and the sign-in settings, in place."""
    for secret in find_plaintext_secrets(server):
        if secret.keys[0] in ("args", "url"):
            continue
        *parents, last = secret.keys
        place = entry
        for key in parents:
            place = place[key]
        place[last] = f"{secret.prefix}${{env:{names.choose(server, last, secret.secret)}}}"


def _replace_random(name: str, value: Any, refer: Callable[[str], str]) -> Any:
    """Return a reference in place of *value* if it looks like a secret, even if its *name* does not suggest one.

    *refer* returns the reference for a given name. A value that does not look like a secret is returned unchanged.
    """
    if not isinstance(value, str) or find_references(value):
        return value
    return value if mask_secrets(name, value) == value else refer(name)


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
            entry[key][name] = _shorten_secret_references(text, name)
    listed: Any = as_object(entry.get("mcphost")).get("inputs")
    for definition in cast("list[Any]", listed) if isinstance(listed, list) else ():
        if isinstance(definition, dict) and cast("dict[str, Any]", definition).get("password"):
            cast("dict[str, Any]", definition).pop("default", None)


def _shorten_secret_references(text: Any, name: str = "") -> Any:
    """Return *text*, the value of *name*, with secret default values removed from its references."""
    for one in find_references(text) if isinstance(text, str) else ():
        if one.default and (is_probable_secret(name, one.default) or is_probable_secret(one.name, one.default)):
            text = text.replace(one.text, one.short_text)
    return text


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copy(item) for item in cast("list[Any]", value)]
    return value


def _remove_other_secrets(value: Any, name: str, refer: Callable[[str], str]) -> Any:
    """Return *value*, whose key is *name*, with the probable secrets in its strings replaced by references.

    The key may be unknown or belong to another host. If it suggests a secret, so does each key inside of *value*:
    in `{"apiKeys": {"prod": "…"}}`, the value of "prod" counts as an API key. *refer* returns the reference that
    replaces a secret.
    """
    if isinstance(value, dict):
        group = _secret_group(name)
        members = cast("dict[str, Any]", value).items()
        return {
            key: _remove_other_secrets(one, f"{key}_{group}" if group and not is_secret_name(key) else key, refer)
            for key, one in members
        }
    if isinstance(value, list):
        group = _secret_group(name)
        return [_remove_listed_secrets(item, group, refer) for item in cast("list[Any]", value)]
    if not isinstance(value, str) or not is_probable_secret(name, value):
        return value
    return refer(name) if is_secret_name(name) else redact_patterns(value)


def _remove_listed_secrets(value: Any, group: str, refer: Callable[[str], str]) -> Any:
    """Return an item of a list with its secrets removed, as `_remove_other_secrets` does.

    *group* is the result of `_secret_group` for the name of the list.
    """
    if isinstance(value, str):
        return PLACEHOLDER if group and is_probable_secret(group, value) else redact_patterns(value)
    return _remove_other_secrets(value, group, refer)


def _secret_group(name: str) -> str:
    """Return *name* in the singular if all members of a list or object with this name are secrets; else "".

    For example, the result is "apiKey" for "apiKeys". It is "" for "auth", because such an object also has other
    members.
    """
    singular = name.removesuffix("s")
    return singular if is_secret_name(singular) and not singular.lower().endswith("auth") else ""


def _replace_keyring_references(value: Any, name: str, refer: Callable[[re.Match[str], str], str]) -> Any:
    """Replace keyring references in all strings of *value* with `${env:NAME}`, in place; return *value*.

    *name* is the key under which *value* is stored. NAME is built from this key or, in lists and URLs, from the
    name of the keyring entry; *refer* returns the new reference.
    """
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for key, member in members.items():
            members[key] = _replace_keyring_references(member, key, refer)
        return members
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_KEYRING.sub(lambda one: refer(one, ""), item) if isinstance(item, str) else item for item in items]
    if not isinstance(value, str):
        return value
    return _KEYRING.sub(lambda one: refer(one, "" if name == "url" else name), value)


def _variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "SECRET"
