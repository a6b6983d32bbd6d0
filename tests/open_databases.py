"""A fixture that closes the databases that tests create themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mcphost
from mcphost.store.database import Database

TESTS = Path(__file__).parent
PACKAGE = Path(mcphost.__file__).parent
CREATORS = (PACKAGE / "store", PACKAGE / "host/audit")
"""Folders of the functions that create a database for their caller."""


@pytest.fixture(autouse=True)
def close_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the databases that a test creates itself, directly or by a store.

    One that the Host creates must be closed by the Host: since Python 3.13 a connection that is left to the garbage
    collector is a ResourceWarning, which fails the test.
    """
    created: list[Database] = []
    create = Database.__init__

    def record(self: Database, *args: Any, **options: Any) -> None:
        create(self, *args, **options)
        if _is_called_by_a_test():
            created.append(self)

    monkeypatch.setattr(Database, "__init__", record)
    yield
    for database in created:
        database._close_connection()


def _is_called_by_a_test() -> bool:
    frame, file = sys._getframe(2), Path()
    while frame.f_back is not None:
        file = Path(frame.f_code.co_filename)
        if not any(map(file.is_relative_to, CREATORS)):
            break
        frame = frame.f_back
    return file.is_relative_to(TESTS)
