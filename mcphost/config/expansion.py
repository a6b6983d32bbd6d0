"""Expansion of `${env:NAME}` and `${keyring:NAME}` in a server's environment, headers and sign-in settings."""

import re
from collections.abc import Callable, Mapping
from shlex import quote

from mcphost.config.oauth import FIELD_BY_KEY, SECRET_FIELDS
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.errors import ConfigError
from mcphost.redact import is_probable_secret, register_secret
from mcphost.serialization import replace

_KEY_BY_FIELD = {field: key for key, field in FIELD_BY_KEY.items()}
_REFERENCE = re.compile(r"\$\{(env|keyring):([^}]{0,200})\}")

Lookup = Callable[[str], str | None]


def expand_references(text: str, where: str, environ: Mapping[str, str], keyring: Lookup) -> str:
    """Return *text* with its references expanded, once; *where* names the setting in messages.

    Secrets that are filled in are registered for redaction. Raises ConfigError for a missing variable or entry.
    """

    def look_up(match: re.Match[str]) -> str:
        kind, name = match.group(1), match.group(2).strip()
        if not name:
            raise ConfigError(f"{where} has ${{{kind}:}} without a name.", f"Write ${{{kind}:NAME}}.")
        if kind == "env":
            value = environ.get(name)
            if value is None:
                raise ConfigError(
                    f"{where} needs the environment variable {name}, which is not set.", f"Set {name} and start again."
                )
            if name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD", "PASS", "AUTH", "CREDENTIALS")):
                register_secret(value)
            return value
        value = keyring(name)
        if value is None:
            raise ConfigError(
                f"{where} needs the keyring entry {name}, which does not exist.",
                f"Store it, for instance with: keyring set mcphost {quote(name)}",
            )
        register_secret(value)
        return value

    return _REFERENCE.sub(look_up, text)


def expand_server(
    server: ServerConfig, environ: Mapping[str, str], keyring: Lookup
) -> tuple[dict[str, str], dict[str, str]]:
    """Return environment and headers of a server, expanded. Raises ConfigError for a missing value."""
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
            raise ConfigError(f'{at}: the value of "headers.{name}" has a line break.', "Store it without one.")
        if name.lower() in {"authorization", "cookie", "x-api-key"}:
            register_secret(text.partition(" ")[2] or text)
    return env, headers


def expand_oauth(server: ServerConfig, environ: Mapping[str, str], keyring: Lookup) -> OAuthConfig:
    """Return a server's sign-in settings with expanded secrets, registered for redaction. Raises ConfigError."""
    at = f'{server.file}: server "{server.name}"' if server.file else f'server "{server.name}"'
    expanded: dict[str, str] = {}
    for field in SECRET_FIELDS:
        text: str = getattr(server.oauth, field)
        if text:
            expanded[field] = expand_references(text, f'{at}: "mcphost.oauth" ({field})', environ, keyring)
            register_secret(expanded[field])
    return replace(server.oauth, **expanded) if expanded else server.oauth


def list_references(server: ServerConfig) -> tuple[tuple[str, str], ...]:
    """Return the references of a server's entry with their destinations, such as ("header X", "${env:TOKEN}").

    If the sign-in gets secrets, the configured addresses that they are sent to are included.
    """
    texts = [(f"environment {name}", text) for name, text in sorted(server.env.items())]
    texts += [(f"header {name}", text) for name, text in sorted(server.headers.items())]
    texts += [(f"sign-in {_KEY_BY_FIELD[field]}", str(getattr(server.oauth, field))) for field in SECRET_FIELDS]
    references = [
        (place, f"${{{kind}:{name.strip()}}}") for place, text in texts for kind, name in _REFERENCE.findall(text)
    ]
    if any(place.startswith("sign-in ") for place, _ in references):
        addresses = ("issuer", server.oauth.issuer), ("idpTokenEndpoint", server.oauth.idp_token_endpoint)
        references += [(f"sign-in {key}", address) for key, address in addresses if address]
    return tuple(dict.fromkeys(references))
