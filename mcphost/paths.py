"""Where configuration, data, state and cache live; every place can be moved, nothing is created at import."""

import os
import sys
from pathlib import Path

APP_NAME = "mcphost"
_XDG_DIRECTORIES = {
    "CONFIG": ("XDG_CONFIG_HOME", "~/.config"),
    "DATA": ("XDG_DATA_HOME", "~/.local/share"),
    "STATE": ("XDG_STATE_HOME", "~/.local/state"),
    "CACHE": ("XDG_CACHE_HOME", "~/.cache"),
}


def config_dir(override: str = "") -> Path:
    """Where `mcp.json` and `config.toml` are read: `--config-dir`, MCPHOST_CONFIG_DIR, or the platform's place."""
    return _resolve_directory("CONFIG", override)


def data_dir() -> Path:
    """Where the database lives: MCPHOST_DATA_DIR or the platform's place."""
    return _resolve_directory("DATA")


def database_file() -> Path:
    """Where conversations and grants are stored; it need not be there yet."""
    return data_dir() / "mcphost.db"


def state_dir() -> Path:
    """Where logs and run-time records live: MCPHOST_STATE_DIR or the platform's place."""
    return _resolve_directory("STATE")


def cache_dir() -> Path:
    """What can be lost without loss: MCPHOST_CACHE_DIR or the platform's place."""
    return _resolve_directory("CACHE")


def runtime_dir() -> Path:
    """What all mcphosts of one login share while they run, whatever other places they use: XDG_RUNTIME_DIR or STATE."""
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(place) / APP_NAME if os.path.isabs(place) else state_dir()


def make_private_directory(directory: Path) -> Path:
    """Create it and its parents, readable by the user alone (0700). Raises OSError."""
    missing: list[Path] = []
    at = directory
    while not at.exists() and at != at.parent:
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
        # Not resolve(): it follows links, and a loop of them must fail where the file is opened, with its name.
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    if sys.platform == "linux" and os.path.isabs(os.environ.get("HOME", "")):
        # What platformdirs answers there, without the time that loading it takes.
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
