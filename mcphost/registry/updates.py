"""Updates of servers that were installed from a registry.

This module reads the records of where each server was installed from, and creates updated mcp.json entries.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, cast

from mcphost.registry.plan import InstallOption, PlannedEntry
from mcphost.registry.plan_inputs import PlanInput, list_inputs
from mcphost.registry.planned_values import PlannedValue, ValuePart
from mcphost.serialization import Struct, as_object, replace

_REPLACED_KEYS = frozenset({"command", "args", "url", "type", "transport", "env", "headers"})
_MAX_TEXT = 8_192
_MAX_VALUES = 200


class InstalledServer(Struct, frozen=True, kw_only=True):
    """Record of where a server was installed from, stored in the server's mcp.json entry.

    - `name`: the server's name in mcp.json.
    - `url`: the URL of the registry.
    - `server`: the server's name in the registry.
    - `version`: the installed version.
    - `kind`: the kind of package, or "remote".
    - `inputs`: the values that the user entered for arguments and the URL.
    """

    name: str
    url: str
    server: str
    version: str
    kind: str
    inputs: dict[str, list[str]]

    def values_for(self, option: InstallOption) -> dict[str, list[str]]:
        """Return the recorded values of all inputs that *option* has, keyed by the input's name.

        Values of inputs that the recorded version had, but *option* does not, are omitted.
        """
        known = {one.name for one in option.inputs}
        return {name: list(texts) for name, texts in self.inputs.items() if name in known}


def read_record(entry: Mapping[str, Any], name: str) -> InstalledServer | None:
    """Return the installation record in a server's mcp.json entry, or None if there is no valid record."""
    record = as_object(entry.get("mcphost")).get("registry")
    if not isinstance(record, dict):
        return None
    members = cast("dict[str, Any]", record)
    texts = {key: members.get(key, "") for key in ("url", "name", "version", "from")}
    if (
        not all(isinstance(text, str) and len(text) <= _MAX_TEXT for text in texts.values())
        or not texts["name"]
        or not texts["url"]
    ):
        return None
    inputs: dict[str, list[str]] = {}
    given = members.get("inputs")
    for key, values in list(cast("dict[str, Any]", given).items() if isinstance(given, dict) else ())[:_MAX_VALUES]:
        listed = cast("list[Any]", values)[:_MAX_VALUES] if isinstance(values, list) else []
        if listed and all(isinstance(value, str) for value in listed):
            inputs[key] = listed
    return InstalledServer(
        name=name, url=texts["url"], server=texts["name"], version=texts["version"], kind=texts["from"], inputs=inputs
    )


def merge_update(
    planned: PlannedEntry,
    inputs: Sequence[PlanInput],
    asked: Mapping[str, Mapping[str, Set[str]]],
    old: Mapping[str, Any],
    given: Set[str],
) -> tuple[dict[str, Any], PlannedEntry]:
    """Merge *planned* into *old*, the mcp.json entry of an installed server.

    Returns the new entry and the updated plan, which lists only the inputs that still need a value. The user's settings
    are kept. *asked* maps each variable and header to the names of the inputs that it is built from, and *given*
    contains the names of the inputs with new values. A variable or header that is built from inputs keeps its value in
    *old*, which may refer to a secret, if none of these inputs is in *given*.
    """
    kept: set[str] = set()
    values = {value.keys: value for value in planned.values}
    entry = {key: value for key, value in old.items() if key not in _REPLACED_KEYS} | planned.entry
    for section, names_by_key in asked.items():
        known: dict[str, str] = as_object(old.get(section))
        new: dict[str, str] = {**known, **planned.entry.get(section, {})}
        for key, names in names_by_key.items():
            if key in known and names and names.isdisjoint(given):
                new[key] = known[key]
                kept |= names
                value = values.get((section, key))
                if value is not None and value.text != known[key]:
                    values[section, key] = _keep_value(value, known[key])
        if new:
            entry[section] = new
    in_words = {one.name for one in inputs if one.place in ("argument", "address")}
    missing = tuple(name for name in planned.missing if name not in kept or name in in_words)
    return entry, replace(planned, missing=missing, values=tuple(values.values()))


def _keep_value(value: PlannedValue, text: str) -> PlannedValue:
    """Return *value* with its text replaced by *text*, the value in the user's mcp.json.

    If *value* contained a secret of the user (see `PlannedValue.has_secret`), the whole text counts as a secret.
    """
    return replace(value, parts=(ValuePart(text, is_typed=True, is_secret=value.has_secret),))


def input_names(option: InstallOption) -> dict[str, dict[str, set[str]]]:
    """Return the names of the inputs used in each environment variable or header of an option.

    The outer key is "env" or "headers"; the inner key is the name of the variable or header.
    """
    section, ones = "env", option.package.environment_variables if option.package is not None else ()
    if option.remote is not None:
        section, ones = "headers", option.remote.headers
    return {section: {one.name: {wanted.name for wanted in list_inputs("environment", [one])} for one in ones}}
