"""Manifests of MCPB bundles (versions 0.1 to 0.4): the command to start, and the user's settings."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mcphost.config.risky_variables import classify_variable
from mcphost.errors import MalformedMessage, RegistryError, UsageError
from mcphost.paths import find_program
from mcphost.registry.package_grammar import check_variable_name
from mcphost.registry.plan import PlannedEntry
from mcphost.registry.plan_inputs import InputValues, PlanInput, check_values, exposure_notes, make_part
from mcphost.registry.planned_values import FilledLength, PlannedValue, ValuePart, planned_pairs
from mcphost.sanitize import quote_text
from mcphost.serialization import Struct, convert, loads

MANIFEST_FILE = "manifest.json"
MAX_MANIFEST_BYTES = 1024 * 1024
_MAX_ITEMS = 200
_MAX_TEXT = 8_192
_MAX_DEFAULTS = 50
_VARIABLE = re.compile(r"\$\{([^${}]{1,200})\}")
_SETTING = "user_config."
"""Prefix of a setting's name in a variable such as `${user_config.NAME}`."""

_INTERPRETERS = {"node": ("node",), "python": ("python", "python3"), "uv": ("uv",), "binary": ()}
"""Programs outside the bundle that may start a server, keyed by type; all others must be in the bundle."""
_FORMATS = {"string": "string", "number": "number", "boolean": "boolean", "directory": "filepath", "file": "filepath"}
_URL_STARTS = ("data:", "file:", "http:", "https:", "node:")
_PATH_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9-]{0,100}=(.*)")
_HARMLESS_OPTION = re.compile(
    r"--max-(?:old|semi)-space-size=[0-9]{1,9}|--no-warnings|--no-deprecation|--enable-source-maps|-Xm[sx][0-9]{1,9}[kmgKMG]"
    r"|-r|--require|--import|--loader|--experimental-loader"
)
"""Pattern for options that load nothing, or whose value is the next word, which must be a path in the bundle."""
_RELATIVE_PATH = re.compile(r"(?:[A-Za-z0-9_.][A-Za-z0-9_./+-]*)?")
_PLATFORM = "darwin" if sys.platform == "darwin" else "linux"


class BundleCommand(Struct, frozen=True):
    """`mcp_config` in a bundle's manifest: the command to start."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012
    platform_overrides: dict[str, dict[str, Any]] = {}  # noqa: RUF012


class BundleServer(Struct, frozen=True):
    """`server` in a bundle's manifest: the type of server and how to start it."""

    type: str
    entry_point: str = ""
    mcp_config: BundleCommand = BundleCommand()


class BundleSetting(Struct, frozen=True):
    """An item of `user_config` in a bundle's manifest: a value that the user is asked to enter."""

    type: str = "string"
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    multiple: bool = False
    sensitive: bool = False
    min: float | None = None
    max: float | None = None


class BundleCompatibility(Struct, frozen=True):
    """`compatibility` in a bundle's manifest: the platforms that the bundle supports."""

    platforms: tuple[str, ...] = ()


class BundleManifest(Struct, frozen=True):
    """The parts of a bundle's manifest that determine what is started."""

    name: str
    version: str
    server: BundleServer
    user_config: dict[str, BundleSetting] = {}  # noqa: RUF012
    compatibility: BundleCompatibility = BundleCompatibility()

    def inputs(self) -> tuple[PlanInput, ...]:
        """Return the settings that the user is asked to enter."""
        words = " ".join(_command_of(self).args)
        left_to_user = {
            setting
            for name, settings in self.input_names().items()
            if classify_variable(name) in ("settings", "network")
            for setting in settings
        }
        return tuple(
            _make_input(name, one, is_argument=f"user_config.{name}}}" in words, is_user_choice=name in left_to_user)
            for name, one in self.user_config.items()
        )

    def input_names(self) -> dict[str, set[str]]:
        """Return the names of the settings used in each environment variable of the command.

        The dictionary is keyed by variable name.
        """
        return {
            name: {one.removeprefix(_SETTING) for one in _VARIABLE.findall(text) if one.startswith(_SETTING)}
            for name, text in _command_of(self).env.items()
        }


