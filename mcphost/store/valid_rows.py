"""Reading of rows from a database file that may be damaged.

The tables are strict, so SQLite stores only values of the column's type. However, in a damaged file, the pages of one
table may be replaced by those of another, and a column may contain any value. Rows with a value of the wrong type are
left out, and `Database` tells the user how many rows were left out.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

MAX_ID_CHARS = 200
"""Maximum length of a conversation's id; mcphost's own have 12 characters."""

TEXT, INTEGER, BLOB, NUMBER = (str,), (int,), (bytes,), (int, float)
NULL_OR_INTEGER, NULL_OR_TEXT, NULL_OR_NUMBER = (int, type(None)), (str, type(None)), (int, float, type(None))
IS_ID = f"typeof({{0}}) = 'text' AND length({{0}}) BETWEEN 1 AND {MAX_ID_CHARS}"
"""SQL condition that a column can be the id of a conversation; the column is the argument of `format`."""

Types = tuple[type, ...]


class StoreConnection(sqlite3.Connection):
    """A connection that counts the rows that were left out because the file is damaged."""

    damaged_rows = 0


def valid_rows(cursor: sqlite3.Cursor, *types: Types) -> Iterator[tuple[Any, ...]]:
    """Yield the rows whose values have the expected types, and count the others as damaged.

    *types* contains the allowed types of each column.
    """
    for row in cursor:
        if all(map(isinstance, row, types)):
            yield row
        else:
            count_damaged(cursor.connection, 1)


def first_valid(cursor: sqlite3.Cursor, *types: Types) -> tuple[Any, ...] | None:
    """Return the first row whose values have the expected types, or None if there is none; see `valid_rows`."""
    return next(valid_rows(cursor, *types), None)


def is_id(value: object) -> bool:
    """Return whether *value* can be the id of a conversation."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS


def count_damaged(db: sqlite3.Connection, rows: int) -> None:
    """Count rows that were left out, so that the user can be warned."""
    if isinstance(db, StoreConnection):
        db.damaged_rows += rows
