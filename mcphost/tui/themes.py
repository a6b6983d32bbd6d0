"""Color themes, and the choice of a theme.

A theme is a TOML file with a color for each role, such as "accent". The theme that the user chose last takes
precedence over the configured theme. If neither is set, the dark or light theme is used, whichever matches the
terminal's background.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual.color import Color
from textual.theme import Theme

from mcphost.translation import _

if TYPE_CHECKING:
    from textual.app import App

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
    """Error in a theme file; the message names the file and states what to correct."""


def folders(user_folder: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that contain theme files.

    These are the user's folder, if it is given, and the folders in the package and in the source tree.
    """
    here = Path(__file__).resolve()
    shipped = (here.parents[1] / "themes", here.parents[2] / "themes")
    return shipped if user_folder is None else (user_folder, *shipped)


def names(user_folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of all themes, including those in *user_folder*, in alphabetical order, at most 100."""
    found: set[str] = set()
    for folder in folders(user_folder):
        if os.path.isdir(folder):
            found.update(path.stem for path in folder.glob("*.toml") if _FILE_NAME.fullmatch(path.stem))
    return tuple(sorted(found)[:_MAX_THEMES]) or (DEFAULT,)


def find_file(name: str, user_folder: Path | None = None) -> Path | None:
    """Return the path of the theme file for *name*, or None if there is no such theme.

    A file in the user's folder takes precedence.
    """
    if not _FILE_NAME.fullmatch(name):
        return None
    files = (folder / f"{name}.toml" for folder in folders(user_folder))
    return next((path for path in files if os.path.isfile(path)), None)


def load(name: str, user_folder: Path | None = None) -> tuple[Theme, str]:
    """Load a theme; return the theme and an error message, which is "" if there is no error.

    If the theme's file is invalid, the returned theme has default colors.
    """
    path = find_file(name, user_folder)
    if path is None:
        return _build_theme({}, name), ""
    try:
        return read(path), ""
    except ThemeError as error:
        return _build_theme({}, name), _("{error} The default colors are used.").format(error=error)


def read(path: Path) -> Theme:
    """Read a theme file.

    Raises ThemeError if the file cannot be read, or if a color is missing or invalid.
    """
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
    panel, accent = Color.parse(color["panel"]), Color.parse(color["accent"])
    tint, selected = panel.blend(accent, 0.15).hex, panel.blend(accent, 0.3).hex
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
            "scrollbar": color["faint"],
            "scrollbar-hover": color["muted"],
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
            # Selected text has a single color, because fainter colors are unreadable on the selection's background.
            "screen-selection-background": selected,
            "screen-selection-foreground": color["text"],
            "input-selection-background": selected,
            "input-selection-foreground": color["text"],
            "button-focus-text-style": "bold",
        },
    )


THEME_FILE = "theme"
WATCH_SECONDS = 1.0
_LIGHT_COLORS = {"7", "15"}


class RememberedTheme:
    """The theme that the user chose last, stored together with the theme that was configured at that time.

    The user's choice is ignored once a different theme is configured. Both themes are stored in a file in the state
    folder; the methods access this file and therefore block.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / THEME_FILE

    def load(self, configured: str) -> str:
        """Return the theme that the user chose while *configured* was set, or "" if there is none."""
        try:
            # Non-blocking, because a FIFO must not delay the start.
            with open(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as file:
                chosen, _unused, instead_of = file.read(200).partition("\n")
        except (OSError, ValueError):
            return ""
        return chosen if instead_of.strip() == configured else ""

    def save(self, chosen: str, configured: str) -> None:
        """Store the chosen theme and the configured theme. Raises OSError or ConfigError if this fails."""
        from mcphost.config.file_edits import replace_file
        from mcphost.paths import make_private_directory

        make_private_directory(self._path.parent)
        replace_file(self._path, f"{chosen}\n{configured}\n".encode())


def guess_theme(environ: Mapping[str, str]) -> str:
    """Guess the dark or light theme from $COLORFGBG, which some terminals set, for example to "15;0"."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return DEFAULT_LIGHT if background in _LIGHT_COLORS else DEFAULT


class ThemeOptions(NamedTuple):
    """Options for the theme at startup: the user's last choice, the configured theme, and the user's themes folder.

    `remembered` stores the user's choice of theme for later runs; if it is None, the choice is not stored.
    """

    chosen: str = ""
    configured: str = ""
    user_folder: Path | None = None
    remembered: RememberedTheme | None = None


class ThemeChoice:
    """The app's theme, which the user can preview and choose.

    The theme is reloaded when its file changes. If neither a chosen nor a configured theme is set, or the theme is
    "auto", the default dark or light theme is used.
    """

    def __init__(self, app: "App[Any]", options: ThemeOptions) -> None:
        self._app, self._user_folder, self._remembered = app, options.user_folder, options.remembered
        self.configured = options.configured
        self.wanted = options.chosen or options.configured or AUTO
        """The name of the chosen or configured theme, or "auto"."""

        self._detected = guess_theme(os.environ)
        self.problem = ""
        """Why default colors are shown instead of the theme, whose file is invalid; "" if the file is valid."""

    @property
    def is_automatic(self) -> bool:
        """Whether the terminal determines which of the default themes, dark or light, is used."""
        return self.wanted == AUTO

    def names(self) -> tuple[str, ...]:
        """Return the names of all themes."""
        return names(self._user_folder)

    def show(self, name: str) -> None:
        """Show a theme without choosing it; if no theme has this name, show the default theme."""
        wanted = self._detected if name in {"", AUTO} else name
        if find_file(wanted, self._user_folder) is None:
            wanted = DEFAULT
        self.problem = ""
        if wanted not in self._app.available_themes or self._is_replaced(wanted):
            theme, self.problem = load(wanted, self._user_folder)
            self._app.register_theme(theme)
        if self._app.is_running or not self._app.current_theme.dark or not self._app.available_themes[wanted].dark:
            self._app.theme = wanted
        else:
            self._set_before_start(wanted)

    def _set_before_start(self, name: str) -> None:
        """Set the dark theme *name* before the first frame, without triggering Textual's watcher.

        The watcher would parse all style sheets a second time. Do not call this for a light theme: a light theme needs
        the watcher, which also selects the colors that replace the terminal's 16 colors.
        """
        self._app.set_reactive(type(self._app).theme, name)
        self._app.add_class(f"-theme-{name}", update=False)
        self._app.stylesheet.set_variables(self._app.get_css_variables())

    def _is_replaced(self, name: str) -> bool:
        """Return whether the user's themes folder contains a theme of this name.

        Such a theme overrides the built-in theme of the same name.
        """
        return self._user_folder is not None and os.path.isfile(self._user_folder / f"{name}.toml")

    def show_wanted(self) -> None:
        """Show the chosen theme again, for example after a preview."""
        self.show(self.wanted)

    def configure(self, name: str) -> None:
        """Use the theme *name* from a changed configuration, in place of the theme that the user chose earlier."""
        self.configured, self.wanted = name, name or AUTO
        self.show_wanted()

    def choose(self, name: str) -> None:
        """Use the theme *name* until the app exits.

        To keep the choice for later runs, call `remember` on a thread.
        """
        self.wanted = name
        self.show_wanted()

    def remember(self) -> None:
        """Store the chosen theme for later runs.

        This method blocks. Raises OSError or ConfigError if the theme cannot be stored.
        """
        if self._remembered is not None:
            self._remembered.save(self.wanted, self.configured)

    def use_background(self, is_dark: bool) -> None:
        """Use the default dark or light theme, whichever matches the terminal's background.

        A theme that was chosen or configured is not replaced.
        """
        self._detected = DEFAULT if is_dark else DEFAULT_LIGHT
        if self.is_automatic and self._app.theme in {DEFAULT, DEFAULT_LIGHT}:
            self.show_wanted()

    async def watch(self, on_problem: Callable[[str], None]) -> None:
        """Reload the theme whenever its file changes, until cancelled.

        *on_problem* receives a message if the changed file is invalid.
        """
        import anyio

        name, stamp = "", (0, 0)
        while True:
            shown = self._app.theme
            changed = await anyio.to_thread.run_sync(self._read_stamp, shown)
            if changed != (0, 0) and (shown, changed) != (name, stamp):
                try:
                    self._replace(await anyio.to_thread.run_sync(self._read, shown))
                except ThemeError as error:
                    if shown == name:  # a problem of the first load is in `problem`
                        on_problem(str(error))
            name, stamp = shown, changed
            await anyio.sleep(WATCH_SECONDS)

    def _read_stamp(self, name: str) -> tuple[int, int]:
        """Return the modification time in ns and the size in bytes of the file of the theme *name*; (0, 0) without one.

        This method blocks.
        """
        path = find_file(name, self._user_folder)
        try:
            facts = path.stat() if path is not None else None
        except OSError:
            facts = None
        return (facts.st_mtime_ns, facts.st_size) if facts is not None else (0, 0)

    def _read(self, name: str) -> Theme:
        path = find_file(name, self._user_folder)
        if path is None:
            raise ThemeError(_('The file of the theme "{name}" no longer exists.').format(name=name))
        return read(path)

    def _replace(self, theme: Theme) -> None:
        if theme == self._app.get_theme(theme.name):
            return
        self._app.register_theme(theme)
        if self._app.theme == theme.name:
            self._app.mutate_reactive(type(self._app).theme)