def decode_manifest(raw: bytes) -> BundleManifest:
    """Decode a bundle's manifest.

    Raises RegistryError if the manifest is invalid or describes a bundle that cannot be started.
    """
    if len(raw) > MAX_MANIFEST_BYTES:
        raise RegistryError(f"The manifest of the bundle has more than {MAX_MANIFEST_BYTES // 1024} KB.")
    try:
        value = loads(raw, "manifest")
        manifest = convert(_without_nulls(value), BundleManifest, "manifest")
    except MalformedMessage as error:
        raise RegistryError(f"The bundle cannot be used: {error.message[:300]}") from error
    _check_manifest(manifest)
    return manifest


def _without_nulls(value: Any, depth: int = 0) -> Any:
    if depth < 8 and isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: _without_nulls(member, depth + 1) for key, member in members.items() if member is not None}
    return value


def _check_manifest(manifest: BundleManifest) -> None:
    server, command = manifest.server, _command_of(manifest)
    platforms = manifest.compatibility.platforms
    if server.type not in _INTERPRETERS:
        raise RegistryError(f"The bundle has a server of the unknown type {quote_text(server.type)}.")
    if platforms and _PLATFORM not in platforms:
        raise RegistryError(f"The bundle is for {quote_text(', '.join(platforms))}, not for {_PLATFORM}.")
    if len(manifest.user_config) > _MAX_ITEMS or len(command.args) > _MAX_ITEMS or len(command.env) > _MAX_ITEMS:
        raise RegistryError(f"The bundle has more than {_MAX_ITEMS} arguments, variables or settings.")
    for text in (command.command, server.entry_point, *command.args, *command.env.values(), *manifest.user_config):
        if len(text) > _MAX_TEXT or not text.isprintable():
            raise RegistryError(f"The bundle has text that is too long or invisible: {quote_text(text)}.")
    for one in manifest.inputs():
        if one.is_secret and one.is_required and one.place == "argument":
            raise RegistryError(f"It takes the secret {one.name} as an argument, which every program here can read.")


def _command_of(manifest: BundleManifest) -> BundleCommand:
    """Return the command for this platform.

    Raises RegistryError if the manifest overrides the command for this platform with an invalid one.
    """
    config = manifest.server.mcp_config
    override = config.platform_overrides.get(_PLATFORM)
    if override is None:
        return config
    try:
        changed = convert(override, BundleCommand, "manifest")
    except MalformedMessage as error:
        raise RegistryError(f"The bundle cannot be used: {error.message[:300]}") from error
    return BundleCommand(changed.command or config.command, changed.args or config.args, {**config.env, **changed.env})


def _make_input(name: str, setting: BundleSetting, *, is_argument: bool, is_user_choice: bool) -> PlanInput:
    defaults = () if setting.sensitive or is_user_choice else _defaults_of(setting)
    return PlanInput(
        name=name,
        place="argument" if is_argument else "environment",
        description=setting.description or setting.title,
        is_required=setting.required,
        is_secret=setting.sensitive,
        is_repeated=setting.multiple,
        format=_FORMATS.get(setting.type, "string"),
        default=defaults[0] if len(defaults) == 1 else None,
        listed_defaults=defaults if len(defaults) > 1 else (),
        minimum=setting.min,
        maximum=setting.max,
        is_user_choice=is_user_choice,
    )


def _defaults_of(setting: BundleSetting) -> tuple[str, ...]:
    """Return a setting's default values as text, or () if it has none or any of them cannot be used.

    A default cannot be used if it is not a plain value or refers to an unknown variable. Only a setting with `multiple`
    can have several defaults.
    """
    value = cast("object", setting.default)
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    if len(values) > (_MAX_DEFAULTS if setting.multiple else 1):
        return ()
    texts = [_default_text(one) for one in values]
    return () if None in texts else tuple(text for text in texts if text is not None)


def _default_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        text = _VARIABLE.sub(lambda match: _places().get(match[1], match[0]), str(value))
        return None if "${" in text else text
    return None


def _places() -> dict[str, str]:
    home = os.path.expanduser("~")
    folders = {name.upper(): os.path.join(home, name) for name in ("Desktop", "Documents", "Downloads")}
    return {"HOME": home, **folders, "pathSeparator": os.sep, "/": os.sep}


