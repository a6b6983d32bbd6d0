"""Storage of grants for tools, approved servers, and the protocol eras that servers support.

The protocol revisions are divided into two eras: handshake (up to 2025-11-25) and stateless (2026-07-28 and
later). A server supports one of them, or both ("dual").
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Iterable
from typing import Any, get_args

from mcphost.config.rules import Rule, Scope
from mcphost.errors import MalformedMessage, UsageError
from mcphost.protocol.revisions import ServerEras
from mcphost.serialization import Struct, loads, replace
from mcphost.store.database import Database
from mcphost.store.valid_rows import (
    INTEGER,
    NULL_OR_NUMBER,
    NULL_OR_TEXT,
    NUMBER,
    TEXT,
    first_valid,
    valid_rows,
)

_COLUMNS = (
    "id, server, server_digest, rule, tools, account, scope, place, expires, created, uses, last_used, suspended,"
    " revoked"
)
_FIND_TRUSTED = "SELECT server, digest, description FROM trust WHERE server = ?"
_TYPES = (
    TEXT, TEXT, TEXT, TEXT, TEXT, NULL_OR_TEXT, TEXT, TEXT, NULL_OR_NUMBER, NUMBER, INTEGER, NULL_OR_NUMBER, TEXT,
    NULL_OR_NUMBER,
)  # fmt: skip
MAX_LISTED = 10_000
CHANGED_REASON = "the tool changed"
EXPIRED_REASON = "it expired"


class Grant(Struct, frozen=True, kw_only=True):
    """A permission to call tools until it expires or is revoked; times are in seconds since 1970.

    - `rule`: the rule that the grant is based on; it is stored without its account.
    - `server_digest`: the digest of the server configuration to which the grant is limited.
    - `tools`: the tools that the grant covered when it was created, with the digests of their definitions. The user is
      asked again about a new tool, and about a tool whose digest has changed.
    - `account`: the account to which the grant is limited, or None for grants created before mcphost distinguished
      accounts.
    - `place`: the id of the conversation, or the project folder, to which the grant is limited; "" means everywhere.
    - `suspended`: the reason why the grant is suspended, or "".
    - `session`: whether the grant is not stored, and ends when mcphost quits.
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
        """The configured name of the server to which the grant applies."""
        return self.rule.server

    @property
    def text(self) -> str:
        """The grant's rule as text."""
        from mcphost.config.rule_syntax import format_rule

        return format_rule(self.rule)


class TrustedServer(Struct, frozen=True):
    """The user's approval of a server or a file.

    - `server`: the name of the server, or the absolute path of the file.
    - `description`: the text that the user approved.
    """

    server: str
    digest: str
    description: str


