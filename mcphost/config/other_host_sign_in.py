"""Sign-in settings in server entries of other MCP hosts, converted to the settings of `mcp.json`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mcphost.config.variable_references import find_references
from mcphost.serialization import as_object

_CLIENT_ID_KEYS = ("clientId", "client_id", "CLIENT_ID")
_CLIENT_SECRET_KEYS = ("clientSecret", "client_secret", "CLIENT_SECRET")
_MAX_PORT = 65_535
_AUTHORIZATION = "Authorization"


class ForeignSignIn(NamedTuple):
    """Another host's settings for signing in to a remote server.

    `oauth` has the keys of `mcphost.oauth` in `mcp.json`. `headers` are sent with each request. `notes` are sentences
    for the user, for example about settings that are not imported.
    """

    oauth: dict[str, Any]
    headers: dict[str, str]
    notes: tuple[str, ...]


def read_sign_in(entry: Mapping[str, Any], title: str) -> ForeignSignIn:
    """Return the sign-in settings in a server's entry from the configuration of the host called *title*.

    These are `oauth` (Claude Code, Gemini CLI, opencode), `auth` with a client ID (Cursor) or a bearer token (oterm),
    and the port of a registered redirect URI. References in a client secret are returned unchanged.
    """
    notes: list[str] = []
    if entry.get("headersHelper"):
        notes.append(f"Its headersHelper was left out: {title} runs this program to get the headers.")
    if (provider := entry.get("authProviderType")) and provider != "dynamic_discovery":
        notes.append(f"Its authProviderType was left out: {title} signs in with an account of Google.")
    headers: dict[str, str] = {}
    auth = as_object(entry.get("auth"))
    if auth.get("type") == "bearer" and isinstance(token := auth.get("token"), str) and token:
        headers[_AUTHORIZATION] = f"Bearer {token}"
    oauth: dict[str, Any] = {}
    for members in (as_object(entry.get("oauth")), auth):
        if client_id := _first_text(members, _CLIENT_ID_KEYS):
            oauth, reason = _read_client(members, client_id, title)
            notes.append(reason)
            break
    return ForeignSignIn(oauth, headers, tuple(notes))


def _read_client(members: Mapping[str, Any], client_id: str, title: str) -> tuple[dict[str, Any], str]:
    """Return the settings of a client that the user registered for the host *title*, and a sentence about them.

    If *client_id* is a reference to a variable, the settings are empty, and the sentence says that the client ID was
    left out.
    """
    if find_references(client_id) or "{env:" in client_id:
        return {}, "Its client ID was left out: it is a reference, which mcphost fills in only in secrets."
    oauth: dict[str, Any] = {"clientId": client_id}
    if secret := _first_text(members, _CLIENT_SECRET_KEYS):
        oauth["clientSecret"] = secret
    port = members.get("callbackPort")
    if isinstance(port, int) and not isinstance(port, bool) and 0 < port <= _MAX_PORT:
        oauth["port"] = port
    note = f"Its client ID was registered for {title}. If the sign-in is refused, register mcphost's address, too."
    return oauth, note


def _first_text(members: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if isinstance(text := members.get(key), str) and text), "")
