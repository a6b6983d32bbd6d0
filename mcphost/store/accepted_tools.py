"""Storage of accepted tool definitions and their fingerprints."""

import sqlite3
import time
import zlib
from collections.abc import Iterable

from mcphost.serialization import Struct
from mcphost.store.database import Database
from mcphost.store.valid_rows import BLOB, TEXT, first_valid, valid_rows

MAX_SERVER_DIGESTS = 8
"""Number of server digests (configurations of a server) for which definitions are kept."""
MAX_DEFINITION_BYTES = 64 * 1024
"""Maximum size of a stored definition; if one is larger, only its digest is stored, and no diff can be shown."""
MAX_SERVER_BYTES = 8 * 1024 * 1024
"""Maximum total size of a server's compressed definitions; beyond that, only digests are stored."""
_SMALL_WINDOW = 4096
"""Compression window size in bytes (2**12) for definitions of at most this size."""

_LOAD_ALL = (
    "SELECT tool, raw, digest, turned, accepted_from FROM pins WHERE server = ? AND server_digest = ? ORDER BY at"
)
_LOAD_DEFINITIONS = "SELECT definition, meanwhile FROM pins WHERE server = ? AND server_digest = ? AND tool = ?"
_UPDATE_CHANGED = (
    "UPDATE pins SET turned = ?, meanwhile = ? WHERE server = ? AND server_digest = ? AND tool = ? AND digest = ?"
)


class ToolFingerprint(Struct, frozen=True):
    """Digests of a tool definition, which reveal whether the definition has changed.

    - `raw_digest`: the digest of the bytes that the server sent.
    - `digest`: the digest of the definition in canonical form.
    - `changed_digest`: the digest of a later definition that the user has not accepted, or "".
    - `accepted_from`: the digest of the definition that was replaced when the user accepted this one, or "" if none is
      known.
    """

    tool: str
    raw_digest: str
    digest: str
    changed_digest: str = ""
    accepted_from: str = ""


class ToolFingerprintStore:
    """Store for tool definitions and their fingerprints, keyed by server name, server digest and tool name.

    A server digest is the digest of a server's configuration. Every method may raise StoreError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_all(self, server: str, server_digest: str) -> dict[str, ToolFingerprint]:
        """Return the fingerprints of a server's tools, keyed by tool name, oldest first.

        *server_digest* is the digest of the server's configuration.
        """
        rows = await self._database.run(
            lambda db: list(valid_rows(db.execute(_LOAD_ALL, (server, server_digest)), TEXT, TEXT, TEXT, TEXT, TEXT))
        )
        return {row[0]: ToolFingerprint(*row) for row in rows}

    async def save(
        self, server: str, server_digest: str, fingerprints: Iterable[tuple[ToolFingerprint, bytes]]
    ) -> None:
        """Store tool fingerprints, each with the definition as sent by the server, replacing earlier ones.

        For each server name, only the entries for the eight most recent server digests are kept.
        """
        new = tuple(fingerprints)

        def work(db: sqlite3.Connection) -> None:
            now = time.time()
            if _has_server(db, server, server_digest):
                _delete(db, server, server_digest, (fingerprint.tool for fingerprint, _ in new))
            definitions = _compress_within_limit(db, server, (definition for _, definition in new))
            db.executemany(
                "INSERT INTO pins (server, server_digest, tool, raw, digest, accepted_from, definition, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (server, server_digest, item.tool, item.raw_digest, item.digest, item.accepted_from, packed, now)
                    for (item, _), packed in zip(new, definitions, strict=True)
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
        """Store changed definitions that the user has not accepted, each with the fingerprint of its tool.

        *server_digest* is the digest of the server's configuration. A later `save` of the same tool deletes its
        changed definition.
        """
        new = tuple(fingerprints)

        def work(db: sqlite3.Connection) -> None:
            keys = [(server, server_digest, item.tool, item.digest) for item, _ in new]
            db.executemany(_UPDATE_CHANGED, [("", b"", *key) for key in keys])
            packed = _compress_within_limit(db, server, (definition for _, definition in new))
            rows = [
                (item.changed_digest, definition, *key)
                for (item, _), definition, key in zip(new, packed, keys, strict=True)
            ]
            db.executemany(_UPDATE_CHANGED, rows)

        await self._database.run(work)

    async def delete(self, server: str, server_digest: str, tools: Iterable[str]) -> None:
        """Delete the stored fingerprints of these tools."""
        names = tuple(tools)
        await self._database.run(lambda db: _delete(db, server, server_digest, names))

    async def load_changed_definition(self, server: str, server_digest: str, tool: str) -> bytes:
        """Return a tool's changed definition, which the user has not accepted, or b"" if none is stored.

        *server_digest* is the digest of the server's configuration.
        """
        return (await self._load_definitions(server, server_digest, tool))[1]

    async def load_definition(self, server: str, server_digest: str, tool: str) -> bytes:
        """Return a tool's accepted definition, as sent by the server, or b"" if none is stored.

        *server_digest* is the digest of the server's configuration.
        """
        return (await self._load_definitions(server, server_digest, tool))[0]

    async def _load_definitions(self, server: str, server_digest: str, tool: str) -> tuple[bytes, bytes]:
        row = await self._database.run(
            lambda db: first_valid(db.execute(_LOAD_DEFINITIONS, (server, server_digest, tool)), BLOB, BLOB)
        )
        return (_decompress(row[0]), _decompress(row[1])) if row else (b"", b"")


def _delete(db: sqlite3.Connection, server: str, server_digest: str, tools: Iterable[str]) -> None:
    db.executemany(
        "DELETE FROM pins WHERE server = ? AND server_digest = ? AND tool = ?",
        ((server, server_digest, tool) for tool in tools),
    )


def _has_server(db: sqlite3.Connection, server: str, server_digest: str) -> bool:
    """Return whether any tool is stored for the server name together with this server digest."""
    query = "SELECT 1 FROM pins WHERE server = ? AND server_digest = ? LIMIT 1"
    return db.execute(query, (server, server_digest)).fetchone() is not None


def _compress_within_limit(db: sqlite3.Connection, server: str, definitions: Iterable[bytes]) -> list[bytes]:
    """Compress tool definitions, subject to the limit on the total size for one server.

    Returns b"" in place of each definition that would exceed the limit.
    """
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
    # The default window allocates 256 KB for each definition, which takes longer than compressing it.
    compressor = zlib.compressobj(1, zlib.DEFLATED, 12, 5)
    return compressor.compress(definition) + compressor.flush()


def _decompress(compressed: bytes) -> bytes:
    if not compressed:
        return b""
    try:
        # Limited, because the file may have been manipulated.
        return zlib.decompressobj().decompress(compressed, MAX_DEFINITION_BYTES)
    except zlib.error:
        return b""
