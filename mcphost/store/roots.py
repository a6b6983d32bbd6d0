"""Storage of changes to the list of shared folders (roots), and of decisions about sharing them."""

import os
import secrets
import sqlite3
import time
from collections.abc import Iterable
from typing import Any

from mcphost.errors import UsageError
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct
from mcphost.store.database import Database
from mcphost.store.valid_rows import BLOB, INTEGER, NUMBER, TEXT, valid_rows

MAX_ROWS = 1_000


class FolderEdit(Struct, frozen=True):
    """A change by the user to the configured list of shared folders.

    `is_included` is True for a folder that was added to the list, and False for a folder that was removed from it.
    """

    path: str
    name: str = ""
    is_included: bool = True


class FolderEditStore:
    """Store for the user's changes to the list of shared folders.

    A change applies to one place: a project folder, or "" for everywhere. Every method may raise StoreError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_for_place(self, place: str) -> tuple[FolderEdit, ...]:
        """Return the user's changes to the list of shared folders, oldest first.

        *place* is the project folder in which the changes apply, or "" for everywhere.
        """

        def work(db: sqlite3.Connection) -> list[tuple[bytes, str, int]]:
            query = "SELECT path, name, told FROM folders WHERE place = ? ORDER BY at, path LIMIT ?"
            return list(valid_rows(db.execute(query, (os.fsencode(place), MAX_ROWS)), BLOB, TEXT, INTEGER))

        rows = await self._database.run(work)
        return tuple(FolderEdit(os.fsdecode(path), name, bool(told)) for path, name, told in rows)

    async def save(self, place: str, edit: FolderEdit) -> None:
        """Store a change to the list of shared folders, replacing an earlier change for the same folder.

        *place* is the project folder in which the change applies, or "" for everywhere.
        """
        row = (os.fsencode(place), os.fsencode(edit.path), edit.name, int(edit.is_included), time.time())
        await self._database.run(
            lambda db: db.execute(
                "INSERT INTO folders (place, path, name, told, at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (place, path) DO UPDATE SET name = excluded.name, told = excluded.told, at = excluded.at",
                row,
            )
        )

    async def delete(self, place: str, path: str) -> None:
        """Delete the user's change for a shared folder, so that the configuration applies to the folder again.

        *place* is the project folder in which the change applies, or "" for everywhere.
        """
        key = (os.fsencode(place), os.fsencode(path))
        await self._database.run(lambda db: db.execute("DELETE FROM folders WHERE place = ? AND path = ?", key))


class FolderAnswer(Struct, frozen=True, kw_only=True):
    """The user's permanent decision on whether a folder is shared with a server.

    - `server_digest`: the digest of the server's configuration; the decision applies only while it is unchanged.
    - `path`: the real path, with symbolic links resolved.
    - `created`: the time of the decision in seconds since 1970.
    """

    id: str
    server: str
    server_digest: str
    path: str
    is_shared: bool
    created: float

    @property
    def text(self) -> str:
        """A description of the decision in one line, with the server and the folder."""
        return f"{self.server} {'may' if self.is_shared else 'may not'} know {replace_surrogates(self.path)}"


class FolderAnswerStore:
    """Store for permanent decisions about sharing folders, which apply in all mcphost processes.

    Every method may raise StoreError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, server: str, digest: str, paths: Iterable[str], *, is_shared: bool) -> None:
        """Store the decision whether the folders in *paths* are shared with a server.

        *digest* is the digest of the server's configuration. An earlier decision for the same server, digest and folder
        is replaced.
        """
        now = time.time()
        # "r", because ids of grants are hexadecimal, so that no prefix matches both a grant and an answer.
        rows = [(f"r{secrets.token_hex(4)}", server, digest, os.fsencode(path), int(is_shared), now) for path in paths]
        await self._database.run(
            lambda db: db.executemany(
                "INSERT OR REPLACE INTO folder_answers (id, server, server_digest, path, shared, created)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
        )

    async def find_for_server(self, server: str, digest: str) -> dict[str, FolderAnswer]:
        """Return the decisions for a server, keyed by folder path.

        Decisions that were made for another digest of the server's configuration are left out.
        """
        answers = await self._rows("WHERE server = ? AND server_digest = ? LIMIT ?", (server, digest, MAX_ROWS))
        return {answer.path: answer for answer in answers}

    async def list_all(self) -> tuple[FolderAnswer, ...]:
        """Return all decisions, newest first."""
        return await self._rows("ORDER BY created DESC, id LIMIT ?", (MAX_ROWS,))

    async def revoke(self, prefix: str) -> FolderAnswer:
        """Delete the decision whose id begins with *prefix*, so that the user is asked again, and return it.

        Raises UsageError if there is no such decision or more than one.
        """
        answers = await self._rows("WHERE substr(id, 1, length(?1)) = ?1", (prefix,))
        if not prefix or len(answers) != 1:
            raise UsageError(
                f"{len(answers)} grants begin with {prefix!r}." if answers else f"There is no grant {prefix!r}.",
                "List them with: mcphost grants",
            )
        await self._database.run(lambda db: db.execute("DELETE FROM folder_answers WHERE id = ?", (answers[0].id,)))
        return answers[0]

    async def _rows(self, where: str, values: tuple[Any, ...]) -> tuple[FolderAnswer, ...]:
        query = f"SELECT id, server, server_digest, path, shared, created FROM folder_answers {where}"  # noqa: S608
        rows = await self._database.run(
            lambda db: list(valid_rows(db.execute(query, values), TEXT, TEXT, TEXT, BLOB, INTEGER, NUMBER))
        )
        return tuple(
            FolderAnswer(
                id=answer_id, server=server, server_digest=digest, path=os.fsdecode(path), is_shared=bool(shared),
                created=created,
            )
            for answer_id, server, digest, path, shared, created in rows
        )  # fmt: skip
