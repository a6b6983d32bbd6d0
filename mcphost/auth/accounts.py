"""Stored accounts, described without their secrets, and the index file that lists them.

An account is described by its server, scopes, expiry and similar data. Token ages are measured with the
boot-time clock, which cannot be set and keeps counting while the machine is suspended.
"""

import errno
import hashlib
import math
import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio.to_thread

from mcphost.config.file_edits import lock_file, replace_file
from mcphost.config.json_files import read_regular_file
from mcphost.errors import ConfigError, MalformedMessage, McpHostError
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode, field, replace

CLOCK_SLACK = 300.0
"""Maximum difference between correctly set clocks, in seconds."""
_MAX_TOKENS = 256


def suspend_aware_time() -> float:
    """Return monotonic time in seconds, which on Linux and macOS includes the time that the machine is suspended."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # on macOS, unlike time.monotonic(), this clock counts sleep
    return time.monotonic()


class TokenAges:
    """Tracker of the ages of access tokens, unaffected by later changes to the wall clock.

    The age of a token is computed from the wall clock once, when this process first sees the token. After that,
    it is measured with a monotonic clock.
    """

    def __init__(
        self, clock: Callable[[], float] = suspend_aware_time, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._first_seen: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def age(self, token: str, issued: float) -> float:
        """Return the seconds since *token* was issued, or infinity if that is unknown.

        *issued* is in seconds since 1970. If it is over five minutes in the future when this process first sees the
        token, the wall clock must have been set back, and the age is unknown.
        """
        return self._clock() - self.issue_time(token, issued)

    def issue_time(self, token: str, issued: float) -> float:
        """Return the time at which *token* was issued, in seconds on the monotonic clock.

        *issued* is that time as a Unix timestamp. Returns minus infinity if *issued* is over five minutes in the future
        when this process first sees the token. The result for a token stays the same while the token is among the 256
        most recently used.
        """
        key = hashlib.sha256(f"{issued} {token}".encode()).digest()
        now = self._clock()
        seen = self._first_seen.get(key)
        if seen is None:
            age = self._wall_clock() - issued
            seen = self._first_seen[key] = (now, max(0.0, age) if age > -CLOCK_SLACK else float("inf"))
            if len(self._first_seen) > _MAX_TOKENS:
                self._first_seen.popitem(last=False)
        self._first_seen.move_to_end(key)
        return seen[0] - seen[1]


token_ages = TokenAges()
"""The instance that this process uses."""


FETCHED_ON_DEMAND = "earned"
"""The `place` of a token that is not stored, because it can be fetched without the user when needed."""
DEFAULT_ACCOUNT_NAME = "default"
"""The name shown for the unnamed account."""


_QUERY_DIGEST = re.compile(r"…sha256=[0-9a-f]{32}")


def make_entry_name(kind: str, *parts: str) -> str:
    """Return the name for an entry in secret storage: *kind* and a digest of *parts*, which does not reveal them."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]
    return f"sign-in-{kind}-{digest}"


def hide_query(url: str) -> str:
    """Return *url*, a server's canonical URL, with its query replaced by a digest.

    The query may contain a secret. Different queries give different results. A URL whose query has already been
    replaced, or that has none, is returned unchanged.
    """
    base, mark, query = url.partition("?")
    if not mark or _QUERY_DIGEST.fullmatch(query):
        return url
    return f"{base}?…sha256={hashlib.sha256(query.encode()).hexdigest()[:32]}"


class DiscoverySummary(Struct, frozen=True, kw_only=True):
    """The OAuth endpoints and metadata URLs found at sign-in, stored for display only.

    All values come from the MCP server and its authorization server. `resource_metadata` is the URL of the MCP server's
    metadata document, and `issuer_metadata` is that of the authorization server; each is "" if there is no document.
    """

    resource_metadata: str = ""
    issuer_metadata: str = ""
    metadata_kind: str = field(default="", name="form")
    """The issuer's metadata: "oauth" (RFC 8414), "oidc", or "legacy" (none: defaults of 2025-03-26)."""
    authorization_endpoint: str = field(default="", name="authorization")
    token_endpoint: str = field(default="", name="token")
    registration_endpoint: str = field(default="", name="registration")
    device_endpoint: str = field(default="", name="device")
    revocation_endpoint: str = field(default="", name="revocation")
    pkce_methods: tuple[str, ...] = field(default=(), name="pkce")
    sends_issuer: bool = field(default=False, name="names_itself")
    """Whether the issuer names itself in authorization responses (RFC 9207)."""


