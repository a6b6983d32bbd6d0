"""Copies of the stored results of a conversation's tool calls, for a copy of the conversation."""

import sqlite3

_COPY = """
    INSERT INTO recorded_results SELECT ?2, use_id, call, definition, grant_id, at FROM recorded_results
    WHERE conversation = ?1
"""


def copy_results(db: sqlite3.Connection, source: str, target: str) -> None:
    """Copy the index of reusable results and the results of calls with a page from *source* to *target*.

    The messages and the manual calls must have been copied before.
    """
    from mcphost.store.page_results import copy_page_results  # not needed to start

    db.execute(_COPY, (source, target))
    copy_page_results(db, source, target)
