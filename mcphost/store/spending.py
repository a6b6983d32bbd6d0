"""Storage of the cost of each model request, independent of conversations and their branches.

Times are wall-clock times in seconds since 1970. If the clock was wrong, an entry may have a time in the future. An
entry with a time in the future is counted as an entry of today, so that it is neither missed nor counted twice. When an
entry is added, existing entries whose times are more than MAX_CLOCK_ERROR later get the time of the new entry.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from mcphost.llm.model import TokenShare
from mcphost.serialization import Struct, decode_or_none, encode
from mcphost.store.database import Database
from mcphost.store.valid_rows import BLOB, INTEGER, NULL_OR_NUMBER, NUMBER, TEXT, valid_rows

MAX_CLOCK_ERROR = 2 * 86_400.0
MAX_SHARES = 200
_MAX_LISTED = 100_000


class SpendingEntry(Struct, frozen=True, kw_only=True):
    """A record of one model request, with its token counts and costs in US dollars.

    - `turn`: identifies the turn within the conversation.
    - `purpose`: the purpose of the request, such as "answer" or "sampling".
    - `cost`: the cost of the whole request, or None if the price is unknown.
    - `input_cost`: the cost of the input alone.
    - `saved`: the amount that the provider's cache saved. It is negative if the request wrote to the cache, which costs
      extra, but read nothing from it.
    - `is_estimated`: whether the provider reported no token counts, because the request was stopped or mcphost was
      killed.
    """

    at: float
    conversation: str = ""
    turn: str = ""
    purpose: str = "answer"
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    input_cost: float | None = None
    saved: float = 0.0
    is_estimated: bool = False
    shares: tuple[TokenShare, ...] = ()


class SpendingSum(Struct, frozen=True):
    """Totals of several model requests; amounts are in US dollars.

    - `unpriced_tokens`: the number of tokens whose price is unknown.
    - `saved`: the amount that the providers' caches saved.
    """

    cost: float = 0.0
    requests: int = 0
    tokens: int = 0
    unpriced_tokens: int = 0
    saved: float = 0.0

    def __add__(self, other: "SpendingSum") -> "SpendingSum":
        return SpendingSum(
            self.cost + other.cost,
            self.requests + other.requests,
            self.tokens + other.tokens,
            self.unpriced_tokens + other.unpriced_tokens,
            self.saved + other.saved,
        )


class SpendingTotals(Struct, frozen=True):
    """Amounts spent in a turn, in a conversation with all its branches, and today in all conversations."""

    turn: SpendingSum = SpendingSum()
    conversation: SpendingSum = SpendingSum()
    day: SpendingSum = SpendingSum()


class DailySpending(Struct, frozen=True):
    """Totals of one model's requests on one day in local time; `day` is a date such as "2026-11-25"."""

    day: str
    model: str
    total: SpendingSum


_SUM = (
    "coalesce(sum(cost), 0.0), count(*), coalesce(sum(input_tokens + output_tokens), 0),"
    " coalesce(sum(CASE WHEN cost IS NULL THEN input_tokens + output_tokens ELSE 0 END), 0),"
    " coalesce(sum(saved), 0.0)"
)
_COLUMNS = (
    "at, conversation, turn, purpose, model, input_tokens, output_tokens, cached_tokens, cost, input_cost, saved,"
    " estimated, shares"
)
_ENTRY_TYPES = (
    NUMBER, TEXT, TEXT, TEXT, TEXT, INTEGER, INTEGER, INTEGER, NULL_OR_NUMBER, NULL_OR_NUMBER, NUMBER, INTEGER, BLOB,
)  # fmt: skip
_DAY_TYPES = (TEXT, TEXT, NUMBER, INTEGER, NUMBER, NUMBER, NUMBER)
_ADD = "INSERT INTO spending ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
_REPLACE = "UPDATE spending SET ({columns}) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?"
_TOTAL = "SELECT {sum} FROM spending WHERE {where}"
_LIST_DAYS = """
    SELECT date(at, 'unixepoch', 'localtime') AS day, model, {sum} FROM spending WHERE at >= ?
    GROUP BY day, model ORDER BY day DESC, 3 DESC, model
"""
_LIST_ENTRIES = "SELECT {columns} FROM spending WHERE at >= ? {where} ORDER BY id DESC LIMIT {limit}"


