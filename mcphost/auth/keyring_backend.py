"""Secret storage in the system keyring, or in memory for this run; files are in `auth.file_backend`.

The keyring library takes whatever back end is installed, plain text files included (measured with keyrings.alt), so
the back end is chosen here, from the ones that encrypt for the signed-in user.
"""

import hashlib
import secrets
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, Protocol, TypeVar, cast

import anyio
import anyio.from_thread
from anyio.lowlevel import current_token

from mcphost.auth.file_lock import alone
from mcphost.errors import McpHostError
from mcphost.paths import runtime_dir

SERVICE = "mcphost"
LIMIT = 5.0
"""Seconds for one keyring call; a locked keyring may be waiting for a person."""
MOST = 262_144
"""Characters of one secret: far above any token, far below what would fill a keyring."""

ALLOWED = {
    "keyring.backends.macOS": "macOS Keychain",
    "keyring.backends.Windows": "Windows Credential Manager",
    "keyring.backends.SecretService": "Secret Service",
    "keyring.backends.libsecret": "libsecret",
    "keyring.backends.kwallet": "KWallet",
}
ROOM = {"keyring.backends.Windows": 2_560}
"""Bytes of UTF-16 that a value may have (CRED_MAX_CREDENTIAL_BLOB_SIZE); what is longer is kept in parts."""
NO_VAULT = "There is no keyring that encrypts on this machine."
FIX = "Install one (GNOME Keyring, KWallet), or keep the key in an environment variable."
UNLOCK = "Unlock it, or use an environment variable."
AGAIN = (0.05, 0.2, 0.5)
"""Seconds before a call that failed at once is tried again: a keyring's service may just be starting or restarting."""
_AT_ONCE = 0.5
"""Seconds: nobody refuses to unlock a keyring faster than this. What took longer is not tried again."""
_HEAD = "mcphost-parts"
_PROBE = "probe"

T = TypeVar("T")


class SecretVault(Protocol):
    """Named secrets. Every method raises McpHostError when the vault cannot be used, and may be cancelled."""

    async def get(self, name: str) -> str | None:
        """The secret, or None when there is none (or no vault)."""
        ...

    async def set(self, name: str, secret: str) -> None:
        """Store or replace it; when this returns it can be read again."""
        ...

    async def delete(self, name: str) -> None:
        """Remove it; a missing one is no error."""
        ...

    async def describe(self) -> str:
        """Which vault this is, for people; it was reached just now. Raises McpHostError saying why there is none."""
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

    async def describe(self) -> str:
        """Says that nothing is kept."""
        return "memory only: secrets are forgotten when mcphost ends"


