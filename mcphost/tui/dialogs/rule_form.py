"""The fields a rule is put together from, beginning with the call that is asked about; and the rule that they say."""

import math
import os
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from mcphost.config.rules import Condition, Rule, Scope, Test, Value, exact, parse, write
from mcphost.errors import UsageError
from mcphost.host.questions.form_fields import Field, Option
from mcphost.host.questions.questions import ApproveTool
from mcphost.serialization import dumps, is_number
from mcphost.tui.dialogs.call_view import hides
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.code_text import looks_like_path

ANY, EXACT, FOLDER = "any value", "exactly this", "in this folder"
TOOL, NAMES, SERVER = "this tool", "tools whose names match", "every tool of this server"
SCOPES: dict[str, Scope] = {
    "this conversation": "conversation", "this project": "project", "everywhere": "everywhere",
}  # fmt: skip
TIMES = ("1 hour", "today", "30 days", "never")
SHOWN_LIMIT = 400
"""A longer rule would not be on the screen whole."""
_TESTS: dict[str, Test] = {
    EXACT: "is", FOLDER: "under", "at most": "<=", "at least": ">=", "one of": "in",
    "fits a pattern": "re",
}  # fmt: skip
_WORDS: dict[Test, str] = {
    "is": "is", "under": "is in", "<=": "is at most", ">=": "is at least", "in": "is one of", "re": "fits",
}  # fmt: skip
_MOST = 12
_LONGEST = 200


class Argument(NamedTuple):
    """One value of the call that a condition can be about; `way` leads to it through nested objects."""

    way: tuple[str, ...]
    value: Value

    @property
    def name(self) -> str:
        """For people."""
        return clean_line(".".join(self.way), 60)


def arguments(question: ApproveTool) -> tuple[Argument, ...]:
    """What conditions can be about: plain values that are not too long, the first twelve."""
    found: list[Argument] = []
    for one in _plain(question.arguments, ()):
        if len(found) == _MOST:
            break
        found.append(one)
    return tuple(found)


def _plain(members: dict[str, Any], way: tuple[str, ...]) -> Iterator[Argument]:
    for name, value in members.items():
        if not name or hides(name) or len(name) > _LONGEST:
            continue
        if isinstance(value, dict) and len(way) < 3:
            yield from _plain(cast("dict[str, Any]", value), (*way, name))
        elif _usable(value):
            yield Argument((*way, name), cast("Value", value))


def unbound(question: ApproveTool, found: tuple[Argument, ...]) -> Iterator[str]:
    """Name each argument that no condition can be about, such as a list or a long text: a rule allows any value."""
    return _others(question.arguments, (), {one.way for one in found})


def _others(members: dict[str, Any], way: tuple[str, ...], bound: set[tuple[str, ...]]) -> Iterator[str]:
    for name, value in members.items():
        if isinstance(value, dict) and value and len(way) < 3 and name and not hides(name) and len(name) <= _LONGEST:
            yield from _others(cast("dict[str, Any]", value), (*way, name), bound)
        elif (*way, name) not in bound:
            yield clean_line(".".join((*way, name)), 60)


