"""Named secrets of servers and model providers.

Secrets that cannot be stored are kept in memory until mcphost quits.
"""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from mcphost.errors import KeyringMissing, McpHostError

if TYPE_CHECKING:
    from mcphost.auth.keyring_backend import SecretBackend


class SessionSecrets:
    """Store for named secrets.

    Secrets that cannot be stored are kept in memory until mcphost quits. A secret in memory takes precedence over a
    stored secret with the same name. *open_storage* is called on first use and returns the backend: the keyring or the
    file that the user chose.

    `get`, `set` and `delete` raise McpHostError if the backend cannot be used. However, while any secret is in memory,
    `get` returns None instead, because the user has already been warned that the storage does not work.
    """

    def __init__(self, open_storage: "Callable[[], SecretBackend]", place: str = "keyring") -> None:
        """Create the store; *place* is the kind of backend, "keyring" or "file".

        *open_storage* is called on first use and returns the backend.
        """
        self._open_storage = open_storage
        self._place = place
        self._in_memory: dict[str, str] = {}
        self.ask_file: Callable[[str, str], Awaitable[SecretBackend | None]] | None = None
        """Asks whether to store a server's secrets in a file, given a reason; returns the file's backend, or None."""

    @cached_property
    def _storage(self) -> "SecretBackend":
        return self._open_storage()

    def place_of(self, name: str) -> str:
        """Return where the secret is, or would be, stored: "keyring", "file" or "session" (in memory only)."""
        return "session" if name in self._in_memory else self._place

    async def get(self, name: str) -> str | None:
        """Return the secret with this name, or None if there is none."""
        if name in self._in_memory:
            return self._in_memory[name]
        try:
            return await self._storage.get(name)
        except McpHostError:
            if self._in_memory:  # the user has already been warned that the storage does not work
                return None
            raise

    async def find_place(self) -> str:
        """Return where secrets are stored: "keyring", "file", or "session" (in memory only) if neither can be used.

        Can be cancelled.
        """
        try:
            await self._storage.describe()
        except McpHostError:
            return "session"
        return self._place

    async def prepare(self, server: str) -> str:
        """Return where secrets of *server* are stored; see `find_place`.

        If there is no keyring, the user is asked, once per run, whether to store them in a file.
        """
        try:
            await self._storage.describe()
        except KeyringMissing as error:
            ask, self.ask_file = self.ask_file, None
            try:
                backend = None if ask is None else await ask(server, error.message)
            except McpHostError:
                self.ask_file = ask  # the choice could not be saved: it can be made again
                raise
            if backend is None:
                return "session"
            self._storage, self._place = backend, "file"
        except McpHostError:
            return "session"
        return self._place

    async def set(self, name: str, secret: str) -> None:
        """Store or replace a secret."""
        await self._storage.set(name, secret)
        self._in_memory.pop(name, None)

    async def delete(self, name: str) -> None:
        """Delete a secret; a missing one is not an error. If the backend fails, any copy in memory is kept."""
        await self._storage.delete(name)
        self._in_memory.pop(name, None)

    def keep_for_session(self, name: str, secret: str) -> None:
        """Keep a secret in memory until mcphost quits, without storing it."""
        self._in_memory[name] = secret

    def is_session_only(self, name: str) -> bool:
        """Return whether the secret with this name is in memory only."""
        return name in self._in_memory
