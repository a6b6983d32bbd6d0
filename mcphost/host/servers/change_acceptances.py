"""The user's decisions to accept all changes of a server's tools until mcphost exits."""

import secrets
import time

from mcphost.serialization import Struct, replace


class ChangeAcceptance(Struct, frozen=True):
    """The user's decision to accept all changes of one server's tools for this session.

    `server_digest` is the digest of the server's settings, such as its command or URL. The decision ends when the
    server has another digest.
    """

    id: str
    server: str
    server_digest: str
    created: float
    uses: int = 0
    last_used: float | None = None

    @property
    def text(self) -> str:
        """A description of the decision, for the list of grants and the audit log."""
        return f"{self.server}: changes of its tools"


class ChangeAcceptances:
    """The user's decisions in this session to accept all changes of a server's tools, kept in memory only."""

    def __init__(self) -> None:
        self._by_server: dict[str, ChangeAcceptance] = {}

    def add(self, server: str, server_digest: str) -> ChangeAcceptance:
        """Record that the user accepts all later changes of a server's tools; replace an earlier decision for it."""
        # "t", because the ids of stored grants are hexadecimal, so that no prefix matches both kinds.
        one = ChangeAcceptance(f"t{secrets.token_hex(4)}", server, server_digest, time.time())
        self._by_server[server] = one
        return one

    def find(self, server: str, server_digest: str) -> ChangeAcceptance | None:
        """Return the decision for the server with this name and this digest of its settings, or None."""
        one = self._by_server.get(server)
        return one if one is not None and one.server_digest == server_digest else None

    def count_use(self, one: ChangeAcceptance) -> None:
        """Count one use of the decision *one*; do nothing if it was revoked or replaced."""
        current = self._by_server.get(one.server)
        if current is not None and current.id == one.id:
            self._by_server[one.server] = replace(current, uses=current.uses + 1, last_used=time.time())

    def list(self, server: str = "") -> tuple[ChangeAcceptance, ...]:
        """Return the decisions, newest first; if *server* is not "", only the one for this server."""
        found = (one for one in self._by_server.values() if server in ("", one.server))
        return tuple(sorted(found, key=lambda one: one.created, reverse=True))

    def revoke(self, id_prefix: str) -> ChangeAcceptance | None:
        """Revoke and return the decision whose id begins with this prefix; return None if not exactly one does."""
        matches = [one for one in self._by_server.values() if id_prefix and one.id.startswith(id_prefix)]
        if len(matches) != 1:
            return None
        return self._by_server.pop(matches[0].server)
