"""Language of command output: the language set in config.toml, or else the language of the locale."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from mcphost.translation import AUTO, choose_language

SETTINGS_FILE = "config.toml"


def choose_command_language(arguments: Sequence[str]) -> str:
    """Return the language for the output of a command; *arguments* may contain `--config-dir`.

    Only the language setting is read from config.toml, and problems with the file are ignored. The
    configuration loader cannot be used, because its messages must already be in the chosen language.
    """
    from mcphost import paths

    configured: object = AUTO
    with suppress(OSError, ValueError, RecursionError):  # the command reports problems of the file
        text = (paths.config_dir(_find_config_dir(arguments)) / SETTINGS_FILE).read_text("utf-8")
        if "language" in text:
            import tomllib

            screen: Any = tomllib.loads(text).get("screen")
            configured = cast("dict[str, Any]", screen).get("language") if isinstance(screen, dict) else AUTO
    return choose_language(configured, os.environ)


def _find_config_dir(arguments: Sequence[str]) -> str:
    """Return the value of `--config-dir`, which may be given before or after the command, or "" if it is missing."""
    for index, argument in enumerate(arguments):
        if argument == "--":
            break
        name, separator, value = argument.partition("=")
        if name == "--config-dir":
            return value if separator else next(iter(arguments[index + 1 :]), "")
    return ""
