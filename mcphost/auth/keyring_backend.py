"""Storage of secrets in the system keyring.

For storage in files, see `auth.file_backend`. The keyring library accepts any installed backend, even one that writes
plain text files (such as keyrings.alt). Therefore, this module selects the backend itself, from those that encrypt
secrets for the logged-in user.
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

from mcphost.config.file_edits import lock_file_blocking
from mcphost.errors import KeyringMissing, McpHostError
from mcphost.paths import runtime_dir

SERVICE_NAME = "mcphost"
CALL_TIMEOUT = 5.0
"""Time limit in seconds for one keyring operation; a locked keyring may be waiting for the user."""
MAX_SECRET_LENGTH = 262_144
"""Maximum length of a secret in characters: far more than any token has, and far fewer than would fill a keyring."""

ALLOWED_BACKENDS = {
    "keyring.backends.macOS": "macOS Keychain",
    "keyring.backends.Windows": "Windows Credential Manager",
    "keyring.backends.SecretService": "Secret Service",
    "keyring.backends.libsecret": "libsecret",
    "keyring.backends.kwallet": "KWallet",
}
MAX_VALUE_BYTES = {"keyring.backends.Windows": 2_560}
"""Maximum bytes of a value in UTF-16 (CRED_MAX_CREDENTIAL_BLOB_SIZE); longer secrets are split."""
NO_KEYRING = "There is no keyring that encrypts on this machine."
INSTALL_HINT = "Install one (GNOME Keyring, KWallet), or keep the key in an environment variable."
UNLOCK_HINT = "Unlock it, or use an environment variable."
RETRY_DELAYS = (0.05, 0.2, 0.5)
"""Delays in seconds before each retry after an immediate failure: the keyring service may be starting."""
IMMEDIATE_FAILURE = 0.5
"""A failure within this many seconds is immediate: no user declines to unlock a keyring that quickly."""
_PARTS_PREFIX = "mcphost-parts"
_PROBE_NAME = "probe"

T = TypeVar("T")


class SecretBackend(Protocol):
    """Interface of a store for named secrets.

    Every method raises McpHostError if the store cannot be used, and can be cancelled.
    """

    async def get(self, name: str) -> str | None:
        """Return a secret, or None if there is none."""
        ...

    async def set(self, name: str, secret: str) -> None:
        """Store or replace a secret; after this returns, `get` returns the new secret."""
        ...

    async def delete(self, name: str) -> None:
        """Remove a secret; a missing secret is not an error."""
        ...

    async def describe(self) -> str:
        """Test whether the store can be used, and return a description of it.

        Raises McpHostError with the reason if the store cannot be used.
        """
        ...


class _KeyringCall:
    """A keyring operation in a thread of its own, which continues even if the task that waits for it is cancelled."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.done = anyio.Event()
        self.started_at = anyio.current_time()
        self.is_overdue = False
        """Whether the task that started the operation has stopped waiting for it."""
        self.value: Any = None
        self.error: Exception | None = None
        self._work = work
        self._token = current_token()
        try:
            # A daemon thread, because a keyring that never responds must not delay the exit, as anyio's threads would.
            threading.Thread(target=self._run, daemon=True, name="keyring").start()
        except RuntimeError as error:  # no more threads can be started
            self.error = error
            self.done.set()

    def _run(self) -> None:
        try:
            self.value = self._work()
        except Exception as error:  # noqa: BLE001 - keyring backends raise anything
            self.error = error
        with suppress(RuntimeError, anyio.RunFinishedError):  # the event loop has ended
            anyio.from_thread.run_sync(self.done.set, token=self._token)


