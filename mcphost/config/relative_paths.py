"""Warnings about relative paths in a server's command line that the server will not find.

The server resolves a relative path against its working directory, which may differ from the current folder.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import find_references, resolve_folder
from mcphost.paths import find_program
from mcphost.sanitize import sanitize_line

_MAX_CHECKED_WORDS = 200
_MAX_WARNINGS = 5
_MAX_SHOWN = 200


def find_path_warnings(server: ServerConfig, folder: Path) -> tuple[str, ...]:
    """Return warnings about relative paths in a server's command line that the server will not find.

    A relative path is reported if it exists in *folder*, the current folder, but not in the server's working
    directory. "." and ".." are also reported if *folder* is not the working directory. If the working directory does
    not exist, only a warning about this is returned. Each warning says how to correct the entry. The result is empty if
    the working directory contains references.
    """
    if not server.is_stdio or server.cwd_has_references:
        return ()
    runs_in = server.cwd or str(folder)
    edit = f"mcphost servers edit {quote(server.name)} --cwd DIR"
    shown_folder = sanitize_line(runs_in, _MAX_SHOWN)
    if server.cwd != resolve_folder(server.file, "") and not os.path.isdir(runs_in):
        return (f"Its folder {shown_folder} does not exist. Create it, or choose another with {edit}.",)
    if os.path.realpath(runs_in) == os.path.realpath(folder):
        return ()
    warnings: list[str] = []
    for word in _relative_words(server.command, server.args):
        if _is_misplaced(word, folder, Path(runs_in)):
            shown = sanitize_line(word, _MAX_SHOWN)
            warnings.append(
                f'The path "{shown}" is in the current folder, but the server runs in {shown_folder}. '
                f"Write the absolute path, or set its folder with {edit}."
            )
    return tuple(warnings[:_MAX_WARNINGS])


def find_misplaced_path(command: str, args: Sequence[str], folder: Path, runs_in: Path) -> str:
    """Return the first relative path of a command line that exists in *folder*, but not in *runs_in*; "" if none."""
    if os.path.realpath(runs_in) == os.path.realpath(folder):
        return ""
    return next((word for word in _relative_words(command, args) if _is_misplaced(word, folder, runs_in)), "")


def _relative_words(command: str, args: Sequence[str]) -> Iterator[str]:
    """Yield the words of the command line that may be relative paths; for `--root=PATH`, yield only the path."""
    if "/" in command or find_program(command) is None:
        yield command
    for argument in args[:_MAX_CHECKED_WORDS]:
        option, equals, value = argument.partition("=")
        yield value if equals and option.startswith("-") else argument


def _is_misplaced(word: str, folder: Path, runs_in: Path) -> bool:
    if not word or word.startswith(("/", "~", "-")) or "\0" in word or find_references(word):
        return False
    if os.path.normpath(word) in (".", ".."):
        return True
    here = folder / word
    # A word without a slash that is the name of a folder is more often a subcommand.
    names_path = os.path.isfile(here) or ("/" in word and os.path.exists(here))
    return names_path and not os.path.exists(runs_in / word)
