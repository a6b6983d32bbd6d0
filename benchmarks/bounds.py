"""The bounds of `bounds.toml`, and the verdicts on measured ratios."""

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
    """What one ratio must be, and what a change may not make worse until it is that."""

    value: float
    is_ceiling: bool
    reached: float

    def holds(self, ratio: float) -> bool:
        """Whether the ratio keeps to what was reached; NaN never does."""
        return ratio <= self.reached if self.is_ceiling else ratio >= self.reached

    def verdict(self, ratio: float) -> str:
        """Return "ok", "BROKEN", or between the two how far it may be from the bound."""
        if not self.holds(ratio):
            return "BROKEN"
        is_met = ratio <= self.value if self.is_ceiling else ratio >= self.value
        return "ok" if is_met else f"not met, kept within {self.reached:g}"

    def __str__(self) -> str:
        return f"{'at most' if self.is_ceiling else 'at least'} {self.value:g}"


def load() -> dict[str, dict[str, Bound]]:
    """Return the bounds of each script by the name of the ratio. Raises ValueError for a bound that is none."""
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
    """Return the better value of each ratio of two runs, by its bound."""
    found = {**before, **after}
    for name, bound in load().get(script, {}).items():
        if name in before and name in after:
            found[name] = (min if bound.is_ceiling else max)(before[name], after[name])
    return found


def table(script: str, ratios: Mapping[str, float], *, is_partial: bool = False) -> tuple[list[str], int]:
    """Return a line for each bound of the script, and how many are broken.

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