class SpendingStore:
    """Store for the tokens and costs of model requests; every method may raise StoreError.

    Several processes can add entries concurrently; totals include the entries of all processes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: SpendingEntry) -> int:
        """Store the entry of a request with its MAX_SHARES largest token shares, and return the entry's number."""
        values = _to_row(entry)

        def work(db: sqlite3.Connection) -> int:
            db.execute("UPDATE spending SET at = ?1 WHERE at > ?1 + ?2", (entry.at, MAX_CLOCK_ERROR))
            (number,) = db.execute(_ADD.format(columns=_COLUMNS), values).fetchone()
            return number

        return await self._database.run(work)

    async def replace(self, number: int, entry: SpendingEntry) -> None:
        """Replace the entry stored under *number* with *entry*, after the request has ended."""
        query = _REPLACE.format(columns=_COLUMNS)
        await self._database.run(lambda db: db.execute(query, (*_to_row(entry), number)))

    async def delete(self, number: int) -> None:
        """Delete the entry of a request that cost nothing, because it failed before anything was received."""
        await self._database.run(lambda db: db.execute("DELETE FROM spending WHERE id = ?", (number,)))

    async def load_totals(self, conversation: str, turn: str, *, since: float) -> SpendingTotals:
        """Return the amounts spent in a turn, in a conversation, and in all conversations together.

        The last amount covers only requests at or after the time *since*, in seconds since 1970.
        """

        def work(db: sqlite3.Connection) -> SpendingTotals:
            def total(where: str, *values: object) -> SpendingSum:
                return SpendingSum(*db.execute(_TOTAL.format(sum=_SUM, where=where), values).fetchone())

            return SpendingTotals(
                total("conversation = ? AND turn = ?", conversation, turn) if turn else SpendingSum(),
                total("conversation = ?", conversation) if conversation else SpendingSum(),
                total("at >= ?", since),
            )

        return await self._database.run(work)

    async def list_days(self, *, since: float) -> tuple[DailySpending, ...]:
        """Return the totals of each day and model, newest day first, highest cost first within a day.

        Days are in local time. Only requests at or after the time *since*, in seconds since 1970, are counted.
        """
        query = _LIST_DAYS.format(sum=_SUM)
        rows = await self._database.run(lambda db: list(valid_rows(db.execute(query, (since,)), *_DAY_TYPES)))
        return tuple(DailySpending(row[0], row[1], SpendingSum(*row[2:])) for row in rows)

    async def list_entries(self, *, since: float = 0.0, conversation: str = "") -> tuple[SpendingEntry, ...]:
        """Return the entries of requests at or after the time *since*, newest first, at most 100,000.

        *since* is in seconds since 1970. If *conversation* is not "", only entries of that conversation are returned.
        """
        query = _LIST_ENTRIES.format(
            columns=_COLUMNS, where="AND conversation = ?" if conversation else "", limit=_MAX_LISTED
        )
        values = (since, conversation) if conversation else (since,)
        return await self._database.run(
            lambda db: tuple(_from_row(row) for row in valid_rows(db.execute(query, values), *_ENTRY_TYPES))
        )


def _to_row(entry: SpendingEntry) -> tuple[object, ...]:
    shares = sorted(entry.shares, key=lambda share: -share.tokens)[:MAX_SHARES]
    return (
        entry.at, entry.conversation, entry.turn, entry.purpose, entry.model, entry.input_tokens, entry.output_tokens,
        entry.cached_tokens, entry.cost, entry.input_cost, entry.saved, int(entry.is_estimated), encode(shares),
    )  # fmt: skip


def _from_row(row: Sequence[Any]) -> SpendingEntry:
    *figures, is_estimated, shares = row
    names = ("at", "conversation", "turn", "purpose", "model", "input_tokens", "output_tokens", "cached_tokens", "cost",
             "input_cost", "saved")  # fmt: skip
    return SpendingEntry(
        **dict(zip(names, figures, strict=True)),  # pyright: ignore[reportArgumentType] - columns of a strict table
        is_estimated=bool(is_estimated),
        shares=_decode_shares(shares),
    )


def _decode_shares(raw: bytes) -> tuple[TokenShare, ...]:
    return decode_or_none(raw, tuple[TokenShare, ...]) or ()
