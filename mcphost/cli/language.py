"""Language of command output, from `--lang`, from config.toml or from the locale, in this order."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from mcphost.translation import AUTO, LANGUAGES, choose_language

SETTINGS_FILE = "config.toml"


def choose_command_language(arguments: Sequence[str]) -> str:
    """Return the language for the output of a command; *arguments* may contain `--lang` and `--config-dir`.

    Only the language setting is read from config.toml, and problems with the file are ignored. The
    configuration loader cannot be used, because its messages must already be in the chosen language.
    """
    from mcphost import paths

    if (given := _find_flag("--lang", arguments)) in LANGUAGES:
        return given
    configured: object = AUTO
    with suppress(OSError, ValueError, RecursionError):  # the command reports problems of the file
        text = (paths.config_dir(_find_flag("--config-dir", arguments)) / SETTINGS_FILE).read_text("utf-8")
        if "language" in text:
            import tomllib

            screen: Any = tomllib.loads(text).get("screen")
            configured = cast("dict[str, Any]", screen).get("language") if isinstance(screen, dict) else AUTO
    return choose_language(configured, os.environ)


def _find_flag(flag: str, arguments: Sequence[str]) -> str:
    """Return the last value of a flag, which may be given before or after the command, or "" if it is missing."""
    found = ""
    for index, argument in enumerate(arguments):
        if argument == "--":
            break
        name, separator, value = argument.partition("=")
        if name == flag:
            found = value if separator else next(iter(arguments[index + 1 :]), "")
    return found
