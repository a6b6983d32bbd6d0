"""Secrets that somebody wrote into mcp.json: which there are, and the same file with a reference in their place."""

import json
import re
from typing import Any, cast

from mcphost.config.json_files import json_of, plain_json
from mcphost.config.oauth import KEYS, SECRETS
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConfigError
from mcphost.redact import is_probable_secret
from mcphost.serialization import Struct, replace

_SCHEME = re.compile(r"(?i)((?:bearer|basic|token|dpop|apikey) +)(\S.*)", re.DOTALL)
_SPACE = re.compile(r"\s*")


class Literal(Struct, frozen=True):
    """One secret in plain text: where it is below its server, as keys, and what of the value is secret."""

    keys: tuple[str, ...]
    value: str
    before: str
    """What stands before the secret and stays in the file, such as `Bearer `."""

    secret: str

    def __repr__(self) -> str:
        return f"Literal({self.where!r})"

    @property
    def where(self) -> str:
        """Its place in words."""
        return ".".join(self.keys)


def literals_of(server: ServerConfig) -> tuple[Literal, ...]:
    """The secrets that are written out in the entry of a server."""
    found = [_literal((kind, name), value)
             for kind, pairs in (("env", server.env), ("headers", server.headers))
             for name, value in pairs.items() if is_probable_secret(name, value)]  # fmt: skip
    for key, field in KEYS.items():
        if field in SECRETS and (value := cast("str", getattr(server.oauth, field))) and "${" not in value:
            found.append(_literal(("mcphost", "oauth", key), value))
    return tuple(found)


def entry_name(server: str, literal: Literal) -> str:
    """What the secret is called in the keyring, unless that name is taken."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{server}-{literal.keys[-1]}").strip("-").lower()[:80]
    return plain if plain and not plain.startswith("sign-in") else f"server-{plain}"


def referring(server: ServerConfig, literal: Literal, name: str) -> ServerConfig:
    """The server as it is configured once `${keyring:NAME}` stands there for that secret."""
    new = f"{literal.before}${{keyring:{name}}}"
    match literal.keys:
        case ("env", key):
            return replace(server, env={**server.env, key: new})
        case ("headers", key):
            return replace(server, headers={**server.headers, key: new})
        case (*_, key):
            return replace(server, oauth=replace(server.oauth, **{KEYS[key]: new}))
        case _:
            raise AssertionError(literal.keys)


def with_reference(text: str, file: str, server: str, literal: Literal, name: str) -> str:
    """The text of the file with `${keyring:NAME}` for that secret, and not one other character changed.

    Raises ConfigError when the file is not what it was, or something else would change.
    """
    was = json_of(text, file)
    root = next((key for key in ("mcpServers", "servers") if key in was), "")
    path = (root, server, *literal.keys)
    new = f"{literal.before}${{keyring:{name}}}"
    start, end = _span(plain_json(text), path)
    if str(json.loads(text[start:end])) != literal.value:
        raise ConfigError(f"{file} was changed meanwhile; nothing was written.", "Try again.")
    made = f"{text[:start]}{json.dumps(new, ensure_ascii=False)}{text[end:]}"
    wanted = json.loads(json.dumps(was))
    inner: Any = wanted
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    if json_of(made, file) != wanted:
        raise ConfigError(f"{file} cannot be changed without changing more.", f"Write {new!r} there yourself.")
    return made


def _literal(keys: tuple[str, ...], value: str) -> Literal:
    # A header's scheme is no secret, and the file stays readable with it.
    match = _SCHEME.fullmatch(value) if keys[0] == "headers" else None
    return Literal(keys, value, match[1], match[2]) if match else Literal(keys, value, "", value)


def _span(plain: str, path: tuple[str, ...]) -> tuple[int, int]:
    """Where the value of those keys is, in JSON without comments. Raises ConfigError."""
    decoder = json.JSONDecoder()
    at = _after_space(plain, 0)
    for key in path:
        at = _member(decoder, plain, at, key)
    return at, decoder.raw_decode(plain, at)[1]


def _member(decoder: json.JSONDecoder, plain: str, at: int, key: str) -> int:
    """Where the value of the first such key begins, in the object that begins at `at`."""
    at = _after_space(plain, at + 1)
    while plain[at] == '"':
        name, at = decoder.raw_decode(plain, at)
        at = _after_space(plain, _after_space(plain, at) + 1)
        if name == key:
            return at
        at = _after_space(plain, decoder.raw_decode(plain, at)[1])
        if plain[at] != ",":
            break
        at = _after_space(plain, at + 1)
    raise ConfigError(f"The key {key!r} is not in the file any more; nothing was written.", "Try again.")


def _after_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return found.end() if found else at
