"""Saves what the user allowed for longer: calls by rules, servers by digest; and which era a server spoke."""

import json
import secrets
import sqlite3
import time
from collections.abc import Iterable
from typing import Any, get_args

from mcphost.config.rules import Rule, Scope, format_rule, parse_rule
from mcphost.errors import UsageError
from mcphost.protocol.revisions import ServerEras
from mcphost.serialization import Struct, replace
from mcphost.store.database import Database

_COLUMNS = (
    "id, server, server_digest, rule, tools, account, scope, place, expires, created, uses, last_used, suspended,"
    " revoked"
)
MAX_LISTED = 10_000
CHANGED_REASON = "the tool changed"
EXPIRED_REASON = "it expired"


class Grant(Struct, frozen=True, kw_only=True):
    """What the user allowed, until it is revoked; times are seconds since 1970.

    It holds for the server with `server_digest` and that account, in `place`: a conversation's id, a project's folder,
    or empty for everywhere. `tools` has the digest of every tool that it covered when it was given; a tool that was not
    among them is asked about, and so is one with another digest. `suspended` says why it does not count any more, in
    one short sentence; empty while it does. `account` None: it was given before accounts were told apart; that of the
    rule itself is not kept. `session`: it lasts until the program ends and is not stored.
    """

    id: str = ""
    rule: Rule
    server_digest: str
    tools: dict[str, str]
    account: str | None = ""
    place: str = ""
    created: float = 0.0
    uses: int = 0
    last_used: float | None = None
    suspended: str = ""
    revoked: float | None = None
    session: bool = False

    @property
    def server(self) -> str:
        """The configured name of its server."""
        return self.rule.server

    @property
    def text(self) -> str:
        """The rule as a person writes it."""
        return format_rule(self.rule)


class TrustedServer(Struct, frozen=True):
    """An approved server; `description` is what was shown when it was approved."""

    server: str
    digest: str
    description: str


