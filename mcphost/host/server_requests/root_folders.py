"""Folders that mcphost may share with servers as roots, and the questions that ask the user about sharing them."""

import os
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path, PurePath, PureWindowsPath
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import quote, unquote

import anyio

from mcphost.client.timeouts import pause_call_deadlines
from mcphost.config.schema import HostConfig, RootConfig, RootSource
from mcphost.config.settings import MAX_ROOTS, WORKSPACE_FOLDER
from mcphost.errors import ConsentDenied, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.frontend import Frontend
from mcphost.host.runtime_settings import SettingChange
from mcphost.protocol.server_requests import Root
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct, replace
from mcphost.store.roots import FolderAnswerStore, FolderEdit
from mcphost.unicode_forms import split_url

if TYPE_CHECKING:
    from mcphost.host.questions.questions import RootsVerdict, ShareRoots

RootScope = Literal["run", "project", "user"]
"""Scope of an edit: this run, every run started in this folder, or every run."""
ROOT_SCOPES: tuple[RootScope, ...] = ("run", "project", "user")
EditLayers = tuple[tuple[RootScope, tuple[FolderEdit, ...]], ...]
"""The user's edits by scope, widest first; an edit in a narrower scope overrides those in wider ones."""


class RootFolder(Struct, frozen=True, kw_only=True):
    """A folder in the list of roots, and its state when it was last inspected.

    - `path` is the real path with symbolic links resolved, or the configured path if the folder cannot be shared.
    - `configured_path` is the configured path if it differs from `path`, otherwise "".
    - `state` is "there" if the folder can be shared, "gone" if it cannot be read (`why` is the reason), or "out" if
      the user removed it from the list.
    - `scope` is the scope of the user's edit that applies to the folder, "" if there is none.
    - `warning` is a sentence about the risk of sharing the folder, "" if there is none.
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
        """The folder as a protocol root, in the form sent to servers."""
        return Root(file_uri(Path(self.path)), replace_surrogates(self.name) or None)

    @property
    def origin(self) -> str:
        """Where the folder was configured, as a phrase such as "in your config.toml"."""
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
    """All folders that were configured or added by the user, including removed and missing ones."""

    folders: tuple[RootFolder, ...] = ()

    @property
    def available(self) -> tuple[RootFolder, ...]:
        """The folders that servers may receive now, at most MAX_ROOTS."""
        return tuple([folder for folder in self.folders if folder.state == "there"][:MAX_ROOTS])

    @property
    def roots(self) -> tuple[Root, ...]:
        """The available folders as protocol roots."""
        return tuple(folder.root for folder in self.available)

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths of the listed folders that cannot be read now."""
        return tuple(folder.path for folder in self.folders if folder.state == "gone")

    def find(self, path: str) -> RootFolder | None:
        """Return the folder with this real or configured path, or None; `~` is expanded."""
        spellings = _spellings(path)
        return next((folder for folder in self.folders if spellings & {folder.path, folder.configured_path}), None)


class KnownRoots(Struct, frozen=True):
    """The roots that a server has received, and the user's answer about sharing them.

    - `roots` is the list that was last sent to the server, None if none was sent.
    - `is_refused` means that the user's last answer was a refusal.
    - `is_approved` means that the same roots are sent again in this run without asking the user.
    - `is_permanent` means that the same roots are also sent without asking in later runs.
    """

    roots: tuple[Root, ...] | None = None
    is_refused: bool = False
    is_approved: bool = False
    is_permanent: bool = False


def startup_roots() -> tuple[RootConfig, ...]:
    """Return the folder mcphost was started in as a root; an empty tuple if the folder no longer exists."""
    try:
        here = Path.cwd()
    except OSError:
        return ()
    return (RootConfig(str(here), here.name, "started"),)


def configured_roots(config: HostConfig) -> tuple[RootConfig, ...]:
    """Return the configured folders: first the user's, then those from trusted project files.

    If the user has not configured a list, the folder mcphost was started in is used instead. If the user's list is
    empty, no folders are returned.
    """
    if config.roots is None:
        return (*startup_roots(), *config.project_roots)
    if not config.roots:
        return ()
    roots: list[RootConfig] = []
    for configured in (*config.roots, *config.project_roots):
        here = startup_roots() if configured.path == WORKSPACE_FOLDER else (configured,)
        roots += (replace(root, name=configured.name or root.name) for root in here)
    return tuple(roots)


def compare_roots(old: HostConfig, new: HostConfig) -> tuple[SettingChange, ...]:
    """Return a change of the setting "roots" for each folder that was added to or removed from the configuration.

    `SettingChange.before` is None for an added folder, and `after` is None for a removed one. A renamed folder
    counts as removed and added.
    """
    before, after = ({(root.path, root.name): root for root in configured_roots(config)} for config in (old, new))
    removed = (SettingChange("roots", _format_root(root), None) for key, root in before.items() if key not in after)
    added = (SettingChange("roots", None, _format_root(root)) for key, root in after.items() if key not in before)
    return (*removed, *added)