class GrantStore:
    """Store for grants, approved servers and protocol eras, in a database shared by all mcphost processes.

    Every method may raise StoreError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending_uses: dict[str, tuple[int, float]] = {}

    async def add(self, grant: Grant) -> Grant:
        """Store a grant under a new id, and return it with the id.

        An older grant with the same rule, account, scope and place is revoked.
        """
        now = time.time()
        rule = replace(grant.rule, account=None)
        stored = replace(grant, id=secrets.token_hex(4), created=now, rule=rule)
        values = (
            stored.id, rule.server, stored.server_digest, stored.text, json.dumps(stored.tools), stored.account,
            rule.scope, stored.place, rule.expires, now,
        )  # fmt: skip

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE grants SET revoked = ? WHERE revoked IS NULL AND server = ? AND server_digest = ? AND rule = ?"
                " AND account IS ? AND scope = ? AND place = ?",
                (now, rule.server, stored.server_digest, stored.text, stored.account, rule.scope, stored.place),
            )
            db.execute(
                "INSERT INTO grants (id, server, server_digest, rule, tools, account, scope, place, expires, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )

        await self._database.run(work)
        return stored

    async def list_for_server(self, server: str) -> tuple[Grant, ...]:
        """Return the grants for a server, oldest first, including suspended ones but not revoked ones."""
        return await self._rows("WHERE revoked IS NULL AND server = ? ORDER BY created, id", (server,))

    async def list_all(self, *, include_revoked: bool = False) -> tuple[Grant, ...]:
        """Return all grants, newest first; revoked grants are included only if *include_revoked* is true."""
        where = "" if include_revoked else "WHERE revoked IS NULL "
        return await self._rows(f"{where}ORDER BY created DESC, id LIMIT {MAX_LISTED}", ())

    async def find_by_prefix(self, prefix: str) -> Grant:
        """Return the grant whose id begins with *prefix*. Raises UsageError unless there is exactly one."""
        grants = await self._rows("WHERE revoked IS NULL AND substr(id, 1, length(?1)) = ?1", (prefix,))
        matches = [grant for grant in grants if grant.id == prefix] or list(grants)
        if not prefix or len(matches) != 1:
            raise UsageError(
                f"{len(matches)} grants begin with {prefix!r}." if matches else f"There is no grant {prefix!r}.",
                "List them with: mcphost grants",
            )
        return matches[0]

    async def revoke(self, prefix: str) -> Grant:
        """Revoke the grant whose id begins with *prefix*, in all mcphost processes, and return it.

        Raises UsageError if there is no such grant or more than one.
        """
        grant = await self.find_by_prefix(prefix)
        now = time.time()
        await self._database.run(
            lambda db: db.execute("UPDATE grants SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, grant.id))
        )
        return replace(grant, revoked=now)

    async def suspend(self, grant_ids: Iterable[str], reason: str) -> None:
        """Suspend grants until the user renews them; *reason* is a short phrase."""
        rows = [(reason, grant_id) for grant_id in grant_ids]
        await self._database.run(
            lambda db: db.executemany("UPDATE grants SET suspended = ? WHERE id = ? AND suspended = ''", rows)
        )

    async def carry_over_tool(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """Extend grants to a changed tool definition that the user has accepted.

        *server_digest* is the digest of the server's configuration. Grants that covered the definition with the
        digest *before* now cover the definition with the digest *after*. If they were suspended because of the
        change, the suspension ends.
        """

        def work(db: sqlite3.Connection) -> None:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM grants WHERE revoked IS NULL AND server = ? AND server_digest = ?",  # noqa: S608
                (server, server_digest),
            )
            for grant in _parse_rows(list(valid_rows(rows, *_TYPES))):
                if grant.tools.get(tool) == before:
                    tools = json.dumps({**grant.tools, tool: after})
                    db.execute(
                        "UPDATE grants SET tools = ?, suspended = replace(suspended, ?, '') WHERE id = ?",
                        (tools, CHANGED_REASON, grant.id),
                    )

        await self._database.run(work)

    def count_use(self, grant_id: str) -> None:
        """Count a use of a grant in memory, so that tool calls do not wait for the disk; see `write_uses`."""
        count, _ = self._pending_uses.get(grant_id, (0, 0.0))
        self._pending_uses[grant_id] = (count + 1, time.time())

    async def write_uses(self) -> None:
        """Store the uses counted by `count_use`; if that fails, the counts remain in memory for the next attempt."""
        counted, self._pending_uses = self._pending_uses, {}
        if not counted:
            return
        rows = [(count, at, grant_id) for grant_id, (count, at) in counted.items()]
        try:
            await self._database.run(
                lambda db: db.executemany(
                    "UPDATE grants SET uses = uses + ?1, last_used = max(coalesce(last_used, 0), ?2) WHERE id = ?3",
                    rows,
                )
            )
        except BaseException:
            for grant_id, (count, at) in counted.items():
                since, latest = self._pending_uses.get(grant_id, (0, 0.0))
                self._pending_uses[grant_id] = (since + count, max(latest, at))
            raise

    async def find_trusted(self, server: str) -> TrustedServer | None:
        """Return the stored approval of a server or file, or None if there is none.

        The caller must compare the digest in the approval with the current digest of the server or file: if they
        differ, the approval is outdated.
        """
        row = await self._database.run(lambda db: first_valid(db.execute(_FIND_TRUSTED, (server,)), TEXT, TEXT, TEXT))
        return TrustedServer(*row) if row else None

    async def save_trusted(self, trust: TrustedServer) -> None:
        """Store the approval of a server or file, replacing an earlier one."""
        values = (trust.server, trust.digest, trust.description, time.time())
        await self._database.run(lambda db: db.execute("INSERT OR REPLACE INTO trust VALUES (?, ?, ?, ?)", values))

    async def list_trusted_files(self, name: str) -> tuple[str, ...]:
        """Return the paths of the approved files with this file name, in any folder.

        Files whose content has changed since the approval are included.
        """
        query = "SELECT server FROM trust WHERE substr(server, ?) = ? ORDER BY server LIMIT ?"
        values = (-len(name) - 1, f"/{name}", MAX_LISTED)
        rows = await self._database.run(lambda db: list(valid_rows(db.execute(query, values), TEXT)))
        return tuple(path for (path,) in rows)

    async def remove_trusted(self, server: str) -> None:
        """Delete the stored approval of a server or file; do nothing if there is none."""
        await self._database.run(lambda db: db.execute("DELETE FROM trust WHERE server = ?", (server,)))

    async def carry_over_server(self, before: str, after: TrustedServer) -> bool:
        """Replace a server's approval with *after*, and keep everything that was stored for the server.

        Grants, tool fingerprints, tasks, folder decisions and protocol eras stored under the server's digest *before*
        are transferred to its new digest. Returns False, and changes nothing, if the server was not approved with the
        digest *before*.
        """

        def work(db: sqlite3.Connection) -> bool:
            updated = db.execute(
                "UPDATE trust SET digest = ?, description = ? WHERE server = ? AND digest = ?",
                (after.digest, after.description, after.server, before),
            ).rowcount
            if not updated:
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
        """Return the protocol eras that a server last supported, or None if unknown.

        *digest* is the digest of the server's address or command. The eras are:

        - "handshake": revisions up to 2025-11-25
        - "stateless": revisions since 2026-07-28
        - "dual": both
        """
        row = await self._database.run(
            lambda db: db.execute("SELECT era FROM eras WHERE digest = ?", (digest,)).fetchone()
        )
        return row[0] if row and row[0] in ("handshake", "stateless", "dual") else None

    async def save_eras(self, digest: str, eras: ServerEras) -> None:
        """Store the protocol eras that a server supports, so that the next connection can skip detection.

        *digest* is the digest of the server's address or command. For the eras, see `load_eras`.
        """
        await self._database.run(
            lambda db: db.execute("INSERT OR REPLACE INTO eras VALUES (?, ?, ?)", (digest, eras, time.time()))
        )

    async def _rows(self, where: str, values: tuple[Any, ...]) -> tuple[Grant, ...]:
        rows = await self._database.run(
            lambda db: list(valid_rows(db.execute(f"SELECT {_COLUMNS} FROM grants {where}", values), *_TYPES))  # noqa: S608
        )
        return tuple(_parse_rows(rows))


def _parse_rows(rows: Iterable[tuple[Any, ...]]) -> list[Grant]:
    from mcphost.config.rule_syntax import is_formatted, parse_rule

    grants: list[Grant] = []
    for row in rows:
        grant_id, _, digest, text, tools, account, scope, place, expires, created, uses, last, suspended, revoked = row
        try:
            rule = replace(parse_rule(text), scope=scope, expires=expires)
            tool_digests = {str(name): str(value) for name, value in loads(tools).items()}
        except (UsageError, MalformedMessage, ValueError, TypeError, AttributeError):
            continue  # an unreadable row grants nothing
        if scope not in get_args(Scope) or not is_formatted(text):
            continue  # a row of an earlier version that would be misread: the user is asked again
        grants.append(
            Grant(
                id=grant_id, rule=rule, server_digest=digest, tools=tool_digests, account=account, place=place,
                created=created, uses=uses, last_used=last, suspended=suspended, revoked=revoked,
            )
        )  # fmt: skip
    return grants
