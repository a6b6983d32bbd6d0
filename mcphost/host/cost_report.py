"""Reports of the recorded cost of model requests, by day, by model and by part of the input."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from mcphost.serialization import Struct
from mcphost.store.spending import SpendingEntry, SpendingSum
from mcphost.translation import N_

ANSWERS = "answers"
"""The `kind` of a PartCost for the models' answers."""


class PartCost(Struct, frozen=True):
    """Tokens and cost in US dollars of one part of several requests; the cost is None if unknown.

    `kind`, `server` and `tool` are as in TokenShare; `kind` is ANSWERS for the model's output. The provider's count of
    input tokens is divided among the parts in proportion to their estimated sizes.
    """

    kind: str
    server: str
    tool: str
    tokens: int
    cost: float | None


class CostPeriod(Struct, frozen=True):
    """Costs of the requests of a turn, a conversation or a period; `day` is set for a single day.

    `models` contains the cost of each model and `parts` that of each part of the requests, most expensive first. Days
    are local dates.
    """

    title: str
    total: SpendingSum = SpendingSum()
    cached_tokens: int = 0
    models: tuple[tuple[str, SpendingSum], ...] = ()
    parts: tuple[PartCost, ...] = ()
    day: str = ""


def summarize(title: str, entries: Sequence[SpendingEntry], day: str = "") -> CostPeriod:
    """Return the total of these requests, and the sums by model and by part."""
    models: dict[str, SpendingSum] = defaultdict(SpendingSum)
    for entry in entries:
        models[entry.model] += sum_entry(entry)
    return CostPeriod(
        title,
        sum(models.values(), SpendingSum()),
        sum(entry.cached_tokens for entry in entries),
        tuple(sorted(models.items(), key=lambda item: (-item[1].cost, -item[1].tokens))),
        sum_parts(entries),
        day,
    )


def summarize_days(entries: Iterable[SpendingEntry]) -> tuple[CostPeriod, ...]:
    """Return the sums of each local day on which there were requests, newest first."""
    days: dict[str, list[SpendingEntry]] = defaultdict(list)
    for entry in entries:
        days[time.strftime("%Y-%m-%d", time.localtime(entry.at))].append(entry)
    return tuple(summarize(day, days[day], day) for day in sorted(days, reverse=True))


def sum_entry(entry: SpendingEntry) -> SpendingSum:
    """Convert one request to a sum, which can be added to other sums."""
    tokens = entry.input_tokens + entry.output_tokens
    return SpendingSum(entry.cost or 0.0, 1, tokens, tokens if entry.cost is None else 0)


def sum_parts(entries: Iterable[SpendingEntry]) -> tuple[PartCost, ...]:
    """Return the tokens and cost of each part of these requests, the most expensive first."""
    tokens: dict[tuple[str, str, str], float] = defaultdict(float)
    costs: dict[tuple[str, str, str], float] = defaultdict(float)
    priced: set[tuple[str, str, str]] = set()

    def count(key: tuple[str, str, str], share: float, cost: float | None) -> None:
        tokens[key] += share
        if cost is not None:
            costs[key] += cost
            priced.add(key)

    for entry in entries:
        input_cost = _input_cost(entry)
        estimated = sum(share.tokens for share in entry.shares)
        for share in entry.shares:
            fraction = share.tokens / estimated if estimated else 0.0
            cost = None if input_cost is None else input_cost * fraction
            count((share.kind, share.server, share.tool), entry.input_tokens * fraction, cost)
        if not estimated:
            count(("other", "", ""), entry.input_tokens, input_cost)
        output_cost = None if input_cost is None or entry.cost is None else entry.cost - input_cost
        count((ANSWERS, "", ""), entry.output_tokens, output_cost)
    parts = (
        PartCost(*key, round(amount), costs[key] if key in priced else None) for key, amount in tokens.items() if amount
    )
    return tuple(sorted(parts, key=lambda part: (-(part.cost or 0), -part.tokens)))


def describe_part(kind: str, server: str, tool: str, translate: Callable[[str], str] = str) -> str:
    """Return a label for a part of requests, such as "tools of github"; names are not sanitized.

    *translate* is called before the names are filled in.
    """
    match kind:
        case "system":
            label = N_("instructions and skills")
        case "definitions":
            label = N_("tools of {server}")
        case "results":
            label = N_("results of {server} · {tool}") if server else N_("results of {tool}")
        case "attachments":
            label = N_("attachments of {server}") if server else N_("attachments")
        case "sampling":
            label = N_("requests of {server}")
        case "messages":
            label = N_("messages")
        case "answers":
            label = N_("answers")
        case "other":
            label = N_("the rest")
        case _:
            return kind
    return translate(label).format(server=server or "mcphost", tool=tool)


def _input_cost(entry: SpendingEntry) -> float | None:
    """Return the recorded cost of a request's input, or else an estimate from its share of the tokens."""
    if entry.input_cost is not None or entry.cost is None:
        return entry.input_cost
    total = entry.input_tokens + entry.output_tokens
    return entry.cost * entry.input_tokens / total if total else 0.0