def _format_root(root: RootConfig) -> str:
    return f"{root.path} ({root.name})" if root.name else root.path


def inspect_roots(configured: Iterable[RootConfig], layers: EditLayers = ()) -> RootFolders:
    """Apply the user's edits to the configured folders and inspect each folder.

    *layers* contains the edits by scope, widest first. Reads the file system, so it may block; never raises.
    """
    folders: dict[str, RootFolder] = {}
    for root in configured:
        folder = _inspect(root)
        folders.setdefault(folder.path, folder)
    for scope, edits in layers:
        for edit in edits:
            existing = RootFolders(tuple(folders.values())).find(edit.path)
            if existing is None:
                if edit.is_included:
                    folder = _inspect(RootConfig(edit.path, edit.name, "added"))
                    folders[folder.path] = replace(folder, scope=scope)
            elif edit.is_included:
                folder = _inspect(
                    RootConfig(existing.configured_path or existing.path, edit.name, existing.source, existing.file)
                )
                folders[existing.path] = replace(folder, scope=scope)
            else:
                folders[existing.path] = replace(existing, scope=scope, state="out")
    return RootFolders(tuple(folders.values()))


def _spellings(path: str) -> set[str]:
    try:
        at_home = os.path.expanduser(path)
        return {path, at_home, os.path.realpath(at_home)}
    except (OSError, ValueError):
        return {path}


def _inspect(root: RootConfig) -> RootFolder:
    folder = RootFolder(path=root.path, name=root.name, source=root.source, file=root.file)
    try:
        expanded = Path(root.path).expanduser()
        # Resolved first, so that the real folder is shown and shared, not a link to it.
        path = expanded.resolve(strict=True)
        if not path.is_dir():
            return replace(folder, state="gone", why="it is not a folder")
        if not os.access(path, os.R_OK | os.X_OK):
            return replace(folder, state="gone", why="you may not read it")
    except FileNotFoundError:
        return replace(folder, state="gone", why="it does not exist")
    except PermissionError:
        return replace(folder, state="gone", why="you may not read it")
    except (OSError, RuntimeError, ValueError):
        return replace(folder, state="gone", why="its path is invalid")
    real = str(path)
    configured_path = root.path if os.path.normpath(expanded) != real else ""
    return replace(folder, path=real, configured_path=configured_path, warning=_warning(real, root))


def _warning(real: str, root: RootConfig) -> str:
    if real == "/":
        return "It is the whole file system."
    try:
        home = str(Path.home().resolve())
    except (OSError, RuntimeError):
        home = ""
    if real == home:
        return "It is your whole home folder, including keys and settings of programs."
    if home.startswith(f"{real}/"):
        return "It contains your home folder."
    if root.source == "project":
        base = os.path.realpath(os.path.dirname(root.file))
        if real != base and not real.startswith(base.rstrip("/") + "/"):
            return "It is outside the project whose file names it."
    return ""


def file_uri(path: PurePath) -> str:
    """Return an absolute path as a percent-encoded `file:` URI (RFC 8089).

    A Windows drive becomes `file:///C:/…`, a network share `file://host/share/…`.
    """
    if isinstance(path, PureWindowsPath):
        drive = path.drive.replace("\\", "/")
        rest = quote(path.as_posix()[len(drive) :], safe="/-._~")
        return f"file:{quote(drive, safe='/-._~')}{rest}" if drive.startswith("//") else f"file:///{drive}{rest}"
    return "file://" + quote(os.fsencode(path), safe="/-._~")


def uri_path(uri: str) -> str:
    r"""Return the path of a `file:` URI for display; invalid bytes appear as `\xff`."""
    parts = split_url(uri)
    path = unquote(parts.path, errors="backslashreplace")
    if parts.netloc:
        return f"//{parts.netloc}{path}"
    drive = len(path) > 2 and path[0] == "/" and path[1].isalpha() and path[2] == ":"
    return path[1:] if drive else path


UNSOLICITED_REASON = "it asked on its own; no call was running"


class FolderRequest(Struct, frozen=True):
    """A roots request from a server that is waiting for the user's decision.

    - `folders` are the folders for which the user has not decided whether this server may receive them.
    - `gone` contains the paths of listed folders that cannot be read now.
    """

    server: str
    why: str
    account: str
    folders: tuple[RootFolder, ...]
    gone: tuple[str, ...]


