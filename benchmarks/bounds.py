"""The bounds in `bounds.toml`, and verdicts on measured ratios."""

# pyright: basic

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Bound:
    """The goal for a ratio, and the current limit until the goal is reached."""

    value: float
    is_ceiling: bool
    reached: float

    def holds(self, ratio: float) -> bool:
        """Return whether the ratio is within the current limit; NaN never is."""
        return ratio <= self.reached if self.is_ceiling else ratio >= self.reached

    def verdict(self, ratio: float) -> str:
        """Return "ok", "BROKEN", or a note on how far it is from the goal."""
        if not self.holds(ratio):
            return "BROKEN"
        is_met = ratio <= self.value if self.is_ceiling else ratio >= self.value
        return "ok" if is_met else f"not met, kept within {self.reached:g}"

    def __str__(self) -> str:
        return f"{'at most' if self.is_ceiling else 'at least'} {self.value:g}"


def load() -> dict[str, dict[str, Bound]]:
    """Return each script's bounds, keyed by ratio name. Raises ValueError for an invalid bound."""
    found: dict[str, dict[str, Bound]] = {}
    for script, ratios in tomllib.loads((HERE / "bounds.toml").read_text(encoding="utf-8")).items():
        for name, fields in ratios.items():
            reached = fields.pop("reached", None)
            if set(fields) not in ({"at_most"}, {"at_least"}):
                raise ValueError(f"{script}, {name!r}: write at_most or at_least, and reached where it is not met.")
            ((kind, value),) = fields.items()
            bound = Bound(float(value), kind == "at_most", float(value if reached is None else reached))
            if bound.is_ceiling == (bound.reached < bound.value) and bound.reached != bound.value:
                raise ValueError(f"{script}, {name!r}: what was reached is better than the bound; leave it out.")
            found.setdefault(script, {})[name] = bound
    return found


def best(script: str, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the better value of each ratio in two runs; its bound determines which is better."""
    found = {**before, **after}
    for name, bound in load().get(script, {}).items():
        if name in before and name in after:
            found[name] = (min if bound.is_ceiling else max)(before[name], after[name])
    return found


def table(script: str, ratios: Mapping[str, float], *, is_partial: bool = False) -> tuple[list[str], int]:
    """Return a line for each of the script's bounds, and the number of broken ones.

    A bound without a measured ratio is broken, unless only a part was measured on purpose.
    """
    lines: list[str] = []
    broken = 0
    for name, bound in load().get(script, {}).items():
        if name not in ratios and is_partial:
            continue
        ratio = ratios.get(name, math.nan)
        broken += not bound.holds(ratio)
        lines.append(f"{script:<10}  {name:<58}  {ratio:>8.2f}  {bound!s:<14}  {bound.verdict(ratio)}")
    return lines, broken


def report(script: str, ratios: Mapping[str, float], *, is_partial: bool = False, file: str = "") -> int:
    """Print the verdicts and return the exit code; write the ratios to `file` as JSON if there is one."""
    lines, broken = table(script, ratios, is_partial=is_partial)
    print(*lines, sep="\n", flush=True)
    if file:
        Path(file).write_text(json.dumps({name: ratio for name, ratio in ratios.items() if not math.isnan(ratio)}))
    return 1 if broken else 0
