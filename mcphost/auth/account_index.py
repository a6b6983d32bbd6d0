"""The list of sign-ins beside the vault, without secrets, and which account was chosen for each server."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread

from mcphost.auth.account import Account
from mcphost.auth.file_lock import locked
from mcphost.config.atomic_write import replace_file
from mcphost.errors import MalformedMessage
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode

INDEX = "sign-ins.json"
_MOST_BYTES = 4 * 1024 * 1024


class Chosen(Struct, frozen=True):
    """The account that the user wants at the server of that address; "" is the one without a name."""

    url: str
    account: str


class Listed(Struct, frozen=True):
    """What the file holds."""

    accounts: tuple[Account, ...] = ()
    chosen: tuple[Chosen, ...] = ()


class Index:
    """The file in `folder`, shared by processes: whoever changes it holds a lock and reads again under it.

    A file that cannot be read is never written over: a damaged one is moved aside first. `tell` receives sentences
    about that.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None] = lambda text: None) -> None:
        self._folder = folder
        self._tell = tell

    async def read(self) -> Listed:
        """What it holds now; a file that cannot be read holds nothing, and that is told."""
        try:
            return await anyio.to_thread.run_sync(_read, self._folder / INDEX)
        except MalformedMessage as error:
            self._tell(f"{self._folder / INDEX} is damaged, so earlier sign-ins are not known. {error.message}")
        except OSError as error:
            self._tell(f"{self._folder / INDEX} cannot be read, so earlier sign-ins are not known: {error.strerror}.")
        return Listed()

    async def _read_to_change(self) -> Listed:
        """Under the lock: what it holds; a damaged file is moved aside. Raises OSError."""
        path = self._folder / INDEX
        try:
            return await anyio.to_thread.run_sync(_read, path)
        except MalformedMessage:
            aside = path.with_name(f"{INDEX}.damaged-{time.time_ns()}")
            await anyio.to_thread.run_sync(os.rename, path, aside)
            self._tell(f"{path} is damaged and was moved to {aside.name}. Sign in again where you are asked to.")
            return Listed()

    async def change(self, key: tuple[str, str], entry: Account | None) -> None:
        """Put that sign-in in, or take it out (None). Raises OSError, McpHostError."""
        async with locked(self._folder / "index.lock"):
            now = await self._read_to_change()
            others = [one for one in now.accounts if one.whose != key]
            await self._write(Listed((*others, *([entry] if entry else ())), now.chosen))

    async def choose(self, url: str, account: str | None) -> None:
        """From now on that account is meant at that address; None: no choice. Raises OSError, McpHostError."""
        async with locked(self._folder / "index.lock"):
            now = await self._read_to_change()
            others = [one for one in now.chosen if one.url != url]
            await self._write(Listed(now.accounts, (*others, *([] if account is None else [Chosen(url, account)]))))

    async def _write(self, listed: Listed) -> None:
        """Raises OSError, also for a list that could not be read again."""
        raw = encode(listed)
        if len(raw) > _MOST_BYTES:
            raise OSError(errno.EFBIG, f"it would be over {_MOST_BYTES // 1024 // 1024} MiB")
        await anyio.to_thread.run_sync(_replace, self._folder, raw)


def _read(path: Path) -> Listed:
    """Raises OSError for a file that is there and cannot be read, MalformedMessage for one that is no list."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return Listed()
    if len(raw) > _MOST_BYTES:
        raise MalformedMessage(f"It is over {_MOST_BYTES // 1024 // 1024} MiB.")
    return decode(raw, Listed, "list of sign-ins")


def _replace(folder: Path, raw: bytes) -> None:
    make_private_directory(folder)
    replace_file(folder / INDEX, raw, 0o600)
