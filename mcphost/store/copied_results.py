"""Copies of the stored results of a conversation's tool calls, for a copy of the conversation."""

import sqlite3

_COPIES = (
    "INSERT INTO recorded_results SELECT ?2, use_id, call, definition, grant_id, at FROM recorded_results"
    " WHERE conversation = ?1",
    "INSERT INTO page_results SELECT ?2, use_id, at, body FROM page_results WHERE conversation = ?1",
)


def copy_results(db: sqlite3.Connection, source: str, target: str) -> None:
    """Copy the index of reusable results and the results of calls with a page from *source* to *target*."""
    for copy in _COPIES:
        db.execute(copy, (source, target))
