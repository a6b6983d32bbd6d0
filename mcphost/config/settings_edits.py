"""Edits of config.toml that set one table and preserve comments, order and all other values."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcphost.config.file_edits import read_snapshot, replace_if_unchanged
from mcphost.config.json_files import decode_text
from mcphost.config.schema import ModelConfig, Profile, SecretStore
from mcphost.config.value_conversion import settable_fields
from mcphost.errors import ConfigError
from mcphost.paths import make_private_directory
from mcphost.serialization import as_object

_MODEL_KEYS_OF_NAME = (
    "context_window",
    "max_output_tokens",
    "input_price",
    "output_price",
    "cached_input_price",
    "reasoning_effort",
    "temperature",
    "top_p",
    "tools",
    "headers",
    "api",
    "api_base",
    "api_key_env",
)
"""Settings in `[model]` that apply to one model only and are removed when another model is saved."""
_MAX_HEADER = 1_000
_MAX_KEY_PARTS = 50


def save_model(path: Path, model: ModelConfig, profile: str = "") -> None:
    """Set `[model]` in a config.toml to the non-default values of *model*.

    The file is created if it is missing. If *profile* is given, the model is instead set in the table
    `[profiles.NAME]` of this profile, which must exist. If this fails, the file is left unchanged and ConfigError
    is raised; its hint contains the lines to write.
    """
    values = _model_values(model)
    edit = partial(set_profile_model, profile=profile) if profile else set_model
    try:
        _edit_file(path, lambda text: edit(text, values=values))
    except (ConfigError, ValueError, OSError) as error:
        place = f"as `model` of the profile {profile!r}" if profile else "under [model]"
        raise _edit_error(path, error, place, values) from error


def save_profile(path: Path, profile: Profile) -> None:
    """Add `[profiles.NAME]` to a config.toml; create the file if it is missing.

    If this fails or the profile already exists, ConfigError is raised and the file is left unchanged.
    """
    parts = {
        "description": profile.description,
        "model": _model_values(profile.model) if profile.model is not None else None,
        "system_prompt": profile.system_prompt,
        "servers": list(profile.servers) if profile.servers is not None else None,
    }
    values = {key: value for key, value in parts.items() if value is not None and value != ""}
    try:
        _edit_file(path, lambda text: add_profile(text, profile.name, values))
    except (ConfigError, ValueError, OSError) as error:
        raise _edit_error(path, error, f"under [profiles.{profile.name}]", values) from error


def change_profile(path: Path, profile: Profile) -> None:
    """Replace the description, the servers and the system prompt of a profile in a config.toml.

    Everything else in its table is kept, including its model. If this fails, ConfigError is raised and the file is left
    unchanged.
    """
    values = {
        "description": profile.description or None,
        "system_prompt": profile.system_prompt,
        "servers": None if profile.servers is None else list(profile.servers),
    }
    try:
        _edit_file(path, lambda text: set_profile_values(text, profile.name, values))
    except (ConfigError, ValueError, OSError) as error:
        kept = {key: value for key, value in values.items() if value is not None}
        raise _edit_error(path, error, f"under [profiles.{profile.name}]", kept) from error


def remove_profile(path: Path, name: str) -> None:
    """Remove `[profiles.NAME]` from a config.toml, and also `profile = "NAME"` if that is set.

    If this fails, ConfigError is raised and the file is left unchanged.
    """
    try:
        _edit_file(path, lambda text: without_profile(text, name))
    except (ConfigError, ValueError, OSError) as error:
        reason = error.message if isinstance(error, ConfigError) else f"{path} cannot be changed safely."
        raise ConfigError(reason, f"Remove [profiles.{name}] from it yourself.") from error


def save_secret_store(path: Path, store: SecretStore) -> None:
    """Set `secrets.store` in the config.toml at *path*; create the file if it is missing.

    Raises ConfigError if this fails; the hint tells the user which line to add.
    """
    try:
        _edit_file(path, lambda text: add_secret_store(text, store))
    except (ConfigError, ValueError, OSError) as error:
        reason = error.message if isinstance(error, ConfigError) else f"{path} cannot be changed safely."
        raise ConfigError(reason, f'Add it yourself: [secrets] store = "{store}"') from error


def _model_values(model: ModelConfig) -> dict[str, Any]:
    """Return the settings of a model that differ from their defaults."""
    default = ModelConfig()
    pairs = ((key, getattr(model, key)) for key in settable_fields(ModelConfig))
    return {key: value for key, value in pairs if value != getattr(default, key)}


def _edit_file(path: Path, edit: Callable[[str], str]) -> None:
    """Replace the text of a file with the result of *edit*; create the file if it is missing."""
    try:
        before = read_snapshot(path)
    except FileNotFoundError:
        before = None
        make_private_directory(path.parent)
    text = decode_text(before.content, str(path)) if before else ""
    replace_if_unchanged(path, before, edit(text).encode())


def _edit_error(path: Path, error: Exception, place: str, values: Mapping[str, Any]) -> ConfigError:
    reason = error.message if isinstance(error, ConfigError) else f"{path} cannot be changed safely."
    lines = "; ".join(f"{key} = {value!r}" for key, value in values.items())
    return ConfigError(reason, f"Write it yourself, {place}: {lines}")


def set_model(text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a config.toml with the settings in `[model]` replaced by *values*.

    Prices and unknown keys are kept. Dictionaries are written as inline tables. Raises ValueError if the text
    is invalid, or if the edit would change any other value.
    """
    import tomlkit

    before = tomllib.loads(text)
    document = cast("dict[str, Any]", tomlkit.parse(text))
    old = document.get("model")
    if isinstance(old, dict):
        table = cast("dict[str, Any]", old)
        for key in _MODEL_KEYS_OF_NAME:
            if key in table and key not in values:
                del table[key]
        for key, value in values.items():
            table[key] = _make_item(value)
    else:
        if old is not None:
            del document["model"]
        table = tomlkit.table()
        for key, value in values.items():
            table.add(key, _make_item(value))
        document["model"] = table
    edited = tomlkit.dumps(cast("Any", document))
    previous = before.get("model")
    members = as_object(previous)
    kept = {key: value for key, value in members.items() if key not in _MODEL_KEYS_OF_NAME}
    if tomllib.loads(edited) != {**before, "model": {**kept, **values}}:
        raise ValueError("another value would change")
    return edited


