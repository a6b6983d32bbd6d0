"""Loading of Textual themes from themes/*.toml files, which set a color for each role, such as "accent"."""

import tomllib
from pathlib import Path
from typing import Any

from textual.color import Color
from textual.theme import Theme

DEFAULT = "dark"
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


def folders() -> tuple[Path, ...]:
    """Return the directories that may contain theme files: in the installed package, then in the source tree."""
    here = Path(__file__).resolve()
    return (here.parents[1] / "themes", here.parents[2] / "themes")


def names() -> tuple[str, ...]:
    """Return the names of all themes in alphabetical order."""
    found = {path.stem for folder in folders() if folder.is_dir() for path in folder.glob("*.toml")}
    return tuple(sorted(found)) or (DEFAULT,)


def load(name: str) -> Theme:
    """Load the theme with this name; if its file is missing or invalid, return a theme with built-in colors."""
    for folder in folders():
        path = folder / f"{name}.toml"
        if path.is_file():
            try:
                return _build_theme(tomllib.loads(path.read_text("utf-8")), name)
            except (OSError, ValueError):
                break
    return _build_theme({}, name)


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
