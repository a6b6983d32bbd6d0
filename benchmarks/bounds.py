"""The bounds in `bounds.toml`, and the verdicts on measured ratios."""

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
    """Bound on a measured ratio: the goal (`value`), and the limit that applies until the goal is met (`reached`).

    The ratio is one of wall times that other programs on the machine change, if *is_wall* is set.
    """

    value: float
    is_ceiling: bool
    reached: float
    is_wall: bool = False

    def holds(self, ratio: float) -> bool:
        """Return whether *ratio* is within the limit that currently applies; for NaN, return False."""
        return ratio <= self.reached if self.is_ceiling else ratio >= self.reached

    def verdict(self, ratio: float) -> str:
        """Return "BROKEN", "ok" if the goal is met, or a note that only the current limit is kept."""
        if not self.holds(ratio):
            return "BROKEN"
        is_met = ratio <= self.value if self.is_ceiling else ratio >= self.value
        return "ok" if is_met else f"not met, kept within {self.reached:g}"

    @property
    def limit(self) -> str:
        """The limit that currently applies, such as "at most 1.56"."""
        return self._describe(self.reached)

    def __str__(self) -> str:
        return self._describe(self.value)

    def _describe(self, value: float) -> str:
        return f"{'at most' if self.is_ceiling else 'at least'} {value:g}"


def load() -> dict[str, dict[str, Bound]]:
    """Return the bounds for each script, keyed by the name of the ratio. Raises ValueError for an invalid bound."""
    found: dict[str, dict[str, Bound]] = {}
    for script, ratios in tomllib.loads((HERE / "bounds.toml").read_text(encoding="utf-8")).items():
        for name, fields in ratios.items():
            reached, is_wall = fields.pop("reached", None), fields.pop("wall", False)
            if set(fields) not in ({"at_most"}, {"at_least"}):
                raise ValueError(f"{script}, {name!r}: write at_most or at_least, and reached where it is not met.")
            ((kind, value),) = fields.items()
            bound = Bound(float(value), kind == "at_most", float(value if reached is None else reached), is_wall)
            if bound.is_ceiling == (bound.reached < bound.value) and bound.reached != bound.value:
                raise ValueError(f"{script}, {name!r}: what was reached is better than the bound; leave it out.")
            found.setdefault(script, {})[name] = bound
    return found


def best(script: str, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the better value of each ratio in two runs; whether lower is better depends on the ratio's bound."""
    found = {**before, **after}
    for name, bound in load().get(script, {}).items():
        if name in before and name in after:
            found[name] = (min if bound.is_ceiling else max)(before[name], after[name])
    return found


def broken(script: str, ratios: Mapping[str, float], *, is_busy: bool = False) -> list[str]:
    """Return the names of the script's broken bounds; those of ratios that were not measured are broken.

    Bounds on wall times are not judged if *is_busy* says that other programs keep the machine busy.
    """
    return [
        name
        for name, bound in load().get(script, {}).items()
        if name not in ratios or not (bound.holds(ratios[name]) or (bound.is_wall and is_busy))
    ]


def describe_broken(script: str, ratios: Mapping[str, float], *, is_busy: bool = False) -> list[str]:
    """Return a line for each of the script's `broken` bounds: its name, the measured value and the limit."""
    known = load().get(script, {})
    return [
        f"{script}, {name}: {ratios.get(name, math.nan):.2f}, {known[name].limit}"
        for name in broken(script, ratios, is_busy=is_busy)
    ]


def table(
    script: str, ratios: Mapping[str, float], *, is_partial: bool = False, is_busy: bool = False
) -> tuple[list[str], int]:
    """Return one line per bound of the script, and the number of `broken` bounds.

    If *is_partial* is set, only some ratios were to be measured, and the bounds of the others are left out.
    """
    wrong = broken(script, ratios, is_busy=is_busy)
    lines: list[str] = []
    for name, bound in load().get(script, {}).items():
        if name not in ratios and is_partial:
            wrong.remove(name)
            continue
        ratio = ratios.get(name, math.nan)
        is_excused = not bound.holds(ratio) and name not in wrong
        verdict = "not judged on a busy machine" if is_excused else bound.verdict(ratio)
        lines.append(f"{script:<10}  {name:<58}  {ratio:>8.2f}  {bound!s:<14}  {verdict}")
    return lines, len(wrong)


def report(script: str, ratios: Mapping[str, float], *, is_partial: bool = False, file: str = "") -> int:
    """Print the verdicts and return the exit code; if *file* is given, write the ratios to it as JSON."""
    lines, broken = table(script, ratios, is_partial=is_partial)
    print(*lines, sep="\n", flush=True)
    if file:
        Path(file).write_text(json.dumps({name: ratio for name, ratio in ratios.items() if not math.isnan(ratio)}))
    return 1 if broken else 0
