"""Record of the cost of model requests, and sums for a turn, a conversation and today."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from mcphost.errors import ModelError, StoreError
from mcphost.host.cost_report import sum_entry
from mcphost.host.event_bus import EventBus
from mcphost.host.events import SpendingChanged
from mcphost.llm.messages import Usage
from mcphost.llm.model import ModelFacts
from mcphost.serialization import replace
from mcphost.store.spending import (
    DailySpending,
    SpendingEntry,
    SpendingStore,
    SpendingTotals,
)

MAX_UNSAVED = 1_000
_CHARACTERS_PER_TOKEN = 4


class OpenSpending:
    """Usage and cost known so far for a request in progress; the code that reads the answer updates it."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        """The usage that the provider reported; None if it has not reported any."""

        self.received_characters = 0


class SpendingTracker:
    """Tracker that records the cost of every model request in the store of all mcphost processes.

    An entry with an estimate is stored before a request is sent and replaced when the request ends, so that it counts
    even if mcphost is killed in between. Entries that cannot be saved are kept in memory and saved later.
    """

    def __init__(self, store: SpendingStore, events: EventBus) -> None:
        self._store = store
        self._events = events
        self._unsaved: list[SpendingEntry] = []
        self._is_failing = False

    @asynccontextmanager
    async def track(self, entry: SpendingEntry, facts: ModelFacts) -> AsyncGenerator[OpenSpending]:
        """Return a context manager that records one request; send it and read its answer inside the block.

        *entry* contains the estimated number of input tokens and *facts* the prices. A request that fails before
        anything was received is recorded as free, a cancelled one with its estimated cost. Failures to save are
        reported, not raised.
        """
        entry = replace(entry, at=entry.at or time.time())
        open_spending = OpenSpending()
        number = await self._add(_estimate(entry, facts, 0))
        was_sent = True
        try:
            yield open_spending
        except ModelError:
            was_sent = bool(open_spending.received_characters or open_spending.usage)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                final = _settle(entry, facts, open_spending) if was_sent else None
                await self._settle(number, final)
                await self._publish(entry.conversation, final)

    async def load_totals(self, conversation: str, turn: str = "") -> SpendingTotals:
        """Return the amounts spent in this turn, in this conversation and since midnight. Raises StoreError."""
        since = local_midnight(time.time())
        stored = await self._store.load_totals(conversation, turn, since=since)
        unsaved = [(one, sum_entry(one)) for one in self._unsaved]
        return SpendingTotals(
            sum((total for one, total in unsaved if one.turn == turn and turn), stored.turn),
            sum((total for one, total in unsaved if one.conversation == conversation), stored.conversation),
            sum((total for one, total in unsaved if one.at >= since), stored.day),
        )

    async def list_days(self, days: int) -> tuple[DailySpending, ...]:
        """Return the sums by day and model for the last *days* days, including today. Raises StoreError."""
        return await self._store.list_days(since=days_ago(days))

    async def list_entries(self, *, days: int = 36_500, conversation: str = "") -> tuple[SpendingEntry, ...]:
        """Return the requests of the last *days* days, newest first, optionally for one conversation only.

        Raises StoreError.
        """
        return await self._store.list_entries(since=days_ago(days), conversation=conversation)

    async def _add(self, entry: SpendingEntry) -> int:
        """Store the entry, after any unsaved ones; return its number, or 0 if saving fails."""
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

    async def _publish(self, conversation: str, final: SpendingEntry | None) -> None:
        try:
            total = (await self.load_totals(conversation)).conversation.cost
        except StoreError as error:
            self._report(error)
            total = 0.0
        self._events.publish(SpendingChanged(conversation, final.cost if final else None, total))

    def _report(self, error: StoreError) -> None:
        if not self._is_failing:
            self._events.report_error(error)
        self._is_failing = True


def local_midnight(now: float) -> float:
    """Return the start of the local day that contains *now*; both are in seconds since 1970."""
    day = time.localtime(now)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))


def days_ago(days: int) -> float:
    """Return the start of the first of the last *days* local days, including today, in seconds since 1970."""
    day = time.localtime()
    try:
        return time.mktime((day.tm_year, day.tm_mon, day.tm_mday - max(0, days - 1), 0, 0, 0, 0, 0, -1))
    except (OverflowError, ValueError):
        return 0.0


def _estimate(entry: SpendingEntry, facts: ModelFacts, output_tokens: int) -> SpendingEntry:
    """Return the entry with the estimated cost of its input and of *output_tokens* output tokens."""
    if facts.input_price is None or facts.output_price is None:
        return replace(entry, output_tokens=output_tokens, is_estimated=True)
    input_cost = entry.input_tokens * facts.input_price
    cost = input_cost + output_tokens * facts.output_price
    return replace(entry, output_tokens=output_tokens, cost=cost, input_cost=input_cost, is_estimated=True)


def _settle(entry: SpendingEntry, facts: ModelFacts, spending: OpenSpending) -> SpendingEntry:
    """Return the entry with the usage that the provider reported, or with an estimate if it reported none."""
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
    )
