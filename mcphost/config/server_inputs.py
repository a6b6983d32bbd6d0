"""Inputs as in VS Code's `mcp.json` (`${input:ID}`): their definitions, and storage of their values.

Each value belongs to one server in one file, so that no other entry can refer to it. Passwords are stored in the
keyring, and other values in `inputs.json` in the configuration folder.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mcphost.config.json_files import MAX_FILE_BYTES, decode_text, describe_type, parse_json, read_bytes
from mcphost.config.schema import ServerConfig, ServerInput
from mcphost.config.variable_references import find_references
from mcphost.errors import ConfigError
from mcphost.paths import make_private_directory
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.serialization import as_object, find_member, replace

INPUTS_FILE = "inputs.json"
MAX_INPUTS = 100
MAX_INPUT_LENGTH = 10_000
"""Maximum number of characters of a value."""
_MAX_ID_LENGTH = 100
_MAX_DESCRIPTION_LENGTH = 500
_MAX_OPTIONS = 200
_DEFINITION_KEYS = ("id", "type", "description", "password", "default", "options")
_FOLDER_FILE = "local.json"
"""A file with servers for several folders, in which a server's name may occur once per folder."""


def parse_inputs(
    value: Any, location: str, on_problem: Callable[[str], None], *, is_shared: bool
) -> dict[str, ServerInput]:
    """Return the inputs defined in a VS Code `inputs` list, keyed by id; invalid inputs are reported and skipped.

    *is_shared* means that the list applies to all servers of the file, not just to one entry.
    """
    if value is None:
        return {}
    if not isinstance(value, list):
        on_problem(f'{location}: "inputs" is {describe_type(value)}, not a list; it is not used.')
        return {}
    items = cast("list[Any]", value)
    if len(items) > MAX_INPUTS:
        on_problem(f'{location}: "inputs" has more than {MAX_INPUTS} members; the others are not used.')
    inputs: dict[str, ServerInput] = {}
    for number, item in enumerate(items[:MAX_INPUTS], 1):
        found = _parse_input(item, is_shared=is_shared)
        if isinstance(found, str):
            on_problem(f'{location}: number {number} of "inputs" {found}; it is not used.')
        else:
            inputs.setdefault(found.id, found)
    return inputs


def _parse_input(item: Any, *, is_shared: bool) -> ServerInput | str:
    """Return the input that *item* defines or, if *item* is invalid, a phrase that describes what is wrong."""
    members = as_object(item)
    input_id, kind = members.get("id"), members.get("type")
    if not isinstance(input_id, str) or not 0 < len(input_id) <= _MAX_ID_LENGTH or not _is_plain(input_id):
        return 'has no usable "id"'
    if kind not in ("promptString", "pickString"):
        return 'is not of the type "promptString" or "pickString"'
    texts = {key: members.get(key, "") for key in ("description", "default")}
    if not all(isinstance(text, str) for text in texts.values()):
        return 'has a "description" or "default" that is not text'
    listed = members.get("options")
    options = tuple(_option_value(option) for option in (cast("list[Any]", listed) if isinstance(listed, list) else ()))
    if kind == "pickString" and not (0 < len(options) <= _MAX_OPTIONS and all(options)):
        return f'has no "options", or more than {_MAX_OPTIONS}'
    return ServerInput(
        id=input_id,
        description=sanitize_line(texts["description"], _MAX_DESCRIPTION_LENGTH),
        default=texts["default"][:MAX_INPUT_LENGTH],
        options=options if kind == "pickString" else (),
        password=members.get("password") is True and kind == "promptString",
        is_shared=is_shared,
    )


def format_input(one: ServerInput) -> dict[str, Any]:
    """Return the definition of an input in VS Code's format, without its value."""
    definition: dict[str, Any] = {"id": one.id, "type": "pickString" if one.options else "promptString"}
    if one.description:
        definition["description"] = one.description
    if one.options:
        definition["options"] = list(one.options)
    if one.password:
        definition["password"] = True
    elif one.default:
        definition["default"] = one.default
    return definition


def _option_value(option: Any) -> str:
    """Return the value of an option (a string, or an object with a "value"), or "" if it is invalid."""
    value = cast("dict[str, Any]", option).get("value") if isinstance(option, dict) else option
    return value if isinstance(value, str) and len(value) <= MAX_INPUT_LENGTH else ""


def _is_plain(text: str) -> bool:
    return text == text.strip() and sanitize(text, keep_newlines=False) == text and not set("{}") & set(text)


def add_input_definitions(entry: dict[str, Any], definitions: Any) -> dict[str, Any]:
    """Return a copy of an entry from another file, with the definitions of the inputs that it uses added.

    *definitions* is the other file's list of inputs. Invalid definitions and the defaults of passwords are left out. An
    entry that already defines inputs is returned unchanged.
    """
    ids = referenced_inputs(entry_texts(entry))
    own = entry.get("mcphost", {})
    if not ids or not isinstance(definitions, list) or not isinstance(own, dict) or "inputs" in own:
        return entry
    known = [
        {key: members[key] for key in _DEFINITION_KEYS if key in members and not _is_secret_default(members, key)}
        for item in cast("list[Any]", definitions)[:MAX_INPUTS]
        if isinstance(item, dict)
        and (members := cast("dict[str, Any]", item)).get("id") in ids
        and not isinstance(_parse_input(members, is_shared=False), str)
    ]
    return {**entry, "mcphost": {**cast("dict[str, Any]", own), "inputs": known}} if known else entry


