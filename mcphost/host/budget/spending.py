"""Records of the cost of model requests, and reports by turn, conversation, day, model and part."""

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from mcphost.errors import ModelError, StoreError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import SpendingChanged
from mcphost.llm.messages import Usage
from mcphost.llm.model import ChatModel, ModelFacts, TokenShare
from mcphost.pluralize import format_cost, format_dollars
from mcphost.serialization import Struct, replace
from mcphost.store.spending import DailySpending, SpendingEntry, SpendingStore, SpendingSum, SpendingTotals
from mcphost.translation import N_

MAX_UNSAVED = 1_000
_CHARACTERS_PER_TOKEN = 4

ANSWERS = "answers"
"""The `kind` of a PartCost for the models' answers."""


class OpenSpending:
    """Token usage and received characters of a running model request.

    The code that receives the model's response must set and update both attributes.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        """The usage that the provider reported; None if it has not reported any."""

        self.received_characters = 0


class SpendingTracker:
    """Recorder of the cost of every model request, in a store shared by all mcphost processes.

    Before a request is sent, an entry with an estimate is stored; it is replaced when the request ends. The request
    therefore counts even if mcphost is killed in between. Entries that cannot be saved are kept in memory and saved
    later.
    """

    def __init__(self, store: SpendingStore, events: EventBus) -> None:
        self._store = store
        self._events = events
        self._unsaved: list[SpendingEntry] = []
        self._is_failing = False

    @asynccontextmanager
    async def track(self, entry: SpendingEntry, model: ChatModel) -> AsyncGenerator[OpenSpending]:
        """Return a context manager that records one request; send it and read the response inside the block.

        *entry* contains the estimated number of input tokens. Before the block begins, the facts about *model*,
        which contain the prices, are loaded. Raises ModelError if they cannot be loaded. If the caller is cancelled
        while they are loaded, nothing is recorded.

        If the block raises ModelError before anything was received, the request costs nothing, and its entry is
        deleted. Any other request is recorded with the usage that the provider reported, even if it is cancelled;
        if none was reported, the usage is estimated. Failures to save are reported to the user, not raised.
        """
        await model.load_facts()
        entry = replace(entry, at=entry.at or time.time())
        open_spending = OpenSpending()
        number = await self._add(_estimate(entry, model.facts, 0))
        was_sent = True
        try:
            yield open_spending
        except ModelError:
            was_sent = bool(open_spending.received_characters or open_spending.usage)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                final = _settle(entry, model.facts, open_spending) if was_sent else None
                await self._settle(number, final)
                total = await self._load_conversation_cost(entry.conversation)
                self._events.publish(SpendingChanged(entry.conversation, final.cost if final else None, total))

    def track_messages(
        self, model: ChatModel, conversation: str, input_tokens: int, turn: str = ""
    ) -> AbstractAsyncContextManager[OpenSpending]:
        """Return a context manager that records the spending of one request without tools; see `track`.

        Use it for requests that mcphost itself makes about a conversation, for example to summarize it.
        *input_tokens* is the estimated size of the request.
        """
        shares = (TokenShare("messages", "", "", input_tokens),)
        entry = SpendingEntry(
            at=0.0, conversation=conversation, turn=turn, model=model.name, shares=shares, input_tokens=input_tokens
        )
        return self.track(entry, model)

    async def load_totals(self, conversation: str, turn: str = "") -> SpendingTotals:
        """Return the amounts spent in this turn, in this conversation, and overall today. Raises StoreError.

        *turn* is "" for no turn; today begins at local midnight.
        """
        since = local_midnight(time.time())
        stored = await self._store.load_totals(conversation, turn, since=since)
        unsaved = [(one, sum_entry(one)) for one in self._unsaved]
        return SpendingTotals(
            sum((total for one, total in unsaved if one.turn == turn and turn), stored.turn),
            sum((total for one, total in unsaved if one.conversation == conversation), stored.conversation),
            sum((total for one, total in unsaved if one.at >= since), stored.day),
        )

    async def list_days(self, days: int) -> tuple[DailySpending, ...]:
        """Return the spending in the last *days* days, including today, by day and model. Raises StoreError."""
        return await self._store.list_days(since=days_ago(days))

    async def list_entries(self, *, days: int = 36_500, conversation: str = "") -> tuple[SpendingEntry, ...]:
        """Return the requests recorded in the last *days* days, newest first.

        If *conversation* is not "", only requests of the conversation with this id are returned. Raises StoreError.
        """
        return await self._store.list_entries(since=days_ago(days), conversation=conversation)

    async def _add(self, entry: SpendingEntry) -> int:
        """Store a request's entry, after any unsaved entries; return its number, or 0 if saving fails."""
        try:
            while self._unsaved:
                await self._store.add(self._unsaved[0])
                del self._unsaved[0]
            number = await self._store.add(entry)
        except StoreError as error:
            self._report(error)
            return 0
        self._is_failing = False
        return number

    async def _settle(self, number: int, entry: SpendingEntry | None) -> None:
        try:
            if number and entry is None:
                await self._store.delete(number)
            elif number and entry is not None:
                await self._store.replace(number, entry)
            elif entry is not None and not await self._add(entry):
                self._unsaved = [*self._unsaved, entry][-MAX_UNSAVED:]
        except StoreError as error:
            self._report(error)

    async def _load_conversation_cost(self, conversation: str) -> float:
        """Return the cost of a conversation; if the store fails, report that and return 0.0."""
        try:
            return (await self.load_totals(conversation)).conversation.cost
        except StoreError as error:
            self._report(error)
            return 0.0

    def _report(self, error: StoreError) -> None:
        if not self._is_failing:
            self._events.report_error(error)
        self._is_failing = True


