"""Tells a mistyped slash command from a message that begins with a slash."""

import difflib
import re
from collections.abc import Iterable
from itertools import islice

from mcphost.tui.screen_text import clean_line

_COMMAND_PATTERN = re.compile(r"/([^\W\d_][\w:-]{0,60})(?!\S)")
# Folders at the root of Linux and macOS: what begins with one is a message about it.
_ROOT_FOLDERS = frozenset({
    "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "sbin", "srv", "sys",
    "tmp", "usr", "var", "Applications", "Library", "System", "Users", "Volumes", "private",
})  # fmt: skip
_MAX_COMPARED_NAMES = 500


def explain_unknown_command(text: str, names: Iterable[str]) -> str:
    """What to say instead of sending a text that begins like a slash command and is none; empty for a message.

    `names` are the commands with their slash. Whatever has a blank before its slash is a message.
    """
    found = _COMMAND_PATTERN.match(text)
    if found is None or (found[1] in _ROOT_FOLDERS and text[found.end() :].strip()):
        return ""
    typed = found[0]
    near = difflib.get_close_matches(typed.lower(), islice(names, _MAX_COMPARED_NAMES), n=1, cutoff=0.7)
    if near and near[0] == typed:
        said = f"{clean_line(typed, 60)} takes nothing behind it: choose it alone."
    else:
        meant = f" Did you mean {clean_line(near[0], 60)}?" if near else ""
        said = f"There is no command {clean_line(typed, 60)}.{meant}"
    return f"{said} Your text stays here; a space before it sends it as a message."
