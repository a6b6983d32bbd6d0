"""Form for creating a permission rule: its fields, their initial values, and the conversion of values to a rule."""

import math
import os
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast

from mcphost.config.rule_syntax import exact_pattern, format_path, format_rule, parse_path, parse_rule
from mcphost.config.rules import Condition, Operator, Rule, Scope, Value
from mcphost.errors import UsageError
from mcphost.host.consent.call_readability import has_hidden_characters
from mcphost.host.questions.form_fields import Field, Option
from mcphost.host.questions.questions import ApproveTool
from mcphost.serialization import dumps, is_number
from mcphost.translation import N_, _, join_list
from mcphost.tui.file_diff import looks_like_path
from mcphost.tui.screen_text import clean_line

ANY_VALUE, EXACT_VALUE, IN_FOLDER = N_("any value"), N_("exactly this"), N_("in this folder")
NO_OTHERS, ANY_OTHERS = N_("not allowed"), N_("allowed")
THIS_TOOL, MATCHING_TOOLS, EVERY_TOOL = N_("this tool"), N_("tools whose names match"), N_("every tool of this server")
SCOPES: dict[str, Scope] = {
    N_("this conversation"): "conversation", N_("this project"): "project", N_("everywhere"): "everywhere",
}  # fmt: skip
EXPIRIES = (N_("1 hour"), N_("today"), N_("30 days"), N_("never"))
MAX_RULE_LENGTH = 400
"""Maximum characters of a rule; a longer one would not fit on the screen."""
_TESTS: dict[str, Operator] = {
    EXACT_VALUE: "is", IN_FOLDER: "under", N_("at most"): "<=", N_("at least"): ">=", N_("one of"): "in",
    N_("fits a pattern"): "re",
}  # fmt: skip
_TEST_PHRASES: dict[Operator, str] = {
    "is": N_("is"), "under": N_("is in"), "<=": N_("is at most"), ">=": N_("is at least"), "in": N_("is one of"),
    "re": N_("fits"),
}  # fmt: skip
_MAX_ARGUMENTS = 12
_MAX_VALUE_LENGTH = 200
DEFAULT_SCOPE, DEFAULT_EXPIRY = N_("this project"), N_("30 days")
NARROW_SCOPE, NARROW_EXPIRY = N_("this conversation"), N_("1 hour")
_FOLDER_WORDS = re.compile(r"(?i)dir|folder|cwd|root|tree|list")


class RuleArgument(NamedTuple):
    """An argument of a tool call that a condition can test; `path` contains one name per level of nesting."""

    path: tuple[str, ...]
    value: Value

    @property
    def name(self) -> str:
        """The name of the argument as displayed, with nested names joined by dots."""
        return clean_line(".".join(self.path), 60)


def find_arguments(question: ApproveTool) -> tuple[RuleArgument, ...]:
    """Return the call's first twelve arguments that a condition can test: short strings, numbers and booleans."""
    found: list[RuleArgument] = []
    for one in _iter_plain_arguments(question.arguments, ()):
        if len(found) == _MAX_ARGUMENTS:
            break
        found.append(one)
    return tuple(found)


def _iter_plain_arguments(members: dict[str, Any], path: tuple[str, ...]) -> Iterator[RuleArgument]:
    for name, value in members.items():
        if not name or has_hidden_characters(name) or len(name) > _MAX_VALUE_LENGTH:
            continue
        if isinstance(value, dict) and len(path) < 3:
            yield from _iter_plain_arguments(cast("dict[str, Any]", value), (*path, name))
        elif _is_usable(value):
            yield RuleArgument((*path, name), cast("Value", value))


def iter_unbound_names(question: ApproveTool, arguments: tuple[RuleArgument, ...]) -> Iterator[str]:
    """Yield the names of all arguments not in *arguments*, such as lists; a rule allows any value for them."""
    return (
        clean_line(".".join(path), 60)
        for path in _iter_other_paths(question.arguments, (), {one.path for one in arguments})
    )


