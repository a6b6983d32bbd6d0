"""Choice of the theme: the user's last choice, else the configured theme, else dark or light."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcphost.translation import _
from mcphost.tui import themes

if TYPE_CHECKING:
    from textual.app import App
    from textual.theme import Theme

THEME_FILE = "theme"
WATCH_SECONDS = 1.0
_LIGHT_COLORS = {"7", "15"}


class RememberedTheme:
    """The user's last choice of a theme, stored with the theme that was configured at that time.

    If the configuration is changed later, the configured theme takes precedence again. The file is in the state
    folder; the methods block.
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
        """Store the choice. Raises OSError or ConfigError."""
        from mcphost.config.file_edits import replace_file
        from mcphost.paths import make_private_directory

        make_private_directory(self._path.parent)
        replace_file(self._path, f"{chosen}\n{configured}\n".encode(), 0o600)


def guess_theme(environ: Mapping[str, str]) -> str:
    """Guess the dark or light theme from COLORFGBG, a variable that some terminals set, as in "15;0"."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return themes.DEFAULT_LIGHT if background in _LIGHT_COLORS else themes.DEFAULT


class ThemeOptions(NamedTuple):
    """Settings that determine the theme at startup: the last choice, the configuration, and the folders."""

    chosen: str = ""
    configured: str = ""
    user_folder: Path | None = None
    remembered: RememberedTheme | None = None


class ThemeChoice:
    """The app's theme, which can be chosen and previewed, and is reloaded when its file changes.

    If neither a choice nor a configured theme is set, or it is "auto", the default dark or light theme is used.
    """

    def __init__(self, app: "App[Any]", options: ThemeOptions) -> None:
        self._app, self._user_folder, self._remembered = app, options.user_folder, options.remembered
        self.configured = options.configured
        self.wanted = options.chosen or options.configured or themes.AUTO
        """The name of the chosen or configured theme, or "auto"."""

        self._detected = guess_theme(os.environ)
        self.problem = ""
        """Why the shown theme's file cannot be used, so that default colors are shown instead; "" if it can be used."""

    @property
    def is_automatic(self) -> bool:
        """Whether the theme is dark or light depending on the terminal."""
        return self.wanted == themes.AUTO

    def names(self) -> tuple[str, ...]:
        """Return the names of all themes."""
        return themes.names(self._user_folder)

    def show(self, name: str) -> None:
        """Show a theme without choosing it; without a theme of this name, show the default theme."""
        wanted = self._detected if name in {"", themes.AUTO} else name
        if themes.find_file(wanted, self._user_folder) is None:
            wanted = themes.DEFAULT
        self.problem = ""
        if wanted not in self._app.available_themes or self._is_replaced(wanted):
            theme, self.problem = themes.load(wanted, self._user_folder)
            self._app.register_theme(theme)
        self._app.theme = wanted

    def _is_replaced(self, name: str) -> bool:
        """Return whether the user's themes folder has a theme of this name, which overrides a built-in one."""
        return self._user_folder is not None and (self._user_folder / f"{name}.toml").is_file()

    def show_wanted(self) -> None:
        """Show the chosen theme again, for example after a preview."""
        self.show(self.wanted)

    def configure(self, name: str) -> None:
        """Use a theme from a changed configuration, which takes precedence over an earlier choice."""
        self.configured, self.wanted = name, name or themes.AUTO
        self.show_wanted()

    def choose(self, name: str) -> None:
        """Use this theme from now on; call `remember` on a thread to keep the choice for later runs."""
        self.wanted = name
        self.show_wanted()

    def remember(self) -> None:
        """Store the choice for later runs; blocks. Raises OSError or ConfigError."""
        if self._remembered is not None:
            self._remembered.save(self.wanted, self.configured)

    def use_background(self, is_dark: bool) -> None:
        """Switch between the default dark and light theme after the terminal reported its background."""
        self._detected = themes.DEFAULT if is_dark else themes.DEFAULT_LIGHT
        if self.is_automatic and self._app.theme in {themes.DEFAULT, themes.DEFAULT_LIGHT}:
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
                except themes.ThemeError as error:
                    if shown == name:  # a problem of the first load is in `problem`
                        on_problem(str(error))
            name, stamp = shown, changed
            await anyio.sleep(WATCH_SECONDS)

    def _read_stamp(self, name: str) -> tuple[int, int]:
        """Return the modification time and size of a theme's file, zeros if it is missing. Blocks."""
        path = themes.find_file(name, self._user_folder)
        try:
            facts = path.stat() if path is not None else None
        except OSError:
            facts = None
        return (facts.st_mtime_ns, facts.st_size) if facts is not None else (0, 0)

    def _read(self, name: str) -> "Theme":
        path = themes.find_file(name, self._user_folder)
        if path is None:
            raise themes.ThemeError(_('The file of the theme "{name}" no longer exists.').format(name=name))
        return themes.read(path)

    def _replace(self, theme: "Theme") -> None:
        if theme == self._app.get_theme(theme.name):
            return
        self._app.register_theme(theme)
        if self._app.theme == theme.name:
            self._app.mutate_reactive(type(self._app).theme)
