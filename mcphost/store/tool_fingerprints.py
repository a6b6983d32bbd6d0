"""What the tools of each server were when first seen or last accepted: digests, and the definitions packed."""

import sqlite3
import time
import zlib
from collections.abc import Iterable

from mcphost.serialization import Struct
from mcphost.store.database import Database

SERVERS_KEPT = 8
"""How many ways of starting or reaching a server of one name are remembered."""
DEFINITION_LIMIT = 64 * 1024
"""Longer definitions are known by their digest only: no difference can be shown."""
SERVER_BYTES = 8 * 1024 * 1024
"""Packed definitions of one server, however it is started; those beyond are known by their digest only, too."""
_SMALL_WINDOW = 4096
"""2**12 bytes: shorter definitions need no larger window."""

_BECAME = "UPDATE pins SET turned = ?, meanwhile = ? WHERE server = ? AND server_digest = ? AND tool = ? AND digest = ?"


class Pin(Struct, frozen=True):
    """One tool: `raw` is the digest of its bytes as sent, `digest` that of its canonical form.

    `turned` is the digest of what it became last without anybody keeping that; "" when it never did.
    """

    tool: str
    raw: str
    digest: str
    turned: str = ""


class Pins:
    """The definitions in the database, by server, by the digest of how it is started or reached, and by tool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, server: str, server_digest: str) -> dict[str, Pin]:
        """Every tool that is remembered of exactly this server, the oldest first. Raises StoreError."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT tool, raw, digest, turned FROM pins WHERE server = ? AND server_digest = ? ORDER BY at",
                (server, server_digest),
            ).fetchall()
        )
        return {row[0]: Pin(*row) for row in rows}

    async def keep(self, server: str, server_digest: str, pins: Iterable[tuple[Pin, bytes]]) -> None:
        """Remember tools with their definitions, in place of what was remembered of them. Raises StoreError."""
        new = tuple(pins)

        def work(db: sqlite3.Connection) -> None:
            now = time.time()
            if _knows(db, server, server_digest):
                _forget(db, server, server_digest, (pin.tool for pin, _ in new))
            packed = _fitting(db, server, (definition for _, definition in new))
            db.executemany(
                "INSERT INTO pins (server, server_digest, tool, raw, digest, definition, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (server, server_digest, pin.tool, pin.raw, pin.digest, kept, now)
                    for (pin, _), kept in zip(new, packed, strict=True)
                ),
            )
            db.execute(
                "DELETE FROM pins WHERE server = ?1 AND server_digest NOT IN (SELECT server_digest FROM pins"
                " WHERE server = ?1 GROUP BY server_digest ORDER BY max(at) DESC LIMIT ?2)",
                (server, SERVERS_KEPT),
            )

        await self._database.run(work)

    async def turn(self, server: str, server_digest: str, turned: Iterable[tuple[Pin, bytes]]) -> None:
        """Remember what tools became that nobody kept, until they are kept. Raises StoreError."""
        new = tuple(turned)

        def work(db: sqlite3.Connection) -> None:
            keys = [(server, server_digest, pin.tool, pin.digest) for pin, _ in new]
            db.executemany(_BECAME, [("", b"", *key) for key in keys])
            packed = _fitting(db, server, (definition for _, definition in new))
            rows = [(pin.turned, kept, *key) for (pin, _), kept, key in zip(new, packed, keys, strict=True)]
            db.executemany(_BECAME, rows)

        await self._database.run(work)

    async def forget(self, server: str, server_digest: str, tools: Iterable[str]) -> None:
        """Remember these tools no longer. Raises StoreError."""
        names = tuple(tools)
        await self._database.run(lambda db: _forget(db, server, server_digest, names))

    async def meanwhile(self, server: str, server_digest: str, tool: str) -> bytes:
        """The definition that it turned into last; empty when only its digest is known. Raises StoreError."""
        return (await self._kept(server, server_digest, tool))[1]

    async def definition(self, server: str, server_digest: str, tool: str) -> bytes:
        """The definition as it was sent; empty when only its digest is known. Raises StoreError."""
        return (await self._kept(server, server_digest, tool))[0]

    async def _kept(self, server: str, server_digest: str, tool: str) -> tuple[bytes, bytes]:
        row = await self._database.run(
            lambda db: db.execute(
                "SELECT definition, meanwhile FROM pins WHERE server = ? AND server_digest = ? AND tool = ?",
                (server, server_digest, tool),
            ).fetchone()
        )
        return (_unpacked(row[0]), _unpacked(row[1])) if row else (b"", b"")


def _forget(db: sqlite3.Connection, server: str, server_digest: str, tools: Iterable[str]) -> None:
    db.executemany(
        "DELETE FROM pins WHERE server = ? AND server_digest = ? AND tool = ?",
        ((server, server_digest, tool) for tool in tools),
    )


def _knows(db: sqlite3.Connection, server: str, server_digest: str) -> bool:
    """Return whether any tool of exactly this server is remembered."""
    query = "SELECT 1 FROM pins WHERE server = ? AND server_digest = ? LIMIT 1"
    return db.execute(query, (server, server_digest)).fetchone() is not None


def _fitting(db: sqlite3.Connection, server: str, definitions: Iterable[bytes]) -> list[bytes]:
    """Return the definitions packed, those empty that do not fit beside what is kept of the server."""
    (used,) = db.execute(
        "SELECT coalesce(sum(length(definition) + length(meanwhile)), 0) FROM pins WHERE server = ?", (server,)
    ).fetchone()
    out: list[bytes] = []
    for definition in definitions:
        packed = _packed(definition)
        out.append(packed if used + len(packed) <= SERVER_BYTES else b"")
        used += len(out[-1])
    return out


def _packed(definition: bytes) -> bytes:
    if len(definition) > DEFINITION_LIMIT:
        return b""
    if len(definition) > _SMALL_WINDOW:
        return zlib.compress(definition, 1)
    # With the default window each of them allocates 256 KB, which takes longer than compressing it.
    compressor = zlib.compressobj(1, zlib.DEFLATED, 12, 5)
    return compressor.compress(definition) + compressor.flush()


def _unpacked(packed: bytes) -> bytes:
    if not packed:
        return b""
    try:
        # Bounded: the file may be anybody's by now.
        return zlib.decompressobj().decompress(packed, DEFINITION_LIMIT)
    except zlib.error:
        return b""