def _iter_other_paths(
    members: dict[str, Any], path: tuple[str, ...], bound: set[tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    for name, value in members.items():
        if (
            isinstance(value, dict)
            and value
            and len(path) < 3
            and name
            and not has_hidden_characters(name)
            and len(name) <= _MAX_VALUE_LENGTH
        ):
            yield from _iter_other_paths(cast("dict[str, Any]", value), (*path, name), bound)
        elif (*path, name) not in bound:
            yield (*path, name)


def _is_usable(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_VALUE_LENGTH and not has_hidden_characters(value) and "\n" not in value
    return isinstance(value, bool) or is_number(value)


def build_fields(question: ApproveTool, arguments: tuple[RuleArgument, ...]) -> tuple[Field, ...]:
    """Return the fields of the rule form.

    Each argument has a field for its condition, such as "at most", and a field for the value to compare with. The
    dialog hides the value field if the condition needs no value.
    """
    out = [
        _choice_field("covers", _("covers"), (THIS_TOOL, MATCHING_TOOLS, EVERY_TOOL)),
        Field(name="names", kind="text", title=_("  names"), required=True, description=_("* stands for any text")),
    ]
    for number, one in enumerate(arguments):
        out.append(_choice_field(f"condition {number}", one.name, (ANY_VALUE, *_offered_tests(one, question.folder))))
        out.append(Field(name=f"value {number}", kind="text", title=_("  value"), required=True))
    out.append(_choice_field("others", _("other arguments"), (NO_OTHERS, ANY_OTHERS)))
    return (*out, _choice_field("where", _("where"), tuple(SCOPES)), _choice_field("until", _("expires"), EXPIRIES))


def _choice_field(name: str, title: str, words: tuple[str, ...]) -> Field:
    return Field(
        name=name, kind="choice", title=title, required=True, options=tuple(Option(word, _(word)) for word in words)
    )


def is_path(argument: RuleArgument) -> bool:
    """Return whether an argument looks like a file path, judging by its value and its name."""
    return isinstance(argument.value, str) and looks_like_path(argument.path[-1], argument.value)


def _offered_tests(argument: RuleArgument, folder: str | None) -> tuple[str, ...]:
    value = argument.value
    if isinstance(value, bool):
        return (EXACT_VALUE,)
    if isinstance(value, str):
        path = folder is not None and ("/" in value or value.startswith((".", "~")) or is_path(argument))
        return (EXACT_VALUE, *((IN_FOLDER,) if path else ()), "one of", "fits a pattern")
    return (EXACT_VALUE, "at most", "at least", "one of")


def takes_value(test: str) -> bool:
    """Return whether the condition *test*, such as "at most", needs a value that the user must enter.

    The conditions ANY_VALUE and EXACT_VALUE need no value.
    """
    return test not in (ANY_VALUE, EXACT_VALUE)


def suggest_value(test: str, value: Value, folder: str | None) -> str:
    """Suggest the value with which the condition *test*, such as "at most", compares an argument.

    *value* is the value of the argument in the current call. A relative path is resolved against *folder*.
    """
    match test:
        case "in this folder":
            parent = os.path.dirname(str(value))
            return parent if parent.startswith(("/", "~")) else os.path.normpath(os.path.join(str(folder), parent))
        case "fits a pattern":
            return re.escape(str(value))
        case _:
            return value if isinstance(value, str) else dumps(value)


def build_rule(question: ApproveTool, arguments: tuple[RuleArgument, ...], values: dict[str, Any]) -> Rule:
    """Build a rule without an expiry time from the values of the form, which are keyed by field name.

    Raises UsageError if a value is invalid or the rule is too long to be shown.
    """
    match values["covers"]:
        case "this tool":
            tool = exact_pattern(question.tool)
        case "tools whose names match":
            names = values["names"] or ""
            if not names:
                raise UsageError(_("Enter a name; * stands for any text."))
            tool = "*".join(exact_pattern(part) if part else "" for part in names.split("*"))
        case _:
            tool = ""
    conditions = tuple(
        _build_condition(one, _TESTS[values[f"condition {number}"]], values[f"value {number}"] or "")
        for number, one in enumerate(arguments)
        if values[f"condition {number}"] != ANY_VALUE
    )
    if values["others"] == NO_OTHERS:
        others = _iter_other_paths(question.arguments, (), {one.argument for one in conditions})
        conditions += (Condition((), "only", tuple(map(format_path, others))),)
    rule = Rule(server=question.server, tool=tool, conditions=conditions, scope=SCOPES[values["where"]])
    text = format_rule(rule)
    if len(text) > MAX_RULE_LENGTH:
        raise UsageError(
            _("The rule is over {max_rule_length} characters and cannot be shown.").format(
                max_rule_length=MAX_RULE_LENGTH
            )
        )
    read = parse_rule(text)
    if (read.server, read.tool, read.conditions) != (rule.server, tool, conditions):
        raise UsageError(_("These conditions cannot be written as a rule."))
    return rule


def _build_condition(argument: RuleArgument, test: Operator, text: str) -> Condition:
    if test == "is":
        return Condition(argument.path, "is", (argument.value,))
    if not text:
        raise UsageError(_("{name}: a value is required.").format(name=argument.name))
    if test in ("<=", ">="):
        return Condition(argument.path, test, (_parse_number(argument.name, text),))
    if test == "in":
        parts = [part.strip() for part in text.split(",")]
        return Condition(
            argument.path,
            "in",
            tuple(part if isinstance(argument.value, str) else _parse_number(argument.name, part) for part in parts),
        )
    return Condition(argument.path, test, (text,))


def _parse_number(name: str, text: str) -> Value:
    try:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,300}", text.strip()) else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(_("{name}: {text!r} is not a number.").format(name=name, text=text[:40]))
    return number


def expiry_time(until: str) -> float | None:
    """Return the Unix time in seconds at which a rule expires, or None if it never expires.

    *until* is one of EXPIRIES.
    """
    match until:
        case "1 hour":
            return time.time() + 3600
        case "today":
            tomorrow = datetime.now().astimezone().date() + timedelta(days=1)
            return datetime.combine(tomorrow, datetime.min.time()).timestamp()
        case "30 days":
            return time.time() + 30 * 86_400
        case _:
            return None


def describe_rule(rule: Rule, until: str) -> str:
    """Describe a rule in one sanitized sentence.

    *until*, which is one of EXPIRIES, determines when the rule expires.
    """
    run = _("runs")
    match rule.tool, rule.exact_tool:
        case "", _:
            what = _("Every tool of {server}").format(server=clean_line(rule.server, _MAX_VALUE_LENGTH))
        case _, None:
            server, tool = (clean_line(name, _MAX_VALUE_LENGTH) for name in (rule.server, rule.tool))
            what = _("Tools of {server} named {tool}").format(server=server, tool=tool)
            run = _("run")
        case _, name:
            what = _("{name} of {server}").format(
                name=clean_line(name, _MAX_VALUE_LENGTH), server=clean_line(rule.server, _MAX_VALUE_LENGTH)
            )
    when = _describe_conditions(rule)
    where = next(words for words, scope in SCOPES.items() if scope == rule.scope)
    where = _(where) if where == "everywhere" else _("in {where}").format(where=_(where))
    ends = {"1 hour": _("valid for 1 hour"), "today": _("valid until midnight"), "30 days": _("valid for 30 days")}.get(
        until, _("with no expiry")
    )
    return _("{what} {run} without asking{when}; {where}, {ends}.").format(
        what=what, run=run, when=when, where=where, ends=ends
    )


def _describe_conditions(rule: Rule) -> str:
    """Describe which arguments a call must have for the rule to allow the call."""
    tests = join_list(_describe_condition(one) for one in rule.conditions if one.operator != "only")
    only = next((one for one in rule.conditions if one.operator == "only"), None)
    if only is None:
        return _(" when {tests}, with any other arguments").format(tests=tests) if tests else _(" with any arguments")
    names = clean_line(join_list(".".join(parse_path(str(path))) for path in only.values), MAX_RULE_LENGTH)
    if not names:
        return _(" when {tests}, with no other arguments").format(tests=tests) if tests else _(" without arguments")
    if not tests:
        return _(" with any value of {names}, and no other arguments").format(names=names)
    return _(" when {tests}, with any value of {names}, and no other arguments").format(tests=tests, names=names)


def _describe_condition(condition: Condition) -> str:
    values = join_list(one if isinstance(one, str) else dumps(one) for one in condition.values)
    return clean_line(
        f"{'.'.join(condition.argument)} {_(_TEST_PHRASES[condition.operator])} {values}", MAX_RULE_LENGTH
    )


def initial_values(question: ApproveTool, arguments: tuple[RuleArgument, ...]) -> dict[str, Any]:
    """Return the form's initial values, keyed by field name, for a rule that allows the current call.

    The rule requires a path to be in the same folder as in this call or, if that folder is too broad, to be the same
    path. Every other argument must have the same value as in this call. Additional arguments are not allowed.

    If the rule would be too long to be shown, the conditions with the longest values are omitted. If even a rule
    without conditions on values would be too long, additional arguments are allowed.

    The rule normally applies in this project for 30 days. It applies only in this conversation, for one hour, if it
    could allow unrelated calls. This is the case if it allows additional arguments, or if it restricts no path and
    leaves some argument without a condition.
    """
    head = re.split(r"(?<=[_./-])", question.tool, maxsplit=1)[0]
    values: dict[str, Any] = {"covers": THIS_TOOL, "names": f"{head}*", "others": NO_OTHERS,
                              "where": DEFAULT_SCOPE, "until": DEFAULT_EXPIRY}  # fmt: skip
    for number, argument in enumerate(arguments):
        folder = narrow_folder(question, argument)
        values[f"condition {number}"] = IN_FOLDER if folder else EXACT_VALUE
        values[f"value {number}"] = folder or None
    if not _is_valid(question, arguments, values | {f"condition {at}": ANY_VALUE for at in range(len(arguments))}):
        values["others"] = ANY_OTHERS  # there are too many arguments, or their names are too long
    longest = sorted(range(len(arguments)), key=lambda number: len(str(arguments[number].value)), reverse=True)
    for number in longest:
        if _is_valid(question, arguments, values):
            break
        values[f"condition {number}"] = ANY_VALUE
    bound = [one for number, one in enumerate(arguments) if values[f"condition {number}"] != ANY_VALUE]
    if values["others"] == ANY_OTHERS:
        values |= {"where": NARROW_SCOPE, "until": NARROW_EXPIRY}
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
    """Return the folder to which a rule can restrict this path argument, or "" if no folder is suitable.

    If the path is probably a folder, this is the path itself; otherwise, it is the folder that contains the path. A
    path without an extension is assumed to be a folder, because a rule for its parent folder would allow more. The file
    system is not consulted: it may be slow, and the path may not exist yet.

    No folder is suitable if the argument is not a path, or if a rule for the folder would allow too much. The same is
    true of a path that contains ".." or begins with "~", "-" or "@".
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
    """Return whether a rule for the folder *path* would allow too much.

    This is the case for `/` and the folders directly in it, for the home folder and its parents, and for the parents of
    *folder*, the server's working directory.
    """
    below = path.rstrip("/") + "/"
    home = os.path.expanduser("~")
    return path.count("/") < 2 or f"{home}/".startswith(below) or (folder != path and folder.startswith(below))