def plan_bundle(
    manifest: BundleManifest, folder: Path, given: InputValues, *, show_missing: bool = False
) -> PlannedEntry:
    """Create the mcp.json entry for an extracted bundle with the user's values; see `plan.plan_entry`."""
    inputs = manifest.inputs()
    values = check_values(inputs, given)
    if unknown := next((name for name in given if name not in manifest.user_config), ""):
        names = ", ".join(manifest.user_config)
        raise UsageError(
            f"There is no input {quote_text(unknown)}.", f"Inputs: {names}." if names else "It has no inputs."
        )
    missing = tuple(one.name for one in inputs if one.is_required and one.name not in values)
    if missing and not show_missing:
        raise UsageError(f"{missing[0]} needs a value.", f"Set it: --set {missing[0]}=VALUE")
    source = _BundleValues(str(folder), values, missing, inputs)
    command = _command_of(manifest)
    args = source.arguments(command.args)
    if manifest.server.type == "uv" and not command.command:
        args = ("run", "--directory", str(folder), _inside(folder, manifest.server.entry_point))
    entry: dict[str, Any] = {
        "command": _program(manifest, command, folder, source), "args": list(args), "cwd": str(folder),
    }  # fmt: skip
    variables = source.environment(command.env)
    if variables:
        entry["env"] = planned_pairs(variables)
    notes = (
        ("uv installs its dependencies when it starts; no digest pins them.",) if manifest.server.type == "uv" else ()
    )
    return PlannedEntry(
        entry=entry,
        values=variables,
        missing=missing,
        notes=(*notes, *exposure_notes(inputs, values)),
    )


def _program(manifest: BundleManifest, command: BundleCommand, folder: Path, source: "_BundleValues") -> str:
    """Return the program to start: an interpreter on this machine, or a file in the bundle.

    Raises RegistryError if the manifest names any other program.
    """
    allowed = _INTERPRETERS[manifest.server.type]
    text = command.command or (allowed[0] if allowed else manifest.server.entry_point)
    if text in allowed:
        return next((name for name in (text, *allowed) if find_program(name)), text)
    return _inside(folder, source.fill(text))


def _inside(folder: Path, text: str) -> str:
    """Return the absolute path of a file in the bundle. Raises RegistryError if it is outside the bundle."""
    path = os.path.normpath(os.path.join(folder, text))
    if not path.startswith(f"{folder}{os.sep}") or not os.path.isfile(path):
        raise RegistryError(
            f"The bundle would start {quote_text(text)}, which is not a part of it.",
            "Add the server by hand if you trust it: mcphost servers add NAME -- COMMAND",
        )
    return path


