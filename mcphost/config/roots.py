"""Folders that servers may be told of, as a file names them: the user's config.toml, or a project's `.mcp.json`."""

import os
from collections.abc import Callable
from typing import Any, cast

from mcphost.config.json_files import name_of
from mcphost.config.schema import RootConfig, Source
from mcphost.sanitize import sanitize

ROOTS_LIMIT = 100
NAME_LIMIT = 200
PATH_LIMIT = 4_096
STARTED_IN = "${workspaceFolder}"
"""As a path, or in the `cwd` of a server: the folder in which mcphost was started, by the name VS Code has for it."""


def roots_of(entries: Any, file: str, source: Source, problem: Callable[[str], None]) -> tuple[RootConfig, ...]:
    """`["~/project", {path = "~/other", name = "other"}]`; an entry that is neither is named and left out.

    The user's paths are absolute, begin with `~` or are `${workspaceFolder}`; those of any other file may be relative
    to it.
    """
    made: list[RootConfig] = []
    listed: list[Any] = cast("list[Any]", entries) if isinstance(entries, list) else [entries]
    if len(listed) > ROOTS_LIMIT:
        problem(f'{file}: "roots" has {len(listed)} folders; the first {ROOTS_LIMIT} count.')
    for entry in listed[:ROOTS_LIMIT]:
        one = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {"path": entry}
        path, name = one.get("path"), one.get("name", "")
        if not isinstance(path, str) or not isinstance(name, str) or not path or "\0" in path or len(path) > PATH_LIMIT:
            problem(f'{file}: "roots" is a list of folders; {name_of(cast("Any", entry))} is not one and is left out.')
        elif source == "user" and path != STARTED_IN and not path.startswith(("/", "~")):
            shown = sanitize(path[:200], keep_newlines=False)
            problem(f"{file}: the root {shown!r} is no absolute path and is left out.")
        else:
            if source != "user" and path != STARTED_IN:
                path = os.path.join(os.path.dirname(os.path.abspath(file)), os.path.expanduser(path))
            origin = "started" if path == STARTED_IN else source
            where = "" if source == "user" else file
            made.append(RootConfig(path, name[:NAME_LIMIT], origin, where))
    return tuple(made)