def local_midnight(now: float) -> float:
    """Return the time at which the local day containing *now* began; both are in seconds since 1970."""
    day = time.localtime(now)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))


def days_ago(days: int) -> float:
    """Return the time at which the last *days* local days began, in seconds since 1970.

    Today counts as one of these days, so `days_ago(1)` is the start of today.
    """
    day = time.localtime()
    try:
        return time.mktime((day.tm_year, day.tm_mon, day.tm_mday - max(0, days - 1), 0, 0, 0, 0, 0, -1))
    except (OverflowError, ValueError):
        return 0.0


def _estimate(entry: SpendingEntry, facts: ModelFacts, output_tokens: int) -> SpendingEntry:
    """Return a request's entry with the estimated cost of its input and of *output_tokens* output tokens."""
    if facts.input_price is None or facts.output_price is None:
        return replace(entry, output_tokens=output_tokens, is_estimated=True)
    input_cost = entry.input_tokens * facts.input_price
    cost = input_cost + output_tokens * facts.output_price
    return replace(entry, output_tokens=output_tokens, cost=cost, input_cost=input_cost, is_estimated=True)


def _settle(entry: SpendingEntry, facts: ModelFacts, spending: OpenSpending) -> SpendingEntry:
    """Return a finished request's entry with the usage that the provider reported; estimate it if none was reported."""
    usage = spending.usage
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return _estimate(entry, facts, spending.received_characters // _CHARACTERS_PER_TOKEN)
    input_cost = None
    if usage.cost is not None and facts.output_price is not None:
        input_cost = max(0.0, usage.cost - usage.output_tokens * facts.output_price)
    return replace(
        entry,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost=usage.cost,
        input_cost=input_cost,
        saved=usage.saved,
    )


class PartCost(Struct, frozen=True):
    """Tokens and cost of one part of model requests, such as the results of one tool, summed over several requests.

    `kind`, `server` and `tool` are as in TokenShare, except that `kind` is ANSWERS for the models' output. `cost`
    is in US dollars, or None if unknown. Providers report only the input tokens of a whole request; they are
    divided among its parts in proportion to the parts' estimated sizes.
    """

    kind: str
    server: str
    tool: str
    tokens: int
    cost: float | None


class CostPeriod(Struct, frozen=True):
    """Total cost of the requests in a turn, a conversation or a period of time.

    - `models` contains the cost of each model, and `parts` the cost of each part of the requests; both begin with
      the most expensive one.
    - `day` is the date if the period is one local day, otherwise "".
    """

    title: str
    total: SpendingSum = SpendingSum()
    cached_tokens: int = 0
    models: tuple[tuple[str, SpendingSum], ...] = ()
    parts: tuple[PartCost, ...] = ()
    day: str = ""


def summarize(title: str, entries: Sequence[SpendingEntry], day: str = "") -> CostPeriod:
    """Return the total cost of the requests in *entries*, with the sums for each model and each part.

    *title* and *day* are only copied to the result.
    """
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
    """Return the total cost of the requests of each local day, newest day first.

    Days without requests are omitted.
    """
    days: dict[str, list[SpendingEntry]] = defaultdict(list)
    for entry in entries:
        days[time.strftime("%Y-%m-%d", time.localtime(entry.at))].append(entry)
    return tuple(summarize(day, days[day], day) for day in sorted(days, reverse=True))


def sum_entry(entry: SpendingEntry) -> SpendingSum:
    """Convert one request's entry to a SpendingSum, which can be added to others."""
    tokens = entry.input_tokens + entry.output_tokens
    return SpendingSum(entry.cost or 0.0, 1, tokens, tokens if entry.cost is None else 0, entry.saved)


def sum_parts(entries: Iterable[SpendingEntry]) -> tuple[PartCost, ...]:
    """Return the tokens and cost of each part of the requests in *entries*, most expensive first."""
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
    """Return a label for a part of model requests, such as "tools of github".

    *kind*, *server* and *tool* are as in PartCost. *translate* is applied to the label before the names are filled
    in. The names are not sanitized, so sanitize the result before displaying it.
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


def format_sum(total: SpendingSum) -> str:
    """Format a total cost for display, such as "$0.50", "$0.50 + unknown" or "free".

    The total cost of no requests is "$0.00".
    """
    if not total.requests:
        return format_dollars(0)
    return format_cost(total.cost, has_unknown=total.unpriced_tokens > 0)


def _input_cost(entry: SpendingEntry) -> float | None:
    """Return the recorded input cost of a request; None if its cost is unknown.

    If only the total cost was recorded, the input cost is estimated from the number of input and output tokens.
    """
    if entry.input_cost is not None or entry.cost is None:
        return entry.input_cost
    total = entry.input_tokens + entry.output_tokens
    return entry.cost * entry.input_tokens / total if total else 0.0
