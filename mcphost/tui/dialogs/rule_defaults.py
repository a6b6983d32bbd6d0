"""Defaults of the rule builder: the narrowest rule that matches the call."""

import os
import re
from pathlib import PurePosixPath
from typing import Any

from mcphost.errors import UsageError
from mcphost.host.questions.questions import ApproveTool
from mcphost.tui.dialogs.rule_form import (
    ANY_VALUE,
    EXACT_VALUE,
    IN_FOLDER,
    THIS_TOOL,
    RuleArgument,
    build_rule,
    is_path,
    iter_unbound_names,
)

DEFAULT_SCOPE, DEFAULT_EXPIRY = "this project", "30 days"
NARROW_SCOPE, NARROW_EXPIRY = "this conversation", "1 hour"
_FOLDER_WORDS = re.compile(r"(?i)dir|folder|cwd|root|tree|list")


def initial_values(question: ApproveTool, arguments: tuple[RuleArgument, ...]) -> dict[str, Any]:
    """Return the initial values of the form: this tool, these arguments, this project, for 30 days.

    A path is bound to its folder, every other value to itself. If the rule is too long to be shown, the longest values
    are left unbound. If a value is unbound and no path is bound, the rule could allow unrelated calls, so it is limited
    to this conversation and one hour.
    """
    head = re.split(r"(?<=[_./-])", question.tool, maxsplit=1)[0]
    values: dict[str, Any] = {"covers": THIS_TOOL, "names": f"{head}*", "where": DEFAULT_SCOPE, "until": DEFAULT_EXPIRY}
    for number, argument in enumerate(arguments):
        folder = narrow_folder(question, argument)
        values[f"condition {number}"] = IN_FOLDER if folder else EXACT_VALUE
        values[f"value {number}"] = folder or None
    longest = sorted(range(len(arguments)), key=lambda number: len(str(arguments[number].value)), reverse=True)
    for number in longest:
        if _is_valid(question, arguments, values):
            break
        values[f"condition {number}"] = ANY_VALUE
    bound = [one for number, one in enumerate(arguments) if values[f"condition {number}"] != ANY_VALUE]
    if not any(map(is_path, bound)) and next(iter_unbound_names(question, tuple(bound)), ""):
        values |= {"where": NARROW_SCOPE, "until": NARROW_EXPIRY}
    return values


def _is_valid(question: ApproveTool, arguments: tuple[RuleArgument, ...], values: dict[str, Any]) -> bool:
    try:
        build_rule(question, arguments, values)
    except UsageError:
        return False
    return True


def narrow_folder(question: ApproveTool, argument: RuleArgument) -> str:
    """Return the folder of the path in this argument; empty if it is not a path or the folder is too wide.

    Uses only the text: the file system may be slow, and the path may not exist yet. A last component without an
    extension counts as a folder, which is narrower than its parent.
    """
    value = argument.value
    if question.folder is None or not isinstance(value, str) or not is_path(argument):
        return ""
    if value.startswith(("~", "-", "@")) or ".." in value.split("/"):
        return ""
    path = os.path.normpath(os.path.join(question.folder, value))
    names = f"{argument.path[-1]} {question.tool}"
    if not (value.endswith("/") or not PurePosixPath(path).suffix or _FOLDER_WORDS.search(names)):
        path = os.path.dirname(path)
    return "" if _is_too_wide(path, question.folder) else path


def _is_too_wide(path: str, folder: str) -> bool:
    """Return whether the folder is at the root, or contains the home folder or the server's folder."""
    below = path.rstrip("/") + "/"
    home = os.path.expanduser("~")
    return path.count("/") < 2 or f"{home}/".startswith(below) or (folder != path and folder.startswith(below))
