"""Does a rule cover a call? Yes, no, or nobody can tell, which then means that a person is asked.

A rule that was written to allow must never cover more than its words say, so everything that a server may read in
another way than we do counts as "unsure". A rule that forbids is obeyed for "yes" and for "unsure".
"""

import math
import unicodedata
from typing import Any, Literal, cast

import anyio
import anyio.to_thread

from mcphost.config.rules import Condition, Rule, Value
from mcphost.data import Data, encode
from mcphost.host.consent.folders import Place, under
from mcphost.schemas.checker import Checker

Answer = Literal["yes", "no", "unsure"]
PATH_SECONDS = 1.0
"""What looking at the file system may take; a folder of a network that is gone could take minutes."""
TEXT_LIMIT = 64 * 1024


class Asked(Data, frozen=True, kw_only=True):
    """A call as rules see it. `folder` is where its server runs; None: not on this machine, as far as we know."""

    server: str
    tool: str
    arguments: dict[str, Any]
    account: str = ""
    folder: str | None = None


class Matching:
    """Compares rules with calls; patterns run in the child of `checker`, where they can be killed."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    async def matches(self, rule: Rule, call: Asked) -> Answer:
        """Whether `call` is covered, whatever the rule's scope and expiry. Raises nothing but cancellation."""
        if not rule.names(call.server, call.tool) or rule.account not in (None, call.account):
            return "no"
        answer: Answer = "yes"
        for condition in rule.conditions:
            found = await self._holds(condition, call)
            if found == "no":
                return "no"
            answer = "unsure" if found == "unsure" else answer
        return answer

    async def _holds(self, condition: Condition, call: Asked) -> Answer:
        found, value, alike = _argument(call.arguments, condition.argument)
        if alike:
            # A server that takes "Path" for "path" may act on the other one, or on that alone.
            return "unsure"
        if not found:
            return "no"
        match condition.test:
            case "under":
                return await _under(value, condition.values[0], call.folder)
            case "re":
                return await self._fits(value, condition.values[0])
            case _:
                return _compares(condition, value)

    async def _fits(self, value: Any, pattern: Value) -> Answer:
        if not isinstance(value, str) or len(value) > TEXT_LIMIT:
            return "unsure"
        # Also by itself: `a)|(b` would be two patterns in the brackets that hold it to the whole text.
        schema = {"type": "string", "allOf": [{"pattern": pattern}, {"pattern": f"^(?:{pattern})$"}]}
        verdict = await self._checker.check(encode(schema), value)
        return {"fits": "yes", "misfit": "no"}.get(verdict.outcome, "unsure")  # pyright: ignore[reportReturnType]


def _argument(arguments: dict[str, Any], way: tuple[str, ...]) -> tuple[bool, Any, bool]:
    """Whether it is there, its value, and whether another one has nearly the same name."""
    value: Any = arguments
    alike = False
    for name in way:
        if not isinstance(value, dict):
            return False, None, alike
        members = cast("dict[str, Any]", value)
        plain = _plain(name)
        alike = alike or any(other != name and _plain(other) == plain for other in members)
        if name not in members:
            return False, None, alike
        value = members[name]
    return True, value, alike


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().replace("_", "").replace("-", "")


def _kind(value: Any) -> str:
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


def _compares(condition: Condition, value: Any) -> Answer:
    """Numbers with numbers, text with text; a value of another kind is one the server may still take for it."""
    kind = _kind(value)
    wanted = {_kind(one) for one in condition.values}
    if not kind:
        return "unsure"
    if condition.test in ("is", "in"):
        if any(_kind(one) == kind and one == value for one in condition.values):
            return "yes"
        return "no" if kind in wanted else "unsure"
    if kind != "number":
        return "unsure"
    bound = cast("float", condition.values[0])
    match condition.test:
        case "<":
            held = value < bound
        case "<=":
            held = value <= bound
        case ">":
            held = value > bound
        case _:
            held = value >= bound
    return "yes" if held else "no"


async def _under(value: Any, folder: Value, runs_in: str | None) -> Answer:
    if not isinstance(value, str) or not isinstance(folder, str) or runs_in is None:
        return "unsure"
    place: Place = "unsure"
    with anyio.move_on_after(PATH_SECONDS):
        place = await anyio.to_thread.run_sync(under, value, folder, runs_in, abandon_on_cancel=True)
    return {"inside": "yes", "outside": "no"}.get(place, "unsure")  # pyright: ignore[reportReturnType]
