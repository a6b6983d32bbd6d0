"""Detection of mistyped slash commands in messages that begin with a slash."""

import difflib
import re
from collections.abc import Iterable
from itertools import islice

from mcphost.tui.screen_text import clean_line

_COMMAND_PATTERN = re.compile(r"/([^\W\d_][\w:-]{0,60})(?!\S)")
# Root folders of Linux and macOS: a text that begins with one is a message about a path.
_ROOT_FOLDERS = frozenset({
    "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "sbin", "srv", "sys",
    "tmp", "usr", "var", "Applications", "Library", "System", "Users", "Volumes", "private",
})  # fmt: skip
_MAX_COMPARED_NAMES = 500


def explain_unknown_command(text: str, names: Iterable[str]) -> str:
    """Return the error for a text that looks like an unknown slash command; empty for a message.

    `names` are the commands with their slash. A text with a space before the slash is a message.
    """
    match = _COMMAND_PATTERN.match(text)
    if match is None or (match[1] in _ROOT_FOLDERS and text[match.end() :].strip()):
        return ""
    typed = match[0]
    near = difflib.get_close_matches(typed.lower(), islice(names, _MAX_COMPARED_NAMES), n=1, cutoff=0.7)
    if near and near[0] == typed:
        error = f"{clean_line(typed, 60)} takes no arguments."
    else:
        hint = f" Did you mean {clean_line(near[0], 60)}?" if near else ""
        error = f"Unknown command {clean_line(typed, 60)}.{hint}"
    return f"{error} To send it as a message, put a space before it."
