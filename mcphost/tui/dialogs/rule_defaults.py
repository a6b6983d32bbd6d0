"""What the rule builder starts with: the narrowest rule that covers the call, which the user may widen."""

import os
import re
from pathlib import PurePosixPath
from typing import Any

from mcphost.errors import UsageError
from mcphost.host.questions.questions import ApproveTool
from mcphost.tui.dialogs.rule_form import ANY, EXACT, FOLDER, TOOL, Argument, is_path, rule_of, unbound

WHERE, UNTIL = "this project", "30 days"
BRIEFLY, SOON = "this conversation", "1 hour"
_FOLDER_WORDS = re.compile(r"(?i)dir|folder|cwd|root|tree|list")


def initial_values(question: ApproveTool, found: tuple[Argument, ...]) -> dict[str, Any]:
    """Return the first values of the form's fields: this tool, these arguments, this project, for 30 days.

    A path is bound to its folder, every other value to itself. Where such a rule is too long to be shown, the longest
    values are left unbound. Where some value is unbound and no path says what the call is about, the rule ends with
    this conversation and in an hour: it allows calls that do something else.
    """
    head = re.split(r"(?<=[_./-])", question.tool, maxsplit=1)[0]
    values: dict[str, Any] = {"covers": TOOL, "names": f"{head}*", "where": WHERE, "until": UNTIL}
    for number, one in enumerate(found):
        folder = narrow_folder(question, one)
        values[f"condition {number}"] = FOLDER if folder else EXACT
        values[f"value {number}"] = folder or None
    longest = sorted(range(len(found)), key=lambda number: len(str(found[number].value)), reverse=True)
    for number in longest:
        if _fits(question, found, values):
            break
        values[f"condition {number}"] = ANY
    bound = [one for number, one in enumerate(found) if values[f"condition {number}"] != ANY]
    if not any(map(is_path, bound)) and next(unbound(question, tuple(bound)), ""):
        values |= {"where": BRIEFLY, "until": SOON}
    return values


def _fits(question: ApproveTool, found: tuple[Argument, ...], values: dict[str, Any]) -> bool:
    try:
        rule_of(question, found, values)
    except UsageError:
        return False
    return True


def narrow_folder(question: ApproveTool, one: Argument) -> str:
    """Return the folder of the path in this argument; empty where it is no path, or where the folder is too wide.

    Judged by the text alone: the file system may be slow, and the path may not be there yet. A last name without an
    extension is taken for a folder, which covers less than its parent.
    """
    value = one.value
    if question.folder is None or not isinstance(value, str) or not is_path(one):
        return ""
    if value.startswith(("~", "-", "@")) or ".." in value.split("/"):
        return ""
    path = os.path.normpath(os.path.join(question.folder, value))
    names = f"{one.way[-1]} {question.tool}"
    if not (value.endswith("/") or not PurePosixPath(path).suffix or _FOLDER_WORDS.search(names)):
        path = os.path.dirname(path)
    return "" if _too_wide(path, question.folder) else path


def _too_wide(path: str, folder: str) -> bool:
    """Whether it is a folder of the root, or holds the user's home folder or the folder where the server runs."""
    below = path.rstrip("/") + "/"
    home = os.path.expanduser("~")
    return path.count("/") < 2 or f"{home}/".startswith(below) or (folder != path and folder.startswith(below))
