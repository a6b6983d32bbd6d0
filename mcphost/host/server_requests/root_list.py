"""The list of folders that servers may be told of: what files name and the user changed, put together and looked at."""

import os
from collections.abc import Iterable
from pathlib import Path, PurePath, PureWindowsPath
from typing import Literal
from urllib.parse import quote, unquote

from mcphost.config.roots import ROOTS_LIMIT, STARTED_IN
from mcphost.config.schema import HostConfig, RootConfig, RootSource
from mcphost.protocol.server_requests import Root
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct, replace
from mcphost.store.roots import FolderEdit
from mcphost.unicode_forms import split_url

RootScope = Literal["run", "project", "user"]
"""How long an edit holds: until mcphost ends, whenever it is started in this folder, or wherever it is started."""
ROOT_SCOPES: tuple[RootScope, ...] = ("run", "project", "user")
EditLayers = tuple[tuple[RootScope, tuple[FolderEdit, ...]], ...]
"""What the user changed, the narrowest last: that decides."""


class RootFolder(Struct, frozen=True, kw_only=True):
    """One folder as it was when it was looked at.

    `path` is the real folder, links followed; as it is written when it cannot be told. "out": the user took it out of
    the list. `keep` is the edit that decides about it, "" when none does. `why` says why it is "gone", `warning` why
    one may not want it to be told; each one sentence. `written` is how it is named where that reads differently.
    """

    path: str
    name: str = ""
    source: RootSource = "user"
    file: str = ""
    scope: RootScope | Literal[""] = ""
    state: Literal["there", "gone", "out"] = "there"
    why: str = ""
    warning: str = ""
    configured_path: str = ""

    @property
    def root(self) -> Root:
        """As a server is told."""
        return Root(file_uri(Path(self.path)), replace_surrogates(self.name) or None)

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        match self.source:
            case "started":
                return "where mcphost was started"
            case "user":
                return "in your config.toml"
            case "added":
                return "added by you"
            case "project":
                return f"in {self.file}, which you trusted"
            case _:
                return f"in {self.file}"


class RootFolders(Struct, frozen=True):
    """All of them, in order."""

    folders: tuple[RootFolder, ...] = ()

    @property
    def available(self) -> tuple[RootFolder, ...]:
        """Those that a server may be told of now, each once."""
        return tuple([one for one in self.folders if one.state == "there"][:ROOTS_LIMIT])

    @property
    def roots(self) -> tuple[Root, ...]:
        """The same as roots."""
        return tuple(one.root for one in self.available)

    @property
    def missing(self) -> tuple[str, ...]:
        """Those that are in the list and cannot be read now."""
        return tuple(one.path for one in self.folders if one.state == "gone")

    def find(self, path: str) -> RootFolder | None:
        """The one at that path, as it really is or as it is written."""
        wanted = _spellings(path)
        return next((one for one in self.folders if wanted & {one.path, one.configured_path}), None)


class KnownRoots(Struct, frozen=True):
    """What a server knows of the user's folders: `roots` is what it was told last, None for nothing yet; `refused`
    whether the user refused last; `agreed` whether it is told the same again without a question, in this run or, with
    `for_good`, also later."""

    roots: tuple[Root, ...] | None = None
    is_refused: bool = False
    is_approved: bool = False
    is_permanent: bool = False


def startup_roots() -> tuple[RootConfig, ...]:
    """The folder the program was started in, by its name; none when it is gone."""
    try:
        here = Path.cwd()
    except OSError:
        return ()
    return (RootConfig(str(here), here.name, "started"),)


def configured_roots(config: HostConfig) -> tuple[RootConfig, ...]:
    """What the configuration names: the user's folders, or the one of the start, then those of trusted files.

    A user who wrote down that there are none is not overruled by a file.
    """
    if config.roots is None:
        return (*startup_roots(), *config.more_roots)
    if not config.roots:
        return ()
    named: list[RootConfig] = []
    for one in (*config.roots, *config.more_roots):
        here = startup_roots() if one.path == STARTED_IN else (one,)
        named += (replace(root, name=one.name or root.name) for root in here)
    return tuple(named)


