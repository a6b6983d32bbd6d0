"""Saves what the user allowed for longer: tools by digest, servers by digest; and which era a server spoke."""

import time

from mcphost.data import Data
from mcphost.protocol.revisions import Era
from mcphost.store.database import Database


class Grant(Data, frozen=True):
    """ "Always" for one tool, bound to what server and definition were when it was given."""

    server: str
    server_digest: str
    tool: str
    tool_digest: str


class Trust(Data, frozen=True):
    """An approved server; `description` is what was shown when it was approved."""

    server: str
    digest: str
    description: str


class Grants:
    """Grants, trust and eras in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def grant(self, server: str, tool: str) -> Grant | None:
        """The grant for that tool, whether or not its digests still match."""
        row = await self._database.run(
            lambda db: db.execute(
                "SELECT server, server_digest, tool, tool_digest FROM grants WHERE server = ? AND tool = ?",
                (server, tool),
            ).fetchone()
        )
        return Grant(*row) if row else None

    async def allow(self, grant: Grant) -> None:
        """Keep a grant; it replaces an older one for the same tool."""
        values = (grant.server, grant.server_digest, grant.tool, grant.tool_digest, time.time())
        await self._database.run(
            lambda db: db.execute(
                "INSERT INTO grants (server, server_digest, tool, tool_digest, created) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (server, tool) DO UPDATE SET server_digest = excluded.server_digest,"
                " tool_digest = excluded.tool_digest, created = excluded.created",
                values,
            )
        )

    async def trust(self, server: str) -> Trust | None:
        """The approval of that server, whether or not its digest still matches."""
        row = await self._database.run(
            lambda db: db.execute(
                "SELECT server, digest, description FROM trust WHERE server = ?", (server,)
            ).fetchone()
        )
        return Trust(*row) if row else None

    async def approve(self, trust: Trust) -> None:
        """Keep an approval; it replaces an older one."""
        values = (trust.server, trust.digest, trust.description, time.time())
        await self._database.run(lambda db: db.execute("INSERT OR REPLACE INTO trust VALUES (?, ?, ?, ?)", values))

    async def era(self, digest: str) -> Era | None:
        """The era a server with that digest spoke last."""
        row = await self._database.run(
            lambda db: db.execute("SELECT era FROM eras WHERE digest = ?", (digest,)).fetchone()
        )
        return row[0] if row and row[0] in ("handshake", "stateless") else None

    async def remember_era(self, digest: str, era: Era) -> None:
        """Keep the era for the next start."""
        await self._database.run(
            lambda db: db.execute("INSERT OR REPLACE INTO eras VALUES (?, ?, ?)", (digest, era, time.time()))
        )
