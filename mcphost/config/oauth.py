"""`mcphost.oauth` of a server in mcp.json: what the user knows about signing in to it."""

from typing import Any, cast

from mcphost.config.json_files import describe_type
from mcphost.config.schema import OAuthConfig
from mcphost.errors import ConfigError, MalformedMessage
from mcphost.sanitize import sanitize
from mcphost.serialization import convert

FIELD_BY_KEY = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "issuer": "issuer",
    "port": "port",
    "clientMetadataUrl": "client_metadata_url",
    "account": "account",
    "seconds": "seconds",
    "private": "private",
    "grant": "grant",
    "scopes": "scopes",
    "key": "key",
    "algorithm": "algorithm",
    "assertion": "assertion",
    "idToken": "idp_token",
    "idpClientId": "idp_client_id",
    "idpTokenEndpoint": "idp_token_endpoint",
}
"""What the keys of mcp.json are called here."""
SECRET_FIELDS = ("client_secret", "key", "assertion", "idp_token")
"""The fields that may hold references, and are never shown."""


def parse_oauth(value: Any, location: str) -> OAuthConfig:
    """The checked value; `at` names file and server. Raises ConfigError."""
    if value is None:
        return OAuthConfig()
    if not isinstance(value, dict):
        raise ConfigError(
            f'{location}: "mcphost.oauth" is {describe_type(value)}, not an object.', "Correct or remove it."
        )
    given = cast("dict[str, Any]", value)
    for key in given:
        if key not in FIELD_BY_KEY:
            shown = sanitize(key[:60], keep_newlines=False)
            raise ConfigError(
                f'{location}: "mcphost.oauth" has the unknown key "{shown}".', f"There are: {', '.join(FIELD_BY_KEY)}."
            )
    try:
        made = convert({FIELD_BY_KEY[key]: member for key, member in given.items()}, OAuthConfig, '"mcphost.oauth"')
    except MalformedMessage as error:
        raise ConfigError(f"{location}: {error.message}", "Correct it.") from error
    if not 0 <= made.port <= 65_535:
        raise ConfigError(f'{location}: "mcphost.oauth.port" is not a port.', "It is between 0 and 65535.")
    if not (made.seconds == 0 or 1 <= made.seconds <= 3600):
        raise ConfigError(f'{location}: "mcphost.oauth.seconds" is not a time to wait.', "It is between 1 and 3600.")
    return made


def list_configured(oauth: OAuthConfig) -> tuple[tuple[str, str, bool], ...]:
    """Return what differs from the defaults: the key in mcp.json, the value as text, whether it is a secret."""
    usual = OAuthConfig()
    found: list[tuple[str, str, bool]] = []
    for key, field in FIELD_BY_KEY.items():
        value: object = getattr(oauth, field)
        if value != getattr(usual, field):
            text = " ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)
            found.append((key, text, field in SECRET_FIELDS))
    return tuple(found)