class WaitingServer(Protocol):
    """Interface to a server that may be waiting for the user's decision about folders; implemented by RootSharing."""

    @property
    def server(self) -> str:
        """The server's name."""
        ...

    @property
    def frontend(self) -> Frontend:
        """The frontend that asks the user on behalf of this server."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether a roots request from the server is still unanswered."""
        ...

    async def pending_request(self, why: str) -> FolderRequest | None:
        """Return the request that needs the user's decision now, or None if there is none.

        *why* is the reason shown to the user.
        """
        ...

    async def apply_verdict(self, request: FolderRequest, verdict: "RootsVerdict") -> None:
        """Apply the user's decision about a request of this server."""
        ...


class FolderQuestions:
    """Queue of questions about sharing folders, which are asked one at a time.

    A question about one server also covers every other server that is waiting for a decision when it is asked.
    """

    def __init__(
        self,
        audit: AuditLog | None = None,
        answers: FolderAnswerStore | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a queue.

        - *audit* records the decision about each server, if a question covers several.
        - *answers* stores permanent answers.
        - *clock* returns the time in seconds; RootSharing uses it to decide whether a refusal is still recent.
        """
        self._audit = audit
        self.answers = answers
        self.clock = clock
        self._servers: list[WaitingServer] = []
        self._lock = anyio.Lock()

    def register(self, server: WaitingServer) -> None:
        """Register a server whose roots requests may need a decision by the user.

        If the server is waiting for a decision when a question about another server is asked, the question covers both.
        """
        self._servers.append(server)

    async def ask(self, server: WaitingServer, why: str) -> bool:
        """Ask the user which folders to share with a server; return False if there is nothing to decide.

        The question also covers all other servers that are waiting. *why* is the reason shown for *server*. If the
        caller is cancelled, the question is withdrawn; another waiting server may then ask it again.

        Raises StoreError if the list of folders cannot be read, and ConsentDenied if a decision cannot be recorded in
        the audit log.
        """
        if await server.pending_request(why) is None:
            return False
        with pause_call_deadlines():
            async with self._lock:
                # Another server's question or a concurrent call may have answered it.
                request = await server.pending_request(why) if server.is_waiting else None
                if request is None:
                    return True
                requests: list[tuple[WaitingServer, FolderRequest]] = [(server, request)]
                for other in self._servers:
                    other_request = await _pending_request(other) if other is not server and other.is_waiting else None
                    if other_request is not None:
                        requests.append((other, other_request))
                verdict = await server.frontend.ask(_make_question([item for _, item in requests]))
                for waiting, item in requests:
                    choice = _server_verdict(verdict, waiting is server, item.server)
                    if len(requests) > 1 and self._audit is not None:
                        subject = AuditSubject(kind="roots", server=item.server)
                        name = next((name for name, known in _verdicts().items() if known == choice), "deny")
                        await self._audit.record_decision(subject, name, who=server.frontend.who)
                    await waiting.apply_verdict(item, choice)
        return True


async def _pending_request(server: WaitingServer) -> FolderRequest | None:
    try:
        return await server.pending_request(UNSOLICITED_REASON)
    except (StoreError, ConsentDenied):
        return None  # that server's own request raises it again


@cache
def _verdicts() -> "dict[str, RootsVerdict]":
    """Return the possible answers for one server, keyed by their names in the audit log."""
    from mcphost.host.questions.questions import DoNotShare, NeverShare, ShareAlways, ShareOnce, ShareSession

    return {
        "once": ShareOnce(), "session": ShareSession(), "always": ShareAlways(), "never": NeverShare(),
        "deny": DoNotShare(),
    }  # fmt: skip


def _server_verdict(verdict: "RootsVerdict", has_asked: bool, server: str) -> "RootsVerdict":
    """Return the user's decision about one server, given the answer to a question that may cover several.

    A SharePerServer answer contains a decision for each server. Any other answer applies only to the server whose
    request caused the question (*has_asked* is true); sharing with the other servers is refused.
    """
    from mcphost.host.questions.questions import SharePerServer

    known = _verdicts()
    if isinstance(verdict, SharePerServer):
        return known.get(verdict.choices.get(server, "deny"), known["deny"])
    return verdict if has_asked and isinstance(verdict, tuple(map(type, known.values()))) else known["deny"]


def _make_question(requests: list[FolderRequest]) -> "ShareRoots":
    from mcphost.host.questions.questions import RequestingServer, ShareRoots

    folders = {folder.path: folder for request in requests for folder in request.folders}
    first = requests[0]
    return ShareRoots(
        server=first.server,
        why=first.why,
        roots=tuple(folder.root for folder in folders.values()),
        gone=first.gone,
        origins=tuple(folder.origin for folder in folders.values()),
        warnings=tuple(folder.warning for folder in folders.values()),
        askers=tuple(
            RequestingServer(
                server=request.server,
                why=request.why,
                account=request.account,
                roots=tuple(folder.root for folder in request.folders),
            )
            for request in requests
        )
        if len(requests) > 1
        else (),
    )
