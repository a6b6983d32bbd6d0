"""Storage of secrets in a file of mode 0600, plain or encrypted, for machines without a keyring.

The file is used only if the user chose it. To make a change, the file is read again and replaced, under a lock that all
processes share. Encryption is AES-256-GCM with a key that scrypt derives from the passphrase (RFC 7914).
"""

import base64
import os
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from mcphost.config.file_edits import (
    FileSnapshot,
    lock_file,
    read_snapshot,
    remove_abandoned_copies,
    replace_if_unchanged,
)
from mcphost.errors import ConfigError, ConsentDenied, MalformedMessage, McpHostError
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode

PLAIN_FILE = "secrets.json"
ENCRYPTED_FILE = "secrets.sealed.json"
MAX_FILE_BYTES = 4 * 1024 * 1024
SCRYPT_LOG_N = 17
"""N = 2**17 with r = 8, which OWASP recommends, takes 128 MB and about half a second per guess."""
_SCRYPT_LOG_N_RANGE = range(14, 21)
_SCRYPT_R, _SCRYPT_P = 8, 1
_FILE_VERSION = 1
T = TypeVar("T")


class SecretsLocked(ConsentDenied):
    """Raised when the encrypted file is locked because the correct passphrase has not been entered."""


class _DamagedFile(McpHostError):
    """Raised when the content of the secrets file is invalid."""


class _PlainContent(Struct, frozen=True):
    version: int
    secrets: dict[str, str]

    def __repr__(self) -> str:
        return f"_PlainContent({len(self.secrets)})"


class _EncryptedContent(Struct, frozen=True):
    version: int
    log_n: int
    salt: str
    check: str
    nonce: str
    sealed: str


class PassphraseKey(Struct, frozen=True):
    """An encryption key derived from a passphrase, and a check value for verifying passphrases.

    The repr contains neither.
    """

    log_n: int
    salt: bytes
    key: bytes
    check: bytes

    def __repr__(self) -> str:
        return "PassphraseKey(…)"

    @classmethod
    def derive(cls, passphrase: str, salt: bytes, log_n: int = SCRYPT_LOG_N) -> "PassphraseKey":
        """Derive the key from a passphrase and a *salt* with scrypt.

        *log_n* is the base-2 logarithm of scrypt's cost parameter N. Takes about half a second, so call it in a
        thread.
        """
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        raw = Scrypt(salt=salt, length=48, n=2**log_n, r=_SCRYPT_R, p=_SCRYPT_P).derive(
            passphrase.encode("utf-8", "surrogatepass")
        )
        return cls(log_n, salt, raw[:32], raw[32:])

    def encrypt(self, content: bytes) -> _EncryptedContent:
        """Encrypt *content* with a new nonce."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(12)
        return _EncryptedContent(
            version=_FILE_VERSION,
            log_n=self.log_n,
            salt=_encode_base64(self.salt),
            check=_encode_base64(self.check),
            nonce=_encode_base64(nonce),
            sealed=_encode_base64(AESGCM(self.key).encrypt(nonce, content, self._associated_data())),
        )

    def decrypt(self, content: _EncryptedContent) -> bytes:
        """Return the decrypted content. Raises ValueError if it is damaged or was encrypted with another key."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(self.key).decrypt(
                _decode_base64(content.nonce), _decode_base64(content.sealed), self._associated_data()
            )
        except InvalidTag as error:
            raise ValueError("the content was not encrypted with this key") from error

    def _associated_data(self) -> bytes:
        return f"mcphost secrets {_FILE_VERSION} {self.log_n} ".encode() + self.salt


