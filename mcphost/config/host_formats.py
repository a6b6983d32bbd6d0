"""The table of other MCP hosts: where each keeps its configuration files, and in which format.

In HOSTS, a comment on each host links to the host's documentation.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mcphost.config.other_host_entries import (
    BARE_SHELL,
    BRACED,
    NONE,
    ONLY_ENV,
    PREFIXED,
    SHELL,
    Convert,
    VariableSyntax,
    convert_claude_code,
    convert_cline,
    convert_codex,
    convert_common,
    convert_gemini,
    convert_goose,
    convert_opencode,
    convert_zed,
)
from mcphost.config.windows_hosts import WindowsPaths, find_windows_homes

MAX_PROFILES = 50
"""Maximum number of a program's profiles to search."""

_EACH = "/*/"
"""Wildcard in the path of a file: any folder, such as that of a profile."""

PROJECT_FILE = ".mcp.json"
"""The project file of Claude Code, which mcphost reads itself; it is imported only if the user names it."""


class Places(NamedTuple):
    """Folders that may contain other hosts' files; `HostFormat.files` refers to them by field name, as in `{home}`."""

    home: str
    folder: str
    """The folder in which mcphost was started."""

    config: str
    """`~/.config` or `$XDG_CONFIG_HOME` on Linux, `~/Library/Application Support` on macOS."""

    xdg_config: str
    """`~/.config` or `$XDG_CONFIG_HOME`, for programs that also use it on macOS."""

    claude: str
    """The folder of `.claude.json`: the home folder or `$CLAUDE_CONFIG_DIR`."""

    codex: str
    """`~/.codex` or `$CODEX_HOME`."""

    opencode: str
    """`$OPENCODE_CONFIG_DIR`, which opencode reads in addition to its usual folder; if unset, the usual folder."""

    oterm: str
    """`$OTERM_DATA_DIR`, or `oterm` in `$XDG_DATA_HOME`, `~/.local/share` or `~/Library/Application Support`."""

    windows_homes: tuple[str, ...] = ()
    """In WSL, the home folders of the users of Windows."""


class HostFormat(NamedTuple):
    """Another MCP host: its id on the command line, its title, and the location and format of its files."""

    id: str
    title: str
    files: tuple[str, ...]
    """Paths with field names of Places in braces, such as `{home}`, and at most one `/*/` for any folder."""

    keys: tuple[tuple[str, ...], ...] = (("mcpServers",),)
    """Key paths to the object that contains the servers; the first one that exists is used."""

    convert: Convert = convert_common
    syntax: VariableSyntax = NONE
    windows_files: tuple[str, ...] = ()
    """Paths in the home folder of a Windows user, with at most one `/*/` for any folder."""

    is_windows: bool = False
    """Whether the host runs in Windows, so that commands have to be translated for WSL."""

    def find_windows_files(self, places: Places) -> list[Path]:
        """Return the paths where this host's configuration files may be on the Windows side of WSL.

        The result is empty outside of WSL.
        """
        paths = (f"{home}/{file}" for home in places.windows_homes for file in self.windows_files)
        return [file for path in paths for file in _expand(path)]

    def on_windows(self) -> "HostFormat":
        """Return a copy of this format for the host's configuration files on the Windows side of WSL.

        `files` of the copy is empty, so no server in these files is marked as the user's own
        (`ForeignServer.is_own`).
        """
        return self._replace(title=f"{self.title} (Windows)", files=(), is_windows=True)

    def find_files(self, places: Places, *, with_folder: bool = True) -> list[Path]:
        """Return the distinct paths where the host's configuration files may be.

        Paths in the current folder are included only if *with_folder* is set. The files may be missing.
        """
        templates = (template for template in self.files if with_folder or not template.startswith("{folder}"))
        paths = (template.format(**places._asdict()) for template in templates)
        return list(dict.fromkeys(file for path in paths for file in _expand(path)))

    def find_project_folder(self, file: Path, places: Places) -> str:
        """Return the project folder that *file* belongs to, or "" if it contains the user's own settings."""
        file = file.absolute()
        if file in self.find_files(places, with_folder=False):
            return ""
        inside = [PROJECT_FILE, *(name for name in self.files if name.startswith("{folder}/"))]
        # The longest first, because ".opencode/opencode.json" also ends like "opencode.json".
        endings = sorted((Path(name.removeprefix("{folder}/")).parts for name in inside), key=len, reverse=True)
        return next((str(file.parents[len(parts) - 1]) for parts in endings if file.parts[-len(parts) :] == parts), "")


