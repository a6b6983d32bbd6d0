"""Secrets that somebody wrote into mcp.json: which there are, and the same file with a reference in their place."""

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
    """One secret in plain text: where it is below its server, as keys, and what of the value is secret."""

    keys: tuple[str, ...]
    value: str
    prefix: str
    """What stands before the secret and stays in the file, such as `Bearer `."""

    secret: str

    def __repr__(self) -> str:
        return f"PlaintextSecret({self.location!r})"

    @property
    def location(self) -> str:
        """Its place in words."""
        return ".".join(self.keys)


def find_plaintext_secrets(server: ServerConfig) -> tuple[PlaintextSecret, ...]:
    """The secrets that are written out in the entry of a server."""
    found = [_make_secret((kind, name), value)
             for kind, pairs in (("env", server.env), ("headers", server.headers))
             for name, value in pairs.items() if is_probable_secret(name, value)]  # fmt: skip
    for key, field in FIELD_BY_KEY.items():
        if field in SECRET_FIELDS and (value := cast("str", getattr(server.oauth, field))) and "${" not in value:
            found.append(_make_secret(("mcphost", "oauth", key), value))
    return tuple(found)


def keyring_entry_name(server: str, plaintext: PlaintextSecret) -> str:
    """What the secret is called in the keyring, unless that name is taken."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{server}-{plaintext.keys[-1]}").strip("-").lower()[:80]
    return plain if plain and not plain.startswith("sign-in") else f"server-{plain}"


def replace_in_config(server: ServerConfig, plaintext: PlaintextSecret, name: str) -> ServerConfig:
    """The server as it is configured once `${keyring:NAME}` stands there for that secret."""
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
    """The text of the file with `${keyring:NAME}` for that secret, and not one other character changed.

    Raises ConfigError when the file is not what it was, or something else would change.
    """
    was = parse_json(text, file)
    root = next((key for key in ("mcpServers", "servers") if key in was), "")
    path = (root, server, *plaintext.keys)
    new = f"{plaintext.prefix}${{keyring:{name}}}"
    start, end = _find_value(strip_comments(text), path)
    if str(json.loads(text[start:end])) != plaintext.value:
        raise ConfigError(f"{file} was changed meanwhile; nothing was written.", "Try again.")
    made = f"{text[:start]}{json.dumps(new, ensure_ascii=False)}{text[end:]}"
    wanted = json.loads(json.dumps(was))
    inner: Any = wanted
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    if parse_json(made, file) != wanted:
        raise ConfigError(f"{file} cannot be changed without changing more.", f"Write {new!r} there yourself.")
    return made


def _make_secret(keys: tuple[str, ...], value: str) -> PlaintextSecret:
    # A header's scheme is no secret, and the file stays readable with it.
    match = _SCHEME.fullmatch(value) if keys[0] == "headers" else None
    return PlaintextSecret(keys, value, match[1], match[2]) if match else PlaintextSecret(keys, value, "", value)


def _find_value(plain: str, path: tuple[str, ...]) -> tuple[int, int]:
    """Where the value of those keys is, in JSON without comments. Raises ConfigError."""
    decoder = json.JSONDecoder()
    at = _skip_whitespace(plain, 0)
    for key in path:
        at = _find_member(decoder, plain, at, key)
    return at, decoder.raw_decode(plain, at)[1]


def _find_member(decoder: json.JSONDecoder, plain: str, at: int, key: str) -> int:
    """Where the value of the first such key begins, in the object that begins at `at`."""
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
    raise ConfigError(f"The key {key!r} is not in the file any more; nothing was written.", "Try again.")


def _skip_whitespace(plain: str, at: int) -> int:
    found = _WHITESPACE.match(plain, at)
    return found.end() if found else at