class Account(Struct, frozen=True, kw_only=True):
    """An account on one MCP server, without its secrets.

    - `url`: the server's URL as returned by `hide_query`.
    - `account`: the name that the user gave the account, or "" for the default account.
    - `expires`: when the access token expires, in seconds since 1970; 0 if unknown.
    """

    server: str
    url: str
    issuer: str
    account: str = ""
    scopes: tuple[str, ...] = ()
    expires: float = 0
    issued: float = 0
    """When the access token was issued, in seconds since 1970; 0 if an early version of mcphost stored it."""
    monotonic_expiry: float = field(default=0, name="ends")
    """When the token expires, in seconds of `suspend_aware_time`; 0 if this process has not used the token yet."""
    is_renewable: bool = field(default=False, name="renews")
    client_kind: str = field(default="", name="client")
    is_stored: bool = field(default=True, name="kept")
    """False if the sign-in could not be stored, so that it is lost when mcphost quits."""
    place: str = "keyring"
    """Where the sign-in is stored: "keyring", "file", "encrypted", "session" (memory only) or FETCHED_ON_DEMAND."""
    discovery: DiscoverySummary = field(default=DiscoverySummary(), name="discovered")
    """Empty if the sign-in was stored by an earlier version of mcphost."""
    entry: str = ""
    """The entry name of the tokens in secret storage.

    Needed if it cannot be derived from `url` because the query was replaced; otherwise empty.
    """

    @property
    def entry_name(self) -> str:
        """Name under which the tokens are stored in secret storage."""
        return self.entry or make_entry_name("tokens", self.url, self.issuer, self.account)

    @property
    def identity(self) -> tuple[str, str]:
        """The server URL and the account name, which together identify an account."""
        return self.url, self.account

    def seconds_left(self, now: float | None = None) -> float:
        """Return the seconds until the access token expires: negative if it has expired, infinity if unknown.

        *now* is the wall-clock time in seconds since 1970; it is ignored if `monotonic_expiry` is known.
        """
        if not self.expires:
            return math.inf
        if self.monotonic_expiry:
            return self.monotonic_expiry - suspend_aware_time()
        return self.expires - (time.time() if now is None else now)

    def has_future_issue(self, now: float | None = None) -> bool:
        """Return whether the token seems to have been issued in the future, because the clock was set back.

        The token's age is then unknown. *now* is the wall-clock time in seconds since 1970. The result is False if
        `monotonic_expiry` is known.
        """
        return not self.monotonic_expiry and self.issued - (time.time() if now is None else now) > CLOCK_SLACK

    @property
    def name(self) -> str:
        """The account name to display: "default" if the user gave the account no name."""
        return self.account or DEFAULT_ACCOUNT_NAME

    def has_name(self, name: str) -> bool:
        """Return whether *name* refers to this account; "default" refers to the account without a name."""
        return self.account == account_key(name)


class StoredAccount(Struct, frozen=True, kw_only=True):
    """A stored account and the names of the configured servers that can use it.

    `used_by` names the servers that use the account now, and `configured_by` those whose configuration requires it.
    """

    account: Account
    servers: tuple[str, ...] = ()
    """The configured servers that can use the account; empty if its server is no longer configured."""
    used_by: tuple[str, ...] = ()
    """The servers among `servers` that use the account, or will use it when they connect."""
    configured_by: tuple[str, ...] = ()
    """The servers in `used_by` whose `mcp.json` entry names the account, so that no other can be selected."""

    def has_name(self, name: str) -> bool:
        """Return whether *name* refers to this account; see `Account.has_name`."""
        return self.account.has_name(name)


def account_key(name: str) -> str:
    """Return an account name as it is stored: "" instead of "default", any other *name* unchanged."""
    return "" if name == DEFAULT_ACCOUNT_NAME else name


INDEX_FILE = "sign-ins.json"
_MAX_BYTES = 4 * 1024 * 1024


class ChosenAccount(Struct, frozen=True):
    """The account that the user selected for the server at `url`; `account` is "" for the default account.

    `url` is the server's URL as returned by `hide_query`.
    """

    url: str
    account: str


class AccountIndexContent(Struct, frozen=True):
    """The content of the index file: all stored accounts, and the account selected for each server."""

    accounts: tuple[Account, ...] = ()
    chosen: tuple[ChosenAccount, ...] = ()