def _expand(path: str) -> Iterator[Path]:
    """Yield *path* or, if it contains `/*/`, one path per matching folder, sorted by name."""
    before, each, after = path.partition(_EACH)
    if not each:
        yield Path(path)
        return
    names: list[str] = []
    with suppress(OSError), os.scandir(before) as entries:  # most programs have no profiles
        names = sorted(entry.name for entry in islice(entries, MAX_PROFILES))
    yield from (Path(before, name, after) for name in names)


_CODE_NAMES = ("Code", "Code - Insiders", "VSCodium")
_CODE_ON_WINDOWS = tuple(f"AppData/Roaming/{name}/User" for name in _CODE_NAMES)
# The last three exist on remote machines and in WSL: https://code.visualstudio.com/docs/remote/vscode-server
_VSCODE_FOLDERS = (
    *(f"{{config}}/{name}/User" for name in _CODE_NAMES),
    *(f"{{home}}/.{name}/data/User" for name in ("vscode-server", "vscode-server-insiders", "vscodium-server")),
)
# Cursor and Windsurf are built from VS Code, and can have its extension Cline.
_CLINE_FOLDERS = (
    *_VSCODE_FOLDERS,
    *(f"{{config}}/{name}/User" for name in ("Cursor", "Windsurf")),
    *(f"{{home}}/.{name}/data/User" for name in ("cursor-server", "windsurf-server")),
)
_CLINE_FILE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
_CLINE_OWN_FILE = ".cline/data/settings/cline_mcp_settings.json"
_VSCODE_FILES = ("mcp.json", "profiles/*/mcp.json")
_WINDSURF_FILES = (".codeium/windsurf/mcp_config.json", ".codeium/mcp_config.json")
"""Files of the Windsurf editor, and of its plugins for other editors."""
_OPENCODE_FILES = ("opencode.json", "opencode.jsonc")