class GrantStore:
    """Grants, trust and eras in the database; several processes may use it. Every method raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending_uses: dict[str, tuple[int, float]] = {}

    async def add(self, grant: Grant) -> Grant:
        """Keep it under a new id; one with the same rule, account, scope and place is replaced by it."""
        now = time.time()
        rule = replace(grant.rule, account=None)
        kept = replace(grant, id=secrets.token_hex(4), created=now, rule=rule)
        values = (
            kept.id, rule.server, kept.server_digest, kept.text, json.dumps(kept.tools), kept.account, rule.scope,
            kept.place, rule.expires, now,
        )  # fmt: skip

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE grants SET revoked = ? WHERE revoked IS NULL AND server = ? AND server_digest = ? AND rule = ?"
                " AND account IS ? AND scope = ? AND place = ?",
                (now, rule.server, kept.server_digest, kept.text, kept.account, rule.scope, kept.place),
            )
            db.execute(
                "INSERT INTO grants (id, server, server_digest, rule, tools, account, scope, place, expires, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )

        await self._database.run(work)
        return kept

    async def list_for_server(self, server: str) -> tuple[Grant, ...]:
        """What stands for that server, suspended ones too, oldest first."""
        return await self._rows("WHERE revoked IS NULL AND server = ? ORDER BY created, id", (server,))

    async def list_all(self, *, include_revoked: bool = False) -> tuple[Grant, ...]:
        """All that stand, with `revoked` also those that no longer do; newest first."""
        where = "" if include_revoked else "WHERE revoked IS NULL "
        return await self._rows(f"{where}ORDER BY created DESC, id LIMIT {MAX_LISTED}", ())

    async def find_by_prefix(self, prefix: str) -> Grant:
        """The one whose id begins so and that stands. Raises UsageError when none or several do."""
        found = await self._rows("WHERE revoked IS NULL AND substr(id, 1, length(?1)) = ?1", (prefix,))
        exact = [grant for grant in found if grant.id == prefix] or list(found)
        if not prefix or len(exact) != 1:
            what = "There is no grant" if not exact else f"{len(exact)} grants begin with"
            raise UsageError(f"{what} {prefix!r}.", "List them with: mcphost grants")
        return exact[0]

    async def revoke(self, prefix: str) -> Grant:
        """End the one whose id begins so; it counts no more, here and in every other mcphost. Raises UsageError."""
        grant = await self.find_by_prefix(prefix)
        now = time.time()
        await self._database.run(
            lambda db: db.execute("UPDATE grants SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, grant.id))
        )
        return replace(grant, revoked=now)

    async def suspend(self, grant_ids: Iterable[str], reason: str) -> None:
        """They count no more until they are given again; `why` is one short sentence."""
        rows = [(reason, ident) for ident in grant_ids]
        await self._database.run(
            lambda db: db.executemany("UPDATE grants SET suspended = ? WHERE id = ? AND suspended = ''", rows)
        )

    async def carry_over_tool(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """The user keeps a changed tool: grants given to exactly what it was cover what it is, and count again."""

        def work(db: sqlite3.Connection) -> None:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM grants WHERE revoked IS NULL AND server = ? AND server_digest = ?",  # noqa: S608
                (server, server_digest),
            ).fetchall()
            for grant in _parse_rows(rows):
                if grant.tools.get(tool) == before:
                    tools = json.dumps({**grant.tools, tool: after})
                    db.execute(
                        "UPDATE grants SET tools = ?, suspended = replace(suspended, ?, '') WHERE id = ?",
                        (tools, CHANGED_REASON, grant.id),
                    )

        await self._database.run(work)

    def count_use(self, grant_id: str) -> None:
        """Count one use. It is written by the next `write_uses`, so that no call waits for the disk."""
        count, _ = self._pending_uses.get(grant_id, (0, 0.0))
        self._pending_uses[grant_id] = (count + 1, time.time())

    async def write_uses(self) -> None:
        """Add what was counted since the last time to what is stored; what cannot be written is tried again later."""
        counted, self._pending_uses = self._pending_uses, {}
        if not counted:
            return
        rows = [(count, at, ident) for ident, (count, at) in counted.items()]
        try:
            await self._database.run(
                lambda db: db.executemany(
                    "UPDATE grants SET uses = uses + ?1, last_used = max(coalesce(last_used, 0), ?2) WHERE id = ?3",
                    rows,
                )
            )
        except BaseException:
            for ident, (count, at) in counted.items():
                since, latest = self._pending_uses.get(ident, (0, 0.0))
                self._pending_uses[ident] = (since + count, max(latest, at))
            raise

    async def find_trusted(self, server: str) -> TrustedServer | None:
        """The approval of that server, whether or not its digest still matches."""
        row = await self._database.run(
            lambda db: db.execute(
                "SELECT server, digest, description FROM trust WHERE server = ?", (server,)
            ).fetchone()
        )
        return TrustedServer(*row) if row else None

    async def save_trusted(self, trust: TrustedServer) -> None:
        """Keep an approval; it replaces an older one."""
        values = (trust.server, trust.digest, trust.description, time.time())
        await self._database.run(lambda db: db.execute("INSERT OR REPLACE INTO trust VALUES (?, ?, ?, ?)", values))

    async def carry_over_server(self, before: str, after: TrustedServer) -> bool:
        """The same server has another digest: its approval, its grants and all that is known of it go along.

        Whether there was an approval of exactly the digest `before`; without one nothing changes.
        """

        def work(db: sqlite3.Connection) -> bool:
            found = db.execute(
                "UPDATE trust SET digest = ?, description = ? WHERE server = ? AND digest = ?",
                (after.digest, after.description, after.server, before),
            ).rowcount
            if not found:
                return False
            moved = (after.digest, after.server, before)
            db.execute("UPDATE grants SET server_digest = ? WHERE server = ? AND server_digest = ?", moved)
            db.execute("UPDATE OR REPLACE pins SET server_digest = ? WHERE server = ? AND server_digest = ?", moved)
            db.execute("UPDATE OR REPLACE tasks SET digest = ? WHERE server = ? AND digest = ?", moved)
            db.execute(
                "UPDATE OR REPLACE folder_answers SET server_digest = ? WHERE server = ? AND server_digest = ?", moved
            )
            db.execute(
                "INSERT OR REPLACE INTO eras SELECT ?, era, at FROM eras WHERE digest = ?", (after.digest, before)
            )
            return True

        return await self._database.run(work)

    async def load_eras(self, digest: str) -> ServerEras | None:
        """Which eras a server with that digest spoke last."""
        row = await self._database.run(
            lambda db: db.execute("SELECT era FROM eras WHERE digest = ?", (digest,)).fetchone()
        )
        return row[0] if row and row[0] in ("handshake", "stateless", "dual") else None

    async def save_eras(self, digest: str, eras: ServerEras) -> None:
        """Keep what a server speaks for the next start."""
        await self._database.run(
            lambda db: db.execute("INSERT OR REPLACE INTO eras VALUES (?, ?, ?)", (digest, eras, time.time()))
        )

    async def _rows(self, where: str, values: tuple[Any, ...]) -> tuple[Grant, ...]:
        rows = await self._database.run(
            lambda db: db.execute(f"SELECT {_COLUMNS} FROM grants {where}", values).fetchall()  # noqa: S608
        )
        return tuple(_parse_rows(rows))


def _parse_rows(rows: Iterable[tuple[Any, ...]]) -> list[Grant]:
    made: list[Grant] = []
    for row in rows:
        ident, _, digest, text, tools, account, scope, place, expires, created, uses, last, suspended, revoked = row
        try:
            rule = replace(parse_rule(text), scope=scope, expires=expires)
            known = {str(name): str(mark) for name, mark in json.loads(tools).items()}
        except (UsageError, ValueError, AttributeError):
            continue  # A row that cannot be read allows nothing.
        if scope not in get_args(Scope):
            continue
        made.append(
            Grant(
                id=ident, rule=rule, server_digest=digest, tools=known, account=account, place=place, created=created,
                uses=uses, last_used=last, suspended=suspended, revoked=revoked,
            )
        )  # fmt: skip
    return made