def set_profile_model(text: str, profile: str, values: Mapping[str, Any]) -> str:
    """Return the text of a config.toml in which *values* replace the model in `[profiles.NAME]`.

    Raises ValueError if the text is invalid, if the profile does not exist, or if the edit would change any
    other value.
    """
    import tomlkit

    expected = tomllib.loads(text)
    document = cast("dict[str, Any]", tomlkit.parse(text))
    try:
        document["profiles"][profile]["model"] = _make_item(dict(values))
        expected["profiles"][profile]["model"] = dict(values)
    except (KeyError, TypeError) as error:
        raise ValueError("there is no such profile") from error
    edited = tomlkit.dumps(cast("Any", document))
    if tomllib.loads(edited) != expected:
        raise ValueError("another value would change")
    return edited


def add_profile(text: str, name: str, values: Mapping[str, Any]) -> str:
    """Return the text of a config.toml with *values* as the new table `[profiles.NAME]`.

    Raises ValueError if the text is invalid, if the profile already exists, or if the edit would change any
    other value.
    """
    import tomlkit

    before = tomllib.loads(text)
    profiles = before.get("profiles", {})
    if not isinstance(profiles, dict) or name in profiles:
        raise ValueError("there is such a profile")
    document = cast("dict[str, Any]", tomlkit.parse(text))
    table = tomlkit.table()
    for key, value in values.items():
        table.add(key, _make_item(value))
    if "profiles" in document:
        document["profiles"][name] = table
    else:
        parent = tomlkit.table(is_super_table=True)
        parent.add(name, table)
        document["profiles"] = parent
    edited = tomlkit.dumps(cast("Any", document))
    if tomllib.loads(edited) != {**before, "profiles": {**profiles, name: dict(values)}}:
        raise ValueError("another value would change")
    return edited


def set_profile_values(text: str, name: str, values: Mapping[str, Any]) -> str:
    """Return the text of a config.toml in which *values* replace those of `[profiles.NAME]`; None removes a value.

    Unchanged values keep their formatting, such as that of a multi-line string. Raises ValueError if the text is
    invalid, if the profile does not exist, or if the edit would change any other value.
    """
    expected = tomllib.loads(text)
    try:
        before = expected["profiles"][name]
        changed = {key: value for key, value in values.items() if before.get(key) != value}
        expected["profiles"][name] = {key: value for key, value in {**before, **values}.items() if value is not None}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("there is no such profile") from error
    own = next((one for one in find_sections(text) if one.keys == ("profiles", name)), None)
    ends = (len(text),) if own is None else (own.end, len(text))  # a comment after it is about the next table
    for end in ends:
        with suppress(KeyError, TypeError, ValueError):
            edited = _set_in_profile(text[:end], name, changed) + text[end:]
            if tomllib.loads(edited) == expected:
                return edited
    raise ValueError("another value would change")


def _set_in_profile(text: str, name: str, values: Mapping[str, Any]) -> str:
    import tomlkit

    line = text if text.endswith("\n") else f"{text}\n"
    document = cast("dict[str, Any]", tomlkit.parse(line))
    table = document["profiles"][name]
    for key, value in values.items():
        if value is not None:
            table[key] = _make_item(value)
        else:
            del table[key]
    return tomlkit.dumps(cast("Any", document))


