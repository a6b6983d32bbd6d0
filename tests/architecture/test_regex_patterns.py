"""Tests that every regular expression of mcphost runs in linear time on any input."""

import json
import re
import signal
import subprocess
import sys
from math import inf

import pytest

from mcphost.llm.demo_model import RULES
from tests.architecture.regex_patterns import (
    FUNCTIONS,
    METHODS,
    count_texts,
    distinct_methods,
    find_indirect_imports,
    take_slice,
)
from tests.architecture.source_tree import ROOT

EXAMPLES = {
    "mcphost.llm.demo_model:find_requests": [rule.pattern for rule in RULES],
    "mcphost.tui.transcript.find:__init__": ["(?i)milk"],
    "mcphost.store.message_search:mark_pattern": [r"buy[\W_]+milk|tea"],
    "mcphost.host.conversation.file_index:_candidates": [
        r"(?m)^[^\naA]*[aA][^\nbB]*[bB].*$",
        r"(?m)^[^\naA]*[aA][^\naA]*[aA][^\naA]*[aA].*$",
    ],
    "mcphost.host.origins.encodings:__init__": [
        r"(?:[A-Za-z0-9+/_-]\s{0,4}+){16}",
        r"(?:[A-Za-z0-9+/_-]\s{0,4}+){1,1000}",
        r"(?:=\s?){0,2}",
        r"(?:[A-Z2-7]\s{0,4}+){24}",
        "=*",
        r"(?:(?:0x|\\x|%)?[0-9A-Fa-f]{2}[\s:,;-]{0,2}+){16}",
        r"\d{2,3}+(?:[\s,;]{1,3}+\d{2,3}+){15}",
        r"(?:[\s,;]{1,3}+\d{2,3}+){1,1000}",
    ],
    "mcphost.unicode_forms:_long_mark_runs": ["[\u0300\u0315\u0f73]{31,}"],
}
"""Patterns that are no literals, by module and function: examples of what they are."""
BOUNDED = {
    # A name of a file has at most 255 bytes, a pattern of .gitignore at most 200 characters; no star backtracks.
    "mcphost.host.conversation.file_index:_join": [r"(?:(?s:(?>.*?a).*b)\Z)|(?:(?s:c.*)\Z)"],
    "mcphost.host.conversation.file_index:_make_segment": [r"(?s:(?>.*?a)(?>.*?b).*)\Z"],
    # A form's pattern comes from a server; it is tried only if it and the text have at most 500 characters.
    "mcphost.host.questions.form_fields:_matches_pattern": [r"^[a-z]*[a-z]*\Z", r"[a-z]*\Z", r"a{0,999}\Z"],
}
"""Patterns of others: linear they need not be, because what they may be tried with is short."""
SLICES = 4
"""How many tests share the patterns."""


def run_patterns(seconds: float, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Test all patterns in a process with a limit on the CPU seconds for each pattern."""
    return subprocess.run(
        [sys.executable, "-m", "tests.architecture.regex_patterns", str(seconds), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=3_000, check=False,
    )  # fmt: skip


# Each pattern has 60 seconds of CPU time; beside other processes, a slice needs more than 180 on the clock.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(SLICES))
def test_every_pattern_of_the_package_takes_linear_time(number: int) -> None:
    child = run_patterns(60, json.dumps(EXAMPLES), json.dumps(BOUNDED), str(number), str(SLICES))
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert child.returncode == 0, (lines[-1:], child.stderr[-2000:])
    assert [line["slow"] for line in lines if "slow" in line] == []
    (found,) = [line["found"] for line in lines if "found" in line]
    assert found > 100
    assert len([line for line in lines if "begun" in line]) == len(take_slice(range(found), number, SLICES))


@pytest.mark.parametrize("found", [0, 1, SLICES - 1, SLICES, SLICES + 1, 1_000])
def test_the_slices_together_have_each_pattern_once(found: int) -> None:
    slices = [take_slice(range(found), number, SLICES) for number in range(SLICES)]
    assert sorted(item for one in slices for item in one) == list(range(found))
    with pytest.raises(ValueError, match=str(SLICES)):
        take_slice(range(found), SLICES, SLICES)


def test_no_pattern_can_escape_the_search_for_them() -> None:
    assert find_indirect_imports() == []
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
    child = run_patterns(0.5, "--pattern", pattern)
    assert "begun" in child.stdout
    assert "slow" in child.stdout or child.returncode == -signal.SIGPROF


@pytest.mark.parametrize(
    ("pattern", "number"),
    [
        ("abc", 1), (r"pass[-_ ]?(?:word|phrase)|\bpin\b", 5), ("(?:ab|cd){2}", 4), ("a{0,3}(?!bb|cc)", 8),
        ("a*", inf), ("(?:ab?)+", inf), ("a{0,200}", inf), ("(?=a*)", inf), (r"(a)\1", inf), ("(?>a*)", inf),
        ("(a)?(?(1)b*|c)", inf), ("(?i:x|y+)", inf), ("(?:a?){10}", 1024),
    ],
)  # fmt: skip
def test_only_a_pattern_with_few_ways_is_linear_without_being_tried(pattern: str, number: float) -> None:
    assert count_texts(pattern) == number


def test_a_method_implied_by_another_is_not_tried_twice() -> None:
    assert distinct_methods({"match", "search", "sub", "fullmatch"}) == ["sub", "fullmatch"]
    assert distinct_methods({"match", "fullmatch"}) == ["match", "fullmatch"]
    assert distinct_methods(METHODS) == ["sub", "fullmatch"]


def test_only_one_module_calls_the_slow_functions_of_unicode_and_addresses() -> None:
    slow = re.compile(r"unicodedata\.normalize|\b(urlsplit|urlparse|urljoin|urldefrag)\(")
    users = {path.name for path in (ROOT / "mcphost").rglob("*.py") if slow.search(path.read_text())}
    assert users == {"unicode_forms.py"}, "call split_url, join_url and normalize of mcphost.unicode_forms"