class AccountIndex:
    """The index file of stored accounts, shared by all mcphost processes.

    Each change is made under a file lock, after reading the file again. A file that cannot be read is never
    overwritten, and a damaged file is renamed before a new one is written. *warn* receives messages about such files.
    """

    def __init__(self, directory: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self._directory = directory
        self._warn = warn

    async def read(self) -> AccountIndexContent:
        """Return the content of the index; if the file cannot be read, warn and return an empty one."""
        try:
            stored = await anyio.to_thread.run_sync(_read, self._directory / INDEX_FILE)
            content = _without_queries(stored)
            if content != stored:
                await self._rewrite()
            return content
        except MalformedMessage as error:
            self._warn(f"{self._directory / INDEX_FILE} is damaged, so earlier sign-ins are unknown. {error.message}")
        except OSError as error:
            self._warn(
                f"{self._directory / INDEX_FILE} cannot be read, so earlier sign-ins are unknown: {error.strerror}."
            )
        return AccountIndexContent()

    async def _rewrite(self) -> None:
        """Rewrite the index file, removing the URL queries that earlier versions of mcphost stored.

        Errors are ignored.
        """
        with suppress(OSError, McpHostError):
            async with lock_file(self._directory / "index.lock"):
                await self._write(await self._read_for_update())

    async def _read_for_update(self) -> AccountIndexContent:
        """Return the content of the index file, to be modified and written back. Raises OSError.

        A damaged file is renamed, and an empty index is returned. The caller must hold the file lock.
        """
        path = self._directory / INDEX_FILE
        try:
            return _without_queries(await anyio.to_thread.run_sync(_read, path))
        except MalformedMessage:
            aside = path.with_name(f"{INDEX_FILE}.damaged-{time.time_ns()}")
            await anyio.to_thread.run_sync(os.rename, path, aside)
            self._warn(f"{path} is damaged and was moved to {aside.name}. Sign in again where you are asked to.")
            return AccountIndexContent()

    async def update(self, key: tuple[str, str], entry: Account | None) -> None:
        """Store *entry* in the index under *key* (URL and account name); None removes the entry.

        Raises OSError or McpHostError if the index cannot be changed.
        """
        async with lock_file(self._directory / "index.lock"):
            content = await self._read_for_update()
            others = [other for other in content.accounts if other.identity != key]
            await self._write(AccountIndexContent((*others, *([entry] if entry else ())), content.chosen))

    async def choose_account(self, url: str, account: str | None) -> None:
        """Select an account for the server at *url*; None clears the selection.

        Raises OSError or McpHostError if the index cannot be changed.
        """
        async with lock_file(self._directory / "index.lock"):
            content = await self._read_for_update()
            others = [other for other in content.chosen if other.url != url]
            await self._write(
                AccountIndexContent(
                    content.accounts, (*others, *([] if account is None else [ChosenAccount(url, account)]))
                )
            )

    async def _write(self, content: AccountIndexContent) -> None:
        """Write the index file.

        Raises OSError if the file cannot be written, or if it would be too large for `read`.
        """
        raw = encode(content)
        if len(raw) > _MAX_BYTES:
            raise OSError(errno.EFBIG, f"it would be over {_MAX_BYTES // 1024 // 1024} MiB")
        await anyio.to_thread.run_sync(_write_file, self._directory, raw)


def _read(path: Path) -> AccountIndexContent:
    """Read the index file; return an empty index if it is missing. Raises OSError or MalformedMessage."""
    try:
        raw, _ = read_regular_file(path, _MAX_BYTES, follow_links=True)
    except FileNotFoundError:
        return AccountIndexContent()
    except ConfigError as error:
        raise OSError(errno.EINVAL, "it is not a regular file") from error
    if len(raw) > _MAX_BYTES:
        raise MalformedMessage(f"It is over {_MAX_BYTES // 1024 // 1024} MiB.")
    return decode(raw, AccountIndexContent, "list of sign-ins")


def _without_queries(content: AccountIndexContent) -> AccountIndexContent:
    """Return *content* with `hide_query` applied to all URLs.

    This is necessary because earlier versions of mcphost stored the queries.
    """
    return AccountIndexContent(
        tuple(map(_without_query, content.accounts)),
        tuple(ChosenAccount(hide_query(choice.url), choice.account) for choice in content.chosen),
    )


def _without_query(entry: Account) -> Account:
    url = hide_query(entry.url)
    return entry if url == entry.url else replace(entry, url=url, entry=entry.entry_name)


def _write_file(directory: Path, raw: bytes) -> None:
    make_private_directory(directory)
    replace_file(directory / INDEX_FILE, raw)