def without_profile(text: str, name: str) -> str:
    """Return the text of a config.toml without `[profiles.NAME]`, and without `profile = "NAME"`.

    Comments above other tables are kept. Raises ValueError if the text is invalid, if the profile does not exist, or if
    the edit would change any other value.
    """
    expected = tomllib.loads(text)
    try:
        del expected["profiles"][name]
    except (KeyError, TypeError) as error:
        raise ValueError("there is no such profile") from error
    if expected.get("profile") == name:
        del expected["profile"]
    rest = text
    for section in reversed([*find_sections(text)]):
        if section.keys[:2] == ("profiles", name):
            above, below = rest[: section.start], rest[section.end :]
            rest = above + (below.removeprefix("\n") if above.endswith("\n\n") or not above else below)
    for start in (rest, text):
        with suppress(KeyError, TypeError, ValueError):
            edited = _without_profile(start, name, is_selected="profile" not in expected)
            if {"profiles": {}, **tomllib.loads(edited)} == {"profiles": {}, **expected}:
                return edited
    raise ValueError("another value would change")


def _without_profile(text: str, name: str, *, is_selected: bool) -> str:
    import tomlkit

    document = cast("dict[str, Any]", tomlkit.parse(text))
    if name in document.get("profiles", {}):
        del document["profiles"][name]
    if is_selected and "profile" in document:
        del document["profile"]
    edited = tomlkit.dumps(cast("Any", document))
    return edited if text.startswith(("\n", "\r")) else edited.lstrip("\r\n")


def add_secret_store(text: str, store: SecretStore) -> str:
    """Return the text of a config.toml with the setting `secrets.store` added.

    Returns *text* unchanged if the setting already has the value *store*. Raises ValueError if the text is
    invalid, if `secrets.store` has another value, or if the edit would change any other value.
    """
    import tomlkit

    before = tomllib.loads(text)
    table = before.get("secrets", {})
    if isinstance(table, dict) and cast("dict[str, Any]", table).get("store") == store:
        return text
    if not isinstance(table, dict) or "store" in table:
        raise ValueError("secrets.store is already set")
    document = cast("dict[str, Any]", tomlkit.parse(text))
    document.setdefault("secrets", tomlkit.table())["store"] = store
    edited = tomlkit.dumps(cast("Any", document))
    if tomllib.loads(edited) != {**before, "secrets": {**table, "store": store}}:
        raise ValueError("another value would change")
    return edited


def _make_item(value: Any) -> Any:
    """Convert a value for tomlkit; a dictionary becomes an inline table instead of a separate one."""
    import tomlkit

    if not isinstance(value, dict):
        return value
    table = tomlkit.inline_table()
    for key, member in cast("dict[str, Any]", value).items():
        table.append(key, _make_item(member))
    return table


class TomlSection(NamedTuple):
    """A table with a header such as `[a.b]`: the `keys` in the header, and the table's position in the text.

    `end` is the position after the table's last value. Blank lines and comments between this value and the next table
    are not part of the table.
    """

    keys: tuple[str, ...]
    start: int
    end: int


def find_sections(text: str) -> Iterator[TomlSection]:
    """Yield the tables of *text*, which is valid TOML, in order.

    A line inside a multi-line string can be mistaken for a header. Callers must therefore check that an edit has
    changed no other value.
    """
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if line.lstrip(" \t").startswith("[")]
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    for first, following in pairwise([*headers, len(lines)]):
        keys = _read_keys(lines[first])
        if keys:
            yield TomlSection(keys, offsets[first], offsets[_find_content_end(lines, first, following)])


def _find_content_end(lines: list[str], first: int, following: int) -> int:
    """Return the number of the line after the content of the table whose header is the line *first*.

    *following* is the line of the next header. Blank lines and comments after the last value belong to the next
    table. However, comments directly below the last value belong to this table if a blank line follows them.
    """
    end = following
    while end > first + 1 and _is_blank_or_comment(lines[end - 1]):
        end -= 1
    blank = next((number for number in range(end, following) if not lines[number].strip()), None)
    return end if blank is None else blank


def _is_blank_or_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _read_keys(line: str) -> tuple[str, ...]:
    """Return the keys in the header of a table, or () if *line* is not a header."""
    if line.lstrip().startswith("[[") or len(line) > _MAX_HEADER or line.count(".") > _MAX_KEY_PARTS:
        return ()
    try:
        table: Any = tomllib.loads(line)
    except ValueError:
        return ()
    keys: list[str] = []
    while isinstance(table, dict) and table:
        key, table = next(iter(cast("dict[str, Any]", table).items()))
        keys.append(key)
    return tuple(keys)
