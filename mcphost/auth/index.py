"""The list of sign-ins beside the vault, without secrets, and which account was chosen for each server."""

import os
from pathlib import Path

import anyio.to_thread

from mcphost.auth.account import Account
from mcphost.auth.locks import locked
from mcphost.data import Data, decode, encode
from mcphost.errors import MalformedMessage
from mcphost.paths import make_private

INDEX = "sign-ins.json"
_MOST_BYTES = 4 * 1024 * 1024


class Chosen(Data, frozen=True):
    """The account that the user wants at the server of that address; "" is the one without a name."""

    url: str
    account: str


class Listed(Data, frozen=True):
    """What the file holds."""

    accounts: tuple[Account, ...] = ()
    chosen: tuple[Chosen, ...] = ()


class Index:
    """The file in `folder`, shared by processes: whoever changes it holds a lock and reads again under it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self) -> Listed:
        """What it holds now; a file that cannot be read holds nothing."""
        return await anyio.to_thread.run_sync(_read, self._folder / INDEX)

    async def change(self, key: tuple[str, str], entry: Account | None) -> None:
        """Put that sign-in in, or take it out (None). Raises OSError, McpHostError."""
        async with locked(self._folder / "index.lock"):
            now = await self.read()
            others = [one for one in now.accounts if one.whose != key]
            await self._write(Listed((*others, *([entry] if entry else ())), now.chosen))

    async def choose(self, url: str, account: str | None) -> None:
        """From now on that account is meant at that address; None: no choice. Raises OSError, McpHostError."""
        async with locked(self._folder / "index.lock"):
            now = await self.read()
            others = [one for one in now.chosen if one.url != url]
            await self._write(Listed(now.accounts, (*others, *([] if account is None else [Chosen(url, account)]))))

    async def _write(self, listed: Listed) -> None:
        await anyio.to_thread.run_sync(_replace, self._folder, encode(listed))


def _read(path: Path) -> Listed:
    try:
        with path.open("rb") as file:
            return decode(file.read(_MOST_BYTES), Listed, "list of sign-ins")
    except (OSError, MalformedMessage):
        return Listed()


def _replace(folder: Path, raw: bytes) -> None:
    make_private(folder)
    fresh = folder / f"{INDEX}.{os.getpid()}"
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        fresh.replace(folder / INDEX)
    finally:
        fresh.unlink(missing_ok=True)
