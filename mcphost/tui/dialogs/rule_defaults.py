"""What the rule builder starts with: the narrowest rule that covers the call, which the user may widen."""

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
    """Return the first values of the form's fields: this tool, these arguments, this project, for 30 days.

    A path is bound to its folder, every other value to itself. Where such a rule is too long to be shown, the longest
    values are left unbound. Where some value is unbound and no path says what the call is about, the rule ends with
    this conversation and in an hour: it allows calls that do something else.
    """
    head = re.split(r"(?<=[_./-])", question.tool, maxsplit=1)[0]
    values: dict[str, Any] = {"covers": THIS_TOOL, "names": f"{head}*", "where": DEFAULT_SCOPE, "until": DEFAULT_EXPIRY}
    for number, one in enumerate(arguments):
        folder = narrow_folder(question, one)
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
    """Return the folder of the path in this argument; empty where it is no path, or where the folder is too wide.

    Judged by the text alone: the file system may be slow, and the path may not be there yet. A last name without an
    extension is taken for a folder, which covers less than its parent.
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
    """Whether it is a folder of the root, or holds the user's home folder or the folder where the server runs."""
    below = path.rstrip("/") + "/"
    home = os.path.expanduser("~")
    return path.count("/") < 2 or f"{home}/".startswith(below) or (folder != path and folder.startswith(below))
