"""A secret backend for tests, without a keyring."""


class MemoryBackend:
    """A SecretBackend that keeps secrets in memory."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}

    def place_of(self, name: str) -> str:
        """Return the place of a secret, as for `SecretEntries`."""
        return "keyring"

    async def get(self, name: str) -> str | None:
        """Return the named secret, or None if it is not stored."""
        return self._secrets.get(name)

    async def set(self, name: str, secret: str) -> None:
        """Store the secret."""
        self._secrets[name] = secret

    async def delete(self, name: str) -> None:
        """Remove the secret."""
        self._secrets.pop(name, None)

    async def describe(self) -> str:
        """Return a description of the backend."""
        return "memory only"
