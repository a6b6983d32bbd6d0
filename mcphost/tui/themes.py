"""Loading of Textual themes from TOML files, which set a color for each role, such as "accent"."""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

from textual.color import Color
from textual.theme import Theme

from mcphost.translation import _

DEFAULT = "dark"
DEFAULT_LIGHT = "light"
AUTO = "auto"
"""Value of the setting "theme" that selects dark or light to match the terminal's background."""

_ROLES = ("background", "surface", "panel", "text", "muted", "faint", "accent", "success", "warning", "error")
# Used if a theme file is missing or invalid, so that the screen still opens.
_FALLBACK = {
    "background": "#16181d",
    "surface": "#1c1f26",
    "panel": "#22262f",
    "text": "#dfe3ea",
    "muted": "#b0b8c5",
    "faint": "#9aa3b3",
    "accent": "#7aa2f7",
    "success": "#8fc48a",
    "warning": "#e0b070",
    "error": "#ec8a8f",
}
_FILE_NAME = re.compile(r"[\w-]{1,40}")
_HEX_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_MAX_BYTES = 16_384
_MAX_THEMES = 100


class ThemeError(Exception):
    """Raised for an invalid theme file; the message names the file and what to correct."""


def folders(user_folder: Path | None = None) -> tuple[Path, ...]:
    """Return the folders for theme files: the user's folder, the package's, and the source tree's."""
    here = Path(__file__).resolve()
    shipped = (here.parents[1] / "themes", here.parents[2] / "themes")
    return shipped if user_folder is None else (user_folder, *shipped)


def names(user_folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of all themes in alphabetical order, at most 100."""
    found: set[str] = set()
    for folder in folders(user_folder):
        if folder.is_dir():
            found.update(path.stem for path in folder.glob("*.toml") if _FILE_NAME.fullmatch(path.stem))
    return tuple(sorted(found)[:_MAX_THEMES]) or (DEFAULT,)


def find_file(name: str, user_folder: Path | None = None) -> Path | None:
    """Return the path of a theme's file, or None; the user's file overrides a built-in theme of that name."""
    if not _FILE_NAME.fullmatch(name):
        return None
    files = (folder / f"{name}.toml" for folder in folders(user_folder))
    return next((path for path in files if path.is_file()), None)


def load(name: str, user_folder: Path | None = None) -> tuple[Theme, str]:
    """Load a theme; return it and "".

    If its file is invalid, return a theme with default colors and an error message.
    """
    path = find_file(name, user_folder)
    if path is None:
        return _build_theme({}, name), ""
    try:
        return read(path), ""
    except ThemeError as error:
        return _build_theme({}, name), _("{error} The default colors are used.").format(error=error)


def read(path: Path) -> Theme:
    """Read a theme file. Raises ThemeError if it cannot be read or a color is missing or invalid."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ThemeError(
                _("{path}: over {max_bytes:,} bytes. Is it a theme?").format(path=path, max_bytes=_MAX_BYTES)
            )
        table = tomllib.loads(content.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise ThemeError(
            _("{path}: {error}. Correct the file.").format(path=path, error=str(error)[:200] or type(error).__name__)
        ) from error
    colors = table.get("colors")
    values = cast("dict[str, Any]", colors) if isinstance(colors, dict) else {}
    for role in _ROLES:
        if not _HEX_COLOR.fullmatch(str(values.get(role, ""))):
            raise ThemeError(
                _('{path}: set "{role}" under [colors] to a color such as "#7aa2f7".').format(path=path, role=role)
            )
    return _build_theme(table, path.stem)


def _build_theme(table: dict[str, Any], name: str) -> Theme:
    colors = table.get("colors", {})
    color = {role: str(colors.get(role, _FALLBACK[role])) for role in _ROLES}
    tint = Color.parse(color["panel"]).blend(Color.parse(color["accent"]), 0.15).hex
    return Theme(
        name=name,
        dark=bool(table.get("dark", True)),
        primary=color["accent"],
        secondary=color["accent"],
        accent=color["accent"],
        warning=color["warning"],
        error=color["error"],
        success=color["success"],
        foreground=color["text"],
        background=color["background"],
        surface=color["surface"],
        panel=color["panel"],
        variables={
            "text": color["text"],
            "text-muted": color["muted"],
            "text-disabled": color["faint"],
            "muted": color["muted"],
            "faint": color["faint"],
            "border": color["accent"],
            "border-blurred": color["panel"],
            "scrollbar": color["panel"],
            "scrollbar-hover": color["faint"],
            "scrollbar-active": color["accent"],
            "scrollbar-background": color["background"],
            "scrollbar-background-hover": color["background"],
            "scrollbar-background-active": color["background"],
            "scrollbar-corner-color": color["background"],
            # A tint instead of a solid color keeps symbols and detail lines readable under the cursor.
            "block-cursor-background": tint,
            "block-cursor-foreground": color["text"],
            "block-cursor-text-style": "none",
            "block-cursor-blurred-background": tint,
            "block-cursor-blurred-foreground": color["text"],
            "button-focus-text-style": "bold",
        },
    )
