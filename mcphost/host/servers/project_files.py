"""What a project's server uses out of the project's own folder: files that change with the next update of it.

An approval covers what the entry says and the content of its `caFile`; no other file. A folder in PATH and a program in
the project can be exchanged without another question, which is why they are pointed out.
"""

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from itertools import islice

from mcphost.config.risky_variables import risk_of
from mcphost.config.schema import ServerConfig
from mcphost.sanitize import sanitize

_MAX_VARIABLES = 5
_MAX_PATHS = 1_000
_CHANGE_WARNING = "where files can change without another question"
_REFERENCE = re.compile(r"\$\{env:\s{0,20}([^}\s]{1,200})\s{0,20}\}")
_WORDS = re.compile(r"[\s=,]+")


def project_file_risks(server: ServerConfig) -> tuple[str, ...]:
    """Return sentences that continue "It …", one for each way in which it depends on the project's own files."""
    if server.source != "project" or not server.file:
        return ()
    project = os.path.realpath(os.path.dirname(os.path.abspath(server.file)))
    if not server.is_stdio:
        if server.ca_file and _is_inside(server.ca_file, project):
            return (f"believes certificates of the project itself ({_display_path(server.ca_file)}).",)
        return ()
    folder = server.cwd or os.getcwd()
    values = {name: _expand_environment(text) for name, text in server.env.items()}
    found: list[str] = []
    program = _find_program(server.command, folder, values.get("PATH"))
    if program and _is_inside(program, project):
        found.append(f"runs a program out of the project's folder ({_display_path(program)}), {_CHANGE_WARNING}.")
    names: list[str] = []
    looked_at = 0
    for name, text in sorted(values.items()):
        paths = list(islice(_find_paths(name, text, folder), _MAX_PATHS)) if risk_of(name) else []
        looked_at += len(paths)
        # More than anybody needs is not looked at and pointed out: looking takes time that others wait for.
        if paths and (looked_at >= _MAX_PATHS or any(_is_inside(path, project) for path in paths)):
            names.append(name)
    if names:
        found.append(f"sets {_join_variables(names)} to places in the project's folder, {_CHANGE_WARNING}.")
    return tuple(found)


def _expand_environment(text: str) -> str:
    """Fill in references to variables; those to the keyring are no paths."""
    return _REFERENCE.sub(lambda match: os.environ.get(match[1], ""), text)


def _find_program(command: str, folder: str, path: str | None) -> str:
    """Return where the program is, as it is looked for when the server starts; "" for nowhere."""
    if os.sep in command:
        return os.path.join(folder, command)
    places = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)[:_MAX_PATHS]
    if path is None:
        places = [part for part in places if os.path.isabs(part)]
    return shutil.which(command, path=os.pathsep.join(os.path.join(folder, part) for part in places)) or ""


def _find_paths(name: str, text: str, folder: str) -> Iterable[str]:
    """Return the paths in a value: parts of a list such as PATH, and words of options such as `--require=./x`."""
    for part in text.split(os.pathsep):
        if name.upper() == "PATH":
            yield os.path.join(folder, part)
            continue
        for word in (part, *_WORDS.split(part)):
            path = os.path.join(folder, word.strip("\"'"))
            if word and (os.sep in word or os.path.exists(path)):
                yield path


def _is_inside(path: str, project: str) -> bool:
    """Whether a path, with its links followed, is in that folder or is there under its own name."""
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
