"""One sign-in as people may see it: which server, whose, what it permits, for how long. No secret is in it."""

import errno
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread

from mcphost.auth.file_lock import lock_file
from mcphost.auth.token_expiry import suspend_aware_time
from mcphost.config.atomic_write import replace_file
from mcphost.errors import MalformedMessage
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode

FETCHED_ON_DEMAND = "earned"
"""The place of a token that is got without a person whenever it is wanted, and so kept nowhere."""
DEFAULT_ACCOUNT_NAME = "default"
"""What the account is called that nobody gave a name."""


class DiscoverySummary(Struct, frozen=True, kw_only=True):
    """What was found out for one sign-in, as it was found then; all of it the servers' own claims, for people to see.

    `resource_metadata` and `issuer_metadata` are where the documents are, "" for none. No address here is used again.
    """

    resource_metadata: str = ""
    issuer_metadata: str = ""
    form: str = ""
    """What the issuer has: "oauth" (RFC 8414), "oidc" (OpenID Connect), "legacy" (none: the defaults of 2025-03-26)."""
    authorization: str = ""
    token: str = ""
    registration: str = ""
    device: str = ""
    revocation: str = ""
    pkce: tuple[str, ...] = ()
    names_itself: bool = False
    """Whether its answers say who they are from (RFC 9207)."""


class Account(Struct, frozen=True, kw_only=True):
    """One sign-in; `account` is the name the user gave it, "" for none; `expires` in seconds since 1970, 0: unknown."""

    server: str
    url: str
    issuer: str
    account: str = ""
    scopes: tuple[str, ...] = ()
    expires: float = 0
    ends: float = 0
    """When it expires, by the clock of `auth.token_expiry` in this process; 0 before its first use here."""
    renews: bool = False
    client: str = ""
    kept: bool = True
    """False: only until mcphost ends, because nothing took it."""
    place: str = "keyring"
    """Where it is kept: "keyring", "file", "encrypted"; "session" for only until mcphost ends; or EARNED."""
    discovered: DiscoverySummary = DiscoverySummary()
    """Empty for a sign-in of an earlier version."""

    @property
    def identity(self) -> tuple[str, str]:
        """Which sign-in it is: address and account."""
        return self.url, self.account

    def seconds_left(self, now: float | None = None) -> float:
        """For how many seconds it still serves, as that is judged when it is used; infinite without a known end.

        For one that was not used in this process that is by the clock on the wall, `now` in seconds since 1970.
        """
        if not self.expires:
            return math.inf
        if self.ends:
            return self.ends - suspend_aware_time()
        return self.expires - (time.time() if now is None else now)

    @property
    def name(self) -> str:
        """What it is called; never empty."""
        return self.account or DEFAULT_ACCOUNT_NAME

    def has_name(self, name: str) -> bool:
        """Whether that is its name, as a user writes it."""
        return self.account == account_key(name)


class StoredAccount(Struct, frozen=True, kw_only=True):
    """A sign-in that is kept, and for which of the configured servers."""

    account: Account
    servers: tuple[str, ...] = ()
    """The configured servers that could use it; none when its server is not configured any more."""
    used_by: tuple[str, ...] = ()
    """Those that do, or would when they connect."""
    configured_by: tuple[str, ...] = ()
    """Those of the former for which `mcp.json` names it, so that no other can be chosen."""

    def has_name(self, name: str) -> bool:
        """Whether that is its name, as a user writes it."""
        return self.account.has_name(name)


def account_key(name: str) -> str:
    """The name as it is stored: the account without a name is "", however the user wrote that."""
    return "" if name == DEFAULT_ACCOUNT_NAME else name


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
