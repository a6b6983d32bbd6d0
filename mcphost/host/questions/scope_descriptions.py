"""Descriptions of OAuth scopes, shown next to the raw names, which are what counts."""

import re

_KNOWN = {
    "offline_access": "stay signed in while you are away",
    "openid": "know that it is you",
    "profile": "see your name and picture",
    "email": "see your e-mail address",
    "phone": "see your phone number",
    "address": "see your postal address",
}
_VERBS = {
    "read": "read", "readonly": "read", "view": "read", "get": "read", "list": "list", "search": "search",
    "write": "read and change", "readwrite": "read and change", "edit": "change", "update": "change",
    "modify": "change", "create": "create", "add": "add", "delete": "delete", "remove": "delete", "send": "send",
    "execute": "run", "exec": "run", "invoke": "run", "call": "run", "run": "run", "use": "use",
    "admin": "administer", "manage": "manage", "full": "do everything with", "all": "do everything with",
}  # fmt: skip
_GENERIC_PARTS = {"api", "auth", "com", "default", "mcp", "scope", "scopes", "user", "v1", "v2"}
_PARTS = re.compile(r"[:./_\-\s]+")
_MAX_LENGTH = 200


def describe_scope(scope: str) -> str:
    """Return what a scope seems to permit, guessed from its name; "" if it is unclear."""
    if scope.lower() in _KNOWN:
        return _KNOWN[scope.lower()]
    name = scope[:_MAX_LENGTH]
    if "://" in name:
        name = name.rpartition("/")[2]  # the last segment of an address names the scope
    parts = [part for part in _PARTS.split(name.lower()) if part]
    if not parts or not all(part.isascii() and part.isalnum() for part in parts):
        return ""
    verb = next((part for part in parts if part in _VERBS), "")
    things = [part for part in parts if part != verb]
    plain = [part for part in things if part not in _GENERIC_PARTS] or things
    if not verb:
        return ""
    return f"{_VERBS[verb]} {' '.join(plain) or 'everything'}"
