"""The list of sign-ins beside the vault, without secrets, and which account was chosen for each server."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread

from mcphost.auth.account import Account
from mcphost.auth.file_lock import lock_file
from mcphost.config.atomic_write import replace_file
from mcphost.errors import MalformedMessage
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode

INDEX_FILE = "sign-ins.json"
_MAX_BYTES = 4 * 1024 * 1024


class ChosenAccount(Struct, frozen=True):
    """The account that the user wants at the server of that address; "" is the one without a name."""

    url: str
    account: str


class AccountIndexContent(Struct, frozen=True):
    """What the file holds."""

    accounts: tuple[Account, ...] = ()
    chosen: tuple[ChosenAccount, ...] = ()


class AccountIndex:
    """The file in `folder`, shared by processes: whoever changes it holds a lock and reads again under it.

    A file that cannot be read is never written over: a damaged one is moved aside first. `tell` receives sentences
    about that.
    """

    def __init__(self, directory: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self._directory = directory
        self._warn = warn

    async def read(self) -> AccountIndexContent:
        """What it holds now; a file that cannot be read holds nothing, and that is told."""
        try:
            return await anyio.to_thread.run_sync(_read, self._directory / INDEX_FILE)
        except MalformedMessage as error:
            self._warn(f"{self._directory / INDEX_FILE} is damaged, so earlier sign-ins are not known. {error.message}")
        except OSError as error:
            self._warn(
                f"{self._directory / INDEX_FILE} cannot be read, so earlier sign-ins are not known: {error.strerror}."
            )
        return AccountIndexContent()

    async def _read_for_update(self) -> AccountIndexContent:
        """Under the lock: what it holds; a damaged file is moved aside. Raises OSError."""
        path = self._directory / INDEX_FILE
        try:
            return await anyio.to_thread.run_sync(_read, path)
        except MalformedMessage:
            aside = path.with_name(f"{INDEX_FILE}.damaged-{time.time_ns()}")
            await anyio.to_thread.run_sync(os.rename, path, aside)
            self._warn(f"{path} is damaged and was moved to {aside.name}. Sign in again where you are asked to.")
            return AccountIndexContent()

    async def update(self, key: tuple[str, str], entry: Account | None) -> None:
        """Put that sign-in in, or take it out (None). Raises OSError, McpHostError."""
        async with lock_file(self._directory / "index.lock"):
            now = await self._read_for_update()
            others = [one for one in now.accounts if one.identity != key]
            await self._write(AccountIndexContent((*others, *([entry] if entry else ())), now.chosen))

    async def choose_account(self, url: str, account: str | None) -> None:
        """From now on that account is meant at that address; None: no choice. Raises OSError, McpHostError."""
        async with lock_file(self._directory / "index.lock"):
            now = await self._read_for_update()
            others = [one for one in now.chosen if one.url != url]
            await self._write(
                AccountIndexContent(
                    now.accounts, (*others, *([] if account is None else [ChosenAccount(url, account)]))
                )
            )

    async def _write(self, content: AccountIndexContent) -> None:
        """Raises OSError, also for a list that could not be read again."""
        raw = encode(content)
        if len(raw) > _MAX_BYTES:
            raise OSError(errno.EFBIG, f"it would be over {_MAX_BYTES // 1024 // 1024} MiB")
        await anyio.to_thread.run_sync(_write_file, self._directory, raw)


def _read(path: Path) -> AccountIndexContent:
    """Raises OSError for a file that is there and cannot be read, MalformedMessage for one that is no list."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return AccountIndexContent()
    if len(raw) > _MAX_BYTES:
        raise MalformedMessage(f"It is over {_MAX_BYTES // 1024 // 1024} MiB.")
    return decode(raw, AccountIndexContent, "list of sign-ins")


def _write_file(directory: Path, raw: bytes) -> None:
    make_private_directory(directory)
    replace_file(directory / INDEX_FILE, raw, 0o600)
