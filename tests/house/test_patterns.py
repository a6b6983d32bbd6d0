"""No regular expression of the package takes more than linear time, whatever it is given."""

import json
import resource
import subprocess
import sys

import pytest

from mcphost.llm.demo import RULES
from tests.house.patterns import FUNCTIONS, other_ways
from tests.house.tree import ROOT

EXAMPLES = {
    "mcphost.llm.demo:wishes_in": [rule.pattern for rule in RULES],
    "mcphost.normal_forms:_long_runs": ["[\u0300\u0315\u0f73]{31,}"],
}
"""Patterns that are no literals, by module and function: examples of what they are."""
BOUNDED = {
    # A form's pattern is a server's; it is tried only when it and the text have at most 500 characters.
    "mcphost.host.questions.fields:_fits": [r"^[a-z]*[a-z]*\Z", r"[a-z]*\Z", r"a{0,999}\Z"],
}
"""Patterns of others: linear they need not be, because what they may be tried with is short."""
CPU_SECONDS = 300


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def tried(*arguments: str) -> list[dict[str, str]]:
    child = subprocess.run(
        [sys.executable, "-m", "tests.house.patterns", *arguments],
        cwd=ROOT, capture_output=True, text=True, preexec_fn=_limit, timeout=3_000, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert child.returncode == 0, (lines[-1:], child.stderr[-2000:])
    return lines


def test_every_pattern_of_the_package_takes_linear_time() -> None:
    lines = tried(json.dumps(EXAMPLES), json.dumps(BOUNDED))
    assert [line["slow"] for line in lines if "slow" in line] == []
    assert len([line for line in lines if "begun" in line]) > 100


def test_no_pattern_can_escape_the_search_for_them() -> None:
    assert other_ways() == []
    assert {"compile", "match", "search", "sub"} <= FUNCTIONS


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"\s+$",
        r"\beyJ[\w-]{8,}\.[\w-]{8,}",
        r'"(?:[^"\\]|\\.)*"',
        r"\$\{(env|keyring):([^}]*)\}",
        r"(?:x|\w+=\w+),",
    ],
)
def test_a_pattern_that_is_not_linear_is_noticed(pattern: str) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.house.patterns", "--pattern", pattern],
        cwd=ROOT, capture_output=True, text=True, preexec_fn=_limit_short, timeout=600, check=False,
    )  # fmt: skip
    assert "begun" in child.stdout
    assert "slow" in child.stdout or child.returncode < 0


def _limit_short() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