class FileBackend:
    """A SecretBackend that stores secrets unencrypted in a file of mode 0600.

    *warn* receives messages about the file. Only the file of the subclass EncryptedFileBackend can be locked.
    """

    is_encrypted = False

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self.path = path
        self.warn = warn
        self._has_warned_of_mode = False
        self._pending_warnings: list[str] = []  # collected in threads, reported by the event loop

    async def get(self, name: str) -> str | None:
        """Return the named secret, or None if it is not stored.

        Raises SecretsLocked if the file is locked, and McpHostError if it cannot be used.
        """
        return (await self._read())[1].get(name)

    async def set(self, name: str, secret: str) -> None:
        """Store the secret.

        Raises SecretsLocked if the file is locked, and McpHostError if it cannot be written.
        """
        await self._update(lambda known: {**known, name: secret})

    async def delete(self, name: str) -> None:
        """Remove the secret.

        Raises SecretsLocked if the file is locked, and McpHostError if it cannot be written.
        """
        await self._update(lambda known: {other: secret for other, secret in known.items() if other != name})

    async def describe(self) -> str:
        """Read the file, and return a description of its path and protection.

        Raises SecretsLocked if the file is locked, and McpHostError if it cannot be used.
        """
        await self._read()
        return f"{self.path} (mode 0600, not encrypted)"

    # -- overridden by EncryptedFileBackend
    def _decode(self, raw: bytes) -> dict[str, str]:
        """Parse the content of the file into secrets, keyed by name.

        Raises MalformedMessage or ValueError if the file is damaged, SecretsLocked if it is locked.
        """
        content = decode(raw, _PlainContent, "file")
        _check_version(content.version)
        return content.secrets

    def _encode(self, entries: dict[str, str]) -> bytes:
        return encode(_PlainContent(_FILE_VERSION, entries))

    # -- internal
    async def _read(self) -> tuple[FileSnapshot | None, dict[str, str]]:
        try:
            return await self._run_in_thread(self._load)
        except _DamagedFile:
            async with self._lock():
                return await self._run_in_thread(self._load_or_move_aside)

    async def _update(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        def work() -> None:
            make_private_directory(self.path.parent)
            remove_abandoned_copies(self.path)  # otherwise, they keep secrets that were deleted since
            before, current = self._load_or_move_aside()
            changed = change(current)
            if changed != current:
                raw = self._encode(changed)
                if len(raw) > MAX_FILE_BYTES:
                    raise McpHostError(
                        f"{self.path} would be over {MAX_FILE_BYTES} bytes.",
                        "Sign out of a server that you no longer use.",
                    )
                replace_if_unchanged(self.path, before, raw, mode=0o600)

        async with self._lock():
            await self._run_in_thread(work)

    def _lock(self) -> AbstractAsyncContextManager[None]:
        return lock_file(self.path.with_suffix(".lock"))

    def _load(self) -> tuple[FileSnapshot | None, dict[str, str]]:
        snapshot = self._read_file()
        if snapshot is None:
            return None, {}
        try:
            return snapshot, self._decode(snapshot.content)
        except (MalformedMessage, ValueError) as error:
            raise _DamagedFile(f"{self.path} is damaged.") from error

    def _load_or_move_aside(self) -> tuple[FileSnapshot | None, dict[str, str]]:
        """Return a snapshot of the file and its secrets; rename the file if it is damaged.

        If the file is missing or damaged, the result is None and an empty dict. The caller must hold the file lock.
        """
        try:
            return self._load()
        except _DamagedFile:
            self._move_aside()
            return None, {}

    def _move_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        os.rename(self.path, aside)
        self._pending_warnings.append(
            f"{self.path} is damaged and was moved to {aside.name}. Sign in again where you are asked to."
        )

    def _read_file(self) -> FileSnapshot | None:
        try:
            snapshot = read_snapshot(self.path, MAX_FILE_BYTES)
        except FileNotFoundError:
            return None
        if snapshot.owner != os.geteuid():
            raise ConfigError(f"{self.path} belongs to another user and is not used.", "Remove it.")
        if snapshot.mode & 0o077 and not self._has_warned_of_mode:
            self._has_warned_of_mode = True
            self._pending_warnings.append(
                f"Other users can read {self.path} (mode {snapshot.mode:04o}). Correct it: chmod 600 "
                f"{self.path}; if someone may have read it, sign out and in again."
            )
        return snapshot

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            raise McpHostError(f"{self.path} cannot be used: {error.strerror}.", "Check its permissions.") from error
        finally:
            while self._pending_warnings:
                self.warn(self._pending_warnings.pop(0))


class EncryptedFileBackend(FileBackend):
    """A FileBackend whose file is encrypted; secrets can be read and stored only after `unlock`."""

    is_encrypted = True

    def __init__(
        self, path: Path, warn: Callable[[str], None] = lambda text: None, *, log_n: int = SCRYPT_LOG_N
    ) -> None:
        super().__init__(path, warn)
        self._key: PassphraseKey | None = None
        self._log_n = log_n

    @property
    def exists(self) -> bool:
        """Whether the file exists and therefore already has a passphrase."""
        return os.path.lexists(self.path)

    @property
    def is_unlocked(self) -> bool:
        """Whether the correct passphrase has been entered in this process."""
        return self._key is not None

    async def unlock(self, passphrase: str) -> bool:
        """Unlock the file with *passphrase*; return whether the passphrase is correct.

        If there is no file yet, *passphrase* becomes its passphrase. Raises McpHostError if the file cannot be used.
        """
        async with self._lock():
            self._key = await self._run_in_thread(lambda: self._make_or_check_key(passphrase))
        return self._key is not None

    async def describe(self) -> str:
        """Return a description of the file: its path, and whether it is unlocked.

        Raises McpHostError if the file cannot be used.
        """
        await self._run_in_thread(self._read_file)
        return f"{self.path} (encrypted, {'open' if self.is_unlocked else 'locked'})"

    def _make_or_check_key(self, passphrase: str) -> PassphraseKey | None:
        snapshot = self._read_file()
        if snapshot is not None:
            try:
                content = _parse_encrypted(snapshot.content)
            except (MalformedMessage, ValueError):
                self._move_aside()
            else:
                key = PassphraseKey.derive(passphrase, _decode_base64(content.salt), content.log_n)
                return key if secrets.compare_digest(key.check, _decode_base64(content.check)) else None
        return PassphraseKey.derive(passphrase, secrets.token_bytes(16), self._log_n)

    def _decode(self, raw: bytes) -> dict[str, str]:
        content = _parse_encrypted(raw)
        key = self._key
        # Another process may have replaced the file and changed the passphrase.
        if key is None or _decode_base64(content.salt) != key.salt or _decode_base64(content.check) != key.check:
            raise SecretsLocked(f"{self.path} is locked.", "mcphost asks for its passphrase where it can.")
        return decode(key.decrypt(content), dict[str, str], "sealed content")

    def _encode(self, entries: dict[str, str]) -> bytes:
        if self._key is None:
            raise SecretsLocked(f"{self.path} is locked.", "mcphost asks for its passphrase where it can.")
        return encode(self._key.encrypt(encode(entries)))


def _parse_encrypted(raw: bytes) -> _EncryptedContent:
    """Parse the content of an encrypted file without decrypting it.

    Raises MalformedMessage or ValueError if the content is damaged, McpHostError if its format version is not
    supported.
    """
    content = decode(raw, _EncryptedContent, "file")
    _check_version(content.version)
    # A cost parameter from another program could use up all memory.
    if (
        content.log_n not in _SCRYPT_LOG_N_RANGE
        or len(_decode_base64(content.salt)) != 16
        or len(_decode_base64(content.check)) != 16
    ):
        raise ValueError("not written by mcphost")
    return content


def _check_version(version: int) -> None:
    if version != _FILE_VERSION:
        raise McpHostError(
            f"The secrets file has version {version}, which this mcphost cannot read.", "Update mcphost."
        )


def _encode_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