def inspect_roots(configured: Iterable[RootConfig], layers: EditLayers = ()) -> RootFolders:
    """Put it together and look at each. A file system may hang, so this belongs on a thread; raises nothing."""
    found: dict[str, RootFolder] = {}
    for one in configured:
        seen = _inspect(one)
        found.setdefault(seen.path, seen)
    for keep, edits in layers:
        for edit in edits:
            old = RootFolders(tuple(found.values())).find(edit.path)
            if old is None:
                if edit.told:
                    seen = _inspect(RootConfig(edit.path, edit.name, "added"))
                    found[seen.path] = replace(seen, scope=keep)
            elif edit.told:
                seen = _inspect(RootConfig(old.configured_path or old.path, edit.name, old.source, old.file))
                found[old.path] = replace(seen, scope=keep)
            else:
                found[old.path] = replace(old, scope=keep, state="out")
    return RootFolders(tuple(found.values()))


def _spellings(path: str) -> set[str]:
    try:
        at_home = os.path.expanduser(path)
        return {path, at_home, os.path.realpath(at_home)}
    except (OSError, ValueError):
        return {path}


def _inspect(one: RootConfig) -> RootFolder:
    seen = RootFolder(path=one.path, name=one.name, source=one.source, file=one.file)
    try:
        written = Path(one.path).expanduser()
        # Resolved first, so that what is shown and told is the real folder and not a link to somewhere else.
        path = written.resolve(strict=True)
        if not path.is_dir():
            return replace(seen, state="gone", why="it is not a folder")
        if not os.access(path, os.R_OK | os.X_OK):
            return replace(seen, state="gone", why="you may not read it")
    except FileNotFoundError:
        return replace(seen, state="gone", why="it is not there")
    except PermissionError:
        return replace(seen, state="gone", why="you may not read it")
    except (OSError, RuntimeError, ValueError):
        return replace(seen, state="gone", why="its path leads nowhere")
    real = str(path)
    other = one.path if os.path.normpath(written) != real else ""
    return replace(seen, path=real, configured_path=other, warning=_warning(real, one))


def _warning(real: str, one: RootConfig) -> str:
    if real == "/":
        return "It is the whole file system."
    try:
        home = str(Path.home().resolve())
    except (OSError, RuntimeError):
        home = ""
    if real == home:
        return "It is your whole home folder, keys and settings of programs included."
    if home.startswith(f"{real}/"):
        return "Your home folder is in it."
    if one.source == "project":
        base = os.path.realpath(os.path.dirname(one.file))
        if real != base and not real.startswith(base.rstrip("/") + "/"):
            return "It is outside of the project whose file names it."
    return ""


def file_uri(path: PurePath) -> str:
    """The absolute path as a file: URI (RFC 8089); every byte that is not plain is percent-encoded.

    A drive of Windows is `file:///C:/…`, a share of it `file://host/share/…`.
    """
    if isinstance(path, PureWindowsPath):
        drive = path.drive.replace("\\", "/")
        rest = quote(path.as_posix()[len(drive) :], safe="/-._~")
        return f"file:{quote(drive, safe='/-._~')}{rest}" if drive.startswith("//") else f"file:///{drive}{rest}"
    return "file://" + quote(os.fsencode(path), safe="/-._~")


def uri_path(uri: str) -> str:
    """What a file: URI names, for people; bytes that are no text stay visible as `\\xff`."""
    parts = split_url(uri)
    path = unquote(parts.path, errors="backslashreplace")
    if parts.netloc:
        return f"//{parts.netloc}{path}"
    drive = len(path) > 2 and path[0] == "/" and path[1].isalpha() and path[2] == ":"
    return path[1:] if drive else path