class KeyringBackend:
    """A SecretBackend for the system keyring.

    On first use, a backend of the keyring library is selected in a thread, which takes 0.3 s.

    A lock file ensures that only one operation runs at a time across all mcphost processes of a login session.
    Concurrent operations can make gnome-keyring 42 lose access to its secrets for some time, or crash and restart
    locked.

    An operation that fails immediately is retried, unless the previous operation failed despite its retries. An
    operation that takes longer than *timeout* seconds is usually waiting for the user to unlock the keyring. Until it
    ends, all other operations fail immediately.
    """

    def __init__(self, find_backend: Callable[[], Any] | None = None, timeout: float = CALL_TIMEOUT) -> None:
        self._lock_path = None if find_backend else runtime_dir() / "keyring.lock"
        self._find_backend = find_backend or find_secure_backend
        self._timeout = timeout
        self._backend: Any = None
        self._has_searched = False
        self._is_failing = False
        self._last_call: _KeyringCall | None = None
        self._call_lock = anyio.Lock()

    async def get(self, name: str) -> str | None:
        """Return the named secret, or None if it is not stored.

        Raises McpHostError if the keyring is locked or does not respond.
        """
        return await self._run_in_thread(lambda: self._get(name))

    async def set(self, name: str, secret: str) -> None:
        """Store the secret. Raises McpHostError if there is no keyring, or if storing the secret fails."""
        if len(secret) > MAX_SECRET_LENGTH:
            raise McpHostError(f"The secret is over {MAX_SECRET_LENGTH} characters, too long for a keyring.")
        await self._run_in_thread(lambda: self._set(name, secret))

    async def delete(self, name: str) -> None:
        """Remove the secret. Raises McpHostError if the keyring is locked or does not respond."""
        await self._run_in_thread(lambda: self._delete(name))

    async def describe(self) -> str:
        """Test the keyring by reading from it, and return its name.

        Raises McpHostError if the keyring cannot be used.
        """
        return await self._run_in_thread(self._describe)

    # -- run in a thread
    def _call_with_retries(self, work: Callable[[], T]) -> T:
        """Call *work* and return its result.

        If *work* fails immediately, it is called again a few times. If every call fails, the last error is raised.
        """
        start = time.monotonic()
        delays = iter(() if self._is_failing else RETRY_DELAYS)
        while True:
            attempt_start = time.monotonic()
            try:
                with nullcontext() if self._lock_path is None else lock_file_blocking(self._lock_path):
                    value = work()
            except McpHostError:
                raise
            except Exception:
                now, delay = time.monotonic(), next(delays, None)
                was_immediate = now - attempt_start <= IMMEDIATE_FAILURE
                if delay is None or not was_immediate or now + delay - start > self._timeout / 2:
                    self._is_failing = True
                    raise
                time.sleep(delay)
            else:
                self._is_failing = False
                return value

    def _describe(self) -> str:
        backend = self._get_backend()
        if backend is None:
            raise KeyringMissing(f"{NO_KEYRING} {describe_missing_backend()}", INSTALL_HINT)
        self._read(backend, _PROBE_NAME)
        return ALLOWED_BACKENDS[type(backend).__module__]

    def _get(self, name: str) -> str | None:
        backend = self._get_backend()
        stored = None if backend is None else self._read(backend, name)
        header = _parse_parts_header(stored)
        if backend is None or header is None:
            return stored
        parts = [self._read(backend, part) for part in _part_names(name, *header[:2])]
        secret = "".join(part for part in parts if part is not None)
        return secret if _digest(secret) == header[2] else None

    def _set(self, name: str, secret: str) -> None:
        backend = self._get_backend()
        if backend is None:
            raise KeyringMissing(NO_KEYRING, INSTALL_HINT)
        old = self._read(backend, name)
        old_header = _parse_parts_header(old)
        max_chars = MAX_VALUE_BYTES.get(type(backend).__module__, 0) // 2
        if (max_chars and len(secret.encode("utf-16-le")) > max_chars * 2) or secret.startswith(f"{_PARTS_PREFIX}:"):
            step = (max_chars or MAX_SECRET_LENGTH) // 2  # a character may take two UTF-16 units
            pieces = [secret[start : start + step] for start in range(0, len(secret), step)]
            part_id = secrets.token_hex(4)
            for part, piece in zip(_part_names(name, part_id, len(pieces)), pieces, strict=True):
                backend.set_password(SERVICE_NAME, part, piece)
            backend.set_password(SERVICE_NAME, name, f"{_PARTS_PREFIX}:{part_id}:{len(pieces)}:{_digest(secret)}")
        else:
            backend.set_password(SERVICE_NAME, name, secret)
        if self._get(name) != secret:
            with suppress(Exception):  # an incomplete secret would be used in later runs
                if self._read(backend, name) != old:
                    self._delete(name)
            raise McpHostError("The keyring did not store the secret.", UNLOCK_HINT)
        self._delete_parts(backend, name, old_header)

    def _delete(self, name: str) -> None:
        backend = self._get_backend()
        if backend is None:
            return
        stored = self._read(backend, name)
        if stored is not None:
            backend.delete_password(SERVICE_NAME, name)
            self._delete_parts(backend, name, _parse_parts_header(stored))

    def _delete_parts(self, backend: Any, name: str, header: "_PartsHeader | None") -> None:
        """Delete the keyring entries that *header* lists as the parts of a long secret."""
        for part in _part_names(name, *header[:2]) if header else ():
            if self._read(backend, part) is not None:
                backend.delete_password(SERVICE_NAME, part)

    def _read(self, backend: Any, name: str) -> str | None:
        value = cast("object", backend.get_password(SERVICE_NAME, name))
        if value is not None and not isinstance(value, str):
            raise McpHostError(f"The keyring returned {type(value).__name__} instead of text.", UNLOCK_HINT)
        return value

    def _get_backend(self) -> Any:
        if not self._has_searched:
            self._backend = self._find_backend()
            self._has_searched = True
        return self._backend

    # -- run in the event loop
    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        last, call = self._last_call, None
        if (
            last is not None
            and not last.done.is_set()
            and (last.is_overdue or anyio.current_time() - last.started_at > self._timeout)
        ):
            raise McpHostError("The keyring still does not respond.", UNLOCK_HINT)
        try:
            with anyio.fail_after(self._timeout):
                async with self._call_lock:
                    if self._last_call is not None:
                        await self._last_call.done.wait()
                    call = self._last_call = _KeyringCall(lambda: self._call_with_retries(work))
                    await call.done.wait()
        except TimeoutError as error:
            if call is not None:
                call.is_overdue = True  # it started after the timeout began, so its age is still below the limit
            raise McpHostError(f"The keyring did not respond within {self._timeout:g} s.", UNLOCK_HINT) from error
        if isinstance(call.error, McpHostError):
            raise call.error
        if call.error is not None:
            raise McpHostError(
                f"The keyring reported an error: {type(call.error).__name__}.", UNLOCK_HINT
            ) from call.error
        return call.value


