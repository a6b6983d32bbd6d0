"""Files such as AGENTS.md, hooks and slash commands, which belong to the user or to a project.

A project's files are untrusted: their size is limited, they must be inside the project, and each file is used only
after the user has approved its exact content (`host/project_file_approvals.py`).
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from mcphost.config.json_files import decode_text, read_bytes
from mcphost.errors import ConfigError
from mcphost.sanitize import replace_surrogates, sanitize, strip_hidden_text
from mcphost.serialization import Struct

INSTRUCTIONS_FILE = "AGENTS.md"
PROJECT_FOLDER = ".mcphost"
"""The folder in a project that contains its commands and hooks."""

COMMANDS_FOLDER = "commands"
MAX_TEXT_BYTES = 32_000
MAX_TOTAL_BYTES = 64_000
"""Maximum bytes of all instructions together, about 16,000 tokens, which are part of every request."""

MAX_FOLDERS = 64
Purpose = Literal["instructions", "command", "hooks"]


class ProjectText(Struct, frozen=True, kw_only=True):
    """Content of a file; `digest` is the SHA-256 (hex) of its bytes.

    `path` is absolute, and must be sanitized before it is displayed. `is_own` means that the file is the user's own and
    needs no approval.
    """

    path: str
    text: str
    digest: str
    is_own: bool = False

    @property
    def model_text(self) -> str:
        """The text that the model receives, with hidden text removed and other deceptive characters made visible."""
        return sanitize(strip_hidden_text(self.text))


def split_lines(text: str) -> list[str]:
    """Split the text of a file at line feeds.

    Unlike `str.splitlines`, this does not split at U+2028 and similar separators: no file format treats them as the end
    of a line, and they are displayed as visible marks.
    """
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


class ProjectPlaces(Struct, frozen=True, kw_only=True):
    """Where mcphost looks for a project's files, and how they are approved in this run.

    - `config_dir` is the configuration folder, and `folder` the folder in which mcphost was started.
    - `approval` decides what happens to a file that is not approved yet. With "ask", the user is asked. With
      "stored", the file is not used. "flag" is like "stored", but a command-line flag has approved the
      `approved_files` for this run.
    - `approved_files` contains tuples of a path and the digest of the content.
    - `approved_hooks` is the hooks file among the approved files, found in the project's root folder `hooks_root`.
    """

    config_dir: Path
    folder: Path
    approval: Literal["ask", "stored", "flag"] = "ask"
    approved_files: frozenset[tuple[str, str]] = frozenset()
    hooks_root: Path | None = None
    approved_hooks: ProjectText | None = None


def find_project_root(folder: Path) -> Path:
    """Return the nearest folder that contains `.git`, from *folder* upward, or *folder* itself if there is none."""
    above = [folder, *folder.parents][:MAX_FOLDERS]
    return next((one for one in above if os.path.lexists(one / ".git")), folder)


def read_instructions(
    places: ProjectPlaces, on_problem: Callable[[str], None], *, with_project: bool = True
) -> tuple[ProjectText, ...]:
    """Read the user's AGENTS.md, and then the project's AGENTS.md files.

    The project's files are read from its root down to the folder in which mcphost was started. Unless
    *with_project* is set, only the user's own file is read. A file is reported and skipped if it is too large,
    is not UTF-8, or is a link that leads out of the project. Blocks while reading.
    """
    texts: list[ProjectText] = []
    remaining = MAX_TOTAL_BYTES
    for path, root in _instruction_paths(places, with_project=with_project):
        text = read_project_text(path, root, on_problem)
        if text is None:
            continue
        size = len(text.text.encode())
        if size > remaining:
            on_problem(f"{_name(path)} is not used: all instructions together are over {MAX_TOTAL_BYTES // 1_000} kB.")
            continue
        remaining -= size
        if text.text.strip():
            texts.append(text)
    return tuple(texts)


def _instruction_paths(places: ProjectPlaces, *, with_project: bool) -> Iterator[tuple[Path, Path | None]]:
    yield places.config_dir / INSTRUCTIONS_FILE, None
    if not with_project:
        return
    folder = Path(os.path.realpath(places.folder))
    root = find_project_root(folder)
    below = [one for one in (folder, *folder.parents)[:MAX_FOLDERS] if one.is_relative_to(root)]
    yield from ((one / INSTRUCTIONS_FILE, root) for one in reversed(below))


def read_project_text(path: Path, root: Path | None, on_problem: Callable[[str], None]) -> ProjectText | None:
    """Read a text file; *root* is the project that must contain it, or None for the user's own file.

    Returns None if the file is missing or unusable; an unusable file is reported to *on_problem*.
    """
    try:
        real = Path(os.path.realpath(path))
        if root is not None and not real.is_relative_to(root):
            if os.path.lexists(path):
                on_problem(f"{_name(path)} is not used: it is a link that leads out of the project.")
            return None
        raw = read_bytes(path, MAX_TEXT_BYTES)
        text = decode_text(raw, _name(path))
    except FileNotFoundError:
        return None
    except (ConfigError, OSError) as error:
        on_problem(f"Not used: {sanitize(str(error), keep_newlines=False)}")
        return None
    shown = replace_surrogates(str(path))
    return ProjectText(path=shown, text=text, digest=hashlib.sha256(raw).hexdigest(), is_own=root is None)


def _name(path: Path) -> str:
    return sanitize(str(path), keep_newlines=False)


def find_command_folders(places: ProjectPlaces) -> tuple[tuple[Path, Path | None], ...]:
    """Return the existing folders that contain slash commands, the user's own folder first.

    Each item is a tuple of the folder and the project's root, which is None for the user's own folder.
    """
    root = find_project_root(Path(os.path.realpath(places.folder)))
    own, shared = places.config_dir / COMMANDS_FOLDER, root / PROJECT_FOLDER / COMMANDS_FOLDER
    return tuple((folder, bound) for folder, bound in ((own, None), (shared, root)) if os.path.lexists(folder))
