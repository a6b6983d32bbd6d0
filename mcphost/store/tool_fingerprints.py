"""What the tools of each server were when first seen or last accepted: digests, and the definitions packed."""

import sqlite3
import time
import zlib
from collections.abc import Iterable

from mcphost.serialization import Struct
from mcphost.store.database import Database

MAX_SERVER_DIGESTS = 8
"""How many ways of starting or reaching a server of one name are remembered."""
MAX_DEFINITION_BYTES = 64 * 1024
"""Longer definitions are known by their digest only: no difference can be shown."""
MAX_SERVER_BYTES = 8 * 1024 * 1024
"""Packed definitions of one server, however it is started; those beyond are known by their digest only, too."""
_SMALL_WINDOW = 4096
"""2**12 bytes: shorter definitions need no larger window."""

_UPDATE_CHANGED = (
    "UPDATE pins SET turned = ?, meanwhile = ? WHERE server = ? AND server_digest = ? AND tool = ? AND digest = ?"
)


class ToolFingerprint(Struct, frozen=True):
    """One tool: `raw` is the digest of its bytes as sent, `digest` that of its canonical form.

    `turned` is the digest of what it became last without anybody keeping that; "" when it never did.
    """

    tool: str
    raw_digest: str
    digest: str
    changed_digest: str = ""


class ToolFingerprintStore:
    """The definitions in the database, by server, by the digest of how it is started or reached, and by tool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_all(self, server: str, server_digest: str) -> dict[str, ToolFingerprint]:
        """Every tool that is remembered of exactly this server, the oldest first. Raises StoreError."""
        rows = await self._database.run(
            lambda db: db.execute(
                "SELECT tool, raw, digest, turned FROM pins WHERE server = ? AND server_digest = ? ORDER BY at",
                (server, server_digest),
            ).fetchall()
        )
        return {row[0]: ToolFingerprint(*row) for row in rows}

    async def save(
        self, server: str, server_digest: str, fingerprints: Iterable[tuple[ToolFingerprint, bytes]]
    ) -> None:
        """Remember tools with their definitions, in place of what was remembered of them. Raises StoreError."""
        new = tuple(fingerprints)

        def work(db: sqlite3.Connection) -> None:
            now = time.time()
            if _has_server(db, server, server_digest):
                _delete(db, server, server_digest, (pin.tool for pin, _ in new))
            packed = _compress_within_limit(db, server, (definition for _, definition in new))
            db.executemany(
                "INSERT INTO pins (server, server_digest, tool, raw, digest, definition, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (server, server_digest, pin.tool, pin.raw_digest, pin.digest, kept, now)
                    for (pin, _), kept in zip(new, packed, strict=True)
                ),
            )
            db.execute(
                "DELETE FROM pins WHERE server = ?1 AND server_digest NOT IN (SELECT server_digest FROM pins"
                " WHERE server = ?1 GROUP BY server_digest ORDER BY max(at) DESC LIMIT ?2)",
                (server, MAX_SERVER_DIGESTS),
            )

        await self._database.run(work)

    async def save_changed(
        self, server: str, server_digest: str, fingerprints: Iterable[tuple[ToolFingerprint, bytes]]
    ) -> None:
        """Remember what tools became that nobody kept, until they are kept. Raises StoreError."""
        new = tuple(fingerprints)

        def work(db: sqlite3.Connection) -> None:
            keys = [(server, server_digest, pin.tool, pin.digest) for pin, _ in new]
            db.executemany(_UPDATE_CHANGED, [("", b"", *key) for key in keys])
            packed = _compress_within_limit(db, server, (definition for _, definition in new))
            rows = [(pin.changed_digest, kept, *key) for (pin, _), kept, key in zip(new, packed, keys, strict=True)]
            db.executemany(_UPDATE_CHANGED, rows)

        await self._database.run(work)

    async def delete(self, server: str, server_digest: str, tools: Iterable[str]) -> None:
        """Remember these tools no longer. Raises StoreError."""
        names = tuple(tools)
        await self._database.run(lambda db: _delete(db, server, server_digest, names))

    async def load_changed_definition(self, server: str, server_digest: str, tool: str) -> bytes:
        """The definition that it turned into last; empty when only its digest is known. Raises StoreError."""
        return (await self._load_definitions(server, server_digest, tool))[1]

    async def load_definition(self, server: str, server_digest: str, tool: str) -> bytes:
        """The definition as it was sent; empty when only its digest is known. Raises StoreError."""
        return (await self._load_definitions(server, server_digest, tool))[0]

    async def _load_definitions(self, server: str, server_digest: str, tool: str) -> tuple[bytes, bytes]:
        row = await self._database.run(
            lambda db: db.execute(
                "SELECT definition, meanwhile FROM pins WHERE server = ? AND server_digest = ? AND tool = ?",
                (server, server_digest, tool),
            ).fetchone()
        )
        return (_decompress(row[0]), _decompress(row[1])) if row else (b"", b"")


def _delete(db: sqlite3.Connection, server: str, server_digest: str, tools: Iterable[str]) -> None:
    db.executemany(
        "DELETE FROM pins WHERE server = ? AND server_digest = ? AND tool = ?",
        ((server, server_digest, tool) for tool in tools),
    )


def _has_server(db: sqlite3.Connection, server: str, server_digest: str) -> bool:
    """Return whether any tool of exactly this server is remembered."""
    query = "SELECT 1 FROM pins WHERE server = ? AND server_digest = ? LIMIT 1"
    return db.execute(query, (server, server_digest)).fetchone() is not None


def _compress_within_limit(db: sqlite3.Connection, server: str, definitions: Iterable[bytes]) -> list[bytes]:
    """Return the definitions packed, those empty that do not fit beside what is kept of the server."""
    (used,) = db.execute(
        "SELECT coalesce(sum(length(definition) + length(meanwhile)), 0) FROM pins WHERE server = ?", (server,)
    ).fetchone()
    out: list[bytes] = []
    for definition in definitions:
        packed = _compress(definition)
        out.append(packed if used + len(packed) <= MAX_SERVER_BYTES else b"")
        used += len(out[-1])
    return out


def _compress(definition: bytes) -> bytes:
    if len(definition) > MAX_DEFINITION_BYTES:
        return b""
    if len(definition) > _SMALL_WINDOW:
        return zlib.compress(definition, 1)
    # With the default window each of them allocates 256 KB, which takes longer than compressing it.
    compressor = zlib.compressobj(1, zlib.DEFLATED, 12, 5)
    return compressor.compress(definition) + compressor.flush()


def _decompress(compressed: bytes) -> bytes:
    if not compressed:
        return b""
    try:
        # Bounded: the file may be anybody's by now.
        return zlib.decompressobj().decompress(compressed, MAX_DEFINITION_BYTES)
    except zlib.error:
        return b""
