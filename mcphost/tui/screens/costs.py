"""Screen (`/cost`) that shows the cost of this turn, this conversation, today and the last 30 days."""

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import anyio.to_thread
from textual._cells import cell_len

from mcphost.config.schema import BudgetConfig
from mcphost.errors import McpHostError
from mcphost.host.budget.spending import CostPeriod, PartCost, describe_part, format_sum, summarize, summarize_days
from mcphost.host.questions.cost import BUDGET_LABELS, BudgetName
from mcphost.pluralize import format_cost, format_dollars, translate_count
from mcphost.store.spending import SpendingEntry, SpendingSum
from mcphost.translation import N_, _
from mcphost.tui.screen_reader import is_reader, remove_drawing
from mcphost.tui.screen_text import clean_line, pad_cells
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host

DAYS = 30
THIS_TURN, THIS_CONVERSATION, TODAY = N_("This turn"), N_("This conversation"), N_("Today")
_MAX_PARTS_SHOWN = 200
_BAR_CELLS = 20


UNKNOWN_PRICES = N_("Set input_price and output_price under [model] in config.toml, in dollars per million tokens.")


class CostsScreen(ListScreen):
    """List of periods, such as "today", with their costs.

    The details show the cost of each model and of each part of the requests, such as a server's tool definitions.
    """

    TITLE_TEXT: ClassVar[str] = N_("Costs")
    EMPTY_TEXT: ClassVar[str] = N_("No request was sent yet. What each one costs is recorded here.")

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._periods: tuple[CostPeriod, ...] = ()

    def on_mount(self) -> None:
        """Load the recorded requests."""
        super().on_mount()
        self.run_worker(self._load_periods)

    def handle_server_change(self) -> None:
        """Do nothing, because costs do not depend on the servers."""

    async def _load_periods(self) -> None:
        conversation, spending = self.host.conversation.id, self.host.spending
        try:
            recent = await spending.list_entries(days=DAYS)
            own = await spending.list_entries(conversation=conversation) if conversation else ()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._periods = await anyio.to_thread.run_sync(_summarize_all, own, recent)
        self.reload()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each period."""
        return [ListRow(period, _(period.title), _describe_sum(period.total)) for period in self._periods]

    def show_details(self, row: ListRow) -> None:
        """Show a period's total cost and budget, and the cost of each model and of each part of the requests.

        A part is, for example, a server's tool definitions or the results of one tool.
        """
        period: CostPeriod = row.value
        pairs = [
            (_("cost"), _format_cost(period.total)),
            (_("budget"), _describe_limit(self.host.settings.budget, period.title)),
            (_("unknown prices"), _(UNKNOWN_PRICES) if period.total.unpriced_tokens else ""),
            (_("requests"), f"{period.total.requests:,}"),
            (_("tokens"), f"{period.total.tokens:,}"),
            (_("from the cache"), f"{period.cached_tokens:,}" if period.cached_tokens else ""),
            (_("saved by the cache"), format_dollars(period.total.saved) if period.total.saved > 0 else ""),
            *((name or _("unknown model"), _describe_sum(total)) for name, total in period.models[:_MAX_PARTS_SHOWN]),
        ]
        self.show_about(clean_pairs(pairs))
        parts = _format_parts(period)
        self.query_one(LongText).show(remove_drawing(parts) if is_reader(self) else parts)


def _summarize_all(own: Sequence[SpendingEntry], recent: Sequence[SpendingEntry]) -> tuple[CostPeriod, ...]:
    """Return the periods to list, such as this turn, today and each earlier day, or () if there are no requests.

    *own* contains the requests of the open conversation, newest first; *recent* contains all requests of the last 30
    days, in any conversation.
    """
    turn = next((entry.turn for entry in own if entry.turn), "")
    days = summarize_days(recent)
    today = time.strftime("%Y-%m-%d")
    periods = [
        summarize(THIS_TURN, [entry for entry in own if turn and entry.turn == turn]),
        summarize(THIS_CONVERSATION, own),
        summarize(TODAY, [entry for entry in recent if time.strftime("%Y-%m-%d", time.localtime(entry.at)) >= today]),
        summarize(_("Last {days} days").format(days=DAYS), recent),
    ]
    return (*periods, *days) if recent or own else ()


def _describe_limit(budget: BudgetConfig, title: str) -> str:
    """Return the budget for a period as text, such as "$0.50 (per turn)", or "" if there is no budget.

    *title* is the title of the period.
    """
    names: dict[str, BudgetName] = {THIS_TURN: "per_turn", THIS_CONVERSATION: "per_conversation", TODAY: "per_day"}
    name = names.get(title)
    limit: float = getattr(budget, name) if name else 0.0
    return f"{format_dollars(limit)} ({_(BUDGET_LABELS[name])})" if name and limit else ""


def _format_cost(total: SpendingSum) -> str:
    if not total.unpriced_tokens:
        return format_sum(total)
    unknown = _(", and {unpriced_tokens:,} tokens of unknown price").format(unpriced_tokens=total.unpriced_tokens)
    return f"{format_dollars(total.cost)}{unknown}" if total.cost else format_sum(total)


def _describe_sum(total: SpendingSum) -> str:
    if total.unpriced_tokens and not total.cost:
        tokens = _("{tokens:,} tokens").format(tokens=total.tokens)
        return f"{format_sum(total)} · {tokens} · {translate_count(total.requests, 'request')}"
    return f"{format_sum(total)} · {translate_count(total.requests, 'request')}"


def _format_parts(period: CostPeriod) -> str:
    """Return a table of the parts of the requests as text: a heading, and two lines for each part.

    A part is, for example, a server's tool definitions or a tool's results. The first line is the part's name. The
    second line contains a bar, the part's share of the total cost, its cost in dollars and its tokens. If the total
    cost is zero or unknown, the bar and the share refer to the tokens instead.
    """
    by_cost = bool(period.total.cost)
    whole = period.total.cost or float(period.total.tokens) or 1.0
    share = _("share of the cost") if by_cost else _("share of the tokens")
    heads = ((share, -_BAR_CELLS - 5), (_("cost"), 8), (_("tokens"), 10))
    lines = [_format_part(part, whole, by_cost=by_cost) for part in period.parts[:_MAX_PARTS_SHOWN]]
    return "\n".join([" ".join(_align(*head) for head in heads), *lines]) if lines else ""


def _align(text: str, cells: int) -> str:
    """Right-align *text* in *cells* terminal cells.

    If *cells* is negative, left-align *text* in the corresponding positive number of cells.
    """
    return pad_cells(text, -cells) if cells < 0 else " " * (cells - cell_len(text)) + text


def _format_part(part: PartCost, whole: float, *, by_cost: bool) -> str:
    fraction = ((part.cost or 0.0) if by_cost else part.tokens) / whole
    filled = min(_BAR_CELLS, math.ceil(fraction * _BAR_CELLS))
    cost = format_cost(part.cost)
    gap = " " * (8 - cell_len(cost))
    name = clean_line(describe_part(part.kind, part.server, part.tool, _), 120)
    return f"{name}\n{'━' * filled}{'─' * (_BAR_CELLS - filled)} {fraction:>4.0%} {gap}{cost} {part.tokens:>10,}"
