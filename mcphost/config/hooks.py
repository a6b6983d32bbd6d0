"""Hooks: programs that run before or after tool calls, configured in `[[hooks]]` tables.

An invalid hook is an error rather than a warning, because skipping it would allow calls that it was meant to forbid.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from mcphost.config.project_texts import (
    MAX_FOLDERS,
    PROJECT_FOLDER,
    ProjectPlaces,
    ProjectText,
    find_project_root,
    read_instructions,
    read_project_text,
)
from mcphost.config.rule_syntax import parse_alternatives
from mcphost.config.schema import HookConfig, HookSettings
from mcphost.config.toml_files import find_table_line, parse_toml
from mcphost.config.value_conversion import InvalidValue, convert_value, settable_fields
from mcphost.errors import ConfigError, UsageError
from mcphost.paths import is_missing
from mcphost.sanitize import replace_surrogates, sanitize, sanitize_line
from mcphost.serialization import Struct, replace

MAX_HOOKS = 50
HOOKS_FILE = "hooks.toml"
DENIAL = re.compile(rb"""["']decision["']\s*:\s*["']deny["']""")
"""The decision "deny" in a hook's output, which is obeyed even if the output cannot be parsed."""


class HookOutput(Struct, frozen=True):
    """Result of running a hook.

    - `code` is the exit code.
    - `output` is the standard output. If that was too long, `output` is only its beginning; if the rest contained the
      decision "deny", this decision is added at the end.
    - `error_output` is the end of the standard error output.
    - `failure` is a phrase that says how the hook failed, such as that it timed out; "" if it did not fail.
    - `start_error` is the reason why the hook could not be started; "" if it was started. If it is set, `failure`
      is set as well.
    """

    code: int = 0
    output: bytes = b""
    error_output: str = ""
    failure: str = ""
    start_error: str = ""


def parse_hooks(entries: Any, file: str, text: str = "") -> tuple[HookConfig, ...]:
    """Parse the `[[hooks]]` tables of *file*. Raises ConfigError, which names the first invalid hook.

    *text* is the content of the file, in which the line of an invalid hook is looked up.
    """
    if not isinstance(entries, list) or len(cast("list[Any]", entries)) > MAX_HOOKS:
        raise ConfigError(f'{file}: "hooks" is not a list of at most {MAX_HOOKS} tables.', "Write [[hooks]].")
    return tuple(_parse_hook(entry, file, text, at) for at, entry in enumerate(cast("list[Any]", entries), 1))


def _parse_hook(entry: Any, file: str, text: str, number: int) -> HookConfig:
    line = find_table_line(text, "hooks", number)
    where = f"{file}, line {line}: hook {number}" if line else f"{file}: hook {number}"
    fields = settable_fields(HookSettings)
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} is not a table.", "Write [[hooks]].")
    values = dict(cast("dict[str, Any]", entry))
    if unknown := [key for key in values if key not in fields]:
        shown = sanitize_line(unknown[0], 60)
        raise ConfigError(f'{where}: "{shown}" is unknown.', f"Known keys: {', '.join(fields)}.")
    if missing := [key for key in ("event", "command") if key not in values]:
        raise ConfigError(f'{where} has no "{missing[0]}".', "Add it.")
    if isinstance(values.get("match"), str):
        values["match"] = [values["match"]]
    for key, value in values.items():
        try:
            values[key] = convert_value(value, fields[key].type)
        except InvalidValue as error:
            raise ConfigError(f'{where}: "{key}" {error}.', "Correct it.") from error
    settings = HookSettings(**values)
    try:
        rules = tuple(rule for text in settings.match for rule in parse_alternatives(text))
    except UsageError as error:
        raise ConfigError(f'{where}: in "match": {error.message}', error.hint) from error
    return HookConfig(settings=settings, rules=rules, folder=os.path.dirname(os.path.abspath(file)))


def find_hooks_root(places: ProjectPlaces) -> Path:
    """Return the root folder of the project, in which `.mcphost/hooks.toml` is looked up."""
    return find_project_root(Path(os.path.realpath(places.folder)))


def hooks_file(root: Path) -> str:
    """Return the path of a project's hooks file as text, in the form in which approvals store it."""
    return replace_surrogates(str(root / PROJECT_FOLDER / HOOKS_FILE))


def unused_hooks_files(places: ProjectPlaces, root: Path) -> tuple[str, ...]:
    """Return the paths of hooks files that an earlier run may have used, but this one does not use.

    - The project's hooks file in *root* is included if it is missing, because it may have been deleted.
    - Hooks files in the folders above *root* are included, because one of these folders may have been the project's
      root before: if a `.git` folder is created in a subfolder, the subfolder becomes the root.
    """
    above = [one / PROJECT_FOLDER / HOOKS_FILE for one in root.parents][:MAX_FOLDERS]
    own = root / PROJECT_FOLDER / HOOKS_FILE
    paths = [*([own] if _is_missing(own) else []), *(path for path in above if os.path.lexists(path))]
    return tuple(replace_surrogates(str(path)) for path in paths)


def _is_missing(path: Path) -> bool:
    try:
        return is_missing(path)
    except OSError:  # such as a link with an overlong target; reported when the file is read
        return False


def read_project_hooks(root: Path, on_problem: Callable[[str], None]) -> ProjectText | None:
    """Return the `.mcphost/hooks.toml` of the project in *root*, or None if the file is missing or unusable.

    An unusable file is reported to *on_problem*. Blocks while reading.
    """
    return read_project_text(root / PROJECT_FOLDER / HOOKS_FILE, root, on_problem)


def approve_current_files(places: ProjectPlaces) -> ProjectPlaces:
    """Return *places* with the project's current instructions and hooks approved for this run.

    Unusable files are skipped without a report, because they are reported when they are read for use. Blocks while
    reading.
    """
    problems: list[str] = []
    root = find_hooks_root(places)
    hooks = read_project_hooks(root, problems.append)
    texts = (*read_instructions(places, problems.append), *([] if hooks is None else [hooks]))
    approved = frozenset((text.path, text.digest) for text in texts)
    return replace(places, approval="flag", approved_files=approved, hooks_root=root, approved_hooks=hooks)


def parse_project_hooks(text: ProjectText, root: Path) -> tuple[HookConfig, ...]:
    """Parse a project's hooks.toml; the hooks run in *root*, the project's folder. Raises ConfigError."""
    shown = sanitize(text.path, keep_newlines=False)
    document = parse_toml(text.text, shown)
    if set(document) - {"hooks"}:
        raise ConfigError(f"{shown} may contain [[hooks]] only.", "Remove the rest.")
    hooks = parse_hooks(document.get("hooks", []), shown, text.text)
    return tuple(HookConfig(settings=one.settings, rules=one.rules, folder=str(root)) for one in hooks)
