"""Risks of a project's server that uses files in the project's own folder.

An approval covers the entry and the content of its `caFile`, no other file. Programs in the project and folders in PATH
can change without another question, so they are pointed out.
"""

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from itertools import islice

from mcphost.config.risky_variables import classify_variable
from mcphost.config.schema import ServerConfig
from mcphost.sanitize import sanitize

_MAX_VARIABLES = 5
_MAX_PATHS = 1_000
_CHANGE_WARNING = "where files can change without a new approval"
_REFERENCE = re.compile(r"\$\{env:\s{0,20}([^}\s]{1,200})\s{0,20}\}")
_WORDS = re.compile(r"[\s=,]+")


def project_file_risks(server: ServerConfig) -> tuple[str, ...]:
    """Return a continuation of "It …" for each way in which the server depends on files of the project."""
    if server.source != "project" or not server.file:
        return ()
    project = os.path.realpath(os.path.dirname(os.path.abspath(server.file)))
    if not server.is_stdio:
        if server.ca_file and _is_inside(server.ca_file, project):
            return (f"trusts certificates in the project's folder ({_display_path(server.ca_file)}).",)
        return ()
    folder = server.cwd or os.getcwd()
    values = {name: _expand_environment(text) for name, text in server.env.items()}
    risks: list[str] = []
    program = _find_program(server.command, folder, values.get("PATH"))
    if program and _is_inside(program, project):
        risks.append(f"runs a program in the project's folder ({_display_path(program)}), {_CHANGE_WARNING}.")
    names: list[str] = []
    path_count = 0
    for name, text in sorted(values.items()):
        paths = list(islice(_find_paths(name, text, folder), _MAX_PATHS)) if classify_variable(name) else []
        path_count += len(paths)
        # Checking paths takes time: an unusually long list is reported without looking.
        if paths and (path_count >= _MAX_PATHS or any(_is_inside(path, project) for path in paths)):
            names.append(name)
    if names:
        risks.append(f"sets {_join_variables(names)} to places in the project's folder, {_CHANGE_WARNING}.")
    return tuple(risks)


def _expand_environment(text: str) -> str:
    """Expand references to environment variables; those to the keyring are not paths."""
    return _REFERENCE.sub(lambda match: os.environ.get(match[1], ""), text)


def _find_program(command: str, folder: str, path: str | None) -> str:
    """Return the program's path as found when the server starts, "" for none."""
    if os.sep in command:
        return os.path.join(folder, command)
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)[:_MAX_PATHS]
    if path is None:
        folders = [part for part in folders if os.path.isabs(part)]
    return shutil.which(command, path=os.pathsep.join(os.path.join(folder, part) for part in folders)) or ""


def _find_paths(name: str, text: str, folder: str) -> Iterable[str]:
    """Yield the paths in a value: parts of a list such as PATH, and words such as `--require=./x`."""
    for part in text.split(os.pathsep):
        if name.upper() == "PATH":
            yield os.path.join(folder, part)
            continue
        for word in (part, *_WORDS.split(part)):
            path = os.path.join(folder, word.strip("\"'"))
            if word and (os.sep in word or os.path.exists(path)):
                yield path


def _is_inside(path: str, project: str) -> bool:
    """Return whether a path is in the folder, with its links followed or by its own name."""
    return any(
        place == project or place.startswith(project.rstrip(os.sep) + os.sep)
        for place in (os.path.realpath(path), os.path.normpath(os.path.abspath(path)))
    )


def _join_variables(names: Sequence[str]) -> str:
    shown = [sanitize(name[:100], keep_newlines=False) for name in names[:_MAX_VARIABLES]]
    more = f" and {len(names) - _MAX_VARIABLES} more" if len(names) > _MAX_VARIABLES else ""
    return ", ".join(shown) + more


def _display_path(path: str) -> str:
    return sanitize(path[:500], keep_newlines=False)