def _is_secret_default(definition: dict[str, Any], key: str) -> bool:
    return key == "default" and bool(definition.get("password"))


def entry_texts(entry: Mapping[str, Any]) -> list[str]:
    """Return the strings in an entry that may contain references; values of other types are left out."""
    values: list[Any] = [entry.get(key) for key in ("command", "url", "cwd", "envFile")]
    for key in ("args", "env", "headers"):
        members = entry.get(key)
        values += cast("list[Any]", members) if isinstance(members, list) else []
        values += cast("dict[str, Any]", members).values() if isinstance(members, dict) else []
    values += as_object(as_object(entry.get("mcphost")).get("oauth")).values()
    return [value for value in values if isinstance(value, str)]


def referenced_inputs(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct ids of the inputs that *texts* refer to."""
    found = (reference.name for text in texts for reference in find_references(text) if reference.kind == "input")
    return tuple(dict.fromkeys(found))


def attach_inputs(definitions: dict[str, ServerInput], file: str, server: str, ids: Sequence[str]) -> list[ServerInput]:
    """Return the definitions of the inputs with the given *ids* for one server; ids without a definition are left out.

    In each password input, `keyring_entry` is set to the name of the keyring entry for the value of this *server* in
    the configuration *file*.
    """
    return [
        replace(one, keyring_entry=_keyring_entry(file, server, one.id)) if one.password else one
        for one in (definitions[input_id] for input_id in ids if input_id in definitions)
    ]


def _scope(file: str) -> str:
    """Return the key in `inputs.json` under which the values for a configuration file are stored.

    For local.json, the key depends on the current folder.
    """
    path = os.path.realpath(file)
    return f"{path}#{os.path.realpath('.')}" if os.path.basename(path) == _FOLDER_FILE else path


def _keyring_entry(file: str, server: str, input_id: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{server}-{input_id}").strip("-").lower()[:60]
    digest = hashlib.sha256("\0".join((_scope(file), server, input_id)).encode(errors="surrogatepass"))
    return f"input-{plain}-{digest.hexdigest()[:16]}"


def with_input_values(
    servers: Sequence[ServerConfig], directory: Path, on_problem: Callable[[str], None]
) -> list[ServerConfig]:
    """Return *servers* with the values of their inputs, other than passwords, from `inputs.json` in *directory*.

    An invalid file is reported to *on_problem*; the servers are then returned unchanged.
    """
    if not any(server.inputs for server in servers):
        return list(servers)
    path = directory / INPUTS_FILE
    try:
        stored = parse_json(decode_text(read_bytes(path), str(path)), str(path))
    except FileNotFoundError:
        return list(servers)
    except ConfigError as error:
        on_problem(str(error))
        return list(servers)
    return [_with_values(server, find_member(stored, (_scope(server.file), server.name))) for server in servers]


def _with_values(server: ServerConfig, stored: Any) -> ServerConfig:
    values = as_object(stored)
    if not values:
        return server
    return replace(server, inputs=tuple(_with_value(one, values.get(one.id)) for one in server.inputs))


def _with_value(one: ServerInput, value: Any) -> ServerInput:
    is_valid = isinstance(value, str) and not one.password and (not one.options or value in one.options)
    return replace(one, stored_value=value) if is_valid else one


def check_input_value(one: ServerInput, value: str) -> None:
    """Check that a value is valid for an input. Raises ConfigError, whose message does not quote the value."""
    if len(value) > MAX_INPUT_LENGTH or "\0" in value:
        raise ConfigError(f"The value of {one.id} is over {MAX_INPUT_LENGTH:,} characters, or has a NUL character.")
    if one.options and value not in one.options:
        known = ", ".join(sanitize(option, keep_newlines=False) for option in one.options)
        raise ConfigError(f"That is not a value of {one.id}.", f"Choose one of: {known}.")


def save_input_value(directory: Path, server: ServerConfig, input_id: str, value: str | None) -> None:
    """Store a value other than a password in `inputs.json` in *directory*; None removes the stored value.

    If this fails, ConfigError is raised and nothing is written.
    """
    from mcphost.config.file_edits import read_snapshot, replace_if_unchanged  # only needed to change the file
    from mcphost.config.json_edits import remove_member, set_member

    path = directory / INPUTS_FILE
    try:
        before = read_snapshot(path)
    except FileNotFoundError:
        before = None
    text = decode_text(before.content, str(path)) if before else ""
    keys = (_scope(server.file), server.name, input_id)
    if value is not None:
        edited = set_member(text, str(path), keys, value)
    elif find_member(parse_json(text or "{}", str(path)), keys) is not None:
        edited = remove_member(text, str(path), keys)
    else:
        return
    if len(edited.encode()) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} would be over {MAX_FILE_BYTES // 1_000} kB.", "Remove values that you do not need.")
    try:
        make_private_directory(directory)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be created: {error.strerror}.", "Check its permissions.") from error
    replace_if_unchanged(path, before, edited.encode(), mode=0o600)
