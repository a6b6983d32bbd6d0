"""Sign-in settings in a server's entry: the object `mcphost.oauth`."""

from typing import Any, cast

from mcphost.config.json_files import describe_type
from mcphost.config.schema import OAuthConfig
from mcphost.config.value_conversion import InvalidValue, convert_value, settable_fields
from mcphost.errors import ConfigError
from mcphost.sanitize import sanitize_line

FIELD_BY_KEY = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "issuer": "issuer",
    "resource": "resource",
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
"""Field names of OAuthConfig, by their keys in mcp.json."""
SECRET_FIELDS = ("client_secret", "key", "assertion", "idp_token")
"""Fields of OAuthConfig that may contain references, and whose values are never shown."""


def parse_oauth(value: Any, location: str) -> OAuthConfig:
    """Parse the value of `mcphost.oauth`; None gives the default settings.

    *location* names the file and the server in error messages. Raises ConfigError for an unknown key or an invalid
    value.
    """
    if value is None:
        return OAuthConfig()
    if not isinstance(value, dict):
        raise ConfigError(
            f'{location}: "mcphost.oauth" is {describe_type(value)}, not an object.', "Correct or remove it."
        )
    fields, values = settable_fields(OAuthConfig), dict[str, Any]()
    for key, member in cast("dict[str, Any]", value).items():
        shown = sanitize_line(key, 60)
        if key not in FIELD_BY_KEY:
            raise ConfigError(
                f'{location}: "mcphost.oauth" has the unknown key "{shown}".', f"Known keys: {', '.join(FIELD_BY_KEY)}."
            )
        try:
            values[FIELD_BY_KEY[key]] = convert_value(member, fields[FIELD_BY_KEY[key]].type)
        except InvalidValue as error:
            raise ConfigError(f'{location}: "mcphost.oauth.{shown}" {error}.', "Correct it.") from error
    oauth = OAuthConfig(**values)
    if not (oauth.seconds == 0 or 1 <= oauth.seconds <= 3600):
        raise ConfigError(f'{location}: "mcphost.oauth.seconds" is not between 1 and 3600.', "Correct it.")
    return oauth


def list_non_defaults(oauth: OAuthConfig) -> tuple[tuple[str, str, bool], ...]:
    """List the non-default OAuth settings as tuples: key in mcp.json, value as text, and whether it is secret."""
    default = OAuthConfig()
    if oauth == default:
        return ()
    configured: list[tuple[str, str, bool]] = []
    for key, field in FIELD_BY_KEY.items():
        value: object = getattr(oauth, field)
        if value != getattr(default, field):
            text = " ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)
            configured.append((key, text, field in SECRET_FIELDS))
    return tuple(configured)
