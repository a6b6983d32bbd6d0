"""Where secrets are kept: the system's keyring, or memory for this run; never a plain file.

The keyring library takes whatever back end is installed, plain text files included (measured with keyrings.alt), so
the back end is chosen here, from the ones that encrypt for the signed-in user.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread

from mcphost.errors import McpHostError

SERVICE = "mcphost"
LIMIT = 5.0
"""Seconds for one keyring call; a locked keyring may be waiting for a person."""

ALLOWED = {
    "keyring.backends.macOS": "macOS Keychain",
    "keyring.backends.Windows": "Windows Credential Manager",
    "keyring.backends.SecretService": "Secret Service",
    "keyring.backends.libsecret": "libsecret",
    "keyring.backends.kwallet": "KWallet",
}
NO_VAULT = "There is no keyring that encrypts on this machine."
FIX = "Install one (GNOME Keyring, KWallet), or keep the key in an environment variable."

T = TypeVar("T")


class SecretVault(Protocol):
    """Named secrets. Every method raises McpHostError when the vault cannot be used, and may be cancelled."""

    async def get(self, name: str) -> str | None:
        """The secret, or None when there is none (or no vault)."""
        ...

    async def set(self, name: str, secret: str) -> None:
        """Store or replace it."""
        ...

    async def delete(self, name: str) -> None:
        """Remove it; a missing one is no error."""
        ...

    def describe(self) -> str:
        """Which vault this is, for people. Raises McpHostError saying why there is none."""
        ...


class MemoryVault:
    """Secrets for this run only."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        """The secret, or None."""
        return self._secrets.get(name)

    async def set(self, name: str, secret: str) -> None:
        """Store it until the program ends."""
        self._secrets[name] = secret

    async def delete(self, name: str) -> None:
        """Remove it."""
        self._secrets.pop(name, None)

    def describe(self) -> str:
        """Says that nothing is kept."""
        return "memory only: secrets are forgotten when mcphost ends"


class KeyringVault:
    """The system's keyring. The back end is looked for on first use, on a thread: finding it takes 0.3 s."""

    def __init__(self, service: str = SERVICE) -> None:
        self._service = service
        self._backend: Any = None
        self._searched = False

    async def get(self, name: str) -> str | None:
        """The secret, or None. Raises McpHostError when the keyring is locked or does not answer."""
        return await self._on_thread(self._get, name)

    async def set(self, name: str, secret: str) -> None:
        """Store it. Raises McpHostError, also when there is no keyring."""
        await self._on_thread(self._set, name, secret)

    async def delete(self, name: str) -> None:
        """Remove it. Raises McpHostError when the keyring is locked or does not answer."""
        await self._on_thread(self._delete, name)

    def describe(self) -> str:
        """The back end's name. Blocks for up to half a second. Raises McpHostError saying why there is none."""
        backend = self._found()
        if backend is None:
            raise McpHostError(f"{NO_VAULT} {why_none()}", FIX)
        return ALLOWED[type(backend).__module__]

    def _get(self, name: str) -> str | None:
        backend = self._found()
        return None if backend is None else backend.get_password(self._service, name)

    def _set(self, name: str, secret: str) -> None:
        backend = self._found()
        if backend is None:
            raise McpHostError(NO_VAULT, FIX)
        backend.set_password(self._service, name, secret)

    def _delete(self, name: str) -> None:
        backend = self._found()
        if backend is not None and backend.get_password(self._service, name) is not None:
            backend.delete_password(self._service, name)

    def _found(self) -> Any:
        if not self._searched:
            self._backend = secure_backend()
            self._searched = True
        return self._backend

    async def _on_thread(self, work: Callable[..., T], *arguments: str) -> T:
        try:
            with anyio.fail_after(LIMIT):
                return await anyio.to_thread.run_sync(work, *arguments, abandon_on_cancel=True)
        except TimeoutError as error:
            raise McpHostError(
                f"The keyring did not answer within {LIMIT:g} s.", "Unlock it, or use an environment variable."
            ) from error
        except McpHostError:
            raise
        except Exception as error:  # the boundary to keyring back ends, which raise anything
            raise McpHostError(
                f"The keyring refused: {type(error).__name__}.", "Unlock it, or use an environment variable."
            ) from error


def secure_backend() -> Any:
    """The best allowed back end that works here, or None; what the user configured for keyring is respected."""
    import keyring
    import keyring.backend
    import keyring.backends.chainer

    chosen = keyring.get_keyring()
    if type(chosen).__module__ in ALLOWED:
        return chosen
    if not isinstance(chosen, keyring.backends.chainer.ChainerBackend):
        return None
    members: list[Any] = list(keyring.backend.get_all_keyring())
    allowed = [member for member in members if type(member).__module__ in ALLOWED]
    return max(allowed, key=lambda member: float(member.priority), default=None)


def why_none() -> str:
    """What keyring itself would have used."""
    import keyring

    chosen = type(keyring.get_keyring())
    if chosen.__module__ == "keyring.backends.fail":
        return "No keyring service answers."
    return f"What is installed ({chosen.__module__}) may keep secrets unprotected and is not used."
