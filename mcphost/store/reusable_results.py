"""Index of results of read-only tool calls, which can be reused when the user regenerates an answer."""

import sqlite3
from collections.abc import Collection
from typing import NamedTuple

from mcphost.llm.messages import ToolReturnPart
from mcphost.store import search_index
from mcphost.store.branches import MessageLink, load_links, trace_branch
from mcphost.store.database import Database
from mcphost.store.valid_rows import BLOB, INTEGER, NUMBER, TEXT, first_valid, valid_rows

_MAX_CANDIDATES = 100
_FIND = """
    SELECT use_id, grant_id, at FROM recorded_results WHERE conversation = ? AND call = ? AND at >= ?
    ORDER BY at LIMIT ?
"""
_FIND_MESSAGE = """
    SELECT seq, body FROM messages WHERE conversation = ? AND seq > ? AND instr(body, ?) ORDER BY seq LIMIT 1
"""
_COPY = """
    INSERT INTO recorded_results SELECT ?2, use_id, call, definition, grant_id, at FROM recorded_results
    WHERE conversation = ?1
"""


class RecordedResult(NamedTuple):
    """A tool result that was sent to the model and can be reused for an identical call.

    - `at`: the time of the call in seconds since 1970.
    - `permission`: the id of the grant that allowed the call. If no grant allowed it, the source of the approval, such
      as "once"; in results recorded by earlier versions of mcphost, it is then "".
    """

    part: ToolReturnPart
    at: float
    permission: str


class ReusableResultStore:
    """Index that maps tool calls to their results, which are stored in messages.

    A call is identified by a digest of its server, account, tool, tool definition and arguments.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def has_later(self, conversation_id: str, number: int) -> bool:
        """Return whether any branch of the conversation has a message after message *number*.

        Raises StoreError.
        """
        query = "SELECT 1 FROM messages WHERE conversation = ? AND seq > ? LIMIT 1"
        return await self._database.run(lambda db: db.execute(query, (conversation_id, number)).fetchone() is not None)

    async def add(
        self, conversation_id: str, use_id: str, call: str, *, definition: str, permission: str, at: float
    ) -> None:
        """Record that the tool call with the id *use_id* has a result in the conversation.

        *call* is the digest that identifies the call, and *definition* is the fingerprint of the tool's definition at
        the time of the call. *permission* is the id of the grant, or the source of the approval, that allowed the call;
        see RecordedResult. *at* is the time of the call in seconds since 1970. Raises StoreError.
        """
        values = (conversation_id, use_id, call, definition, permission, at)

        def work(db: sqlite3.Connection) -> None:
            if db.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation_id,)).fetchone():
                db.execute("INSERT OR REPLACE INTO recorded_results VALUES (?, ?, ?, ?, ?, ?)", values)

        await self._database.run(work)

    async def find(
        self,
        conversation_id: str,
        call: str,
        *,
        after: int,
        since: float,
        used: Collection[str] = (),
        only_reviewed: bool = False,
    ) -> RecordedResult | None:
        """Return the oldest reusable result of a tool call, or None if there is none. Raises StoreError.

        - *call*: the digest that identifies the call.
        - *after*: the number of a message; the result must be in a message after it, on any branch.
        - *since*: a time in seconds since 1970; earlier calls are ignored.
        - *used*: the ids of calls to ignore.
        - *only_reviewed*: whether results that the user did not review are ignored, too.
        """

        def work(db: sqlite3.Connection) -> RecordedResult | None:
            found_rows = db.execute(_FIND, (conversation_id, call, since, _MAX_CANDIDATES))
            rows = list(valid_rows(found_rows, TEXT, TEXT, NUMBER))
            links = load_links(db, conversation_id) if rows else []
            for use_id, permission, at in rows:
                if use_id in used:
                    continue
                mark = f'"use_id":"{use_id}"'.encode()
                found = first_valid(db.execute(_FIND_MESSAGE, (conversation_id, after, mark)), INTEGER, BLOB)
                if found is None or not _follows(links, found[0], after):
                    continue
                message = search_index.decode_message(found[1])
                for part in message.parts if message else ():
                    if not isinstance(part, ToolReturnPart) or part.use_id != use_id or part.outcome != "ok":
                        continue
                    if part.reviewed or not only_reviewed:
                        return RecordedResult(part, at, permission)
            return None

        return await self._database.run(work)


def _follows(links: list[MessageLink], number: int, after: int) -> bool:
    """Return whether message *after* comes before message *number* on the same branch.

    The result is always True if *after* is 0. *links* contains all messages of the conversation.
    """
    return after == 0 or any(links[at].number == after for at in trace_branch(links, number))


def copy_recorded_results(db: sqlite3.Connection, source: str, target: str) -> None:
    """Copy the index entries of the conversation *source* to *target*, a copy of this conversation."""
    db.execute(_COPY, (source, target))