def _usable(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST and not hides(value) and "\n" not in value
    return isinstance(value, bool) or is_number(value)


def fields(question: ApproveTool, found: tuple[Argument, ...]) -> tuple[Field, ...]:
    """All of them; those of a value are hidden until their test needs one."""
    out = [
        _choice("covers", "covers", (TOOL, NAMES, SERVER)),
        Field(name="names", kind="text", title="  names", required=True, description="* stands for any text"),
    ]
    for number, one in enumerate(found):
        out.append(_choice(f"condition {number}", one.name, (ANY, *_offered(one, question.folder))))
        out.append(Field(name=f"value {number}", kind="text", title="  value", required=True))
    return (*out, _choice("where", "where", tuple(SCOPES)), _choice("until", "until", TIMES))


def _choice(name: str, title: str, words: tuple[str, ...]) -> Field:
    return Field(
        name=name, kind="choice", title=title, required=True, options=tuple(Option(word, word) for word in words)
    )


def is_path(one: Argument) -> bool:
    """Whether the argument is a path, by how it begins or by the name of the argument."""
    return isinstance(one.value, str) and looks_like_path(one.way[-1], one.value)


def _offered(one: Argument, folder: str | None) -> tuple[str, ...]:
    value = one.value
    if isinstance(value, bool):
        return (EXACT,)
    if isinstance(value, str):
        path = folder is not None and ("/" in value or value.startswith((".", "~")) or is_path(one))
        return (EXACT, *((FOLDER,) if path else ()), "one of", "fits a pattern")
    return (EXACT, "at most", "at least", "one of")


def takes_value(test: str) -> bool:
    """Whether that test has something to fill in."""
    return test not in (ANY, EXACT)


def suggestion(test: str, value: Value, folder: str | None) -> str:
    """What to begin with, so that the call that is asked about fits."""
    match test:
        case "in this folder":
            parent = os.path.dirname(str(value))
            return parent if parent.startswith(("/", "~")) else os.path.normpath(os.path.join(str(folder), parent))
        case "fits a pattern":
            return re.escape(str(value))
        case _:
            return value if isinstance(value, str) else dumps(value)


def rule_of(question: ApproveTool, found: tuple[Argument, ...], values: dict[str, Any]) -> Rule:
    """The rule that the fields say, without its expiry. Raises UsageError: what is missing or wrong."""
    match values["covers"]:
        case "this tool":
            tool = exact(question.tool)
        case "tools whose names match":
            names = values["names"] or ""
            if not names:
                raise UsageError("Which names? A * stands for any text.")
            tool = "*".join(exact(part) if part else "" for part in names.split("*"))
        case _:
            tool = ""
    conditions = tuple(
        _condition(one, _TESTS[values[f"condition {number}"]], values[f"value {number}"] or "")
        for number, one in enumerate(found)
        if values[f"condition {number}"] != ANY
    )
    rule = Rule(server=question.server, tool=tool, conditions=conditions, scope=SCOPES[values["where"]])
    text = write(rule)
    if len(text) > SHOWN_LIMIT:
        raise UsageError(f"The rule is over {SHOWN_LIMIT} characters, which is more than can be shown.")
    read = parse(text)
    if (read.server, read.tool, read.conditions) != (rule.server, tool, conditions):
        raise UsageError("That cannot be written as a rule.")
    return rule


def _condition(one: Argument, test: Test, typed: str) -> Condition:
    if test == "is":
        return Condition(one.way, "is", (one.value,))
    if not typed:
        raise UsageError(f"{one.name}: something is to be filled in.")
    if test in ("<=", ">="):
        return Condition(one.way, test, (_number(one.name, typed),))
    if test == "in":
        parts = [part.strip() for part in typed.split(",")]
        return Condition(
            one.way, "in", tuple(part if isinstance(one.value, str) else _number(one.name, part) for part in parts)
        )
    return Condition(one.way, test, (typed,))


def _number(name: str, text: str) -> Value:
    try:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,300}", text.strip()) else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{name}: {text[:40]!r} is not a number.")
    return number


def expiry(until: str) -> float | None:
    """When that is from now on, in seconds since 1970; None for never."""
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


def in_words(rule: Rule, until: str) -> str:
    """The rule as a sentence; clean."""
    run = "runs"
    match rule.tool, rule.exactly:
        case "", _:
            what = f"Every tool of {clean_line(rule.server, _LONGEST)}"
        case _, None:
            what = f"Tools of {clean_line(rule.server, _LONGEST)} named {clean_line(rule.tool, _LONGEST)}"
            run = "run"
        case _, name:
            what = f"{clean_line(name, _LONGEST)} of {clean_line(rule.server, _LONGEST)}"
    tests = ", ".join(map(_said, rule.conditions))
    when = f" when {tests}, whatever its other arguments are" if tests else ", whatever its arguments are"
    where = next(words for words, scope in SCOPES.items() if scope == rule.scope)
    where = where if where == "everywhere" else f"in {where}"
    ends = {"1 hour": "for 1 hour", "today": "until midnight", "30 days": "for 30 days"}.get(until, "with no end")
    return f"{what} {run} unasked{when}; {where}, {ends}."


def _said(condition: Condition) -> str:
    values = ", ".join(one if isinstance(one, str) else dumps(one) for one in condition.values)
    return clean_line(f"{'.'.join(condition.argument)} {_WORDS[condition.test]} {values}", SHOWN_LIMIT)