HOSTS: tuple[HostFormat, ...] = (
    # https://modelcontextprotocol.io/docs/develop/connect-local-servers
    HostFormat(
        "claude-desktop",
        "Claude Desktop",
        ("{config}/Claude/claude_desktop_config.json",),
        windows_files=("AppData/Roaming/Claude/claude_desktop_config.json",),
    ),
    # https://code.claude.com/docs/en/mcp
    HostFormat(
        "claude-code",
        "Claude Code",
        ("{claude}/.claude.json",),
        convert=convert_claude_code,
        syntax=SHELL,
        windows_files=(".claude.json",),
    ),
    # https://cursor.com/docs/context/mcp
    HostFormat(
        "cursor",
        "Cursor",
        ("{home}/.cursor/mcp.json", "{folder}/.cursor/mcp.json"),
        syntax=PREFIXED,
        windows_files=(".cursor/mcp.json",),
    ),
    # https://code.visualstudio.com/docs/copilot/customization/mcp-servers
    HostFormat(
        "vscode",
        "VS Code",
        (
            *(f"{folder}/{file}" for folder in _VSCODE_FOLDERS for file in _VSCODE_FILES),
            "{folder}/.vscode/mcp.json",
        ),
        (("servers",), ("mcp", "servers")),
        syntax=PREFIXED,
        windows_files=tuple(f"{folder}/{file}" for folder in _CODE_ON_WINDOWS for file in _VSCODE_FILES),
    ),
    # https://docs.cline.bot/mcp/configuring-mcp-servers
    HostFormat(
        "cline",
        "Cline",
        (*(f"{folder}/{_CLINE_FILE}" for folder in _CLINE_FOLDERS), f"{{home}}/{_CLINE_OWN_FILE}"),
        convert=convert_cline,
        syntax=ONLY_ENV,
        windows_files=(
            *(f"{folder}/{_CLINE_FILE}" for folder in _CODE_ON_WINDOWS),
            *(f"AppData/Roaming/{name}/User/{_CLINE_FILE}" for name in ("Cursor", "Windsurf")),
            _CLINE_OWN_FILE,
        ),
    ),
    # https://docs.windsurf.com/windsurf/cascade/mcp
    HostFormat(
        "windsurf",
        "Windsurf",
        tuple(f"{{home}}/{file}" for file in _WINDSURF_FILES),
        syntax=PREFIXED,
        windows_files=_WINDSURF_FILES,
    ),
    # https://geminicli.com/docs/tools/mcp-server
    HostFormat(
        "gemini-cli",
        "Gemini CLI",
        ("{home}/.gemini/settings.json", "{folder}/.gemini/settings.json"),
        convert=convert_gemini,
        syntax=BARE_SHELL,
        windows_files=(".gemini/settings.json",),
    ),
    # https://developers.openai.com/codex/mcp
    HostFormat(
        "codex",
        "Codex",
        ("{codex}/config.toml", "{folder}/.codex/config.toml"),
        (("mcp_servers",),),
        convert_codex,
        windows_files=(".codex/config.toml",),
    ),
    # https://zed.dev/docs/ai/mcp
    HostFormat(
        "zed",
        "Zed",
        ("{xdg_config}/zed/settings.json", "{folder}/.zed/settings.json"),
        (("context_servers",),),
        convert_zed,
        windows_files=("AppData/Roaming/Zed/settings.json",),
    ),
    # https://block.github.io/goose/docs/guides/config-files
    HostFormat(
        "goose",
        "goose",
        ("{xdg_config}/goose/config.yaml",),
        (("extensions",),),
        convert_goose,
        windows_files=("AppData/Roaming/Block/goose/config/config.yaml",),
    ),
    # https://opencode.ai/docs/mcp-servers
    HostFormat(
        "opencode",
        "opencode",
        tuple(
            f"{folder}/{name}"
            for folder in ("{xdg_config}/opencode", "{opencode}", "{folder}", "{folder}/.opencode")
            for name in _OPENCODE_FILES
        ),
        (("mcp", "servers"), ("mcp",)),  # version 2, and version 1
        convert_opencode,
        BRACED,
        windows_files=tuple(f".config/opencode/{name}" for name in _OPENCODE_FILES),
    ),
    # https://ggozad.github.io/oterm/mcp
    HostFormat(
        "oterm",
        "oterm",
        ("{oterm}/config.json",),
        syntax=SHELL,
        windows_files=("AppData/Roaming/oterm/config.json",),
    ),
)
"""The known hosts, in the order in which they are shown."""


def find_places(
    home: Path,
    folder: Path,
    environ: Mapping[str, str],
    platform: str = sys.platform,
    windows: WindowsPaths = WindowsPaths(),  # noqa: B008 - immutable
) -> Places:
    """Return the folders that may contain files of other hosts.

    *folder* is the folder in which mcphost was started. *windows* contains the paths that are used on Linux to
    detect WSL and to find the home folders of Windows users.
    """
    xdg_config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    config, data = xdg_config, f"{home}/.local/share"
    if platform == "darwin":
        config = data = f"{home}/Library/Application Support"
    data = environ.get("XDG_DATA_HOME") or data
    return Places(
        home=str(home),
        folder=str(folder),
        config=config,
        xdg_config=xdg_config,
        claude=environ.get("CLAUDE_CONFIG_DIR") or str(home),
        codex=environ.get("CODEX_HOME") or f"{home}/.codex",
        opencode=environ.get("OPENCODE_CONFIG_DIR") or f"{xdg_config}/opencode",
        oterm=environ.get("OTERM_DATA_DIR") or f"{data}/oterm",
        windows_homes=find_windows_homes(windows) if platform == "linux" else (),
    )


def find_host(host_id: str) -> HostFormat | None:
    """Return the host with the given id, or None if the id is unknown."""
    return next((host for host in HOSTS if host.id == host_id), None)
