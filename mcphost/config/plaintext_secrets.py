"""Detection of plaintext secrets in mcp.json, and their replacement by keyring references."""

import json
import re
from typing import Any, cast

from mcphost.config.json_files import parse_json, strip_comments
from mcphost.config.oauth import FIELD_BY_KEY, SECRET_FIELDS
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConfigError
from mcphost.redact import is_probable_secret
from mcphost.serialization import Struct, replace

_SCHEME = re.compile(r"(?i)((?:bearer|basic|token|dpop|apikey) +)(\S.*)", re.DOTALL)
_WHITESPACE = re.compile(r"\s*")


class PlaintextSecret(Struct, frozen=True):
    """A plaintext secret; `keys` is its path in the server's entry, `secret` the secret part of `value`."""

    keys: tuple[str, ...]
    value: str
    prefix: str
    """The text before the secret that stays in the file, such as `Bearer `."""

    secret: str

    def __repr__(self) -> str:
        return f"PlaintextSecret({self.location!r})"

    @property
    def location(self) -> str:
        """The path of the value, with dots."""
        return ".".join(self.keys)


def find_plaintext_secrets(server: ServerConfig) -> tuple[PlaintextSecret, ...]:
    """Return the plaintext secrets in the entry of a server."""
    pairs = [(("env", name), value) for name, value in server.env.items()]
    pairs += [(("headers", name), value) for name, value in server.headers.items()]
    secrets = [_make_secret(keys, value) for keys, value in pairs if is_probable_secret(keys[1], value)]
    for key, field in FIELD_BY_KEY.items():
        if field in SECRET_FIELDS and (value := cast("str", getattr(server.oauth, field))) and "${" not in value:
            secrets.append(_make_secret(("mcphost", "oauth", key), value))
    return tuple(secrets)


def keyring_entry_name(server: str, plaintext: PlaintextSecret) -> str:
    """Return the preferred name of the keyring entry for a secret."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{server}-{plaintext.keys[-1]}").strip("-").lower()[:80]
    return plain if plain and not plain.startswith("sign-in") else f"server-{plain}"


def replace_in_config(server: ServerConfig, plaintext: PlaintextSecret, name: str) -> ServerConfig:
    """Return the server with `${keyring:NAME}` in place of a secret."""
    new = f"{plaintext.prefix}${{keyring:{name}}}"
    match plaintext.keys:
        case ("env", key):
            return replace(server, env={**server.env, key: new})
        case ("headers", key):
            return replace(server, headers={**server.headers, key: new})
        case (*_, key):
            return replace(server, oauth=replace(server.oauth, **{FIELD_BY_KEY[key]: new}))
        case _:
            raise AssertionError(plaintext.keys)


def replace_in_text(text: str, file: str, server: str, plaintext: PlaintextSecret, name: str) -> str:
    """Return the file's text with `${keyring:NAME}` in place of a secret and no other change.

    Raises ConfigError if the file no longer has the secret, or if another value would change.
    """
    before = parse_json(text, file)
    root = next((key for key in ("mcpServers", "servers") if key in before), "")
    path = (root, server, *plaintext.keys)
    new = f"{plaintext.prefix}${{keyring:{name}}}"
    start, end = _find_value(strip_comments(text), path)
    if str(json.loads(text[start:end])) != plaintext.value:
        raise ConfigError(f"{file} was changed by another program; nothing was written.", "Try again.")
    edited = f"{text[:start]}{json.dumps(new, ensure_ascii=False)}{text[end:]}"
    expected = json.loads(json.dumps(before))
    parent: Any = expected
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = new
    if parse_json(edited, file) != expected:
        raise ConfigError(f"{file} cannot be changed without changing more.", f"Write {new!r} there yourself.")
    return edited


def _make_secret(keys: tuple[str, ...], value: str) -> PlaintextSecret:
    # A header's scheme is no secret and keeps the file readable.
    match = _SCHEME.fullmatch(value) if keys[0] == "headers" else None
    return PlaintextSecret(keys, value, match[1], match[2]) if match else PlaintextSecret(keys, value, "", value)


def _find_value(plain: str, path: tuple[str, ...]) -> tuple[int, int]:
    """Return start and end of the value at *path* in JSON without comments. Raises ConfigError."""
    decoder = json.JSONDecoder()
    at = _skip_whitespace(plain, 0)
    for key in path:
        at = _find_member(decoder, plain, at, key)
    return at, decoder.raw_decode(plain, at)[1]


def _find_member(decoder: json.JSONDecoder, plain: str, at: int, key: str) -> int:
    """Return where the value of the first *key* begins, in the object that begins at *at*."""
    at = _skip_whitespace(plain, at + 1)
    while plain[at] == '"':
        name, at = decoder.raw_decode(plain, at)
        at = _skip_whitespace(plain, _skip_whitespace(plain, at) + 1)
        if name == key:
            return at
        at = _skip_whitespace(plain, decoder.raw_decode(plain, at)[1])
        if plain[at] != ",":
            break
        at = _skip_whitespace(plain, at + 1)
    raise ConfigError(f"The key {key!r} is no longer in the file; nothing was written.", "Try again.")


def _skip_whitespace(plain: str, at: int) -> int:
    match = _WHITESPACE.match(plain, at)
    return match.end() if match else at
