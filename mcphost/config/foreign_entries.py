"""Server entries that somebody else wrote: settings in them that only the user may decide."""

from shlex import quote
from typing import Any, cast

from mcphost.config.mcp_json import OWN_KEY
from mcphost.sanitize import sanitize

_KEPT_KEYS = frozenset(
    {"timeout", "caFile", "logLevel", "reviewResults", "era", "revision", "oauth", "inputs", "watch", "disabled",
     "disabledTools"}
)  # fmt: skip
"""Settings under `mcphost` that widen nothing, or that the approval covers and shows."""

_RESERVED_OAUTH_KEYS = frozenset({"private", "resource"})
_MAX_NAMED_KEYS = 10
_MAX_KEY_LENGTH = 60


def drop_reserved_settings(name: str, entry: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a copy of an entry without the settings that only the user may decide, and sentences that name them.

    *name* is the server's name. Such settings are `trustAnnotations`, `sampling`, `oauth.private`, `oauth.resource`,
    the origin of updates (`registry`), and all unknown keys under `mcphost`.
    """
    own = entry.get(OWN_KEY)
    if not isinstance(own, dict):
        return entry, ()
    members = cast("dict[str, Any]", own)
    kept = {key: value for key, value in members.items() if key in _KEPT_KEYS or _is_off(value)}
    dropped = [key for key in members if key not in kept]
    oauth = kept.get("oauth")
    if isinstance(oauth, dict):
        pairs = cast("dict[str, Any]", oauth).items()
        reserved = [key for key, value in pairs if key in _RESERVED_OAUTH_KEYS and not _is_off(value)]
        dropped += [f"oauth.{key}" for key in reserved]
        kept["oauth"] = {key: value for key, value in pairs if key not in reserved}
    if not dropped:
        return entry, ()
    shown = [f'"{OWN_KEY}.{sanitize(key[:_MAX_KEY_LENGTH], keep_newlines=False)}"' for key in dropped]
    named = ", ".join(shown[:_MAX_NAMED_KEYS]) + (", …" if len(shown) > _MAX_NAMED_KEYS else "")
    command = f"mcphost servers edit {quote(name)}"
    note = f"Left out, because only you may decide this: {named}. Set it with {command} if you want it."
    rest = {key: value for key, value in entry.items() if key != OWN_KEY}
    return {**rest, OWN_KEY: kept} if kept else rest, (note,)


def _is_off(value: object) -> bool:
    """Return whether a setting has a value that is the same as no setting."""
    return value is None or value is False or value in ("", {})
