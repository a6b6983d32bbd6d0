"""Command `costs`: shows the cost of model requests by day, by model, and by part of the request.

The parts of a request are, for example, the system prompt, the messages, and the results of one tool.
"""

import argparse
from typing import TYPE_CHECKING, Any

from mcphost.cli.parser import build_options
from mcphost.cli.printing import print_json, print_note, print_table
from mcphost.errors import UsageError
from mcphost.pluralize import format_cost, format_dollars, translate_count
from mcphost.translation import _

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcphost.host.budget.spending import CostPeriod
    from mcphost.store.spending import DailySpending, SpendingSum

_MAX_DAYS = 3_650
_MAX_PARTS = 20


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `costs` command to *parser*."""
    parser.add_argument(
        "--days", type=int, default=30, metavar="N", help="the last N days, including today (default: 30)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Print the cost of recent model requests by day and model, and by part of the request."""
    from mcphost.cli.command_runner import remove_model, run_command

    if not 0 < args.days <= _MAX_DAYS:
        raise UsageError(f"--days must be a number from 1 to {_MAX_DAYS}.")
    options = build_options(args, one_shot=False)

    async def work() -> int:
        from mcphost.cli.build_host import open_host
        from mcphost.host.budget.spending import summarize
        from mcphost.host.questions.frontend import RefusingFrontend
        from mcphost.serialization import to_builtins

        async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
            today = await host.spending.load_totals("")
            days = await host.spending.list_days(args.days)
            period = summarize(f"last {args.days} days", await host.spending.list_entries(days=args.days))
        if args.json:
            print_json(
                {
                    "today": _sum_json(today.day),
                    "total": _sum_json(period.total),
                    "days": [{"day": row.day, "model": row.model, **_sum_json(row.total)} for row in days],
                    "parts": [to_builtins(part) for part in period.parts],
                }
            )
            return 0
        _print_tables(days, period)
        if not options.quiet:
            print_note(_format_total(args.days, period.total, today.day))
        return 0

    return run_command(options, work)


def _print_tables(days: "Sequence[DailySpending]", period: "CostPeriod") -> None:
    from mcphost.host.budget.spending import describe_part, format_sum

    print_table(
        [(row.day, row.model, format_sum(row.total), str(row.total.requests), f"{row.total.tokens:,}") for row in days],
        (_("Day"), _("Model"), _("Cost"), _("Requests"), _("Tokens")),
    )
    print_table(
        [
            (
                describe_part(part.kind, part.server, part.tool, _),
                format_cost(part.cost),
                f"{part.tokens:,}",
            )
            for part in period.parts[:_MAX_PARTS]
        ],
        (_("For"), _("Cost"), _("Tokens")),
    )


def _sum_json(total: "SpendingSum") -> dict[str, Any]:
    """Return a total as JSON data.

    "cost" does not include requests whose price is unknown; "has_unknown_cost" is true if there were such requests.
    """
    from mcphost.serialization import to_builtins

    return {**to_builtins(total), "has_unknown_cost": total.unpriced_tokens > 0}


def _format_total(days: int, total: "SpendingSum", today: "SpendingSum") -> str:
    """Return one or two sentences that state the cost of the last *days* days and of today.

    *total* is the sum of these days, and *today* is the sum of today alone.
    """
    from mcphost.host.budget.spending import format_sum

    text = (
        _("{cost}, and {unpriced} tokens of unknown price in the last {days} days ({requests}); {today} today.")
        if total.unpriced_tokens and total.cost
        else _("{cost} in the last {days} days ({requests}); {today} today.")
    )
    saved = _(" The providers' caches saved {saved}.").format(saved=format_dollars(total.saved))
    told = text.format(
        cost=format_dollars(total.cost) if total.cost else format_sum(total),
        unpriced=f"{total.unpriced_tokens:,}",
        days=days,
        requests=translate_count(total.requests, "request"),
        today=format_sum(today),
    )
    return told + saved if total.saved > 0 else told
