"""Tests for the cost report: totals of recorded requests by day, by model and by part of the request."""

import time

import pytest

from mcphost.host.budget.spending import ANSWERS, PartCost, describe_part, sum_parts, summarize, summarize_days
from mcphost.llm.model import TokenShare
from mcphost.store.spending import SpendingEntry, SpendingSum

NOON = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))
SHARES = (TokenShare("definitions", "github", "", 300), TokenShare("results", "fs", "read", 100))


def entry(cost: float | None = 0.5, **more: object) -> SpendingEntry:
    values = {"at": NOON, "model": "a", "input_tokens": 800, "output_tokens": 50, "input_cost": 0.4, "shares": SHARES}
    return SpendingEntry(cost=cost, **{**values, **more})  # type: ignore[arg-type]


def test_the_input_that_the_provider_counted_is_divided_by_estimated_sizes() -> None:
    definitions, results, answers = sum_parts([entry()])
    assert definitions == PartCost("definitions", "github", "", 600, pytest.approx(0.3))  # type: ignore[arg-type]
    assert results == PartCost("results", "fs", "read", 200, pytest.approx(0.1))  # type: ignore[arg-type]
    assert (answers.kind, answers.tokens, answers.cost) == (ANSWERS, 50, pytest.approx(0.1))


def test_parts_of_several_requests_are_summed_and_the_most_expensive_comes_first() -> None:
    other = entry(shares=(TokenShare("messages", "", "", 1),), input_cost=0.9, cost=1.0)
    parts = sum_parts([entry(), entry(), other])
    assert [(part.kind, round(part.cost or 0, 3)) for part in parts] == [
        ("messages", 0.9), ("definitions", 0.6), (ANSWERS, 0.3), ("results", 0.2),
    ]  # fmt: skip


def test_an_unknown_price_leaves_the_cost_of_its_parts_unknown() -> None:
    parts = sum_parts([entry(None, input_cost=None)])
    assert [part.cost for part in parts] == [None, None, None]
    assert sum(part.tokens for part in parts) == 850
    assert summarize("x", [entry(None)]).total == SpendingSum(0.0, 1, 850, 850)


def test_a_request_recorded_without_parts_is_the_rest() -> None:
    (rest, answers) = sum_parts([entry(shares=(), input_cost=None, cost=0.85)])
    assert (rest.kind, rest.cost, answers.cost) == ("other", pytest.approx(0.8), pytest.approx(0.05))


def test_days_and_models_are_summed() -> None:
    entries = [entry(saved=0.2), entry(1.0, model="b"), entry(at=NOON - 86_400, cached_tokens=7)]
    today, yesterday = summarize_days(entries)
    assert (today.day, yesterday.day) == ("2026-11-25", "2026-11-24")
    assert today.models == (("b", SpendingSum(1.0, 1, 850, 0)), ("a", SpendingSum(0.5, 1, 850, 0, 0.2)))
    assert (today.total.saved, yesterday.total.saved) == (0.2, 0)
    assert yesterday.cached_tokens == 7


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (("definitions", "github", ""), "tools of github"),
        (("definitions", "", ""), "tools of mcphost"),
        (("results", "fs", "read"), "results of fs · read"),
        (("attachments", "", ""), "attachments"),
        (("system", "", ""), "instructions and skills"),
        (("other", "", ""), "the rest"),
    ],
)
def test_each_part_is_described_in_words(part: tuple[str, str, str], text: str) -> None:
    assert describe_part(*part) == text
