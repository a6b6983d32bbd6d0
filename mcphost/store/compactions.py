"""Storage of compactions: summaries that replace the beginning of a conversation in model requests.

A compaction does not change messages. It covers all messages of a branch up to a certain one, and applies to every
branch that contains this last covered message.
"""

import sqlite3
from collections.abc import Collection, Sequence

from mcphost.llm.messages import Usage
from mcphost.serialization import Struct, decode_or_none, encode, replace
from mcphost.store.database import Database
from mcphost.store.valid_rows import BLOB, INTEGER, valid_rows

MAX_SENTENCES = 120
MAX_SENTENCE_CHARS = 1_000
MAX_COMPACTIONS = 100
"""Maximum number of compactions that are loaded for a conversation, the newest ones."""


class SummarySentence(Struct, frozen=True):
    """A sentence of a summary; `sources` are the numbers of the messages that it summarizes, if known."""

    text: str
    sources: tuple[int, ...] = ()
    by_user: bool = False
    """Whether the user wrote or edited the sentence; if so, no model rewrites it."""


class Compaction(Struct, frozen=True, kw_only=True):
    """A summary of the first `messages` messages of a branch.

    - `last`: the number of the last message that the summary covers.
    - `model`: the model that wrote the summary.
    - `at`: when the summary was written, in seconds since 1970.
    - `usage`: the total token usage of the model's requests.
    - `number`: the number under which the store keeps the summary; 0 until it is stored.
    """

    last: int
    messages: int
    sentences: tuple[SummarySentence, ...]
    model: str = ""
    at: float = 0.0
    usage: Usage = Usage()
    number: int = 0

    @property
    def unknown_count(self) -> int:
        """The number of sentences for which the model cited no message as a source."""
        return sum(not one.sources and not one.by_user for one in self.sentences)


def find_active_compaction(compactions: Sequence[Compaction], numbers: Collection[int]) -> Compaction | None:
    """Return the newest compaction that applies to a branch, or None if none does.

    *numbers* are the numbers of the messages on the branch.
    """
    return next((one for one in reversed(compactions) if one.last in numbers), None)


class CompactionStore:
    """Store for compactions in the database; every method may raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, conversation_id: str, compaction: Compaction) -> Compaction:
        """Store a compaction for a conversation, and return it with its number."""
        body = encode(replace(compaction, number=0))

        def work(db: sqlite3.Connection) -> int:
            query = "INSERT INTO compactions (conversation, body) VALUES (?, ?) RETURNING number"
            (number,) = db.execute(query, (conversation_id, body)).fetchone()
            return number

        return replace(compaction, number=await self._database.run(work))

    async def load(self, conversation_id: str) -> tuple[Compaction, ...]:
        """Return the conversation's newest compactions that were not undone, oldest first.

        At most MAX_COMPACTIONS are returned. Compactions that cannot be decoded are omitted.
        """

        def work(db: sqlite3.Connection) -> list[tuple[int, bytes]]:
            query = (
                "SELECT number, body FROM compactions WHERE conversation = ? AND undone IS NULL"
                " ORDER BY number DESC LIMIT ?"
            )
            return list(valid_rows(db.execute(query, (conversation_id, MAX_COMPACTIONS)), INTEGER, BLOB))

        decoded = ((number, _decode(body)) for number, body in reversed(await self._database.run(work)))
        return tuple(replace(found, number=number) for number, found in decoded if found is not None)

    async def undo(self, number: int) -> None:
        """Mark a compaction as undone.

        The compaction is kept in the database, because the totals still include the cost of creating it.
        """
        await self._database.run(
            lambda db: db.execute("UPDATE compactions SET undone = unixepoch() WHERE number = ?", (number,))
        )


def _decode(body: bytes) -> Compaction | None:
    return decode_or_none(body, Compaction)
