"""Saves what the user changed in the list of folders that servers may be told of, for one project or everywhere."""

import os
import sqlite3
import time

from mcphost.data import Data
from mcphost.store.database import Database

KEPT = 1_000


class FolderEdit(Data, frozen=True):
    """`path` is told under that name, or with `told` false it is not, whatever a file says."""

    path: str
    name: str = ""
    told: bool = True


class StoredFolders:
    """Edits by `place`: a project's folder, or empty for everywhere. Every method raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, place: str) -> tuple[FolderEdit, ...]:
        """Those of that place, the oldest first."""

        def work(db: sqlite3.Connection) -> list[tuple[bytes, str, int]]:
            return db.execute(
                "SELECT path, name, told FROM folders WHERE place = ? ORDER BY at, path LIMIT ?",
                (os.fsencode(place), KEPT),
            ).fetchall()

        rows = await self._database.run(work)
        return tuple(FolderEdit(os.fsdecode(path), name, bool(told)) for path, name, told in rows)

    async def keep(self, place: str, edit: FolderEdit) -> None:
        """From now on this holds in that place."""
        row = (os.fsencode(place), os.fsencode(edit.path), edit.name, int(edit.told), time.time())
        await self._database.run(
            lambda db: db.execute(
                "INSERT INTO folders (place, path, name, told, at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (place, path) DO UPDATE SET name = excluded.name, told = excluded.told, at = excluded.at",
                row,
            )
        )

    async def forget(self, place: str, path: str) -> None:
        """Nothing is said about that path there any more."""
        key = (os.fsencode(place), os.fsencode(path))
        await self._database.run(lambda db: db.execute("DELETE FROM folders WHERE place = ? AND path = ?", key))
