"""`${env:NAME}` and `${keyring:NAME}` in a server's environment and headers, filled in when connecting."""

import re
from collections.abc import Callable, Mapping
from shlex import quote

from mcphost.config.oauth import FIELD_BY_KEY as WRITTEN
from mcphost.config.oauth import SECRET_FIELDS
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.errors import ConfigError
from mcphost.redact import is_probable_secret, register_secret
from mcphost.serialization import replace

_KEY_BY_FIELD = {field: key for key, field in WRITTEN.items()}
_REFERENCE = re.compile(r"\$\{(env|keyring):([^}]{0,200})\}")

Lookup = Callable[[str], str | None]


def expand_references(text: str, where: str, environ: Mapping[str, str], keyring: Lookup) -> str:
    """`text` with every reference filled in; `where` names the place for messages.

    What is filled in is known to redact from then on. Raises ConfigError naming what is missing; a value that holds
    `${` itself is not expanded again.
    """

    def value(match: re.Match[str]) -> str:
        kind, name = match.group(1), match.group(2).strip()
        if not name:
            raise ConfigError(f"{where} has ${{{kind}:}} without a name.", f"Write ${{{kind}:NAME}}.")
        if kind == "env":
            found = environ.get(name)
            if found is None:
                raise ConfigError(
                    f"{where} needs the environment variable {name}, which is not set.", f"Set {name} and start again."
                )
            if name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD", "PASS", "AUTH", "CREDENTIALS")):
                register_secret(found)
            return found
        found = keyring(name)
        if found is None:
            raise ConfigError(
                f"{where} needs the keyring entry {name}, which is not there.",
                f"Store it, for instance with: keyring set mcphost {quote(name)}",
            )
        register_secret(found)
        return found

    return _REFERENCE.sub(value, text)


def expand_server(
    server: ServerConfig, environ: Mapping[str, str], keyring: Lookup
) -> tuple[dict[str, str], dict[str, str]]:
    """Environment and headers of a server, ready for use. Raises ConfigError naming server, key and what is missing."""
    at = f'{server.file}: server "{server.name}"' if server.file else f'server "{server.name}"'
    env = {name: expand_references(text, f'{at}: "env.{name}"', environ, keyring) for name, text in server.env.items()}
    headers = {
        name: expand_references(text, f'{at}: "headers.{name}"', environ, keyring)
        for name, text in server.headers.items()
    }
    for name, text in (*env.items(), *headers.items()):
        if is_probable_secret(name, text) or (name in headers and _REFERENCE.search(server.headers[name])):
            register_secret(text)
    for name, text in headers.items():
        if any(char in text for char in "\r\n\0"):
            raise ConfigError(f'{at}: "headers.{name}" got a value with a line break in it.', "Store it without one.")
        if name.lower() in {"authorization", "cookie", "x-api-key"}:
            register_secret(text.partition(" ")[2] or text)
    return env, headers


def expand_oauth(server: ServerConfig, environ: Mapping[str, str], keyring: Lookup) -> OAuthConfig:
    """The secrets of a server's sign-in, ready for use and known to redact. Raises ConfigError."""
    at = f'{server.file}: server "{server.name}"' if server.file else f'server "{server.name}"'
    filled: dict[str, str] = {}
    for field in SECRET_FIELDS:
        written: str = getattr(server.oauth, field)
        if written:
            filled[field] = expand_references(written, f'{at}: "mcphost.oauth" ({field})', environ, keyring)
            register_secret(filled[field])
    return replace(server.oauth, **filled) if filled else server.oauth


def list_references(server: ServerConfig) -> tuple[tuple[str, str], ...]:
    """Which values of this machine a server's entry asks for, and where they go, such as ("header X", "${env:TOKEN}").

    Where a sign-in is given secrets, the addresses that were written down for them are listed too.
    """
    texts = [(f"environment {name}", text) for name, text in sorted(server.env.items())]
    texts += [(f"header {name}", text) for name, text in sorted(server.headers.items())]
    signing = [(f"sign-in {_KEY_BY_FIELD[field]}", str(getattr(server.oauth, field))) for field in SECRET_FIELDS]
    found = [
        (place, f"${{{kind}:{name.strip()}}}")
        for place, text in (*texts, *signing)
        for kind, name in _REFERENCE.findall(text)
    ]
    if any(place.startswith("sign-in ") for place, _ in found):
        where = ("issuer", server.oauth.issuer), ("idpTokenEndpoint", server.oauth.idp_token_endpoint)
        found += [(f"sign-in {key}", address) for key, address in where if address]
    return tuple(dict.fromkeys(found))
