"""Secrets in a file, for machines without a keyring: readable by its owner alone, and sealed by a pass phrase or not.

Nothing is put here unless the user chose it. The file is written whole, under a lock that all processes share, after
it was read again. Sealed means AES-256-GCM under a key that scrypt makes of the pass phrase (RFC 7914).
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

from mcphost.auth.file_lock import locked
from mcphost.config.atomic_write import Written, read_own, swap
from mcphost.errors import ConfigError, ConsentDenied, MalformedMessage, McpHostError
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode

PLAIN_FILE = "secrets.json"
SEALED_FILE = "secrets.sealed.json"
MOST_BYTES = 4 * 1024 * 1024
LOG_N = 17
"""scrypt with N = 2**17, r = 8: 128 MB and about half a second for each guess (OWASP's recommendation)."""
_LOG_N_BOUNDS = range(14, 21)
_R, _P = 8, 1
_VERSION = 1
T = TypeVar("T")


class Locked(ConsentDenied):
    """The file can only be read with its pass phrase, which nobody has given in this run."""


class _Damaged(McpHostError):
    """What is in the file is not what was put there."""


class _Plain(Struct, frozen=True):
    version: int
    secrets: dict[str, str]

    def __repr__(self) -> str:
        return f"_Plain({len(self.secrets)})"


class _Sealed(Struct, frozen=True):
    version: int
    log_n: int
    salt: str
    check: str
    nonce: str
    sealed: str


class Seal(Struct, frozen=True):
    """What a pass phrase became: the key, and what tells it from a wrong one; its repr shows neither."""

    log_n: int
    salt: bytes
    key: bytes
    check: bytes

    def __repr__(self) -> str:
        return "Seal(…)"

    @classmethod
    def made(cls, phrase: str, salt: bytes, log_n: int = LOG_N) -> "Seal":
        """Half a second of work; not for the event loop."""
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        raw = Scrypt(salt=salt, length=48, n=2**log_n, r=_R, p=_P).derive(phrase.encode("utf-8", "surrogatepass"))
        return cls(log_n, salt, raw[:32], raw[32:])

    def closed(self, content: bytes) -> _Sealed:
        """Sealed under a fresh nonce."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(12)
        return _Sealed(
            version=_VERSION,
            log_n=self.log_n,
            salt=_text(self.salt),
            check=_text(self.check),
            nonce=_text(nonce),
            sealed=_text(AESGCM(self.key).encrypt(nonce, content, self._about())),
        )

    def opened(self, sealed: _Sealed) -> bytes:
        """What was sealed. Raises ValueError when it is damaged."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(self.key).decrypt(_bytes(sealed.nonce), _bytes(sealed.sealed), self._about())
        except InvalidTag as error:
            raise ValueError("the seal does not fit") from error

    def _about(self) -> bytes:
        return f"mcphost secrets {_VERSION} {self.log_n} ".encode() + self.salt


class FileVault:
    """A SecretVault in a file of mode 0600. `warn` hears sentences about the file."""

    is_sealed = False

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self.path = path
        self.warn = warn
        self._warned = False
        self._notes: list[str] = []  # what threads found, told by the event loop

    async def get(self, name: str) -> str | None:
        """The secret, or None. Raises McpHostError, Locked."""
        return (await self._read())[1].get(name)

    async def set(self, name: str, secret: str) -> None:
        """Store it. Raises McpHostError, Locked."""
        await self._change(lambda known: {**known, name: secret})

    async def delete(self, name: str) -> None:
        """Remove it. Raises McpHostError, Locked."""
        await self._change(lambda known: {other: secret for other, secret in known.items() if other != name})

    async def describe(self) -> str:
        """The path and how it is protected, after reading it. Raises McpHostError, Locked."""
        await self._read()
        return f"{self.path} (mode 0600, not encrypted)"

    # -- what a sealed file does otherwise
    def _decoded(self, raw: bytes) -> dict[str, str]:
        """Raises MalformedMessage, ValueError for a damaged file, Locked."""
        found = decode(raw, _Plain, "file")
        _check_version(found.version)
        return found.secrets

    def _encoded(self, known: dict[str, str]) -> bytes:
        return encode(_Plain(_VERSION, known))

    # -- inside
    async def _read(self) -> tuple[Written | None, dict[str, str]]:
        try:
            return await self._work(self._loaded)
        except _Damaged:
            async with self._alone():
                return await self._work(self._saved_from_damage)

    async def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        def work() -> None:
            make_private_directory(self.path.parent)
            before, known = self._saved_from_damage()
            wanted = change(known)
            if wanted != known:
                raw = self._encoded(wanted)
                if len(raw) > MOST_BYTES:
                    raise McpHostError(f"{self.path} would be over {MOST_BYTES} bytes.", "Sign out of something.")
                swap(self.path, before, raw, mode=0o600)

        async with self._alone():
            await self._work(work)

    def _alone(self) -> AbstractAsyncContextManager[None]:
        return locked(self.path.with_suffix(".lock"))

    def _loaded(self) -> tuple[Written | None, dict[str, str]]:
        found = self._found()
        if found is None:
            return None, {}
        try:
            return found, self._decoded(found.content)
        except (MalformedMessage, ValueError) as error:
            raise _Damaged(f"{self.path} is damaged.") from error

    def _saved_from_damage(self) -> tuple[Written | None, dict[str, str]]:
        """Under the lock only: what is damaged is moved aside, so that nobody's good file ever is."""
        try:
            return self._loaded()
        except _Damaged:
            self._move_aside()
            return None, {}

    def _move_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        os.rename(self.path, aside)
        self._notes.append(
            f"{self.path} is damaged and was moved to {aside.name}. Sign in again where you are asked to."
        )

    def _found(self) -> Written | None:
        try:
            found = read_own(self.path, MOST_BYTES)
        except FileNotFoundError:
            return None
        if found.owner != os.geteuid():
            raise ConfigError(f"{self.path} belongs to somebody else and is not used.", "Remove it.")
        if found.mode & 0o077 and not self._warned:
            self._warned = True
            self._notes.append(
                f"Others can read {self.path} (mode {found.mode:04o}). Correct it: chmod 600 {self.path}; and if "
                "somebody may have read it, sign out and in again."
            )
        return found

    async def _work(self, work: Callable[[], T]) -> T:
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            raise McpHostError(f"{self.path} cannot be used: {error.strerror}.", "Check its permissions.") from error
        finally:
            while self._notes:
                self.warn(self._notes.pop(0))


class SealedVault(FileVault):
    """A FileVault that only a pass phrase opens; it is asked for once a run, by whoever calls `unlock`."""

    is_sealed = True

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda text: None, *, log_n: int = LOG_N) -> None:
        super().__init__(path, warn)
        self._seal: Seal | None = None
        self._log_n = log_n

    @property
    def exists(self) -> bool:
        """Whether there is such a file, so that its pass phrase is fixed."""
        return os.path.lexists(self.path)

    @property
    def is_open(self) -> bool:
        """Whether a pass phrase was given that fitted then."""
        return self._seal is not None

    async def unlock(self, phrase: str) -> bool:
        """Whether it is the pass phrase of this file; of a new file it becomes it. Raises McpHostError."""
        async with self._alone():
            self._seal = await self._work(lambda: self._fitting(phrase))
        return self._seal is not None

    async def describe(self) -> str:
        """The path, and that it is encrypted. Raises McpHostError for a file that cannot be used."""
        await self._work(self._found)
        return f"{self.path} (encrypted, {'open' if self.is_open else 'locked'})"

    def _fitting(self, phrase: str) -> Seal | None:
        found = self._found()
        if found is not None:
            try:
                sealed = _sealed(found.content)
            except (MalformedMessage, ValueError):
                self._move_aside()
            else:
                seal = Seal.made(phrase, _bytes(sealed.salt), sealed.log_n)
                return seal if secrets.compare_digest(seal.check, _bytes(sealed.check)) else None
        return Seal.made(phrase, secrets.token_bytes(16), self._log_n)

    def _decoded(self, raw: bytes) -> dict[str, str]:
        sealed = _sealed(raw)
        seal = self._seal
        # Another process may have begun the file anew, with another pass phrase.
        if seal is None or _bytes(sealed.salt) != seal.salt or _bytes(sealed.check) != seal.check:
            raise Locked(f"{self.path} is locked.", "Its pass phrase is asked for where somebody can be asked.")
        return decode(seal.opened(sealed), dict[str, str], "sealed content")

    def _encoded(self, known: dict[str, str]) -> bytes:
        if self._seal is None:
            raise Locked(f"{self.path} is locked.", "Its pass phrase is asked for where somebody can be asked.")
        return encode(self._seal.closed(encode(known)))


def _sealed(raw: bytes) -> _Sealed:
    """Raises MalformedMessage, ValueError for what cannot be ours, McpHostError for a later version's."""
    found = decode(raw, _Sealed, "file")
    _check_version(found.version)
    # A key made with the costs that a stranger wrote here could take all memory.
    if found.log_n not in _LOG_N_BOUNDS or len(_bytes(found.salt)) != 16 or len(_bytes(found.check)) != 16:
        raise ValueError("not a seal of ours")
    return found


def _check_version(version: int) -> None:
    if version != _VERSION:
        raise McpHostError(
            f"The file of secrets is of version {version}, which this mcphost cannot read.", "Update it."
        )


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