class _BundleValues:
    """Values for `${__dirname}`, `${HOME}` and `${user_config.NAME}` in a bundle's manifest."""

    def __init__(
        self,
        folder: str,
        values: Mapping[str, Sequence[str]],
        missing: Sequence[str],
        inputs: Sequence[PlanInput],
    ) -> None:
        self._folder = folder
        self._missing = frozenset(missing)
        self._values = {**values, **{name: (f"<{name}>",) for name in missing}}
        self._inputs = {one.name: one for one in inputs}
        self._fixed = {"__dirname": folder, **_places()}
        self._filled = FilledLength()

    def fill(self, text: str) -> str:
        """Replace the variables in *text*; multiple values are joined with commas.

        Raises RegistryError if *text* contains any other reference, which the bundle could use to read the user's
        secrets. Also raises RegistryError if the results of all calls together are too long.
        """
        return "".join(part.text for part in self._split(text))

    def _split(self, text: str) -> tuple[ValuePart, ...]:
        parts: list[ValuePart] = []
        references = 0
        for at, piece in enumerate(_VARIABLE.split(text)):
            setting = piece.removeprefix(_SETTING)
            if at % 2 == 0:
                parts.append(ValuePart(piece))
            elif piece in self._fixed:
                parts.append(ValuePart(self._fixed[piece]))
            elif piece.startswith(_SETTING):
                value = ",".join(self._values.get(setting, ()))
                parts.append(make_part(self._inputs[setting], value) if setting in self._inputs else ValuePart(value))
            else:
                text = f"${{{piece}}}"
                raise RegistryError(f"The bundle has the reference {quote_text(text)}, which could read your secrets.")
            self._filled.count(parts[-1].text)
            references += parts[-1].text.count("${") if at % 2 else 0
        # Only the user's values may contain references, and two adjacent parts must not form one together.
        if "".join(part.text for part in parts).count("${") != references:
            raise RegistryError(f"The bundle has the reference {quote_text(text)}, which could read your secrets.")
        return tuple(parts)

    def arguments(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Replace the variables in command-line arguments.

        An argument that consists only of a setting's variable is repeated for each value of the setting; without a
        value, it is omitted. Raises UsageError if a program would read one of the user's values as an option, and
        RegistryError for a reference that `fill` does not allow.
        """
        words: list[str] = []
        for text in texts:
            if not self._is_setting(text):
                words.append(self.fill(text))
                continue
            name = text.removeprefix("${user_config.").removesuffix("}")
            for value in self._values.get(name, ()):
                if value.startswith("-"):
                    raise UsageError(
                        f"The value of {name} begins with a dash, so it would be read as an option.",
                        "Use another value.",
                    )
                words.append(value)
        return tuple(words)

    def environment(self, texts: Mapping[str, str]) -> tuple[PlannedValue, ...]:
        """Return environment variables with the references in their values replaced; *texts* maps names to values.

        An environment variable is omitted if none of the settings that it refers to has a value. Raises RegistryError
        if a name is invalid, or if a reference is not allowed (see `fill`). Also raises RegistryError if a value chosen
        by the bundle would change how programs connect, or from where they load code or settings.
        """
        env: list[PlannedValue] = []
        for name, text in texts.items():
            check_variable_name(name)
            used = [one.removeprefix(_SETTING) for one in _VARIABLE.findall(text) if one.startswith(_SETTING)]
            if used and not any(one in self._values for one in used):
                continue
            value = PlannedValue(("env", name), self._split(text))
            if self._missing.isdisjoint(used):
                self._check_risk(name, text, value.text)
            env.append(value)
        return tuple(env)

    def _check_risk(self, name: str, text: str, value: str) -> None:
        risk = classify_variable(name)
        if risk in ("code", "packages") and not self._is_within(value):
            raise RegistryError(
                f"The bundle sets {name} to {quote_text(text)}, which decides which code programs load."
            )
        if risk not in ("settings", "network") or self._is_setting(text):
            return
        if risk == "network" or not (text == "${HOME}" or self._is_within(value)):
            raise RegistryError(
                f"The bundle sets {name} to {quote_text(text)}, "
                "which decides where programs connect or find their settings."
            )

    def _is_setting(self, text: str) -> bool:
        """Return whether *text* is a single `${user_config.NAME}`, so that the user chooses the whole value."""
        match = _VARIABLE.fullmatch(text)
        return match is not None and match[1].startswith(_SETTING)

    def _is_within(self, text: str) -> bool:
        """Return whether *text* names only files in the bundle.

        *text* is a list of paths, separated as in PATH, or a list of words with options such as
        `--require=PATH`. Paths in options must be absolute; options that are known to be harmless are ignored.
        """
        if text.lower().startswith(_URL_STARTS):
            return False
        words = text.split()
        if not any(word.startswith(("-", "@")) for word in words):
            return all(self._is_inside(part, can_be_relative=True) for part in text.split(os.pathsep))
        for word in words:
            if _HARMLESS_OPTION.fullmatch(word):
                continue
            match = _PATH_OPTION.fullmatch(word)
            if not all(map(self._is_inside, (match[1] if match is not None else word).split(os.pathsep))):
                return False
        return True

    def _is_inside(self, path: str, *, can_be_relative: bool = False) -> bool:
        if not os.path.isabs(path) and not (can_be_relative and _RELATIVE_PATH.fullmatch(path)):
            return False
        real = os.path.normpath(os.path.join(self._folder, path))
        return real == self._folder or real.startswith(f"{self._folder}{os.sep}")