class _Call:
    """One call into the keyring, on a thread of its own; it may outlive whoever waited for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.over = anyio.Event()
        self.began = anyio.current_time()
        self.value: Any = None
        self.error: Exception | None = None
        self._work = work
        self._token = current_token()
        try:
            # A daemon: a keyring that never answers must not hold up the end of the program (anyio's threads would).
            threading.Thread(target=self._run, daemon=True, name="keyring").start()
        except RuntimeError as error:  # no more threads
            self.error = error
            self.over.set()

    def _run(self) -> None:
        try:
            self.value = self._work()
        except Exception as error:  # noqa: BLE001 - the boundary to keyring back ends, which raise anything
            self.error = error
        with suppress(RuntimeError, anyio.RunFinishedError):  # the program ended meanwhile
            anyio.from_thread.run_sync(self.over.set, token=self._token)


class KeyringVault:
    """The system's keyring. The back end is looked for on first use, on a thread: finding it takes 0.3 s.

    One call at a time, of all mcphosts of a login: several at once make gnome-keyring 42 lose its collection for a
    moment, or abort and come back locked (measured: within a minute of six processes that read and write all the time;
    never with the lock). A call that fails at once is tried again, but not by a keyring that failed all tries before.
    After one that did not answer within `limit` seconds the others fail at once until it did: a keyring that waits for
    its user is usable as soon as it was unlocked, and holds up nobody before.
    """

    def __init__(self, service: str = SERVICE, find: Callable[[], Any] | None = None, limit: float = LIMIT) -> None:
        self._service = service
        self._lock = None if find else runtime_dir() / "keyring.lock"
        self._find = find or secure_backend
        self._limit = limit
        self._backend: Any = None
        self._searched = False
        self._failing = False
        self._last: _Call | None = None
        self._turn = anyio.Lock()

    async def get(self, name: str) -> str | None:
        """The secret, or None. Raises McpHostError when the keyring is locked or does not answer."""
        return await self._on_thread(lambda: self._get(name))

    async def set(self, name: str, secret: str) -> None:
        """Store it. Raises McpHostError, also when there is no keyring, or it did not keep what it took."""
        if len(secret) > MOST:
            raise McpHostError(f"The secret is over {MOST} characters, too long for a keyring.")
        await self._on_thread(lambda: self._set(name, secret))

    async def delete(self, name: str) -> None:
        """Remove it. Raises McpHostError when the keyring is locked or does not answer."""
        await self._on_thread(lambda: self._delete(name))

    async def describe(self) -> str:
        """The back end's name, after reading from it. Raises McpHostError saying why it cannot be used."""
        return await self._on_thread(self._describe)

    # -- on the thread
    def _patiently(self, work: Callable[[], T]) -> T:
        """What it returns; raises what its last try raised."""
        began = time.monotonic()
        pauses = iter(() if self._failing else AGAIN)
        while True:
            tried = time.monotonic()
            try:
                with nullcontext() if self._lock is None else alone(self._lock):
                    value = work()
            except McpHostError:
                raise
            except Exception:
                now, pause = time.monotonic(), next(pauses, None)
                if pause is None or now - tried > _AT_ONCE or now + pause - began > self._limit / 2:
                    self._failing = True
                    raise
                time.sleep(pause)
            else:
                self._failing = False
                return value

    def _describe(self) -> str:
        backend = self._found()
        if backend is None:
            raise McpHostError(f"{NO_VAULT} {why_none()}", FIX)
        self._read(backend, _PROBE)
        return ALLOWED[type(backend).__module__]

    def _get(self, name: str) -> str | None:
        backend = self._found()
        stored = None if backend is None else self._read(backend, name)
        head = _head(stored)
        if backend is None or head is None:
            return stored
        parts = [self._read(backend, part) for part in _parts(name, *head[:2])]
        whole = "".join(part for part in parts if part is not None)
        return whole if _digest(whole) == head[2] else None

    def _set(self, name: str, secret: str) -> None:
        backend = self._found()
        if backend is None:
            raise McpHostError(NO_VAULT, FIX)
        old = _head(self._read(backend, name))
        room = ROOM.get(type(backend).__module__, 0) // 2
        if (room and len(secret.encode("utf-16-le")) > room * 2) or secret.startswith(f"{_HEAD}:"):
            step = (room or MOST) // 2  # half: a character may take two of UTF-16's units
            pieces = [secret[start : start + step] for start in range(0, len(secret), step)]
            mark = secrets.token_hex(4)
            for part, piece in zip(_parts(name, mark, len(pieces)), pieces, strict=True):
                backend.set_password(self._service, part, piece)
            backend.set_password(self._service, name, f"{_HEAD}:{mark}:{len(pieces)}:{_digest(secret)}")
        else:
            backend.set_password(self._service, name, secret)
        if self._get(name) != secret:
            raise McpHostError("The keyring did not keep what it took.", UNLOCK)
        self._clear(backend, name, old)

    def _delete(self, name: str) -> None:
        backend = self._found()
        if backend is None:
            return
        stored = self._read(backend, name)
        if stored is not None:
            backend.delete_password(self._service, name)
            self._clear(backend, name, _head(stored))

    def _clear(self, backend: Any, name: str, head: "_Head | None") -> None:
        """Remove the parts that nothing points to any more."""
        for part in _parts(name, *head[:2]) if head else ():
            if self._read(backend, part) is not None:
                backend.delete_password(self._service, part)

    def _read(self, backend: Any, name: str) -> str | None:
        value = cast("object", backend.get_password(self._service, name))
        if value is not None and not isinstance(value, str):
            raise McpHostError(f"The keyring answered with {type(value).__name__} where text belongs.", UNLOCK)
        return value

    def _found(self) -> Any:
        if not self._searched:
            self._backend = self._find()
            self._searched = True
        return self._backend

    # -- off the thread
    async def _on_thread(self, work: Callable[[], T]) -> T:
        last = self._last
        if last is not None and not last.over.is_set() and anyio.current_time() - last.began > self._limit:
            raise McpHostError("The keyring still does not answer.", UNLOCK)
        try:
            with anyio.fail_after(self._limit):
                async with self._turn:
                    if self._last is not None:
                        await self._last.over.wait()
                    call = self._last = _Call(lambda: self._patiently(work))
                    await call.over.wait()
        except TimeoutError as error:
            raise McpHostError(f"The keyring did not answer within {self._limit:g} s.", UNLOCK) from error
        if isinstance(call.error, McpHostError):
            raise call.error
        if call.error is not None:
            raise McpHostError(f"The keyring refused: {type(call.error).__name__}.", UNLOCK) from call.error
        return call.value


_Head = tuple[str, int, str]


def _head(stored: str | None) -> _Head | None:
    """Mark, number of parts and digest of a secret that is kept in parts."""
    words = (stored or "").split(":")
    if len(words) != 4 or words[0] != _HEAD or not words[2].isdecimal() or not 0 < int(words[2]) <= MOST:
        return None
    return words[1], int(words[2]), words[3]


def _parts(name: str, mark: str, count: int) -> list[str]:
    return [f"{name}.{mark}.{number}" for number in range(count)]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def secure_backend() -> Any:
    """The best allowed back end that works here, or None; what the user configured for keyring is respected."""
    if sys.platform != "darwin":
        # It looks for the library of the Keychain, which on Linux runs ldconfig, gcc and ld: 0.1 s for nothing.
        sys.modules.setdefault("keyring.backends.macOS.api", cast("Any", None))
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
