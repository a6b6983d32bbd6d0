"""Storage backends for secrets, and a simulated user who chooses between them."""

from pathlib import Path
from typing import Any

from mcphost.auth.token_store import TokenStore
from mcphost.errors import McpHostError
from mcphost.serialization import replace
from tests.fakes.memory_backend import MemoryBackend


class StorageUser:
    """A user who answers storage and passphrase questions from prepared lists, and records the questions."""

    def __init__(self, *places: tuple[str, str], phrases: tuple[str | None, ...] = ()) -> None:
        self.places, self.phrases = list(places), list(phrases)
        self.asked: list[dict[str, Any]] = []

    async def choose_storage(self, **asked: Any) -> tuple[str, str]:
        self.asked.append(asked)
        return self.places.pop(0)

    async def ask_passphrase(self, **asked: Any) -> str | None:
        self.asked.append(asked)
        return self.phrases.pop(0)


def read_all_files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def age_sign_in(auth: Any, token_store: TokenStore, seconds: float = 4000) -> None:
    """Change the stored sign-in so that it appears to be *seconds* older."""
    signed = auth.current_sign_in
    tokens = replace(signed.tokens, issued=signed.tokens.issued - seconds, expires=signed.tokens.expires - seconds)
    auth.current_sign_in = replace(signed, tokens=tokens)
    await token_store.save(auth.current_sign_in)


class SharedFolderBackend(MemoryBackend):
    """A backend that several processes share through a folder, as they would share a keyring."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir(exist_ok=True)

    async def get(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text() if path.exists() else None

    async def set(self, name: str, secret: str) -> None:
        (self.folder / name).write_text(secret)

    async def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


class ReadOnlyBackend(MemoryBackend):
    """A keyring that cannot store anything."""

    async def set(self, name: str, secret: str) -> None:
        raise McpHostError("The keyring is locked.", "Unlock it.")


class OpenMemoryBackend(MemoryBackend):
    """A backend in memory that lets the test read the secrets."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        return self.secrets.get(name)

    async def set(self, name: str, secret: str) -> None:
        self.secrets[name] = secret

    async def delete(self, name: str) -> None:
        self.secrets.pop(name, None)
