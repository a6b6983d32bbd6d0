"""Does a rule cover a call? Yes, no, or nobody can tell, which then means that a person is asked.

A rule that was written to allow must never cover more than its words say, so everything that a server may read in
another way than we do counts as "unsure". A rule that forbids is obeyed for "yes" and for "unsure".
"""

import math
import re
from typing import Any, Literal, cast

import anyio
import anyio.to_thread

from mcphost.config.rules import Condition, Rule, Value
from mcphost.host.consent.path_containment import Containment, check_containment
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.sanitize import sanitize, strip_unsafe
from mcphost.serialization import Struct, encode
from mcphost.unicode_forms import normalize

RuleMatch = Literal["yes", "no", "unsure"]
PATH_SECONDS = 1.0
"""What looking at the file system may take; a folder of a network that is gone could take minutes."""
TEXT_LIMIT = 64 * 1024
_MAX_DEPTH = 20
"""Levels of objects that are searched for similar names; what lies deeper cannot be judged."""
_PROTOTYPES = ("__proto__", "constructor")
_LIST_INDEX = re.compile(r"\[[0-9]*\]")
_WHITESPACE = re.compile(r"\s+")
_BOOLEAN_WORDS: dict[str, str] = {**dict.fromkeys(["true", "yes", "on", "y", "t"], "1"),
                          **dict.fromkeys(["false", "no", "off", "n", "f"], "0")}  # fmt: skip


class RuleInput(Struct, frozen=True, kw_only=True):
    """A call as rules see it. `folder` is where its server runs; None: not on this machine, as far as we know."""

    server: str
    tool: str
    arguments: dict[str, Any]
    account: str = ""
    folder: str | None = None


class RuleMatcher:
    """Compares rules with calls; patterns run in the child of `checker`, where they can be killed."""

    def __init__(self, validator: SchemaValidator) -> None:
        self._validator = validator

    async def match(self, rule: Rule, call: RuleInput) -> RuleMatch:
        """Whether `call` is covered, whatever the rule's scope and expiry. Raises nothing but cancellation."""
        if not rule.covers(call.server, call.tool) or rule.account not in (None, call.account):
            return "no"
        answer: RuleMatch = "yes"
        for condition in rule.conditions:
            found = await self._match_condition(condition, call)
            if found == "no":
                return "no"
            answer = "unsure" if found == "unsure" else answer
        return answer

    async def _match_condition(self, condition: Condition, call: RuleInput) -> RuleMatch:
        found, value, in_doubt = _find_argument(call.arguments, condition.argument)
        if in_doubt:
            # A server that takes "Path" for "path" may act on the other one, or on that alone.
            return "unsure"
        if not found:
            return "no"
        match condition.operator:
            case "under":
                return await _match_folder(value, condition.values[0], call.folder)
            case "re":
                return await self._match_pattern(value, condition.values[0])
            case _:
                return _compare(condition, value)

    async def _match_pattern(self, value: Any, pattern: Value) -> RuleMatch:
        if not isinstance(value, str) or len(value) > TEXT_LIMIT or sanitize(value, keep_newlines=False) != value:
            # A dot does not match a line break, and `[^;]` does: neither is what people mean by it.
            return "unsure"
        # Also by itself: `a)|(b` would be two patterns in the brackets that hold it to the whole text.
        schema = {"type": "string", "allOf": [{"pattern": pattern}, {"pattern": f"^(?:{pattern})$"}]}
        verdict = await self._validator.validate(encode(schema), value)
        return {"fits": "yes", "misfit": "no"}.get(verdict.outcome, "unsure")  # pyright: ignore[reportReturnType]


def _find_argument(arguments: dict[str, Any], path: tuple[str, ...]) -> tuple[bool, Any, bool]:
    """Return whether the argument is there, its value, and whether a server may read something else as it."""
    if _has_similar_name(arguments, path, "".join(map(_normalize_name, path))):
        return False, None, True
    value: Any = arguments
    for name in path:
        if not isinstance(value, dict):
            # Some servers read JSON in a text as the object that it stands for, or take the first of a list.
            return False, None, True
        members = cast("dict[str, Any]", value)
        if name not in members:
            return False, None, False
        value = members[name]
    return True, value, False


def _has_similar_name(members: dict[str, Any], path: tuple[str, ...], wanted: str, depth: int = 0) -> bool:
    """Whether a member that is not on the way may be read as the argument, whose plain name is `wanted` from here on.

    By a similar name on any level (`Path`, `path[]`, `path` with an invisible character), by the whole way as one name
    (`options.depth`) or by one name as a way, and by the prototype that JavaScript takes members from.
    """
    if depth > _MAX_DEPTH:
        return True
    for name, member in members.items():
        plain = _normalize_name(name)
        if path and name == path[0]:
            step = path[1:]
        elif name in _PROTOTYPES or (wanted.startswith(plain) and plain in (wanted, *map(_normalize_name, path[:1]))):
            return True
        else:
            step = ()
        on_way = bool(step) or not (path and name == path[0])
        if on_way and wanted.startswith(plain) and isinstance(member, dict):
            inner = cast("dict[str, Any]", member)
            if _has_similar_name(inner, step, wanted[len(plain) :], depth + 1):
                return True
    return False


def _normalize_name(name: str) -> str:
    """The letters and digits of a name, without case, accents, invisible characters and the index of a list."""
    folded = normalize("NFKD", normalize("NFKD", _LIST_INDEX.sub("", name)).casefold())
    return "".join(filter(str.isalnum, strip_unsafe(folded)))


def _value_kind(value: Any) -> str:
    match value:
        case bool():
            return "truth"
        case int():
            return "number"
        case float():
            return "number" if math.isfinite(value) else ""
        case str():
            return "text"
        case _:
            return ""


def _compare(condition: Condition, value: Any) -> RuleMatch:
    """Numbers with numbers, text with text; a value of another kind is one the server may still take for it."""
    kind = _value_kind(value)
    wanted = {_value_kind(one) for one in condition.values}
    if not kind:
        return "unsure"
    if condition.operator in ("is", "in"):
        if any(_value_kind(one) == kind and one == value for one in condition.values):
            return "yes"
        return "unsure" if kind not in wanted or any(_is_equivalent(value, one) for one in condition.values) else "no"
    if kind != "number":
        return "unsure"
    bound = cast("float", condition.values[0])
    match condition.operator:
        case "<":
            held = value < bound
        case "<=":
            held = value <= bound
        case ">":
            held = value > bound
        case _:
            held = value >= bound
    return "yes" if held else "no"


def _is_equivalent(value: Value, wanted: Value) -> bool:
    """Whether a server may take one for the other: other case, white space, quotes, or the text of a number."""
    try:
        one, other = _to_text(value), _to_text(wanted)
        return one == other or float(one) == float(other)
    except (ValueError, OverflowError):
        return False


def _to_text(value: Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    text = strip_unsafe(normalize("NFKC", str(value))).casefold()
    text = _WHITESPACE.sub("", text).strip("\"'`")
    return _BOOLEAN_WORDS.get(text, text)


async def _match_folder(value: Any, folder: Value, working_directory: str | None) -> RuleMatch:
    if not isinstance(value, str) or not isinstance(folder, str) or working_directory is None:
        return "unsure"
    place: Containment = "unsure"
    with anyio.move_on_after(PATH_SECONDS):
        place = await anyio.to_thread.run_sync(
            check_containment, value, folder, working_directory, abandon_on_cancel=True
        )
    return {"inside": "yes", "outside": "no"}.get(place, "unsure")  # pyright: ignore[reportReturnType]
