"""Choice of the theme: the one that the user chose last, the configured one, or dark or light as the terminal is."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcphost.tui import themes

if TYPE_CHECKING:
    from textual.app import App
    from textual.theme import Theme

THEME_FILE = "theme"
WATCH_SECONDS = 1.0
_LIGHT_COLORS = {"7", "15"}


class RememberedTheme:
    """The theme that the user chose last, in a file of the state folder beside the configured one at that time.

    When the configuration is changed afterwards, the configured theme counts again. The methods block.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / THEME_FILE

    def load(self, configured: str) -> str:
        """Return the theme that the user chose instead of *configured*, or "" if there is none."""
        try:
            with self._path.open(encoding="utf-8") as file:
                chosen, _, instead_of = file.read(200).partition("\n")
        except (OSError, ValueError):
            return ""
        return chosen if instead_of.strip() == configured else ""

    def save(self, chosen: str, configured: str) -> None:
        """Remember the choice. Raises OSError or ConfigError."""
        from mcphost.config.file_edits import replace_file
        from mcphost.paths import make_private_directory

        make_private_directory(self._path.parent)
        replace_file(self._path, f"{chosen}\n{configured}\n".encode(), 0o600)


def guess_theme(environ: Mapping[str, str]) -> str:
    """Return the dark or the light theme by the variable COLORFGBG, which some terminals set ("15;0")."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return themes.DEFAULT_LIGHT if background in _LIGHT_COLORS else themes.DEFAULT


class ThemeOptions(NamedTuple):
    """What decides about the theme at the start: the last choice, the setting, and where themes and choices are."""

    chosen: str = ""
    configured: str = ""
    user_folder: Path | None = None
    remembered: RememberedTheme | None = None


class ThemeChoice:
    """The theme of an app, which can be chosen, previewed, and read again when its file changes.

    "" or "auto" as the last choice and the setting means dark or light.
    """

    def __init__(self, app: "App[Any]", options: ThemeOptions) -> None:
        self._app, self._user_folder, self._remembered = app, options.user_folder, options.remembered
        self.configured = options.configured
        self.wanted = options.chosen or options.configured or themes.AUTO
        """The name of the theme that is wanted, or "auto"."""

        self._detected = guess_theme(os.environ)
        self.problem = ""
        """What is wrong with the file of the theme that is shown, in place of which the default colors are used."""

    @property
    def is_automatic(self) -> bool:
        """Whether the terminal decides between dark and light."""
        return self.wanted == themes.AUTO

    def names(self) -> tuple[str, ...]:
        """Return the names of all themes."""
        return themes.names(self._user_folder)

    def show(self, name: str) -> None:
        """Show a theme, or the default one if there is none with that name, without changing the choice."""
        wanted = self._detected if name in {"", themes.AUTO} else name
        if themes.find_file(wanted, self._user_folder) is None:
            wanted = themes.DEFAULT
        self.problem = ""
        if wanted not in self._app.available_themes or self._is_replaced(wanted):
            theme, self.problem = themes.load(wanted, self._user_folder)
            self._app.register_theme(theme)
        self._app.theme = wanted

    def _is_replaced(self, name: str) -> bool:
        """Return whether the user has a theme of this name, which must replace one of Textual's or of ours."""
        return self._user_folder is not None and (self._user_folder / f"{name}.toml").is_file()

    def show_wanted(self) -> None:
        """Show the theme that is wanted, for example after a preview."""
        self.show(self.wanted)

    def configure(self, name: str) -> None:
        """Use a changed setting, which counts more than an earlier choice."""
        self.configured, self.wanted = name, name or themes.AUTO
        self.show_wanted()

    def choose(self, name: str) -> None:
        """Use a theme from now on. Call `remember` in a thread to use it in later runs as well."""
        self.wanted = name
        self.show_wanted()

    def remember(self) -> None:
        """Store the choice; this blocks. Raises OSError or ConfigError."""
        if self._remembered is not None:
            self._remembered.save(self.wanted, self.configured)

    def use_background(self, is_dark: bool) -> None:
        """Take the terminal's answer about its background."""
        self._detected = themes.DEFAULT if is_dark else themes.DEFAULT_LIGHT
        if self.is_automatic and self._app.theme in {themes.DEFAULT, themes.DEFAULT_LIGHT}:
            self.show_wanted()

    async def watch(self, on_problem: Callable[[str], None]) -> None:
        """Read the theme again whenever its file changes, until cancelled; *on_problem* gets a message otherwise."""
        import anyio

        name, stamp = "", (0, 0)
        while True:
            shown = self._app.theme
            changed = await anyio.to_thread.run_sync(self._read_stamp, shown)
            if changed != (0, 0) and (shown, changed) != (name, stamp):
                try:
                    self._replace(await anyio.to_thread.run_sync(self._read, shown))
                except themes.ThemeError as error:
                    if shown == name:  # a problem of the first reading is in `problem`
                        on_problem(str(error))
            name, stamp = shown, changed
            await anyio.sleep(WATCH_SECONDS)

    def _read_stamp(self, name: str) -> tuple[int, int]:
        """Return the modification time and the size of a theme's file; zeros if it is missing. This blocks."""
        path = themes.find_file(name, self._user_folder)
        try:
            facts = path.stat() if path is not None else None
        except OSError:
            facts = None
        return (facts.st_mtime_ns, facts.st_size) if facts is not None else (0, 0)

    def _read(self, name: str) -> "Theme":
        path = themes.find_file(name, self._user_folder)
        if path is None:
            raise themes.ThemeError(f'The file of the theme "{name}" is gone.')
        return themes.read(path)

    def _replace(self, theme: "Theme") -> None:
        if theme == self._app.get_theme(theme.name):
            return
        self._app.register_theme(theme)
        if self._app.theme == theme.name:
            self._app.mutate_reactive(type(self._app).theme)
