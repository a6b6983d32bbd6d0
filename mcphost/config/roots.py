"""Parsing of shared folders (roots) in the user's config.toml or a project's `.mcp.json`."""

import os
from collections.abc import Callable
from typing import Any, cast

from mcphost.config.json_files import describe_type
from mcphost.config.schema import RootConfig, Source
from mcphost.sanitize import sanitize

MAX_ROOTS = 100
MAX_NAME_LENGTH = 200
MAX_PATH_LENGTH = 4_096
WORKSPACE_FOLDER = "${workspaceFolder}"
"""The folder mcphost was started in, as a root or in the `cwd` of a server; VS Code uses the same name."""


def parse_roots(entries: Any, file: str, source: Source, on_problem: Callable[[str], None]) -> tuple[RootConfig, ...]:
    """Parse `["~/project", {path = "~/other", name = "other"}]`; an invalid entry is reported and left out.

    The user's paths are absolute, begin with `~` or are `${workspaceFolder}`; those in other files may be relative to
    the file.
    """
    roots: list[RootConfig] = []
    listed: list[Any] = cast("list[Any]", entries) if isinstance(entries, list) else [entries]
    if len(listed) > MAX_ROOTS:
        on_problem(f'{file}: "roots" has {len(listed)} folders; the first {MAX_ROOTS} count.')
    for entry in listed[:MAX_ROOTS]:
        table = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {"path": entry}
        path, name = table.get("path"), table.get("name", "")
        if (
            not isinstance(path, str)
            or not isinstance(name, str)
            or not path
            or "\0" in path
            or len(path) > MAX_PATH_LENGTH
        ):
            on_problem(
                f'{file}: "roots" is a list of folders; {describe_type(cast("Any", entry))} is not one and is left out.'
            )
        elif source == "user" and path != WORKSPACE_FOLDER and not path.startswith(("/", "~")):
            shown = sanitize(path[:200], keep_newlines=False)
            on_problem(f"{file}: the root {shown!r} is not an absolute path and is left out.")
        else:
            if source != "user" and path != WORKSPACE_FOLDER:
                path = os.path.join(os.path.dirname(os.path.abspath(file)), os.path.expanduser(path))
            origin = "started" if path == WORKSPACE_FOLDER else source
            where = "" if source == "user" else file
            roots.append(RootConfig(path, name[:MAX_NAME_LENGTH], origin, where))
    return tuple(roots)