_PartsHeader = tuple[str, int, str]
"""An id that is part of the names of the entries, the number of entries, and the digest of the secret."""


def _parse_parts_header(stored: str | None) -> _PartsHeader | None:
    """Parse the header of a secret that is split into several keyring entries.

    Return None if *stored* is missing or not such a header.
    """
    words = (stored or "").split(":")
    if (
        len(words) != 4
        or words[0] != _PARTS_PREFIX
        or not words[2].isdecimal()
        or not 0 < int(words[2]) <= MAX_SECRET_LENGTH
    ):
        return None
    return words[1], int(words[2]), words[3]


def _part_names(name: str, part_id: str, count: int) -> list[str]:
    return [f"{name}.{part_id}.{number}" for number in range(count)]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def find_secure_backend() -> Any:
    """Return the keyring backend to use, or None if no installed backend is secure.

    Respects the user's configuration of the `keyring` library.
    """
    if sys.platform != "darwin":
        # The macOS module searches for the Keychain library; on Linux, that runs ldconfig, gcc and ld for 0.1 s.
        sys.modules.setdefault("keyring.backends.macOS.api", cast("Any", None))
    import keyring
    import keyring.backend
    import keyring.backends.chainer

    backend = keyring.get_keyring()
    if type(backend).__module__ in ALLOWED_BACKENDS:
        return backend
    if not isinstance(backend, keyring.backends.chainer.ChainerBackend):
        return None
    members: list[Any] = list(keyring.backend.get_all_keyring())
    allowed = [member for member in members if type(member).__module__ in ALLOWED_BACKENDS]
    return max(allowed, key=lambda member: float(member.priority), default=None)


def describe_missing_backend() -> str:
    """Explain why the backend that the keyring library would choose is not used."""
    import keyring

    chosen = type(keyring.get_keyring())
    if chosen.__module__ == "keyring.backends.fail":
        return "No keyring service is responding."
    return f"The installed backend ({chosen.__module__}) may store secrets unprotected and is not used."
