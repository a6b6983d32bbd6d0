"""Server entries that the user did not write.

The functions remove the settings that only the user may decide, and keep the user's restrictions when such
an entry replaces one of the user's own entries.
"""

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any, cast

from mcphost.config.mcp_json import OWN_KEY
from mcphost.config.schema import SAMPLING_FIELD_BY_KEY, SamplingLimits
from mcphost.sanitize import sanitize_line
from mcphost.serialization import as_object

_KEPT_KEYS = frozenset(
    {"timeout", "caFile", "logLevel", "reviewResults", "era", "revision", "oauth", "inputs", "watch", "disabled",
     "disabledTools"}
)  # fmt: skip
"""Settings under `mcphost` that give a server no additional rights, or that the user sees before approving it."""

_RESTRICTIONS = ("reviewResults", "disabledTools", "timeout")
"""Settings under `mcphost` that only restrict a server, whatever program or URL it has."""
_SWITCHES = ("disabledTools", "disabled")
"""Settings that may also be outside of `mcphost`."""

_RESERVED_OAUTH_KEYS = frozenset({"private", "resource"})
_MAX_NAMED_KEYS = 10
_MAX_KEY_LENGTH = 60


def drop_reserved_settings(name: str, entry: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a copy of an entry without the settings that only the user may decide, and sentences that name them.

    These settings are `trustAnnotations`, `sampling`, `oauth.private`, `oauth.resource`, the registry from which
    updates come (`registry`), and all unknown keys under `mcphost`. *name* is the server's name.
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
    named = _name_keys(f"{OWN_KEY}.{key}" for key in dropped)
    command = f"mcphost servers edit {quote(name)}"
    note = f"Left out, because only you may decide this: {named}. Set it with {command} if you want it."
    rest = {key: value for key, value in entry.items() if key != OWN_KEY}
    return {**rest, OWN_KEY: kept} if kept else rest, (note,)


def keep_restrictions(
    name: str, old: Mapping[str, Any], new: dict[str, Any], limits: SamplingLimits
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return *new*, which replaces the entry *old*, with the user's restrictions copied from *old*.

    The restrictions are `reviewResults`, `disabledTools`, `timeout`, and the members of `sampling` that are lower
    than *limits*, the default limits. A restriction that *new* sets itself is not changed. The other mcphost
    settings in *old* are lost, because they may be right only for the program or URL of the old entry.

    Also returns sentences for the user, which list the restrictions that were kept and the settings that were lost.
    *name* is the server's name.
    """
    before, own = _own_settings(old), dict(_own_settings(new))
    entry = dict(new)
    sets_tools = any("disabledTools" in one for one in (new, own))
    if old.get("disabledTools") and not sets_tools:
        entry["disabledTools"] = old["disabledTools"]
    for key in _RESTRICTIONS:
        if not _is_off(before.get(key)) and key not in own and not (key == "disabledTools" and sets_tools):
            own[key] = before[key]
    if "sampling" not in own and (lower := _lower_limits(before.get("sampling"), limits)):
        own["sampling"] = lower
    if own:
        entry[OWN_KEY] = own
    kept, lost = _compare(old, before, new, entry)
    notes = [f"Kept from the entry that is replaced: {_name_keys(kept)}."] if kept else []
    if lost:
        command = f"mcphost servers edit {quote(name)}"
        notes.append(
            f"Not kept from the entry that is replaced: {_name_keys(lost)}. Set it with {command} if you want it."
        )
    return entry, tuple(notes)


def _compare(
    old: Mapping[str, Any], before: Mapping[str, Any], new: Mapping[str, Any], entry: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Return the keys of the settings that were copied from a replaced entry, and those of the settings that were lost.

    - *old* is the replaced entry, and *before* its "mcphost" object.
    - *new* is the replacement as it was given, and *entry* the replacement with the copied restrictions.

    A setting of *old* is lost if *entry* does not contain it, or contains it with another value. Settings without
    effect (see `_is_off`) are not reported.
    """
    pairs = [(key, old[key], new, entry) for key in _SWITCHES if key in old]
    pairs += [(f"{OWN_KEY}.{key}", value, _own_settings(new), _own_settings(entry)) for key, value in before.items()]
    kept: list[str] = []
    lost: list[str] = []
    for path, value, given, result in pairs:
        key = path.removeprefix(f"{OWN_KEY}.")
        if key in result and key not in given:
            kept.append(path)
        if key == "sampling" and key in result:
            members, limits = as_object(value), as_object(result[key])
            lost += [f"{path}.{one}" for one, limit in members.items() if limits.get(one) != limit]
        elif not _is_off(value) and result.get(key) != value:
            lost.append(path)
    return kept, lost


def _lower_limits(sampling: object, limits: SamplingLimits) -> dict[str, int]:
    """Return the limits in *sampling* that are stricter than those in *limits*, keyed by their names in mcp.json.

    *sampling* is the value of `mcphost.sampling` in an entry.
    """
    members = as_object(sampling)
    return {
        key: members[key]
        for key, field in SAMPLING_FIELD_BY_KEY.items()
        if type(members.get(key)) is int and members[key] < getattr(limits, field)
    }


def _own_settings(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_object(entry.get(OWN_KEY))


def _name_keys(keys: Iterable[str]) -> str:
    shown = [f'"{sanitize_line(key, _MAX_KEY_LENGTH)}"' for key in keys]
    return ", ".join(shown[:_MAX_NAMED_KEYS]) + (", …" if len(shown) > _MAX_NAMED_KEYS else "")


def _is_off(value: object) -> bool:
    """Return whether a value means the same as a missing setting: None, False, "" or {}."""
    return value is None or value is False or value in ("", {})
