"""Paths of programs and of the folders for configuration, data, state and cache.

Importing the module creates no folder.
"""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import NamedTuple

APP_NAME = "mcphost"
_XDG_DIRECTORIES = {
    "CONFIG": ("XDG_CONFIG_HOME", "~/.config"),
    "DATA": ("XDG_DATA_HOME", "~/.local/share"),
    "STATE": ("XDG_STATE_HOME", "~/.local/state"),
    "CACHE": ("XDG_CACHE_HOME", "~/.cache"),
}


BUNDLES_FOLDER = "bundles"
"""Name of the folder for unpacked bundles, inside the data folder."""


class SetupPlaces(NamedTuple):
    """The folders and environment variables that first-run setup reads, and the folders that it writes to."""

    config_dir: Path
    state_dir: Path
    home: Path
    folder: Path
    """The folder in which mcphost was started."""

    environ: MutableMapping[str, str]
    """The environment variables of this process; changes are not passed on to other processes."""

    data_dir: Path
    cache_dir: Path


def config_dir(override: str = "") -> Path:
    """Return the configuration folder: *override*, MCPHOST_CONFIG_DIR, or the platform's default."""
    return _resolve_directory("CONFIG", override)


def data_dir() -> Path:
    """Return the folder that contains the database: MCPHOST_DATA_DIR, or the platform's default."""
    return _resolve_directory("DATA")


def database_file() -> Path:
    """Return the path of the database for conversations and grants; the file may not exist yet."""
    return data_dir() / "mcphost.db"


def state_dir() -> Path:
    """Return the folder for logs and runtime records: MCPHOST_STATE_DIR, or the platform's default."""
    return _resolve_directory("STATE")


def cache_dir() -> Path:
    """Return the folder for files that can safely be deleted: MCPHOST_CACHE_DIR, or the platform's default."""
    return _resolve_directory("CACHE")


def runtime_dir() -> Path:
    """Return the folder shared by all mcphost processes in a login session.

    It is inside XDG_RUNTIME_DIR if that is an absolute path; otherwise, it is the state folder.
    """
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(place) / APP_NAME if os.path.isabs(place) else state_dir()


def find_program(name: str, path: str | None = None) -> str | None:
    """Return the path of an installed program, or None if there is none; *path* replaces $PATH.

    Relative folders in PATH, such as `./node_modules/.bin`, are ignored: the current folder may belong to a project,
    whose files must not run as helper programs. A name with a slash is treated as a path, and is not searched for.
    """
    import shutil  # not needed for the first frame

    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))


def is_missing(path: Path) -> bool:
    """Return whether *path* or the file that it links to does not exist. Raises OSError if that is unknown.

    `Path.exists` does not raise an error: since Python 3.14, it also returns False for a file that the user has no
    permission to examine.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False


def make_private_directory(directory: Path) -> Path:
    """Create a folder and its missing parents with mode 0700, and return it. Raises OSError."""
    missing: list[Path] = []
    at = directory
    while is_missing(at) and at != at.parent:
        missing.append(at)
        at = at.parent
    for part in reversed(missing):
        part.mkdir(mode=0o700, exist_ok=True)
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    return directory


def _resolve_directory(kind: str, override: str = "") -> Path:
    chosen = override or os.environ.get(f"MCPHOST_{kind}_DIR", "")
    if chosen:
        # Not resolve(), which follows links: a cycle of links must fail on opening, with an error that names the file.
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    if sys.platform == "linux" and os.path.isabs(os.environ.get("HOME", "")):
        # The same as platformdirs on this platform, without the time to import it.
        variable, place = _XDG_DIRECTORIES[kind]
        moved = os.environ.get(variable, "")
        return Path(moved if os.path.isabs(moved) else os.path.expanduser(place)) / APP_NAME
    import platformdirs

    match kind:
        case "CONFIG":
            return platformdirs.user_config_path(APP_NAME, appauthor=False)
        case "DATA":
            return platformdirs.user_data_path(APP_NAME, appauthor=False)
        case "STATE":
            return platformdirs.user_state_path(APP_NAME, appauthor=False)
        case _:
            return platformdirs.user_cache_path(APP_NAME, appauthor=False)
